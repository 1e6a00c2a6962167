"""Python's operators on tensors: `x + y`, `x @ y`, `x == y`, `-x`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.declare.known_calls import binary
from bireme.core.declare.op import Op, Tensor
from bireme.core.tensor.tensor import value_of
from bireme.ops.creation import tensors
from bireme.ops.linalg import matmul
from bireme.ops.math import arithmetic, bitwise, elementwise, logic

_NUMBERS = (int, float, complex, np.generic)


def _operand(y: Any) -> Any:
    """The other operand: a tensor, a number, or an array, which becomes a tensor."""
    if isinstance(y, (Tensor, *_NUMBERS)):
        return y
    if isinstance(y, np.ndarray):
        return Tensor(value_of(y))
    return NotImplemented


def _factor(where: str) -> Any:
    """The other operand of `*`: text is refused here, since Python would repeat it by the tensor and blame that."""

    def operand(y: Any) -> Any:
        if isinstance(y, (str, bytes)):
            raise errors.bad(where, "a Tensor, a number or an array", y, kind=errors.NotATensorError)
        return _operand(y)

    return operand


def _power(x: Tensor, y: Any) -> Tensor:
    """`x ** y`: unlike `pow`, an integer tensor to a fractional power is a float."""
    return arithmetic.power.public(x, y) if isinstance(y, float) and x.dtype.is_integer else arithmetic.pow.public(x, y)


_product = binary(matmul.matmul, _operand)


def _other_factor(x: Tensor, y: Any) -> Any:
    """The other operand of a product written with `@`: as in Paddle it takes the dtype of `x`, unless one is complex."""
    if isinstance(y, np.ndarray):
        y = Tensor(value_of(y))
    if not isinstance(y, Tensor):
        return NotImplemented
    if x.dtype is y.dtype or x.dtype.is_complex or y.dtype.is_complex:
        return y
    if y.dtype.kind == "f" and x.dtype.kind == "i":
        errors.warn(
            f"@ computes in the dtype of its {x.dtype.name} tensor and cuts the fractions of the {y.dtype.name} operand; "
            "cast the former to keep them"
        )
    return arithmetic.cast(y, x.dtype)


def _matmul(x: Tensor, y: Any) -> Any:
    try:
        y = _other_factor(x, y)
        return y if y is NotImplemented else _product(x, y)
    except errors.TELLING as e:
        errors.leave(e)
        raise


def _rmatmul(x: Tensor, y: Any) -> Any:
    try:
        y = _other_factor(x, y)
        return y if y is NotImplemented else _product(y, x)
    except errors.TELLING as e:
        errors.leave(e)
        raise


def _comparison(op: Any) -> Any:
    """A comparison; with what is neither tensor nor number it raises, also `==`: the answer False would hide a mistake.

    Text is the exception, as in Paddle: an option may be numbers or a word, so that code asks `x == "same"`.
    """
    method, of_text = _binary(op), {"equal": False, "not_equal": True}.get(op.name)

    def compare(x: Tensor, y: Any) -> Any:
        try:
            found = method(x, y)
            if found is NotImplemented:
                if isinstance(y, str) and of_text is not None:
                    return tensors.full(x.shape, of_text, "bool")
                raise errors.bad(f"{op.name}(y)", "a Tensor, a number or an array", y, kind=errors.NotATensorError)
            return found
        except errors.TELLING as e:
            errors.leave(e)
            raise

    return compare


def _binary(op: Any, swap: bool = False) -> Any:
    if isinstance(op, Op) and not swap:
        return binary(op, _operand)

    def method(x: Tensor, y: Any) -> Any:
        try:
            if not isinstance(y, (Tensor, float)):
                y = _operand(y)
                if y is NotImplemented:
                    return y
            return op(y, x) if swap else op(x, y)
        except errors.TELLING as e:
            errors.leave(e)
            raise

    return method


def _shift(op: Any) -> Any:
    """`x << y`, which as a method has an option for a logical shift."""

    def method(x: Tensor, y: Any, is_arithmetic: bool = True) -> Any:
        try:
            y = _operand(y)
            return y if y is NotImplemented else op(x, y, is_arithmetic)
        except errors.TELLING as e:
            errors.leave(e)
            raise

    return method


def _unary(op: Any) -> Any:
    def method(x: Tensor) -> Any:
        try:
            return op.public(x)
        except errors.TELLING as e:
            errors.leave(e)
            raise

    return method


def _install() -> None:
    pairs = {
        "add": arithmetic.add,
        "sub": arithmetic.subtract,
        "truediv": arithmetic.quotient,
        "floordiv": arithmetic.floor_divide,
        "mod": arithmetic.remainder,
        "pow": _power,
        "and": bitwise.bitwise_and,
        "or": bitwise.bitwise_or,
        "xor": bitwise.bitwise_xor,
        "lshift": bitwise.bitwise_left_shift,
        "rshift": bitwise.bitwise_right_shift,
    }
    swapped = {"add"}  # commutative: the tensor may be the first operand
    for name, op in pairs.items():
        setattr(Tensor, f"__{name}__", (_shift if name in ("lshift", "rshift") else _binary)(op))
        if name in ("and", "or", "xor"):
            setattr(Tensor, f"__r{name}__", _binary(op))
        elif name == "pow":
            Tensor.__rpow__ = _binary(arithmetic.power, swap=True)  # type: ignore[attr-defined]  # a method that Tensor gets here
        else:
            setattr(Tensor, f"__r{name}__", _binary(op, swap=name not in swapped))
    for old, new in (
        ("div", "truediv"),
        ("rdiv", "rtruediv"),
        ("nonzero", "bool"),
        ("long", "int"),
    ):  # names of Python 2 that Paddle still has
        setattr(Tensor, f"__{old}__", getattr(Tensor, f"__{new}__"))
    for name, op in {"eq": logic.equal, "ne": logic.not_equal, "lt": logic.less_than, "le": logic.less_equal, "gt": logic.greater_than,
                     "ge": logic.greater_equal}.items():  # fmt: skip
        setattr(Tensor, f"__{name}__", _comparison(op))
    Tensor.__mul__, Tensor.__rmul__ = (binary(arithmetic.multiply, _factor(f"multiply({n})")) for n in "yx")  # type: ignore[attr-defined]  # a method that Tensor gets here
    Tensor.__matmul__, Tensor.__rmatmul__ = _matmul, _rmatmul  # type: ignore[attr-defined]  # a method that Tensor gets here
    Tensor.__neg__ = _unary(elementwise.neg)  # type: ignore[attr-defined]  # a method that Tensor gets here
    Tensor.__pos__ = lambda x: x  # type: ignore[attr-defined]  # a method that Tensor gets here
    Tensor.__invert__ = _unary(bitwise.bitwise_not)  # type: ignore[attr-defined]  # a method that Tensor gets here
    Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]  # a method that Tensor gets here


_install()
