"""The leaves of graphs that differ in shapes, as ranges: `float32[8, 16..512, 64]`."""

from __future__ import annotations

from typing import Any

from bireme.core.graph.graph import Sig


class Ranges:
    """Smallest and largest size of each axis of each leaf, over all graphs added; `alike` if all have as many leaves."""

    __slots__ = ("alike", "_last", "_leaves")

    def __init__(self) -> None:
        self.alike = True
        self._last: tuple[Sig, ...] | None = None
        self._leaves: list[dict[tuple[Any, int], tuple]] = []  # by leaf: by dtype and ndim, sizes from and to

    def add(self, sigs: tuple[Sig, ...]) -> None:
        """Take the leaves of one graph into account."""
        if self._last is None:
            self._leaves = [{} for _ in sigs]
        elif len(sigs) != len(self._last):
            self.alike = False
        if not self.alike:
            return
        for leaf, sig, last in zip(self._leaves, sigs, self._last or [None] * len(sigs)):
            if sig is not last:  # as only few are
                kind = sig.dtype, sig.ndim
                low, high = leaf.get(kind, (sig.shape, sig.shape))
                leaf[kind] = tuple(map(min, low, sig.shape)), tuple(map(max, high, sig.shape))
        self._last = sigs

    def copy(self) -> Ranges:
        """The same, to be added to."""
        made = Ranges()
        made.alike, made._last, made._leaves = self.alike, self._last, [dict(leaf) for leaf in self._leaves]
        return made

    @property
    def differing(self) -> dict[int, str]:
        """The leaves that are not the same in all graphs, in words."""
        found = {i: leaf for i, leaf in enumerate(self._leaves) if _differs(leaf)} if self.alike else {}
        return {i: " or ".join([_told(kind, *sizes) for kind, sizes in leaf.items()]) for i, leaf in found.items()}


def _differs(leaf: dict[tuple[Any, int], tuple]) -> bool:
    return len(leaf) > 1 or any(low != high for low, high in leaf.values())


def _told(kind: tuple[Any, int], low: tuple[int, ...], high: tuple[int, ...]) -> str:
    sizes = [str(a) if a == b else f"{a}..{b}" for a, b in zip(low, high)]
    return f"{kind[0].name}[{', '.join(sizes)}]"
