"""Table: text in columns, with a frame."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.hapi.callback import say


class Table:
    """Text table with a frame, each column as wide as its widest cell.

    Args:
        table_heads: Titles of the columns.

    Examples:
        >>> from bireme.hapi.static_flops import Table
        >>> table = Table(["layer", "n"])
        >>> table.add_row(["a", 20])
        >>> table.print_table()
        +-------+----+
        | layer | n  |
        +-------+----+
        |   a   | 20 |
        +-------+----+
    """

    def __init__(self, table_heads: Any):
        self.table_heads = [str(head) for head in table_heads]
        self.table_rows: list[list[str]] = []

    def add_row(self, row_str: Any) -> None:
        """Add a row.

        Args:
            row_str: The cells, one for each column.
        """
        cells = [str(cell) for cell in row_str]
        if len(cells) != len(self.table_heads):
            raise errors.bad("Table.add_row(row_str)", f"{len(self.table_heads)} cells", described=f"{len(cells)}")
        self.table_rows.append(cells)

    def print_table(self) -> None:
        """Print the table to stdout."""
        widths = [max(map(len, column)) + 2 for column in zip(self.table_heads, *self.table_rows, strict=True)]
        rule = "+" + "+".join("-" * width for width in widths) + "+"
        lines = [
            "|" + "|".join(f"{cell:^{width}}" for cell, width in zip(row, widths, strict=True)) + "|"
            for row in (self.table_heads, *self.table_rows)
        ]
        say("\n".join([rule, lines[0], rule, *lines[1:], rule]))
