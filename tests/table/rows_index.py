"""Rows of indexing: slices, picks, gathers, masks and scatters."""

import numpy as np

from bireme.core import dtype as dtypes
from tests.table.harness import ALL, BOOL, Bad, Row, call
from tests.table.samples import NONFINITE, floats, masked

NONE = np.zeros((2, 0, 3))


def at(*starts):
    return [(dtypes.int64, s) for s in starts]


def _slices(starts, spec):
    rows = [[int(s[1]) + k * step for k in range(n)] for s, (n, step, _) in zip(starts, spec)]
    return np.ix_(*[np.array(r, int) for r in rows]) if rows else ()


def _slice(x, starts, spec):
    return x[_slices(starts, spec)].reshape([n for n, _, drop in spec if not drop])


def _slice_put(x, part, starts, spec):
    out = x.copy()
    out[_slices(starts, spec)] = part.reshape([n for n, _, _ in spec])
    return out


def _full(x, index, axes):
    where = [slice(None)] * x.ndim
    for a, i in zip(axes, index):
        where[a] = i
    return tuple(where)


def _pick_put(x, part, index, axes, add=False):
    out = x.copy()
    if add:
        np.add.at(out, _full(x, index, axes), part)
    else:
        out[_full(x, index, axes)] = part
    return out


def _gather(x, index, axis=None):
    index = index.ravel() if index.ndim == 2 else index
    return np.take(x, index, 0 if axis is None else axis)


def _along(arr, indices, axis, broadcast=True):
    if broadcast:
        dims = [max(a, i) if k != axis % arr.ndim else i for k, (a, i) in enumerate(zip(arr.shape, indices.shape))]
        wide = [n if k == axis % arr.ndim else dims[k] for k, n in enumerate(arr.shape)]
        return np.take_along_axis(np.broadcast_to(arr, wide), np.broadcast_to(indices, dims), axis)
    arr = arr[tuple(slice(None) if k == axis % arr.ndim else slice(0, n) for k, n in enumerate(indices.shape))]
    return np.take_along_axis(arr, indices, axis)


def _nonzero(x, as_tuple=False):
    if as_tuple:
        return list(np.nonzero(x))
    return np.argwhere(x).reshape(np.count_nonzero(x), x.ndim)


def _scatter(x, index, updates, overwrite=True):
    out = x.copy()
    index, updates = index.ravel(), updates.reshape(index.size, *x.shape[1:])
    if not overwrite:
        out[index] = 0
        np.add.at(out, index, updates)
        return out
    for i, u in zip(index, updates):
        out[i] = u
    return out


_spec = ((2, 1, False), (1, 1, True))
_where = [call(floats(2, 3) > 0, floats(2, 3), floats(3)), call(np.array([True, False, True]), floats(2, 1), floats()), call(np.array(True),
    floats(), floats(seed=1)),
          call(np.zeros((2, 0, 3), bool), NONE, floats(3)), call(np.array([True, False]), floats(2), 0.0), call(np.array([True, False]), x=floats(2),
          y=floats(2, seed=1))]  # fmt: skip

