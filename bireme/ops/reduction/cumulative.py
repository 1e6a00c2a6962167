"""Cumulative sums, products and extremes along an axis."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import Axis, DTypeArg, Op, Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.tensor import tape
from bireme.core.tensor.inplace import assign_inplace, become
from bireme.ops._shared.broadcast import conj_of
from bireme.ops._shared.precision import widen
from bireme.ops.search.sort import add_back, at

REAL = FLOAT | INT


def _line(x, axis):
    """The tensor and axis to scan: the flattened tensor without an axis."""
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def _widened(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor) and arguments["dtype"] is None:
        kind = x._value.sig.dtype
        arguments["dtype"] = dtypes.int64 if kind.kind in "bi" else kind


def _same_type(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor) and arguments["dtype"] is None:
        arguments["dtype"] = x._value.sig.dtype


@op(method=True, inplace=True, alias={"x": "input", "axis": "dim"}, out=True, amp="high")
def cumsum(x: Tensor, axis: Axis = None, dtype: DTypeArg = None) -> Tensor:
    """Cumulative sum along an axis.

    Args:
        x: Input tensor.
        axis: Axis to sum along; ``None`` means the flattened tensor. Default: None.
        dtype: Dtype to convert ``x`` to first, which is that of the result. Default: None, int64 for integers and
            bools, otherwise the dtype of ``x``.

    Returns:
        Tensor of the shape of ``x``, or 1-D without an axis; half precision is accumulated in float32.

    Examples:
        >>> bireme.cumsum(bireme.to_tensor([1, 2, 3])).tolist()
        [1, 3, 6]
    """
    x, axis = _line(widen(x.astype(dtype.np)), axis)
    return (jnp.cumsum(x, axis=axis, dtype=x.dtype) if x.ndim else x).astype(dtype.np)


@cumsum.on("cpu", mesh=False)
def _cumsum_cpu(x, axis, dtype):
    x, axis = _line(widen(x.astype(dtype.np)), axis)
    return (_cumulative(x, axis, lax.add, lax.cumsum) if x.ndim else x).astype(dtype.np)


def _cumulative(x, axis, combine, whole, reverse=False):
    """XLA's own form takes ten times as long as a loop over rows, where the rows are long enough for it."""
    if x.size < 64 * x.shape[axis]:
        return whole(x, axis, reverse=reverse)
    return _rows(lambda total, row: combine(total, row), x, axis, reverse)


def _rows(step, x, axis, reverse=False, *more):
    """Row by row along an axis: the first row, then what `step` makes of the last result and the next row."""
    if not x.size:
        return x
    n = x.shape[axis]
    out, *factors = [jnp.moveaxis(a, axis, 0) for a in (x, *more)]

    def next_row(i, out):
        here, last = (n - 1 - i, n - i) if reverse else (i, i - 1)
        row = step(
            *[
                lax.dynamic_index_in_dim(a, at, keepdims=False)
                for a, at in ((out, last), (out, here), *[(f, here) for f in factors])
            ]
        )
        return lax.dynamic_update_index_in_dim(out, row, here, 0)

    return jnp.moveaxis(lax.fori_loop(1, n, next_row, out), 0, axis)


def _cumsum_numpy(x, axis, dtype):
    x, axis = _line(widen(x.astype(dtype.np, copy=False)), axis)
    return np.cumsum(x, axis=axis, dtype=x.dtype) if x.ndim else x


cumsum.numpy_form = _cumsum_numpy
cumsum.prepare(_widened)
cumsum.infer(lambda x, axis, dtype: sig_of((x.size,) if axis is None else x.shape, dtype))


def _cumsum_grad_numpy(g, axis, sigs):
    along, g = 0 if axis is None else axis, widen(g)
    out = np.flip(np.cumsum(np.flip(g, along), axis=along, dtype=g.dtype), along) if g.ndim else g
    return out.reshape(sigs[0].shape).astype(sigs[0].dtype.np)


@cumsum.grad(numpy=_cumsum_grad_numpy)
def _(g, axis, sigs):
    return _cumsum_grad(g, axis, sigs, lambda g, along: lax.cumsum(g, along, reverse=True))


