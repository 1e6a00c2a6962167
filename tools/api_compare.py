"""Bireme's public names beside Paddle's: which exist, which take the same arguments, which are still to come.

`python -m tools.api_compare` prints a table per module; `--names MODULE` lists a module's names that are not there yet,
`--differing` explains every name whose signature is not Paddle's. The facts about Paddle are in docs/paddle_api.txt.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import textwrap
from collections import defaultdict
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.table import Table

from tools import api_snapshot

# Which part of the platform a Paddle module belongs to; the longest prefix decides.
PARTS = {
    "operators": [
        *("paddle", "paddle.Tensor", "paddle.linalg", "paddle.fft", "paddle.signal", "paddle.special"),
        *("paddle.autograd", "paddle.incubate.autograd", "paddle.compat", "paddle.device", "paddle.version"),
    ],
    "training": [
        *("paddle.nn", "paddle.optimizer", "paddle.amp", "paddle.io", "paddle.metric", "paddle.callbacks"),
        *("paddle.hapi", "paddle.regularizer", "paddle.utils", "paddle.incubate", "paddle.reader", "paddle.dataset"),
    ],
    "programs": ["paddle.jit", "paddle.static", "paddle.cost_model"],
    "deployment": ["paddle.inference", "paddle.incubate.inference", "paddle.onnx"],
    "several devices": ["paddle.distributed", "paddle.incubate.distributed"],
    "probability": ["paddle.distribution"],
    "sparse and graphs": ["paddle.sparse", "paddle.geometric"],
    "domains": ["paddle.vision", "paddle.text", "paddle.audio", "paddle.hub"],
    "quantization": ["paddle.quantization", "paddle.nn.quant", "paddle.incubate.asp"],
    "tools": ["paddle.profiler", "paddle.sysconfig", "paddle.utils.cpp_extension"],
}
# Names of `paddle` itself and of its Tensor that come with another part than the operators.
ELSEWHERE = {
    "training": ["LazyGuard", "Model", "ParamAttr", "batch", "create_parameter", "flops", "load", "save", "summary"],
    "programs": ["disable_static", "enable_static", "Tensor.block"],
    "several devices": ["DataParallel", "Tensor.get_selected_rows", "Tensor.rows"],
    "sparse and graphs": [
        *("Tensor.coalesce", "Tensor.cols", "Tensor.crows", "Tensor.indices", "Tensor.is_coalesced", "Tensor.nnz"),
        *("Tensor.to_dense", "Tensor.to_sparse_coo", "Tensor.to_sparse_csr", "Tensor.values"),
    ],
    "domains": ["Tensor.get_map_tensor", "Tensor.set_string_list", "Tensor.set_vocab"],  # of the tokenizer's strings
    "tools": ["device.xpu.set_debug_level"],  # the log of one maker's own kernels
}
ORIGIN = {prefix: part for part, prefixes in PARTS.items() for prefix in prefixes}
ORIGIN |= {f"paddle.{name}": part for part, names in ELSEWHERE.items() for name in names}

_LINE = re.compile(r"(?P<kind>\w+) (?P<name>[\w.]+)(?P<signature>\(.*?\))?(?:  # (?P<aliases>.+))?")


@dataclass
class Fact:
    """One public name of Paddle; `owner` is the module (or `Tensor`) that counts it, for members of classes too."""

    kind: str
    name: str
    signature: str
    aliases: dict[str, set[str]]
    owner: str = ""
    member: bool = False


def part_of(name: str) -> str:
    """The part of the platform that a module or a name of Paddle belongs to."""
    while name not in ORIGIN:
        name = name.rpartition(".")[0]
    return ORIGIN[name]


@dataclass
class Count:
    match: list[Fact] = field(default_factory=list)
    differ: list[tuple[Fact, str]] = field(default_factory=list)
    missing: list[Fact] = field(default_factory=list)

    @property
    def total(self) -> int:
        return len(self.match) + len(self.differ) + len(self.missing)


def parse(line: str) -> Fact:
    found = _LINE.fullmatch(line)
    assert found is not None, line
    pairs = [pair.split("=") for pair in (found["aliases"] or "").split()]
    return Fact(found["kind"], found["name"], found["signature"] or "", {k: set(v.split("|")) for k, v in pairs})


def facts() -> list[Fact]:
    """Paddle's public names, each with the module that it is counted under."""
    every = [parse(line) for line in api_snapshot.paddle_lines()]
    classes = {fact.name for fact in every if fact.kind == "class"} - {"paddle.Tensor"}
    for fact in every:
        fact.owner, _, _ = fact.name.rpartition(".")
        fact.member = fact.owner in classes
        if fact.member:
            fact.owner, _, _ = fact.owner.rpartition(".")
    return every


def look_up(name: str) -> Any:
    """Bireme's object under Paddle's name, or None."""
    value: Any = importlib.import_module("bireme")
    for part in name.split(".")[1:]:
        if isinstance(value, ModuleType):
            value = getattr(value, part, None)
        else:
            value = inspect.getattr_static(value, part, None)
        if value is None:
            return None
    return value


