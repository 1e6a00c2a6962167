"""The generated pages of the site: the API reference from the public modules' own lists, tables of flags and of what is missing.

`python -m tools.api_pages` (a part of `make docs`) writes docs/api and the tables in docs/_generated. Sphinx's autodoc reads
the docstrings; an object that has several names or stands in several modules is documented once, and its other names point there.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import bireme
from bireme.core import flags
from tools import api_compare, api_snapshot

OUT = api_snapshot.ROOT / "docs" / "api"
TABLES = api_snapshot.ROOT / "docs" / "_generated"
MOST = 60  # names on one page: a module with more is divided as its source is
# the order in which modules claim what several of them offer, and the order in the table of contents
PARTS = {
    "Tensors and functions": ["bireme", "linalg", "fft", "signal", "special", "autograd", "incubate.autograd"],
    "Layers": ["nn", "nn.functional", "nn.initializer", "nn.utils", "regularizer", "incubate.nn", "incubate.nn.functional", "vision.models"],
    "Training": [
        *("optimizer", "optimizer.lr", "amp", "amp.debugging", "metric", "callbacks", "hapi", "distributed.fleet.utils"),
        *("incubate.optimizer", "incubate.optimizer.functional", "incubate"),
    ],
    "Data and files": ["io", "files", "utils", "utils.dlpack", "utils.download", "utils.unique_name", "reader"],
    "Engine and devices": ["debug", "device", "device.cuda", "device.xpu", "version"],
}
REST = "For code written for Paddle"
REPOSITORY = Path(bireme.__file__).parent


def modules() -> dict[str, list[ModuleType]]:
    """The public modules by part; one that no part names comes last, so that a new one is there by itself."""
    found = {m.__name__.removeprefix("bireme."): m for m in api_snapshot.public_modules() if "._" not in m.__name__}
    found["files"] = importlib.import_module("bireme.files")
    parts = {part: [found.pop(name) for name in names if name in found] for part, names in PARTS.items()}
    return {**parts, REST: list(found.values())}


def names_of(module: ModuleType) -> list[str]:
    """What a module offers, without other modules."""
    listed = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    return [n for n in listed if not isinstance(getattr(module, n), ModuleType)]


def home(value: Any) -> tuple[str, ...]:
    """Where in the package an object is written, as parts of the path: ("ops", "math", "power")."""
    if api_snapshot.is_op(value):
        return tuple(value.family.split(".")[1:])
    inner = [value, *(vars(value).values() if inspect.isclass(value) else ())]
    files = [inspect.unwrap(f).__code__.co_filename for f in inner if inspect.isfunction(f)]
    inside = [Path(f).relative_to(REPOSITORY) for f in files if Path(f).is_relative_to(REPOSITORY)]
    if inside:
        return inside[0].with_suffix("").parts
    return tuple(getattr(value, "__module__", None).split(".")[1:]) if inspect.isclass(value) else ()


def groups(module: ModuleType, names: list[str]) -> dict[str, list[str]]:
    """The names of a large module by the folders and files of their source; all that is written elsewhere is one group."""
    ops = module.__name__.removeprefix("bireme.") in {"bireme", "nn.functional"}
    base = ("ops",) if ops else tuple(module.__name__.split(".")[1:])
    paths = {n: home(getattr(module, n))[len(base) :] if home(getattr(module, n))[: len(base)] == base else () for n in names}

    def divided(some: list[str], depth: int) -> dict[tuple[str, ...], list[str]]:
        by: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for n in some:
            by[paths[n][:depth]].append(n)
        for path, few in list(by.items()):
            if len(few) > MOST and any(len(paths[n]) > depth for n in few):
                by |= divided(by.pop(path), depth + 1)
        return by

    found = divided(names, 1)
    return {" ".join(path): found[path] for path in sorted(found, key=lambda p: (not p, p))}


class Claims:
    """Which name of each object is the one that is documented."""

    def __init__(self) -> None:
        self.name: dict[int, str] = {}
        for some in modules().values():
            for module in some:
                # an operator's own name claims it before its other names do
                for n in sorted(names_of(module), key=lambda n: getattr(getattr(module, n), "__name__", n) != n):
                    value = getattr(module, n)
                    if callable(value):
                        self.name.setdefault(id(value), f"{module.__name__}.{n}")

    def other(self, full: str, value: Any) -> str | None:
        """The name under which an object is documented, if it is not this one."""
        claimed = self.name.get(id(value), full)
        if claimed != full:
            return claimed
        if full.endswith("_") and callable(value):  # an in-place form shares the docstring of its operator
            owner, _, n = full.rpartition(".")
            twin = getattr(look_up(owner), n[:-1], None)
            if twin is not None and api_snapshot.is_op(twin):
                return f"{owner}.{n[:-1]}"
        return None


def look_up(full: str) -> Any:
    value: Any = bireme
    for part in full.split(".")[1:]:
        value = getattr(value, part)
    return value


def entry(full: str, value: Any, claims: Claims) -> str:
    """One public name: its docstring, or a line that says where that is."""
    kind = api_snapshot.kind(value)
    if kind == "constant":
        return f".. py:data:: {full}\n\n   {constant(value)}\n"
    other = claims.other(full, value)
    if other is not None:
        said = "In-place form of" if full == f"{other}_" else "Another name of"
        role = "class" if kind == "class" else "func"
        # one name of a class stands for it in annotations: the others are no targets
        head = f".. py:class:: {full}\n   :no-index:" if kind == "class" else f".. py:function:: {full}{api_snapshot.signature(value)}"
        return f"{head}\n\n   {said} :py:{role}:`{other}`.\n"
    if kind != "class":
        return f".. autofunction:: {full}\n"
    if issubclass(value, BaseException):
        return f".. autoexception:: {full}\n   :show-inheritance:\n"
    if value is bireme.Tensor:
        return f".. py:class:: bireme.Tensor\n   :no-index:\n\n   {first_sentence(value)} All of it is on :doc:`a page of its own <bireme.Tensor>`.\n"
    inherited = "   :inherited-members: object\n" if value is bireme.nn.Layer else ""
    layer = issubclass(value, bireme.nn.Layer) and value is not bireme.nn.Layer
    # what a layer computes is the class's own text; `forward` would say it once more
    return f".. autoclass:: {full}\n   :members:\n{inherited}" + ("   :exclude-members: forward, extra_repr\n" if layer else "")


def constant(value: Any) -> str:
    return f"The element type ``{value.name}``." if isinstance(value, bireme.dtype) else f"``{value!r}``"


def first_sentence(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")


def heading(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def page(path: str, *parts: str) -> None:
    (OUT / f"{path}.rst").write_text("\n".join(parts))


def summary(fulls: list[str]) -> str:
    rows = "\n".join(f"   ~{full}" for full in fulls)
    return f".. autosummary::\n   :nosignatures:\n\n{rows}\n"


def module_pages(module: ModuleType, claims: Claims) -> None:
    """The page of a module, and those of its groups where it is large."""
    full, names = module.__name__, sorted(names_of(module), key=str.lower)
    intro = (inspect.getdoc(module) or "").removesuffix(": a list of names.")
    parts = [heading(full), f".. py:module:: {full}\n", ".. py:currentmodule:: None\n", f"{intro}\n"]
    inner = [m for m in names if callable(getattr(module, m))]
    if len(names) <= MOST:
        parts += [summary([f"{full}.{n}" for n in inner]), heading("Reference", "-")]
        page(full, *parts, *(entry(f"{full}.{n}", getattr(module, n), claims) for n in names))
        return
    by = groups(module, names)
    toctree = ".. toctree::\n   :hidden:\n\n"
    for group, some in by.items():
        title = group.replace("_", " ").capitalize() or "Types, devices, settings"
        path = f"{full}-{(group or 'settings').replace(' ', '-')}"
        toctree += f"   {title} <{path}>\n"
        parts += [heading(title, "-"), summary([f"{full}.{n}" for n in some if callable(getattr(module, n))])]
        page(path, heading(f"{full}: {title[:1].lower()}{title[1:]}"), *(entry(f"{full}.{n}", getattr(module, n), claims) for n in some))
    page(full, *parts, toctree)


def tensor_page(claims: Claims) -> None:
    """Tensor: attributes, its own methods, then the operators, each with the function that documents it."""
    cls = bireme.Tensor
    members = {full.rpartition(".")[2]: value for full, value in api_snapshot.members("bireme.Tensor", cls)}
    attributes = [n for n, v in members.items() if api_snapshot.kind(v, member=True) in ("property", "constant")]
    elsewhere = {n: claims.name[id(v)] for n, v in members.items() if id(v) in claims.name}
    own = [n for n in members if n not in attributes and n not in elsewhere and not api_snapshot.is_op(members[n])]
    rest = [n for n in members if n not in attributes and n not in own]
    parts = [heading("bireme.Tensor"), ".. autoclass:: bireme.Tensor\n", heading("Attributes", "-")]
    parts += [f".. autoattribute:: bireme.Tensor.{n}\n" for n in attributes]
    parts += [heading("Methods", "-"), *(f".. automethod:: bireme.Tensor.{n}\n" for n in own)]
    parts += [heading("Operators as methods", "-"), "The tensor is the first argument; the function that is named says the rest.\n"]
    for n in rest:
        value = members[n]
        twin = n[:-1] if n.endswith("_") and n[:-1] in members else None
        if n in elsewhere:
            says = f"The same as :py:func:`{elsewhere[n]}`."
        elif twin is not None:
            says = f"In-place form of :py:meth:`{twin} <bireme.Tensor.{twin}>`."
        else:
            parts.append(f".. automethod:: bireme.Tensor.{n}\n")
            continue
        parts.append(f".. py:method:: bireme.Tensor.{n}{api_snapshot.signature(value, member=True)}\n\n   {says}\n")
    page("bireme.Tensor", *parts)


def table(name: str, heads: list[str], rows: list[list[Any]]) -> None:
    """A table in Markdown, for a page to include."""
    lines = [heads, ["---"] * len(heads), *rows]
    (TABLES / f"{name}.md").write_text("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n")


def tables() -> None:
    """Flags, and what Paddle has and Bireme has not."""
    TABLES.mkdir(exist_ok=True)
    declared = [[f"`FLAGS_{f.name}`", f"`{f.default}`", f.doc] for f in flags.declared()]
    table("flags", ["flag", "default", "meaning"], declared)
    counts = api_compare.compare()
    missing: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for module, by in counts.items():
        for fact in by[False].missing:
            missing[api_compare.part_of(fact.name)][module] += 1
    rows = [
        [part, sum(missing[part].values()), ", ".join(f"`{m.removeprefix('paddle.')}` {n}" for m, n in missing[part].items())]
        for part in api_compare.PARTS
        if missing[part]
    ]
    table("missing", ["part", "names", "in"], rows)
    begun = {m: by for m, by in counts.items() if by[False].match or by[False].differ}
    rows = [
        [
            f"`{m}`",
            f"{len(by[False].match) + len(by[False].differ)} of {by[False].total}",
            f"{len(by[True].match)} of {by[True].total}" if by[True].total else "",
        ]
        for m, by in begun.items()
    ]
    table("modules", ["module", "names", "members"], rows)


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    claims = Claims()
    index = [heading("API reference"), "Every public name, module by module, from the docstrings.\n"]
    for part, some in modules().items():
        lines = [f"   {m.__name__}" for m in some]
        if part == "Tensors and functions":
            lines.insert(1, "   bireme.Tensor")
        index += [f".. toctree::\n   :caption: {part}\n   :maxdepth: 1\n", "\n".join(lines), ""]
        for module in some:
            module_pages(module, claims)
    tensor_page(claims)
    page("index", *index)
    tables()


if __name__ == "__main__":
    main()
