"""Sampling of neighbours in a graph, and renumbering of the nodes that were drawn.

Results have sizes that depend on values, so the operands are read and the host computes, as in a data loader; random
numbers come from the framework's stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors, random_state
from bireme.core.declare.op import Attr, Tensor, composite
from bireme.core.tensor.tensor import value_of
from bireme.ops.graph.message_passing import check_index


def made(array: np.ndarray) -> Tensor:
    return Tensor(value_of(array))


class Columns:
    """A graph by columns, on the host: the neighbours of node i are `row[colptr[i]:colptr[i + 1]]`."""

    def __init__(self, where: str, row: Tensor, colptr: Tensor, nodes: Tensor, nodes_name: str):
        for name, t in (("row", row), ("colptr", colptr), (nodes_name, nodes)):
            check_index(f"{where}({name})", t)
            if t.dtype is not row.dtype:
                raise errors.bad(f"{where}({name})", f"{row.dtype.name}, as row is", described=t.dtype.name)
        self.where, self.nodes_name = where, nodes_name
        self.row, self.colptr, self.nodes = (t._host().reshape(-1) for t in (row, colptr, nodes))
        if (
            not self.colptr.size
            or self.colptr[0] < 0
            or self.colptr[-1] > self.row.size
            or (np.diff(self.colptr) < 0).any()
        ):
            raise errors.bad(f"{where}(colptr)", f"non-decreasing integers in [0, {self.row.size}]", colptr)

    def edges(
        self, nodes: np.ndarray, most: int, rng: np.random.Generator, weight: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Indices into `row` of at most `most` random neighbours of each node (-1: all of them), and how many each node
        has.

        With weights, neighbours are drawn one after the other, each with a chance in proportion to its weight among
        those that are left: so do the first of independent exponential times with these rates come.
        """
        n = self.colptr.size - 1
        if nodes.size and (nodes.min() < 0 or nodes.max() >= n):
            wrong = int(nodes.min() if nodes.min() < 0 else nodes.max())
            raise errors.bad(
                f"{self.where}({self.nodes_name})", f"node ids in [0, {n - 1}]", wrong, kind=errors.OutOfRangeError
            )
        first = self.colptr[nodes].astype(np.int64)
        degree = self.colptr[nodes + 1].astype(np.int64) - first
        counts = degree if most < 0 else np.minimum(degree, most)
        many = np.flatnonzero(degree > most) if most >= 0 else np.zeros(0, np.int64)
        if many.size and (weight is not None or most * most > SORTED * int(degree[many].max())):
            return self._by_lot(first, degree, most, rng, weight), counts
        start = np.cumsum(counts) - counts
        place = np.repeat(first - start, counts)
        place += np.arange(place.size)
        if many.size and most:
            # each of these has `most` places in the result, one after the other
            place[start[many][:, None] + np.arange(most)] = first[many][:, None] + _chosen(degree[many], most, rng)
        return place, counts

    def _by_lot(
        self, first: np.ndarray, degree: np.ndarray, most: int, rng: np.random.Generator, weight: np.ndarray | None
    ) -> np.ndarray:
        """The first of all neighbours in random order."""
        owner = np.repeat(np.arange(first.size), degree)
        place = np.arange(owner.size) - (np.cumsum(degree) - degree)[owner]
        chance = rng.random(owner.size)
        if weight is not None:
            with np.errstate(divide="ignore"):
                chance = -np.log1p(-chance) / weight[first[owner] + place]
        order = np.lexsort((chance, owner))  # neighbours of each node in random order
        rank = np.empty(owner.size, np.int64)
        rank[order] = place
        kept = rank < most
        return first[owner[kept]] + place[kept]


SORTED = 64  # comparisons that take as long as putting one neighbour in order


