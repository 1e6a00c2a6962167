"""The first minute of a training on one GPU, as a user waits for it: fresh processes with empty caches, beside torch
eager and torch.compile.

    python -m benchmarks.first_minute                                   nine networks; two to three minutes each
    python -m benchmarks.first_minute --only swin unet --filled         some of them, and Bireme again, its cache filled
    python -m benchmarks.first_minute --what lengths                    forty steps of forty lengths
    python -m benchmarks.first_minute --what generate                   64 tokens with a cache of keys and values
    python -m benchmarks.first_minute --what operators                  twenty operators, for the first time and again
    python -m benchmarks.first_minute --tiny --peers bireme torch       tiny sizes, to try it without a GPU

The networks train in mixed precision, in bfloat16, and read `loss.item()` in every step. A row is one process: its
first step, the end of its tenth, its longest step after the first, the median of its last ten steps, and the most
memory that it held. Bireme goes on for `--until` seconds before these last ten, since a better program may take over
meanwhile. Importing, building the model and placing the batches come before the clock. Floors: first step in 3 s, or 5 s where
there are convolutions or a billion weights, or half of torch eager's where that is more; no later step over 0.5 s;
torch.compile's step; 1.1 times its memory.
"""

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import accelerator, first_calls, gpu_images, gpu_networks, models
from benchmarks.accelerator import LOOK_UPS, TOLERANCE, peak_gib
from benchmarks.gpu_images import LARGE, Mobile, Stages
from benchmarks.gpu_networks import Diffusion, Llama
from benchmarks.measure import Floors, apart, cell, head, median, table
from benchmarks.peers import Peers

LAST = 10  # steps whose median is the steady one
FIRST = 2  # losses that are compared
LATER = 0.5  # seconds that no step after the first may take
NAMES = {"bireme": "bireme", "torch": "torch eager", "torch.compile": "torch.compile"}
SECOND = "bireme, second process"


@dataclass(frozen=True)
class Network:
    """What a network is trained with; `limit` is for the seconds of its first step."""

    sizes: object
    tiny: object
    paddle: Callable
    torch: Callable
    batches: Callable
    rate: float = 1e-4
    adam: bool = True
    limit: float = 3.0


def text(name):
    return Network(
        accelerator.WORK[name],
        accelerator.TINY[name],
        models.paddle_transformer,
        models.torch_transformer,
        models.texts,
    )


NETWORKS = {
    "gpt2": text("gpt2"),
    "bert128": text("bert128"),
    "bert512": text("bert512"),
    "resnet50": Network(
        accelerator.WORK["resnet50"],
        accelerator.TINY["resnet50"],
        lambda paddle, sizes: paddle.vision.models.resnet50(num_classes=sizes.classes),
        lambda torch, sizes: models.torch_resnet(torch, 50, sizes.classes),
        models.images,
        1e-3,
        False,
        5.0,
    ),
    "mobilenet_v3": Network(
        Mobile(128, 224),
        Mobile(4, 32, (LARGE[0], (5, 64, 24, True, False, 2), (3, 72, 24, True, True, 1)), 10),
        gpu_images.paddle_mobilenet,
        gpu_images.torch_mobilenet,
        models.images,
        1e-3,
        False,
        5.0,
    ),
    "convnext": Network(
        Stages(128, 224, (3, 3, 9, 3), (96, 192, 384, 768)),
        Stages(2, 32, (1, 1), (16, 32), 10),
        gpu_images.paddle_convnext,
        gpu_images.torch_convnext,
        models.images,
        limit=5.0,
    ),
    "swin": Network(
        Stages(128, 224, (2, 2, 6, 2), (96, 192, 384, 768)),
        Stages(2, 56, (2, 1), (32, 64), 10),
        gpu_images.paddle_swin,
        gpu_images.torch_swin,
        models.images,
    ),
    "unet": Network(
        Diffusion(64, 64, 128, (1, 2, 2, 4)),
        Diffusion(2, 8, 16, (1, 2), blocks=1, attended=1, head=16, groups=4),
        gpu_networks.paddle_unet,
        gpu_networks.torch_unet,
        gpu_networks.diffusions,
        limit=5.0,
    ),
    "llama": Network(
        Llama(16, 2048, 32, 8, 5504, 32000, 4, 1024),
        Llama(2, 64, 4, 2, 128, 500, 2, 32),
        gpu_networks.paddle_llama,
        gpu_networks.torch_llama,
        lambda sizes: models.texts(models.Text(0, 0, 0, sizes.vocabulary, sizes.batch, sizes.sequence)),
        limit=5.0,
    ),
}


