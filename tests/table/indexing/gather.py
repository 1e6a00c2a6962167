"""Rows of gathers and masks: what is read by tensors of indices, or where a condition holds."""

import numpy as np

from tests.table.harness import ALL, Bad, Row, call, still
from tests.table.samples import NONFINITE, floats, masked

NONE = np.zeros((2, 0, 3))


def _gather(x, index, axis=None):
    index = index.ravel() if index.ndim == 2 else index
    return np.take(x, index, 0 if axis is None else axis)


def _gather_nd(x, index):
    found = [x[tuple(index[place])] for place in np.ndindex(index.shape[:-1])]
    return np.array(found, x.dtype).reshape((*index.shape[:-1], *x.shape[index.shape[-1] :]))


def _along(arr, indices, axis, broadcast=True):
    if broadcast:
        dims = [
            max(a, i) if k != axis % arr.ndim else i
            for k, (a, i) in enumerate(zip(arr.shape, indices.shape, strict=True))
        ]
        wide = [n if k == axis % arr.ndim else dims[k] for k, n in enumerate(arr.shape)]
        return np.take_along_axis(np.broadcast_to(arr, wide), np.broadcast_to(indices, dims), axis)
    arr = arr[tuple(slice(None) if k == axis % arr.ndim else slice(0, n) for k, n in enumerate(indices.shape))]
    return np.take_along_axis(arr, indices, axis)


def _nonzero(x, as_tuple=False):
    if as_tuple:
        return list(np.nonzero(x))
    return np.argwhere(x).reshape(np.count_nonzero(x), x.ndim)


def _masked_scatter(x, mask, value):
    x, mask = [a.copy() for a in np.broadcast_arrays(x, mask)]
    x[mask] = value.ravel()[: np.count_nonzero(mask)]
    return x


_where = [call(floats(2, 3) > 0, floats(2, 3), floats(3)), call(np.array([True, False, True]), floats(2, 1), floats()), call(np.array(True),
    floats(), floats(seed=1)),
          call(np.zeros((2, 0, 3), bool), NONE, floats(3)), call(np.array([True, False]), floats(2), 0.0), call(np.array([True, False]), x=floats(2),
          y=floats(2, seed=1))]  # fmt: skip
_along_samples = [call(floats(2, 3), np.array([[2], [0]]), 1), call(floats(2, 3), np.array([[1, 0, -1]]), 0), call(floats(2, 3), np.array([[2, 0]]),
    axis=-1),
                  call(floats(3, 3), np.array([[2], [0]]), 1, False), call(floats(1, 3), np.array([[2, 2], [0, 1]], np.int32), 1),
                  call(floats(2, 3, 2), np.array([[[1], [0], [2], [1]]]), 1), call(floats(2, 3, 4), np.array([[[1, 0]]]), 1, broadcast=False),
                  call(floats(2, 3), np.zeros((2, 0), int), 1), call(np.zeros((2, 0)), np.zeros((2, 0), int), 1)]  # fmt: skip
_nd_samples = [call(floats(3, 4), np.array([[0], [2]])), call(floats(3, 4), np.array([[0, 1], [2, -1], [0, 1]])), call(floats(2, 3, 2), np.array([[[0,
    1]], [[1, 2]]])),
               call(floats(3, 4), np.array([1, 2])), call(floats(3, 4), np.zeros((2, 0), int)), call(floats(), np.zeros((2, 0), int)), call(floats(3,
               4), np.zeros((0, 2), int)), call(np.zeros((3, 0)), np.array([[1]]))]  # fmt: skip
_scatter_samples = [call(floats(2, 3), floats(2, 3, seed=1) > 0, floats(6)), call(floats(2, 3), np.array([True, False, True]), floats(2, 2)),
    call(floats(3), np.array([[True, False, True], [False, True, False]]), floats(3, seed=2)), call(floats(2, 1), np.array([[True], [False]]),
    floats(1)),
                    call(floats(), np.array(True), floats(2)), call(NONE, np.zeros((2, 0, 3), bool), floats(2)), call(floats(2, 3), np.zeros((2, 3),
                    bool), np.zeros(0))]  # fmt: skip

