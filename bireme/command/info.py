"""`bireme info`: what a saved model takes, gives and consists of."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

import numpy as np

from bireme.jit.saved import saved_model


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="path of a model of jit.save or of Paddle's, or a folder with one"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--program", action="store_true", help="print the calls of the program too")


def run(arguments: argparse.Namespace) -> int:
    """Load the model and print what it is."""
    layer, model = saved_model(arguments.model)
    told = described(layer, model)
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


def described(layer: Any, model: Any) -> dict[str, Any]:
    """Inputs, outputs, sizes and calls of a loaded model."""
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
