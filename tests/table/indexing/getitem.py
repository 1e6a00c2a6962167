"""Rows of indexing: reading and writing by slices and picks, and the functions that write into a copy."""

import numpy as np

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, BOOL, Bad, Row, call, still
from tests.table.samples import floats

NONE = np.zeros((2, 0, 3))


def at(*starts):
    return [(dtypes.int64, s) for s in starts]


def _slices(starts, spec):
    rows = [[int(s[1]) + k * step for k in range(n)] for s, (n, step, _) in zip(starts, spec, strict=True)]
    return np.ix_(*[np.array(r, int) for r in rows]) if rows else ()


def _slice(x, starts, spec):
    return x[_slices(starts, spec)].reshape([n for n, _, drop in spec if not drop])


def _slice_put(x, part, starts, spec):
    out = x.copy()
    out[_slices(starts, spec)] = part.reshape([n for n, _, _ in spec])
    return out


def _full(x, index, axes):
    where = [slice(None)] * x.ndim
    for a, i in zip(axes, index, strict=True):
        where[a] = i
    return tuple(where)


def _pick_put(x, part, index, axes, add=False, unique=False):
    out = x.copy()
    if add:
        np.add.at(out, _full(x, index, axes), part)
    else:
        out[_full(x, index, axes)] = part
    return out


def _index_put(x, indices, value, accumulate=False):
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), value)
    else:
        out[tuple(indices)] = value
    return out


def _index_fill(x, index, axis, value):
    out = x.copy()
    np.moveaxis(out, axis, 0)[index.ravel() if index.dtype != bool else index] = value
    return out


def _select_scatter(x, values, axis, index):
    out = x.copy()
    np.moveaxis(out, axis, 0)[index] = values
    return out


def _slice_scatter(x, value, axes, starts, ends, strides):
    out, key = x.copy(), [slice(None)] * x.ndim
    for a, s, e, n in zip(axes, starts, ends, strides, strict=True):
        key[a] = slice(s, e, n)
    out[tuple(key)] = value
    return out


