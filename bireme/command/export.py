"""`bireme export`: a saved model for other places, as C, ONNX, a module of IREE or a page for browsers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bireme.onnx as onnx
from bireme.command import size
from bireme.core.base import errors
from bireme.export import ocr_to_web, to_c, to_iree, to_ort, to_web
from bireme.export.models import sized
from bireme.export.runtimes import TARGETS
from bireme.inference.saved import model_of
from bireme.jit import TranslatedLayer
from bireme.static import InputSpec

EXAMPLES = """  bireme export models/net --to onnx -o net.onnx
  bireme export model/inference.pdmodel --to c -o net.c --shape x=1,3,224,224
  bireme export models/net --to iree --target android -o net.vmfb --shape x=1,3,224,224
  bireme export models/classifier --to web -o site --shape x=1,3,224,224 --labels names.txt
"""

# what an option is for, where it is for one target alone
OPTIONS = {
    **dict.fromkeys(("name", "beside", "int8"), "c"),
    "target": "iree",
    **dict.fromkeys(("ocr", "rec_char_dict_path", "runtime", "mean", "std", "bgr", "labels"), "web"),
}


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="saved model of jit.save, of Paddle's or of ONNX, or a folder with one"
    )
    parser.add_argument(
        "--to",
        choices=["c", "onnx", "ort", "iree", "web"],
        required=True,
        help="c: one file of C99; onnx: a file of ONNX; ort: ONNX Runtime's own format; iree: a module of IREE; "
        "web: a folder with a page for browsers",
    )
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
    c.add_argument("--int8", action="store_true", help="weights as integers of 8 bits; a quantized model has them so")
    iree = parser.add_argument_group("IREE")
    iree.add_argument("--target", choices=list(TARGETS), help="what it is for (default: cpu)")
    web = parser.add_argument_group("web")
    web.add_argument(
        "--ocr", action="store_true", help="MODEL is a folder with PP-OCR's networks: a page that reads text"
    )
    web.add_argument(
        "--rec_char_dict_path",
        metavar="FILE",
        help="with --ocr: text file with a character in each line (default: ppocr_keys_v1.txt or inference.yml in MODEL)",
    )
    web.add_argument(
        "--runtime",
        metavar="FOLDER",
        help="npm's package onnxruntime-web (default: that of node_modules here or above)",
    )
    for name, what in (("mean", "subtracted from values of 0 to 1"), ("std", "that they are divided by then")):
        web.add_argument(f"--{name}", type=float, nargs=3, metavar="X", help=f"number for each channel {what}")
    web.add_argument("--bgr", action="store_true", help="channels are in the order blue, green, red")
    web.add_argument("--labels", metavar="FILE", type=Path, help="text file with the name of a class in each line")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and say what it is."""
    shapes = dict(_shape(text) for text in arguments.shape)
    for name, target in OPTIONS.items():
        if arguments.to != target and getattr(arguments, name) not in (None, False):
            raise errors.failure(f"--{name} is for --to {target}, not for --to {arguments.to}", kind=ValueError)
    if arguments.to == "c":
        written = to_c(
            arguments.model, arguments.out, shapes, name=arguments.name, beside=arguments.beside, int8=arguments.int8
        )
        sys.stdout.write(
            f"{written.path}: {written.calls} calls, {size(written.bytes)}, and {size(written.memory)} of memory when it runs\n"
        )
        return 0
    if arguments.to in ("ort", "iree"):
        if arguments.to == "ort":
            path = Path(to_ort(arguments.model, arguments.out, shapes))
        else:
            path = Path(to_iree(arguments.model, arguments.out, shapes, target=arguments.target or "cpu"))
        sys.stdout.write(f"{path}: {size(path.stat().st_size)}\n")
        return 0
    if arguments.to == "web":
        return _web(arguments, shapes)
    graph = model_of(arguments.model)
    layer = TranslatedLayer({"forward": graph}, graph.program.tensors)
    specs = [InputSpec([n if n >= 0 else None for n in x.shape], x.dtype, x.name) for x in graph.inputs]
    specs = sized(specs, shapes, "--shape")
    onnx.export(layer, arguments.out, specs, output_names=graph.output_names)
    path = Path(arguments.out if arguments.out.endswith(".onnx") else arguments.out + ".onnx")
    sys.stdout.write(f"{path}: {size(path.stat().st_size)}\n")
    return 0


def _web(arguments: argparse.Namespace, shapes: dict[str, tuple[int, ...]]) -> int:
    if arguments.ocr:
        site = ocr_to_web(
            arguments.model, arguments.out, rec_char_dict_path=arguments.rec_char_dict_path, runtime=arguments.runtime
        )
    else:
        labels = None if arguments.labels is None else arguments.labels.read_text("utf-8").splitlines()
        shape = next(iter(shapes.values()), None)
        given = ", ".join(f"{x.name}=1,3,224,224" for x in model_of(arguments.model).inputs)
        if shape is not None and (len(shapes) > 1 or len(shape) != 4 or f"{next(iter(shapes))}=1,3,224,224" != given):
            raise errors.bad("--shape", f"{given}, the input's name and four sizes", ", ".join(arguments.shape))
        site = to_web(
            arguments.model,
            arguments.out,
            feed_shape=None if shape is None else shape[-2:],
            mean=arguments.mean or (0.0, 0.0, 0.0),
            std=arguments.std or (1.0, 1.0, 1.0),
            bgr=arguments.bgr,
            labels=labels,
            runtime=arguments.runtime,
        )
    address = f"http://127.0.0.1:8000/{site.page}"
    told = f"python -m http.server --bind 127.0.0.1 -d {site.path} shows it at {address}"
    sys.stdout.write(f"{site.path}: {size(site.bytes)}; {told}\n")
    return 0


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    parts = sizes.split(",")
    if not name or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise errors.bad("--shape", "NAME=1,3,224,224, sizes of at least 1", text)
    return name, tuple(map(int, parts))
