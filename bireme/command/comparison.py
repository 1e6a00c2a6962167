"""A model before and after a change, on samples: sizes, how far outputs are apart, accuracies and times."""

from __future__ import annotations

import argparse
import os
import statistics
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.inference import Config, create_predictor
from bireme.inference.saved import program_of, sketches
from bireme.jit import TranslatedLayer, save
from bireme.jit.saving import models_of
from bireme.ops import to_tensor
from bireme.static import InputSpec

ROUNDS = 7


def add(parser: argparse.ArgumentParser, data: str) -> None:
    """Arguments that every verb has that changes a model."""
    parser.add_argument(
        "model", metavar="MODEL", help="saved model of jit.save, of Paddle's or of ONNX, or a folder with one"
    )
    parser.add_argument("--out", "-o", metavar="PATH", required=True, help="path of what is written, without an ending")
    parser.add_argument("--data", metavar="FILE", help=data)
    parser.add_argument(
        "--labels",
        metavar="NAME",
        default="labels",
        help="array of the right classes among them (default: %(default)s)",
    )
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="samples that run together (default: 32)")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def store(net: Any, model: Model, path: str, where: str) -> None:
    """Save a network that was made of a model, with the names of its inputs and outputs, by which clients ask for them."""
    specs = [
        InputSpec([None if n < 0 else n for n in shape], dtype.name, name)
        for name, (dtype, shape) in sketches(model)[0].items()
    ]
    made = models_of(net, specs, where)["forward"]
    made.output_names = model.output_names
    save(TranslatedLayer({"forward": made}, made.program.tensors), path)


