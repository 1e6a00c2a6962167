"""Segments: what each thread is recording, and the tree of all sequences of calls recorded so far."""

from __future__ import annotations

import functools
import threading
from typing import Any
from weakref import ref

from bireme.core.base import flags
from bireme.core.graph.graph import Node, Outline, Sig, Value


class Segment:
    """Calls recorded since the last cut. `state` is the Node it has reached; everything else follows from that."""

    __slots__ = (
        "state",
        "values",
        "leaves",
        "arrays",
        "numbers",
        "device",
        "closed",
        "lock",
        "results",
        "early",
        "live",
        "edges",
        "cells",
        "guards",
        "leaf_guards",
        "links",
        "lost",
        "replaced",
        "symbolic",
        "error",
        "passes",
        "agreed",
        "lone",
        "entered",
        "joined",
        "original",
        "plan",
        "__weakref__",
    )

    def __init__(self, symbolic: bool = False):
        self.state: Node = root()
        self.values: list[ref[Value]] = []
        self.leaves: list[ref[Value]] = []
        self.arrays: list[Any] = []
        self.numbers: list[Any] = []
        self.device: Any = None
        self.closed, self.symbolic = False, symbolic
        self.lock = threading.RLock()
        # filled by the executor in the same bytecode that calls it, so that an interrupt cannot lose donated state
        self.results: list[Any] = []
        self.early: Any = ()  # the results that a program before that one gave, see `split_step`
        self.live: tuple[int, ...] | None = None
        self.edges: list[Any] = []
        self.cells: list[Any] = []
        self.guards: list[Any] = []
        self.leaf_guards: dict[int, tuple] | None = None  # by leaf, the guards that it depends on
        self.links: list[tuple] | None = None  # seeds of gradients, and what they are gradients of
        self.lost: dict[int, Any] = {}  # values that cannot be computed, and the guard that failed
        self.replaced: list[tuple[Any, int]] = []  # tensors that took a result of it, and the leaf they had before
        self.error: Exception | None = None
        self.agreed: tuple | None = None  # results and dead leaves that all processes of a mesh agree on
        self.lone = False  # calls that other processes of the mesh have passed by
        self.passes = 0  # backward passes in it, see `backward_starts`
        self.entered: dict[int, ref] = {}  # Layers that were called in it by nobody's forward, see `layer_entered`
        self.original: Any = None  # what it recorded, where it runs padded
        self.plan: Any = None  # how, see `padding`
        self.joined: Any = None  # the line of the first of these that read what was pending


def known(seg: Segment, v: Value) -> int | None:
    """Where a segment has a value: the index of a result of its own (>= 0), or ~ the index of a leaf; None if it has
    not read it.
    """
    if v.segment is seg:
        return v.index
    if v.leaf_of is seg:
        return ~v.leaf
    return None


def reference(seg: Segment, v: Value, device: Any, leaves: dict[Value, None]) -> Any:
    """What stands for an operand in a key: where the segment has it, or its Sig if it is read for the first time, noted
    in `leaves`.

    None where a look-up cannot help: the value is pending elsewhere or on another device than `device`, it is new and
    read twice by one call, or a closed step has to run first. Recording handles these.
    """
    if v.segment is seg:  # `known`, written out: its call would be 2 % of a call that takes a list
        return v.index
    if v.leaf_of is seg:
        return ~v.leaf
    if v.array is None or v.device is not device or v in leaves or local.waiting is not None:
        return None
    leaves[v] = None
    return v.sig


GONE: ref = ref(Value.__new__(Value))  # among the values of a segment: one that nobody holds


def pending(seg: Segment, sig: Sig, index: int) -> Value:
    """A value that the segment will compute: all slots are set here, and nowhere else but where a figure stands beside
    it.
    """
    v = Value.__new__(Value)
    v.sig, v.segment, v.index, v.device = sig, seg, index, seg.device
    v.array = v.leaf_of = v.bounds = None
    v.marks = 0
    return v


def _nothing() -> None:
    """In the place of a weak reference to something that is not there."""


