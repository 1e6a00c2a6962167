"""Messages along the edges of a graph: made from nodes and edges, and reduced at their destinations."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.declare.op import Attr, Tensor, composite
from bireme.ops.graph.segment_pool import POOLS, sent
from bireme.ops.indexing.gather import index_select
from bireme.ops.math.arithmetic import add, divide, multiply, subtract


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
    src, dst = _edges("graph_send_recv", src_index, dst_index)
    return _received(
        "graph_send_recv", "pool_type", x, index_select(_nodes("graph_send_recv(x)", x), src), dst, pool_type, out_size
    )


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


def _received(where: str, argument: str, x: Tensor, messages: Tensor, dst: Tensor, pool: str, out_size: Any) -> Tensor:
    if pool not in POOLS:
        raise errors.bad(f"{where}({argument})", f"one of {', '.join(map(repr, POOLS))}", pool)
    return sent(f"{where}({argument})", messages, dst, pool, out_size, x.shape[0])


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
    src, dst = _edges("send_u_recv", src_index, dst_index)
    return _received(
        "send_u_recv", "reduce_op", x, index_select(_nodes("send_u_recv(x)", x), src), dst, reduce_op, out_size
    )


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
    messages = _message("send_ue_recv", index_select(x, src), y, message_op)
    return _received("send_ue_recv", "reduce_op", x, messages, dst, reduce_op, out_size)


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
    left, right = index_select(_nodes("send_uv(x)", x), src), index_select(_nodes("send_uv(y)", y), dst)
    return _message("send_uv", left, right, message_op)
