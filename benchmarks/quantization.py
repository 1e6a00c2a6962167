"""Quantized networks and products: accuracy, size on disk and time, before and after.

python -m benchmarks.quantization [--epochs 25] [--rounds 15] [--what networks products files]

Two networks learn to read scikit-learn's handwritten digits, a convolutional one and a transformer that reads an image line
by line. They are quantized after training in several ways, saved by jit.save, and exported to ONNX files that onnxruntime
runs. Floor: int8 by PTQ loses at most half a point. Products are measured by themselves, at the sizes of a language model.
Files are those of networks of images, float and quantized, in onnxruntime. What a row compares is in one process, in turns.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import bireme
from benchmarks import measure
from bireme import nn
from bireme.nn import quant
from bireme.quantization import PTQ, QAT, QuantConfig, observers, quanters

TRAIN, BATCH, MOST_LOST = 1200, 80, 0.5
WHAT = ("networks", "products", "files")
TINY = ((1, 64, 64),)
PRODUCTS = ((1, 1024, 1024), (1, 4096, 4096), (16, 1024, 1024), (256, 1024, 1024))


def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return (data.images[order, None] / 16).astype("float32"), data.target[order].astype("int64")


class Lines(nn.Layer):
    """A transformer that reads an image of 8x8 pixels line by line."""

    def __init__(self, width: int = 128, layers: int = 2):
        super().__init__()
        self.embed, self.place = nn.Linear(8, width), self.create_parameter([8, width])
        one = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, activation="gelu")
        self.encoder, self.classify = nn.TransformerEncoder(one, layers), nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        return self.classify(self.encoder(self.embed(x.squeeze(1)) + self.place).mean(1))


def images() -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(1, 32, 3, padding=1), nn.BatchNorm2D(32), nn.ReLU(), nn.Conv2D(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2D(2), nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def train(net: nn.Layer, x: np.ndarray, y: np.ndarray, epochs: int, rate: float = 1e-3) -> None:
    net.train()
    schedule = bireme.optimizer.lr.CosineAnnealingDecay(rate, T_max=epochs * (TRAIN // BATCH))
    opt = bireme.optimizer.AdamW(schedule, parameters=net.parameters())
    rng = np.random.default_rng(1)
    for _ in range(epochs):
        order = rng.permutation(TRAIN)
        for i in range(0, TRAIN, BATCH):
            at = order[i : i + BATCH]
            loss = nn.functional.cross_entropy(net(bireme.to_tensor(x[at])), bireme.to_tensor(y[at]))
            loss.backward()
            opt.step()
            opt.clear_grad()
            schedule.step()


def accuracy(net: Callable, x: np.ndarray, y: np.ndarray) -> float:
    with bireme.no_grad():
        return 100 * float((net(bireme.to_tensor(x[TRAIN:])).numpy().argmax(1) == y[TRAIN:]).mean())


def saved(net: nn.Layer) -> tuple[Any, int]:
    """The network as it is loaded again, and the bytes of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        bireme.jit.save(net, folder + "/net", [bireme.static.InputSpec([None, 1, 8, 8], "float32", "x")])
        return bireme.jit.load(folder + "/net"), os.path.getsize(folder + "/net.safetensors")


def exported(net: nn.Layer, shape: tuple[Any, ...], **configs: Any) -> tuple[Any, int] | None:
    """A session of onnxruntime on the network's file, and the file's bytes; None where there is none."""
    if measure.version("onnxruntime") == "absent":
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, measure.cores()
    with tempfile.TemporaryDirectory() as folder:
        try:
            bireme.onnx.export(net, folder + "/net", [bireme.static.InputSpec(shape, "float32", "x")], **configs)
        except RuntimeError:  # integers of this form have no node
            return None
        size = os.path.getsize(folder + "/net.onnx")
        made = onnxruntime.InferenceSession(folder + "/net.onnx", options, providers=["CPUExecutionProvider"])
    return made, size


