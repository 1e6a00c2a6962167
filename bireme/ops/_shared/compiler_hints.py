"""Hints for the GPU's compiler where it would choose badly: which values to compute again, their layout in memory."""

from __future__ import annotations

from typing import Any

from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint


def fresh(x: Any) -> Any:
    """What a gradient rule reads, as something new, so that a GPU computes it again from there.

    A rule that repeats a part of the forward pass would otherwise share it, and the shared part, mostly float32, would
    be kept in memory from forward to backward: reading it back takes longer than the arithmetic. The same for a row's
    few numbers ends what the compiler looks at: it does not weigh to make them anew inside of each reader.
    """
    return lax.optimization_barrier(x)


def in_rows(x: Any) -> Any:
    """An array in row-major layout.

    XLA carries a layout that suits one reduction, such as the sum over the batch for a bias, back through every
    elementwise operation; then each matrix product begins with a transposed copy.
    """
    return with_layout_constraint(x, Layout(major_to_minor=tuple(range(x.ndim))))