@cumsum.grad(on="cpu", mesh=False)
def _(g, axis, sigs):
    return _cumsum_grad(g, axis, sigs, lambda g, along: _cumulative(g, along, lax.add, lax.cumsum, True))


def _cumsum_grad(g, axis, sigs, from_the_end):
    along, g = 0 if axis is None else axis, widen(g)
    g = from_the_end(g, along) if g.ndim else g
    return g.reshape(sigs[0].shape).astype(sigs[0].dtype.np)


# Both gradients below are recurrences from the end, s[i] = g[i] + a[i] * s[i + 1]: without quotients, so zeros are
# no exception.


def _backwards_cpu(g, a, axis):
    return _rows(lambda last, row, factor: row + factor * last, g, axis, True, a)


def _backwards(g, a, axis):
    def combine(late, early):
        return late[0] * early[0], early[0] * late[1] + early[1]

    return lax.associative_scan(combine, (a, g), axis=axis, reverse=True)[1]


def _backwards_numpy(g, a, axis):
    rows, factors = np.moveaxis(g, axis, 0), np.moveaxis(a, axis, 0)
    out = np.array(rows)
    for i in range(len(rows) - 2, -1, -1):
        out[i] += factors[i] * out[i + 1]
    return np.moveaxis(out, 0, axis)


def _shifted(x, axis, by, fill):
    """`x` shifted by one along an axis, to the left or to the right, with a number in the free element."""
    edge = jnp.full_like(_cut(x, axis, 0, 1), fill)
    return jnp.concatenate([_cut(x, axis, 1, None), edge] if by < 0 else [edge, _cut(x, axis, 0, -1)], axis=axis)


def _cut(x, axis, start, stop):
    return x[(slice(None),) * axis + (slice(start, stop),)]


@op(method=True, inplace=True, amp="high", upcast="grad")
def cumprod(x: Tensor, dim: Axis = None, dtype: DTypeArg = None) -> Tensor:
    """Cumulative product along an axis.

    Args:
        x: Tensor of numbers.
        dim: Axis to multiply along; ``None`` means the flattened tensor. Default: None.
        dtype: Dtype to convert ``x`` to first, which is that of the result. Default: None, the dtype of ``x``.

    Returns:
        Tensor of the shape of ``x``, or 1-D without an axis; half precision is accumulated in float32.

    Examples:
        >>> bireme.cumprod(bireme.to_tensor([1, 2, 3, 4])).tolist()
        [1, 2, 6, 24]
    """
    x, dim = _line(widen(x.astype(dtype.np)), dim)
    return (lax.cumprod(x, dim) if x.ndim else x).astype(dtype.np)


@cumprod.on("cpu", mesh=False)
def _cumprod_cpu(x, dim, dtype):
    x, dim = _line(widen(x.astype(dtype.np)), dim)
    return (_cumulative(x, dim, lax.mul, lax.cumprod) if x.ndim else x).astype(dtype.np)


def _cumprod_numpy(x, dim, dtype):
    x, dim = _line(widen(x.astype(dtype.np, copy=False)), dim)
    return np.cumprod(x, axis=dim, dtype=x.dtype) if x.ndim else x


cumprod.numpy_form = _cumprod_numpy
cumprod.prepare(_same_type)
cumprod.infer(lambda x, dim, dtype: sig_of((x.size,) if dim is None else x.shape, dtype))


@cumprod.check
def _(dtype):
    if dtype is dtypes.bool_:
        raise errors.bad("cumprod(x)", "a numeric tensor, or dtype=", described="bool", kind=errors.DtypeError)


def _cumprod_parts(g, out, x, dim, dtype):
    """What comes before each element, and the factor of each step of the recurrence."""
    x, dim = _line(conj_of(widen(x.astype(dtype.np))), dim)
    return _shifted(conj_of(out), dim, 1, 1), _shifted(x, dim, -1, 0), dim


_cumprod_parts_numpy = on_numpy(_cumprod_parts)


def _cumprod_grad_numpy(g, out, x, dim, dtype):
    if g.ndim and g.size:
        before, factor, axis = _cumprod_parts_numpy(g, out, x, dim, dtype)
        g = before * _backwards_numpy(g, factor, axis)
    return g.reshape(x.shape)


