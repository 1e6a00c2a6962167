"""Rows that print as a table."""

from __future__ import annotations

from typing import Any


class Table(list):
    """A list of dicts that is printed as a table of its `heads`; a row's tables under `inner` stand below it."""

    heads: tuple[str, ...] = ()
    inner = ""

    def __repr__(self) -> str:
        rows = [[str(row[h]) for h in self.heads] for row in self]
        widths = [max([len(h), *(len(row[i]) for row in rows)]) for i, h in enumerate(self.heads)]
        lines = [_line(self.heads, widths)]
        for row, shown in zip(self, rows):
            lines.append(_line(shown, widths))
            below: Any = row.get(self.inner)
            if below:
                lines += [f"    {line}" for line in str(below).splitlines()]
        return "\n".join(lines)

    __str__ = __repr__


def _line(cells: Any, widths: list[int]) -> str:
    return "  ".join([cell.ljust(width) for cell, width in zip(cells, widths)]).rstrip()
