"""Rows of scatters: what is written by tensors of indices."""

import numpy as np

from tests.table.harness import ALL, BOOL, COMPLEX, Bad, Row, call, still
from tests.table.samples import floats

NONE = np.zeros((2, 0, 3))


def _scatter(x, index, updates, overwrite=True):
    out = x.copy()
    index, updates = index.ravel(), updates.reshape(index.size, *x.shape[1:])
    if not overwrite:
        out[index] = 0
        np.add.at(out, index, updates)
        return out
    for i, u in zip(index, updates, strict=True):
        out[i] = u
    return out


def _index_add(x, index, axis, value):
    out = x.copy()
    np.add.at(np.moveaxis(out, axis, 0), index, np.moveaxis(value, axis, 0))
    return out


def _nd_add(x, index, updates):
    out = x.copy()
    for place in np.ndindex(index.shape[:-1]):
        out[tuple(index[place])] += updates[place]
    return out


def _put(arr, indices, values, axis, reduce="assign", include_self=True, broadcast=True):
    """One element at a time."""
    axis %= arr.ndim
    if broadcast:
        wide = indices.shape[axis] <= arr.shape[axis]  # a longer index stays as it is
        dims = [indices.shape[k] if k == axis or not wide else n for k, n in enumerate(arr.shape)]
        indices = np.broadcast_to(indices, dims)
        values = np.broadcast_to(np.asarray(values), dims)
    else:
        values = np.broadcast_to(values, indices.shape) if np.ndim(values) == 0 else values
    found = {}
    for place in np.ndindex(indices.shape):
        to = list(place)
        to[axis] = indices[place] % arr.shape[axis]
        found.setdefault(tuple(to), []).append(values[place])
    out = arr.copy()
    how = {"assign": lambda v: v[-1], "add": sum, "mul": np.prod, "multiply": np.prod, "amin": np.min, "amax": np.max,
           "mean": lambda v: np.trunc(sum(v) / len(v)) if arr.dtype.kind in "iu" else sum(v) / len(v)}[reduce]  # fmt: skip
    for to, vs in found.items():
        out[to] = how(np.array(([arr[to]] if include_self else []) + vs, arr.dtype))
    return out


def _ties(w, arr, indices, values, axis, reduce, include_self):
    """Those that are equal to the least or largest share its gradient; of a product, each gets the product of the
    others.
    """
    out = _put(arr, indices, values, axis, reduce, include_self, False)
    ga = np.zeros_like(arr)
    gv = np.zeros_like(values)
    for to in np.ndindex(arr.shape):
        there = [
            p for p in np.ndindex(indices.shape) if (*p[:axis], indices[p] % arr.shape[axis], *p[axis + 1 :]) == to
        ]
        self = include_self or not there
        if reduce == "mul":
            factors = [(gv, p, values[p]) for p in there] + [(ga, to, arr[to])] * self
            for k, (grad, at, _) in enumerate(factors):
                grad[at] = w[to] * np.prod([x for i, (_, _, x) in enumerate(factors) if i != k])
            continue
        equal = [p for p in there if values[p] == out[to]]
        n = len(equal) + (self and arr[to] == out[to])
        for p in equal:
            gv[p] = w[to] / n
        if self and arr[to] == out[to]:
            ga[to] = w[to] / n
    return ga, gv


_i = np.array([[0, 1, 0, 2], [1, 1, 2, -1]])
_tied = (np.array([[1.0, 2.0, 3.0]]), np.array([[0, 0, 1]]), np.array([[1.0, 1.0, 2.0]]), 1)
_linear = [call(floats(3, 4), _i, floats(2, 4), 0, "assign", True), call(floats(3, 4), _i, floats(2, 4), 0, "add", True), call(floats(3, 4), _i,
    floats(2, 4), 0, "mean", False),
           call(floats(3, 4), _i[:, :2], floats(2, 2), 1, "mean", True), call(floats(3, 4), _i[:, :2], floats(2, 2), 1, "add", False),
           call(floats(3), np.zeros(0, int), np.zeros(0), 0, "mean", False), call(np.zeros((2, 0)), np.zeros((2, 0), int), np.zeros((2, 0)), 1, "add",
           True)]  # fmt: skip
_folds = [call(floats(3, 4), _i, floats(2, 4), 0, "mul", True), call(floats(3, 4), _i, floats(2, 4), 0, "amin", True), call(floats(3, 4), _i,
    floats(2, 4), 0, "amax", False), call(floats(3, 4), _i[:, :2], floats(2, 2), 1, "mul", False),
          call(floats(3, 4), _i[:, :2], floats(2, 2), 1, "amax", True), call(*_tied, "amin", True), call(*_tied, "amax", False), call(floats(3),
          np.zeros(0, int), np.zeros(0), 0, "amin", False)]  # fmt: skip
