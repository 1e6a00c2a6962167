"""Rows of joining: along an axis, along a new one, side by side, as a grid."""

import itertools

import numpy as np

from tests.table.harness import ALL, COMPLEX, FLOAT, Bad, Row, call
from tests.table.samples import floats, ints

NONE = np.zeros((2, 0, 3))
LIST = {"method": "its first argument is a list"}


def _block_diag(inputs):
    rows = [np.atleast_2d(m) for m in inputs]
    out = np.zeros([sum(m.shape[k] for m in rows) for k in (0, 1)], rows[0].dtype)
    i = j = 0
    for m in rows:
        out[i : i + m.shape[0], j : j + m.shape[1]] = m
        i, j = i + m.shape[0], j + m.shape[1]
    return out


def _grid(args):
    return np.meshgrid(*args, indexing="ij")


def _product(x):
    return np.array(list(itertools.product(*x)), x[0].dtype).reshape(-1, len(x)) if len(x) > 1 else x[0]


def _combinations(x, r=2, with_replacement=False):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(choose(x, r)), x.dtype).reshape(-1, r) if r else np.zeros(0, x.dtype)


_TWO = [floats(2, 3), floats(2, 3, seed=1)]

TABLE = [
    Row("concat", [call([floats(2, 3), floats(1, 3)]), call([floats(2, 3), floats(2, 1), floats(2, 2)], axis=-1), call([floats(2)], axis=0),
        call([NONE, floats(2, 1, 3)], 1),
        call(_TWO, axis=1.0)],
        lambda x, axis=0: np.concatenate(x, int(axis)), dtypes=ALL, skip={"0-d": "there is no axis to join along", **LIST},
        bad=[Bad(call(_TWO, axis=2), "concat(axis): expected an axis in [-2, 1], got 2"),
             Bad(call([floats(2), ints(2)]), "concat(): expected operands whose dtypes promote, got float64 and int64", TypeError),
             Bad(call(_TWO, axis=None), "concat(axis): expected an integer, got None", TypeError),
             Bad(call([]), "concat(x): expected at least one tensor, got an empty list"),
             Bad(call([floats(2, 3), floats(2, 2)]), "concat(x[1]): expected shape [2, 3] but for axis 0, got shape [2, 2]"),
             Bad(call(floats(2)), "concat(x): expected a list of Tensors, got a Tensor of shape [2]", TypeError)]),
    Row("stack", [call([floats(2, 3), floats(2, 3, seed=1)]), call([floats(2, 3), floats(2, 3, seed=1)], axis=-1), call([floats(2), floats(2)], 1),
        call([floats(), floats(seed=1)]), call([NONE, NONE])],
        lambda x, axis=0: np.stack(x, axis), dtypes=ALL, skip=LIST, bad=[Bad(call([floats(2), floats(3)]),
        "stack(x[1]): expected shape [2], got shape [3]"),
             Bad(call(_TWO, 3), "stack(axis): expected an axis in [-3, 2], got 3"), Bad(call([]), "stack(x): expected at least one tensor")]),
    Row("vstack", [call(_TWO), call([floats(3), floats(2, 3)]), call([floats(), floats(seed=1)]), call(floats(2, 3)), call([NONE, NONE])],
        lambda x: np.vstack(list(x)), dtypes=ALL,
        bad=[Bad(call([]), "vstack(x): expected at least one tensor, got an empty list"),
             Bad(call([floats(2), 1.0]), "vstack(x): expected a list of Tensors, got", TypeError),
             Bad(call([floats(2), floats(3)]), "vstack(x[1]): expected a shape that joins [2] of x[0] along axis 0, got shape [3]")]),
    Row("hstack", [call(_TWO), call([floats(3), floats(2)]), call([floats(), floats(seed=1)]), call(floats(2, 3)), call([np.zeros((2, 0)),
        floats(2, 1)])],
        lambda x: np.hstack(list(x)), dtypes=ALL, bad=[Bad(call([]), "hstack(x): expected at least one tensor, got an empty list")]),
    Row("dstack", [call(_TWO), call([floats(3), floats(3, seed=1)]), call([floats(), floats(seed=1)]), call([NONE, NONE])],
        lambda x: np.dstack(list(x)), dtypes=ALL, bad=[Bad(call([]), "dstack(x): expected at least one tensor, got an empty list")]),
    Row("column_stack", [call([floats(2), floats(2, 3)]), call([floats(2, 1, 2), floats(2, 2, 2)]), call([floats(), floats(seed=1)]),
        call([np.zeros(0), np.zeros(0)])], lambda x: np.column_stack([np.atleast_1d(t) for t in x]), dtypes=ALL,
        bad=[Bad(call([]), "column_stack(x): expected at least one tensor, got an empty list")]),
    Row("blocks", [call([floats(2, 3), floats(1, 2)]), call([floats(2, 2)]), call([np.zeros((2, 0)), floats(1, 1)])], _block_diag, dtypes=ALL,
        skip={"0-d": "all are matrices"}),
    Row("block_diag", [call([floats(2, 3), floats(1, 2)]), call([floats(), floats(2), floats(2, 2)]), call([np.zeros((2, 0)), floats(1, 1)]),
        call(floats(2, 2, 3))], _block_diag, dtypes=ALL,
        bad=[Bad(call([]), "block_diag(inputs): expected at least one tensor, got an empty list"),
             Bad(call([floats(2, 2, 2)]), "block_diag(inputs[0]): expected at most 2 dimensions, got a Tensor of shape [2, 2, 2]"),
             Bad(call(floats()), "block_diag(inputs): expected a tensor with at least 1 dimension")]),
    Row("tie", [call([floats(2, 3), floats()], floats(4)), call([floats(2)], np.zeros(0))], lambda x, after: x, dtypes=FLOAT | COMPLEX,
        bad=[Bad(call([floats(2)], ints(1)), "tie(after): expected a floating-point tensor, got int64", TypeError)]),
    Row("meshgrid", [call([floats(2), floats(3)]), call([floats(2), floats(3), floats(2, seed=1)]), call([floats(2)]), call([floats(), floats(3)]),
        call([np.zeros(0), floats(3)])], _grid, dtypes=ALL,
        bad=[Bad(call([]), "meshgrid(args): expected at least one tensor, got none"),
             Bad(call([floats(2, 2)]), "meshgrid(args[0]): expected at most 1 dimension, got a Tensor of shape [2, 2]"),
             Bad(call([floats(2), ints(3)]), "meshgrid(args[1]): expected float64, got int64", TypeError)]),
    Row("cartesian_prod", [call([floats(2), floats(3)]), call([floats(2), floats(3), floats(2, seed=1)]), call([floats(2)]), call([np.zeros(0),
        floats(3)])],
        _product, dtypes=ALL, skip={"0-d": "all are vectors"},
        bad=[Bad(call([]), "cartesian_prod(x): expected at least one tensor, got an empty list"),
             Bad(call([floats(2), floats()]), "cartesian_prod(x[1]): expected a 1-D tensor, got a Tensor of shape []")]),
    Row("combinations", [call(floats(4)), call(floats(4), 3), call(floats(3), 2, True), call(floats(3), r=1), call(floats(3), 4), call(floats(3), 0),
        call(np.zeros(0), 2)], _combinations, dtypes=ALL, skip={"0-d": "only a vector has elements to choose from"},
        bad=[Bad(call(floats(2, 2)), "combinations(x): expected a 1-D tensor, got a Tensor of shape [2, 2]", TypeError),
             Bad(call(floats(2), -1), "combinations(r): expected a non-negative integer, got -1"),
             Bad(call(floats(4000), 7), "combinations(x, r): expected at most 1,099,511,627,776 elements, got ")]),
]  # fmt: skip
