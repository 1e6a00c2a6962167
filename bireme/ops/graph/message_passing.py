"""Messages along the edges of a graph: made from nodes and edges, and reduced at their destinations."""

from __future__ import annotations

import math
from typing import Any

from bireme.core.base import errors
from bireme.core.declare.conversion import check_range
from bireme.core.declare.op import Attr, Tensor, composite
from bireme.ops.graph.segment_pool import POOLS, pool_rows, sum_neighbors
from bireme.ops.indexing.gather import index_select
from bireme.ops.math.arithmetic import add, divide, multiply, subtract
from bireme.ops.sparse.products import coo_product


def check_index(where: str, x: Tensor) -> None:
    """Raise for what is no list of nodes."""
    if x.dtype.name not in ("int32", "int64"):
        raise errors.bad(where, "int32 or int64", described=x.dtype.name, kind=errors.DtypeError)
    if x.ndim > 2 or x.ndim < 1 or (x.ndim == 2 and x.shape[1] != 1):
        raise errors.bad(where, "a 1-D tensor or shape [N, 1]", described=f"shape {x.shape}", kind=errors.ShapeError)


@composite(hands={"index": "src_index"})
def graph_send_recv(x: Tensor, src_index: Tensor, dst_index: Tensor, pool_type: str = "sum",
                    out_size: Attr[int | Tensor] = None) -> Tensor:  # fmt: skip
    """Send rows of node features along the edges of a graph and reduce them at their destinations.

    Args:
        x: Features of the nodes, one row for each.
        src_index: int32 or int64 tensor of the source node of each edge, 1-D or a column.
        dst_index: Destination node of each edge, of the same shape and dtype.
        pool_type: How rows that meet at a node are reduced: ``'sum'``, ``'mean'``, ``'max'`` or ``'min'``. Default:
            ``'sum'``.
        out_size: Number of rows of the result; ``None`` or less than 1 means as many as in ``x``. Default: None.

    Returns:
        Tensor with a row for each node; rows without incoming edges are zero.

    Examples:
        >>> x = bireme.to_tensor([[1.0], [2.0], [4.0]])
        >>> src, dst = bireme.to_tensor([0, 1, 2]), bireme.to_tensor([1, 1, 0])
        >>> bireme.incubate.graph_send_recv(x, src, dst).tolist()
        [[4.0], [3.0], [0.0]]
    """
    return _sent("graph_send_recv", "pool_type", x, src_index, dst_index, pool_type, out_size)


def _nodes(where: str, x: Tensor) -> Tensor:
    if not x.ndim:
        raise errors.bad(where, "a row for each node", described="a 0-D tensor")
    return x


def _edges(where: str, src_index: Tensor, dst_index: Tensor) -> list[Tensor]:
    """Sources and destinations, as vectors of one length and dtype."""
    for name, index in (("src_index", src_index), ("dst_index", dst_index)):
        check_index(f"{where}({name})", index)
    if src_index.dtype is not dst_index.dtype:
        raise errors.bad(
            f"{where}(dst_index)", f"{src_index.dtype.name}, as src_index is", described=dst_index.dtype.name
        )
    src, dst = [t if t.ndim == 1 else t.reshape([-1]) for t in (src_index, dst_index)]
    if src.shape != dst.shape:
        raise errors.bad(
            f"{where}(dst_index)", f"{src.shape[0]} elements, as src_index has", described=f"{dst.shape[0]}"
        )
    return [src, dst]


def _rows(where: str, x: Tensor, out_size: Any) -> int:
    """How many rows the result has."""
    if isinstance(out_size, Tensor):
        out_size = int(out_size.item())
    return x.shape[0] if out_size is None or out_size <= 0 else int(out_size)


def _check_pool(where: str, pool: str) -> None:
    if pool not in POOLS:
        raise errors.bad(where, f"one of {', '.join(map(repr, POOLS))}", pool)


