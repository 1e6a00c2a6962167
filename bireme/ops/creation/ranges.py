"""Evenly spaced numbers with both ends: linspace, logspace, range."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import number
from bireme.core.declare.op import Attr, DeviceArg, DTypeArg, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.creation.tensors import count_up, placed


def _evenly(start, stop, num):
    """From both ends to the middle, so that both are met exactly."""
    i = jnp.arange(num)
    step = (stop - start) / max(num - 1, 1)
    return jnp.where(i < max(num // 2, num == 1), start + i * step, stop - (num - 1 - i) * step)


@op(internal="linspace", differentiable=False, numpy=True)
def linspace_of(start: Tensor | float, stop: Tensor | float, num: int, dtype: DTypeArg) -> Tensor:
    """`num` numbers evenly from `start` to `stop`; use `linspace`.

    >>> bireme.linspace(0, 10, 5).tolist()
    [0.0, 2.5, 5.0, 7.5, 10.0]
    """
    return _evenly(start, stop, num).astype(dtype.np)


linspace_of.infer(lambda num, dtype: sig_of((num,), dtype))


@op(internal="logspace", differentiable=False, numpy=True)
def logspace_of(start: Tensor | float, stop: Tensor | float, base: Tensor | float, num: int, dtype: DTypeArg) -> Tensor:
    """`num` powers of `base` with exponents evenly from `start` to `stop`; use `logspace`.

    >>> bireme.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    return jnp.power(base, _evenly(start, stop, num)).astype(dtype.np)


logspace_of.infer(lambda num, dtype: sig_of((num,), dtype))


def _operand(x: Any, where: str, kind: Any) -> Any:
    """A number or a tensor of one element in double precision; for integer dtypes without fraction, as in Paddle."""
    if isinstance(x, Tensor):
        if x.size != 1 or x.dtype.is_complex:
            raise errors.bad(where, "a real number", x)
        x = x.reshape([])
        return (x.astype(dtypes.int64) if kind.is_integer else x).astype(dtypes.float64)
    if isinstance(x, bool) or not isinstance(x, (int, float, np.integer, np.floating)):
        raise errors.bad(where, "a real number", x, kind=errors.ArgumentTypeError)
    return (dtypes.float64, float(int(x) if kind.is_integer and math.isfinite(x) else x))


def _count(num: Any, where: str, least: int) -> int:
    n = num.item() if isinstance(num, (Tensor, np.ndarray)) and num.size == 1 else num
    if isinstance(n, bool) or not isinstance(n, (int, float, np.number)):
        raise errors.bad(where, "an integer", num, kind=errors.ArgumentTypeError)
    if not n >= least:
        raise errors.bad(where, "a positive integer" if least else "a non-negative integer", n)
    return int(n)


def _number_type(dtype: Any, where: str) -> Any:
    kind = dtype or dtypes.get_default()
    if kind.kind not in "if":
        raise errors.bad(where, "an integer or floating-point dtype", described=kind.name, kind=errors.DtypeError)
    return kind


@composite()
def linspace(start: Attr[float | Tensor], stop: Attr[float | Tensor], num: Attr[int | Tensor],
             dtype: DTypeArg = None) -> Tensor:  # fmt: skip
    """Create a vector of ``num`` evenly spaced numbers from ``start`` to ``stop``, both included.

    Args:
        start: First number; a Python number or a tensor of one element.
        stop: Last number.
        num: How many numbers, non-negative.
        dtype: Integer or floating-point dtype of the result; ``None`` means the default floating-point dtype. With an
            integer dtype ``start`` and ``stop`` lose their fractions first, and results are truncated. Default: None.

    Returns:
        1-D tensor of size ``num``; not differentiable.

    Examples:
        >>> bireme.linspace(0, 10, 5).tolist()
        [0.0, 2.5, 5.0, 7.5, 10.0]
    """
    kind = _number_type(dtype, "linspace(dtype)")
    ends = {"start": _operand(start, "linspace(start)", kind), "stop": _operand(stop, "linspace(stop)", kind)}
    return linspace_of.call({**ends, "num": _count(num, "linspace(num)", 0), "dtype": kind})