@cumprod.grad(numpy=_cumprod_grad_numpy)
def _(g, out, x, dim, dtype):
    return _cumprod_grad(g, out, x, dim, dtype, _backwards)


@cumprod.grad(on="cpu", mesh=False)
def _(g, out, x, dim, dtype):
    return _cumprod_grad(g, out, x, dim, dtype, _backwards_cpu)


def _cumprod_grad(g, out, x, dim, dtype, from_the_end):
    if g.ndim and g.size:
        before, factor, axis = _cumprod_parts(g, out, x, dim, dtype)
        g = before * from_the_end(g, factor, axis)
    return g.reshape(x.shape)


@op(method=True, dtypes=FLOAT, floats=True, upcast=True)
def logcumsumexp(x: Tensor, axis: Axis = None, dtype: DTypeArg = None) -> Tensor:
    """Logarithm of the cumulative sum of exponentials, computed without overflow.

    Args:
        x: Tensor of real numbers; integers and bools become float32.
        axis: Axis to sum along; ``None`` means the flattened tensor. Default: None.
        dtype: Dtype to convert ``x`` to first, which is that of the result. Default: None, the dtype of ``x``.

    Returns:
        Tensor of the shape of ``x``, or 1-D without an axis.

    Examples:
        >>> bireme.logcumsumexp(bireme.to_tensor([1000.0, 1000.0])).tolist()[0]
        1000.0
    """
    x, axis = _line(x, axis)
    return lax.cumlogsumexp(x, axis) if x.ndim else x


@logcumsumexp.on("cpu", mesh=False)
def _logcumsumexp_cpu(x, axis, dtype):
    x, axis = _line(x, axis)
    return _rows(jnp.logaddexp, x, axis) if x.ndim else x


def _logcumsumexp_numpy(x, axis, dtype):
    x, axis = _line(x, axis)
    return np.logaddexp.accumulate(x, axis=axis) if x.ndim else x


logcumsumexp.numpy_form = _logcumsumexp_numpy
logcumsumexp.infer(lambda x, axis: sig_of((x.size,) if axis is None else x.shape, x.dtype))


@logcumsumexp.prepare
def _(arguments):
    x, dtype = arguments["x"], arguments["dtype"]
    if isinstance(x, Tensor) and dtype is not None:
        arguments["x"] = x.astype(dtype)
        arguments["dtype"] = None


def _shares(out, x, axis):
    """The share of each element in its sum, and of each sum in the next: exp of differences, none of them above 0."""
    x, axis = _line(x, axis)
    share = jnp.where(x == out, jnp.ones_like(x), jnp.exp(x - out))
    after = _shifted(out, axis, -1, np.inf)
    step = jnp.where(after == out, jnp.ones_like(x), jnp.exp(out - after))
    return jnp.where(x == -np.inf, jnp.zeros_like(x), share), step, axis


_shares_numpy = on_numpy(_shares)


def _logcumsumexp_grad_numpy(g, out, x, axis):
    if g.ndim and g.size:
        share, step, along = _shares_numpy(out, x, axis)
        g = share * _backwards_numpy(g, step, along)
    return g.reshape(x.shape)


@logcumsumexp.grad(numpy=_logcumsumexp_grad_numpy)
def _(g, out, x, axis):
    return _logcumsumexp_grad(g, out, x, axis, _backwards)


@logcumsumexp.grad(on="cpu", mesh=False)
def _(g, out, x, axis):
    return _logcumsumexp_grad(g, out, x, axis, _backwards_cpu)


def _logcumsumexp_grad(g, out, x, axis, from_the_end):
    if g.ndim and g.size:
        share, step, along = _shares(out, x, axis)
        g = share * from_the_end(g, step, along)
    return g.reshape(x.shape)


# ---------------------------------------------------------------- extremes


def _running(x, axis, dtype, extreme, running):
    """Cumulative extremes and their indices: the last of equal ones, and NaN as soon as there is one."""
    x, axis = _line(x, axis)
    if not x.ndim:
        return x, jnp.zeros((), dtype.np)
    top = extreme(x, axis)
    hit = (x == top) | (x != x)
    places = jnp.arange(x.shape[axis], dtype=dtype.np).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    places = running(jnp.where(hit, places, jnp.zeros((), dtype.np)), axis)
    return top, places


