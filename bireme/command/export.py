"""`bireme export`: a saved model for other places, as C or ONNX."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bireme.onnx as onnx
from bireme.core.base import errors
from bireme.export import to_c
from bireme.inference.saved import model_of
from bireme.jit import TranslatedLayer
from bireme.static import InputSpec


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="saved model of jit.save, of Paddle's or of ONNX, or a folder with one"
    )
    parser.add_argument("--to", choices=["c", "onnx"], required=True, help="c: one file of C99; onnx: a file of ONNX")
    parser.add_argument("--out", "-o", metavar="FILE", required=True, help="path of what is written")
    parser.add_argument(
        "--shape",
        metavar="NAME=1,3,224,224",
        action="append",
        default=[],
        help="shape of an input whose sizes are open",
    )
    c = parser.add_argument_group("C")
    c.add_argument("--name", help="beginning of the names in C (default: that of the file)")
    c.add_argument("--beside", action="store_true", help="weights in a file of their own")
    c.add_argument("--int8", action="store_true", help="filters of convolutions as integers of 8 bits")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and say what it is."""
    shapes = dict(_shape(text) for text in arguments.shape)
    if arguments.to == "c":
        written = to_c(
            arguments.model, arguments.out, shapes, name=arguments.name, beside=arguments.beside, int8=arguments.int8
        )
        sys.stdout.write(
            f"{written.path}: {written.calls} calls, {written.bytes / 2**20:.1f} MiB, {written.memory / 2**10:.0f} KiB of memory\n"
        )
        return 0
    graph = model_of(arguments.model)
    layer = TranslatedLayer({"forward": graph}, graph.program.tensors)
    specs = [
        InputSpec(shapes.get(x.name, [n if n >= 0 else None for n in x.shape]), x.dtype, x.name) for x in graph.inputs
    ]
    onnx.export(layer, arguments.out, specs)
    path = Path(arguments.out if arguments.out.endswith(".onnx") else arguments.out + ".onnx")
    sys.stdout.write(f"{path}: {path.stat().st_size / 2**20:.1f} MiB\n")
    return 0


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    parts = sizes.split(",")
    if not name or not all(part.strip().isdigit() for part in parts):
        raise errors.bad("--shape", "NAME=1,3,224,224", text)
    return name, tuple(map(int, parts))
