"""Rows of diagonals and triangles."""

import numpy as np

from tests.table.harness import ALL, BOOL, NUMBER, Bad, Row, call
from tests.table.samples import floats, ints

NONE = np.zeros((2, 0, 3))
FLAT = {"0-d": "there are no two axes"}


def _put(x, part, offset=0, axis1=0, axis2=1):
    out = x.copy()
    flat = np.moveaxis(out, (axis1, axis2), (-2, -1))
    for i in range(part.shape[-1]):
        row = i + max(-offset, 0)
        flat[..., row, row + offset] = part[..., i]
    return out


def _fill(x, value, offset=0, wrap=False):
    """Steps through the flat array as the diagonal does, one row and one column at a time."""
    out = x.copy()
    flat, columns = out.reshape(-1), x.shape[-1]
    step = sum(int(np.prod(x.shape[k + 1 :])) for k in range(x.ndim))
    end = x.size if wrap or x.ndim > 2 else min(x.size, columns * columns)
    for at in range(0, end, step):
        if 0 <= at % columns + offset < columns:
            flat[at + offset] = value
    return out


def _embed(input, offset=0, dim1=-2, dim2=-1):
    n = input.shape[-1] + abs(offset)
    out = np.zeros((*input.shape[:-1], n, n), input.dtype)
    for i in range(input.shape[-1]):
        row = i + max(-offset, 0)
        out[..., row, row + offset] = input[..., i]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def _diag(x, offset=0, padding_value=0):
    if x.ndim == 2:
        return np.diagonal(x, offset)
    x = x.reshape(-1)
    n = x.size + abs(offset)
    return np.where(np.eye(n, k=offset, dtype=bool), np.diag(x, offset), np.asarray(padding_value).astype(x.dtype))


def _indices(of):
    def ref(row, col=None, offset=0, dtype="int64"):
        return np.array(of(row, offset, row if col is None else col), dtype)

    return ref


def _vander(x, n=None, increasing=False):
    powers = np.arange(len(x) if n is None else n)
    return x[:, None] ** (powers if increasing else powers[::-1])


_diagonals = [call(floats(3, 4)), call(floats(2, 3, 4), 1, -1, 0), call(ints(2, 3), 1), call(ints(4, 3), -2), call(ints(2, 3, 4), 0, 1, 2),
              call(ints(2, 3), offset=7), call(NONE), call(np.zeros((2, 0, 3)), 1, 0, 2)]  # fmt: skip
_parts = [call(floats(3, 4), floats(3)), call(floats(2, 3), floats(2), 1), call(floats(4, 3), floats(2), -2), call(floats(2, 3, 4), floats(2, 3),
        0, 1, 2),
          call(floats(2, 3, 4), floats(3, 1), 1, -1, 0), call(floats(2, 3), np.zeros(0), 7), call(np.zeros((0, 3)), np.zeros(0))]  # fmt: skip
_put_samples = [call(*s.args[:2], *([*s.args[2:], *(0, 0, 1)[len(s.args) - 2 :]])) for s in _parts]


def _unfit(name, first, second):
    return [
        Bad(call(floats(3), floats(3)), f"{name}(x): expected at least 2 dimensions, got a Tensor of shape [3]", AssertionError),
        Bad(call(floats(2, 3), floats(3)), f"{name}(y): expected shape [2], got a Tensor of shape [3]", AssertionError),
        Bad(call(floats(2, 3), floats(2), 0, 0, -2), f"{name}({second}): expected an axis other than {first}, got -2", AssertionError),
        Bad(call(floats(2, 3), floats(2), 0, 5, 1), f"{name}({first}): expected an axis in [-2, 1], got 5", AssertionError),
        Bad(call(floats(2, 3), ints(2)), f"{name}(y): expected float64, got int64", TypeError),
    ]


def _flat(name):
    return [Bad(call(floats(3)), f"{name}(x): expected at least 2 dimensions, got a Tensor of shape [3]"),
            Bad(call(floats(2, 2), 0.5), f"{name}(diagonal): expected an integer, got 0.5", TypeError)]  # fmt: skip


def _bad_indices(name):
    return [Bad(call(-1, 2), f"{name}(row): expected a non-negative integer, got -1", TypeError),
            Bad(call(2, -1), f"{name}(col): expected a non-negative integer, got -1", TypeError),
            Bad(call(2, 2, 0, "float32"), f"{name}(dtype): expected int32 or int64, got float32", TypeError)]  # fmt: skip