_nd_samples = [call(floats(4), np.array([[1], [2], [1]]), floats(3)), call(floats(4, 2), np.array([[1], [-2], [1]]), floats(3, 2)), call(floats(4, 2),
    np.array([[[1, 0]], [[3, -1]]], np.int32), floats(2, 1)),
               call(floats(4, 2), np.array([1, 0]), floats()), call(floats(3), np.zeros((2, 0), int), floats(2, 3)), call(floats(4), np.zeros((0, 1),
               int), np.zeros(0)), call(np.zeros((3, 0)), np.array([[0]]), np.zeros((1, 0)))]  # fmt: skip


def _bad(name, of_index, make):
    """What all functions of elements along an axis refuse."""
    return [Bad(make(floats(3, 4), np.array([[3]])), f"{name}({of_index}): expected indices in [-3, 2], got 3", IndexError),
            Bad(make(floats(3, 4), np.array([[-4]])), f"{name}({of_index}): expected indices in [-3, 2], got -4", RuntimeError),
            Bad(make(floats(3, 4), np.array([0])), f"{name}({of_index}): expected 2 dimensions, as the tensor written to has, got shape [1]"),
            Bad(make(floats(3, 4), np.zeros((1, 5), int)), f"{name}({of_index}): expected a shape compatible with [3, 4] along all axes but 0",
                RuntimeError),
            Bad(make(floats(3, 4), still([[0.0]])), f"{name}({of_index}): expected an integer tensor, got float64", TypeError),
            Bad(make(np.zeros((0, 4)), np.zeros((1, 4), int)), f"{name}({of_index}): expected ", IndexError),
            Bad(make(floats(), np.array(0)), f"{name}(): expected a tensor with at least 1 dimension, got a Tensor of shape []",
                AssertionError)]  # fmt: skip


