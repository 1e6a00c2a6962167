"""Rows of graphs: messages, neighbours, new numbers."""

import numpy as np

from tests.table.graph.segment_pool import NO_SCALAR, VALUES, _pool
from tests.table.harness import FLOAT, INT, Bad, Row, call
from tests.table.samples import floats

ROW = np.array([3, 7, 0, 9, 1, 4, 2, 9, 3, 9, 1, 9, 7])
COLPTR = np.array([0, 2, 4, 5, 6, 7, 9, 11, 11, 13, 13])
NODES = np.array([0, 8, 1, 2])
EIDS = np.arange(100, 113)
NONE = np.zeros(0, np.int64)


def _send(x, src_index, dst_index, pool_type="sum", out_size=None):
    rows = x.shape[0] if out_size is None or int(out_size) <= 0 else int(out_size)
    return _pool(x[src_index.ravel()], dst_index.ravel(), pool_type, rows)


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


RANGE = Bad(
    call(ROW, COLPTR, np.array([12])),
    "graph_sample_neighbors(input_nodes): expected node ids in [0, 9], got 12",
    IndexError,
)
TABLE = [
    Row(
        "graph_send_recv",
        [
            *[
                call(floats(3, 2), np.array([0, 1, 2, 0]), np.array([1, 2, 1, 0]), p)
                for p in ("sum", "mean", "max", "min")
            ],
            call(floats(3), np.array([[0], [2]]), np.array([[1], [1]]), "mean", 2),
            call(floats(3), np.array([0, 2]), np.array([1, 1]), out_size=5),
            call(floats(3), np.array([0]), np.array([1]), out_size=0),
            call(np.zeros((2, 0)), np.array([0]), np.array([1])),
            call(floats(2), NONE, NONE, "max"),
        ],
        _send,
        dtypes=FLOAT | INT,
        skip={"0-d": NO_SCALAR},
        bad=[
            Bad(
                call(floats(3), np.array([0]), np.array([1]), "bad"),
                "graph_send_recv(pool_type): expected one of 'sum', 'mean', 'max', 'min', got 'bad'",
            ),
            Bad(
                call(floats(3), np.array([0]), np.array([1, 2])),
                "graph_send_recv(dst_index): expected 1 elements, as src_index has",
            ),
            Bad(call(floats(3), np.array([0]), np.array([1], np.int32)), "graph_send_recv(dst_index): expected int64"),
            Bad(call(floats(3), np.array([0]), np.array([4])), "graph_send_recv(", IndexError),
            Bad(call(floats(3), np.array([4]), np.array([0])), "graph_send_recv(", IndexError),
            Bad(call(floats(), np.array([0]), np.array([0])), "graph_send_recv(x): expected a row for each node"),
        ],
    ),
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
]
