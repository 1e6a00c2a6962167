"""Differences of neighbours along an axis, and the integrals made from them."""

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
    """Differences of neighbours along an axis, `n` times over; for bool, whether they differ.

    >>> bireme.diff(bireme.to_tensor([1, 4, 9])).tolist()
    [3, 5]
    """
    if n < 1:
        raise errors.bad("diff(n)", "1 or more", n)
    if x.ndim == 0:
        raise errors.bad("diff(x)", "at least one axis", x, kind=errors.OutOfRange)
    for name, t in (("prepend", prepend), ("append", append)):
        if t is not None and (t.ndim != x.ndim or any(m != n for k, (m, n) in enumerate(zip(t.shape, x.shape)) if k != axis)):
            raise errors.bad(f"diff({name})", f"shape {x.shape} but for axis {axis}", f"shape {t.shape}")
    parts = [t for t in (prepend, x, append) if t is not None]
    out = join.concat(parts, axis) if len(parts) > 1 else x
    for _ in range(min(n, out.shape[axis])):
        later, earlier = _ends(out, axis)
        out = logic.logical_xor(later, earlier) if out.dtype is dtypes.bool_ else subtract(later, earlier)
    return out


def _areas(name, y, x, dx, axis):
    """The areas under the straight lines from one value to the next."""
    for label, t in (("y", y), ("x", x)):
        if t is not None and t.dtype not in FLOAT:
            raise errors.bad(f"{name}({label})", "floating numbers", t, kind=TypeError)
    if y.ndim == 0:
        raise errors.bad(f"{name}(y)", "at least one axis", y, kind=errors.OutOfRange)
    if x is not None and dx is not None:
        raise errors.bad(f"{name}(dx)", "None where x is given", dx)
    step = 1.0 if dx is None else dx
    if isinstance(dx, Tensor):
        if dx.size != 1:
            raise errors.bad(f"{name}(dx)", "one number", dx)
        step = dx.reshape([])
    if x is not None:
        if x.ndim not in (1, y.ndim) or x.shape[axis if x.ndim == y.ndim else 0] != y.shape[axis]:
            raise errors.bad(f"{name}(x)", f"{y.shape[axis]} places, for a y of shape {y.shape} along axis {axis}", f"shape {x.shape}")
        step = diff(x, axis=axis if x.ndim == y.ndim else 0)
        if x.ndim != y.ndim:
            step = step.reshape([-1, *[1] * (y.ndim - 1 - axis)])
    later, earlier = _ends(y, axis)
    return (later + earlier) * step / 2


@composite(method=True)
def trapezoid(y: Tensor, x: Tensor | None = None, dx: Tensor | float | None = None, axis: Axis = -1) -> Tensor:
    """The integral along an axis by the trapezoidal rule, of values at the places `x`, or `dx` apart.

    >>> bireme.trapezoid(bireme.to_tensor([1.0, 2.0, 3.0])).item()
    4.0
    """
    return _areas("trapezoid", y, x, dx, axis).sum(axis)


@composite(method=True)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, dx: Tensor | float | None = None, axis: Axis = -1) -> Tensor:
    """The integral from the first value to each other one, by the trapezoidal rule.

    >>> bireme.cumulative_trapezoid(bireme.to_tensor([1.0, 2.0, 3.0])).tolist()
    [1.5, 4.0]
    """
    return _areas("cumulative_trapezoid", y, x, dx, axis).cumsum(axis)
