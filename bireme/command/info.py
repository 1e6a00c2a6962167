"""`bireme info`: what a saved model takes, gives and consists of."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

from bireme.command import size
from bireme.core.program.program_model import Model
from bireme.inference.saved import is_language_model, model_of, sketches
from bireme.llm.model import sketch

EXAMPLES = """  bireme info models/net
  bireme info model/inference.pdmodel --program
  bireme info net.onnx --json
  bireme info models/llama
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="saved model of jit.save, of Paddle's or of ONNX, a folder with one, or a language model's folder",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--program", action="store_true", help="print the calls of the program too")


def run(arguments: argparse.Namespace) -> int:
    """Load the model and print what it is."""
    if is_language_model(arguments.model):
        return _of_language(arguments)
    model = model_of(arguments.model)
    told = described(model)
    if arguments.json:
        sys.stdout.write(json.dumps(told) + "\n")
        return 0
    rows = [
        (f"{kind[:-1]} {x['name']}", f"{x['dtype']} {x['shape']}") for kind in ("inputs", "outputs") for x in told[kind]
    ]
    rows += [("parameters", f"{told['parameters']:,} numbers, {size(told['bytes'])}")]
    rows += [("calls", str(sum(told["calls"].values())))]
    rows += [(f"  {name}", str(n)) for name, n in told["calls"].items()]
    width = max(len(name) for name, _ in rows) + 2
    sys.stdout.write("".join(f"{name:{width}}{value}\n" for name, value in rows))
    if arguments.program:
        sys.stdout.write(f"\n{model.program}\n")
    return 0


def _of_language(arguments: argparse.Namespace) -> int:
    told = sketch(arguments.model)
    if arguments.json:
        sys.stdout.write(json.dumps(told) + "\n")
        return 0
    rows = [(name.replace("_", " "), str(told[name])) for name in ("architecture", "vocabulary", "width", "layers")]
    rows += [
        ("heads", f"{told['heads']}, {told['shared_heads']} of keys and values"),
        ("positions", str(told["positions"])),
    ]
    rows += [("numbers", f"{told['parameters']:,} in matrices, about"), ("files", size(told["bytes"]))]
    rows += [("weights", told["weights"]), ("tokenizer", "yes" if told["tokenizer"] else "none: it takes tokens")]
    rows += [("chat template", "yes" if told["chat_template"] else "none")]
    width = max(len(name) for name, _ in rows) + 2
    sys.stdout.write("".join(f"{name:{width}}{value}\n" for name, value in rows))
    return 0


def described(model: Model) -> dict[str, Any]:
    """Inputs, outputs, sizes and calls of a model."""
    arrays = [t.numpy() for t in model.program.tensors.values()]
    kinds = [
        [{"name": name, "dtype": str(dtype), "shape": shape} for name, (dtype, shape) in each.items()]
        for each in sketches(model)
    ]
    return {
        "inputs": kinds[0],
        "outputs": kinds[1],
        "parameters": sum(a.size for a in arrays),
        "bytes": sum(a.nbytes for a in arrays),
        "calls": dict(Counter(operation.type for operation in model.program.operations).most_common()),
    }
