"""Paddle Lite's command for models, `python -m bireme.export.opt`: its arguments, and files that need no Paddle Lite."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bireme.core.base import errors
from bireme.export.c_source import to_c
from bireme.export.runtimes import to_iree, to_ort

PROCESSORS = ("arm", "x86", "host")
_REFUSED = (
    "npu",
    "huawei_kirin_npu",
    "xpu",
    "rknpu",
    "bm",
    "mlu",
    "imagination_nna",
    "metal",
    "intel_fpga",
    "nnadapter",
)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return text.lower() == "true"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bireme.export.opt",
        description="Paddle Lite's opt: a saved model as C for processors, a module of IREE for GPUs, or ONNX Runtime's format.",
    )
    parser.add_argument("--model_dir", help="folder with a model")
    parser.add_argument("--model_file", help="program of a model")
    parser.add_argument("--param_file", help="its weights, which have to lie beside it under the same name")
    parser.add_argument("--optimize_out", required=True, help="path of what is written, without an ending")
    parser.add_argument("--optimize_out_type", choices=["naive_buffer", "protobuf"], default="naive_buffer")
    parser.add_argument("--valid_targets", default="arm", help="what it is for, the first of them that can be had")
    parser.add_argument("--quant_model", type=_truth, default=False, help="weights as integers of 8 bits")
    parser.add_argument("--quant_type", choices=["QUANT_INT8", "QUANT_INT16"], default="QUANT_INT8")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224", help="shape of an open input"
    )
    parser.add_argument("--record_tailoring_info", type=_truth, default=False, help="has no meaning here")
    given = parser.parse_args(arguments)
    try:
        path = _written(given)
    except (OSError, ValueError, ImportError, RuntimeError) as e:
        lines = [line for line in str(e).splitlines() if not line.startswith("  at ")]
        sys.stderr.write("opt: " + "\n".join(lines) + "\n")
        return 1
    sys.stdout.write(f"{path}: {Path(path).stat().st_size / 2**20:.1f} MiB\n")
    return 0


def _written(given: argparse.Namespace) -> str:
    model = given.model_file or given.model_dir
    if model is None:
        raise errors.failure("expected --model_dir, or --model_file and --param_file", kind=ValueError)
    if given.param_file is not None and Path(given.param_file) != Path(given.model_file or "").with_suffix(
        ".pdiparams"
    ):
        raise errors.bad("--param_file", "the file beside --model_file that ends in .pdiparams", given.param_file)
    if given.quant_model and given.quant_type == "QUANT_INT16":
        raise errors.failure("integers of 16 bits are not written", hint="--quant_type QUANT_INT8", kind=ValueError)
    shapes = dict(_shape(text) for text in given.shape)
    if given.optimize_out_type == "protobuf":
        return to_ort(model, given.optimize_out + ".ort", shapes)
    for target in given.valid_targets.replace(" ", "").split(","):
        if target in PROCESSORS:
            name = Path(given.optimize_out).name
            return to_c(model, f"{given.optimize_out}.c", shapes, name=name, beside=True, int8=given.quant_model).path
        if target == "opencl":
            return to_iree(model, f"{given.optimize_out}.vmfb", shapes, target="vulkan")
        if target not in _REFUSED:
            raise errors.bad("--valid_targets", f"{', '.join(PROCESSORS)} or opencl", target)
    raise errors.failure(
        f"{given.valid_targets} needs its maker's libraries", hint=f"{', '.join(PROCESSORS)} or opencl", kind=ValueError
    )


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    parts = sizes.split(",")
    if not name or not all(part.strip().isdigit() for part in parts):
        raise errors.bad("--shape", "NAME=1,3,224,224", text)
    return name, tuple(map(int, parts))


if __name__ == "__main__":
    sys.exit(main())
