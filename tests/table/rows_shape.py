"""Rows of shapes: views, joining, splitting, repeating."""

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


def _split(x, parts, axis=0):
    if isinstance(parts, int):
        return np.split(x, parts, axis)
    sizes = [n if n >= 0 else x.shape[axis] - sum(m for m in parts if m >= 0) for n in parts]
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _unbind(x, axis=0):
    return [np.take(x, i, axis) for i in range(x.shape[axis])]


TABLE = [
    Row("reshape", [call(floats(2, 3), [3, 2]), call(floats(2, 3), [-1]), call(floats(2, 3, 2), [0, -1]), call(floats(), [1, 1]),
        call(NONE, [2, 0, 6]), call(floats(1), []),
                    call(ints(4), [2, 2])], _reshape, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [4, 2]), "reshape(shape): expected a shape of 6 elements, as x has, got [4, 2]"),
             Bad(call(floats(2, 3), [-1, -1]), "reshape(shape): expected extents of 0 or more and at most one -1, got [-1, -1]")]),
    Row("transpose", [call(floats(2, 3), [1, 0]), call(floats(2, 3, 4), [2, 0, 1]), call(floats(2, 3, 4), [0, -1, 1]), call(floats(), []),
                      call(NONE, [2, 1, 0])], np.transpose, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [0, 0]), "transpose(perm): expected each of 2 axes once, got [0, 0]")]),
    Row("t", [call(floats(2, 3)), call(floats(3)), call(floats()), call(np.zeros((0, 2)))], np.transpose, dtypes=ALL,
        bad=[Bad(call(floats(1, 2, 3)), "t(input): expected at most 2 axes, got a Tensor of shape [1, 2, 3]")]),
    Row("squeeze", [call(floats(1, 2, 1)), call(floats(1, 2, 1), axis=-1), call(floats(1, 2, 1), axis=[0, 1]), call(floats()),
        call(np.zeros((1, 0, 3)))], _squeeze, dtypes=ALL,
        bad=[Bad(call(floats(2, 1), axis=3), "squeeze(axis): expected an axis in [-2, 1], got 3")]),
    Row("unsqueeze", [call(floats(2, 3), 0), call(floats(2, 3), -1), call(floats(2, 3), [0, 2]), call(floats(), axis=0), call(NONE, 1)], _unsqueeze,
        dtypes=ALL,
        bad=[Bad(call(floats(2, 3), 4), "unsqueeze(axis): expected an axis in [-3, 2], got 4")]),
    Row("flatten", [call(floats(2, 3)), call(floats(2, 3, 2), 1), call(floats(2, 3, 2), start_axis=0, stop_axis=1), call(floats(2, 3, 2), -2, -1),
        call(floats()), call(NONE)],
        _flatten, dtypes=ALL, bad=[Bad(call(floats(2, 3), 1, 0), "flatten(stop_axis): expected an axis not before start_axis 1, got 0")]),
    Row("expand", [call(floats(2, 1), [2, 3]), call(floats(3), [2, -1]), call(floats(2, 1), [3, 2, 2]), call(floats(), [2]),
        call(np.zeros((2, 0, 1)), [2, 0, 3])], _expand, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [2, 4]), "expand(shape): expected a shape that [2, 3] broadcasts to, got [2, 4]")]),
    Row("concat", [call([floats(2, 3), floats(1, 3)]), call([floats(2, 3), floats(2, 1), floats(2, 2)], axis=-1), call([floats(2)], axis=0),
        call([NONE, floats(2, 1, 3)], 1)],
        lambda x, axis=0: np.concatenate(x, axis), dtypes=ALL, skip={"0-d": "there is no axis to join along"},
        bad=[Bad(call([]), "concat(x): expected at least one tensor, got an empty list"),
             Bad(call([floats(2, 3), floats(2, 2)]), "concat(x[1]): expected shape [2, 3] but for axis 0, got shape [2, 2]"),
             Bad(call(floats(2)), "concat(x): expected a list of Tensors, got a Tensor of shape [2]", TypeError)]),
    Row("stack", [call([floats(2, 3), floats(2, 3, seed=1)]), call([floats(2, 3), floats(2, 3, seed=1)], axis=-1), call([floats(2), floats(2)], 1),
        call([floats(), floats(seed=1)]), call([NONE, NONE])],
        lambda x, axis=0: np.stack(x, axis), dtypes=ALL, bad=[Bad(call([floats(2), floats(3)]),
        "stack(x[1]): expected shape [2], got a Tensor of shape [3]")]),
    Row("split_sizes", [call(floats(5, 2), [1, 4], 0), call(floats(2, 4), [1, 0, 3], -1), call(NONE, [1, 1], 0)],
        lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis), dtypes=ALL, skip={"0-d": "there is no axis to split"}),
    Row("split", [call(floats(4, 2), 2), call(floats(2, 4), [1, -1], axis=-1), call(floats(2, 4), [1, 3], 1), call(NONE, 3, axis=2),
        call(floats(6), 3)], _split, dtypes=ALL,
        skip={"0-d": "there is no axis to split"},
        bad=[Bad(call(floats(4), 3), "split(num_or_sections): expected a number of parts that divides 4, got 3"),
             Bad(call(floats(4), [1, 2]), "split(num_or_sections): expected sizes that add up to 4, got [1, 2]"),
             Bad(call(floats(), 1), "split(x): expected a tensor with at least one axis, got a Tensor of shape []")]),
    Row("chunk", [call(floats(4, 2), 2), call(floats(2, 4), 2, axis=-1), call(NONE, 3, axis=2)], lambda x, chunks, axis=0: np.split(x, chunks, axis),
        dtypes=ALL,
        skip={"0-d": "there is no axis to split"},
        bad=[Bad(call(floats(4), 3), "chunk(num_or_sections of split): expected a number of parts that divides 4, got 3")]),
    Row("tile", [call(floats(2, 3), [2, 1]), call(floats(2, 3), [2]), call(floats(2), [2, 3]), call(floats(), [2]), call(floats(2, 3), [0, 1]),
        call(NONE, [1, 2, 1])], np.tile, dtypes=ALL,
        bad=[Bad(call(floats(2), [-1]), "tile(repeat_times): expected counts of 0 or more, got [-1]")]),
    Row("flip", [call(floats(2, 3), 0), call(floats(2, 3), [-1]), call(floats(2, 3, 2), axis=[0, 2]), call(floats(), []), call(NONE, 0)],
        lambda x, axis: np.flip(x, tuple(axis) if isinstance(axis, list) else axis), dtypes=ALL,
        bad=[Bad(call(floats(2, 3), 2), "flip(axis): expected an axis in [-2, 1], got 2")]),
    Row("roll", [call(floats(2, 3), 1), call(floats(2, 3), 1, axis=0), call(floats(2, 3), [1, -2], axis=[0, -1]), call(floats(), 1),
        call(NONE, 2, axis=0)], np.roll, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [1, 2], axis=0), "roll(shifts): expected 1 shifts, one for each axis, got [1, 2]"),
             Bad(call(floats(2, 3), 1, axis=2), "roll(axis): expected an axis in [-2, 1], got 2")]),
    Row("unbind_of", [call(floats(2, 3), 0), call(floats(2, 3), -1), call(np.zeros((2, 0, 3)), 2)], _unbind, dtypes=ALL,
        skip={"0-d": "there is no axis to take apart"}),
    Row("unbind", [call(floats(2, 3)), call(floats(2, 3), axis=-1), call(np.zeros((2, 0, 3)), axis=2)], _unbind, dtypes=ALL,
        skip={"0-d": "there is no axis to take apart"},
        bad=[Bad(call(floats()), "unbind(input): expected a tensor with at least one axis")]),
]  # fmt: skip