_spec = ((2, 1, False), (1, 1, True))
_mask = np.array([[True, False, True], [False, True, True]])

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
                 call(floats(2, 3, 4), [np.array([1, 0]), np.array([3, -1])], (0, 2)), call(floats(2, 3, 4), [np.array([[1], [0]], np.int32),
                 np.array([3, 1, 3], np.uint8)], (1, 2)), call(floats(4, 3), [np.array(1)], (0,)),
                 call(NONE, [np.array([1, 0])], (0,)), call(floats(3), [np.zeros(0, int)], (0,)), call(NONE, [np.zeros((2, 0), int)], (1,))],
        lambda x, index, axes: x[_full(x, index, axes)], dtypes=ALL),
    Row("pick_put", [call(floats(4, 3), floats(2, 3), [np.array([2, -1])], (0,)), call(floats(4, 3), floats(), [np.array([2, 0])], (1,)),
        call(floats(4, 3), floats(2), [np.array([2, 0]), np.array([1, 1])], (0, 1)), call(floats(2, 3, 4), floats(2, 3), [np.array([1, 0]),
        np.array([3, -1])], (0, 2)),
                     call(floats(4, 3), floats(3, 3), [np.array([2, 0, 2])], (0,), True), call(floats(4, 3), floats(3, 3), [np.array([2, 0, 2])],
                     (0,)),
                     call(floats(3), floats(2), [np.array([2, 0])], (0,), False, True), call(NONE, floats(1), [np.array([1])], (0,))], _pick_put,
                     dtypes=ALL),
    Row("index_put", [call(floats(4, 3), [np.array([0, 2]), np.array([1, -1])], floats(2)), call(floats(4, 3), [np.array([[0], [2]]), np.array([1,
        2])], floats(2, 2)),
                      call(floats(4, 3), [np.array([0, 0])], floats(2, 3), True), call(floats(4, 3), [np.array([0, 0])], floats(3), accumulate=True),
                      call(floats(2, 3), [_mask], floats()),
                      call(floats(2, 3), [_mask], floats(4)), call(floats(2, 3), [_mask], floats(4), True), call(floats(2, 3), [_mask[:, 0],
                      np.array([1])], floats(1)), call(floats(2, 3), [_mask[:, 0]], floats(3)),
                      call(floats(4, 3), [np.array(1), np.array(0)], floats(seed=2), True), call(NONE, [np.array([1])], floats(3)),
                      call(floats(3), [np.zeros(0, int)], np.zeros(0))], _index_put, dtypes=ALL - BOOL, unchecked=BOOL,
        bad=[Bad(call(floats(3), [], floats(1)), "index_put(indices): expected at least one tensor, got []"),
             Bad(call(floats(3), [np.array([0])], np.array([1])), "index_put(value): expected x's dtype float64, got int64", TypeError),
             Bad(call(floats(3), [np.array([3])], floats(1)), "index_put(indices): expected indices in [-3, 2], got 3", IndexError),
             Bad(call(floats(3), [np.array([0]), np.array([0])], floats(1)),
                 "index_put(indices): expected at most 1 indices for shape [3], got 2", IndexError),
             Bad(call(floats(3), [np.array([0])], floats(2)),
                 "index_put(value): expected a value that broadcasts to shape [1], got shape [2]")]),
    Row("places_in", [call(np.array([2, 0, -1]), 4), call(np.zeros(0, int), 3), call(np.array([], np.int32), 0), call(np.array(1), 2)],
        lambda index, n: np.isin(np.arange(n), np.where(index < 0, index + n, index)), dtypes=frozenset(), out="bool", grad=0),
    Row("index_fill", [call(floats(4, 3), np.array([2, -4]), 0, 5), call(floats(4, 3), np.array([[0], [1]]), -1, floats()), call(floats(4, 3),
        np.array([1], np.int32), axis=1, value=2.5),
                       call(floats(2, 3), np.array([True, False, True]), 1, -1), call(NONE, np.array([1]), 0, 1), call(floats(3), np.zeros(0, int), 0,
                       9)], _index_fill, dtypes=ALL - BOOL, unchecked=BOOL,
        bad=[Bad(call(floats(4, 3), np.array([4]), 0, 1), "index_fill(index): expected indices in [-4, 3], got 4", IndexError),
             Bad(call(floats(3), np.array([0]), 0, floats(1)), "index_fill(value): expected a number or a 0-D Tensor, got a Tensor of shape [1]"),
             Bad(call(floats(3), still([0.0]), 0, 1),
                 "index_fill(index): expected an integer tensor or a mask of shape [3], got a Tensor", TypeError),
             Bad(call(floats(), np.array([0]), 0, 1), "index_fill(x): expected a tensor with at least 1 dimension, got a Tensor of shape []")]),
    Row("select_scatter", [call(floats(3, 4), floats(4), 0, 1), call(floats(3, 4), floats(3), -1, -1), call(floats(2, 3, 4), floats(2, 4), axis=1,
        index=2), call(floats(3), floats(), 0, 2), call(NONE, np.zeros((0, 3)), 0, 1)], _select_scatter, dtypes=ALL,
        bad=[Bad(call(floats(3, 4), floats(3), 0, 1),
            "select_scatter(values): expected shape [4], that of a slice of x, got shape [3]", RuntimeError),
             Bad(call(floats(3, 4), floats(4), 0, 3), "select_scatter(index): expected an index in [-3, 2], got 3", IndexError)]),
    Row("slice_scatter", [call(floats(6, 4), floats(6, 2), [1], [0], [4], [2]), call(floats(6, 4), floats(2, 1), [0, 1], [1, -2], [5, 100], [2, 1]),
        call(floats(6), floats(3), [0], [5], [-7], [-2]),
                          call(floats(6, 4), floats(), [-1], [1], [3], [1]), call(floats(6, 4), np.zeros((6, 0)), [1], [3], [3], [1]),
                          call(NONE, np.zeros((1, 0, 3)), axes=[0], starts=[0], ends=[1], strides=[1])], _slice_scatter, dtypes=ALL,
        bad=[Bad(call(floats(6), floats(2), [0], [0], [4], [0]), "slice_scatter(strides): expected nonzero strides, got [0]"),
             Bad(call(floats(6), floats(2), [1], [0], [4], [1]), "slice_scatter(axes): expected axes in [-1, 0], got 1", IndexError),
             Bad(call(floats(6), floats(2), [0], [0], [4], []), "slice_scatter(axes, starts, ends, strides): expected lists of equal length, got ["),
             Bad(call(floats(6), floats(3), [0], [0], [4], [2]),
                 "slice_scatter(value): expected a value that broadcasts to shape [2], got shape [3]")]),
]  # fmt: skip
