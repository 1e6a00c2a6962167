"""Writes the operators into the modules that offer them: which function stands where follows from the declarations.

`python -m tools.exports` (a part of `make api`) rewrites, in each module below, the import from `bireme.ops` and the
list `__all__ += [...]` after it. A function stands where Paddle has its name, or where its declaration says with
`public=`; one that would stand nowhere is told of.
"""

from __future__ import annotations

import ast
import importlib
import sys
import textwrap
from pathlib import Path

from bireme import ops
from bireme.core.declare.public import EXPORTS, PUBLIC
from tools import api_snapshot

# modules that offer operators, under `bireme`; each has the two statements that are rewritten
MODULES = (
    "",
    "compat",
    "fft",
    "geometric",
    "incubate",
    "incubate.nn.functional",
    "linalg",
    "nn.functional",
    "nn.quant",
    "signal",
    "special",
    "vision.ops",
)


def names_of(module: str) -> dict[str, str]:
    """Public name in a module: name of the declared function."""
    prefix = f"paddle.{module}." if module else "paddle."
    paths = [line.split()[1].split("(")[0] for line in api_snapshot.paddle_lines() if line.startswith("function")]
    names = {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}
    names |= {path.rpartition(".")[2] for path in EXPORTS if path.rpartition(".")[0] == module}
    elsewhere = set(EXPORTS.values())
    found = {}
    for name in sorted(n for n in names if "." not in n):
        path = f"{module}.{name}" if module else name
        if path in EXPORTS:
            found[name] = EXPORTS[path]
        elif name in PUBLIC and name not in elsewhere:
            found[name] = name
    return found


def unlisted() -> list[str]:
    """Declared functions that users would find nowhere: under no module, and no method that Paddle has on its own."""
    listed = {function for module in MODULES for function in names_of(module).values()}
    methods = {line.split("(")[0].rpartition(".")[2] for line in api_snapshot.paddle_lines() if ".Tensor." in line}
    for path, name in EXPORTS.items():  # in modules that write their lists themselves
        module, _, last = path.rpartition(".")
        if module not in MODULES and hasattr(importlib.import_module(f"bireme.{module}"), last):
            listed.add(name)
    own = [name for name, fn in PUBLIC.items() if getattr(fn, "op", fn) is fn or fn.op.name == name]
    return sorted(set(own) - listed - methods)


def written(source: str, module: str) -> str:
    """The module's text with both statements as they should be."""
    found = names_of(module)
    if not found:  # an import of nothing is no Python
        return source
    imports = textwrap.fill(", ".join(n if n == f else f"{f} as {n}" for n, f in found.items()), 116)
    listed = textwrap.fill(", ".join(f'"{n}"' for n in found), 116)
    new = {
        ast.ImportFrom: f"from bireme.ops import (  # written by `make api`\n{textwrap.indent(imports, '    ')},\n)  # fmt: skip",
        ast.AugAssign: f"__all__ += [  # written by `make api`\n{textwrap.indent(listed, '    ')},\n]  # fmt: skip",
    }
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        ours = isinstance(node, ast.AugAssign) or (isinstance(node, ast.ImportFrom) and node.module == "bireme.ops")
        if ours and type(node) in new:
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = new[type(node)].splitlines()
    return "\n".join(lines) + "\n"


def path_of(module: str) -> Path:
    at = Path(ops.__file__).parent.parent.joinpath(*module.split("."))
    return at / "__init__.py" if at.is_dir() else at.with_suffix(".py")


def main() -> None:
    for module in MODULES:
        path = path_of(module)
        if not path.exists():
            continue
        source = path.read_text()
        new = written(source, module)
        if new != source:
            path.write_text(new)
            print(f"{path.name}: the list of operators changed")
    for name in (nowhere := unlisted()):
        print(
            f'{name}: no module lists it, since Paddle has no such name: declare it with public="{name}" or internal=True'
        )
    sys.exit(bool(nowhere))


if __name__ == "__main__":
    main()
