"""The code on a page of the documentation, run from top to bottom: `python -m tools.docs_code docs/start.md`.

Blocks marked `python` run in one namespace, in a fresh folder. A block marked `text` that follows one directly is what
it prints, where `...` stands for anything. `<!-- not run: reason -->` on the line before a block leaves it out.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import linecache
import os
import re
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"(?P<skip>^<!-- not run: \S[^\n]*-->\n)?^```(?P<kind>[^\n`]*)\n(?P<body>.*?)^```$", re.M | re.S)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Block:
    """Code of a page with the line it begins at, and what the page says that it prints."""

    line: int
    code: str
    prints: str | None = None


def blocks(text: str) -> list[Block]:
    """The code that runs, in order."""
    found: list[Block] = []
    last, end = None, 0
    for fence in FENCE.finditer(text):
        if fence["kind"] == "python":
            last = None if fence["skip"] else Block(text.count("\n", 0, fence.start("body")) + 1, fence["body"])
            found += [last] if last else []
        elif fence["kind"] == "text" and last is not None and not text[end : fence.start()].strip():
            last.prints = fence["body"]
        else:
            last = None
        end = fence.end()
    return found


def run(path: Path) -> list[str]:
    """What went wrong on a page."""
    wrong = []
    namespace = {"__name__": "__main__"}
    for block in blocks(path.read_text()):
        said = io.StringIO()
        code = "\n" * (block.line - 1) + block.code
        # where `to_static` looks for the source of a function
        linecache.cache[path.name] = (len(code), None, code.splitlines(keepends=True), path.name)
        try:
            with contextlib.redirect_stdout(said):
                exec(compile(code, path.name, "exec"), namespace)
        except Exception:  # noqa: BLE001  # whatever a page's code raises is a finding
            return [*wrong, f"{path.name}:{block.line}: {traceback.format_exc()}"]
        if block.prints is not None and not doctest.OutputChecker().check_output(block.prints, said.getvalue(), FLAGS):
            wrong.append(f"{path.name}:{block.line}: expected\n{block.prints}got\n{said.getvalue()}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        wrong = run(page)
        os.chdir("/")
    print("\n".join(wrong), end="")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
