"""Rows added up at indices that may repeat: SciPy's loops for products with a sparse matrix do it in one pass over the
rows, in their order, as `np.add.at` does it element by element.
"""

from __future__ import annotations

import numpy as np

from bireme.core.numpy_exec import grouping, row_sums, sparsetools

FEW = 1 << 20  # elements that one core adds up as they come in the time in which all cores add what was grouped


def add_rows(table: np.ndarray, index: np.ndarray, rows: np.ndarray) -> bool:
    """Add each row to that of `table` at its index, in place; False, and nothing done, where there is no loop for it."""
    loop = sparsetools.loop("csc_matvecs")
    if loop is None or table.dtype not in (np.float32, np.float64) or table.dtype != rows.dtype:
        return False
    n, width = rows.shape
    flat = np.ascontiguousarray(rows)
    if rows.size >= FEW and len(table) <= n:
        row_sums.add_products(grouping.groups(index, len(table)), None, flat, table)
        return True
    # the matrix has a column for each row, with a one at its index
    ones, ends = np.ones(n, table.dtype), np.arange(n + 1, dtype=np.int64)
    loop(len(table), n, width, ends, index.astype(np.int64, copy=False), ones, flat.reshape(-1), table.reshape(-1))
    return True