TABLE = [
    *[Row(name, [call(floats(3, 3)), call(floats(2, 3), 1), call(floats(3, 2), diagonal=-1), call(floats(2, 3, 4), 2), call(floats(2, 2), 10**20),
                 call(floats(2, 2), -(10**20)), call(NONE)],
          lambda x, diagonal=0, f=f: f(x, max(-9, min(diagonal, 9))), dtypes=ALL, skip=FLAT, bad=_flat(name))
      for name, f in (("tril", np.tril), ("triu", np.triu))],
    *[Row(name, [call(3, 3), call(3, 4, 1), call(4, 3, -1), call(3, None, offset=9, dtype="int32"), call(0, 3)], _indices(f), dtypes=frozenset(),
          out="ref", grad=0, bad=_bad_indices(name))
      for name, f in (("tril_indices", np.tril_indices), ("triu_indices", np.triu_indices))],
    Row("diagonal", _diagonals, np.diagonal, dtypes=ALL, skip=FLAT,
        bad=[Bad(call(floats(3)), "diagonal(x): expected at least 2 dimensions, got a Tensor of shape [3]", IndexError),
             Bad(call(floats(2, 3), 0, -(10**18), 1), "diagonal(axis1): expected an axis in [-2, 1], got -1000000000000000000", IndexError),
             Bad(call(floats(2, 3), 0, 0, 2), "diagonal(axis2): expected an axis in [-2, 1], got 2", IndexError),
             Bad(call(floats(2, 3), 0, 1, -1), "diagonal(axis2): expected an axis other than axis1, got -1"),
             Bad(call(floats(2, 3), 0.5), "diagonal(offset): expected an integer, got 0.5", TypeError)]),
    Row("diagonal_put", _put_samples[:5], _put, dtypes=ALL, skip={**FLAT, "zero size": "of the composites"}),
    Row("diagonal_scatter", _parts, _put, dtypes=ALL, skip=FLAT, bad=_unfit("diagonal_scatter", "axis1", "axis2")),
    Row("fill_diagonal_tensor", _parts, _put, dtypes=ALL, skip=FLAT, bad=_unfit("fill_diagonal_tensor", "dim1", "dim2")),
    Row("fill_diagonal_", [call(floats(3, 4), 5, 1), call(floats(7, 3), 1.0, wrap=True), call(ints(3, 3), 2.5), call(ints(7, 3), 1, -1),
        call(ints(7, 3), 1, 1, True), call(ints(3, 3, 3), 4, 1), call(ints(2, 2), 1, 10**12), call(np.zeros((0, 3)), 1)],
        lambda x, value, offset=0, wrap=False: _fill(x, value, max(-9, min(offset, 9)), wrap), dtypes=ALL, skip=FLAT,
        bad=[Bad(call(floats(3), 1), "fill_diagonal_(x): expected at least 2 dimensions, got a Tensor of shape [3]"),
             Bad(call(floats(2, 2), "a"), "fill_diagonal_(value): expected a number, got 'a'", TypeError)]),
    Row("diag_embed", [call(floats(2, 3)), call(floats(2, 3), offset=1, dim1=-1, dim2=0), call(ints(3), 1), call(ints(2, 3), -1, 0, 2),
        call(np.zeros((2, 0)))], _embed, dtypes=ALL, skip={"0-d": "there is no axis to embed"},
        bad=[Bad(call(floats()), "diag_embed(input): expected at least 1 dimension, got a Tensor of shape []", IndexError),
             Bad(call(floats(2, 3), 0, 3, 1), "diag_embed(dim1): expected an axis in [-3, 2], got 3", IndexError),
             Bad(call(floats(2, 3), 0, 1, -2), "diag_embed(dim2): expected an axis other than dim1, got 1"),
             Bad(call(floats(2), 10**9), "diag_embed(): expected a result that fits into ", MemoryError)]),
    Row("diag_of", [call(floats(3), 1, 2), call(ints(3), 0, 0), call(ints(2), -2, 1), call(np.zeros(0), 1, 3)], _diag, dtypes=ALL,
        skip={"0-d": "always a vector"}),
    Row("diag", [call(floats(3)), call(floats(3), 1, 2), call(floats(3), -1, padding_value=1.0), call(floats(2, 3), 1), call(floats(3, 2), -1),
        call(floats()), call(np.zeros(0), 2), call(np.zeros((0, 3)))], _diag, dtypes=ALL,
        bad=[Bad(call(floats(2, 2, 2)), "diag(x): expected at most 2 dimensions, got a Tensor of shape [2, 2, 2]")]),
    Row("diagflat", [call(floats(3)), call(floats(2, 2), 1), call(floats(2), offset=-1), call(floats()), call(NONE)],
        lambda x, offset=0: _diag(x.reshape(-1), offset), dtypes=ALL),
    Row("vander", [call(np.array([0.0, -1.5, 2.0]), n=4), call(floats(3), 3, True), call(ints(3)), call(ints(3), 5), call(floats(2), 0),
        call(np.zeros(0))], _vander, dtypes=NUMBER, unchecked=BOOL, skip={"0-d": "only a vector has powers in columns"},
        bad=[Bad(call(floats(2, 2)), "vander(x): expected a 1-D tensor, got a Tensor of shape [2, 2]"),
             Bad(call(floats(2), -1), "vander(n): expected a non-negative integer, got -1")]),
]  # fmt: skip