TABLE = [
    Row("index_select", [call(floats(4, 3), np.array([2, 0, 2])), call(floats(4, 3), np.array([1, -1]), axis=1), call(floats(4, 3), np.array([0]),
        -1), call(floats(4, 3), np.array(1)),
                         call(np.zeros((2, 0, 3)), np.array([1, 1]), axis=0), call(floats(3), np.zeros(0, int))], lambda x, index, axis=0: np.take(x,
                         index, axis), dtypes=ALL,
        bad=[Bad(call(floats(4, 3), np.array([4])), "index_select(index): expected indices in [-4, 3], got 4", IndexError),
             Bad(call(floats(4, 3), floats(2)), "index_select(index): expected an integer tensor, got float64")]),
    Row("gather", [call(floats(4, 3), np.array([2, 0, 2])), call(floats(4, 3), np.array([1, 2]), axis=1), call(floats(4, 3), np.array([[1], [0]])),
        call(floats(4, 3), np.array(1)),
                   call(floats(3), np.zeros(0, int))], _gather, dtypes=ALL, bad=[Bad(call(floats(2), np.array([2])),
                   "gather(index): expected indices in [-2, 1], got 2", IndexError)]),
    Row("gather_nd_of", _nd_samples, _gather_nd, dtypes=ALL),
    Row("gather_nd", _nd_samples, _gather_nd, dtypes=ALL,
        bad=[Bad(call(floats(3, 4), np.array([[0, 4]])), "gather_nd(index): expected indices in [-4, 3] along axis 1, got 4", IndexError),
             Bad(call(floats(3, 4), np.array([[0, 0, 0]])), "gather_nd(index): expected a last dimension of at most 2, the number of dimensions of x, got shape [1, 3]"),
             Bad(call(floats(3, 4), np.array(1)), "gather_nd(index): expected a last dimension of at most 2, the number of dimensions of x, got shape []"),
             Bad(call(np.zeros((0, 4)), np.array([[0]])),
                 "gather_nd(index): expected no indices into an axis without elements, got shape [1, 1]", IndexError),
             Bad(call(floats(3), still([[0.0]])), "gather_nd(index): expected an integer tensor, got float64", TypeError)]),
    *[Row(name, _along_samples, _along, dtypes=ALL,
        skip={"0-d": "there is no axis to take along"},
        bad=[Bad(call(floats(2, 3), np.array([1]), 0), f"{name}(indices): expected 2 dimensions, as arr has, got shape [1]"),
             Bad(call(floats(2, 3), np.array([[3]]), 1), f"{name}(indices): expected indices in [-3, 2], got 3", IndexError),
             Bad(call(floats(3, 3), np.array([[0], [1]]), 1),
                 f"{name}(indices): expected sizes that broadcast with arr's [3, 3] except along axis 1"),
             Bad(call(floats(1, 3), np.array([[0], [1]]), 1, False), f"{name}(indices): expected sizes of at most arr's [1, 3] except",
                 RuntimeError),
             Bad(call(floats(2), still([0.0]), 0), f"{name}(indices): expected an integer tensor, got float64", TypeError),
             Bad(call(floats(), np.array(0), 0), f"{name}(arr): expected a tensor with at least 1 dimension, got a 0-D tensor", AssertionError)])
      for name in ("take_along_axis", "take_along_dim")],
    Row("index_sample", [call(floats(3, 4), np.array([[0, 1], [2, 3], [0, 0]])), call(floats(2, 2), np.array([[1], [0]], np.int32)), call(floats(3,
        4), np.zeros((3, 0), int)), call(np.zeros((0, 4)), np.zeros((0, 2), int))], lambda x, index: np.take_along_axis(x, index, 1), dtypes=ALL,
        skip={"0-d": "it takes matrices"},
        bad=[Bad(call(floats(2, 2), np.array([[-1], [0]])), "index_sample(index): expected indices in [0, 1], got -1", IndexError),
             Bad(call(floats(2), np.array([[0]])), "index_sample(x): expected a matrix, got a Tensor of shape [2], float64"),
             Bad(call(floats(2, 2), np.array([[0]])), "index_sample(index): expected a matrix with 2 rows to match x, got a Tensor of shape [1, 1]")]),
    Row("take", [call(floats(2, 3), np.array([[0, -1], [5, 0]])), call(floats(2, 3), np.array([7, -8, 2]), "wrap"), call(floats(2, 3), np.array([7,
        -8, 2]), mode="clip"), call(floats(2, 3), np.array(4)), call(floats(), np.array([0], np.int32)),
                 call(floats(2, 3), np.zeros((0, 2), int)), call(NONE, np.zeros(0, int), "wrap"), call(NONE, np.zeros(0, int), "clip")],
        lambda x, index, mode="raise": np.take(x, index, mode=mode) if x.size else np.zeros(index.shape), dtypes=ALL,
        bad=[Bad(call(floats(2, 3), np.array([6])), "take(index): expected indices in [-6, 5], got 6", IndexError),
             Bad(call(floats(2, 3), np.array([0]), "no"), "take(mode): expected 'raise', 'wrap' or 'clip', got 'no'"),
             Bad(call(NONE, np.array([0]), "clip"), "take(index): expected no indices into an axis without elements, got shape [1]", IndexError),
             Bad(call(floats(2), still([0.0])), "take(index): expected an integer tensor, got float64", TypeError)]),
    Row("masked_select", masked(), lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))],
        dtypes=ALL,
        skip={"static": "the shape of its result depends on values", "gradient rule": "and so it is not recorded without them"},
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
    Row("masked_put", _scatter_samples, _masked_scatter, dtypes=ALL),
    Row("masked_scatter", _scatter_samples, _masked_scatter, dtypes=ALL,
        bad=[Bad(call(floats(2), np.array([True, True]), floats(1)), "masked_scatter(mask): expected at most 1 true elements, as value has, got 2",
                 AssertionError),
             Bad(call(floats(2), np.array([1, 0]), floats(2)), "masked_scatter(mask): expected a bool tensor, got int64", AssertionError),
             Bad(call(floats(2), np.array([True, False]), np.array([1])),
                 "masked_scatter(value): expected x's dtype float64, got int64", AssertionError)]),
]  # fmt: skip
