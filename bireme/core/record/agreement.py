"""What processes that share a mesh agree on before each of its programs runs: how far it goes and what it returns.

A process may come to a run earlier than others: it alone reads a loss, or holds less. All run what the one that has
recorded least can run, and return what anyone needs; who has recorded more goes on with the rest. See decisions/051.
Where one has made calls that others have not, all run the calls that they have in common; the others are left to the
process that made them. See decisions/068.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import jax
import numpy as np

from bireme.core.base import errors, mesh, shutdown
from bireme.core.base.mesh import Devices
from bireme.core.graph.graph import Graph, Node, Value
from bireme.core.graph.segment import Segment, local
from bireme.core.processes.collectives import Call, Channel
from bireme.core.processes.connection import Connection
from bireme.core.record import lone_calls
from bireme.core.run import lookup, mesh_run
from bireme.core.xla_exec import mesh_program

_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of an object, in the text of an attribute
_digests: WeakKeyDictionary[Graph, int] = WeakKeyDictionary()
RUN, READ, END = range(3)  # what a process has come to: a run, a tensor that others have parts of, its end
HEAD = np.dtype([("kind", "i4"), ("depth", "i4"), ("digest", "u4"), ("place", "i4"), ("live", "i4"), ("dead", "i4"),
                 ("text", "S200")])  # fmt: skip
_NONE = np.zeros(0, bool)
FEW = 64  # calls on what is whole that a process which reads their result computes without asking
MOST_TOLD = 3  # operands of a call that are told of


class Need(IntEnum):
    """Why a process runs a segment: it is a good place for a cut, a call reads a result, or the user does."""

    CUT = 0
    OPERAND = 1
    NUMBERS = 2


class Engine(NamedTuple):
    """What `flush` has for a run: how a segment is executed, taken back, filled and run, a step is added, and what others
    hold.
    """

    execute: Callable[[Segment], None]
    take_back: Callable[[Segment], None]
    fill: Callable[[Segment], None]
    run: Callable[[Segment], None]
    extend: Callable
    held: Callable[[Segment], set[int]]


class Shared(Channel):
    """The processes that share the devices of meshes, and what they know of their programs."""

    is_mesh = True

    def __init__(self, connection: Connection, ranks: Sequence[int]):
        super().__init__(connection, ranks, (1 << 16) + zlib.crc32(repr(list(ranks)).encode()))
        self.runs = 0  # programs that were agreed on: which result of which run a value is, all processes know
        self.read: WeakKeyDictionary[Value, np.ndarray] = WeakKeyDictionary()  # what was made whole
        self.names = lone_calls.Names()
        self._sites: Counter[int] = Counter()
        self.gathered: WeakKeyDictionary[Segment, dict[int, np.ndarray]] = WeakKeyDictionary()  # leaves, made whole
        self.deferred: list[ref[Segment]] = []  # segments that others had nothing in common with, when they met
        self.kept: list[Any] = []  # arrays of the last run, which a process that made calls of its own may ask for

    def divided(self, array: Any, devices: Devices) -> None:
        """Name an array that each process has divided itself: by the line of the user, and how often it was made there."""
        site = -2 - (zlib.crc32(errors.location(errors.position()).encode()) >> 2)
        self._sites[site] += 1
        self.names.set(array, (site, self._sites[site]), devices)


class Offer(NamedTuple):
    """What one process has come to. For a run: how many calls it has recorded, a number that is the same for the same
    calls, why (as `place`), and masks of what it would return and could give up. To read a tensor: the run and the index
    it came from.
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
    array, device = channel.names.find((wanted.depth, wanted.place))
    if own is not None:
        array, device = own.array, own.device
    fits = array is not None and not array.is_deleted() and _described(array, device) == wanted.digest
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
    found = shutdown.within(_gathered, array, device)
    if own is not None:
        channel.read[own] = mesh.host(found, own.sig.shape, "value")
    return True


def _gathered(array: Any, device: Devices) -> Any:
    with jax.enable_x64(True):
        return jax.block_until_ready(jax.jit(lambda a: a, out_shardings=device.whole().sharding)(array))


def _described(array: Any, device: Devices) -> int:
    return zlib.crc32(f"{array.dtype}{array.shape} {mesh.layout_of(array, device)}".encode())


