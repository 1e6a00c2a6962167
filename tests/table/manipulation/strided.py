"""Rows of parts by start, end and stride, and of storage seen otherwise."""

import numpy as np

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, Bad, Row, call
from tests.table.samples import floats, ints

NONE = np.zeros((2, 0, 3))


def _sliced(x, axes, starts, ends, strides=None):
    index = [slice(None)] * x.ndim
    for a, *bounds in zip(axes, starts, ends, strides or [1] * len(axes), strict=True):
        index[a] = slice(*[int(b) for b in bounds])
    return x[tuple(index)]


def _narrow(input, dim, start, length):
    return np.take(
        input, range(int(start) % max(input.shape[dim], 1), int(start) % max(input.shape[dim], 1) + length), dim
    )


def _crop(x, shape=None, offsets=None):
    first = [0] * x.ndim if offsets is None else offsets
    ends = (
        x.shape if shape is None else [n if k == -1 else f + k for n, k, f in zip(x.shape, shape, first, strict=True)]
    )
    return x[tuple(slice(f, e) for f, e in zip(first, ends, strict=True))]


def _unfold(x, axis, size, step):
    if not x.ndim:
        return x.reshape(size)
    starts = range(0, x.shape[axis] - size + 1, step)
    axis %= x.ndim
    return np.moveaxis(np.stack([np.take(x, range(s, s + size), axis) for s in starts], axis), axis + 1, -1)


def _strided(x, shape, stride, offset=0):
    at = offset + sum(
        np.arange(n).reshape([-1] + [1] * (len(shape) - i - 1)) * s
        for i, (n, s) in enumerate(zip(shape, stride, strict=True))
    )
    return x.reshape(-1)[np.broadcast_to(at, shape)]


def _strided_put(x, part, strides, first):
    out = x.copy()
    places = np.arange(x.size)
    for at, value in zip(_strided(places, part.shape, strides, first).ravel(), part.ravel(), strict=True):
        out.reshape(-1)[at] = value
    return out


def _bits(x, dtype):
    """The harness widens what a reference gets: these are the numbers before that."""
    kind = np.complex64 if x.dtype.kind == "c" else np.float32 if x.dtype.kind == "f" else x.dtype
    made = np.frombuffer(x.astype(kind).tobytes(), dtypes.of(dtype).np)
    return made.reshape((*x.shape[:-1], -1) if x.size else (2, 0)) if x.ndim else made.reshape(())


def _single(*shape):
    return floats(*shape).astype(np.float32)


def _merge(x, part, strides, first):
    out = x.copy()
    for at, value in zip(_strided(np.arange(x.size), part.shape, strides, first).ravel(), part.ravel(), strict=True):
        if value != x.reshape(-1)[at]:
            out.reshape(-1)[at] = value
    return out


def _seen_twice():
    """Windows of two of which the first was written: the second shows an element of it as it was."""
    x = np.array([1.5, 1.5, 0.5])
    part = np.stack([x[:2], x[1:]])
    part[0] += 1
    return call(x, part, [1, 1], 0)