def _sent(
    name: str, argument: str, x: Tensor, src_index: Tensor, dst_index: Tensor, pool: str, out_size: Any
) -> Tensor:
    """Rows of nodes sent along edges, and reduced where they arrive."""
    src, dst = _edges(name, src_index, dst_index)
    _nodes(f"{name}(x)", x)
    _check_pool(f"{name}({argument})", pool)
    rows = _rows(name, x, out_size)
    with errors.within(name, src="src_index", dst="dst_index", index="dst_index"):
        if pool in ("sum", "mean") and x.dtype.kind in "fi":
            return sum_neighbors(x, src, dst, rows, pool == "mean")
        return pool_rows(_read(name, x, src, "src_index"), dst, pool, rows)


def _read(name: str, x: Tensor, index: Tensor, argument: str) -> Tensor:
    """Rows at the ends of edges: nodes are counted from 0 alone."""
    check_range(f"{name}({argument})", index, 0, x.shape[0])
    return index_select(x, index)


MESSAGES: dict[str, Any] = {"add": add, "sub": subtract, "mul": multiply, "div": divide}


def _message(where: str, x: Tensor, y: Tensor, message_op: str) -> Tensor:
    """Two operands of each edge together; features broadcast behind the first axis, and there are some."""
    if message_op not in MESSAGES:
        raise errors.bad(f"{where}(message_op)", f"one of {', '.join(map(repr, MESSAGES))}", message_op)
    for name, t in (("x", x), ("y", y)):
        if t.dtype.kind not in "fi":
            raise errors.bad(f"{where}({name})", "real numbers", described=t.dtype.name, kind=errors.DtypeError)
    most = max(x.ndim, y.ndim, 2)
    left, right = [
        t if t.ndim == most else t.reshape([t.shape[0], *[1] * (most - t.ndim), *t.shape[1:]]) for t in (x, y)
    ]
    return MESSAGES[message_op](left, right)


@composite(hands={"index": "src_index"})
def send_u_recv(x: Tensor, src_index: Tensor, dst_index: Tensor, reduce_op: str = "sum",
                out_size: Attr[int | Tensor] = None) -> Tensor:  # fmt: skip
    """Send rows of node features along the edges of a graph and reduce them at their destinations.

    Args:
        x: Features of the nodes, one row for each.
        src_index: int32 or int64 tensor of the source node of each edge, 1-D or a column.
        dst_index: Destination node of each edge, of the same shape and dtype.
        reduce_op: How rows that meet at a node are reduced: ``'sum'``, ``'mean'``, ``'max'`` or ``'min'``. Default:
            ``'sum'``.
        out_size: Number of rows of the result; ``None`` or less than 1 means as many as in ``x``. Default: None.

    Returns:
        Tensor with a row for each node; rows without incoming edges are zero.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> x = bireme.to_tensor([[1.0], [2.0], [4.0]])
        >>> src, dst = bireme.to_tensor([0, 1, 2]), bireme.to_tensor([1, 1, 0])
        >>> bireme.geometric.send_u_recv(x, src, dst, "mean").tolist()
        [[4.0], [1.5], [0.0]]
    """
    return _sent("send_u_recv", "reduce_op", x, src_index, dst_index, reduce_op, out_size)


def _heads(x: Tensor, y: Tensor) -> int:
    """How many numbers an edge has for equal parts of a node's row, as for the heads of attention; 0: it is not so."""
    dims, per_edge = x.shape[1:], y.shape[1:]
    per_edge = [1] * (len(dims) - len(per_edge)) + per_edge
    dims = [1] * (len(per_edge) - len(dims)) + dims
    k = next((i for i, n in enumerate(per_edge) if n == 1), len(per_edge))
    same = x.dtype is y.dtype and x.dtype.kind == "f" and len(x.shape[1:]) == len(dims)
    if not same or not x.size or per_edge[:k] != dims[:k] or any(n != 1 for n in per_edge[k:]):
        return 0
    return math.prod(per_edge)


