"""Rows of positions of extremes, of places in sorted sequences, and of distinct elements."""

import numpy as np

from tests.table.harness import ALL, BOOL, REAL, Bad, Row, call
from tests.table.pairs import exact
from tests.table.samples import NONFINITE, floats, ints

NONE = np.zeros((2, 0, 3))
NANS = np.array([[np.nan, 1.0, 2.0], [np.inf, np.nan, 2.0], [np.nan, np.nan, np.nan]])
VALUES = "the shape of its result depends on values"


def _place(x, axis=None, keepdim=False, dtype="int64", largest=True):
    """NaN is no extreme, unless there is nothing else."""
    if x.dtype.kind == "f":
        x = np.where(np.isnan(x), -np.inf if largest else np.inf, x)
    if not x.ndim:
        return np.zeros((1,) if keepdim and axis is not None else (), dtype)
    return np.asarray((np.argmax if largest else np.argmin)(x, axis=axis, keepdims=keepdim)).astype(dtype)


def _positions(name, largest):
    samples = [call(floats(2, 3)), call(floats(2, 3), 0), call(floats(2, 3, 2), -2, True), call(floats(2, 3), keepdim=True), call(floats()),
               call(floats(), 0, True), call(NONE, axis=0), call(NANS, 1), call(np.array([[1.0, 2.0, 2.0], [2.0, 1.0, 1.0]]), axis=1),
               call(floats(2, 3), dtype="int32")]  # fmt: skip
    return Row(name, samples, lambda x, axis=None, keepdim=False, dtype="int64": _place(x, axis, keepdim, dtype, largest), dtypes=REAL, out="ref",
               grad=0, bad=[Bad(call(np.zeros((0, 3))), f"{name}(x): expected at least one element, got shape [0, 3]"),
                            Bad(call(floats(2), dtype="float32"), f"{name}(dtype): expected int32 or int64, got float32", TypeError),
                            Bad(call(floats(2), axis=1), f"{name}(axis): expected an axis in [-1, 0], got 1")])  # fmt: skip


def _compat(name, largest):
    def ref(input, dim=None, keepdim=False, other=None):
        if isinstance(dim, np.ndarray) or other is not None:
            return (np.maximum if largest else np.minimum)(input, dim if other is None else other)
        if dim is None:
            return (np.max if largest else np.min)(input)
        if not input.ndim:
            return input, np.zeros((), int)
        places = _place(input, dim, True, largest=largest)
        found = np.take_along_axis(input, places, dim), places
        return found if keepdim else tuple(np.squeeze(f, dim) for f in found)

    samples = [
        call(floats(2, 3)), call(floats(2, 3), 0), call(floats(2, 3, 2), dim=-2, keepdim=True), call(floats(), 0),
        call(floats(2, 3), floats(2, 3, seed=1)), call(floats(2, 3), other=floats(3, seed=1)), call(NONE, 0),
        call(np.array([[1.0, 2.0, 2.0], [2.0, 1.0, 1.0]]), 1, True),
    ]  # fmt: skip
    told = name.removeprefix("compat_")
    return Row(name, samples, law=exact(ref), dtypes=REAL, bad=[
        Bad(call(floats(2), None), f"{told}(): expected a tensor, with an axis (and keepdim) or with another tensor, got other arguments", TypeError),
        Bad(call(floats(2), keepdim=True), f"{told}(): expected a tensor, with an axis", TypeError),
        Bad(call(floats(2), axis=0), f"{told}(axis): expected a keyword among ", TypeError),
    ])  # fmt: skip


def _search(sorted_sequence, values, out_int32=False, right=False):
    rows = (
        np.broadcast_to(sorted_sequence, (*values.shape[:-1], sorted_sequence.shape[-1]))
        if values.ndim
        else sorted_sequence
    )
    out = np.zeros(values.shape, "int32" if out_int32 else "int64")
    for i in np.ndindex(values.shape):
        row = rows[i[:-1]]
        out[i] = np.sum(row <= values[i]) if right else np.sum(row < values[i])
    return out


_seq = np.array([1.0, 2.0, 2.0, 3.0, 5.5])
_rows = np.array([[1.0, 3.0, 5.0], [2.0, 2.0, 6.0]])
_searches = [
    call(_seq, floats(2, 3)), call(_seq, np.array([2.0, 5.5, 0.0, 9.0, -np.inf, np.inf]), right=True), call(_seq, floats(), True), call(_rows,
        floats(2, 4, low=0, high=7), False, True),
    call(_rows.reshape(2, 1, 3), floats(2, 1, 2), out_int32=True), call(np.zeros(0), floats(2)), call(_seq, np.zeros((0, 2))), call(np.zeros((0, 3)),
        np.zeros((0, 2))),
    call(_rows, np.array([[1, 2], [2, 6]])), call(_rows, np.zeros((2, 0))), call(np.zeros((2, 0)), floats(2, 3)),
]  # fmt: skip