def paddle_step(paddle, network, sizes):
    """One training step as a Paddle user writes it; it gives the loss as a number."""
    F, model = paddle.nn.functional, network.paddle(paddle, sizes)
    models.fill(model)
    if network.adam:
        opt = paddle.optimizer.AdamW(network.rate, parameters=model.parameters(), weight_decay=0.01)
    else:
        opt = paddle.optimizer.Momentum(network.rate, 0.9, parameters=model.parameters(), weight_decay=1e-4)
    model, opt = paddle.amp.decorate(models=model, optimizers=opt, level="O2", dtype="bfloat16")

    def loss_of(x, wanted, *rest):
        with paddle.amp.auto_cast(level="O2", dtype="bfloat16", custom_white_list=LOOK_UPS):
            out = model(x, *rest)
            if out.shape == wanted.shape:
                return F.mse_loss(out.astype("float32"), wanted)
            return F.cross_entropy(out, wanted.reshape([-1]))

    def step(*batch):
        loss = loss_of(*batch)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss.item()

    return step, [tuple(paddle.to_tensor(a) for a in batch) for batch in network.batches(sizes)]


def torch_step(torch, network, sizes, compiled):
    """The same in torch: autocast, channels last, fused optimizers; forward and backward compiled on request."""
    F, device = torch.nn.functional, first_calls.torch_device(torch)
    torch.backends.cudnn.benchmark = True
    model = network.torch(torch, sizes)
    models.fill_torch(torch, model)
    model = model.to(device).to(memory_format=torch.channels_last)
    if network.adam:
        opt = torch.optim.AdamW(model.parameters(), network.rate, weight_decay=0.01, fused=True)
    else:
        opt = torch.optim.SGD(model.parameters(), network.rate, 0.9, weight_decay=1e-4, fused=True)

    def loss_of(x, wanted, *rest):
        # on some CPUs a step in bfloat16 takes torch fifty times one in float32
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            out = model(x, *rest).float()
            return F.mse_loss(out, wanted) if out.shape == wanted.shape else F.cross_entropy(out, wanted.flatten())

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step(*batch):
        loss = loss_of(*batch)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()

    def placed(array):
        tensor = torch.from_numpy(array).to(device)
        return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    return step, [tuple(map(placed, batch)) for batch in network.batches(sizes)]


def make(name, work, tiny):
    """In the peer's process: what each step took, the first losses, and the most memory that was held."""
    network = NETWORKS[work]
    sizes = network.tiny if tiny else network.sizes
    framework = importlib.import_module("torch" if name == "torch.compile" else name)
    if name == "bireme":
        step, data = paddle_step(framework, network, sizes)
    else:
        step, data = torch_step(framework, network, sizes, name == "torch.compile")

    def answer(steps, until):
        seconds, losses, begun = [], [], time.perf_counter()

        def run():
            start = time.perf_counter()
            losses.append(step(*data[len(losses) % len(data)]))
            seconds.append(time.perf_counter() - start)

        last = min(LAST, steps - 1)
        while len(seconds) < steps - last or time.perf_counter() - begun < until:
            run()
        for _ in range(last):
            run()
        return {"seconds": seconds, "losses": losses[:FIRST], "last": losses[-1], "peak": peak_gib(name)}

    return answer


