"""Training on one GPU in mixed precision: ResNet-50, BERT-large and GPT-2 small as plain dynamic code, beside torch
eager and torch.compile.

    python -m benchmarks.accelerator                                    everything; about ten minutes on one H200
    python -m benchmarks.accelerator --only resnet50 --quick            one model, few steps
    python -m benchmarks.accelerator --only bert128 --peers bireme --profile /tmp/trace     where the time goes
    python -m benchmarks.accelerator --tiny                             tiny sizes, to try it without a GPU

AMP O2 in bfloat16: bfloat16 weights with float32 masters in Bireme, autocast over float32 weights in torch. Batches lie
on the device. A turn is a number of steps of which the last one's loss is read. Each peer has the GPU for itself, one
after another. Floor: at most torch.compile's time.
"""

import argparse
import contextlib
import importlib
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import models
from benchmarks.measure import Floors, apart, cell, head, median, spread, table
from benchmarks.models import Images, Text
from benchmarks.peers import Peers

WORK = {
    "resnet50": Images(256, 224),
    "bert128": Text(24, 1024, 16, 30522, 128, 128, 20),
    "bert512": Text(24, 1024, 16, 30522, 32, 512, 80),
    "gpt2": Text(12, 768, 12, 50304, 16, 1024),
}
TINY = {
    "resnet50": Images(4, 64, 10),
    "bert128": Text(2, 64, 4, 500, 4, 16, 3),
    "bert512": Text(2, 64, 4, 500, 2, 32, 5),
    "gpt2": Text(2, 64, 4, 500, 4, 32),
}
NAMES = {"bireme": "bireme dynamic, O2", "torch": "torch eager, autocast", "torch.compile": "torch.compile, autocast"}
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}  # bfloat16 operations a second that the makers give
RATE = {"image": 1e-3, "text": 1e-4}
LOOK_UPS = [
    "lookup_table",
    "lookup_table_v2",
]  # in float32 by default, and the residual stream with them: language trainers name them
FIRST = 4
TOLERANCE = 2e-2  # of the first losses: bfloat16, rounded in other places


