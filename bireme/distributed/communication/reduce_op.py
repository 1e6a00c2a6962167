"""Reductions over processes."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors


class ReduceOp:
    """How values of several processes become one: ``SUM``, ``MAX``, ``MIN``, ``PROD`` or ``AVG``.

    Examples:
        >>> bireme.distributed.ReduceOp.SUM, bireme.distributed.ReduceOp.MAX
        (0, 1)
    """

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


NAMES = {number: name for name, number in vars(ReduceOp).items() if name.isupper()}


def check_op(where: str, op: Any) -> None:
    """Raise an error unless it is a reduction."""
    if isinstance(op, bool) or op not in range(5):
        raise errors.bad(where, "ReduceOp.SUM, MAX, MIN, PROD or AVG", op)


def get_reduce_op(reduce_op: int, func_name: str) -> int:
    """The reduction itself; an error names the function that asks for it."""
    check_op(f"{func_name}(op)", reduce_op)
    return reduce_op
