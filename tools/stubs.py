"""Writes the stubs (.pyi) of what exists at run time alone: operators by name, Tensor's methods, layers made of
functions.

`python -m tools.stubs` (a part of `make api`) rewrites them from the signatures that these have.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import bireme
from bireme.core.declare.public import INTERNAL, PUBLIC
from bireme.nn import activation, loss, loss_classes, loss_margin

ROOT = Path(bireme.__file__).parent
HEAD = "# Written by `make api` from what is declared: a change belongs there.\n"
# where the words stand that annotations use
WORDS = {
    "Any": "typing",
    "Attr": "bireme.nn.arguments",
    "Callable": "collections.abc",
    "DTypeLike": "bireme.core.base.dtype",
    "DeviceLike": "bireme.core.base.device",
    "GradNode": "bireme.ops.manipulation.tensor_introspection",
    "Layer": "bireme.nn.layer",
    "Layout": "bireme.core.base.mesh",
    "Loss": "bireme.nn.loss",
    "OnHost": "bireme.core.base.host_arrays",
    "Parameter": "bireme.core.tensor.parameter",
    "RemovableHandle": "bireme.core.tensor.hooks",
    "Sequence": "collections.abc",
    "SortRetType": "bireme.core.tensor.results",
    "Tensor": "bireme.core.tensor.tensor",
    "TopKRetType": "bireme.core.tensor.results",
    "overload": "typing",
}
PLAIN = (type(None), bool, int, float, str)
KINDS = inspect.Parameter


def text(annotation: Any) -> str:
    if annotation is KINDS.empty:
        return "Any"
    shown = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", shown)


def parameters(given: Iterable[inspect.Parameter]) -> str:
    """Parameters with their types; a default that is no plain value is left open."""
    shown: list[str] = []
    last: Any = None
    for p in [*given, None]:
        kind = None if p is None else p.kind
        if last is KINDS.POSITIONAL_ONLY and kind is not last:
            shown.append("/")
        if p is None:
            break
        if kind is KINDS.KEYWORD_ONLY and last not in (kind, KINDS.VAR_POSITIONAL):
            shown.append("*")
        last = kind
        star = {KINDS.VAR_POSITIONAL: "*", KINDS.VAR_KEYWORD: "**"}.get(kind, "")
        default = "" if p.default is p.empty else f" = {p.default!r}" if type(p.default) in PLAIN else " = ..."
        shown.append(f"{star}{p.name}" + ("" if p.name == "self" else f": {text(p.annotation)}") + default)
    return ", ".join(shown)


def forms(fn: Any, given: list[inspect.Parameter]) -> list[list[inspect.Parameter]]:
    """The ways to call a function: by its signature, with other keywords, with integers one by one."""
    found, declared = [given], getattr(getattr(fn, "op", None), "signature", None)
    others = {name: other for other, name in reversed(declared.aliases.items())} if declared is not None else {}
    if any(p.name in others for p in given):
        found.append([p.replace(name=others.get(p.name, p.name)) for p in given])
    if declared is not None and declared.varargs:
        at = next(i for i, p in enumerate(given) if p.name == declared.varargs)
        one_by_one = KINDS(declared.varargs, KINDS.VAR_POSITIONAL, annotation="int")
        found.append([*given[:at], one_by_one, *[p.replace(kind=KINDS.KEYWORD_ONLY) for p in given[at + 1 :]]])
    return found


def function(name: str, fn: Any) -> list[str]:
    sign = inspect.signature(fn)
    given = list(sign.parameters.values())
    returns = text(sign.return_annotation)
    if re.match(r"Tensor \| (tuple|list)\b", returns):  # who calls it knows which of the two an argument asks for
        returns = "Any"
    if name.startswith("__") and given[0].name == "x":  # `x + y`
        given[0], returns = given[0].replace(name="self"), returns.replace("Any", "Tensor")
    found = forms(fn, given)
    mark = ["@overload"] * (len(found) > 1)
    end = "  # type: ignore[override]  # elementwise" if name in ("__eq__", "__ne__") else ""
    return [line for way in found for line in (*mark, f"def {name}({parameters(way)}) -> {returns}: ...{end}")]


def property_of(name: str, value: property) -> list[str]:
    returns = text(inspect.signature(value.fget).return_annotation)  # type: ignore[arg-type]  # each can be read
    lines = ["@property", f"def {name}(self) -> {returns}: ..."]
    return lines + [f"@{name}.setter", f"def {name}(self, value: {returns}) -> None: ..."] * (value.fset is not None)


def class_of(name: str, base: str, members: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for inner, value in sorted(members.items()):
        lines += property_of(inner, value) if isinstance(value, property) else function(inner, value)
    # a type of Python's own is named as such where a method hides it, as Tensor.float does
    hidden = "|".join(n for n in members if isinstance(getattr(builtins, n, None), type))
    lines = [
        re.sub(rf"(?<=[:>|,\[] )({hidden})\b|(?<=\[)({hidden})\b", r"builtins.\g<0>", x) if hidden else x for x in lines
    ]
    return [f"class {name}({base}):", *[f"    {line}" for line in lines or ["..."]]]


def module(lines: list[str]) -> str:
    """A stub: the imports that the lines need, then these."""
    body = "\n".join(lines)
    needed = {w: where for w, where in WORDS.items() if re.search(rf"\b{w}\b", body) and f"class {w}(" not in body}
    imports = [f"from {where} import {w}" for w, where in sorted(needed.items(), key=lambda item: item[1])]
    imports += [f"import {name}" for name in ("builtins", "numpy as np") if f"{name.split()[-1]}." in body]
    return "\n".join([HEAD, *imports, "", body, ""])


def operators() -> str:
    lines = [line for name, fn in sorted({**INTERNAL, **PUBLIC}.items()) for line in function(name, fn)]
    hidden = "|".join(n for n in PUBLIC if isinstance(getattr(builtins, n, None), type))
    return module([re.sub(rf"(?<=[:>|] )({hidden})\b", r"builtins.\g<0>", line) for line in lines])


def methods() -> str:
    """What others than its own module have given Tensor."""
    found = {n: v for n, v in vars(bireme.Tensor).items() if isinstance(v, property) or inspect.isfunction(v)}
    home = {
        n: inspect.unwrap(v.fget if isinstance(v, property) else v).__globals__["__name__"] for n, v in found.items()
    }
    return module(
        class_of("Methods", "OnHost", {n: v for n, v in found.items() if home[n] != "bireme.core.tensor.tensor"})
    )


def layers(source: ModuleType) -> str:
    """The layers of a module, most of which are made from functions."""
    lines: list[str] = []
    for name, cls in vars(source).items():
        if inspect.isclass(cls) and cls.__module__ == source.__name__:
            members = {n: v for n, v in vars(cls).items() if inspect.isfunction(v) and not n.startswith("_")}
            head, *rest = class_of(name, cls.__base__.__name__, members)
            init = ", ".join(filter(None, ["self", parameters(inspect.signature(cls).parameters.values())]))
            lines += [head, f"    def __init__({init}) -> None: ...", *rest]
    return module(lines)


FILES = {
    "ops/__init__.pyi": operators,
    "core/tensor/methods.pyi": methods,
    "nn/activation.pyi": lambda: layers(activation),
    "nn/loss.pyi": lambda: layers(loss),
    "nn/loss_classes.pyi": lambda: layers(loss_classes),
    "nn/loss_margin.pyi": lambda: layers(loss_margin),
}


def main() -> None:
    for name, make in FILES.items():
        path, new = ROOT / name, make()
        if not path.exists() or path.read_text() != new:
            path.write_text(new)
            print(f"{name}: written")


if __name__ == "__main__":
    main()