def whole(v: Value) -> np.ndarray:
    """The numbers of a value on a mesh. What other processes have parts of, they help with as soon as they come to a
    run or to their end: it changes none of their programs.
    """
    array, channel = v.array, v.device.channel
    if channel is None or array.is_fully_addressable or array.is_fully_replicated:
        return shutdown.within(mesh.host, array, v.sig.shape, "value")
    if v not in channel.read:
        name = channel.names.get(array)
        run, index = name if isinstance(name, tuple) else (-1, -1)
        mine = Offer(READ, run, _described(array, v.device), index, f"a read of {v.sig}")
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


def run(seg: Segment, wanted: Value | None, need: Need, engine: Engine) -> Segment | None:
    """Run a segment with the other processes of its mesh, as far as they agree; returned is what is left of it.

    It is left as it is where others have nothing of it in common with this process, and nothing of it is needed now.
    """
    channel: Shared = seg.device.channel
    if seg.lone:
        _run_alone(channel, seg, engine)
        return None
    if _is_local(seg):  # others may be anywhere, as in a collective of another group
        _run_alone(channel, seg, engine)
        return None
    while True:
        offers = _come_together(channel, _offer(seg, engine.held(seg), need=need)) or []
        told = "; ".join(f"{offer.text} in rank {rank}" for rank, offer in zip(channel.ranks, offers))
        ended = any(offer.kind == END for offer in offers)
        if not ended:
            found = _run_same(channel, seg, offers, need, engine)
            if found is None:
                found = _run_common(channel, seg, need, engine)
            if found is not None:
                return found[0]
        runs = {rank: offer for rank, offer in zip(channel.ranks, offers) if offer.kind == RUN}
        readers = [(offer.depth, rank) for rank, offer in runs.items() if offer.place == Need.NUMBERS]
        # one after another, the shortest way first: who made calls of its own may then come to those of the others
        if readers and min(readers)[1] == channel.ranks[channel.index] and wanted is not None:
            try:
                _read_alone(channel, seg, wanted, engine)
            except errors.ArgumentError as e:
                raise _differ(told) from e
            channel.deferred.append(ref(seg))
            return None
        if not readers:
            if ended or all(offer.place == Need.OPERAND for offer in runs.values()):
                raise _differ(told)
            if need == Need.CUT:
                channel.deferred.append(ref(seg))
                return None


def _differ(told: str) -> Exception:
    if len({one.rpartition(" in rank ")[0] for one in told.split("; ")}) == 1:
        told += ", on other tensors or numbers: a line that divides one has to run equally often in all of them"
    return errors.bad(
        "mesh",
        "the same calls in all of its processes",
        described=told,
        hint="a process alone can compute with what it has whole, and with results that the others still have",
        kind=RuntimeError,
    )


def _is_local(seg: Segment) -> bool:
    """Whether a segment is few calls on what this process has whole."""
    return seg.state.depth <= FEW and not mesh_run.updates(seg) and lone_calls.is_local(seg, lone_calls.calls(seg))


def read_here(seg: Segment, v: Value, engine: Engine) -> bool:
    """Whether the numbers of a pending value could be computed without the others, of what is whole by few calls. It
    stays pending, and its segment open: a read by one process is no cut of anybody's program.
    """
    way = lone_calls.needed(lone_calls.calls(seg), [v.index])
    if seg.lone or len(way) > FEW or not lone_calls.is_local(seg, way) or _is_local(seg):
        return False
    _read_alone(seg.device.channel, seg, v, engine)
    return True


def _run_same(
    channel: Shared, seg: Segment, offers: list[Offer], need: Need, engine: Engine
) -> tuple[Segment | None] | None:
    """Run the first calls of a segment, as many as the process with the fewest has, if all have the same; and what is
    left then.
    """
    full, depth = seg.state, min(offer.depth for offer in offers)
    later: list[Node] = []
    if any(offer.depth != depth for offer in offers):
        while seg.state.depth > depth:
            later.append(seg.state)
            assert seg.state.parent is not None, "a call has something before it"
            seg.state = seg.state.parent
        later.reverse()
        offers = _exchange(channel, _offer(seg, engine.held(seg), _read_by(later), need))
    if len({offer[:3] for offer in offers}) > 1:
        seg.state = full
        return None
    _execute(channel, seg, offers, engine)
    if not later:
        return (None,)
    made = _kept(channel, seg)
    return (lone_calls.Again(seg, later, made, engine.extend).take(),)


def _read_by(nodes: Sequence[Node]) -> set[int]:
    return {r for node in nodes for r in node.args if r.__class__ is int}