TABLE = [
    Row("slice", [call(floats(4, 3), [0], [1], [3]), call(floats(4, 3), [0, -1], [-3, 0], [10, -1]), call(floats(4), [0], [3], [1]),
        call(floats(4), [0], [np.array(1)], [3]), call(NONE, [0], [0], [1])], _sliced, dtypes=ALL,
        skip={"static": "a start is read"},
        bad=[Bad(call(floats(4), [], [], []), "slice(axes): expected a non-empty list of axes, got ()"),
             Bad(call(floats(4), [1], [0], [1]), "slice(axes): expected an axis in [-1, 0], got 1"),
             Bad(call(floats(4), [0], [0, 1], [1]), "slice(starts): expected 1 integers, one per axis, got (0, 1)"),
             Bad(call(floats(), [0], [0], [1]), "slice(input): expected a tensor with at least 1 dimension")]),
    Row("strided_slice", [call(floats(5, 3), [0], [0], [5], [2]), call(floats(5, 3), [0, 1], [4, 0], [0, 3], [-2, 2]), call(floats(4),
        [0], [3], [-9], [-1]),
        call(floats(), [], [], [], []), call(NONE, [0], [0], [1], [3])], _sliced, dtypes=ALL,
        bad=[Bad(call(floats(4), [0], [0], [4], [0]), "strided_slice(strides): expected nonzero strides, got [0]")]),
    Row("narrow", [call(floats(4, 3), 0, 1, 2), call(floats(4, 3), -1, -2, 1), call(floats(4), 0, np.array(2), 2), call(floats(4), 0, 4, 0),
        call(NONE, 0, 1, 1)], _narrow, dtypes=ALL, skip={"static": "the start is read"},
        bad=[Bad(call(floats(4), 0, 0, None), "narrow(start, length): expected integers, got None", TypeError),
             Bad(call(floats(), 0, 0, 0), "narrow(input): expected a tensor with at least 1 dimension", AssertionError),
             Bad(call(floats(4), 0, 5, 0), "narrow(start): expected an index in [-4, 4], got 5", AssertionError),
             Bad(call(floats(4), 0, 3, 2), "narrow(length): expected a length in [0, 1], got 2", AssertionError),
             Bad(call(floats(4), 0, np.array([1]), 2), "narrow(start): expected an integer or a 0-D integer tensor, got", AssertionError),
             Bad(call(floats(4), 1, 0, 1), "narrow(dim): expected an axis in [-1, 0], got 1", IndexError)]),
    Row("crop", [call(floats(3, 4)), call(floats(3, 4), [2, 2], [1, 1]), call(floats(3, 4), [2, -1], offsets=[0, 3]), call(floats(5), (2,)),
        call(floats()),
        call(NONE, [1, 0, 2], [1, 0, 0])], _crop, dtypes=ALL,
        bad=[Bad(call(floats(3, 4), [-1, 0], []), "crop(offsets): expected 2 integers, one per axis, got []"),
             Bad(call(floats(3, 4), [4, 2]), "crop(shape): expected a size in [0, 3] for axis 0, got 4"),
             Bad(call(floats(3, 4), [1, 2], [-1, 0]), "crop(offsets): expected an offset in [0, 3] for axis 0, got -1"),
             Bad(call(floats(3, 4), [-2, 2]), "crop(shape): expected a size in [0, 3] for axis 0, got -2")]),
    Row("unfold", [call(floats(5), 0, 2, 1), call(floats(3, 5), -1, 3, 2), call(ints(3, 5), 0, 2, 1), call(floats(), 0, 1, 1), call(NONE, 0, 2, 1),
        call(floats(3), 0, 0, 1)], _unfold, dtypes=ALL,
        bad=[Bad(call(floats(5), 0, 6, 1), "unfold(size): expected a size in [0, 5], got 6"),
             Bad(call(floats(5), 0, 2, 0), "unfold(step): expected a positive step, got 0"),
             Bad(call(floats(5), 1, 2, 1), "unfold(axis): expected an axis in [-1, 0], got 1")]),
    Row("strided_view", [call(floats(2, 3), [2, 2], [1, 2], 0), call(floats(6), [3], [-2], 5), call(floats(6), [2, 2], [0, 1], 1), call(floats(),
        [1], [1], 0),
        call(NONE, [0], [1], 0)], _strided, dtypes=ALL),
    Row("strided_put", [call(floats(2, 3), floats(2, 2), [1, 2], 0), call(ints(6), ints(3), [-2], 5), call(ints(6), ints(2, 2), [3, 1], 1),
        call(floats(), floats(1), [1], 0), call(floats(2), np.zeros(0), [1], 0)], _strided_put, dtypes=ALL),
    Row("strided_merge", [call(floats(3), floats(2, 2), [1, 1], 0), call(ints(6), ints(2, 3, seed=1), [2, 1], 1), _seen_twice(), call(floats(),
        floats(2), [0], 0),
        call(floats(2), np.zeros((0, 2)), [0, 1], 0)], _merge, dtypes=ALL),
    Row("as_strided", [call(floats(2, 3), [2, 2], [1, 2]), call(floats(6), [3], [-2], 40), call(floats(6), (2, 2), (0, 1)), call(floats(), [], []),
        call(NONE, [0], [1])], lambda x, shape, stride, offset=0: _strided(x, shape, stride, offset // 8), dtypes=frozenset(),
        skip={"static": "an offset in bytes means another element in another type",
        "compiled": "an offset in bytes means another element in another type"},
        bad=[Bad(call(floats(6), [3], [3]), "as_strided(shape): expected indices in [0, 5] of the storage, got 0 to 6, out of range"),
             Bad(call(floats(6), [2], [-1]), "as_strided(shape): expected indices in [0, 5] of the storage, got -1 to 0, out of range"),
             Bad(call(floats(6), [2], [1], 3), "as_strided(offset): expected a multiple of the itemsize 8, got 3"),
             Bad(call(floats(6), [2, 2], [1]), "as_strided(stride): expected 2 strides, one for each axis, got [1]")]),
    Row("view_dtype", [call(_single(2, 4), "int32"), call(_single(2, 4), "uint8"), call(_single(2, 4), "float64"),
        call(ints(2, 8, dtype=np.uint8), "int32"),
        call(floats(2, 4) > 0, "uint8"), call(np.array([[0, 2]], np.uint8), "bool"), call(_single(2, 2), "complex64"),
        call(_single(2, 2) + 1j, "int16"),
        call(_single(), "int32"), call(np.zeros((2, 0), np.int32), "int64"), call(_single(2, 2), "float16")],
        _bits, dtypes=frozenset(), grad=0, out="ref",
        bad=[Bad(call(ints(2, 3, dtype=np.int32), "int64"),
                 "view(x): expected a last dimension whose size in bytes is divisible by the itemsize of int64, got shape [2, 3], int32"),
             Bad(call(ints(dtype=np.int32), "int64"), "view(x): expected a last dimension whose size in bytes is divisible by the itemsize of int64, got shape [], int32")]),
    Row("view", [call(floats(2, 3), [3, 2]), call(floats(2, 3), -1), call(floats(2, 3), shape_or_dtype=(6,)), call(floats(), [1, 1]),
        call(NONE, [3, 0])],
        lambda x, shape_or_dtype: np.reshape(x, shape_or_dtype), dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [4]), "view(shape_or_dtype): expected a shape of 6 elements, as x has, got [4]"),
             Bad(call(floats(2, 3), [0, -1]), "view(shape_or_dtype): expected a shape of 6 elements, as x has, got [0, -1]"),
             Bad(call(floats(2, 3), None), "view(shape_or_dtype): expected a shape or a dtype, got None", TypeError),
             Bad(call(floats(2, 3), 1.5), "view(shape_or_dtype): expected an integer, got 1.5", TypeError)]),
    Row("view_as", [call(floats(2, 3), floats(6)), call(floats(), floats(1, 1)), call(NONE, np.zeros((0, 4)))],
        lambda x, other: np.reshape(x, other.shape),
        dtypes=ALL, bad=[Bad(call(floats(2, 3), floats(5)), "view_as(other): expected a shape of 6 elements, as x has, got [5]")]),
]  # fmt: skip
