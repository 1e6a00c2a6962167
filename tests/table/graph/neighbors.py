"""Rows of neighbours that are drawn, and of nodes that get new numbers."""

import numpy as np

from tests.table.graph.segment_pool import NO_SCALAR, VALUES
from tests.table.harness import Bad, Row, call

ROW = np.array([3, 7, 0, 9, 1, 4, 2, 9, 3, 9, 1, 9, 7])
COLPTR = np.array([0, 2, 4, 5, 6, 7, 9, 11, 11, 13, 13])
NODES = np.array([0, 8, 1, 2])
EIDS = np.arange(100, 113)
NONE = np.zeros(0, np.int64)


def _neighbours(found, row, colptr, input_nodes, eids=None, sample_size=-1, return_eids=False):
    """As many neighbours of each node as asked, all different edges of it."""
    neighbours, counts, *numbers = found
    if not return_eids:
        eids = np.arange(row.size)  # the example has no node with two edges from one neighbour
        numbers = [np.array([-1] * neighbours.size)]
    at = 0
    for node, count in zip(input_nodes.ravel(), counts, strict=True):
        own = range(int(colptr.ravel()[node]), int(colptr.ravel()[node + 1]))
        if count != (len(own) if sample_size < 0 else min(len(own), sample_size)):
            return False
        drawn = [(neighbours[i], numbers[0][i]) for i in range(at, at + count)]
        if return_eids and not set(drawn) <= {(row.ravel()[j], eids[j]) for j in own}:
            return False
        if not {n for n, _ in drawn} <= {row.ravel()[j] for j in own} or len(set(drawn)) != count:
            return False
        at += count
    return at == neighbours.size and counts.dtype == np.int32 and neighbours.dtype == row.dtype


def _reindex(x, neighbors, count):
    numbers = {}
    for i, node in enumerate(x.tolist()):
        numbers[node] = i
    nodes = x.tolist()
    for node in neighbors.tolist():
        if node not in numbers:
            numbers[node] = len(nodes)
            nodes.append(node)
    src = [numbers[n] for n in neighbors.tolist()]
    dst = [numbers[x[i % x.size]] for i, c in enumerate(count.tolist()) for _ in range(c)]
    return [np.array(v, x.dtype) for v in (src, dst, nodes)]


def _hops(found, row, colptr, input_nodes, sample_sizes, sorted_eids=None, return_eids=False):
    """Every edge is one of the graph; each step draws for the nodes that the one before found; numbers are places in
    the list of nodes.
    """
    src, dst, nodes, own, *numbers = found
    edges = {(int(row[j]), i) for i in range(colptr.size - 1) for j in range(colptr[i], colptr[i + 1])}
    drawn = list(zip(nodes[src.ravel()].tolist(), nodes[dst.ravel()].tolist(), strict=True))
    if not set(drawn) <= edges or len(set(nodes.tolist())) != nodes.size or nodes[own].tolist() != input_nodes.tolist():
        return False
    if return_eids and [(int(row[e - 100]), e) for e in numbers[0].ravel()] != [
        (a, e) for (a, _), e in zip(drawn, numbers[0].ravel(), strict=True)
    ]:
        return False
    first = sorted(set(input_nodes.tolist()))
    wanted = (
        sum(min(int(colptr[n + 1] - colptr[n]), sample_sizes[0] if sample_sizes[0] >= 0 else 99) for n in first)
        if len(sample_sizes)
        else 0
    )
    firsts = [d for _, d in drawn if d in first]
    return (
        len(drawn) == len(set(drawn))
        and (len(firsts) == wanted or len(sample_sizes) == 0)
        and src.shape == dst.shape == (len(drawn), 1)
    )


def _weighted(found, row, colptr, edge_weight, input_nodes, sample_size=-1, eids=None, return_eids=False):
    """The same, and what has no weight is drawn only where nothing else is left."""
    if not _neighbours(found, row, colptr, input_nodes, eids, sample_size, return_eids):
        return False
    at = 0
    for node, count in zip(input_nodes, found[1], strict=True):
        own = list(range(int(colptr[node]), int(colptr[node + 1])))
        heavy = [int(row[j]) for j in own if edge_weight[j] > 0]
        drawn = found[0][at : at + count].tolist()
        if sum(n in heavy for n in drawn) != min(len(heavy), count):
            return False
        at += count
    return True


