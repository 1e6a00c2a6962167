"""Saved models on one GPU in bfloat16: ResNet-50 and BERT-base by the predictor, beside torch eager and torch.compile.

    python -m benchmarks.gpu_inference                                  everything; about four minutes on one H200
    python -m benchmarks.gpu_inference --only resnet50-1                one of the models and batches
    python -m benchmarks.gpu_inference --tiny --peers bireme torch      tiny sizes, to try it without a GPU

The inputs are on the device, and each run's result is read before the next one begins, as a server does. "dynamic" is the
same network as plain code under `no_grad`. Each peer has the GPU for itself, one after another. Floor: the better of
torch.compile's two modes.
"""

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import models
from benchmarks.measure import Floors, cell, head, median, spread, table
from benchmarks.models import Images, Text
from benchmarks.peers import Peers

GUESSED = 1  # tokens of a sequence that BERT guesses: reading more would take longer than the model
WORK = {
    "resnet50-1": Images(1, 224),
    "resnet50-128": Images(128, 224),
    "bert-1": Text(12, 768, 12, 30522, 1, 128, GUESSED, causal=False),
    "bert-32": Text(12, 768, 12, 30522, 32, 128, GUESSED, causal=False),
}
TINY = {
    "resnet50-1": Images(1, 32, 10),
    "resnet50-128": Images(4, 32, 10),
    "bert-1": Text(2, 32, 4, 100, 1, 16, 4, causal=False),
    "bert-32": Text(2, 32, 4, 100, 4, 16, 4, causal=False),
}
NAMES = {
    "bireme": "bireme predictor",
    "bireme.dynamic": "bireme, dynamic",
    "torch": "torch eager",
    "torch.compile": "torch.compile",
    "torch.reduced": "torch.compile, reduce-overhead",
}
COMPILED = ("torch.compile", "torch.reduced")
TOLERANCE = 5e-2  # of the largest result: bfloat16 through fifty layers, rounded in other places


def given(sizes):
    """The arrays that a model is called with."""
    if isinstance(sizes, Text):
        ids, _, places = models.texts(sizes)[0]
        return ids, places
    return (models.images(sizes)[0][0],)


def paddle_model(paddle, sizes):
    """A network that is only called, in Paddle's interface."""
    if isinstance(sizes, Text):
        model = models.paddle_transformer(paddle, sizes)
    else:
        model = paddle.vision.models.resnet50(num_classes=sizes.classes)
    models.fill(model)
    model.eval()
    return model


def predictor(paddle, sizes, folder):
    """A call of the model once it has been saved and read again; what it is given lies on the device."""
    arrays = given(sizes)
    shapes = [paddle.static.InputSpec([None, *a.shape[1:]], str(a.dtype), f"x{i}") for i, a in enumerate(arrays)]
    paddle.jit.save(paddle_model(paddle, sizes), folder + "/net", shapes)
    config = paddle.inference.Config(folder + "/net")
    if paddle.device.is_compiled_with_cuda() and paddle.device.cuda.device_count():
        config.enable_use_gpu(256, 0, paddle.inference.PrecisionType.Bfloat16)
    made = paddle.inference.create_predictor(config)
    for name, array in zip(made.get_input_names(), arrays, strict=True):
        made.get_input_handle(name).share_external_data(paddle.to_tensor(array))
    result = made.get_output_handle(made.get_output_names()[0])

    def call():
        made.run()
        return result.copy_to_cpu()

    return call


def dynamic(paddle, sizes):
    model = paddle_model(paddle, sizes).to(dtype="bfloat16")
    data = [paddle.to_tensor(a) for a in given(sizes)]
    data = [a.astype("bfloat16") if a.is_floating_point() else a for a in data]

    def call():
        with paddle.no_grad():
            return model(*data).astype("float32").numpy()

    return call


def torch_call(torch, sizes, name):
    text, device = isinstance(sizes, Text), "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    model = models.torch_transformer(torch, sizes) if text else models.torch_resnet(torch, 50, sizes.classes)
    models.fill_torch(torch, model)
    model = model.eval().to(device, torch.bfloat16)
    data = [torch.from_numpy(a).to(device) for a in given(sizes)]
    if not text:
        model = model.to(memory_format=torch.channels_last)
        data = [data[0].to(torch.bfloat16).to(memory_format=torch.channels_last)]
    modes = {"torch.compile": "default", "torch.reduced": "reduce-overhead"}
    run = torch.compile(model, mode=modes[name]) if name in modes else model

    def call():
        with torch.no_grad():
            return run(*data).float().cpu().numpy()

    return call


def make(name, sizes, folder):
    framework = importlib.import_module(name.partition(".")[0])
    if name.startswith("torch"):
        call = torch_call(framework, sizes, name)
    else:
        call = predictor(framework, sizes, folder) if name == "bireme" else dynamic(framework, sizes)

    def answer(runs):
        if not runs:
            return call()
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e3)
        return times

    return answer


def measure(name, sizes, options):
    """First run in seconds, milliseconds of later ones, and the result; None if the peer is not there."""
    with tempfile.TemporaryDirectory() as folder, Peers() as peers:
        settings = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8", "BIREME_CACHE_DIR": folder + "/cache"}
        peers.start(name, make, name, sizes, folder, settings=settings)
        first = peers.ask(name, 1)
        warm = peers.ask(name, options.warm) if first else None
        times = peers.ask(name, options.runs) if warm else None
        result = peers.ask(name, 0) if times else None
        peers.report()
        return None if result is None else (first[0] / 1e3, times, result)


def report(work, sizes, found, floors):
    rows = []
    ours = median(found["bireme"][1]) if "bireme" in found else float("nan")
    for name, (first, times, _) in found.items():
        ms = median(times)
        shown = f"{ms:.3f}", spread(times, "{:.3f}"), f"{sizes.batch / ms * 1e3:,.0f}", cell(ours / ms)
        rows.append((NAMES[name], *shown, f"{first:.1f}"))
    table((work, "ms/run", "middle half", "a second", "bireme/this", "first s"), rows)
    compiled = [median(found[name][1]) for name in COMPILED if name in found]
    if "bireme" in found and compiled:
        floors.at_most(f"{work}: bireme / the better torch.compile", ours / min(compiled), 1.0)
    results = {name: f[2] for name, f in found.items()}
    for name, result in results.items():
        base = results.get("torch")
        if base is not None and name != "torch":
            apart = np.abs(result - base).max() / np.abs(base).max() * 100
            floors.at_most(f"{work}: {NAMES[name]} from torch eager's results", apart, TOLERANCE * 100, " %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK), help="which models (default all)")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--runs", type=int, default=200, help="runs that are timed (default 200)")
    parser.add_argument("--warm", type=int, default=20, help="runs before the clock (default 20)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script without a GPU")
    options = parser.parse_args()
    head("inference on a GPU", "one run at a time", "bfloat16")
    floors = Floors()
    for work in options.only:
        sizes = (TINY if options.tiny else WORK)[work]
        found = {name: measure(name, sizes, options) for name in options.peers}
        report(work, sizes, {name: f for name, f in found.items() if f is not None}, floors)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
