"""What the docstrings of the public interface say about it: summary, parameters, result and an example of each name.

`python -m tools.documented` prints a table by module; `--problems [PREFIX]` says what is missing; `--shrink` takes the
names that are complete by now out of tests/data/undocumented.txt.
"""

from __future__ import annotations

import argparse
import ast
import enum
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import api_snapshot

EXCEPTIONS = api_snapshot.ROOT / "tests" / "data" / "undocumented.txt"
SECTIONS = "Args|Returns|Yields|Raises|Shape|Attributes|Examples|Note|Notes|Warning|See Also|References"
_HEADER = re.compile(rf"({SECTIONS}):")
_ARGUMENT = re.compile(r"    ((?:\\?\*){0,2}\w+(?:, (?:\\?\*){0,2}\w+)*)(?: \([^)]*\))?: +\S")


@dataclass
class Entry:
    """A public function, class, method or property under the name it is looked up by."""

    name: str
    value: Any
    owner: type | None = None  # the public class of a method or property

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0] if self.owner is None else _module_of_member(self.name)


def entries() -> list[Entry]:
    """Everything to document, each object once: under a module rather than a class, then under the shortest name."""
    found: dict[int, Entry] = {}
    for entry in _candidates(list(api_snapshot.public_names())):
        key = id(api_snapshot.function_of(_plain(entry.value)))
        if key not in found or _rank(entry) < _rank(found[key]):
            found[key] = entry
    return sorted(found.values(), key=lambda e: e.name)


def _candidates(listed: list[tuple[str, Any]]) -> Iterator[Entry]:
    owners = {name: value for name, value in listed if inspect.isclass(value)}
    for name, value in listed:
        owner = owners.get(name.rpartition(".")[0])
        if _belongs(value):
            yield Entry(name, value, owner)
        if not inspect.isclass(value) or not _belongs(value):
            continue
        # what a public class has from one that is not public is documented here or nowhere
        for holder in value.__mro__[1:]:
            if holder not in _classes() and _ours(holder):
                for inner, member in vars(holder).items():
                    shown = inspect.getattr_static(value, inner) is member
                    if shown and not inner.startswith("_") and _belongs(member):
                        yield Entry(f"{name}.{inner}", member, value)


def _belongs(value: Any) -> bool:
    """Whether the project defines it and it can have a docstring of its own."""
    if isinstance(value, property):
        return _ours(value.fget)
    plain = _plain(value)
    return (inspect.isclass(plain) or inspect.isfunction(plain)) and _ours(plain)


def _ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == "bireme"


def _plain(value: Any) -> Any:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _rank(entry: Entry) -> tuple[bool, int, str]:
    return entry.owner is not None, entry.name.count("."), entry.name


@functools.cache
def _module_of_member(name: str) -> str:
    while name not in _modules():
        name = name.rpartition(".")[0]
    return name


@functools.cache
def _modules() -> frozenset[str]:
    return frozenset(m.__name__ for m in api_snapshot.public_modules())


@functools.cache
def _classes() -> frozenset[type]:
    return frozenset(value for _, value in api_snapshot.public_names() if inspect.isclass(value))


def docstring(entry: Entry) -> str:
    """The cleaned docstring; a method without one has that of the method it overrides, as `help` and Sphinx show it."""
    value = _plain(entry.value)
    texts = [value.__doc__]
    if entry.owner is not None and not inspect.isclass(value):
        inner = entry.name.rpartition(".")[2]
        texts += [getattr(vars(holder).get(inner), "__doc__", None) for holder in entry.owner.__mro__]
    return inspect.cleandoc(next((text for text in texts if isinstance(text, str)), ""))


def sections(text: str) -> dict[str, str]:
    """The text by section; what stands before the first is under ''."""
    found: dict[str, list[str]] = {"": []}
    current = ""
    for line in text.splitlines():
        header = _HEADER.fullmatch(line)
        if header:
            current = header[1]
            found.setdefault(current, [])
        else:
            found[current].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def documented(text: str) -> set[str]:
    """The parameters that the section `Args` names, without their stars."""
    lines = sections(text).get("Args", "").splitlines()
    matches = [_ARGUMENT.match(line) for line in lines]
    return {name.lstrip("\\*") for match in matches if match for name in match[1].split(", ")}