def _execute(channel: Shared, seg: Segment, offers: list[Offer], engine: Engine) -> None:
    """Run a program that all processes have agreed on."""
    channel.kept = []
    for r in channel.deferred:  # others went on without them
        passed = r()
        if passed is not None and passed is not seg:
            passed.lone = True
    channel.deferred = []
    live = np.any([offer.live for offer in offers], axis=0)
    dead = np.all([offer.dead for offer in offers], axis=0)
    seg.agreed = tuple(np.flatnonzero(live).tolist()), tuple(np.flatnonzero(dead).tolist())
    channel.runs += 1
    engine.execute(seg)
    for i, array in zip(seg.live or (), seg.results[0]):
        channel.names.set(array, (channel.runs, i), seg.device)


def _run_common(channel: Shared, seg: Segment, need: Need, engine: Engine) -> tuple[Segment | None] | None:
    """Run the calls of a segment that all processes have, in the order of the first one, and what is left then; None
    if there are none.
    """
    nodes = lone_calls.calls(seg)
    names = lone_calls.named(seg, nodes, channel.names)
    told = channel.gather_bytes(Call("mesh calls"), b"".join(names.values()))
    every = [[data[i : i + 8] for i in range(0, len(data), 8)] for data in told]
    common = set.intersection(*map(set, every))
    if not common:
        return None
    own = {name: node for node, name in names.items()}
    chosen = [own[name] for name in every[0] if name in common]
    made_here = {i for node in chosen for i in node.made}
    before = {r for r in _read_by(chosen) if r >= 0 and r not in made_here}
    # others have these as results already: of what is whole, as each can compute it
    first = lone_calls.needed(nodes, before)
    made: dict[int, Any] = {}
    taken = {*chosen, *first}
    if first:
        left = [node for node in nodes if node not in taken]
        kept = before | {r for r in _read_by(left) if any(r in node.made for node in first)}
        made = lone_calls.run_here(seg, first, lambda i: _own(seg, i), channel.names, engine.extend, engine.run, kept)
    part = lone_calls.Again(seg, chosen, made, engine.extend)
    left = [node for node in nodes if node not in taken]
    read = _read_by(left)
    seg.arrays = [a if ~i in read else None for i, a in enumerate(seg.arrays)]
    new = part.take()
    here = {at for r in read if (at := part.moved(r)) is not None}
    offers = _exchange(channel, _offer(new, engine.held(new), here, need))
    if len({offer[:3] for offer in offers}) > 1:
        engine.take_back(new)
        seg.error = _differ("; ".join(f"{o.text} in rank {rank}" for rank, o in zip(channel.ranks, offers)))
        raise seg.error
    try:
        _execute(channel, new, offers, engine)
    except (MemoryError, RuntimeError, LookupError) as e:
        engine.take_back(new)
        seg.error = e
        raise
    found = _kept(channel, new)
    made |= {i: found[at] for i, at in part.index.items() if at in found}
    engine.fill(new)
    alone, later = _passed_by(left, max(node.depth for node in chosen))
    lone = lone_calls.Again(seg, alone, made, engine.extend).take()
    rest = lone_calls.Again(seg, later, made, engine.extend).take() if later else None
    seg.live = ()
    seg.results.append(())
    if alone:
        _run_alone(channel, lone, engine)
    return (rest,)


def _passed_by(nodes: Sequence[Node], depth: int) -> tuple[list[Node], list[Node]]:
    """Calls that others have passed by, since a later one was made by all, with those that read their results; and the
    others.
    """
    alone, later = [], []
    made: set[int] = set()
    for node in nodes:
        if node.depth < depth or not made.isdisjoint(r for r in node.args if r.__class__ is int):
            alone.append(node)
            made.update(node.made)
        else:
            later.append(node)
    return alone, later


def _own(seg: Segment, place: int) -> np.ndarray:
    array = seg.arrays[place]
    assert lone_calls.is_whole(array), "another process has computed this by itself"
    return np.asarray(array)


def _run_alone(channel: Shared, seg: Segment, engine: Engine) -> None:
    """Compute calls that others do not make in this process, of what it has whole or the others help it to. Who reads
    what they do not have any more is told.
    """
    nodes = lone_calls.needed(lone_calls.calls(seg), [i for i, r in enumerate(seg.values) if r() is not None])
    try:
        _check_undivided(nodes)
        lone_calls.run_here(seg, nodes, _gatherer(channel, seg, nodes), channel.names, engine.extend, engine.run)
    except errors.ArgumentError as e:
        seg.error = e
        return
    seg.live = ()
    seg.results.append(())


