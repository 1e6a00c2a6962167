"""Rows of splitting: into equal parts, parts of given sizes, shards."""

import numpy as np

from tests.table.harness import ALL, Bad, Row, call
from tests.table.samples import floats

NONE = np.zeros((2, 0, 3))
NO_AXIS = {"0-d": "there is no axis to split"}


def _split(x, parts, axis=0):
    if isinstance(parts, int):
        return np.split(x, parts, axis)
    sizes = [n if n >= 0 else x.shape[axis] - sum(m for m in parts if m >= 0) for n in parts]
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _by_size(tensor, size, dim=0):
    n = tensor.shape[dim]
    return np.split(tensor, range(size, n, size) if isinstance(size, int) else np.cumsum(size)[:-1], dim)


def _shard(input, index_num, nshards, shard_id, ignore_value=-1):
    size = -(-index_num // nshards)
    return np.array(
        [
            [i - shard_id * size if shard_id * size <= i < (shard_id + 1) * size else ignore_value for i in row]
            for row in input
        ]
    )


TABLE = [
    Row("split_sizes", [call(floats(5, 2), [1, 4], 0), call(floats(2, 4), [1, 0, 3], -1), call(NONE, [1, 1], 0)],
        lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis), dtypes=ALL, skip={"0-d": "there is no axis to split"}),
    Row("split", [call(floats(4, 2), 2), call(floats(2, 4), [1, -1], axis=-1), call(floats(2, 4), [1, 3], 1), call(NONE, 3, axis=2),
        call(floats(6), 3)], _split, dtypes=ALL,
        skip={"0-d": "there is no axis to split"},
        bad=[Bad(call(floats(4), 3), "split(num_or_sections): expected a number of sections that divides 4, got 3"),
             Bad(call(floats(4), [1, 2]), "split(num_or_sections): expected sizes that sum to 4, got [1, 2]"),
             Bad(call(floats(), 1), "split(x): expected a tensor with at least 1 dimension, got a Tensor of shape []")]),
    Row("chunk", [call(floats(4, 2), 2), call(floats(2, 4), 2, axis=-1), call(NONE, 3, axis=2)], lambda x, chunks, axis=0: np.split(x, chunks, axis),
        dtypes=ALL,
        skip={"0-d": "there is no axis to split"},
        bad=[Bad(call(floats(4), 3), "chunk(chunks): expected a number of sections that divides 4, got 3")]),
    Row("split_by_size", [call(floats(5), 2), call(floats(2, 5), 3, dim=-1), call(floats(5, 2), [2, 3]), call(floats(5), 7), call(NONE, 1, 2)],
        _by_size,
        dtypes=ALL, skip=NO_AXIS,
        bad=[Bad(call(floats(5), 0), "split(split_size_or_sections): expected a positive size, got 0", AssertionError),
             Bad(call(floats(5), [2, -1]), "split(split_size_or_sections): expected non-negative sizes that sum to 5, got [2, -1]"),
             Bad(call(floats(5), 2.0), "split(split_size_or_sections): expected an integer or a list of integers, got 2.0", TypeError),
             Bad(call(floats(), 1), "split(tensor): expected a tensor with at least 1 dimension")]),
    Row("tensor_split", [call(floats(7), 3), call(floats(2, 7), 3, axis=-1), call(floats(7), [2, 3]), call(floats(7), [2, -1, 9]), call(floats(7),
        [5, 2]),
        call(floats(3), 5), call(floats(3), []), call(NONE, 2)], np.array_split, dtypes=ALL, skip=NO_AXIS,
        bad=[Bad(call(floats(7), 0), "tensor_split(num_or_indices): expected a number of sections in [1, 65536], got 0"),
             Bad(call(floats(7), 2.0), "tensor_split(num_or_indices): expected an integer or a list of integers, got 2.0"),
             Bad(call(floats(7), 2, 1), "tensor_split(axis): expected an axis in [-1, 0], got 1"),
             Bad(call(floats(), 2), "tensor_split(x): expected a tensor with at least 1 dimension")]),
    Row("hsplit", [call(floats(5), 2), call(floats(2, 4), [1, 3]), call(np.zeros((0, 4)), 2)], lambda x, n: np.array_split(x, n, min(x.ndim - 1, 1)),
        dtypes=ALL, skip=NO_AXIS, bad=[Bad(call(floats(), 1), "hsplit(x): expected a tensor with at least 1 dimensions, got a Tensor of shape []")]),
    Row("vsplit", [call(floats(5, 2), 2), call(floats(4, 2), [1, 3]), call(np.zeros((4, 0)), 2)], lambda x, n: np.array_split(x, n, 0),
        dtypes=ALL, skip=NO_AXIS, bad=[Bad(call(floats(4), 2), "vsplit(x): expected a tensor with at least 2 dimensions, got a Tensor of shape [4]")]),
    Row("dsplit", [call(floats(1, 2, 5), 2), call(floats(1, 2, 4), [1, 3]), call(NONE, 2)], lambda x, n: np.array_split(x, n, 2),
        dtypes=ALL, skip=NO_AXIS, bad=[Bad(call(floats(2, 4), 2),
        "dsplit(x): expected a tensor with at least 3 dimensions, got a Tensor of shape [2, 4]")]),
    Row("unstack", [call(floats(2, 3)), call(floats(2, 3), axis=-1), call(floats(2, 3), 0, 2), call(np.zeros((2, 0)))],
        lambda x, axis=0, num=None: [np.take(x, i, axis) for i in range(x.shape[axis])], dtypes=ALL, skip={"0-d": "there is no axis to take apart"},
        bad=[Bad(call(floats(2, 3), 0, 3), "unstack(num): expected 2, the size of axis 0, got 3"),
             Bad(call(floats(2, 3), 2), "unstack(axis): expected an axis in [-2, 1], got 2"),
             Bad(call(floats()), "unstack(x): expected a tensor with at least 1 dimension")]),
    Row("shard_index", [call(np.array([[0], [5], [19]]), 20, 2, 0), call(np.array([[0], [5], [19]]), 20, 3, 2, ignore_value=-7),
        call(np.array([[1, 9]], np.int32), 10, 2, 1), call(np.zeros((2, 0), int), 20, 2, 0)], _shard, dtypes=frozenset(), grad=0,
        skip={"0-d": "the table is indexed by columns"},
        bad=[Bad(call(np.array([[20]]), 20, 2, 0), "shard_index(input): expected indices in [0, 19], got 20"),
             Bad(call(np.array([[2]]), 20, 2, 2), "shard_index(shard_id): expected an integer in [0, 1], got 2"),
             Bad(call(np.array([[2]]), 20, 0, 0), "shard_index(nshards): expected a positive integer, got 0"),
             Bad(call(np.array([2]), 20, 2, 0), "shard_index(input): expected at least 2 dimensions, got shape [1]"),
             Bad(call(floats(2, 2), 20, 2, 0), "shard_index(input): expected one of int32, int64, got float64", TypeError)]),
]  # fmt: skip
