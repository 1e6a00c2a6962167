"""The generated pages of the site: the API reference, and the tables of flags and of what is missing.

`python -m tools.api_pages` (a part of `make docs`) writes docs/api and docs/_generated. Which name stands on which page
follows from the public modules' own lists; autodoc reads the docstrings. An object that has several names, or stands in
several modules, is documented once, and its other names point there.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import bireme
from bireme.core.base import flags
from tools import api_compare, api_snapshot

OUT = api_snapshot.ROOT / "docs" / "api"
TABLES = api_snapshot.ROOT / "docs" / "_generated"
PACKAGE = Path(bireme.__file__).parent
MOST = 90  # names on one page: a module with more is divided as its source is
# modules in the order of the table of contents, which is also the order in which they claim what several of them offer
PARTS = {
    "Tensors and functions": "bireme linalg fft signal special autograd incubate.autograd distribution "
    "distribution.transform distribution.constraint distribution.variable",
    "Layers": "nn nn.functional nn.initializer nn.utils regularizer incubate.nn incubate.nn.functional vision.models "
    "vision.ops nn.quant nn.quant.format nn.quant.qat",
    "Training": "optimizer optimizer.lr amp amp.debugging metric callbacks hapi "
    "incubate.optimizer incubate.optimizer.functional incubate quantization quantization.observers quantization.quanters "
    "incubate.asp",
    "Programs": "jit jit.drawing jit.transforms static static.nn onnx",
    "Deployment": "inference serve llm export ocr",
    "Distributed training": "distributed distributed.fleet distributed.communication.stream distributed.sharding "
    "distributed.fleet.utils distributed.fleet.utils.context_parallel_utils distributed.utils.moe_utils "
    "incubate.distributed.fleet incubate.distributed.models.moe",
    "Data and files": "io files files.paddle_models vision.transforms vision.datasets vision audio audio.functional "
    "audio.features audio.backends audio.datasets text hub utils utils.dlpack utils.download utils.unique_name reader",
    "Engine and devices": "debug profiler cost_model errors extension utils.cpp_extension device device.cuda device.xpu version",
}
REST = "For code written for Paddle"


def modules() -> dict[str, list[ModuleType]]:
    """The public modules by part; one that no part names comes last, so that a new one is there by itself."""
    found = {m.__name__.removeprefix("bireme."): m for m in api_snapshot.public_modules() if "._" not in m.__name__}
    for name in ("files", "files.paddle_models"):
        found.setdefault(name, importlib.import_module(f"bireme.{name}"))
    found = {name: m for name, m in found.items() if names_of(m)}  # a package of nothing but modules has no page
    parts = {part: [found.pop(name) for name in names.split() if name in found] for part, names in PARTS.items()}
    return {**parts, REST: list(found.values())}


def names_of(module: ModuleType) -> list[str]:
    """What a module offers, without other modules."""
    listed = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    return sorted((n for n in listed if not isinstance(getattr(module, n), ModuleType)), key=str.lower)


def home(value: Any) -> tuple[str, ...]:
    """Where in the package an object is written, as parts of the path: ("ops", "math", "arithmetic")."""
    if api_snapshot.is_op(value):
        return tuple(value.op.body.__module__.split(".")[1:])
    inner = [value, *(vars(value).values() if inspect.isclass(value) else ())]
    files = [Path(inspect.unwrap(f).__code__.co_filename) for f in inner if inspect.isfunction(f)]
    inside = [f.relative_to(PACKAGE).with_suffix("").parts for f in files if f.is_relative_to(PACKAGE)]
    if inside:
        return inside[0]
    return tuple(value.__module__.split(".")[1:]) if inspect.isclass(value) else ()


def groups(module: ModuleType) -> dict[tuple[str, ...], list[str]]:
    """The names of a module by the folders and files of their source; what is written elsewhere is one group, ()."""
    base = ("ops",) if module in (bireme, bireme.nn.functional) else tuple(module.__name__.split(".")[1:])
    homes = {n: home(getattr(module, n)) for n in names_of(module)}
    paths = {n: at[len(base) :] if at[: len(base)] == base else () for n, at in homes.items()}

    def divided(names: Iterable[str], depth: int) -> dict[tuple[str, ...], list[str]]:
        by: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for n in names:
            by[paths[n][:depth]].append(n)
        for path, some in list(by.items()):
            if len(some) > MOST and any(len(paths[n]) > depth for n in some):
                by |= divided(by.pop(path), depth + 1)
        return by

    return dict(sorted(divided(paths, 1).items(), key=lambda item: (not item[0], item[0])))


class Claims:
    """Under which of its names an object is documented."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        for module in (m for some in modules().values() for m in some):
            # an object's own name claims it before its other names do
            own_first = sorted(names_of(module), key=lambda n: getattr(getattr(module, n), "__name__", n) != n)
            for n in own_first:
                if callable(getattr(module, n)):
                    self.names.setdefault(id(getattr(module, n)), f"{module.__name__}.{n}")

    def other(self, full: str, value: Any) -> str | None:
        """The name under which an object is documented, if it is not this one."""
        claimed = self.names.get(id(api_snapshot.function_of(value)), full)
        if claimed != full:
            return claimed
        twin = api_compare.look_up(full[:-1]) if full.endswith("_") else None
        return full[:-1] if api_snapshot.is_op(twin) else None