def _chosen(n: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """`k` different integers below each of `n`, in increasing order, all choices with the same chance.

    Floyd's way, for all of them at a time: the one drawn below j + 1 or, if it is there already, j.
    """
    found = np.empty((n.size, k), np.int64)
    for i in range(k):
        j = n - k + i
        drawn = (rng.random(n.size) * (j + 1)).astype(np.int64)
        taken = (found[:, :i] == drawn[:, None]).any(1)
        found[:, i] = np.where(taken, j, drawn)
    found.sort(axis=1)
    return found


def stream() -> np.random.Generator:
    """A NumPy generator seeded from the framework's random stream."""
    return np.random.default_rng(random_state.next_key())


def drawn(
    where: str,
    row: Tensor,
    colptr: Tensor,
    nodes: Tensor,
    most: int,
    eids: Tensor | None,
    nodes_name: str,
    weight: np.ndarray | None = None,
) -> tuple[Tensor, ...]:
    """Neighbours of nodes, how many each has, and the IDs of the edges if there are any."""
    graph = Columns(where, row, colptr, nodes, nodes_name)
    place, counts = graph.edges(graph.nodes, most, stream(), weight)
    found = [made(graph.row[place]), made(counts.astype(np.int32))]
    return (*found, made(eids._host().reshape(-1)[place])) if eids is not None else tuple(found)


def _numbers(where: str, eids: Any, row: Tensor) -> Tensor:
    if not isinstance(eids, Tensor):
        raise errors.bad(where, "edge ids, since return_eids is True", eids)
    if eids._value.sig.size != row._value.sig.size or eids.dtype is not row.dtype:
        raise errors.bad(
            where,
            f"{row.size} elements of {row.dtype.name}",
            described=f"shape {eids.shape}, {eids.dtype.name}",
            kind=errors.ShapeError,
        )
    return eids


@composite()
def graph_sample_neighbors(row: Tensor, colptr: Tensor, input_nodes: Tensor, eids: Tensor | None = None,
                           perm_buffer: Tensor | None = None, sample_size: int = -1, return_eids: bool = False,
                           flag_perm_buffer: bool = False) -> tuple[Tensor, ...]:  # fmt: skip
    """Sample neighbors of nodes at random, without replacement.

    The graph is in compressed sparse column form: the neighbors of node ``i`` are ``row[colptr[i]:colptr[i + 1]]``.
    Results are computed on the host.

    Args:
        row: int32 or int64 tensor of the neighbors of all nodes, 1-D or a column.
        colptr: Where the neighbors of each node begin in ``row``, one more than there are nodes; of the same dtype.
        input_nodes: Nodes whose neighbors are sampled; of the same dtype.
        eids: IDs of the edges, as many as in ``row``; needed with ``return_eids``. Default: None.
        perm_buffer: Needed with ``flag_perm_buffer``, otherwise not used. Default: None.
        sample_size: Most neighbors of a node; ``-1`` means all of them. Default: -1.
        return_eids: Whether to return the IDs of the sampled edges. Default: False.
        flag_perm_buffer: Has no effect on the result. Default: False.

    Returns:
        The neighbors, one node after the other, the int32 number of them for each node and, with ``return_eids``, the
        IDs of their edges.

    Examples:
        >>> row, colptr = bireme.to_tensor([1, 2, 0]), bireme.to_tensor([0, 2, 3, 3])
        >>> neighbors, counts = bireme.incubate.graph_sample_neighbors(row, colptr, bireme.to_tensor([0, 1]))
        >>> neighbors.tolist(), counts.tolist()
        ([1, 2, 0], [2, 1])
    """
    if flag_perm_buffer and perm_buffer is None:
        raise errors.bad("graph_sample_neighbors(perm_buffer)", "a Tensor, since flag_perm_buffer is True", None)
    given = _numbers("graph_sample_neighbors(eids)", eids, row) if return_eids else None
    return drawn("graph_sample_neighbors", row, colptr, input_nodes, sample_size, given, "input_nodes")


@composite()
def sample_neighbors(row: Tensor, colptr: Tensor, input_nodes: Tensor, sample_size: int = -1,
                     eids: Tensor | None = None, return_eids: bool = False,
                     perm_buffer: Tensor | None = None) -> tuple[Tensor, ...]:  # fmt: skip
    """Sample neighbors of nodes at random, without replacement.

    The graph is in compressed sparse column form: the neighbors of node ``i`` are ``row[colptr[i]:colptr[i + 1]]``.
    Results are computed on the host.

    Args:
        row: int32 or int64 tensor of the neighbors of all nodes, 1-D or a column.
        colptr: Where the neighbors of each node begin in ``row``, one more than there are nodes; of the same dtype.
        input_nodes: Nodes whose neighbors are sampled; of the same dtype.
        sample_size: Most neighbors of a node; ``-1`` means all of them. Default: -1.
        eids: IDs of the edges, as many as in ``row``; needed with ``return_eids``. Default: None.
        return_eids: Whether to return the IDs of the sampled edges. Default: False.
        perm_buffer: Has no effect. Default: None.

    Returns:
        The neighbors, one node after the other, the int32 number of them for each node and, with ``return_eids``, the
        IDs of their edges.

    Examples:
        >>> row, colptr = bireme.to_tensor([1, 2, 0]), bireme.to_tensor([0, 2, 3, 3])
        >>> neighbors, counts = bireme.geometric.sample_neighbors(row, colptr, bireme.to_tensor([0, 1]))
        >>> neighbors.tolist(), counts.tolist()
        ([1, 2, 0], [2, 1])
    """
    given = _numbers("sample_neighbors(eids)", eids, row) if return_eids else None
    return drawn("sample_neighbors", row, colptr, input_nodes, sample_size, given, "input_nodes")


@composite()
def weighted_sample_neighbors(row: Tensor, colptr: Tensor, edge_weight: Tensor, input_nodes: Tensor,
                              sample_size: int = -1, eids: Tensor | None = None,
                              return_eids: bool = False) -> tuple[Tensor, ...]:  # fmt: skip
    """Sample neighbors of nodes without replacement, with chances in proportion to the weights of their edges.

    The graph is in compressed sparse column form: the neighbors of node ``i`` are ``row[colptr[i]:colptr[i + 1]]``.
    Results are computed on the host.

    Args:
        row: int32 or int64 tensor of the neighbors of all nodes, 1-D or a column.
        colptr: Where the neighbors of each node begin in ``row``, one more than there are nodes; of the same dtype.
        edge_weight: Non-negative weights of the edges, as many as in ``row``, of a floating-point dtype.
        input_nodes: Nodes whose neighbors are sampled; of the dtype of ``row``.
        sample_size: Most neighbors of a node; ``-1`` means all of them. Default: -1.
        eids: IDs of the edges, as many as in ``row``; needed with ``return_eids``. Default: None.
        return_eids: Whether to return the IDs of the sampled edges. Default: False.

    Returns:
        The neighbors, one node after the other, the int32 number of them for each node and, with ``return_eids``, the
        IDs of their edges.

    Examples:
        >>> row, colptr = bireme.to_tensor([1, 2, 0]), bireme.to_tensor([0, 2, 3, 3])
        >>> weight = bireme.to_tensor([0.0, 1.0, 1.0])
        >>> neighbors, counts = bireme.geometric.weighted_sample_neighbors(row, colptr, weight, bireme.to_tensor([0]), 1)
        >>> neighbors.tolist(), counts.tolist()
        ([2], [1])
    """
    where = "weighted_sample_neighbors"
    given = _numbers(f"{where}(eids)", eids, row) if return_eids else None
    weight = edge_weight._host().reshape(-1)
    if edge_weight.dtype.kind != "f":
        raise errors.bad(
            f"{where}(edge_weight)", "a floating-point dtype", described=edge_weight.dtype.name, kind=errors.DtypeError
        )
    if weight.size != row.size:
        raise errors.bad(
            f"{where}(edge_weight)", f"{row.size} elements, as row has", described=f"shape {edge_weight.shape}", kind=errors.ShapeError
        )  # fmt: skip
    if not (weight >= 0).all():
        raise errors.bad(f"{where}(edge_weight)", "non-negative numbers", float(weight[~(weight >= 0)][0]))
    return drawn(where, row, colptr, input_nodes, sample_size, given, "input_nodes", weight.astype(np.float64))


# ---------------------------------------------------------------- numbers


def renumbered(first: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """New IDs of `others`, and the nodes by new ID: `first` as they are, then the others in order of appearance.

    A node that is in `first` twice has the ID of its last occurrence.
    """
    both = np.concatenate([first, others])
    low, high = (int(both.min()), int(both.max()) + 1) if both.size else (0, 0)
    if high - low <= TABLE * both.size:
        keys, n = both - low, high - low
    else:
        known, keys = np.unique(both, return_inverse=True)
        n = known.size
    at = np.empty(n, np.int64)  # where each node is met first, and then its new ID
    at[keys[::-1]] = np.arange(both.size)[::-1]
    rest = keys[first.size :]
    fresh = rest[at[rest] == np.arange(first.size, both.size)]
    nodes = np.concatenate([first, others[at[fresh] - first.size]])
    at[fresh] = np.arange(first.size, nodes.size)
    at[keys[: first.size]] = np.arange(first.size)
    return at[rest], nodes


TABLE = 64  # a table of all IDs is filled in less time than IDs are sorted, if it has not more places for each


def reindexed(where: str, x: Tensor, neighbors: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, destinations and nodes of the edges with new IDs; `count` may go through the nodes several times."""
    for name, t in (("x", x), ("neighbors", neighbors), ("count", count)):
        check_index(f"{where}({name})", t)
    if neighbors.dtype is not x.dtype:
        raise errors.bad(f"{where}(neighbors)", f"{x.dtype.name}, as x is", described=neighbors.dtype.name)
    first, others, counts = (t._host().reshape(-1) for t in (x, neighbors, count))
    if (
        (first.size and counts.size % first.size)
        or (not first.size and counts.size)
        or (counts.size and counts.min() < 0)
    ):
        raise errors.bad(
            f"{where}(count)",
            f"non-negative integers, a multiple of the {first.size} nodes in number",
            count,
            kind=errors.for_number(count),
        )
    if counts.sum() != others.size:
        raise errors.bad(
            f"{where}(count)",
            f"counts that sum to {others.size}, the number of neighbors",
            described=f"a sum of {int(counts.sum())}",
        )
    src, nodes = renumbered(first, others)
    own = renumbered(first, first)[0] if first.size else np.zeros(0, np.int64)
    dst = np.repeat(np.tile(own, counts.size // first.size if first.size else 0), counts)
    return made(src.astype(first.dtype)), made(dst.astype(first.dtype)), made(nodes)


@composite()
def graph_reindex(x: Tensor, neighbors: Tensor, count: Tensor, value_buffer: Tensor | None = None,
                  index_buffer: Tensor | None = None,
                  flag_buffer_hashtable: bool = False) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Renumber sampled nodes and their neighbors from 0.

    Nodes of ``x`` come first, then the other neighbors in order of appearance.

    Args:
        x: int32 or int64 tensor of nodes, 1-D or a column.
        neighbors: Their neighbors, one node after the other; of the same dtype.
        count: Number of neighbors of each node.
        value_buffer: Needed with ``flag_buffer_hashtable``, otherwise not used. Default: None.
        index_buffer: Needed with ``flag_buffer_hashtable``, otherwise not used. Default: None.
        flag_buffer_hashtable: Has no effect on the result. Default: False.

    Returns:
        New IDs of the sources of the edges (the neighbors), of their destinations, and the original nodes in the order
        of their new IDs.

    Examples:
        >>> x, neighbors = bireme.to_tensor([5, 7]), bireme.to_tensor([9, 7, 5])
        >>> count = bireme.to_tensor([2, 1], dtype="int32")
        >>> [t.tolist() for t in bireme.incubate.graph_reindex(x, neighbors, count)]
        [[2, 1, 0], [0, 0, 1], [5, 7, 9]]
    """
    if flag_buffer_hashtable and (value_buffer is None or index_buffer is None):
        raise errors.bad("graph_reindex(value_buffer)", "two buffers, since flag_buffer_hashtable is True", None)
    return reindexed("graph_reindex", x, neighbors, count)


@composite()
def reindex_graph(x: Tensor, neighbors: Tensor, count: Tensor, value_buffer: Tensor | None = None,
                  index_buffer: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Renumber sampled nodes and their neighbors from 0.

    Nodes of ``x`` come first, then the other neighbors in order of appearance.

    Args:
        x: int32 or int64 tensor of nodes, 1-D or a column.
        neighbors: Their neighbors, one node after the other; of the same dtype.
        count: Number of neighbors of each node.
        value_buffer: Has no effect. Default: None.
        index_buffer: Has no effect. Default: None.

    Returns:
        New IDs of the sources of the edges (the neighbors), of their destinations, and the original nodes in the order
        of their new IDs.

    Examples:
        >>> x, neighbors = bireme.to_tensor([5, 7]), bireme.to_tensor([9, 7, 5])
        >>> count = bireme.to_tensor([2, 1], dtype="int32")
        >>> [t.tolist() for t in bireme.geometric.reindex_graph(x, neighbors, count)]
        [[2, 1, 0], [0, 0, 1], [5, 7, 9]]
    """
    return reindexed("reindex_graph", x, neighbors, count)


@composite()
def reindex_heter_graph(x: Tensor, neighbors: list[Tensor], count: list[Tensor], value_buffer: Tensor | None = None,
                        index_buffer: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Renumber sampled nodes and their neighbors in a graph with edges of several types.

    Nodes of ``x`` come first, then the other neighbors in order of appearance, one type after the other.

    Args:
        x: int32 or int64 tensor of nodes, 1-D or a column.
        neighbors: Their neighbors, a tensor for each type of edges, one node after the other; of the same dtype.
        count: Number of neighbors of each node, a tensor for each type.
        value_buffer: Has no effect. Default: None.
        index_buffer: Has no effect. Default: None.

    Returns:
        New IDs of the sources of the edges (the neighbors), of their destinations, and the original nodes in the order
        of their new IDs; edges of one type after the other.

    Examples:
        >>> x = bireme.to_tensor([5, 7])
        >>> neighbors = [bireme.to_tensor([9, 7, 5]), bireme.to_tensor([5, 8])]
        >>> count = [bireme.to_tensor([2, 1], dtype="int32"), bireme.to_tensor([1, 1], dtype="int32")]
        >>> [t.tolist() for t in bireme.geometric.reindex_heter_graph(x, neighbors, count)]
        [[2, 1, 0, 0, 3], [0, 0, 1, 0, 1], [5, 7, 9, 8]]
    """
    where = "reindex_heter_graph"
    if not neighbors or len(neighbors) != len(count):
        raise errors.bad(
            f"{where}(count)", f"{len(neighbors)} tensors, as neighbors has, at least one", described=f"{len(count)}"
        )
    for i, (near, number) in enumerate(zip(neighbors, count)):
        check_index(f"{where}(neighbors[{i}])", near)
        check_index(f"{where}(count[{i}])", number)
        if near.dtype is not x.dtype:
            raise errors.bad(f"{where}(neighbors[{i}])", f"{x.dtype.name}, as x is", described=near.dtype.name)
        if number.size != x.size:
            raise errors.bad(
                f"{where}(count[{i}])", f"{x.size} integers, one for each node", described=f"{number.size}"
            )
    near, number = (made(np.concatenate([t._host().reshape(-1) for t in parts])) for parts in (neighbors, count))
    return reindexed(where, x, near, number)


@composite()
def graph_khop_sampler(row: Tensor, colptr: Tensor, input_nodes: Tensor, sample_sizes: Attr[Sequence[int]],
                       sorted_eids: Attr[Tensor] = None, return_eids: bool = False) -> tuple[Tensor, ...]:  # fmt: skip
    """Sample neighbors over several hops and renumber the subgraph from 0.

    Each hop samples neighbors of the nodes that the one before has reached first. The graph is in compressed sparse
    column form: the neighbors of node ``i`` are ``row[colptr[i]:colptr[i + 1]]``.

    Args:
        row: int32 or int64 tensor of the neighbors of all nodes, 1-D or a column.
        colptr: Where the neighbors of each node begin in ``row``, one more than there are nodes; of the same dtype.
        input_nodes: Nodes to start from; of the same dtype.
        sample_sizes: List or tuple with the most neighbors of a node in each hop; ``-1`` means all of them.
        sorted_eids: IDs of the edges, as many as in ``row``; needed with ``return_eids``. Default: None.
        return_eids: Whether to return the IDs of the sampled edges. Default: False.

    Returns:
        New IDs of the sources and of the destinations of the edges, each of shape ``[number of edges, 1]``, the
        original nodes in the order of their new IDs, the new IDs of ``input_nodes`` and, with ``return_eids``, the IDs
        of the edges.

    Examples:
        >>> row, colptr = bireme.to_tensor([1, 2, 0]), bireme.to_tensor([0, 2, 3, 3])
        >>> [t.tolist() for t in bireme.incubate.graph_khop_sampler(row, colptr, bireme.to_tensor([1]), [1, 2])]
        [[[1], [0], [2]], [[0], [1], [1]], [1, 0, 2], [0]]
    """
    where = "graph_khop_sampler"
    given = _numbers(f"{where}(sorted_eids)", sorted_eids, row) if return_eids else None
    if not isinstance(sample_sizes, tuple) or not all(isinstance(n, int) for n in sample_sizes):
        raise errors.bad(
            f"{where}(sample_sizes)",
            "a list of integers, one for each step",
            sample_sizes,
            kind=errors.ArgumentTypeError,
        )
    graph, rng = Columns(where, row, colptr, input_nodes, "input_nodes"), stream()
    ahead, seen = np.unique(graph.nodes), np.zeros(0, graph.row.dtype)
    sources, targets, places = [], [], []
    for most in sample_sizes:
        place, counts = graph.edges(ahead, most, rng)
        sources.append(graph.row[place])
        targets.append(np.repeat(ahead, counts))
        places.append(place)
        seen = np.union1d(seen, ahead)
        ahead = np.setdiff1d(sources[-1], seen)
    src, dst = [np.concatenate(parts) if parts else np.zeros(0, graph.row.dtype) for parts in (sources, targets)]
    order = renumbered(graph.nodes[np.sort(np.unique(graph.nodes, return_index=True)[1])], src)[1]
    by_node = np.argsort(order)
    columns = [
        by_node[np.searchsorted(order, part, sorter=by_node)].astype(order.dtype) for part in (src, dst, graph.nodes)
    ]
    found = [made(columns[0].reshape(-1, 1)), made(columns[1].reshape(-1, 1)), made(order), made(columns[2])]
    if given is not None:
        found.append(
            made(given._host().reshape(-1)[np.concatenate(places) if places else np.zeros(0, np.int64)].reshape(-1, 1))
        )
    return tuple(found)
