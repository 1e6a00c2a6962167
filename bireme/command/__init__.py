"""The command `bireme`: one verb for each thing that is done with a saved model from a shell.

A verb is a module of this package with `EXAMPLES`, `add` (its arguments) and `run` (what it does, the exit status); it is
imported when it is asked for.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from bireme.version import full_version

VERBS = {
    "export": "write a saved model for other places: C without dependencies, ONNX, IREE, a page for browsers",
    "generate": "write the text that a language model goes on with",
    "info": "show what a saved model takes, gives and consists of",
    "ocr": "read text in images and PDFs",
    "prune": "write a saved model with fewer channels, and tell what that changes",
    "quantize": "write a saved model with integers for weights, and tell what that changes",
    "serve": "answer requests to saved models over HTTP and gRPC",
}
_EPILOG = """examples:
  bireme export model/inference.pdmodel --to c -o net.c --shape x=1,3,224,224
  bireme generate models/llama --chat --prompt "Name three rivers."
  bireme info model/inference.pdmodel
  bireme ocr letter.png scan.pdf --json
  bireme prune models/mnist --ratio 0.3 --data samples.npz -o models/mnist_small
  bireme quantize models/mnist --to int8 --data samples.npz -o models/mnist8
  bireme serve mnist=models/mnist
  bireme VERB --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    parser = argparse.ArgumentParser(
        prog="bireme",
        description="Bireme: what is done with a saved model from a shell.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bireme {full_version}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    module = None
    for name, help in VERBS.items():
        own = verbs.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        if given[:1] == [name]:  # others are not imported
            module = importlib.import_module(f"bireme.command.{name}")
            module.add(own)
            own.epilog, own.formatter_class = f"examples:\n{module.EXAMPLES}", argparse.RawDescriptionHelpFormatter
    chosen = parser.parse_args(given)
    if module is None:
        return 2
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warned
            return int(module.run(chosen))
    except (OSError, ValueError, ImportError, RuntimeError, MemoryError) as e:
        sys.stderr.write(f"bireme {chosen.verb}: {told(e)}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one who typed a command wants it."""
    sys.stderr.write(f"bireme: {message}\n")


def told(error: Exception) -> str:
    """An error as one who typed a command wants it: without the line of a program that is not theirs."""
    lines = [re.sub(r", called at [^,]+,", "", x) for x in str(error).splitlines() if not x.startswith("  at ")]
    if isinstance(error, OSError) and error.filename is not None:
        lines = [_of_file(error, os.fsdecode(error.filename))]
    elif isinstance(error, MemoryError):
        lines = [f"there is not enough memory: {lines[0]}" if lines else "there is not enough memory"]
    return "\n".join(lines) or type(error).__name__


def _of_file(error: OSError, name: str) -> str:
    """What is wrong with a file, one that takes the place of another when it is whole being told as that one."""
    name = re.sub(r"\.[0-9a-f]{16}\.part$", "", name)
    folder = os.path.dirname(name) or "."
    if isinstance(error, FileNotFoundError):
        return f"there is no file {name}" if os.path.isdir(folder) else f"there is no folder {folder}"
    if isinstance(error, IsADirectoryError):
        return f"{name} is a folder"
    return f"{name}: {(error.strerror or type(error).__name__).lower()}"


def port(text: str) -> int:
    """The number of a port; of a larger one the system would take what is left in 16 bits."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a number of 0 to 65535, got {text}")
    return int(text)


def size(count: float) -> str:
    """A size in bytes as people read it."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