def measure(row, name, work, options, folder):
    """One process alone on the device, all of its caches in `folder`; None if it failed, which it has printed."""
    caches = ("BIREME_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
    settings = {cache: str(Path(folder) / cache) for cache in caches}
    start = time.perf_counter()
    with Peers() as peers:
        # most of the device's memory for the one process that is on it
        settings["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.92"
        peers.start(row, make, name, work, options.tiny, settings=settings)
        until = options.until if row == "bireme" else 0
        found = peers.ask(row, options.steps, until)
        peers.report()
    print(f"{work}, {NAMES.get(row, row)}: {time.perf_counter() - start:.0f} s in all", flush=True)
    return found


def figures(found):
    """First step, end of the tenth, longest after the first (seconds, its number), steady step in seconds."""
    seconds = found["seconds"]
    tenth = sum(seconds[:10]) if len(seconds) >= 10 else float("nan")
    at = 1 + int(np.argmax(seconds[1:]))
    return seconds[0], tenth, (seconds[at], at + 1), median(seconds[1:][-LAST:])


COLUMNS = ("first s", "ten s", "longest later s", "steady ms", "/compile", "peak GiB", "/compile", "steps", "losses")


def cells(found, compiled):
    """A row's cells, beside torch.compile's row where there is one."""
    first, tenth, (longest, at), steady = figures(found)
    theirs = figures(compiled)[3] if compiled else float("nan")
    peak = found["peak"] / compiled["peak"] if compiled and compiled["peak"] else float("nan")
    losses = (*found["losses"], found["last"])
    return (
        f"{first:.2f}",
        cell(tenth),
        f"{longest:.3f} (step {at})",
        f"{steady * 1e3:.2f}",
        cell(steady / theirs),
        f"{found['peak']:.2f}" if found["peak"] else "-",
        cell(peak),
        len(found["seconds"]),
        " ".join(f"{loss:.4f}" for loss in losses),
    )


def hold(work, rows, floors):
    """The floors of one network, as far as its rows are there."""
    if "bireme" not in rows:
        return
    first, _, (longest, _), steady = figures(rows["bireme"])
    eager, compiled = rows.get("torch"), rows.get("torch.compile")
    limit = max(NETWORKS[work].limit, figures(eager)[0] / 2 if eager else 0.0)
    floors.at_most(f"{work}: first step", first, round(limit, 2), " s")
    floors.at_most(f"{work}: longest later step", longest, LATER, " s")
    if SECOND in rows:
        print(f"{work}: first step of the second process {figures(rows[SECOND])[0]:.2f} s", flush=True)
    if compiled:
        floors.at_most(f"{work}: steady step / torch.compile's", steady / figures(compiled)[3], 1.0)
        if compiled["peak"]:
            floors.at_most(f"{work}: peak / torch.compile's", rows["bireme"]["peak"] / compiled["peak"], 1.1)
    if len(rows) > 1:
        difference = apart({row: found["losses"] for row, found in rows.items()})
        floors.at_most(f"{work}: largest difference of the first losses", difference * 100, TOLERANCE * 100, " %")


def networks(options):
    """Every network with every peer; what is known is printed as soon as it is."""
    floors, shown, failed = Floors(), [], False
    for work in options.only:
        network, rows = NETWORKS[work], {}
        print(f"{work}: {network.tiny if options.tiny else network.sizes}", flush=True)
        for name in options.peers:
            with tempfile.TemporaryDirectory() as folder:
                for row in (name, SECOND) if name == "bireme" and options.filled else (name,):
                    found = measure(row, name, work, options, folder)
                    rows[row] = found
                    if found:
                        print("  " + ", ".join(f"{c} {x}" for c, x in zip(COLUMNS, cells(found, None), strict=True)))
                    failed = failed or (name == "bireme" and not found)
                    sys.stdout.flush()
        compiled, none = rows.get("torch.compile"), ("none", *["-"] * (len(COLUMNS) - 1))
        made = [
            (work, NAMES.get(row, row), *(cells(found, compiled) if found else none)) for row, found in rows.items()
        ]
        table(("network", "peer", *COLUMNS), made)
        shown += made
        hold(work, {row: found for row, found in rows.items() if found}, floors)
    table(("network", "peer", *COLUMNS), shown)
    return 1 if floors.show() or failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=("networks", *first_calls.MODES), default="networks")
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="which networks")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--steps", type=int, default=40, help="steps of a network at least, 2 or more (default 40)")
    parser.add_argument("--until", type=float, default=60, help="seconds that Bireme trains at least (default 60)")
    parser.add_argument(
        "--filled", action="store_true", help="Bireme once more in a process that finds its cache filled"
    )
    parser.add_argument("--tiny", action="store_true", help="tiny sizes and few steps, to try it without a GPU")
    options = parser.parse_args()
    if options.tiny:
        options.steps, options.until = min(options.steps, 4), 0
    head(f"first minute: {options.what} on one device", f"peers     {', '.join(NAMES[p] for p in options.peers)}")
    if options.what == "networks":
        return networks(options)
    return first_calls.MODES[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
