"""Recordings: calls that are recorded again, on other tensors. Remembered composites and recomputation are made of
them.

A backward pass that is remembered (`backward_pass.RememberedPass`) is not: it takes the segment straight to the state
where it ended, which is 40 times as fast as recording its calls one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bireme.core.graph.graph import Number
from bireme.core.tensor import tape
from bireme.core.tensor.tensor import Tensor


class Call(NamedTuple):
    """One call, in the language of `Node`: an argument is a result of an earlier call (its index, >= 0), an input (~
    its index), or a Number, which says where its value stands among the recording's numbers.
    """

    bound: Any
    args: tuple[Any, ...]
    first: int  # index of its first result
    width: int  # how many results it has


class Recording:
    """Calls in order, with the numbers that they read."""

    __slots__ = ("calls", "numbers")

    def __init__(self, calls: Sequence[Call], numbers: Sequence[Any]):
        self.calls, self.numbers = calls, numbers

    @property
    def size(self) -> int:
        """How many results all calls have."""
        return self.calls[-1].first + self.calls[-1].width if self.calls else 0

    def number(self, r: Number) -> tuple[Any, Any]:
        """A number as an operand."""
        return r.dtype, self.numbers[r.place]

    def again(self, operands: Callable[[Call], list], done: Callable[[Call, list[Tensor]], None]) -> None:
        """Record the calls once more; `operands` finds those of a call, `done` is told its results."""
        for call in self.calls:
            done(call, tape.apply(call.bound, operands(call)))