def _reindex_heter(x, neighbors, count):
    return _reindex(x, np.concatenate(neighbors), np.concatenate(count))


WEIGHT = np.array([0.0, 0.5, 0.2, 0.5, 0.9, 1.9, 2.0, 2.1, 0.01, 0.9, 0.0, 0.6, 0.7], np.float32)
TYPES = [np.array([8, 9, 0, 4, 7, 6, 7]), np.array([0, 2, 3, 5, 1])]
EACH = [np.array([2, 3, 2], np.int32), np.array([1, 3, 1], np.int32)]
RANGE = Bad(
    call(ROW, COLPTR, np.array([12])),
    "graph_sample_neighbors(input_nodes): expected node ids in [0, 9], got 12",
    IndexError,
)
TABLE = [
    Row(
        "graph_sample_neighbors",
        [
            call(ROW, COLPTR, NODES),
            call(ROW, COLPTR, NODES, sample_size=1),
            call(ROW, COLPTR, NODES, eids=EIDS, sample_size=1, return_eids=True),
            call(ROW.reshape(-1, 1).astype(np.int32), COLPTR.astype(np.int32), NODES.astype(np.int32), sample_size=9),
            call(ROW, COLPTR, NONE),
        ],
        law=_neighbours,
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": NO_SCALAR, "static": VALUES},
        bad=[
            RANGE,
            Bad(
                call(ROW, COLPTR, NODES, return_eids=True),
                "graph_sample_neighbors(eids): expected edge ids, since return_eids is True",
            ),
            Bad(
                call(ROW, COLPTR, NODES, flag_perm_buffer=True),
                "graph_sample_neighbors(perm_buffer): expected a Tensor",
            ),
            Bad(
                call(ROW, np.array([0, 5, 2]), NODES),
                "graph_sample_neighbors(colptr): expected non-decreasing integers in [0, 13]",
            ),
            Bad(call(ROW, COLPTR, NODES.astype(np.int32)), "graph_sample_neighbors(input_nodes): expected int64"),
        ],
    ),
    Row(
        "graph_reindex",
        [
            call(np.array([0, 1, 2]), np.array([8, 9, 0, 4, 7, 6, 7]), np.array([2, 3, 2], np.int32)),
            call(
                np.array([0, 1, 2]),
                np.array([8, 9, 0, 4, 7, 6, 7, 0, 2, 3, 5, 1]),
                np.array([2, 3, 2, 1, 3, 1], np.int32),
            ),
            call(np.array([0, 1, 1], np.int32), np.array([8, 9, 0], np.int32), np.array([2, 0, 1], np.int32)),
            call(np.array([5]), NONE, np.array([0], np.int32)),
            call(NONE, NONE, np.zeros(0, np.int32)),
        ],
        _reindex,
        dtypes=frozenset(),
        out="ref",
        grad=0,
        skip={"0-d": NO_SCALAR, "static": VALUES},
        bad=[
            Bad(
                call(np.array([0]), np.array([8, 9]), np.array([1], np.int32)),
                "graph_reindex(count): expected counts that sum to 2, the number of neighbors, got a sum of 1",
            ),
            Bad(
                call(np.array([0, 1]), np.array([8]), np.array([1], np.int32)),
                "graph_reindex(count): expected non-negative integers, a multiple of the 2 nodes in number",
            ),
            Bad(
                call(np.array([0]), np.array([8]), np.array([1], np.int32), flag_buffer_hashtable=True),
                "graph_reindex(value_buffer): expected two",
            ),
        ],
    ),
    Row(
        "graph_khop_sampler",
        [
            call(ROW, COLPTR, NODES, [2, 2]),
            call(ROW, COLPTR, NODES, [-1]),
            call(ROW, COLPTR, np.array([1, 1, 0]), [1, 1, 1]),
            call(ROW, COLPTR, NODES, [1, 2], sorted_eids=EIDS, return_eids=True),
            call(ROW, COLPTR, NODES, []),
            call(ROW, COLPTR, NONE, [2]),
        ],
        law=_hops,
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": NO_SCALAR, "static": VALUES},
        bad=[
            Bad(
                call(ROW, COLPTR, NODES, [2], return_eids=True),
                "graph_khop_sampler(sorted_eids): expected edge ids, since return_eids is True",
            ),
            Bad(
                call(ROW, COLPTR, NODES, 2), "graph_khop_sampler(sample_sizes): expected a list of integers", TypeError
            ),
        ],
    ),
    Row(
        "sample_neighbors",
        [
            call(ROW, COLPTR, NODES),
            call(ROW, COLPTR, NODES, 1),
            call(ROW, COLPTR, NODES, 0),
            call(ROW, COLPTR, NODES, 1, EIDS, True),
            call(ROW, COLPTR, NONE, 2),
        ],
        law=lambda found, row, colptr, input_nodes, sample_size=-1, eids=None, return_eids=False: _neighbours(
            found, row, colptr, input_nodes, eids, sample_size, return_eids
        ),
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": NO_SCALAR, "static": VALUES},
        bad=[
            Bad(
                call(ROW, COLPTR, np.array([12])),
                "sample_neighbors(input_nodes): expected node ids in [0, 9], got 12",
                IndexError,
            ),
            Bad(
                call(ROW, COLPTR, NODES, return_eids=True),
                "sample_neighbors(eids): expected edge ids, since return_eids is True",
            ),
        ],
    ),
    Row(
        "weighted_sample_neighbors",
        [
            call(ROW, COLPTR, WEIGHT, NODES),
            call(ROW, COLPTR, WEIGHT, NODES, 1),
            call(ROW, COLPTR, WEIGHT, NODES, 1, EIDS, True),
            call(ROW, COLPTR, WEIGHT, NONE, 1),
        ],
        law=_weighted,
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": NO_SCALAR, "static": VALUES},
        bad=[
            Bad(
                call(ROW, COLPTR, -WEIGHT, NODES),
                "weighted_sample_neighbors(edge_weight): expected non-negative numbers, got -0.5",
            ),
            Bad(
                call(ROW, COLPTR, WEIGHT[:3], NODES),
                "weighted_sample_neighbors(edge_weight): expected 13 elements, as row has",
            ),
            Bad(
                call(ROW, COLPTR, ROW, NODES),
                "weighted_sample_neighbors(edge_weight): expected a floating-point dtype",
                TypeError,
            ),
        ],
    ),
    Row(
        "reindex_graph",
        [
            call(np.array([0, 1, 2]), TYPES[0], EACH[0]),
            call(np.array([0, 1, 1], np.int32), np.array([8, 9, 0], np.int32), np.array([2, 0, 1], np.int32)),
            call(NONE, NONE, np.zeros(0, np.int32)),
        ],
        _reindex,
        dtypes=frozenset(),
        out="ref",
        grad=0,
        skip={"0-d": NO_SCALAR, "static": VALUES},
        bad=[
            Bad(
                call(np.array([0]), np.array([8, 9]), np.array([1], np.int32)),
                "reindex_graph(count): expected counts that sum to 2, the number of neighbors, got a sum of 1",
            ),
        ],
    ),
    Row(
        "reindex_heter_graph",
        [
            call(np.array([0, 1, 2]), TYPES, EACH),
            call(np.array([0, 1, 2]), TYPES[:1], EACH[:1]),
            call(NONE, [NONE], [np.zeros(0, np.int32)]),
        ],
        _reindex_heter,
        dtypes=frozenset(),
        out="ref",
        grad=0,
        skip={"0-d": NO_SCALAR, "static": VALUES},
        bad=[
            Bad(
                call(np.array([0, 1, 2]), TYPES, EACH[:1]),
                "reindex_heter_graph(count): expected 2 tensors, as neighbors has",
            ),
            Bad(
                call(np.array([0, 1]), TYPES[:1], EACH[:1]),
                "reindex_heter_graph(count[0]): expected 2 integers, one for each node, got 3",
            ),
        ],
    ),
]
