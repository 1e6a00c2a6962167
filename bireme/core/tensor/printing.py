"""How tensors print: on the host, compiling nothing, in the form that Paddle gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors, mesh

_options: dict[str, Any] = {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": False}


def set_printoptions(precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
                     sci_mode: bool | None = None, linewidth: int | None = None) -> None:  # fmt: skip
    """Set how tensors are printed; what is not given stays as it is.

    Args:
        precision: Number of digits after the point. Default: None.
        threshold: Number of elements above which a tensor is summarized. Default: None.
        edgeitems: Number of elements at each end of a dimension in a summary. Default: None.
        sci_mode: Use scientific notation. Default: None.
        linewidth: Number of characters per line. Default: None.

    Examples:
        >>> bireme.set_printoptions(precision=2)
        >>> print(bireme.to_tensor([1.23456]))
        Tensor(shape=[1], dtype=float32, place=Place(cpu), stop_gradient=True,
               [1.23])
        >>> bireme.set_printoptions(precision=8)
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, n in given.items():
        if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0):
            raise errors.bad(f"set_printoptions({name})", "a non-negative integer", n, kind=errors.ArgumentTypeError)
    if sci_mode is not None and not isinstance(sci_mode, bool):
        raise errors.bad("set_printoptions(sci_mode)", "True or False", sci_mode, kind=errors.ArgumentTypeError)
    _options.update({k: v for k, v in (given | {"sci_mode": sci_mode}).items() if v is not None})


def describe(t: Any, title: str) -> str:
    """`Tensor(shape=[2], dtype=float32, place=Place(cpu), stop_gradient=True, [1., 2.])`, in two lines or more."""
    indent = len(title) + 1
    told = "" if mesh.Reader.told is None or not t.is_dist() else f" {mesh.Reader.told(t)}"
    head = f"{title}(shape={t.shape}, dtype={t.dtype.name}, place={t.place}, stop_gradient={t.stop_gradient},{told}"
    return f"{head}\n{' ' * indent}{layout(t, indent)})"


def layout(t: Any, indent: int) -> str:
    """The numbers alone, as text whose further lines are indented."""
    host = t._host()
    if host.dtype.isbuiltin != 1:  # not one of NumPy's own
        host = host.astype(np.float32)
    return _Layout(host).text(host, indent)


class _Layout:
    """How one array is laid out. Columns are as wide as what stands at the edges needs, cut short or not."""

    def __init__(self, host: np.ndarray):
        self.short = host.size > _options["threshold"]
        edges = _edges(host)
        self.signed = bool((edges < 0).any())
        self.width = max([len(_item(x)) for x in edges.ravel()], default=0)

    def text(self, part: np.ndarray, indent: int) -> str:
        if part.ndim == 0:
            return self.padded(part[()])
        if part.ndim == 1:
            return self.row(part, indent)
        blocks = self.cut([self.text(block, indent + 1) for block in _edge_rows(part, self.short)], len(part))
        return "[" + ("," + "\n" * (part.ndim - 1) + " " * (indent + 1)).join(blocks) + "]"

    def row(self, part: np.ndarray, indent: int) -> str:
        items = self.cut([self.padded(x) for x in _edge_rows(part, self.short)], len(part))
        n = max(1, (_options["linewidth"] - indent) // (self.width + 2))
        lines = [", ".join(items[i : i + n]) for i in range(0, len(items), n)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

    def cut(self, items: list[str], count: int) -> list[str]:
        """The texts with an ellipsis where some are left out."""
        edge = _options["edgeitems"]
        return items if len(items) == count else [*items[:edge], "...", *items[edge:]]

    def padded(self, x: Any) -> str:
        text = _item(x)
        sign = " " if self.signed and len(text) < self.width and not x < 0 else ""
        return (sign + text).ljust(self.width)


def _item(x: Any) -> str:
    if isinstance(x, np.floating):
        if _options["sci_mode"]:
            return f"{x:.{_options['precision']}e}"
        return f"{x:.0f}." if np.ceil(x) == x else f"{x:.{_options['precision']}f}"
    return str(x.item())


def _edge_rows(part: np.ndarray, short: bool) -> Any:
    """The rows that are shown."""
    edge = _options["edgeitems"]
    return [*part[:edge], *part[len(part) - edge :]] if short and len(part) > 2 * edge else part


def _edges(part: np.ndarray) -> np.ndarray:
    """The corners of an array: its first and last few along each axis."""
    edge = _options["edgeitems"]
    for axis, n in enumerate(part.shape):
        if n > 2 * edge:
            part = np.take(part, [*range(edge), *range(n - edge, n)], axis)
    return part
