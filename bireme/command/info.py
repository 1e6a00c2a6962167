"""`bireme info`: what a saved model takes, gives and consists of."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import bireme.onnx as onnx
from bireme.core.base import errors
from bireme.jit import load

ENDINGS = (".json", ".pdmodel", ".pdiparams", ".safetensors")


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="path of a model of jit.save, of Paddle's, or of an ONNX file; or a folder"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--program", action="store_true", help="print the calls of the program too")


def run(arguments: argparse.Namespace) -> int:
    """Load the model and print what it is."""
    layer = loaded(arguments.model)
    told = described(layer)
    if arguments.json:
        sys.stdout.write(json.dumps(told) + "\n")
        return 0
    rows = [
        (f"{kind[:-1]} {x['name']}", f"{x['dtype']} {x['shape']}") for kind in ("inputs", "outputs") for x in told[kind]
    ]
    rows += [("parameters", f"{told['parameters']:,} numbers, {told['bytes'] / 2**20:.1f} MiB")]
    rows += [("calls", str(sum(told["calls"].values())))]
    rows += [(f"  {name}", str(n)) for name, n in told["calls"].items()]
    width = max(len(name) for name, _ in rows) + 2
    sys.stdout.write("".join(f"{name:{width}}{value}\n" for name, value in rows))
    if arguments.program:
        sys.stdout.write(f"\n{layer.program()}\n")
    return 0


def loaded(path: str) -> Any:
    """A saved model of any known format, by its path with or without an ending, or by its folder."""
    file = Path(path)
    if file.suffix == ".onnx":
        return onnx.load(path)
    if file.is_dir():
        if (file / "__model__").exists():
            return load(path, model_filename="__model__")
        found = sorted({p.with_suffix("") for p in file.iterdir() if p.suffix in ENDINGS[:2]})
        if len(found) != 1:
            which = "none" if not found else ", ".join(p.name for p in found)
            raise errors.bad("info MODEL", f"a folder with one model, {path} has", described=which)
        return load(os.fspath(found[0]))
    return load(os.fspath(file.with_suffix("") if file.suffix in ENDINGS else file))


def described(layer: Any) -> dict[str, Any]:
    """Inputs, outputs, sizes and calls of a loaded model."""
    model = layer._models["forward"]
    tensors = list(layer.state_dict().values())
    return {
        "inputs": [_sketch(name, x) for name, x in zip(model.input_names, model.inputs, strict=True)],
        "outputs": [_sketch(name, x) for name, x in zip(model.output_names, model.outputs, strict=True)],
        "parameters": sum(t.size for t in tensors),
        "bytes": sum(t.size * np.dtype(t.numpy().dtype).itemsize for t in tensors),
        "calls": dict(Counter(operation.type for operation in model.program.operations).most_common()),
    }


def _sketch(name: str, x: Any) -> dict[str, Any]:
    shape = [-1 if not isinstance(size, int) else size for size in x.shape]
    return {"name": name, "dtype": str(x.dtype).removeprefix("bireme."), "shape": shape}
