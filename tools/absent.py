"""Writes the names of Paddle's that are not there yet into the package, so that it can say so when one is used.

`python -m tools.absent` (a part of `make api`) rewrites bireme/compat/absent.txt.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import bireme
from bireme.compat import absent
from tools import api_snapshot

PATH = Path(absent.__file__).with_name("absent.txt")


def names() -> list[str]:
    """Paths under `paddle` of the modules, classes, functions and constants that Bireme does not have."""
    found = set()
    for line in api_snapshot.paddle_lines():
        kind, path = line.split("(")[0].split()[:2]
        if kind in ("class", "function", "constant"):
            parts = path.split(".")
            found |= {".".join(parts[:n]) for n in range(2, len(parts) + 1)}
    return sorted(path.removeprefix("paddle.") for path in found if not _is_there(path))


def _is_there(path: str) -> bool:
    value: Any = bireme
    for part in path.split(".")[1:]:
        if isinstance(value, type) and any(api_snapshot.of_setuptools(base.__module__) for base in value.__mro__):
            return True
        if hasattr(value, part):
            value = getattr(value, part)
        elif isinstance(value, ModuleType) and api_snapshot.exists(f"{value.__name__}.{part}"):
            value = importlib.import_module(f"{value.__name__}.{part}")
        else:
            return False
    return True


def main() -> None:
    new = "".join(f"{name}\n" for name in names())
    if not PATH.exists() or PATH.read_text() != new:
        PATH.write_text(new)
        print(f"{PATH.name}: the list of names that are not there yet changed")


if __name__ == "__main__":
    main()