def parameters(entry: Entry) -> list[str]:
    """The parameters that a caller may give, without `self`."""
    value = entry.value
    if isinstance(value, property) or (inspect.isclass(value) and issubclass(value, enum.Enum)):
        return []
    if inspect.isclass(value) and not _ours(_constructor(value)):
        return []
    bound = entry.owner is not None and not isinstance(value, staticmethod) and not inspect.isclass(value)
    names = list(inspect.signature(_plain(value)).parameters)
    return names[1:] if bound else names


def _constructor(cls: type) -> type:
    """The class whose signature a constructor has."""
    return next(c for c in cls.__mro__ if {"__signature__", "__init__", "__new__"} & vars(c).keys())


def required(entry: Entry) -> list[str]:
    """The parameters to document: those of an inherited constructor stand at its class, and may be repeated."""
    names = parameters(entry)
    if inspect.isclass(entry.value):
        source = _constructor(entry.value)
        if source is not entry.value and source in _classes() and "Args" not in sections(docstring(entry)):
            return []
    return names


def returns(entry: Entry) -> bool:
    """Whether a call gives something back, by the annotation, else by the source.

    A method without parameters says in its one sentence what it gives.
    """
    value = _plain(entry.value)
    if not inspect.isfunction(value) or (entry.owner is not None and not parameters(entry)):
        return False
    annotation = inspect.signature(value).return_annotation
    if annotation is not inspect.Signature.empty:
        return annotation not in (None, "None", "NoReturn", "Never")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, SyntaxError):
        return True
    given = (ast.Return, ast.Yield, ast.YieldFrom)
    return any(isinstance(node, given) and node.value is not None for node in ast.walk(tree))


def problems(entry: Entry) -> list[str]:
    """What is missing from a docstring or wrong in it."""
    text = docstring(entry)
    parts = sections(text)
    said, known = documented(text), set(parameters(entry))
    aliases = {a for names in api_snapshot.aliases(_plain(entry.value)).values() for a in names}
    found = [f"parameter {name} is not documented" for name in required(entry) if name not in said]
    found += [f"documents {name}, which is no parameter" for name in sorted(said - known - aliases)]
    summary = parts[""].split("\n\n")[0].strip()
    if not summary.endswith("."):
        found.append("the first paragraph is not a sentence")
    if returns(entry) and not (parts.get("Returns") or parts.get("Yields")):
        found.append("no Returns section")
    whole = inspect.isclass(entry.value) or (entry.owner is None and not isinstance(entry.value, property))
    if whole and ">>>" not in parts.get("Examples", ""):
        found.append("no Examples section")
    return found


def stored(path: Path = EXCEPTIONS) -> list[str]:
    return path.read_text().split() if path.exists() else []


def incomplete() -> list[str]:
    """The names whose docstrings leave something out, sorted."""
    return [entry.name for entry in entries() if problems(entry)]


def shrink() -> int:
    """Take the names that are complete by now, or gone, out of the list of exceptions; the number of those left."""
    now = incomplete()
    left = sorted(set(now) & set(stored())) if EXCEPTIONS.exists() else now
    EXCEPTIONS.write_text("".join(f"{name}\n" for name in left))
    return len(left)


def table() -> Iterator[str]:
    """Documented parameters over all, and complete docstrings over all, by module."""
    rows: dict[str, list[int]] = {}
    for entry in entries():
        names = required(entry)
        said = documented(docstring(entry))
        for key in (entry.module, "all"):
            counts = sum(name in said for name in names), len(names), not problems(entry), 1
            rows[key] = [a + b for a, b in zip(rows.get(key, [0] * 4), counts)]
    width = max(map(len, rows))
    yield f"{'':{width}}  {'parameters':>18}  {'docstrings':>18}"
    for key in sorted(rows, key=lambda k: (k == "all", k)):
        pairs = zip(rows[key][::2], rows[key][1::2])
        shares = (f"{f'{n}/{of}':>11} {n / of if of else 1:6.1%}" for n, of in pairs)
        yield f"{key:{width}}  " + "  ".join(shares)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.documented", description="What the docstrings document.")
    parser.add_argument("--shrink", action="store_true", help="take complete names out of the list of exceptions")
    parser.add_argument("--problems", nargs="?", const="bireme", metavar="PREFIX", help="say what is missing, by name")
    options = parser.parse_args()
    if options.shrink:
        print(f"{shrink()} names left in {EXCEPTIONS.relative_to(api_snapshot.ROOT)}")
    elif options.problems:
        for entry in entries():
            if entry.name.startswith(options.problems) and problems(entry):
                print(f"{entry.name}: {'; '.join(problems(entry))}")
    else:
        print("\n".join(table()))


if __name__ == "__main__":
    main()
