"""What rows of elementwise operators share: sets of types, and the errors that all of them raise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.table.harness import BOOL, COMPLEX, FLOAT, INT, Bad, Row, call
from tests.table.samples import broadcasting, floats, with_number

INEXACT = FLOAT | COMPLEX
ANY_FLOATED = FLOAT | INT | BOOL | COMPLEX
REAL_FLOATED = FLOAT | INT | BOOL
TIES = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 2.0, -1.0])  # equal numbers: compared with `grad_ref` alone
SMALL_INTS = np.array([-128, -7, -1, 0, 1, 127], np.int8)


def misfit(name: str, dtype: Any = float) -> Bad:
    """Shapes that do not broadcast."""
    wrong = call(floats(2, 3).astype(dtype), floats(4).astype(dtype))
    return Bad(wrong, f"{name}(): expected shapes that broadcast together, got shapes [2, 3] and [4]")


def no_type(name: str, kind: str = "complex64", arg: str = "x", n: int = 1) -> Bad:
    """A type that the operator does not take."""
    return Bad(call(*[np.ones(2, kind)] * n), f"{name}({arg}): expected one of ", TypeError)


def pair(name: str, ref: Any, samples: Any = None, **more: Any) -> Row:
    """A row of an operator with two operands."""
    bad = [misfit(more.pop("told", name), more.pop("wrong", float)), *more.pop("bad", [])]
    return Row(name, samples or with_number(broadcasting(), 2, 0.5), ref, bad=bad, **more)