@composite(hands={"index": "src_index"})
def send_ue_recv(x: Tensor, y: Tensor, src_index: Tensor, dst_index: Tensor, message_op: str = "add",
                 reduce_op: str = "sum", out_size: Attr[int | Tensor] = None) -> Tensor:  # fmt: skip
    """Combine node features with edge features, send them along the edges and reduce them at their destinations.

    Args:
        x: Features of the nodes, one row for each.
        y: Features of the edges, one row for each; other axes broadcast with those of ``x``.
        src_index: int32 or int64 tensor of the source node of each edge, 1-D or a column.
        dst_index: Destination node of each edge, of the same shape and dtype.
        message_op: How the two are combined: ``'add'``, ``'sub'``, ``'mul'`` or ``'div'``. Default: ``'add'``.
        reduce_op: How rows that meet at a node are reduced: ``'sum'``, ``'mean'``, ``'max'`` or ``'min'``. Default:
            ``'sum'``.
        out_size: Number of rows of the result; ``None`` or less than 1 means as many as in ``x``. Default: None.

    Returns:
        Tensor with a row of at least one feature for each node; rows without incoming edges are zero.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> x, y = bireme.to_tensor([[1.0], [2.0], [4.0]]), bireme.to_tensor([[10.0], [20.0], [30.0]])
        >>> src, dst = bireme.to_tensor([0, 1, 2]), bireme.to_tensor([1, 1, 0])
        >>> bireme.geometric.send_ue_recv(x, y, src, dst, "mul", "sum").tolist()
        [[120.0], [50.0], [0.0]]
    """
    src, dst = _edges("send_ue_recv", src_index, dst_index)
    _nodes("send_ue_recv(x)", x)
    if not y.ndim or y.shape[0] != src.shape[0]:
        raise errors.bad(
            "send_ue_recv(y)",
            f"{src.shape[0]} rows, one for each edge",
            described=f"shape {y.shape}",
            kind=errors.ShapeError,
        )
    _check_pool("send_ue_recv(reduce_op)", reduce_op)
    rows = _rows("send_ue_recv", x, out_size)
    with errors.within("send_ue_recv", values="y", rows="dst_index", cols="src_index", index="dst_index"):
        heads = _heads(x, y) if (message_op, reduce_op) == ("mul", "sum") else 0
        if not heads:
            messages = _message("send_ue_recv", _read("send_ue_recv", x, src, "src_index"), y, message_op)
            return pool_rows(messages, dst, reduce_op, rows)
        dims = x.shape[1:] or [1]
        flat = x if x.ndim == 2 else x.reshape([x.shape[0], math.prod(dims)])
        values = y.reshape([-1] if heads == 1 else [y.shape[0], heads])
        out = coo_product(values, dst, src, flat, rows)
        return out if x.ndim == 2 else out.reshape([rows, *dims])


@composite(hands={"index": "src_index"})
def send_uv(x: Tensor, y: Tensor, src_index: Tensor, dst_index: Tensor, message_op: str = "add") -> Tensor:
    """Combine the features of both ends of each edge.

    Args:
        x: Features of the nodes as sources, one row for each.
        y: Features of the nodes as destinations, one row for each; other axes broadcast with those of ``x``.
        src_index: int32 or int64 tensor of the source node of each edge, 1-D or a column.
        dst_index: Destination node of each edge, of the same shape and dtype.
        message_op: How the two are combined: ``'add'``, ``'sub'``, ``'mul'`` or ``'div'``. Default: ``'add'``.

    Returns:
        Tensor with a row of at least one feature for each edge.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> x, y = bireme.to_tensor([[1.0], [2.0], [4.0]]), bireme.to_tensor([[10.0], [20.0], [30.0]])
        >>> src, dst = bireme.to_tensor([0, 1, 2]), bireme.to_tensor([1, 1, 0])
        >>> bireme.geometric.send_uv(x, y, src, dst).tolist()
        [[21.0], [22.0], [14.0]]
    """
    src, dst = _edges("send_uv", src_index, dst_index)
    _nodes("send_uv(x)", x), _nodes("send_uv(y)", y)
    left, right = _read("send_uv", x, src, "src_index"), _read("send_uv", y, dst, "dst_index")
    return _message("send_uv", left, right, message_op)