def _gatherer(channel: Shared, seg: Segment, nodes: Sequence[Node]) -> Callable[[int], np.ndarray]:
    """A function for the whole of what a segment reads as a leaf: others help where they have parts of it."""
    known = channel.gathered.setdefault(seg, {})
    sigs = {~r: sig for n in nodes for r, sig in zip(n.args, n.sigs) if r.__class__ is int and r < 0}

    def whole_leaf(place: int) -> np.ndarray:
        array = seg.arrays[place]
        if isinstance(array, np.ndarray):
            return array
        if place in known:
            return known[place]
        v = seg.leaves[place]() or Value(sigs[place], array, seg.device)
        known[place] = whole(v)
        return known[place]

    return whole_leaf


def _read_alone(channel: Shared, seg: Segment, wanted: Value, engine: Engine) -> None:
    """The numbers of a pending value, which stays pending: whether others will make the same calls nobody knows yet."""
    calls = lone_calls.calls(seg)
    way = lone_calls.needed(calls, [wanted.index])
    seen = _read_by(way) | {i for node in way for i in node.made}
    flags = {g.index: g for g in seg.guards if g.operand in seen or g.result in seen}
    nodes = lone_calls.needed(calls, [wanted.index, *flags])
    _check_undivided(nodes)
    copy = Segment()
    for name in ("state", "leaves", "numbers", "device", "closed"):
        setattr(copy, name, getattr(seg, name))
    copy.arrays = list(seg.arrays)
    copy.values = [_gone] * len(seg.values)  # type: ignore[list-item]  # as weak references that are dead
    whole_leaf, kept = _gatherer(channel, seg, nodes), [wanted.index, *flags]
    found = lone_calls.run_here(copy, nodes, whole_leaf, channel.names, engine.extend, engine.run, kept)
    for i, g in flags.items():
        if found[i].any():
            raise g.error()
    channel.read[wanted] = found[wanted.index]


def _check_undivided(nodes: Sequence[Node]) -> None:
    """A process alone cannot divide a tensor among all."""
    for node in nodes:
        if mesh_run.asked(node.bound) is not None:
            raise errors.bad(
                "mesh",
                "tensors to be divided by all of its processes",
                described=f"{node.bound.op.name} at {errors.location(node.pos)} in this one alone",
                kind=errors.ArgumentError,
            )


def _gone() -> None:
    """In the place of a weak reference."""


def _offer(seg: Segment, held: set[int], read: Collection[int] = (), need: Need = Need.CUT) -> Offer:
    """What this process could run now: what it holds, and what calls after that `read`, are results."""
    state, device = seg.state, seg.device
    live = np.array([i in read or r() is not None for i, r in enumerate(seg.values[: state.end])], bool)
    unheld = [i for i, r in enumerate(seg.leaves[: state.leaves]) if ~i not in read and r() is None]
    dead = np.zeros(state.leaves, bool)
    dead[lookup.only_here(unheld, seg.arrays, held)] = True
    arrays, numbers = seg.arrays[: state.leaves], seg.numbers[: state.numbers]
    given = [mesh_program.placed(a, device) for a in arrays]
    # calls that look alike are others on other tensors, or with other numbers
    names = [name if (name := device.channel.names.get(a)).__class__ is tuple else None for a in arrays]
    told = repr((given, sorted(mesh_run.updates(seg).items()), names, numbers))
    digest = zlib.crc32(told.encode(), _digest(state, device))
    operands = " of " + ", ".join([repr(sig) for sig in state.sigs[:MOST_TOLD]]) if state.sigs else ""
    count = "1 call" if state.depth == 1 else f"{state.depth} calls"
    text = f"{count} to {state.bound.op.name}{operands} at {errors.location(state.pos)}"
    return Offer(RUN, state.depth, digest, int(need), text, live, dead)


def _digest(state: Node, device: Any) -> int:
    """A number that is the same in all processes for the same calls."""
    graph = state.graph
    if graph is None or graph.device is not device:
        graph = Graph(state, device)
    found = _digests.get(graph)
    if found is None:
        found = _digests[graph] = zlib.crc32(_ADDRESS.sub("", str(graph)).encode())
    return found


def _kept(channel: Shared, seg: Segment) -> dict[int, Any]:
    """What a run has read and returned, held until the next: the process that came earlier reads something of it."""
    assert seg.live is not None
    made = dict(zip(seg.live, seg.results[0]))
    channel.kept = [*seg.arrays, *made.values()]
    return made
