"""Rows of shapes: the same elements in another shape, in another order of axes, broadcast."""

import numpy as np

from tests.table.harness import ALL, Bad, Row, call
from tests.table.samples import floats, ints

NONE = np.zeros((2, 0, 3))


def _reshape(x, shape):
    return np.reshape(x, [x.shape[i] if n == 0 and x.size else n for i, n in enumerate(shape)])


def _squeeze(x, axis=None):
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = {a % x.ndim for a in axes} if x.ndim else ()
    return x.reshape([n for i, n in enumerate(x.shape) if n != 1 or i not in axes])


def _unsqueeze(x, axis):
    for a in [axis] if isinstance(axis, int) else axis:
        x = np.expand_dims(x, a)
    return x


def _flatten(x, start_axis=0, stop_axis=-1):
    if not x.ndim:
        return x.reshape(1)
    a, b = start_axis % x.ndim, stop_axis % x.ndim
    return x.reshape([*x.shape[:a], int(np.prod(x.shape[a : b + 1])), *x.shape[b + 1 :]])


def _expand(x, shape):
    extra = len(shape) - x.ndim
    return np.broadcast_to(x, [x.shape[i - extra] if n == -1 else n for i, n in enumerate(shape)])


def _permute(x, *dims):
    return np.transpose(x, dims[0] if isinstance(dims[0], list) else dims)


def _unflatten(x, axis, shape):
    axis %= x.ndim
    return x.reshape([*x.shape[:axis], *[int(n) for n in shape], *x.shape[axis + 1 :]])


def _unbind(x, axis=0):
    return [np.take(x, i, axis) for i in range(x.shape[axis])]