class _Local(threading.local):
    """What each thread is recording: its open segment, a closed one that waits to run, and how deep in Layers it is."""

    def __init__(self) -> None:
        self.segment = Segment()
        self.waiting: Segment | None = None
        self.depth = 0
        self.unreported: list[list] = []  # guards of its segments that have run, see `guards.check`
        self.trace: Any = None  # what a composite's body records, see `repetition`
        self.regions: list[Any] = []  # whose calls are kept to be recorded again, see `recompute`
        self.last_edge: Any = _nothing  # weakly, the last edge of the tape in a segment that has run
        self.border: Any = _nothing  # weakly, the last edge before sizes came from data, see `sizes_follow`
        announce(self.segment)


OPEN: dict[int, ref[Segment]] = {}  # segments of all threads that have not run: they may hold leaves of another one


def announce(seg: Segment) -> None:
    """Let other threads know of a segment, as long as it lives."""
    # no Python function as the callback: an interrupt that comes inside one is swallowed
    OPEN[id(seg)] = ref(seg, functools.partial(OPEN.pop, id(seg)))


def reads_again(seg: Segment) -> None:
    """A value knows one segment that reads it: after another one had its turn, it is again this one."""
    for place, r in enumerate(seg.leaves):
        v = r()
        if v is not None:
            v.leaf_of, v.leaf = seg, place


_roots: list[Node] = [Node(Outline())]
nodes = [0]  # in the tree, with the calls and backward passes that its nodes know, and the same of outlines
MAX_TREE = 100_000


def keep_call(state: Node, call: tuple, found: Any) -> None:
    """Let a node know where a call leads from it, and its outline that this is known."""
    if call not in state:
        nodes[0] += 1
    state[call] = found
    outline = state.outline
    if outline is not None and call not in outline:
        nodes[0] += 1
        outline[call] = found


def root() -> Node:
    """The empty state. The tree under it is dropped when it grows too large: only look-ups get slower for a while."""
    if nodes[0] > MAX_TREE:
        _drop_tree()
    return _roots[0]


def _drop_tree() -> None:
    """Take the tree apart: a graph that is remembered holds its path to the root, and must not hold the others with it."""
    old, _roots[0], nodes[0] = _roots[0], Node(Outline()), 0
    left: list[Any] = [old, old.outline]
    while left:
        node = left.pop()
        # a copy: other threads may record here
        left += [after for after in list(node.values()) if after.__class__ is node.__class__]
        node.clear()
        node.passes = None if node.__class__ is Node else {}


def prune(node: Node) -> None:
    """Take the steps that lead to a node and nowhere else out of the tree: the graph that ended there is forgotten."""
    node.graph = None
    # a copy of each dict: other threads may record here
    while (before := node.parent) is not None and node.graph is None:
        if any(after.__class__ is Node for after in list(node.values())):
            return
        calls = [key for key, after in list(before.items()) if after is node or _begins_with(after, node)]
        for key in calls:
            before.pop(key, None)
        nodes[0] = max(nodes[0] - len(calls) - len(node) - len(node.passes or ()), 0)
        node.clear()
        node.passes = None
        node = before


def _begins_with(path: Any, node: Node) -> bool:
    """Whether a call leads through several nodes, of which this is the first."""
    return path.__class__ is not Node and path.nodes[0] is node


_limits: list[tuple[int, int]] = []  # those that the nodes were made under


def _read_limits() -> None:
    """Nodes know whether they reach a limit on what is pending: where one was changed, they are made anew."""
    now = (flags.max_pending_nodes.value, flags.max_pending_bytes.value)
    if _limits != [now]:
        _limits[:] = [now]
        _drop_tree()


flags.on_change(_read_limits)


local = _Local()


class guarding:
    """Whether there was ever a guard in this process: before that, nobody looks for values that depend on one."""

    used = False


class debug_mode:
    """Whether each call must run at once (a debugger in hand, or a search for NaN)."""

    at_once = False
    check_nan = False
    watchers: list[Any] = []  # called with each call's operator, operands, results and place, as soon as it has run


def _read_flags() -> None:
    debug_mode.check_nan = flags.check_nan_inf.value
    debug_mode.at_once = flags.op_at_once.value or flags.check_nan_inf.value or bool(debug_mode.watchers)


flags.on_change(_read_flags)


def watch(watcher: Any) -> None:
    """Let each call run at once and tell `watcher(bound, operands, results, position)` about it."""
    debug_mode.watchers = [*debug_mode.watchers, watcher]
    _read_flags()


def unwatch(watcher: Any) -> None:
    """End a `watch`."""
    debug_mode.watchers = [w for w in debug_mode.watchers if w != watcher]  # bound methods are equal, not identical
    _read_flags()