@composite()
def logspace(start: Attr[float | Tensor], stop: Attr[float | Tensor], num: Attr[int | Tensor],
             base: Attr[float | Tensor] = 10.0, dtype: DTypeArg = None) -> Tensor:  # fmt: skip
    """Create a vector of ``num`` powers of a base whose exponents are evenly spaced from ``start`` to ``stop``.

    Args:
        start: First exponent; a Python number or a tensor of one element.
        stop: Last exponent, included.
        num: How many numbers, at least 1.
        base: Base of the powers. Default: 10.0.
        dtype: Integer or floating-point dtype of the result; ``None`` means the default floating-point dtype. With an
            integer dtype the arguments lose their fractions first, and results are truncated. Default: None.

    Returns:
        1-D tensor of size ``num``; not differentiable.

    Examples:
        >>> bireme.logspace(0, 3, 4, base=2).tolist()
        [1.0, 2.0, 4.0, 8.0]
    """
    kind = _number_type(dtype, "logspace(dtype)")
    operands = {n: _operand(x, f"logspace({n})", kind) for n, x in (("start", start), ("stop", stop), ("base", base))}
    return logspace_of.call({**operands, "num": _count(num, "logspace(num)", 1), "dtype": kind})


@composite()
def range(start: Attr[float | Tensor] = 0, end: Attr[float | Tensor] = None, step: Attr[float | Tensor] = 1,
          dtype: DTypeArg = None, *, out: Extra[Tensor] = None, device: DeviceArg = None, requires_grad: bool = False,
          name: Extra[str] = None) -> Tensor:  # fmt: skip
    """Create a vector of evenly spaced numbers from ``start`` to ``end``, both included.

    ``arange`` stops before ``end``. With a single argument that is ``end``, and ``start`` is 0.

    Args:
        start: First number; a Python number or a tensor of one element. Default: 0.
        end: Last number, if the steps meet it. Default: None.
        step: Distance from one number to the next, not 0. Default: 1.
        dtype: Integer or floating-point dtype of the result; ``None`` means the default floating-point dtype, even for
            integers. Default: None.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        name: Not used; kept for Paddle's signature.

    Returns:
        1-D tensor of size ``floor((end - start) / step) + 1``.

    Raises:
        ValueError: If the steps lead away from ``end``.

    Examples:
        >>> bireme.range(1, 7, 2).tolist()
        [1.0, 3.0, 5.0, 7.0]
    """
    if end is None:
        start, end = 0, start
    kind = _number_type(dtype, "range(dtype)")
    values = []
    for word, x in (("start", start), ("end", end), ("step", step)):
        x = x.item() if isinstance(x, (Tensor, np.generic)) and x.size == 1 else x
        if not isinstance(x, (int, float)) or not math.isfinite(x):
            raise errors.bad(f"range({word})", "a finite number", x, kind=errors.for_number(x))
        values.append(int(x) if kind.is_integer else x)
    first, last, by = values
    if by == 0:
        raise errors.bad("range(step)", "a nonzero step", step)
    if (last - first) * by < 0:
        raise errors.bad(
            "range(end)", f"an end that steps of {by} from {first} can reach", last, kind=errors.for_number(last)
        )
    wide = int if kind.is_integer else np.float32 if kind.itemsize < 8 else np.float64
    count = math.floor((wide(last) - wide(first)) / wide(by)) if wide is not int else (last - first) // by
    exact = dtypes.int64 if all(isinstance(v, int) for v in values) else dtypes.float64
    ends = {"start": (exact, number(first, exact, "range(start)")), "step": (exact, number(by, exact, "range(step)"))}
    return placed(count_up.call({**ends, "size": int(count) + 1, "dtype": kind}), device, requires_grad)