def entry(full: str, value: Any, claims: Claims) -> str:
    """One public name: its docstring, or a line that says where that is."""
    kind, other = api_snapshot.kind(value), claims.other(full, value)
    if kind == "constant":
        says = f"The element type ``{value.name}``." if isinstance(value, bireme.dtype) else f"``{value!r}``"
        return f".. py:data:: {full}\n\n   {says}\n"
    if value is bireme.Tensor and full == "bireme.Tensor":
        return f".. py:class:: {full}\n   :no-index:\n\n   :doc:`All of it <bireme.Tensor>`.\n"
    if other is not None and kind == "class":
        # one name of a class stands for it in annotations: the others are no targets
        return f".. py:class:: {full}\n   :no-index:\n\n   Another name of :py:class:`{other}`.\n"
    if other is not None:
        says = "In-place form of" if full == f"{other}_" else "Another name of"
        return f".. py:function:: {full}{api_snapshot.signature(value)}\n\n   {says} :py:func:`{other}`.\n"
    if kind != "class":
        return f".. autofunction:: {full}\n"
    if issubclass(value, BaseException):
        return f".. autoexception:: {full}\n   :show-inheritance:\n"
    options = "   :members:\n"
    if value is bireme.nn.Layer:
        options += "   :inherited-members: object\n"
    elif issubclass(value, bireme.nn.Layer):
        # what a layer computes is the class's own text; `forward` would say it once more
        options += "   :exclude-members: forward, extra_repr\n"
    return f".. autoclass:: {full}\n{options}"


def first_sentence(value: Any) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    return text.removesuffix(": a list of names.").removesuffix(".")


