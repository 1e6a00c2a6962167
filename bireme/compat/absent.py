"""What is said of a name that a module does not have: one of Paddle's is not there yet, any other has near ones.

`absent.txt` holds Paddle's names that are missing; `make api` writes it.
"""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bireme.core.base import torch_names

HERE, THERE = "bireme", "paddle"
INSIDE = ("bireme.core", "bireme.ops")


@functools.cache
def names() -> frozenset[str]:
    """Paths under `paddle` of what Paddle has and Bireme has not."""
    return frozenset(Path(__file__).with_name("absent.txt").read_text().split())


def is_absent(name: str) -> bool:
    """Whether Paddle has `paddle.x.y`, and Bireme does not have it yet."""
    return name.partition(".")[2] in names()


def told(module: ModuleType, name: str, attribute: str) -> str:
    """The message for an attribute that a module does not have; `name` is the one that the user knows the module by."""
    path = f"{THERE}{module.__name__.removeprefix(HERE)}.{attribute}"
    if is_absent(path):
        return f"{HERE} has no {path} yet"
    here = torch_names.MODULES.get(module.__name__, {}).get(attribute)
    # names that a module imports when they are asked for are not among its attributes before
    public = [n for n in sorted({*dir(module), *vars(module).get("__all__", ())}) if not n.startswith("_")]
    near = [n for n in public if n.lower() == attribute.lower()] or difflib.get_close_matches(attribute, public, 3)
    hint = f"\n  hint: did you mean {' or '.join(near)}?" if near else ""
    hint = f"\n  hint: PyTorch's {attribute} is {here} here" if here else hint
    return f"module '{name}' has no attribute '{attribute}'{hint}"


def explain() -> None:
    """Let the public modules that are imported say so."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if (name == HERE or name.startswith(f"{HERE}.")) and not name.startswith(INSIDE):
            module.__getattr__ = _refusing(module, vars(module).get("__getattr__"))  # type: ignore[method-assign]  # a module's own, as Python has them


def _refusing(module: ModuleType, own: Callable[[str], Any] | None) -> Callable[[str], Any]:
    def __getattr__(attribute: str) -> Any:
        name = module.__name__
        if own is not None:
            try:
                return own(attribute)
            except AttributeError as e:
                if str(e) != f"module {name!r} has no attribute {attribute!r}":
                    raise
        if attribute.startswith("__"):
            raise AttributeError(f"module '{name}' has no attribute '{attribute}'", name=attribute)
        raise AttributeError(told(module, name, attribute), name=attribute)

    return __getattr__
