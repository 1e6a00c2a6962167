"""Images with their channels first: which values of a graph a device keeps with the channels last between programs.

CUDA's convolutions in half precision want the channels last, whatever the order of the axes says. Inside one program the
compiler sees to that; at the border of a program an array has its axes in order, so each image that crosses one would be
turned twice, and kept twice while its reader runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bireme.core.graph.graph import Graph, Sig


def last(sig: Sig) -> tuple[int, ...]:
    """The shape of an image as it is kept."""
    n, channels, *dims = sig.shape
    return (n, *dims, channels)


def turned(graph: Graph, live: Iterable[int]) -> frozenset[int]:
    """The values that cross with their channels last; those in `live` leave the engine, and stay as they are."""
    if graph.device.platform != "cuda":
        return frozenset()
    return frozenset(found(graph.nodes)) - frozenset(live)


def found(nodes: Sequence[Any]) -> set[int]:
    """What convolutions read and give, and what is computed of these element by element.

    An image that is taken for something else, or the other way round, costs time and changes no number.
    """
    images: set[int] = set()
    for node in nodes:
        images.update(_of_convolution(node))
    if images:
        for node in (*nodes, *reversed(nodes)):
            _spread(node, images)
    return images


def _of_convolution(node: Any) -> list[int]:
    root = node.bound.root
    if not root.uses_blas or "NCHW" not in root.attrs:
        return []
    return [i for i, sig in _values(node) if sig.ndim == 4 and sig.dtype.itemsize == 2]


def _values(node: Any) -> list[tuple[int, Sig]]:
    """The values that a call reads and gives, with their Sigs."""
    read = [(r, sig) for r, sig in zip(node.args, node.sigs) if r.__class__ is int and r >= 0]
    return [*read, *zip(node.made, node.outs)]


def _spread(node: Any, images: set[int]) -> None:
    if getattr(node.bound.op, "is_view", False):
        return
    values = _values(node)
    shapes = {sig.shape for i, sig in values if i in images}
    if shapes:
        images.update([i for i, sig in values if sig.shape in shapes])
