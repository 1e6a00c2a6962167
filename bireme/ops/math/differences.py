"""Differences of neighbouring elements along an axis, and integrals by the trapezoidal rule."""

from __future__ import annotations

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Axis, Tensor, composite
from bireme.ops.manipulation import join
from bireme.ops.math import logic
from bireme.ops.math.arithmetic import subtract


def _ends(x, axis):
    """All but the first, and all but the last."""
    before = (slice(None),) * axis
    return x[(*before, slice(1, None))], x[(*before, slice(None, -1))]


@composite(method=True, torch=True, out=True)
def diff(x: Tensor, n: int = 1, axis: Axis = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbouring elements along an axis, taken ``n`` times.

    Of bools it is whether the neighbours differ.

    Args:
        x: Tensor with at least one axis.
        n: How many times to take the differences, at least 1. Default: 1.
        axis: Axis along which neighbours are compared. Default: -1.
        prepend: Tensor to concatenate before ``x`` along the axis first. Default: None.
        append: Tensor to concatenate after ``x`` along the axis first. Default: None.

    Returns:
        Tensor whose size along the axis is smaller by ``n``, at least 0.

    Raises:
        ValueError: If ``n`` is less than 1, or ``prepend`` or ``append`` does not have the shape of ``x`` on the other
            axes.

    Examples:
        >>> bireme.diff(bireme.to_tensor([1, 4, 9])).tolist()
        [3, 5]
    """
    if n < 1:
        raise errors.bad("diff(n)", "a positive integer", n, kind=errors.for_integer(n))
    if x.ndim == 0:
        raise errors.bad("diff(x)", "at least 1 dimension", x, kind=errors.OutOfRangeError)
    for name, t in (("prepend", prepend), ("append", append)):
        if t is not None and (t.ndim != x.ndim or any(m != n for k, (m, n) in enumerate(zip(t.shape, x.shape)) if k != axis)):
            raise errors.bad(f"diff({name})", f"shape {x.shape} but for axis {axis}", described=f"shape {t.shape}", kind=errors.ShapeError)
    parts = [t for t in (prepend, x, append) if t is not None]
    out = join.concat(parts, axis) if len(parts) > 1 else x
    for _ in range(min(n, out.shape[axis])):
        later, earlier = _ends(out, axis)
        out = logic.logical_xor(later, earlier) if out.dtype is dtypes.bool_ else subtract(later, earlier)
    return out


def _areas(name, y, x, dx, axis):
    """The areas of the trapezoids between neighbouring points."""
    for label, t in (("y", y), ("x", x)):
        if t is not None and t.dtype not in FLOAT:
            raise errors.bad(f"{name}({label})", "a floating-point tensor", t, kind=errors.ArgumentTypeError)
    if y.ndim == 0:
        raise errors.bad(f"{name}(y)", "at least 1 dimension", y, kind=errors.OutOfRangeError)
    if x is not None and dx is not None:
        raise errors.bad(f"{name}(dx)", "None, since x is given", dx)
    step = 1.0 if dx is None else dx
    if isinstance(dx, Tensor):
        if dx.size != 1:
            raise errors.bad(f"{name}(dx)", "a single number", dx, kind=errors.for_number(dx))
        step = dx.reshape([])
    if x is not None:
        if x.ndim not in (1, y.ndim) or x.shape[axis if x.ndim == y.ndim else 0] != y.shape[axis]:
            raise errors.bad(
                f"{name}(x)",
                f"{y.shape[axis]} points, for a y of shape {y.shape} along axis {axis}",
                described=f"shape {x.shape}",
                kind=errors.ShapeError,
            )
        step = diff(x, axis=axis if x.ndim == y.ndim else 0)
        if x.ndim != y.ndim:
            step = step.reshape([-1, *[1] * (y.ndim - 1 - axis)])
    later, earlier = _ends(y, axis)
    return (later + earlier) * step / 2


@composite(method=True)
def trapezoid(y: Tensor, x: Tensor | None = None, dx: Tensor | float | None = None, axis: Axis = -1) -> Tensor:
    """Integral along an axis by the trapezoidal rule.

    Args:
        y: Values of the function, a floating-point tensor.
        x: Points at which the values are taken, in the shape of ``y`` or as a vector along the axis. Default: None.
        dx: Distance of the points, a number or a tensor of one element, if ``x`` is not given. Default: None, a
            distance of 1.
        axis: Axis to integrate along. Default: -1.

    Returns:
        Tensor of the shape of ``y`` without the axis.

    Raises:
        ValueError: If both ``x`` and ``dx`` are given, or the size of ``x`` does not match.

    Examples:
        >>> bireme.trapezoid(bireme.to_tensor([1.0, 2.0, 3.0])).item()
        4.0
    """
    return _areas("trapezoid", y, x, dx, axis).sum(axis)


@composite(method=True)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, dx: Tensor | float | None = None, axis: Axis = -1) -> Tensor:
    """Cumulative integral along an axis by the trapezoidal rule.

    Args:
        y: Values of the function, a floating-point tensor.
        x: Points at which the values are taken, in the shape of ``y`` or as a vector along the axis. Default: None.
        dx: Distance of the points, a number or a tensor of one element, if ``x`` is not given. Default: None, a
            distance of 1.
        axis: Axis to integrate along. Default: -1.

    Returns:
        Tensor of the integrals from the first point to each later one; its size along the axis is smaller by 1.

    Raises:
        ValueError: If both ``x`` and ``dx`` are given, or the size of ``x`` does not match.

    Examples:
        >>> bireme.cumulative_trapezoid(bireme.to_tensor([1.0, 2.0, 3.0])).tolist()
        [1.5, 4.0]
    """
    return _areas("cumulative_trapezoid", y, x, dx, axis).cumsum(axis)