def paddle_step(paddle, work, sizes, options):
    """One training step as a Paddle user writes it; gives the loss, unread."""
    F, text = paddle.nn.functional, isinstance(sizes, Text)
    if text:
        model = models.paddle_transformer(paddle, sizes)
    else:
        model = paddle.vision.models.resnet50(num_classes=sizes.classes)
        model = models.channels_last(model) if options.layout == "NHWC" else model
    models.fill(model)
    if text:
        opt = paddle.optimizer.AdamW(RATE["text"], parameters=model.parameters(), weight_decay=0.01)
    else:
        opt = paddle.optimizer.Momentum(RATE["image"], 0.9, parameters=model.parameters(), weight_decay=1e-4)
    half = options.dtype == "bfloat16"
    if half:
        model, opt = paddle.amp.decorate(models=model, optimizers=opt, level="O2", dtype="bfloat16")

    def step(x, labels, *rest):
        with paddle.amp.auto_cast(enable=half, level="O2", dtype="bfloat16", custom_white_list=LOOK_UPS):
            loss = F.cross_entropy(model(x, *rest), labels.reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    data = models.texts(sizes) if text else models.images(sizes)
    if not text and options.layout == "NHWC":
        data = [(x.transpose(0, 2, 3, 1), y) for x, y in data]
    return step, [tuple(paddle.to_tensor(a) for a in batch) for batch in data]


def torch_step(torch, work, sizes, options, compiled):
    F, text = torch.nn.functional, isinstance(sizes, Text)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    model = models.torch_transformer(torch, sizes) if text else models.torch_resnet(torch, 50, sizes.classes)
    models.fill_torch(torch, model)
    model = model.to(device)
    if text:
        opt = torch.optim.AdamW(model.parameters(), RATE["text"], weight_decay=0.01, fused=True)
    else:
        model = model.to(memory_format=torch.channels_last)
        opt = torch.optim.SGD(model.parameters(), RATE["image"], 0.9, weight_decay=1e-4, fused=True)
    half = options.dtype == "bfloat16"

    def loss_of(x, labels, *rest):
        with torch.autocast(device, torch.bfloat16, enabled=half):
            return F.cross_entropy(model(x, *rest).float(), labels.flatten())

    if compiled:
        loss_of = torch.compile(loss_of)

    def step(*batch):
        loss = loss_of(*batch)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    data = [
        [torch.from_numpy(a).to(device) for a in batch]
        for batch in (models.texts(sizes) if text else models.images(sizes))
    ]
    if not text:
        data = [(x.to(memory_format=torch.channels_last), y) for x, y in data]
    return step, data


def peak_gib(name):
    """Most memory of the device that the peer ever held, in GiB; 0 where the device does not count it."""
    if name != "bireme":
        torch = importlib.import_module("torch")
        return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    stats = importlib.import_module("jax").devices()[0].memory_stats()
    return (stats or {}).get("peak_bytes_in_use", 0) / 2**30


def kernels(folder, most=25):
    """The kernels of a trace of jax's profiler that took longest: (ms, times, name)."""
    profiler, total = importlib.import_module("jax").profiler, {}
    for path in sorted(Path(folder).rglob("*.xplane.pb")):
        for plane in profiler.ProfileData.from_file(str(path)).planes:
            if "GPU" not in plane.name and "CPU" not in plane.name:
                continue
            for line in plane.lines:
                if "GPU" in plane.name and not line.name.startswith("Stream"):
                    continue
                for event in line.events:
                    if event.name.startswith("$"):  # a line of Python
                        continue
                    spent, times = total.get(event.name, (0.0, 0))
                    total[event.name] = (spent + event.duration_ns / 1e6, times + 1)
    return sorted(((ms, n, name) for name, (ms, n) in total.items()), reverse=True)[:most]


def make(name, work, sizes, options):
    """In the peer's process: answers 'losses' with the first step's seconds, 'time', 'profile' and 'peak'."""
    framework = importlib.import_module("torch" if name == "torch.compile" else name)
    if name == "bireme":
        step, data = paddle_step(framework, work, sizes, options)
    else:
        step, data = torch_step(framework, work, sizes, options, name == "torch.compile")
    count = 0

    def run():
        nonlocal count
        count += 1
        return step(*data[(count - 1) % len(data)])

    def block(n):
        start = time.perf_counter()
        for _ in range(n):
            loss = run()
        last = float(loss)  # the clock stops when the last step's result is there
        return (time.perf_counter() - start) / n * 1e3, last

    def answer(what, n=1, folder=None):
        if what == "peak":
            return peak_gib(name)
        if what == "stats":
            return framework.debug.stats()
        if what == "losses":
            times, losses = [], []
            for _ in range(n):
                start = time.perf_counter()
                losses.append(float(run()))
                times.append(time.perf_counter() - start)
            return times, losses
        if what == "profile":
            with importlib.import_module("jax").profiler.trace(folder):
                block(n)
            return kernels(folder)
        return block(n)

    return answer


def measure(name, work, sizes, options):
    """One peer alone on the device: first losses, times of the turns, peak memory; None if it is not there."""
    with tempfile.TemporaryDirectory() as cache, Peers() as peers:
        # an empty cache of its own: the first step is a cold one
        settings = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92", "BIREME_CACHE_DIR": cache}
        peers.start(name, make, name, work, sizes, options, settings=settings)
        first = peers.ask(name, "losses", FIRST)
        warm = peers.ask(name, "time", options.warm)
        turns = [peers.ask(name, "time", options.steps) for _ in range(options.rounds)] if warm else []
        found = None
        if first and all(turns):
            found = {"first": first[0][0], "losses": first[1], "ms": [t[0] for t in turns], "last": turns[-1][1]}
            found["peak"] = peers.ask(name, "peak") or 0.0
            if options.profile and name == "bireme":
                found["kernels"] = peers.ask(name, "profile", 3, f"{options.profile}/{work}")
        peers.report()
        return found


def device_peak(options):
    """Operations a second that this device can do in bfloat16; NaN where that is not known."""
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():
            known = [rate for part, rate in PEAKS.items() if part in torch.cuda.get_device_name(0)]
            return known[0] if known else float("nan")
    return float("nan")


def report(work, sizes, found, peak, floors):
    """The table of one model, and its floors."""
    text = isinstance(sizes, Text)
    flops = models.text_flops(sizes) if text else models.image_flops(sizes)
    unit = "sequences/s" if text else "images/s"
    ours = found["bireme"]["ms"] if "bireme" in found else []
    rows = []
    for name, f in found.items():
        ms = median(f["ms"])
        rows.append(
            (
                NAMES[name],
                f"{ms:.2f}",
                spread(f["ms"], "{:.2f}"),
                f"{sizes.batch / ms * 1e3:,.0f}",
                cell(flops / ms * 1e3 / peak * 100, "{:.1f} %"),
                cell(median(ours) / ms if ours else float("nan")),
                f"{f['first']:.1f}",
                f"{f['peak']:.1f}" if f["peak"] else "-",
                " ".join(f"{loss:.4f}" for loss in f["losses"]),
                f"{f['last']:.4f}",
            )
        )
    head_row = (f"{work}, batch {sizes.batch}", "ms/step", "middle half", unit, "of peak", "bireme/this")
    table((*head_row, "first s", "peak GiB", "first losses", "last loss"), rows)
    if ours and "torch.compile" in found:
        floors.at_most(f"{work}: bireme / torch.compile", median(ours) / median(found["torch.compile"]["ms"]), 1.0)
    if ours and "torch" in found:
        floors.at_most(f"{work}: bireme / torch eager", median(ours) / median(found["torch"]["ms"]), 1.0)
    if len(found) > 1:
        difference = apart({name: f["losses"] for name, f in found.items()})
        floors.at_most(f"{work}: largest difference of the first losses", difference * 100, TOLERANCE * 100, " %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK), help="which models (default all)")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--steps", type=int, default=20, help="steps in a turn (default 20)")
    parser.add_argument("--rounds", type=int, default=7, help="turns (default 7)")
    parser.add_argument("--warm", type=int, default=10, help="steps before the clock (default 10)")
    parser.add_argument("--quick", action="store_true", help="3 turns of 10 steps")
    parser.add_argument("--batch", type=int, help="another batch size")
    parser.add_argument(
        "--layout", choices=("NCHW", "NHWC"), default="NCHW", help="of images in Bireme; torch has channels_last"
    )
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script without a GPU")
    parser.add_argument("--profile", help="a folder for traces of Bireme's steps; the longest kernels are printed")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.steps = 3, 10
    head(
        "accelerator: training in mixed precision on one device", f"data      {options.dtype}, images {options.layout}"
    )
    floors, peak = Floors(), device_peak(options)
    for work in options.only:
        sizes = (TINY if options.tiny else WORK)[work]
        if options.batch:
            sizes = type(sizes)(**{**vars(sizes), "batch": options.batch})
        print(f"{work}: {sizes}", flush=True)
        found = {}
        for name in options.peers:
            measured = measure(name, work, sizes, options)
            if measured:
                found[name] = measured
        report(work, sizes, found, peak, floors)
        for ms, times, kernel in found.get("bireme", {}).get("kernels") or []:
            print(f"{ms:10.3f} ms {times:6d} x {kernel[:120]}")
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
