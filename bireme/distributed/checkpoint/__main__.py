"""`python -m bireme.distributed.checkpoint`: shows, merges and splits checkpoints."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence

from bireme.core.base import errors
from bireme.distributed.checkpoint import manifest, paddle_layout
from bireme.distributed.checkpoint.layouts import opened
from bireme.distributed.checkpoint.merge import merge, split

DESCRIPTION = """Checkpoints that are saved in parts, by Bireme's save_state_dict or by Paddle's.

  show DIR                      which versions there are, and the tensors of the last one
  merge DIR OUT                 write whole tensors into one file, OUT.safetensors or OUT.pdparams
  split IN DIR --parts N        save the tensors of a file as a new version in N files
  prune DIR --keep N            remove all but the newest N versions

Tensors pass one by one, so that a checkpoint may be larger than the memory; a .pdparams file is made in memory.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; the exit code."""
    parser = argparse.ArgumentParser(
        "python -m bireme.distributed.checkpoint",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="{show,merge,split,prune}")
    show_parser = commands.add_parser("show", help="list versions and tensors")
    merge_parser = commands.add_parser("merge", help="parts to one file")
    split_parser = commands.add_parser("split", help="one file to parts")
    prune_parser = commands.add_parser("prune", help="remove old versions")
    for each in (show_parser, merge_parser, prune_parser):
        each.add_argument("folder", metavar="DIR", help="folder of the checkpoint")
    for each in (show_parser, merge_parser):
        each.add_argument("--version", type=_count, metavar="K", help="number of the version (default: the last one)")
    merge_parser.add_argument("out", metavar="OUT", help="file to write, .safetensors or .pdparams")
    merge_parser.add_argument("--prefix", help="only names that begin with this and a dot, without it; as: model")
    split_parser.add_argument("file", metavar="IN", help="file with a dict of tensors")
    split_parser.add_argument("folder", metavar="DIR", help="folder of the checkpoint")
    split_parser.add_argument("--parts", type=_positive, default=2, metavar="N", help="number of files (default: 2)")
    split_parser.add_argument("--axis", type=_count, default=0, help="axis to cut tensors along (default: 0)")
    split_parser.add_argument("--prefix", help="prepended to all names, with a dot; as: model")
    prune_parser.add_argument("--keep", type=_positive, required=True, metavar="N", help="how many to keep")
    given = parser.parse_args(arguments)
    try:
        sys.stdout.write(COMMANDS[given.command](given))
    except (ValueError, TypeError, OSError) as e:
        if not getattr(e, "_told", False):
            raise
        sys.stderr.write(f"error: {str(e).partition(chr(10))[0]}\n")
        return 1
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a non-negative integer, got {text}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text}")
    return int(text)


def _show(given: argparse.Namespace) -> str:
    numbers = sorted(manifest.versions(given.folder) or paddle_layout.versions(given.folder))
    with opened("show", given.folder, given.version) as version:
        lines = [f"versions {', '.join(map(str, numbers))}; {version.folder}:"]
        for name, x in sorted(version.tensors.items()):
            files = len({piece.file for piece in x.pieces})
            lines.append(f"  {name}  {x.dtype.name}{list(x.shape)}  {len(x.pieces)} pieces in {files} files")
        lines += [f"  {name}  {str(x)[:60]}" for name, x in sorted(version.values.items())]
        size = sum(math.prod(x.shape) * x.dtype.itemsize for x in version.tensors.values())
    return "\n".join([*lines, f"{len(version.tensors)} tensors, {size / 1e6:.1f} MB"]) + "\n"


def _merge(given: argparse.Namespace) -> str:
    if not given.out.endswith((".safetensors", ".pdparams")):
        raise errors.bad("merge(OUT)", "a name that ends in .safetensors or .pdparams", given.out)
    count, size = merge(given.folder, given.out, given.prefix, given.version)
    return f"{count} tensors, {size / 1e6:.1f} MB: {given.out}\n"


def _split(given: argparse.Namespace) -> str:
    version, count = split(given.file, given.folder, given.parts, given.axis, given.prefix)
    return f"{count} tensors in {given.parts} files: {os.path.join(given.folder, str(version))}\n"


def _prune(given: argparse.Namespace) -> str:
    gone = manifest.prune(given.folder, given.keep)
    return f"removed {', '.join(map(str, gone)) or 'nothing'}\n"


COMMANDS = {"show": _show, "merge": _merge, "split": _split, "prune": _prune}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