TABLE = [
    Row("scatter", [call(floats(4, 2), np.array([2, 0]), floats(2, 2, seed=1)), call(floats(4, 2), np.array([1, 1]), floats(2, 2, seed=1), False),
        call(floats(4, 2), np.array([1, 2, 1]), floats(3, 2)), call(floats(4), np.array([3]), floats(1)), call(floats(4), np.array([[-1], [0]]),
        floats(2)), call(floats(3, 2), np.array(1), floats(2)),
                    call(NONE, np.array([1]), np.zeros((1, 0, 3))), call(floats(3), np.zeros(0, int), np.zeros(0), False)], _scatter,
                    dtypes=ALL - BOOL, unchecked=BOOL,
        bad=[Bad(call(floats(4, 2), np.array([2, 0]), floats(3, 2)),
        "scatter(updates): expected one row of [2] for each of 2 indices, got shape [3, 2]"),
             Bad(call(floats(4, 2), np.array([[2, 0]]), floats(2, 2)), "scatter(index): expected a 1-D tensor, got shape [1, 2]"),
             Bad(call(floats(), np.array(0), floats()), "scatter(x): expected a tensor with at least 1 dimension, got a 0-D tensor"),
             Bad(call(floats(4, 2), np.array([4]), floats(1, 2)), "scatter(index): expected indices in [-4, 3], got 4", IndexError)]),
    Row("index_add", [call(floats(4, 3), np.array([2, 0]), 0, floats(2, 3)), call(floats(4, 3), np.array([1, 1]), -1, floats(4, 2)), call(floats(2, 3,
        2), np.array([-1, 0, -1], np.int32), axis=1, value=floats(2, 3, 2, seed=1)),
                      call(floats(4), np.zeros(0, int), 0, np.zeros(0)), call(NONE, np.array([1]), 0, np.zeros((1, 0, 3)))], _index_add,
                      dtypes=ALL - BOOL, unchecked=BOOL, skip={"0-d": "there is no axis"},
        bad=[Bad(call(floats(4, 3), np.array([4]), 0, floats(1, 3)), "index_add(index): expected indices in [-4, 3], got 4", IndexError),
             Bad(call(floats(4, 3), np.array([0]), 0, floats(1)), "index_add(value): expected shape [1, 3], got shape [1]"),
             Bad(call(floats(4, 3), np.array([[0]]), 0, floats(1, 3)),
                 "index_add(index): expected a 1-D tensor, got shape [1, 1]"),
             Bad(call(floats(4), np.array([0]), 0, np.array([1])), "index_add(): expected operands whose dtypes promote, got float64 and int64", TypeError),
             Bad(call(floats(), np.array([0]), 0, floats(1)),
                 "index_add(x): expected a tensor with at least 1 dimension, got a 0-D tensor", IndexError)]),
    Row("scatter_nd_of", _nd_samples, _nd_add, dtypes=ALL - BOOL, unchecked=BOOL),
    Row("scatter_nd_add", _nd_samples, _nd_add, dtypes=ALL - BOOL, unchecked=BOOL,
        bad=[Bad(call(floats(4, 2), np.array([[0, 2]]), floats(1)),
            "scatter_nd_add(index): expected indices in [-2, 1] along axis 1, got 2", IndexError),
             Bad(call(floats(4, 2), np.array([[0]]), floats(1)), "scatter_nd_add(updates): expected shape [1, 2], got shape [1]"),
             Bad(call(floats(4), np.array([[0]]), np.array([1])),
                 "scatter_nd_add(): expected operands whose dtypes promote, got float64 and int64", TypeError)]),
    Row("scatter_nd", [call(np.array([[1], [2], [1]]), floats(3), [4]), call(np.array([[1, 0], [-1, 1]]), floats(2, 3), shape=[4, 2, 3]),
        call(np.array([1]), floats(), [3]), call(np.zeros((0, 1), int), np.zeros(0), [3])],
        lambda index, updates, shape: _nd_add(np.zeros(shape, updates.dtype), index, updates), dtypes=ALL - BOOL, unchecked=BOOL, out="last",
        bad=[Bad(call(np.array([[4]]), floats(1), [4]), "scatter_nd(index): expected indices in [-4, 3] along axis 0, got 4", IndexError),
             Bad(call(np.array([[0]]), floats(1), [-1]), "scatter_nd(shape): expected non-negative sizes, got [-1]")]),
    Row("put_along", _linear, lambda *a: _put(*a, False), dtypes=ALL - BOOL, unchecked=BOOL, skip={"0-d": "there is no axis to put along"}),
    Row("fold_along", _folds, lambda *a: _put(*a, False), dtypes=ALL - BOOL - COMPLEX, unchecked=BOOL | COMPLEX, grad_ref=_ties,
        skip={"0-d": "there is no axis to put along", "gradient rule": "jax has no gradient of a product with duplicates"}),
    Row("put_along_axis", [call(floats(3, 4), _i, floats(2, 4), 0), call(floats(2, 3), np.array([[1], [0], [1]]), floats(), 0, "add"),
         call(floats(3, 4), _i, floats(4), 0, "add"), call(floats(3, 4), np.array([[0,
        0]]),
        floats(3, 1), 1, "mul", False),
                           call(floats(3, 4), np.array([[1], [3], [-2]]), floats(), -1, "mean"), call(floats(3, 4), np.array([[2]]), 2.0, 1,
                           reduce="multiply"), call(floats(3, 4), np.array([[0, 1]]), floats(1, 2), axis=0, reduce="amax", broadcast=False),
                           call(floats(3, 4), np.array([[0, 1]]), 2.5, 0, "amin", include_self=False, broadcast=False), call(floats(3, 4),
                           np.zeros((3, 0), int), 1.0, 1), call(np.zeros((2, 0)), np.zeros((2, 0), int), np.zeros((2, 0)), 1, "add")], _put,
        dtypes=ALL - BOOL - COMPLEX, unchecked=BOOL | COMPLEX,
        bad=[*_bad("put_along_axis", "indices", lambda x, i: call(x, i, 1.0, 0)),
             Bad(call(floats(3), np.array([0]), 1.0, 0, "no"),
                 "put_along_axis(reduce): expected one of 'assign', 'add', 'mean', 'mul', 'multiply', 'amin', 'amax', got 'no'"),
             Bad(call(floats(3), np.array([0]), np.array([1]), 0),
                 "put_along_axis(values): expected the dtype of the tensor written to, float64, got int64",
                 TypeError),
             Bad(call(np.array([True]), np.array([0]), True, 0, "mul"), "put_along_axis(reduce): expected a reduction that supports bool, got 'mul'", TypeError),
             Bad(call(floats(3), np.array([0, 1]), floats(1), 0, "add", True, False),
                 "put_along_axis(values): expected a value for each index of shape [2], got shape [1]", RuntimeError)]),
    Row("scatter_add", [call(floats(3, 4), 0, _i, floats(2, 4)), call(floats(3, 4), 1, np.array([[0, 0]]), floats(1, 2)), call(floats(3), 0,
        np.array([1,
        -1]), 2.0), call(floats(3, 4), dim=-1, index=np.zeros((3, 0), int), src=np.zeros((3, 0)))],
        lambda input, dim, index, src: _put(input, index, src, dim, "add", True, False), dtypes=ALL - BOOL, unchecked=BOOL,
        skip={"0-d": "there is no axis to put along"}, bad=_bad("scatter_add", "index", lambda x, i: call(x, 0, i, 1.0))),
    Row("scatter_reduce", [*[call(floats(3, 4), 0, _i, floats(2, 4), r) for r in ("sum", "prod", "mean", "amin", "amax")],
        call(floats(3, 4), 1, np.array([[0, 0]]), floats(1, 2), reduce="sum", include_self=False), call(floats(3), 0, np.zeros(0, int), np.zeros(0),
        "amax")],
        lambda input, dim, index, src, reduce, include_self=True: _put(input, index, src, dim, {"sum": "add", "prod": "mul"}.get(reduce, reduce),
            include_self, False), dtypes=ALL - BOOL - COMPLEX, unchecked=BOOL | COMPLEX, skip={"0-d": "there is no axis to put along"},
        bad=_bad("scatter_reduce", "index", lambda x, i: call(x, 0, i, 1.0, "amin"))),
]  # fmt: skip
