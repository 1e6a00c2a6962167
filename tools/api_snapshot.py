"""The public interface as text: one line per public name with its signature, kept in docs/api_snapshot.txt.

`python -m tools.api_snapshot` rewrites the file and prints what changed; `tools/api_compare.py` reads the same lines.
"""

from __future__ import annotations

import datetime
import difflib
import enum
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bireme

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "docs" / "api_snapshot.txt"
PADDLE = ROOT / "docs" / "paddle_api.txt"
HEAD = "# The public interface of Bireme, one name per line. Written by `make api`; a change here changes the API.\n"
INSIDE = {"core", "ops"}  # the engine and the operators' declarations: their public face is `bireme` itself


def paddle_lines() -> list[str]:
    """The facts about Paddle's interface, without the file's head."""
    return [line for line in PADDLE.read_text().splitlines() if not line.startswith("#")]


def public_modules() -> list[ModuleType]:
    """`bireme`, its modules one level down that have an `__all__`, and the deeper ones that Paddle has too."""
    owners = {line.split("(")[0].split()[1].rpartition(".")[0] for line in paddle_lines()}
    deep = {"bireme" + owner.removeprefix("paddle") for owner in owners if owner.count(".") > 1}
    near = {f"bireme.{m.name}" for m in pkgutil.iter_modules(bireme.__path__) if m.name not in INSIDE | {"__main__"}}
    found = [importlib.import_module(name) for name in sorted(near | deep) if exists(name)]
    return [bireme, *(m for m in found if hasattr(m, "__all__"))]


def exists(name: str) -> bool:
    """Whether there is such a module."""
    parent = name.rpartition(".")[0]
    if parent and not (exists(parent) and hasattr(importlib.import_module(parent), "__path__")):
        return False
    return importlib.util.find_spec(name) is not None


def of_setuptools(module: str) -> bool:
    """Whether a module belongs to setuptools: what is inherited from it is as its version has it, in Paddle too."""
    return module.partition(".")[0] in ("setuptools", "distutils")


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public name with its object: what the modules list, then what `Tensor` and the other classes offer."""
    for module in public_modules():
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                continue
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                yield from members(f"{module.__name__}.{name}", value)


def members(prefix: str, cls: type) -> Iterator[tuple[str, Any]]:
    """Public attributes that `cls` itself defines, `Tensor` and `Layer` with those of the parts that they are made of."""
    holders = cls.__mro__[:-1] if cls in (bireme.Tensor, bireme.nn.Layer) else [cls]
    names = {name for holder in holders for name in vars(holder) if not name.startswith("_")}
    for name in sorted(names):
        yield f"{prefix}.{name}", inspect.getattr_static(cls, name)


def kind(value: Any, member: bool = False) -> str:
    if inspect.isclass(value):
        return "class"
    if isinstance(value, (staticmethod, classmethod)):
        return "method"
    if isinstance(value, property) or inspect.isdatadescriptor(value):
        return "property"
    if callable(value):
        return "method" if member else "function"
    return "constant"


def signature(value: Any, member: bool = False) -> str:
    """`(x, axis=None)`, without annotations and, for methods, without `self`; `(...)` if it has none."""
    bound = not member or isinstance(value, staticmethod) or inspect.isclass(value)
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return "(value)"  # Python's own, which says it differently from version to version
    try:
        params = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    if not bound and params and params[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        params = params[1:]
    return f"({', '.join(_show_params(params))})"


def _show_params(params: list[inspect.Parameter]) -> Iterator[str]:
    last = None
    starred = False
    for p in params:
        if last is p.POSITIONAL_ONLY and p.kind is not p.POSITIONAL_ONLY:
            yield "/"
        if p.kind is p.KEYWORD_ONLY and not starred:
            yield "*"
        starred |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        last = p.kind
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        yield star + p.name + ("" if p.default is p.empty else f"={_show_default(p.default)}")
    if last is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _show_default(value: Any) -> str:
    # an object's own repr may hold an address, which would differ from run to run
    plain = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, datetime.timedelta)
    if isinstance(value, plain) and type(value) in plain:
        return repr(value)
    return getattr(value, "__qualname__", None) or type(value).__qualname__


def aliases(value: Any) -> dict[str, list[str]]:
    """Other keywords that an operator takes for its parameters, as its declaration says."""
    declared = getattr(value.__init__ if inspect.isclass(value) else value, "aliases", None)
    if isinstance(declared, dict):
        return declared
    if not is_op(value):
        return {}
    found: dict[str, list[str]] = {}
    for other, parameter in sorted(value.op.signature.aliases.items()):
        found.setdefault(parameter, []).append(other)
    return found


def is_op(value: Any) -> bool:
    """Whether a public object was made from an operator's declaration."""
    return callable(value) and not inspect.isclass(value) and hasattr(value, "op")


def function_of(value: Any) -> Any:
    """The function that a method of Tensor was made from; otherwise the object itself."""
    return getattr(value, "function", value) if inspect.isfunction(value) else value


def line(name: str, value: Any, member: bool = False) -> str:
    what = kind(value, member)
    text = f"{what} {name}"
    if what in ("class", "function", "method"):
        text += signature(value, member)
    other = aliases(value) if what in ("function", "method") else {}
    if other:
        text += "  # " + " ".join(f"{k}={'|'.join(v)}" for k, v in sorted(other.items()))
    return text


def snapshot() -> list[str]:
    """The lines of the public interface as it is now."""
    owners: set[str] = set()
    lines = []
    for name, value in public_names():
        lines.append(line(name, value, member=name.rpartition(".")[0] in owners))
        if inspect.isclass(value):
            owners.add(name)
    return lines


def stored() -> list[str]:
    if not SNAPSHOT.exists():
        return []
    return [text for text in SNAPSHOT.read_text().splitlines() if not text.startswith("#")]


def difference(old: list[str], new: list[str]) -> list[str]:
    """Removed and added lines, marked - and +."""
    return [text for text in difflib.unified_diff(old, new, n=0, lineterm="") if text[:2] not in ("--", "++", "@@")]


def main() -> None:
    old, new = stored(), snapshot()
    changed = difference(old, new)
    print("\n".join(changed) if changed else "the public interface is as in docs/api_snapshot.txt")
    print(f"{len(new)} public names, {len(changed)} lines changed\n")
    SNAPSHOT.write_text(HEAD + "\n".join(new) + "\n")


if __name__ == "__main__":
    main()