TABLE = [
    Row("slice_view", [call(floats(4, 3), at(1, 2), _spec), call(floats(5, 3), at(4, 0), ((2, -2, False), (3, 1, False))), call(floats(5), at(0),
        ((3, 2, False),)),
                       call(floats(), [], ()), call(NONE, at(0, 0, 1), ((2, 1, False), (0, 1, False), (2, 1, False))), call(floats(3), at(0),
                       ((0, 1, False),)),
                       call(floats(4, 3), [np.array(1), np.array(2)], _spec)][:6], _slice, dtypes=ALL),
    Row("slice_put", [call(floats(4, 3), floats(2), at(1, 2), _spec), call(floats(5, 3), floats(2, 3), at(4, 0), ((2, -2, False), (3, 1, False))),
                      call(floats(5), floats(3), at(0), ((3, 2, False),)), call(floats(), floats(seed=1), [], ()), call(NONE, NONE, at(0, 0, 0),
                      ((2, 1, False), (0, 1, False), (3, 1, False)))],
        _slice_put, dtypes=ALL),
    Row("pick", [call(floats(4, 3), [np.array([2, -1])], (0,)), call(floats(4, 3), [np.array([[0, 1], [2, 0]])], (1,)), call(floats(4, 3),
        [np.array([2, 0]), np.array([1, 1])], (0, 1)),
                 call(floats(2, 3, 4), [np.array([1, 0]), np.array([3, 3])], (0, 2)), call(floats(4, 3), [np.array(1)], (0,)),
                 call(NONE, [np.array([1, 0])], (0,)), call(floats(3), [np.zeros(0, int)], (0,))],
        lambda x, index, axes: x[_full(x, index, axes)], dtypes=ALL),
    Row("pick_put", [call(floats(4, 3), floats(2, 3), [np.array([2, -1])], (0,)), call(floats(4, 3), floats(), [np.array([2, 0])], (1,)),
        call(floats(4, 3), floats(2), [np.array([2, 0]), np.array([1, 1])], (0, 1)),
                     call(floats(4, 3), floats(3, 3), [np.array([2, 0, 2])], (0,), True), call(NONE, floats(1), [np.array([1])], (0,))], _pick_put,
                     dtypes=ALL - BOOL, unchecked=BOOL),
    Row("index_select", [call(floats(4, 3), np.array([2, 0, 2])), call(floats(4, 3), np.array([1, -1]), axis=1), call(floats(4, 3), np.array([0]),
        -1), call(floats(4, 3), np.array(1)),
                         call(np.zeros((2, 0, 3)), np.array([1, 1]), axis=0), call(floats(3), np.zeros(0, int))], lambda x, index, axis=0: np.take(x,
                         index, axis), dtypes=ALL,
        bad=[Bad(call(floats(4, 3), np.array([4])), "index_select(index): expected indices in [-4, 3], got 4", IndexError),
             Bad(call(floats(4, 3), floats(2)), "index_select(index): expected a 1-D integer tensor, got shape [2], float64")]),
    Row("gather", [call(floats(4, 3), np.array([2, 0, 2])), call(floats(4, 3), np.array([1, 2]), axis=1), call(floats(4, 3), np.array([[1], [0]])),
        call(floats(4, 3), np.array(1)),
                   call(floats(3), np.zeros(0, int))], _gather, dtypes=ALL, bad=[Bad(call(floats(2), np.array([2])),
                   "gather(index): expected indices in [-2, 1], got 2", IndexError)]),
    Row("take_along_axis", [call(floats(2, 3), np.array([[2], [0]]), 1), call(floats(2, 3), np.array([[1, 0, -1]]), 0), call(floats(2, 3),
        np.array([[2, 0]]), axis=-1),
                            call(floats(3, 3), np.array([[2], [0]]), 1, False), call(np.zeros((2, 0)), np.zeros((2, 0), int), 1)], _along, dtypes=ALL,
        skip={"0-d": "there is no axis to take along"},
        bad=[Bad(call(floats(2, 3), np.array([1]), 0), "take_along_axis(indices): expected 2 axes, as arr has, got shape [1]"),
             Bad(call(floats(2, 3), np.array([[3]]), 1), "take_along_axis(indices): expected indices in [-3, 2], got 3", IndexError)]),
    Row("masked_select", masked(), lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))],
        dtypes=ALL,
        skip={"static": "the shape of its result depends on values"},
        bad=[Bad(call(floats(2), np.array([1, 0])), "masked_select(mask): expected a bool tensor, got int64", TypeError)]),
    *[Row(name, [call(np.array([[0.0, 1.5], [2.0, 0.0]])), call(np.array([0, 5, 6])), call(np.array(3.0)), call(NONE), call(np.array(NONFINITE)),
        *more], _nonzero, dtypes=ALL, out="ref", grad=0,
          skip={"static": "the shape of its result depends on values"})
      for name, more in {"nonzero_of": [], "nonzero": [call(np.array([[0.0, 1.5], [2.0, 0.0]]), as_tuple=True)]}.items()],
    Row("where", _where, lambda condition, x, y: np.where(condition, x, y), dtypes=ALL, out="last",
        bad=[Bad(call(np.array([True]), floats(1)), "where(x, y): expected both or neither, got one of them")]),
    Row("masked_fill", [call(floats(2, 3), floats(2, 3, seed=1) > 0, 0.5), call(floats(2, 3), np.array([True, False, True]), floats()),
        call(floats(), np.array(True), 1.0), call(NONE, np.zeros((2, 0, 3), bool), 2.0)],
        lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x), dtypes=ALL),
    Row("scatter", [call(floats(4, 2), np.array([2, 0]), floats(2, 2, seed=1)), call(floats(4, 2), np.array([1, 1]), floats(2, 2, seed=1), False),
        call(floats(4), np.array([3]), floats(1)),
                    call(NONE, np.array([1]), np.zeros((1, 0, 3)))], _scatter, dtypes=ALL - BOOL, unchecked=BOOL, skip={"0-d": "it has no rows"},
        bad=[Bad(call(floats(4, 2), np.array([2, 0]), floats(3, 2)),
        "scatter(updates): expected one row of [2] for each of 2 indices, got shape [3, 2]"),
             Bad(call(floats(4, 2), np.array([4]), floats(1, 2)), "scatter(index): expected indices in [-4, 3], got 4", IndexError)]),
]  # fmt: skip