def _picked(x, found, axis):
    """The same values, picked from `x`: so the gradient finds its way back."""
    x, axis = _line(x, axis)
    return (at(x, found[1], axis) if x.ndim else x), found[1]


@op(method=True, dtypes=REAL, selects=True, upcast="grad")
def cummax(x: Tensor, axis: Axis = None, dtype: DTypeArg = "int64") -> tuple[Tensor, Tensor]:
    """Cumulative maximum along an axis, and its indices.

    Of equal elements the index is that of the last one. After a NaN everything is NaN.

    Args:
        x: Tensor of real numbers.
        axis: Axis to go along; ``None`` means the flattened tensor. Default: None.
        dtype: Dtype of the indices, int32 or int64. Default: ``'int64'``.

    Returns:
        A pair of tensors: maxima and indices, in the shape of ``x``, or 1-D without an axis.

    Examples:
        >>> [t.tolist() for t in bireme.cummax(bireme.to_tensor([1, 3, 2]))]
        [[1, 3, 3], [0, 1, 1]]
    """
    return _picked(x, _running(lax.stop_gradient(x), axis, dtype, lax.cummax, lax.cummax), axis)


@op(method=True, dtypes=REAL, selects=True, upcast="grad")
def cummin(x: Tensor, axis: Axis = None, dtype: DTypeArg = "int64") -> tuple[Tensor, Tensor]:
    """Cumulative minimum along an axis, and its indices.

    Of equal elements the index is that of the last one. After a NaN everything is NaN.

    Args:
        x: Tensor of real numbers.
        axis: Axis to go along; ``None`` means the flattened tensor. Default: None.
        dtype: Dtype of the indices, int32 or int64. Default: ``'int64'``.

    Returns:
        A pair of tensors: minima and indices, in the shape of ``x``, or 1-D without an axis.

    Examples:
        >>> [t.tolist() for t in bireme.cummin(bireme.to_tensor([3, 1, 2]))]
        [[3, 1, 1], [0, 1, 1]]
    """
    return _picked(x, _running(lax.stop_gradient(x), axis, dtype, lax.cummin, lax.cummax), axis)


_running_numpy = on_numpy(_running)


def _extremes_grad(g, out, axis, sigs):
    g, along = g[0], 0 if axis is None else axis
    return (add_back(g, out[1], along, g.shape) if g.ndim else g).reshape(sigs[0].shape)


def _extremes_infer(x, axis, dtype):
    shape = (x.size,) if axis is None else x.shape
    return [sig_of(shape, x.dtype), sig_of(shape, dtype)]


def _places_type(name):
    def prepare(arguments):
        kind = arguments["dtype"] = dtypes.of(
            "int64" if arguments["dtype"] is None else arguments["dtype"], f"{name}(dtype)"
        )
        if kind not in (dtypes.int32, dtypes.int64):
            raise errors.bad(f"{name}(dtype)", "int32 or int64", described=kind.name)

    return prepare


for _op, _np in ((cummax, np.maximum), (cummin, np.minimum)):
    _op.prepare(_places_type(_op.name))
    _op.infer(_extremes_infer)
    _op.grad(_extremes_grad, numpy=True)
    _op.numpy_form = lambda x, axis, dtype, f=_np: _running_numpy(x, axis, dtype, f.accumulate, np.maximum.accumulate)


# ---------------------------------------------------------------- in-place forms without an axis


def _inplace(scan: Op, name: str) -> None:
    """As in Paddle, `x` is converted to `dtype` first, and without an axis it becomes 1-D as the result is."""

    @scan.inplace
    def _(x, axis, dtype):
        kind = x.dtype if dtype is None else dtypes.of(dtype, f"{name}(dtype)")
        if kind is not x.dtype:
            x.cast_(kind)
        since = tape.now()
        new = scan(x, axis, kind)
        return become(x, new, name, since) if axis is None and x.ndim > 1 else assign_inplace(x, new, name, since)


_inplace(cumsum, "cumsum_")
_inplace(cumprod, "cumprod_")
