"""`bireme quantize`: a saved model with integers for weights, or for weights and inputs, and what that changes."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.core.tensor.grad_mode import no_grad
from bireme.inference import Config, create_predictor
from bireme.inference.saved import model_of, program_of, sketches
from bireme.jit import TranslatedLayer, save
from bireme.jit.saving import models_of
from bireme.jit.transforms import USUAL, transformed
from bireme.nn import Conv2D, Linear
from bireme.ops import to_tensor
from bireme.quantization import PTQ, QuantConfig, observers
from bireme.quantization.saved import Lifted
from bireme.static import InputSpec

OBSERVERS: dict[str, Callable[[], Any]] = {
    "absmax": observers.AbsmaxObserver,
    "average": observers.MovingAverageAbsmaxObserver,
    "histogram": observers.HistObserver,
    "kl": observers.KLObserver,
}
ROUNDS = 7

EXAMPLES = """  bireme quantize models/mnist --to int8 --data samples.npz -o models/mnist8
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="saved model of jit.save, of Paddle's or of ONNX, or a folder with one"
    )
    parser.add_argument(
        "--to", choices=["int8", "weight-int8", "weight-int4"], required=True,
        help="int8: weights and inputs of products; weight-int8, weight-int4: weights alone",
    )  # fmt: skip
    parser.add_argument("--out", "-o", metavar="PATH", required=True, help="path of what is written, without an ending")
    parser.add_argument(
        "--data",
        metavar="FILE",
        help=".npz with an array for each input, its rows being samples: int8 finds scales in them",
    )
    parser.add_argument(
        "--labels",
        metavar="NAME",
        default="labels",
        help="array of the right classes among them (default: %(default)s)",
    )
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="samples that run together (default: 32)")
    parser.add_argument(
        "--observer",
        choices=list(OBSERVERS),
        default="absmax",
        help="what finds scales of inputs (default: %(default)s)",
    )
    parser.add_argument(
        "--group", type=int, metavar="N", help="rows of a matrix that share a scale (default: all of a column)"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Quantize, save, and tell what changed."""
    if arguments.to == "int8" and arguments.data is None:
        raise errors.failure(
            "int8 needs samples", hint="--data FILE.npz, with an array for each input", kind=ValueError
        )
    if arguments.batch < 1:
        raise errors.bad("--batch", "a positive number", arguments.batch)
    model, _ = transformed(model_of(arguments.model), USUAL)
    data, labels = _data(arguments, model) if arguments.data else ([], None)
    net, layers = quantized(model, arguments, data)
    specs = [
        InputSpec([None if n < 0 else n for n in shape], dtype.name, name)
        for name, (dtype, shape) in sketches(model)[0].items()
    ]
    made = models_of(net, specs, "quantize")["forward"]
    made.output_names = model.output_names  # by which clients ask for them
    save(TranslatedLayer({"forward": made}, made.program.tensors), arguments.out)
    told = _report(arguments, data, labels)
    told["layers"] = layers
    sys.stdout.write(json.dumps(told) + "\n" if arguments.json else _shown(told))
    return 0


def quantized(model: Model, arguments: argparse.Namespace, data: list[np.ndarray]) -> tuple[Any, int]:
    """The model with integers, and how many layers have them."""
    bits = 4 if arguments.to == "weight-int4" else 8
    activation = OBSERVERS[arguments.observer]() if arguments.to == "int8" else None
    each = observers.AbsMaxChannelWiseWeightObserver(quant_bits=bits)
    matrix = each if arguments.group is None else observers.GroupWiseWeightObserver(bits, arguments.group)
    config = QuantConfig(activation=None, weight=None)
    config.add_type_config(Conv2D, activation=activation, weight=each)
    config.add_type_config(Linear, activation=activation, weight=matrix)
    net, ptq = Lifted(model), PTQ(config)
    count = len(net.sublayers())
    if not count:
        raise errors.failure(
            "the model has no product with a stored weight, so nothing can be quantized", kind=ValueError
        )
    watched = ptq.quantize(net, inplace=True)
    with no_grad():
        for rows in _batches(data, arguments.batch):
            watched(*[to_tensor(a) for a in rows])
    return ptq.convert(watched, inplace=True), count


def _data(arguments: argparse.Namespace, model: Model) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Samples for each input, in order, and their classes if they are there."""
    inputs = sketches(model)[0]
    with np.load(arguments.data, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    labels = arrays.pop(arguments.labels, None)
    if len(inputs) == 1 and len(arrays) == 1:
        arrays = dict(zip(inputs, arrays.values(), strict=True))  # whatever its name is
    missing = [name for name in inputs if name not in arrays]
    if missing:
        got = ", ".join(arrays) or "none"
        raise errors.bad("--data", f"an array for each input ({', '.join(inputs)})", described=got)
    found = [_checked(name, arrays[name], *inputs[name]) for name in inputs]
    if len({len(a) for a in found}) != 1 or (labels is not None and labels.shape != (len(found[0]),)):
        raise errors.bad("--data", "as many rows in each array, and one class for each", [a.shape for a in found])
    return found, labels


def _checked(name: str, array: np.ndarray, dtype: np.dtype, shape: list[int]) -> np.ndarray:
    fits = array.ndim == len(shape) and all(n in (-1, m) for n, m in zip(shape[1:], array.shape[1:], strict=True))
    if not fits or not len(array) or array.dtype.kind != dtype.kind:
        got = f"{array.dtype} of shape {list(array.shape)}"
        raise errors.bad(f"--data ({name})", f"{dtype} of shape {[-1, *shape[1:]]}, with rows", described=got)
    return array.astype(dtype)


def _batches(data: list[np.ndarray], size: int) -> list[list[np.ndarray]]:
    return [[a[i : i + size] for a in data] for i in range(0, len(data[0]) if data else 0, size)]


def _report(arguments: argparse.Namespace, data: list[np.ndarray], labels: np.ndarray | None) -> dict[str, Any]:
    """Sizes of both models; on the samples how far outputs are apart, accuracies, and times in turns."""
    paths = {"before": program_of(arguments.model), "after": program_of(arguments.out)}
    told: dict[str, Any] = {"bytes": {which: _bytes(path) for which, path in paths.items()}}
    if not data:
        return told
    predictors = {which: create_predictor(Config(path)) for which, path in paths.items()}
    made: dict[str, np.ndarray] = {}
    batches = _batches(data, arguments.batch)
    for which, predictor in predictors.items():
        outputs = [predictor.run([to_tensor(a) for a in rows]) for rows in batches]
        made[which] = np.concatenate([np.asarray(out[0].numpy(), np.float64) for out in outputs if out is not None])
    far = np.abs(made["after"] - made["before"])
    told["largest_difference"], told["mean_difference"] = float(far.max()), float(far.mean())
    told["largest_output"] = float(np.abs(made["before"]).max())
    if labels is not None and made["before"].ndim == 2:
        told["accuracy"] = {which: float((out.argmax(1) == labels).mean()) for which, out in made.items()}
    times: dict[str, list[float]] = {which: [] for which in predictors}
    given = [to_tensor(a) for a in batches[0]]
    for _ in range(ROUNDS):
        for which, predictor in predictors.items():
            start = time.perf_counter()
            out = predictor.run(given)
            assert out is not None
            out[0].numpy()
            times[which].append((time.perf_counter() - start) * 1e3)
    told["ms"] = {which: statistics.median(each) for which, each in times.items()}
    told["batch"] = len(batches[0][0])
    return told


def _bytes(path: str) -> int:
    """Size of all files of a model."""
    given = Path(path)
    if given.is_dir():
        return sum(os.path.getsize(p) for p in given.iterdir() if p.is_file())
    endings = (".json", ".safetensors", ".pdmodel", ".pdiparams", ".onnx")
    return sum(os.path.getsize(p) for p in given.parent.iterdir() if p.stem == given.stem and p.suffix in endings)


def _shown(told: dict[str, Any]) -> str:
    size = told["bytes"]
    rows = [
        ("layers", f"{told['layers']} with integers"),
        ("size", f"{size['before'] / 1e3:,.0f} kB before, {size['after'] / 1e3:,.0f} after"),
    ]
    if "ms" in told:
        far, most = told["largest_difference"], told["largest_output"]
        rows.append(
            ("outputs", f"apart by {far:.3g} at most, {told['mean_difference']:.3g} on average, of up to {most:.3g}")
        )
        ms = told["ms"]
        rows.append((f"batch of {told['batch']}", f"{ms['before']:.2f} ms before, {ms['after']:.2f} after"))
    if "accuracy" in told:
        rows.append(("accuracy", "{before:.2%} before, {after:.2%} after".format(**told["accuracy"])))
    width = max(len(name) for name, _ in rows) + 2
    return "".join(f"{name:{width}}{value}\n" for name, value in rows)
