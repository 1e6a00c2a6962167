"""Docstrings of public functions: what a declaration's own says, and what follows from its options.

The declaration documents the parameters that it names, in Google style. Here come those that the decorator appends,
other keywords, and the forms for methods and inplace twins.
"""

from __future__ import annotations

from collections.abc import Collection

_ADDED = {
    "name": "    name: Not used; kept for Paddle's signature.",
    "out": "    out: Tensor that receives the result and is returned. Default: None.",
}
_SECTIONS = ("\nReturns:\n", "\nYields:\n", "\nRaises:\n", "\nShape:\n", "\nExamples:\n", "\n>>> ")


class Docstring:
    """A declaration's docstring in parts: what comes before the section Args, its entries, what comes after it."""

    def __init__(self, doc: str, parameters: list[str], aliases: dict[str, str]):
        self.head, found, self.rest = doc.partition("\nArgs:\n")
        self.entries, self.aliases = "", aliases
        if found:
            self.entries, _, self.rest = self.rest.partition("\n\n")
        else:
            at = min([at for at in map(doc.find, _SECTIONS) if at >= 0], default=len(doc))
            self.head, self.rest = doc[:at], doc[at:]
        lines = f"\n{self.entries}"
        for name, entry in _ADDED.items():
            if name in parameters and f"\n    {name}:" not in lines and doc:
                later = parameters[parameters.index(name) + 1 :]
                at = next((at for p in later if (at := lines.find(f"\n    {p}:")) >= 0), len(lines))
                lines = f"{lines[:at]}\n{entry}{lines[at:]}"
        self.entries = lines.strip("\n")

    def function(self) -> str:
        return _joined(self.head, _keywords(self.aliases), self.entries, self.rest)

    def method(self, first: str) -> str:
        """Of the method: its first parameter, which is the tensor itself, is not given."""
        return self._of_method(self.head, first, self.entries, self.rest) if self.head else ""

    def inplace(self, name: str, twin: str, first: str) -> str:
        """Of the inplace twin of the function `name`; its example is that one's, which comes to the same."""
        head = f"Inplace version of ``{name}``: changes ``{first}`` and returns it."
        example = self.rest.partition("Examples:\n")[2].replace(f".{name}(", f".{twin}(")
        rest = f"Returns:\n    ``{first}``, changed."
        if f".{twin}(" in example:
            rest = f"{rest}\n\nExamples:\n{example}"
        return _joined(head, _keywords(self.aliases), _without(self.entries, "out"), rest)

    def inplace_method(self, name: str, first: str) -> str:
        head = f"Inplace version of ``{name}``: changes the tensor and returns it."
        return self._of_method(head, first, _without(self.entries, "out"), "Returns:\n    The tensor itself, changed.")

    def _of_method(self, head: str, first: str, entries: str, rest: str) -> str:
        others = _keywords({other: name for other, name in self.aliases.items() if name != first})
        return _joined(head, f"The tensor itself is ``{first}``. {others}".rstrip(), _without(entries, first), rest)


def entries(doc: str) -> dict[str, str]:
    """What the section Args of a docstring says of each parameter."""
    found: dict[str, str] = {}
    for line in doc.partition("\nArgs:\n")[2].partition("\n\n")[0].split("\n"):
        name, colon, text = line.strip().partition(": ")
        if colon and not line.startswith("     "):
            found[name] = text
        elif found:
            found[next(reversed(found))] += f"\n{line}"
    return found


def _joined(head: str, sentence: str, entries: str, rest: str) -> str:
    parts = (head.strip("\n"), sentence, f"Args:\n{entries}" if entries else "", rest.strip("\n"))
    return "\n\n".join([part for part in parts if part])


def _without(entries: str, name: str) -> str:
    """The entries but one, with the lines that go on below it."""
    at = f"\n{entries}".find(f"\n    {name}: ")
    if at < 0:
        return entries
    end = entries.find("\n    ", at + 1)
    while end >= 0 and entries[end + 5 : end + 6] == " ":
        end = entries.find("\n    ", end + 1)
    return entries[:at].rstrip("\n") if end < 0 else entries[:at] + entries[end + 1 :]


def _keywords(aliases: dict[str, str]) -> str:
    """`aliases` are other keywords, each with the parameter that it stands for."""
    if not aliases:
        return ""
    by: dict[str, list[str]] = {}
    for other, name in aliases.items():
        by.setdefault(name, []).append(other)
    verb = "are" if len(aliases) > 1 else "is"
    if len(by) == len(aliases):
        return f"{_listed(aliases)} {verb} accepted for {_listed(by)}."
    parts = [f"{_listed(others)} {'is' if len(others) < 2 else 'are'} accepted for ``{n}``" for n, others in by.items()]
    return "; ".join(parts) + "."


def _listed(names: Collection[str]) -> str:
    *front, last = [f"``{n}``" for n in names]
    return f"{', '.join(front)} and {last}" if front else last
