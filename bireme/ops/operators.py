"""Python's operators on tensors: `x + y`, `x @ y`, `x == y`, `-x`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.op import Op, Tensor, binary
from bireme.core.tensor import value_of
from bireme.ops import linalg, logic, math

_NUMBERS = (int, float, complex, np.generic)


def _operand(y: Any) -> Any:
    """What may stand on the other side: a tensor, a number, or an array, which becomes a tensor."""
    if isinstance(y, (Tensor, *_NUMBERS)):
        return y
    if isinstance(y, (np.ndarray, list, tuple)):
        return Tensor(value_of(y))
    return NotImplemented


def _binary(op: Any, swap: bool = False) -> Any:
    call = binary(op) if isinstance(op, Op) else op

    def method(x: Tensor, y: Any) -> Any:
        if not isinstance(y, (Tensor, float)):
            y = _operand(y)
            if y is NotImplemented:
                return y
        return op(y, x) if swap else call(x, y)

    return method


def _install() -> None:
    pairs = {
        "add": math.add, "sub": math.subtract, "mul": math.multiply, "truediv": math.divide, "floordiv": math.floor_divide,
        "mod": math.remainder, "pow": math.pow, "matmul": linalg.matmul, "and": logic.bitwise_and, "or": logic.bitwise_or,
        "xor": logic.bitwise_xor,
    }  # fmt: skip
    swapped = {"add", "mul"}  # commutative: the tensor may stand first
    for name, op in pairs.items():
        setattr(Tensor, f"__{name}__", _binary(op))
        if name in ("and", "or", "xor"):
            setattr(Tensor, f"__r{name}__", _binary(op))
        elif name == "pow":
            setattr(Tensor, "__rpow__", lambda x, y: math.power(_operand(y), x))
        else:
            setattr(Tensor, f"__r{name}__", _binary(op, swap=name not in swapped))
    for name, op in {"eq": logic.equal, "ne": logic.not_equal, "lt": logic.less_than, "le": logic.less_equal, "gt": logic.greater_than,
                     "ge": logic.greater_equal}.items():  # fmt: skip
        setattr(Tensor, f"__{name}__", _binary(op))
    Tensor.__neg__ = lambda x: math.neg(x)  # type: ignore[attr-defined]
    Tensor.__pos__ = lambda x: x  # type: ignore[attr-defined]
    Tensor.__invert__ = lambda x: logic.bitwise_not(x)  # type: ignore[attr-defined]
    Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]


_install()