def heading(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def page(path: str, *parts: str) -> None:
    (OUT / f"{path}.rst").write_text("\n".join(parts))


def toctree(paths: Iterable[str]) -> str:
    return ".. toctree::\n   :hidden:\n\n" + "".join(f"   {path}\n" for path in paths)


def summary(module: ModuleType, names: list[str]) -> str:
    """The table of links with a sentence each."""
    rows = "".join(f"   ~{module.__name__}.{n}\n" for n in names if callable(getattr(module, n)))
    return f".. autosummary::\n   :nosignatures:\n\n{rows}"


def module_pages(module: ModuleType, claims: Claims) -> None:
    """The page of a module, and those of its groups where it is large."""
    full, names = module.__name__, names_of(module)
    intro = inspect.getdoc(module) or ""
    if intro.endswith(": a list of names."):
        intro = f"{first_sentence(module)}."
    head = [heading(full), f".. py:module:: {full}\n", ".. py:currentmodule:: None\n", f"{intro}\n"]
    entries = {n: entry(f"{full}.{n}", getattr(module, n), claims) for n in names}
    if len(names) <= MOST:
        page(full, *head, summary(module, names), heading("Reference", "-"), *entries.values())
        return
    inner = []
    for path, some in groups(module).items():
        said = path[1:] if path[0:1] == ("nn",) and path[1:] else path
        title = ": ".join(said).replace("_", " ").capitalize() or "Types, devices, settings"
        at = f"{full}-{'-'.join(path) or 'settings'}"
        if all(claims.other(f"{full}.{n}", getattr(module, n)) is not None for n in some):
            head += [heading(title, "-"), *(entries[n] for n in some)]  # pointers alone make no page
            continue
        inner.append(f"{title} <{at}>")
        head += [heading(title, "-"), summary(module, some)]
        page(at, heading(f"{title} ({full})"), *(entries[n] for n in some))
    page(full, *head, toctree(inner))


def tensor_page(claims: Claims) -> None:
    """Tensor: attributes, methods of its own, then operators, each with the function that documents it."""
    members = {full.rpartition(".")[2]: v for full, v in api_snapshot.members("bireme.Tensor", bireme.Tensor)}
    attributes = [n for n, v in members.items() if api_snapshot.kind(v, member=True) in ("property", "constant")]
    elsewhere = {n: claims.names[id(v)] for n, v in members.items() if id(v) in claims.names}
    twins = {n: n[:-1] for n, v in members.items() if api_snapshot.is_op(v) and n.endswith("_") and n[:-1] in members}
    pointing = {**{n: f"In-place form of :py:meth:`{t} <bireme.Tensor.{t}>`." for n, t in twins.items()}}
    pointing |= {n: f"The same as :py:func:`{full}`." for n, full in elsewhere.items() if n not in twins}
    own = [n for n in members if n not in attributes and n not in pointing]
    parts = [heading("bireme.Tensor"), ".. autoclass:: bireme.Tensor\n", heading("Attributes", "-")]
    parts += [f".. autoattribute:: bireme.Tensor.{n}\n" for n in attributes]
    parts += [heading("Methods", "-"), *(f".. automethod:: bireme.Tensor.{n}\n" for n in own)]
    parts += [heading("Functions as methods", "-"), "The tensor is the first argument of the function.\n"]
    for n, says in sorted(pointing.items()):
        signature = api_snapshot.signature(members[n], member=True)
        parts.append(f".. py:method:: bireme.Tensor.{n}{signature}\n\n   {says}\n")
    page("bireme.Tensor", *parts)


def part_page(part: str, some: list[ModuleType]) -> list[str]:
    """The page of a part, for the table of contents; returns its table, which the first page shows as well."""
    about = {m.__name__: first_sentence(m) for m in some}
    if bireme in some:
        about |= {"bireme.Tensor": first_sentence(bireme.Tensor)}
    rows = "".join(f"   * - :doc:`{name}`\n     - {text}.\n" for name, text in about.items())
    listed = f".. list-table::\n   :widths: 30 70\n\n{rows}"
    page(slug(part), heading(part), listed, toctree(about))
    return [heading(part, "-"), listed]


def slug(part: str) -> str:
    return part.lower().replace(" ", "-")


def table(name: str, heads: list[str], rows: list[list[Any]]) -> None:
    """A table in Markdown, for a page to include."""
    lines = [heads, ["---"] * len(heads), *rows]
    (TABLES / f"{name}.md").write_text("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n")


def builtin_bases(cls: type) -> list[str]:
    """The builtin classes that catch an exception, but for the widest."""
    wide = (LookupError, Exception, BaseException, object)
    return [c.__name__ for c in cls.__mro__ if c.__module__ == "builtins" and c not in wide]


def tables() -> None:
    """Errors, flags, and what Paddle has and Bireme has not."""
    TABLES.mkdir(exist_ok=True)
    raised = [getattr(bireme.errors, n) for n in names_of(bireme.errors)]
    rows = [[f"`{c.__name__}`", ", ".join(f"`{b}`" for b in builtin_bases(c)), f"{first_sentence(c)}."] for c in raised]
    table("errors", ["class", "caught as", "what went wrong"], rows)
    declared = [[f"`FLAGS_{f.name}`", f"`{f.default}`", f.doc] for f in flags.declared()]
    table("flags", ["flag", "default", "meaning"], declared)
    counts = api_compare.compare()
    missing: dict[str, dict[str, int]] = {part: defaultdict(int) for part in api_compare.PARTS}
    begun = []
    for module, by in counts.items():
        names, members = by[False], by[True]
        for fact in names.missing:
            missing[api_compare.part_of(fact.name)][f"`{module}`"] += 1
        if names.match or names.differ:
            inside = f"{members.total - len(members.missing)} of {members.total}" if members.total else ""
            begun.append([f"`{module}`", f"{names.total - len(names.missing)} of {names.total}", inside])
    rows = [[part, sum(n.values()), ", ".join(f"{m} {k}" for m, k in n.items())] for part, n in missing.items() if n]
    table("missing", ["part", "names", "in"], rows or [["all", 0, "every name is there"]])
    table("modules", ["module", "names", "members"], begun)


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    claims, parts = Claims(), modules()
    index = [heading("API reference"), "Every public name, module by module. The tests run every example in it.\n"]
    for part, some in parts.items():
        index += part_page(part, some)
        for module in some:
            module_pages(module, claims)
    tensor_page(claims)
    page("index", *index, toctree(map(slug, parts)))
    tables()


if __name__ == "__main__":
    main()