def stub(value: Any) -> bool:
    """Whether all that a function does is to raise NotImplementedError; such a name counts as missing."""
    value = getattr(value, "__func__", value)
    if not inspect.isfunction(value):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return False
    body = tree.body[0].body if isinstance(tree.body[0], ast.FunctionDef) else []
    body = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.dump(body[0])


def reason(fact: Fact, value: Any) -> str:
    """What differs from Paddle, empty if nothing does."""
    in_class = fact.member or fact.owner == "paddle.Tensor"
    kind = api_snapshot.kind(value, in_class)
    # a class may stand where Paddle has a function: it is called the same way; not the other way round. An attribute
    # with a default in the class reads like a property
    if fact.kind != kind and (fact.kind, kind) not in {
        ("function", "class"),
        ("constant", "property"),
        ("property", "constant"),
    }:
        return f"is a {kind}, in Paddle a {fact.kind}"
    if fact.kind in ("property", "constant") or fact.signature in ("(...)", "(*args, **kwargs)"):
        return ""
    if fact.member and api_snapshot.of_setuptools(getattr(value, "__module__", "")):
        return ""
    ours, theirs = plain(api_snapshot.signature(value, in_class)), plain(fact.signature)
    any_default = re.escape(theirs).replace(re.escape("=..."), "=[^,]+")
    if not re.fullmatch(any_default, ours):
        return f"{ours}, in Paddle {theirs}"
    lacking = [
        f"{other} for {parameter}"
        for parameter, others in sorted(fact.aliases.items())
        if re.search(rf"\b{parameter}\b", fact.signature)  # a method has no keyword for `self`
        for other in sorted(others - set(api_snapshot.aliases(value).get(parameter, ())))
    ]
    return f"does not take {', '.join(lacking)}" if lacking else ""


def plain(signature: str) -> str:
    """The signature with tuples written as lists: the facts about Paddle do not tell them apart."""
    inner = re.sub(r"=\(([^()]*?),?\)", r"=[\1]", signature[1:-1])
    return f"({inner})"


def compare() -> dict[str, dict[bool, Count]]:
    """Counts by module, separately for names and for members of classes."""
    counts: dict[str, dict[bool, Count]] = defaultdict(lambda: {False: Count(), True: Count()})
    for fact in facts():
        count = counts[fact.owner][fact.member]
        value = look_up(fact.name)
        if (value is None and not exists_as_none(fact)) or stub(value):
            count.missing.append(fact)
            continue
        why = reason(fact, value)
        if why:
            count.differ.append((fact, why))
        else:
            count.match.append(fact)
    return counts


def exists_as_none(fact: Fact) -> bool:
    """`bireme.newaxis` is None, as in Paddle, and there all the same."""
    owner = look_up(fact.owner)
    return fact.kind == "constant" and owner is not None and hasattr(owner, fact.name.rpartition(".")[2])


def table(counts: dict[str, dict[bool, Count]]) -> Table:
    heads = ("module", "part", "names", "match", "differ", "missing", "of its classes' members")
    out = Table(*heads, title="Bireme beside PaddlePaddle 3.2.2", title_justify="left", box=None, pad_edge=False)
    for column in out.columns[2:]:
        column.justify = "right"
    # modules of which nothing is there yet are summed up by part at the end
    begun = {m: c for m, c in counts.items() if c[False].match or c[False].differ}
    for module, by in begun.items():
        names, inner = by[False], by[True]
        members = f"{len(inner.match)} of {inner.total}" if inner.total else ""
        row = (names.total, len(names.match), len(names.differ), len(names.missing))
        out.add_row(module, part_of(module), *map(str, row), members)
    return out


def to_come(counts: dict[str, dict[bool, Count]]) -> Table:
    out = Table("part", "names to come", "in", title="\nStill to come", title_justify="left", box=None, pad_edge=False)
    by: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for module, count in counts.items():
        for fact in count[False].missing:
            by[part_of(fact.name)][module] += 1
    for part in PARTS:
        if by[part]:
            where = ", ".join(f"{m.removeprefix('paddle.')} {n}" for m, n in by[part].items())
            out.add_row(part, str(sum(by[part].values())), where)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", metavar="MODULE", help="list the names of a module that are missing")
    parser.add_argument("--differing", action="store_true", help="explain each name that differs from Paddle's")
    args = parser.parse_args()
    counts = compare()
    console = Console(width=None if Console().is_terminal else 140, highlight=False)
    if args.names:
        for members in (False, True):
            for fact in counts[args.names][members].missing:
                console.print(f"{fact.name}{fact.signature}", markup=False, soft_wrap=True)
        return
    differing = [(fact, why) for by in counts.values() for c in by.values() for fact, why in c.differ]
    if args.differing:
        for fact, why in differing:
            console.print(f"{fact.name}: {why}", markup=False, soft_wrap=True)
        return
    console.print(table(counts))
    console.print(to_come(counts))
    if differing:
        console.print(f"\n{len(differing)} names or members differ: python -m tools.api_compare --differing")


if __name__ == "__main__":
    main()
