"""NumPy forms of jax primitives, for the interpreter. None means: let jax run this one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from bireme.core.base.later import special
from bireme.core.numpy_exec import blas, convolution, lapack, limits, masks
from bireme.core.numpy_exec.add_rows import add_rows
from bireme.core.numpy_exec.erf import erf
from bireme.core.numpy_exec.exponentials import logistic

_SMALL = tuple(np.dtype(t) for t in (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))


def _complex(a: Any, b: Any) -> Any:
    """Parts put side by side: `a + 1j * b` would turn an infinity into NaN."""
    out = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), np.result_type(a, np.complex64))
    out.real, out.imag = a, b
    return out


def _shift_right(x: Any, n: Any) -> Any:
    bits = x.dtype.itemsize * 8
    return np.where(n < bits, np.right_shift(x, np.minimum(n, bits - 1)), 0).astype(x.dtype)


def _shift_right_logical(x: Any, n: Any) -> Any:
    unsigned = x.view(f"u{x.dtype.itemsize}")
    return _shift_right(unsigned, n.astype(unsigned.dtype)).view(x.dtype)


def _divide(x: Any, y: Any) -> Any:
    if np.issubdtype(x.dtype, np.integer):
        # towards zero, and -1 for a zero divisor, as XLA has it
        safe = np.where(y == 0, 1, y)
        q = (
            np.abs(x) // np.abs(safe) * (np.sign(x) * np.sign(safe))
            if np.issubdtype(x.dtype, np.signedinteger)
            else x // safe
        )
        return np.where(y == 0, np.array(-1).astype(x.dtype), q).astype(x.dtype)
    return np.divide(x, y)


def _remainder(x: Any, y: Any) -> Any:
    if np.issubdtype(x.dtype, np.integer):
        return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))).astype(x.dtype)
    return np.fmod(x, y)


def _sign(x: Any) -> Any:
    if np.issubdtype(x.dtype, np.complexfloating):
        m = np.abs(x)
        return np.where(m == 0, 0, x / np.where(m == 0, 1, m)).astype(x.dtype)
    return np.sign(x)


def _round(x: Any, method: Any) -> Any:
    if int(method) == 0:  # half away from zero
        return np.copysign(np.floor(np.abs(x) + np.asarray(0.5, x.dtype)), x)
    return np.rint(x)


_ELEMENTWISE: dict[str, Any] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "div": _divide,
    "rem": _remainder,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "pow": np.power,
    "abs": np.abs,
    "sign": _sign,
    "square": np.square,
    "floor": np.floor,
    "ceil": np.ceil,
    "is_finite": np.isfinite,
    "logistic": logistic,
    "erf": erf,
    "erfc": special.function("erfc"),
    "erf_inv": special.function("erfinv"),
    "lgamma": special.function("gammaln"),
    "digamma": special.function("digamma"),
    "nextafter": np.nextafter,
    "shift_left": np.left_shift,
    "shift_right_logical": _shift_right_logical,
    "shift_right_arithmetic": _shift_right,
    "real": np.real,
    "imag": np.imag,
    "conj": np.conj,
    "population_count": np.bitwise_count,
    "regularized_incomplete_beta": special.function("betainc"),
    "igamma": special.function("gammainc"),
    "igammac": special.function("gammaincc"),
    "bessel_i0e": special.function("i0e"),
    "bessel_i1e": special.function("i1e"),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "one_minus_square": lambda x: 1 - x * x,
    "stop_gradient": lambda x: x,
    "copy": np.copy,
    "copy_p": np.copy,
    "optimization_barrier": lambda *xs: xs,
    "complex": _complex,
    "clamp": lambda lo, x, hi: limits.minimum(limits.maximum(x, lo), hi),
}


def _typed(f: Any, dtype: np.dtype) -> Any:
    """Keep the result type of the trace; half precision is computed in float32 and rounded, as XLA does."""
    if dtype in _SMALL:

        def small(*xs):
            wide = [x.astype(np.float32) if x.dtype in _SMALL else x for x in map(np.asarray, xs)]
            return np.asarray(f(*wide)).astype(dtype)

        return small

    def typed(*xs):
        if any(x.dtype in _SMALL for x in map(np.asarray, xs)):
            xs = tuple(x.astype(np.float32) if x.dtype in _SMALL else x for x in map(np.asarray, xs))
        out = f(*xs)
        return out if getattr(out, "dtype", None) == dtype else np.asarray(out).astype(dtype)

    return typed


def cast(x: Any, dtype: np.dtype) -> np.ndarray:
    """Convert as XLA does: floats to integers towards zero, clamped to the range, NaN to 0; integers wrap."""
    x = np.asarray(x)
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if x.dtype in _SMALL and dtype.kind in "iub":
        x = x.astype(np.float32)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        lo, hi = float(info.min), float(info.max)
        x = np.where(np.isnan(x), 0.0, x)
        out = np.clip(x, lo, np.nextafter(hi, 0)).astype(dtype)
        return np.where(x >= hi, info.max, out).astype(dtype)
    return x.astype(dtype)


def dot_general(x: Any, y: Any, dims: Any, dtype: np.dtype) -> np.ndarray:
    """Contract and batch any axes with one matmul."""
    (cx, cy), (bx, by) = dims
    fx = [i for i in range(x.ndim) if i not in cx and i not in bx]
    fy = [i for i in range(y.ndim) if i not in cy and i not in by]

    def size(a, axes):
        n = 1
        for i in axes:
            n *= a.shape[i]
        return n

    if x.dtype in _SMALL or y.dtype in _SMALL:
        x, y = x.astype(np.float32), y.astype(np.float32)
    elif dtype.kind in "iu" and x.dtype.itemsize < dtype.itemsize:  # sums of narrow integers would wrap
        wide = np.float64 if x.dtype.itemsize == 1 else dtype  # which holds them exactly, and BLAS has it
        x, y = x.astype(wide), y.astype(wide)
    batch = [x.shape[i] for i in bx]
    lhs = x.transpose(*bx, *fx, *cx).reshape(*batch, size(x, fx), size(x, cx))
    rhs = y.transpose(*by, *cy, *fy).reshape(*batch, size(y, cy), size(y, fy))
    out = blas.matmul(lhs, rhs).reshape([*batch, *[x.shape[i] for i in fx], *[y.shape[i] for i in fy]])
    return out.astype(dtype, copy=False)


def broadcast_in_dim(x: Any, shape: Any, dims: Any) -> np.ndarray:
    x = np.asarray(x)
    mid = [1] * len(shape)
    for i, n in zip(dims, x.shape):
        mid[i] = n
    return np.broadcast_to(x.reshape(mid), shape)


def _pad(x: Any, value: Any, config: Any) -> np.ndarray:
    for axis, (_, _, inner) in enumerate(config):
        if inner:
            n = x.shape[axis]
            out = np.full((*x.shape[:axis], max(0, n + (n - 1) * inner), *x.shape[axis + 1 :]), value, x.dtype)
            out[(slice(None),) * axis + (slice(None, None, inner + 1),)] = x
            x = out
    grow = [(max(0, lo), max(0, hi)) for lo, hi, _ in config]
    x = np.pad(x, grow, constant_values=value) if any(a or b for a, b in grow) else x
    # cut after it has grown: more may be cut off at one end than there was
    return x[tuple(slice(max(0, -lo), x.shape[i] - max(0, -hi)) for i, (lo, hi, _) in enumerate(config))]


FEW_ROWS = 16  # added one after the other: finding out which of them are the same takes longer


def scatter_add_rows(x: Any, index: Any, updates: Any) -> np.ndarray:
    """Add rows of `updates` into a copy of `x` at `index`; rows out of range are dropped, as XLA does."""
    out, index = np.array(x), index.ravel()
    updates = updates.reshape(len(index), math.prod(out.shape[1:]))
    inside = (index >= 0) & (index < len(out))
    if not inside.all():
        index, updates = index[inside], updates[inside]
    if len(index) <= FEW_ROWS:
        rows = out.reshape(len(out), updates.shape[1])
        for i, row in zip(index.tolist(), updates.astype(out.dtype, copy=False)):
            rows[i] += row
    elif out.size and not add_rows(
        out.reshape(len(out), updates.shape[1]), index, updates.astype(out.dtype, copy=False)
    ):
        order = np.argsort(index, kind="stable")
        index, updates = index[order], updates[order]
        starts = np.flatnonzero(np.r_[True, index[1:] != index[:-1]])
        out.reshape(len(out), -1)[index[starts]] += np.add.reduceat(updates, starts, axis=0).astype(
            out.dtype, copy=False
        )
    return out


def _reduce(f: Any, axes: tuple, dtype: np.dtype) -> Any:
    def run(x):
        if x.dtype in _SMALL:
            x = x.astype(np.float32)
        return np.asarray(f(x, axis=axes)).astype(dtype, copy=False)

    return run


_REDUCERS = {
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_and": np.all, "reduce_or": np.any,
    "reduce_max": lambda x, axis: np.max(x, axis=axis, initial=_lowest(x.dtype)),
    "reduce_min": lambda x, axis: np.min(x, axis=axis, initial=_highest(x.dtype)),
}  # fmt: skip


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def _arg(f: Any, axis: int, dtype: np.dtype) -> Any:
    return lambda x: np.asarray(f(x.astype(np.float32) if x.dtype in _SMALL else x, axis=axis)).astype(dtype)


def _cumulative(ufunc: Any, axis: int, reverse: bool, dtype: np.dtype) -> Any:
    def run(x):
        x = np.flip(x, axis) if reverse else x
        wide = x.astype(np.float32) if x.dtype in _SMALL else x
        out = ufunc.accumulate(wide, axis=axis).astype(dtype, copy=False) if x.size else x
        return np.flip(out, axis) if reverse else out

    return run


def _dynamic_starts(starts: Any, shape: Any, sizes: Any) -> list[int]:
    return [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes)]


def _dynamic_update(x: Any, u: Any, *starts: Any) -> np.ndarray:
    out = np.array(x)
    at = _dynamic_starts(starts, x.shape, u.shape)
    out[tuple(slice(s, s + n) for s, n in zip(at, u.shape))] = u
    return out


def _sort(eqn: Any) -> Any:
    p = eqn.params
    axis, keys = p["dimension"], p["num_keys"]
    if keys != 1:
        return None

    def run(*xs):
        first = xs[0].astype(np.float32) if xs[0].dtype in _SMALL else xs[0]
        order = np.argsort(first, axis=axis, kind="stable")
        return [np.take_along_axis(x, order, axis) for x in xs]

    return run


def _gather(eqn: Any) -> Any:
    """Rows of a table: the gather that indexing by integers makes. Others go to jax."""
    p = eqn.params
    n, x, idx = p["dimension_numbers"], eqn.invars[0].aval, eqn.invars[1].aval
    if n.operand_batching_dims or idx.shape[-1] != 1 or str(p["mode"]).endswith("FILL_OR_DROP"):
        return None
    whole = (
        n.start_index_map == (0,)
        and n.collapsed_slice_dims == (0,)
        and tuple(p["slice_sizes"][1:]) == tuple(x.shape[1:])
    )
    trailing = n.offset_dims == tuple(range(idx.ndim - 1, idx.ndim - 1 + x.ndim - 1))
    if whole and trailing and x.shape[0]:
        return lambda x, i: np.take(x, i[..., 0], axis=0, mode="clip")
    return None


def _scatter_add(eqn: Any) -> Any:
    p = eqn.params
    n, x, idx = p["dimension_numbers"], eqn.invars[0].aval, eqn.invars[1].aval
    rows = (
        n.scatter_dims_to_operand_dims == (0,)
        and n.inserted_window_dims == (0,)
        and idx.shape[-1] == 1
        and not n.operand_batching_dims
    )
    trailing = n.update_window_dims == tuple(range(idx.ndim - 1, idx.ndim - 1 + x.ndim - 1))
    if rows and trailing and x.dtype not in _SMALL:
        return lambda x, i, u: scatter_add_rows(x, i[..., 0], u)
    return None


def _triangular(p: Any) -> Any:
    trans = (2 if p["conjugate_a"] else 1) if p["transpose_a"] else 0
    turn = np.conj if p["conjugate_a"] and not trans else np.asarray
    return lambda a, b: lapack.triangular_solve(turn(a), b, p["left_side"], p["lower"], trans, p["unit_diagonal"])


def _factors(name: str, p: Any) -> Any:
    """Factorisations by the library that XLA calls on CPU."""
    if name == "svd":
        if not p["compute_uv"]:
            return lambda x: [lapack.by_matrix(np.linalg.svdvals, x)]
        return lambda x: [(f := lapack.svd(x, p["full_matrices"]))[1], f[0], f[2]]
    if name == "eigh":
        return lambda x: lapack.eigh(x, p["lower"])[::-1]
    if name == "qr":
        return None if p["pivoting"] else lambda x: lapack.qr(x, p["full_matrices"])
    return lapack.lu if name == "lu" else lapack.cholesky


# foreign functions that can be called on host arrays, by their targets: attributes and results in, the call out
FOREIGN: dict[str, Callable[[dict[str, Any], list[Any]], Callable]] = {}


def numpy_form(eqn: Any) -> Any:
    """A NumPy callable for one equation of a trace, or None."""
    name, p = eqn.primitive.name, eqn.params
    if name == "ffi_call":
        found = FOREIGN.get(p["target_name"])
        return None if found is None else found(dict(p["attributes"]), [v.aval for v in eqn.outvars])
    dtype: Any = np.dtype(eqn.outvars[0].aval.dtype) if eqn.outvars else None
    shape = getattr(eqn.outvars[0].aval, "shape", ()) if eqn.outvars else ()
    if name in _ELEMENTWISE:
        f = _ELEMENTWISE[name]
        return f if name == "optimization_barrier" else _typed(f, dtype)
    if name == "integer_pow":
        y = p["y"]
        return _typed(lambda x: x * x if y == 2 else 1 / np.power(x, -y) if y < 0 else np.power(x, y), dtype)
    if name == "round":
        return _typed(lambda x: _round(x, p["rounding_method"]), dtype)
    if name == "dot_general":
        return lambda x, y: dot_general(x, y, p["dimension_numbers"], dtype)
    if name == "convert_element_type":
        return lambda x: cast(x, dtype)
    if name == "bitcast_convert_type" and np.dtype(eqn.invars[0].aval.dtype).itemsize == dtype.itemsize:
        return lambda x: np.asarray(x, order="C").view(dtype)  # ascontiguousarray would give a scalar an axis
    if name == "transpose":
        return lambda x: np.transpose(x, p["permutation"])
    # gradients of products and grouped convolutions turn axes first
    if name == "reshape" and p.get("dimensions") is not None:
        return lambda x: np.reshape(np.transpose(x, p["dimensions"]), shape)
    if name in ("reshape", "squeeze", "expand_dims"):
        return lambda x: np.reshape(x, shape)
    if name == "broadcast_in_dim" and p.get("shape") is not None:
        return lambda x, *_: broadcast_in_dim(x, p["shape"], p["broadcast_dimensions"])
    if (name in _REDUCERS and dtype.kind != "c") or name in ("reduce_sum", "reduce_prod"):
        return _reduce(_REDUCERS[name], tuple(p["axes"]), dtype)
    if name in ("argmax", "argmin") and len(p["axes"]) == 1:
        return _arg(np.argmax if name == "argmax" else np.argmin, p["axes"][0], dtype)
    if name in ("cumsum", "cumprod", "cummax", "cummin"):
        ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[name]
        return _cumulative(ufunc, p["axis"], p["reverse"], dtype)
    if name == "select_n":
        if len(eqn.invars) == 3 and eqn.invars[0].aval.dtype == np.bool_:
            return lambda c, a, b: masks.chosen(c, b, a)
        return lambda c, *xs: np.choose(c, xs)
    if name == "iota":
        return lambda: broadcast_in_dim(
            np.arange(p["shape"][p["dimension"]]).astype(p["dtype"]), p["shape"], (p["dimension"],)
        )
    if name == "slice":
        steps = p["strides"] or [1] * len(p["start_indices"])
        at = tuple(slice(a, b, s) for a, b, s in zip(p["start_indices"], p["limit_indices"], steps))
        return lambda x: x[at]
    if name == "dynamic_slice":
        sizes = p["slice_sizes"]

        def dynamic_slice(x, *starts):
            at = _dynamic_starts(starts, x.shape, sizes)
            return x[tuple(slice(s, s + n) for s, n in zip(at, sizes))]

        return dynamic_slice
    if name == "dynamic_update_slice":
        return _dynamic_update
    if name == "rev":
        return lambda x: np.flip(x, p["dimensions"])
    if name == "concatenate":
        return lambda *xs: np.concatenate(xs, p["dimension"])
    if name == "split":
        return lambda x: np.split(x, np.cumsum(p["sizes"])[:-1], p["axis"])
    if name == "triangular_solve":
        return _triangular(p)
    if name == "lu_pivots_to_permutation":
        return lambda x: lapack.swaps_to_order(x, p["permutation_size"])
    if name in ("svd", "eigh", "qr", "lu", "cholesky") and p.get("subset_by_index") is None:
        return _factors(name, p)
    if name == "pad":
        return lambda x, v: _pad(x, v, p["padding_config"])
    if name == "conv_general_dilated" and dtype.kind != "c":
        zero = np.zeros((), np.float32 if dtype in _SMALL else dtype)
        return _typed(lambda x, w: convolution.primitive(x, w, lambda x, config: _pad(x, zero, config), p), dtype)
    if name == "sort":
        return _sort(eqn)
    if name == "gather":
        return _gather(eqn)
    if name == "scatter-add":
        return _scatter_add(eqn)
    return None