def _unique(consecutive):
    """Slices compared one by one, as tuples: NaN is unlike everything."""

    def ref(x, return_index=False, return_inverse=False, return_counts=False, axis=None, dtype="int64"):
        if not x.size:
            n = np.zeros(0, int)
            values = x.reshape(-1) if consecutive and axis is None else x
            return (values, *[n] * (bool(return_index) + bool(return_inverse) + bool(return_counts)))
        moved = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
        order = list(range(len(moved)))
        if not consecutive:
            order.sort(key=lambda i: tuple((np.isnan(v), v) if np.asarray(v).dtype.kind == "f" and not np.isnan(v) else (v != v, 0 if v != v else v)
                for v in moved[i]))  # fmt: skip
        groups = []
        for i in order:
            if groups and (moved[groups[-1][0]] == moved[i]).all():
                groups[-1].append(i)
            else:
                groups.append([i])
        kept = [g[0] for g in groups]
        inverse = np.zeros(len(moved), int)
        for k, g in enumerate(groups):
            inverse[g] = k
        found = [x.reshape(-1)[kept] if axis is None else np.take(x, kept, axis)]
        found += [np.array(kept)] if return_index else []
        found += [inverse] if return_inverse else []
        found += [np.array([len(g) for g in groups])] if return_counts else []
        return tuple(found)

    return ref


def _consecutive(x, return_inverse=False, return_counts=False, axis=None, dtype="int64"):
    return _unique(True)(x, False, return_inverse, return_counts, axis, dtype)


_u = np.array([2.0, 3.0, 3.0, 1.0, 5.0, 3.0])
_m = np.array([[2.0, 1.0, 3.0], [2.0, 1.0, 3.0], [3.0, 0.0, 1.0], [2.0, 1.0, 3.0]])
_uniques = [
    call(_u),
    call(_m, return_counts=True),
    call(floats()),
    call(np.array(NONFINITE)),
    call(np.zeros(0)),
    call(NONE),
]
_no_axis = Bad(call(floats(2), axis=1), "unique(axis): expected an axis in [-1, 0], got 1")


def _no_type(name):
    return Bad(call(_u, dtype="float32"), f"{name}(dtype): expected int32 or int64, got float32", TypeError)


TABLE = [
    Row("arg_extreme", [call(floats(2, 3), None, False, "int64", True), call(floats(2, 3), 0, True, "int32", False), call(floats(), None, False,
        "int64", True), call(NONE, 0, False, "int64", True), call(NANS, 1, False, "int64", False)], _place, dtypes=REAL, out="ref", grad=0,
        bad=[Bad(call(np.zeros((0, 3)), None, False, "int64", False), "argmin(x): expected at least one element, got shape [0, 3]")]),
    _positions("argmax", True),
    _positions("argmin", False),
    _compat("compat_max", True),
    _compat("compat_min", False),
    Row("searchsorted", _searches, _search, dtypes=REAL, out="ref", grad=0, bad=[
        Bad(call(floats(), floats(2)), "searchsorted(sorted_sequence): expected a tensor with at least 1 dimension, got a 0-D tensor"),
        Bad(call(_rows, floats(3)), "searchsorted(values): expected leading dimensions [2], as sorted_sequence has, got shape [3]"),
        Bad(call(_seq, np.array([True])), "searchsorted(values): expected an integer or floating-point tensor, got bool", TypeError)]),
    Row("bucketize", [call(floats(2, 3), _seq), call(floats(), _seq, True, True), call(np.zeros((0, 2)), _seq), call(floats(2), np.zeros(0))],
        lambda x, sorted_sequence, *more: _search(sorted_sequence, x, *more), dtypes=REAL, out="ref", grad=0,
        bad=[Bad(call(floats(2), _rows), "bucketize(sorted_sequence): expected a 1-D tensor, got a Tensor of shape [2, 3], float64")]),
    Row("argwhere", [call(np.array([[0.0, 1.5], [2.0, 0.0]])), call(ints(2, 3)), call(np.array(2.0)), call(NONE)],
        lambda input: np.argwhere(input).reshape(np.count_nonzero(input), input.ndim), dtypes=ALL, out="int64", grad=0, skip={"static": VALUES}),
    Row("unique", [*_uniques, call(_m, True, True, True), call(_m, True, True, True, 0), call(_m, axis=-1, return_inverse=True, dtype="int32"),
        call(np.array([[1.0, np.nan], [1.0, np.nan]]), return_counts=True, axis=0)], law=exact(_unique(False)), dtypes=REAL | BOOL, grad=0,
        skip={"static": VALUES}, bad=[_no_axis, _no_type("unique"), Bad(call(floats(), axis=0), "unique(axis): expected no axis for a 0-D tensor")]),
    Row("unique_consecutive", [*_uniques, call(_m, True, True, 0), call(_m, axis=-1, return_inverse=True, dtype="int32")], law=exact(_consecutive),
        dtypes=REAL | BOOL, grad=0, skip={"static": VALUES}, bad=[_no_type("unique_consecutive")]),
]  # fmt: skip