TABLE = [
    Row("reshape", [call(floats(2, 3), [3, 2]), call(floats(2, 3), [-1]), call(floats(2, 3, 2), [0, -1]), call(floats(), [1, 1]),
        call(NONE, [2, 0, 6]), call(floats(1), []),
                    call(ints(4), [2, 2])], _reshape, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [4, 2]), "reshape(shape): expected a shape of 6 elements, as x has, got [4, 2]"),
             Bad(call(floats(2, 3), [-1, -1]), "reshape(shape): expected non-negative sizes and at most one -1, got [-1, -1]")]),
    Row("transpose", [call(floats(2, 3), [1, 0]), call(floats(2, 3, 4), [2, 0, 1]), call(floats(2, 3, 4), [0, -1, 1]), call(floats(), []),
                      call(NONE, [2, 1, 0])], np.transpose, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [0, 0]), "transpose(perm): expected a permutation of the 2 axes, got [0, 0]")]),
    Row("t", [call(floats(2, 3)), call(floats(3)), call(floats()), call(np.zeros((0, 2)))], np.transpose, dtypes=ALL,
        bad=[Bad(call(floats(1, 2, 3)), "t(input): expected at most 2 dimensions, got a Tensor of shape [1, 2, 3]")]),
    Row("squeeze", [call(floats(1, 2, 1)), call(floats(1, 2, 1), axis=-1), call(floats(1, 2, 1), axis=[0, 1]), call(floats()),
        call(np.zeros((1, 0, 3)))], _squeeze, dtypes=ALL,
        bad=[Bad(call(floats(2, 1), axis=3), "squeeze(axis): expected an axis in [-2, 1], got 3")]),
    Row("unsqueeze", [call(floats(2, 3), 0), call(floats(2, 3), -1), call(floats(2, 3), [0, 2]), call(floats(), axis=0), call(NONE, 1)], _unsqueeze,
        dtypes=ALL,
        bad=[Bad(call(floats(2, 3), 4), "unsqueeze(axis): expected an axis in [-3, 2], got 4")]),
    Row("flatten", [call(floats(2, 3)), call(floats(2, 3, 2), 1), call(floats(2, 3, 2), start_axis=0, stop_axis=1), call(floats(2, 3, 2), -2, -1),
        call(floats()), call(NONE)],
        _flatten, dtypes=ALL, bad=[Bad(call(floats(2, 3), 1, 0), "flatten(stop_axis): expected an axis of at least start_axis = 1, got 0")]),
    Row("expand", [call(floats(2, 1), [2, 3]), call(floats(3), [2, -1]), call(floats(2, 1), [3, 2, 2]), call(floats(), [2]),
        call(np.zeros((2, 0, 1)), [2, 0, 3])], _expand, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [2, 4]), "expand(shape): expected a shape that [2, 3] broadcasts to, got [2, 4]")]),
    Row("permute", [call(floats(2, 3), [1, 0]), call(floats(2, 3, 4), [2, 0, 1]), call(floats(2, 3), 0, 1), call(floats(), []),
        call(NONE, [2, 1, 0])],
        _permute, dtypes=ALL, bad=[Bad(call(floats(2, 3), [0, 0]), "permute(dims): expected a permutation of the 2 axes, got [0, 0]")]),
    Row("matrix_transpose", [call(floats(2, 3)), call(floats(2, 3, 4)), call(NONE)], lambda x: np.swapaxes(x, -1, -2), dtypes=ALL,
        skip={"0-d": "there are no two axes to swap"},
        bad=[Bad(call(floats(3)), "matrix_transpose(x): expected at least 2 dimensions, got a Tensor of shape [3]")]),
    Row("moveaxis", [call(floats(2, 3, 4), 0, -1), call(floats(2, 3, 4), [0, 1], [2, 0]), call(floats(2, 3), (1,), (0,)), call(floats(), [], []),
        call(NONE, 0, 2), call(floats(2, 3, 4), range(2), (1, 2))], np.moveaxis, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), 2, 0), "moveaxis(source): expected axes in [-2, 1], got 2", AssertionError),
             Bad(call(floats(2, 3), [0, 0], [0, 1]), "moveaxis(source): expected different axes, got [0, 0]"),
             Bad(call(floats(2, 3), [0], [0, 1]), "moveaxis(destination): expected 1 axes, as in source, got [0, 1]", AssertionError),
             Bad(call(floats(2, 3), [0], [0.5]), "moveaxis(destination): expected an integer, got 0.5", AssertionError)]),
    Row("ravel", [call(floats(2, 3)), call(floats()), call(NONE)], np.ravel, dtypes=ALL),
    Row("unflatten", [call(floats(2, 6), 1, [2, 3]), call(floats(6), -1, [-1, 2]), call(floats(4, 3), 0, (2, 2)), call(floats(6), 0, [np.array(3),
        2]),
        call(np.zeros((2, 0)), 1, [0, 2])], _unflatten, dtypes=ALL, skip={"static": "an extent is read"},
        bad=[Bad(call(floats(2, 6), 2, [2, 3]), "unflatten(axis): expected an axis in [-2, 1], got 2", AssertionError),
             Bad(call(floats(6), 0, [4, 2]), "unflatten(shape): expected a shape of 6 elements, as x has, got [4, 2]"),
             Bad(call(floats(6), 0, 6), "unflatten(shape): expected a list of integers, got 6", TypeError)]),
    Row("expand_as", [call(floats(2, 1), floats(2, 3)), call(floats(3), floats(2, 3)), call(floats(), floats(2)), call(floats(1, 3),
        np.zeros((0, 3)))],
        lambda x, y: np.broadcast_to(x, y.shape), dtypes=ALL,
        bad=[Bad(call(floats(2), floats(2, 3)), "expand_as(y): expected a shape that [2] broadcasts to, got [2, 3]")]),
    Row("broadcast_tensors", [call([floats(2, 1), floats(3), floats()]), call([floats(2, 3)]), call([NONE, floats(3)])],
        lambda input: list(np.broadcast_arrays(*input)), dtypes=ALL, skip={"method": "its first argument is a list"},
        bad=[Bad(call([]), "broadcast_tensors(input): expected at least one tensor, got an empty list"),
             Bad(call([floats(2), floats(3)]), "broadcast_tensors(): expected shapes that broadcast together, got shapes [2] and [3]"),
             Bad(call([floats(2), ints(2)]), "broadcast_tensors(input[1]): expected float64, got int64", TypeError)]),
    Row("shape_of", [call(floats(2, 3)), call(floats()), call(NONE)], lambda input: np.array(np.shape(input)), dtypes=ALL, out="int64", grad=0),
    Row("unbind_of", [call(floats(2, 3), 0), call(floats(2, 3), -1), call(np.zeros((2, 0, 3)), 2)], _unbind, dtypes=ALL,
        skip={"0-d": "there is no axis to take apart"}),
    Row("unbind", [call(floats(2, 3)), call(floats(2, 3), axis=-1), call(np.zeros((2, 0, 3)), axis=2)], _unbind, dtypes=ALL,
        skip={"0-d": "there is no axis to take apart"},
        bad=[Bad(call(floats()), "unbind(input): expected a tensor with at least 1 dimension")]),
]  # fmt: skip