def checked(arguments: argparse.Namespace) -> None:
    """Refuse what would be found wrong after the work alone: a batch of nothing, and a target that cannot be written."""
    if arguments.batch < 1:
        raise errors.bad("--batch", "a positive number", arguments.batch)
    source, target = Path(program_of(arguments.model)), Path(arguments.out)
    if not target.name or target.is_dir():
        message = f"--out: {arguments.out or 'nothing'} is a folder"
        raise errors.failure(message, hint=f"name a model in it: {target / 'model'}", kind=ValueError)
    if source.resolve().with_suffix("") == target.resolve().with_suffix(""):
        raise errors.failure(f"--out: {arguments.out} is the model itself", hint="name another path", kind=ValueError)
    above = next(p for p in target.resolve().parents if p.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise errors.failure(f"--out: nothing can be written in {above}", kind=ValueError)


def samples(arguments: argparse.Namespace, model: Model) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Samples for each input, in order, and their classes if they are there."""
    inputs = sketches(model)[0]
    if zipfile.is_zipfile(arguments.data):
        with np.load(arguments.data, allow_pickle=False) as file:
            arrays = {name: _numbers(file, name) for name in file.files}
    else:
        with open(arguments.data, "rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise errors.bad("--data", "a file of numpy.savez or numpy.save", described=arguments.data)
        arrays = {"array": np.load(arguments.data, allow_pickle=False)}  # of one input
    labels = arrays.pop(arguments.labels, None)
    if len(inputs) == 1 and len(arrays) == 1:
        arrays = dict(zip(inputs, arrays.values(), strict=True))  # whatever its name is
    missing = [name for name in inputs if name not in arrays]
    if missing:
        got = ", ".join(arrays) or "none"
        raise errors.bad("--data", f"an array for each input ({', '.join(inputs)})", described=got)
    found = [_checked(name, arrays[name], *inputs[name]) for name in inputs]
    if len({len(a) for a in found}) != 1:
        raise errors.bad("--data", "as many rows in each array", [a.shape for a in found])
    if labels is not None:
        if labels.shape not in ((len(found[0]),), (len(found[0]), 1)):
            got = f"shape {list(labels.shape)}"
            raise errors.bad(f"--data ({arguments.labels})", f"a class for each of {len(found[0])} rows", described=got)
        labels = labels.reshape(-1)
    return found, labels


def _numbers(file: Any, name: str) -> np.ndarray:
    try:
        return file[name]
    except ValueError:  # of objects, which would be pickles
        raise errors.bad(f"--data ({name})", "an array of numbers", described="one of objects") from None


def _checked(name: str, array: np.ndarray, dtype: np.dtype, shape: list[int]) -> np.ndarray:
    fits = array.ndim == len(shape) and all(n in (-1, m) for n, m in zip(shape[1:], array.shape[1:], strict=True))
    if not fits or not len(array) or array.dtype.kind != dtype.kind:
        got = f"{array.dtype} of shape {list(array.shape)}"
        raise errors.bad(f"--data ({name})", f"{dtype} of shape {[-1, *shape[1:]]}, with rows", described=got)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        wrong = float(array[~np.isfinite(array)][0])
        raise errors.bad(f"--data ({name})", "finite numbers", wrong)
    return array.astype(dtype)


def batches_of(data: list[np.ndarray], size: int) -> list[list[np.ndarray]]:
    return [[a[i : i + size] for a in data] for i in range(0, len(data[0]) if data else 0, size)]


def report(arguments: argparse.Namespace, data: list[np.ndarray], labels: np.ndarray | None) -> dict[str, Any]:
    """Sizes of both models; on the samples how far outputs are apart, accuracies, and times in turns."""
    paths = {"before": program_of(arguments.model), "after": program_of(arguments.out)}
    told: dict[str, Any] = {"bytes": {which: size_of(path) for which, path in paths.items()}}
    if not data:
        return told
    predictors = {which: create_predictor(Config(path)) for which, path in paths.items()}
    made: dict[str, np.ndarray] = {}
    batches = batches_of(data, arguments.batch)
    for which, predictor in predictors.items():
        outputs = [predictor.run([to_tensor(a) for a in rows]) for rows in batches]
        made[which] = np.concatenate([np.asarray(out[0].numpy(), np.float64) for out in outputs if out is not None])
    far = np.abs(made["after"] - made["before"])
    told["largest_difference"], told["mean_difference"] = float(far.max()), float(far.mean())
    told["largest_output"] = float(np.abs(made["before"]).max())
    if labels is not None and made["before"].ndim == 2:
        told["accuracy"] = {which: float((out.argmax(1) == labels).mean()) for which, out in made.items()}
    elif made["before"].ndim == 2 and made["before"].shape[1] > 1:
        told["same_classes"] = float((made["after"].argmax(1) == made["before"].argmax(1)).mean())
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


def size_of(path: str) -> int:
    """Size of all files of a model."""
    given = Path(path)
    if given.is_dir():
        return sum(os.path.getsize(p) for p in given.iterdir() if p.is_file())
    endings = (".json", ".safetensors", ".pdmodel", ".pdiparams", ".onnx")
    return sum(os.path.getsize(p) for p in given.parent.iterdir() if p.stem == given.stem and p.suffix in endings)


def shown(told: dict[str, Any], rows: list[tuple[str, str]]) -> str:
    """A report as lines, after some of its own."""
    size = told["bytes"]
    rows = [*rows, ("size", f"{size['before'] / 1e3:,.0f} kB before, {size['after'] / 1e3:,.0f} after")]
    if "ms" in told:
        far, most = told["largest_difference"], told["largest_output"]
        rows.append(
            ("outputs", f"apart by {far:.3g} at most, {told['mean_difference']:.3g} on average, of up to {most:.3g}")
        )
        ms = told["ms"]
        rows.append((f"batch of {told['batch']}", f"{ms['before']:.2f} ms before, {ms['after']:.2f} after"))
    if "accuracy" in told:
        rows.append(("accuracy", "{before:.2%} before, {after:.2%} after".format(**told["accuracy"])))
    if "same_classes" in told:
        rows.append(("classes", f"{told['same_classes']:.2%} the same"))
    width = max(len(name) for name, _ in rows) + 2
    return "".join(f"{name:{width}}{value}\n" for name, value in rows)
