"""Rows added up at indices that may repeat: SciPy's loop for products with a sparse matrix does it in one pass over the
rows, in their order, as `np.add.at` does it element by element.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import scipy


@functools.cache
def _loop() -> Any:
    """SciPy's function; None where a version of it has none. Its package takes 0.1 s to import, the module alone 1 ms."""
    path = Path(scipy.__file__).parent / "sparse" / f"_sparsetools{sysconfig.get_config_var('EXT_SUFFIX')}"
    try:
        loader = importlib.machinery.ExtensionFileLoader("_sparsetools", str(path))
        spec = importlib.util.spec_from_file_location("_sparsetools", path, loader=loader)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # there is a loader, so there is one
        loader.exec_module(module)
        return module.csc_matvecs
    except (ImportError, AttributeError):
        return None


def add_rows(table: np.ndarray, index: np.ndarray, rows: np.ndarray) -> bool:
    """Add each row to that of `table` at its index, in place; False, and nothing done, where there is no loop for it."""
    loop = _loop()
    if loop is None or table.dtype not in (np.float32, np.float64) or table.dtype != rows.dtype:
        return False
    n, width = rows.shape
    # the matrix has a column for each row, with a one at its index
    ones, ends = np.ones(n, table.dtype), np.arange(n + 1, dtype=np.int64)
    at, flat = index.astype(np.int64, copy=False), np.ascontiguousarray(rows).reshape(-1)
    loop(len(table), n, width, ends, at, ones, flat, table.reshape(-1))
    return True
