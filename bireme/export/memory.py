"""Where values lie in one block of memory: those that are never needed at the same time share a place."""

from __future__ import annotations

from collections.abc import Iterable

from bireme.export.graph import ALIASES, Graph, Value

ALIGNMENT = 64


def home(graph: Graph) -> dict[Value, Value]:
    """The value whose memory each value has: a reshaped one has that of its operand."""
    found: dict[Value, Value] = {}
    outputs = set(graph.outputs)
    for call in graph.calls:
        source = call.inputs[0] if call.inputs else None
        if call.op in ALIASES and source is not None and source.data is None and call.outputs[0] not in outputs:
            found[call.outputs[0]] = found.get(source, source)
    return found


def placed(graph: Graph, scratch: Iterable[int]) -> tuple[dict[Value, int], list[int], int]:
    """Offsets of values, of the scratch of each call, and the bytes of all.

    The largest come first, each at the lowest place that is free for as long as it lives.
    """
    homes = home(graph)
    lives: dict[Value, tuple[int, int]] = {}
    outside = {*graph.inputs, *graph.outputs}
    for at, call in enumerate(graph.calls):
        for value in (*call.inputs, *call.outputs):
            if value is None or value.data is not None:
                continue
            held = homes.get(value, value)
            if held not in outside:
                first, _ = lives.get(held, (at, at))
                lives[held] = (first, at)
    wanted: list[tuple[int, int, int, Value | int]] = [
        (value.size * value.dtype.itemsize, first, last, value) for value, (first, last) in lives.items()
    ]
    needed = list(scratch)
    wanted += [(size, at, at, at) for at, size in enumerate(needed) if size]
    taken: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    places: dict[Value | int, int] = {}
    for size, first, last, owner in sorted(wanted, key=lambda w: -w[0]):
        size = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for low, high, begin, end in sorted(taken):
            if begin <= last and first <= end:  # lives at the same time
                if low - offset >= size:
                    break
                offset = max(offset, high)
        taken.append((offset, offset + size, first, last))
        places[owner] = offset
    total = max((high for _, high, _, _ in taken), default=0)
    values = {owner: offset for owner, offset in places.items() if isinstance(owner, Value)}
    return values, [places.get(at, 0) for at in range(len(needed))], total