def times(calls: dict[str, Callable], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for n in range(rounds + 3):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if n >= 3:
                found[name].append(1e3 * (time.perf_counter() - start))
    return {name: float(np.median(some)) for name, some in found.items()}


def configured(activation: Any, weight: Any) -> QuantConfig:
    config = QuantConfig(None, None)
    config.add_type_config([nn.Linear, nn.Conv2D], activation=activation, weight=weight)
    return config


def ways() -> dict[str, QuantConfig]:
    channels, groups = observers.AbsMaxChannelWiseWeightObserver, observers.GroupWiseWeightObserver
    grouped = configured(None, channels(4))
    grouped.add_type_config(nn.Linear, weight=groups(4, 8))
    return {
        "PTQ int8, absmax": configured(observers.AbsmaxObserver(), observers.AbsmaxObserver()),
        "PTQ int8, per channel": configured(observers.AbsmaxObserver(), channels()),
        "PTQ int8, moving average": configured(observers.MovingAverageAbsmaxObserver(), channels()),
        "PTQ int8, percentile": configured(observers.HistObserver(), channels()),
        "PTQ int8, KL": configured(observers.KLObserver(), channels()),
        "weight only, int8": configured(None, channels()),
        "weight only, int4": configured(None, channels(4)),
        "weight only, int4, groups": grouped,
        "PTQ int4": configured(observers.AbsmaxObserver(4), channels(4)),
    }


def networks(epochs: int, rounds: int) -> bool:
    x, y = digits()
    held = True
    for title, make in (("convolutions", images), ("transformer", Lines)):
        bireme.seed(0)
        net = make()
        train(net, x, y, epochs)
        net.eval()
        forms: dict[str, nn.Layer] = {"float32": net}
        for name, config in ways().items():
            ptq = PTQ(config)
            watched = ptq.quantize(net)
            with bireme.no_grad():
                for i in range(0, 6 * BATCH, BATCH):
                    watched(bireme.to_tensor(x[i : i + BATCH]))
            forms[name] = ptq.convert(watched)
        for bits in (8, 4):
            fake = quanters.FakeQuanterWithAbsMaxObserver(bit_length=bits)
            qat = QAT(configured(fake, quanters.FakeQuanterChannelWiseAbsMax(bits)))
            net.train()
            trained = qat.quantize(net)
            net.eval()
            train(trained, x, y, max(epochs // 5, 1), 3e-4)
            forms[f"QAT int{bits}"] = qat.convert(trained)
        loaded = {name: saved(form) for name, form in forms.items()}
        files = {name: found for name, form in forms.items() if (found := exported(form, (None, 1, 8, 8)))}
        batch = [bireme.to_tensor(x[TRAIN : TRAIN + n]) for n in (1, 256)]
        with bireme.no_grad():
            one, many = [
                times({n: lambda f=f, b=b: f(b).numpy() for n, (f, _) in loaded.items()}, rounds) for b in batch
            ]
        one_there, many_there = [
            times({n: lambda f=f, b=b: f.run(None, {"x": b}) for n, (f, _) in files.items()}, rounds)
            for b in (x[TRAIN : TRAIN + 1], x[TRAIN : TRAIN + 256])
        ]
        best, whole = accuracy(net, x, y), loaded["float32"][1]
        print(
            f"{title:28} accuracy    lost   weights      size   batch 1   batch 256 | onnxruntime: file, batch 1, batch 256"
        )
        for name, (form, size) in loaded.items():
            right = accuracy(form, x, y)
            ok = not name.startswith("PTQ int8") or best - right <= MOST_LOST
            held &= ok
            there = "no file" if name not in files else (
                f"{files[name][1] / 1024:7.1f} KB {one_there[name]:7.2f} ms {many_there[name]:8.2f} ms"
            )  # fmt: skip
            print(
                f"  {name:26} {right:7.2f} % {best - right:6.2f} {size / 1024:7.1f} KB {size / whole:7.2f} x "
                f"{one[name]:7.2f} ms {many[name]:8.2f} ms | {there}{'' if ok else '   over ' + str(MOST_LOST)}",
                flush=True,
            )
        print()
    return held


def ways_to_multiply(m: int, k: int, n: int) -> dict[str, Callable]:
    rng = np.random.default_rng(0)
    x = bireme.to_tensor(rng.standard_normal((m, k), "float32"))
    w = bireme.to_tensor(rng.standard_normal((k, n), "float32"))
    (q8, s8), (q4, s4) = [quant.weight_quantize(w, f"weight_only_int{bits}") for bits in (8, 4)]
    layer = nn.Linear(k, n, bias_attr=False)
    layer.weight.set_value(w)
    layer.eval()
    ptq = PTQ(configured(observers.AbsmaxObserver(), observers.AbsMaxChannelWiseWeightObserver()))
    watched = ptq.quantize(layer)
    watched(x)
    whole = ptq.convert(watched)
    return {
        "float32": lambda: layer(x).numpy(),
        "int8": lambda: whole(x).numpy(),
        "weight int8": lambda: quant.weight_only_linear(x, q8, None, s8).numpy(),
        "weight int4": lambda: quant.weight_only_linear(x, q4, None, s4, "int4").numpy(),
        "LLM.int8": lambda: quant.llm_int8_linear(x, q8, None, s8).numpy(),
    }


def products(rounds: int, sizes: tuple) -> None:
    rows = []
    for m, k, n in sizes:
        with bireme.no_grad():
            found = times(ways_to_multiply(m, k, n), rounds)
        rows.append((f"[{m}, {k}] by [{k}, {n}]", *[f"{ms:.2f}" for ms in found.values()]))
    measure.table(("product, ms", *found), rows)


def files(rounds: int, tiny: bool) -> None:
    """Networks of images as ONNX files in onnxruntime: float, QDQ, and QDQ with products of integers."""
    bireme.set_flags({"FLAGS_interpret": True})  # only onnxruntime is measured
    rows = []
    for name in ("digits",) if tiny else ("resnet18", "mobilenet_v2"):
        shape: tuple[Any, ...] = (None, 1, 8, 8) if tiny else (None, 3, 96, 96)
        bireme.seed(0)
        net = images() if tiny else getattr(bireme.vision.models, name)(num_classes=10)
        net.eval()
        x = bireme.randn([2, *shape[1:]])
        ptq = PTQ(configured(observers.AbsmaxObserver(), observers.AbsMaxChannelWiseWeightObserver()))
        with bireme.no_grad():
            watched = ptq.quantize(net)
            watched(x)
            whole = ptq.convert(watched)
        forms = [exported(net, shape), exported(whole, shape), exported(whole, shape, integer_products=True)]
        given = {"x": x.numpy()}
        if None in forms:
            print("files: onnxruntime is not installed")
            return
        found = times({str(i): lambda f=f[0], given=given: f.run(None, given) for i, f in enumerate(forms)}, rounds)
        rows.append((name, *[f"{ms:.2f}" for ms in found.values()], *[f"{f[1] / 2**20:.2f}" for f in forms]))
    heads = ("float", "QDQ", "integer products")
    measure.table(("file, onnxruntime", *[f"{h}, ms" for h in heads], *[f"{h}, MiB" for h in heads]), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT)
    parser.add_argument("--tiny", action="store_true", help="small products and files: to try the script")
    given = parser.parse_args()
    measure.head("quantization")
    bireme.set_flags({"FLAGS_interpret": False})  # compiled from the first call on: what is compared is the programs
    held = networks(given.epochs, given.rounds) if "networks" in given.what else True
    if "products" in given.what:
        products(given.rounds, TINY if given.tiny else PRODUCTS)
    if "files" in given.what:
        files(given.rounds, given.tiny)
    sys.exit(not held)


if __name__ == "__main__":
    main()
