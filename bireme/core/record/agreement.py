"""What processes that share a mesh agree on before each of its programs runs: how far it goes and what it returns.

A process may come to a run earlier than others: it alone reads a loss, or holds less. All run what the one that has
recorded least can run, and return what anyone needs; who has recorded more goes on with the rest. See decisions/051.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import jax
import numpy as np

from bireme.core.base import errors, mesh, shutdown
from bireme.core.base.mesh import Devices
from bireme.core.graph.graph import Graph, Node, Number, Value
from bireme.core.graph.segment import Segment, local
from bireme.core.processes.collectives import Call, Channel
from bireme.core.processes.connection import Connection
from bireme.core.run import lookup, mesh_run
from bireme.core.xla_exec import mesh_program

_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of an object, in the text of an attribute
_digests: WeakKeyDictionary[Graph, int] = WeakKeyDictionary()
RUN, READ, END = range(3)  # what a process has come to: a run, a tensor that others have parts of, its end
HEAD = np.dtype([("kind", "i4"), ("depth", "i4"), ("digest", "u4"), ("place", "i4"), ("live", "i4"), ("dead", "i4"),
                 ("text", "S200")])  # fmt: skip
_NONE = np.zeros(0, bool)


class Shared(Channel):
    """The processes that share the devices of meshes, and what they know of their programs."""

    is_mesh = True

    def __init__(self, connection: Connection, ranks: Sequence[int]):
        super().__init__(connection, ranks, (1 << 16) + zlib.crc32(repr(list(ranks)).encode()))
        self.runs = 0  # programs that were agreed on: which result of which run a value is, all processes know
        self.results: WeakValueDictionary[tuple[int, int], Value] = WeakValueDictionary()
        self.origins: WeakKeyDictionary[Value, tuple[int, int]] = WeakKeyDictionary()
        self.read: WeakKeyDictionary[Value, np.ndarray] = WeakKeyDictionary()  # what was made whole
        self.kept: list[Value] = []


class Offer(NamedTuple):
    """What one process has come to. For a run: how many calls it has recorded, a number that is the same for the same
    calls, and masks of what it would return and could give up. To read a tensor: the run and the index it came from.
    """

    kind: int
    depth: int
    digest: int
    place: int
    text: str
    live: np.ndarray = _NONE
    dead: np.ndarray = _NONE

    def told(self) -> bytes:
        head = np.zeros((), HEAD)
        fields = (self.kind, self.depth, self.digest, self.place, self.live.size, self.dead.size, self.text.encode())
        for name, x in zip(HEAD.names or (), fields):
            head[name] = x
        return head.tobytes() + np.packbits(self.live).tobytes() + np.packbits(self.dead).tobytes()


def _read(data: bytes) -> Offer:
    head = np.frombuffer(data[: HEAD.itemsize], HEAD)[0]
    live, dead = int(head["live"]), int(head["dead"])
    bits = np.frombuffer(data[HEAD.itemsize :], np.uint8)
    middle = -(-live // 8)
    masks = [np.unpackbits(part, count=n).astype(bool) for part, n in ((bits[:middle], live), (bits[middle:], dead))]
    kind, depth, digest, place = [int(head[name]) for name in ("kind", "depth", "digest", "place")]
    return Offer(kind, depth, digest, place, head["text"].decode(errors="replace"), masks[0], masks[1])


def _exchange(channel: Any, mine: Offer) -> list[Offer]:
    return [_read(data) for data in channel.gather_bytes(Call("mesh"), mine.told())]


def _come_together(channel: Shared, mine: Offer, v: Value | None = None) -> list[Offer] | None:
    """Meet the others until all have come to a run; on the way, tensors that some of them read are made whole.

    None once the tensor that this process reads, or everything at the end of all, is done.
    """
    while True:
        offers = _exchange(channel, mine)
        asked = [offer for offer in offers if offer.kind == READ]
        if asked:
            wanted = min(asked, key=lambda offer: (offer.depth, offer.place, offer.digest))
            own = mine.kind == READ and mine[1:4] == wanted[1:4]
            if _serve(channel, wanted, v if own else None, own) and own:
                return None
            continue
        if all(offer.kind == END for offer in offers):
            return None
        if any(offer.kind == END and offer.depth for offer in offers):
            if mine.kind == END and mine.depth:
                return offers  # others still run what this process has recorded
        elif mine.kind == RUN:
            return offers


def _serve(channel: Shared, wanted: Offer, own: Value | None, asks: bool) -> bool:
    """Make a tensor that some process reads whole in all of them, if all still have their part of it."""
    v = own if asks else channel.results.get((wanted.depth, wanted.place)) if wanted.depth >= 0 else None
    array = None if v is None else v.array
    fits = array is not None and not array.is_deleted() and _described(v) == wanted.digest
    told = channel.gather_bytes(Call("mesh read"), b"1" if fits else b"0")
    if not all(data == b"1" for data in told):
        lacking = [rank for rank, data in zip(channel.ranks, told) if data != b"1"]
        if asks:
            raise errors.bad(
                "value",
                "a tensor that this process has whole",
                described=f"one whose part in rank {', '.join(map(str, lacking))} is not there any more, or is not read there",
                hint="call unshard_dtensor(x) in all processes, or read x._local_value()",
                kind=errors.ArgumentError,
            )
        return False
    assert v is not None
    found = shutdown.within(_gathered, array, v.device)
    if asks:
        channel.read[v] = mesh.host(found, v.sig.shape, "value")
    return True


def _gathered(array: Any, device: Devices) -> Any:
    with jax.enable_x64(True):
        return jax.block_until_ready(jax.jit(lambda a: a, out_shardings=device.whole().sharding)(array))


def _described(v: Any) -> int:
    return zlib.crc32(f"{v.sig} {mesh.layout_of(v.array, v.device)}".encode())


def whole(v: Value) -> np.ndarray:
    """The numbers of a value on a mesh. What other processes have parts of, they help with as soon as they come to a
    run or to their end: it changes none of their programs.
    """
    array, channel = v.array, v.device.channel
    if channel is None or array.is_fully_addressable or array.is_fully_replicated:
        return shutdown.within(mesh.host, array, v.sig.shape, "value")
    if v not in channel.read:
        run, index = channel.origins.get(v, (-1, -1))
        mine = Offer(READ, run, _described(v), index, f"a read of {v.sig}")
        _come_together(channel, mine, v)
    return channel.read[v]


def finish(channel: Shared, run: Callable[[Segment], None]) -> None:
    """The end of this process: what the others still read is made whole, and what they still run is run with them."""
    with contextlib.suppress(errors.ProcessLostError, RuntimeError):
        while True:
            left = [seg for seg in (local.waiting, local.segment) if seg is not None and _waits(seg, channel)]
            depth = left[0].state.depth if left else 0
            if _come_together(channel, Offer(END, depth, 0, 0, "the end of the process")) is None:
                return
            run(left[0])


def _waits(seg: Segment, channel: Shared) -> bool:
    """Whether a segment of a mesh of these processes is still to run."""
    if seg.state.bound is None or not seg.device.several or seg.results or seg.error is not None:
        return False
    return seg.device.channel is channel


def run_pending(channel: Shared, run: Callable[[Segment], None]) -> None:
    """Run what this process has recorded for a mesh: it is about to wait for others, who may wait for that."""
    for seg in (local.waiting, local.segment):
        if seg is not None and _waits(seg, channel):
            run(seg)


def settle(seg: Segment, held: set[int]) -> list[Node]:
    """Agree with the other processes of the mesh; the segment then ends where all do. Returns the calls after that."""
    channel: Shared = seg.device.channel
    offers = _come_together(channel, _offer(seg, held)) or []
    channel.kept = []
    depth = min(offer.depth for offer in offers)
    later: list[Node] = []
    if any(offer.depth != depth for offer in offers) and depth:
        while seg.state.depth > depth:
            later.append(seg.state)
            assert seg.state.parent is not None, "a call has something before it"
            seg.state = seg.state.parent
        later.reverse()
        offers = _exchange(channel, _offer(seg, held, later))
    if len({offer[:3] for offer in offers}) > 1:
        told = "; ".join(f"{offer.text} in rank {rank}" for rank, offer in zip(channel.ranks, offers))
        raise errors.bad("mesh", "the same calls in all of its processes", described=told, kind=RuntimeError)
    live = np.logical_or.reduce([offer.live for offer in offers])
    dead = np.logical_and.reduce([offer.dead for offer in offers])
    seg.agreed = tuple(np.flatnonzero(live).tolist()), tuple(np.flatnonzero(dead).tolist())
    channel.runs += 1
    for i in seg.agreed[0]:
        v = seg.values[i]()
        if v is not None:
            channel.results[channel.runs, i] = v
            channel.origins[v] = (channel.runs, i)
    return later


def _offer(seg: Segment, held: set[int], later: list[Node] | None = None) -> Offer:
    """What this process could run now: what it holds, and what the calls after that read, are results."""
    state, device = seg.state, seg.device
    read = {r for node in later or () for r in node.args if r.__class__ is int}
    live = np.array([i in read or r() is not None for i, r in enumerate(seg.values[: state.end])], bool)
    unheld = [i for i, r in enumerate(seg.leaves[: state.leaves]) if ~i not in read and r() is None]
    dead = np.zeros(state.leaves, bool)
    dead[lookup.only_here(unheld, seg.arrays, held)] = True
    given = [mesh_program.placed(a, device) for a in seg.arrays[: state.leaves]]
    digest = zlib.crc32(repr((given, sorted(mesh_run.updates(seg).items()))).encode(), _digest(state, device))
    text = f"{state.depth} calls to {state.bound.op.name} at {errors.location(state.pos)}"
    return Offer(RUN, state.depth, digest, 0, text, live, dead)


def _digest(state: Node, device: Any) -> int:
    """A number that is the same in all processes for the same calls."""
    graph = state.graph
    if graph is None or graph.device is not device:
        graph = Graph(state, device)
    found = _digests.get(graph)
    if found is None:
        found = _digests[graph] = zlib.crc32(_ADDRESS.sub("", str(graph)).encode())
    return found


def rest(seg: Segment, later: list[Node], extend: Callable) -> Segment:
    """The calls after those that a segment has run, as a segment that reads its results: recorded once more."""
    assert seg.live is not None
    made = dict(zip(seg.live, seg.results[0]))
    _keep(seg, made)
    end, new = seg.state.end, Segment()
    new.device, new.closed, new.edges = seg.device, True, seg.edges
    places: dict[int, int] = {}  # what it reads of the first segment, and as which leaf

    def refer(r: int, sig: Any, key: list) -> None:
        if r >= end:
            key.append(r - end)
        elif r in places:
            key.append(~places[r])
        else:
            places[r] = len(new.leaves)
            source = seg.leaves[~r] if r < 0 else seg.values[r]
            new.leaves.append(source)
            new.arrays.append(seg.arrays[~r] if r < 0 else made[r])
            v = source()
            if v is not None:
                v.leaf_of, v.leaf = new, places[r]
            key.append(sig)

    for node in later:
        key: list[Any] = [node.bound]
        for r, sig in zip(node.args, node.sigs):
            if r.__class__ is Number:
                key.append(r.dtype)
                new.numbers.append(seg.numbers[r.place])
            else:
                refer(r, sig, key)
        found = tuple(key)
        known = new.state.get(found)
        operands = [(r.dtype, None) if r.__class__ is Number else _Shape(sig) for r, sig in zip(node.args, node.sigs)]
        new.state = extend(new.state, found, node.bound, operands) if known is None else known
    for r in seg.values[end:]:
        v = r()
        if v is not None and v.segment is seg:
            v.segment, v.index = new, v.index - end
        new.values.append(r)
    _hand_on(seg, new, places)
    return new


def _keep(seg: Segment, made: dict[int, Any]) -> None:
    """Hold what a run has returned until the next: the process that came earlier reads something of it."""
    channel: Shared = seg.device.channel
    sigs = lookup.graph_of(seg).value_sigs
    for i, array in made.items():
        v = seg.values[i]()
        if v is None:
            v = Value(sigs[i], array, seg.device)
            channel.results[channel.runs, i] = v
        channel.kept.append(v)


class _Shape:
    """An operand as `extend` looks at it."""

    def __init__(self, sig: Any):
        self.sig = sig


def _hand_on(seg: Segment, new: Segment, places: dict[int, int]) -> None:
    """What else a segment knows about the calls that are no longer its own."""
    end, depth = seg.state.end, seg.state.depth

    def moved(r: int | None) -> int | None:
        return None if r is None else r - end if r >= end else ~places[r] if r in places else None

    for g in [g for g in seg.guards if g.index >= end]:
        g.index, g.since = g.index - end, max(g.since - depth, 0)
        g.operand, g.result = moved(g.operand), moved(g.result)
        new.guards.append(g)
    seg.guards = [g for g in seg.guards if g not in new.guards]
    for leaf, found in (seg.leaf_guards or {}).items():
        if ~leaf in places:
            new.leaf_guards = {**(new.leaf_guards or {}), places[~leaf]: found}
    for seed, root in seg.links or ():
        if seed >= end:
            new.links = [*(new.links or ()), (seed - end, root if root.__class__ is not int else moved(root))]
    for r, leaf in seg.replaced:
        t = r()
        if t is not None and t._value.segment is new and ~leaf in places:
            new.replaced.append((r, places[~leaf]))
