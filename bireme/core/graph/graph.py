"""What a program is made of: Sig (shape and dtype), Value (one array), Node (one call), Graph (a list of them)."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from bireme.core.base.dtype import DType


class Sig:
    """Shape and dtype of a value, interned: equal ones are the same object, so caches compare by identity."""

    __slots__ = ("shape", "dtype", "ndim", "kind", "size", "nbytes", "__weakref__")

    shape: tuple[int, ...]
    dtype: DType
    ndim: int
    kind: tuple[DType, int]  # dtype and number of axes, one object for all sizes
    size: int
    nbytes: int

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


_SIGS: dict[tuple, Sig] = {}
_OLD_SIGS: WeakValueDictionary[tuple, Sig] = (
    WeakValueDictionary()
)  # those that are still in use when the dict above was full
MAX_SIGS = 16_384
_KINDS: dict[tuple[DType, int], tuple[DType, int]] = {}


def sig_of(shape: tuple[int, ...], dtype: DType) -> Sig:
    key = (shape, dtype)
    return _SIGS.get(key) or _new_sig(key)


def _new_sig(key: tuple) -> Sig:
    found = _OLD_SIGS.get(key)
    if found is not None:
        return found
    if len(_SIGS) >= MAX_SIGS:
        # one by one, and in this order: at any moment another thread finds it in one of them
        for k, sig in list(_SIGS.items()):
            _OLD_SIGS[k] = sig
            _SIGS.pop(k, None)
    shape, dtype = key
    found = Sig()
    found.shape, found.dtype, found.ndim = shape, dtype, len(shape)
    found.kind = _KINDS.setdefault((dtype, found.ndim), (dtype, found.ndim))
    found.size = math.prod(shape)
    found.nbytes = found.size * dtype.itemsize
    return _SIGS.setdefault(key, found)


_SCALARS: dict[DType, Sig] = {}


def scalar_sig(dtype: DType) -> Sig:
    """The Sig of a number of this type."""
    found = _SCALARS.get(dtype)
    if found is None:
        found = _SCALARS[dtype] = sig_of((), dtype)
    return found


SYMBOLIC = -1  # in `marks`: an input of a graph being captured; a positive mark is the tape order of an in-place change


class Value:
    """One array: real, or pending in a segment (`array is None`). One array is exactly one Value.

    Segments refer to it weakly: when the last Tensor or tape edge lets go of it, it is no output of its segment, and
    the buffer of a real one may be reused. `leaf_of` and `leaf` remember its place in the segment that last read it.
    """

    __slots__ = (
        "sig", "array", "segment", "index", "leaf_of", "leaf", "device", "marks", "bounds", "guards", "call_guards",
        "__weakref__",
    )  # fmt: skip

    sig: Sig
    array: Any
    segment: Any
    leaf_of: Any
    leaf: int
    device: Any
    marks: int
    bounds: Any
    guards: tuple  # those it depends on, and those of a call that is still to read it; not set where there are none
    call_guards: tuple

    def __init__(self, sig: Sig, array: Any, device: Any):
        self.sig, self.array, self.device = sig, array, device
        self.segment = self.leaf_of = self.bounds = None
        self.index, self.marks = -1, 0


class Zero(Value):
    """Zeros that nobody has read yet: what `clear_grad` leaves. It becomes an array when it is read."""

    __slots__ = ()


class Unmade(Value):
    """The value of a parameter made inside `LazyGuard`: its numbers are still to be drawn."""

    __slots__ = ()


class Node(dict):
    """One recorded call, as a step in the tree of all segments recorded so far: the dict of the steps that came after
    it.

    Recording walks down the tree: the same sequence of calls ends at the same Node, which therefore *is* the key of
    the segment, and knows the results' Sigs without inferring them again. It is keyed by (bound operator, operand
    references): an int is a value (>= 0) or leaf (< 0) of the segment, a Sig a leaf met for the first time, a DType a
    Python number that travels in the segment's packed numbers. Beside that it is keyed by calls as they were written
    (see `known_calls`): those of operators lead to the same Nodes, those of composites to a Path of several.
    """

    __slots__ = (
        "parent", "bound", "key", "args", "sigs", "outs", "first", "end", "leaves", "numbers", "depth", "nbytes",
        "work", "pos", "graph", "over", "passes", "plain", "outline",
    )  # fmt: skip

    parent: Node | None
    bound: Any
    key: tuple[Any, ...]
    args: tuple[Any, ...]
    sigs: tuple[Sig, ...]  # of the operands
    outs: tuple[Sig, ...]
    pos: Any
    graph: Graph | None
    outline: Outline | None  # None of one that is in no tree

    __hash__ = object.__hash__  # type: ignore[assignment]  # itself, whatever came after it
    __eq__ = object.__eq__

    def __init__(self, outline: Outline | None = None) -> None:
        """A root: the state of an empty segment."""
        self.outline = outline
        self.parent = self.bound = self.pos = self.graph = None
        self.key = self.args = self.sigs = self.outs = ()
        self.first = self.end = self.leaves = self.numbers = self.depth = self.nbytes = 0
        self.work = 0.0
        self.over = False
        self.passes: dict | None = None  # backward passes that began here, see `backward_pass`
        # whether tensors among operands and results are all floating or complex, where somebody has asked
        self.plain: bool | None = None

    @property
    def made(self) -> range:
        """The indices of its results."""
        return range(self.first, self.end)


class Outline(dict):
    """What Nodes have in common that differ in sizes alone: the same operators led to each of them, wired in the same way,
    and their results have the same dtypes and numbers of axes.

    So a call that is written in the same way leads from all of them to Nodes of one Outline. It is keyed by such calls,
    with the Node or Path that one of them led to, and by operators with kinds of operands and results, with the Outlines
    that come after it. A path that was recorded at other sizes is so found again, see `flush.grown`.
    """

    __slots__ = ("orders", "passes", "skeleton")

    __hash__ = object.__hash__  # type: ignore[assignment]  # as that of a Node
    __eq__ = object.__eq__

    def __init__(self) -> None:
        self.passes: dict = {}  # backward passes that began at one of the Nodes
        self.skeleton: tuple | None = None  # of graphs that end here, see `Graph.skeleton`
        self.orders: dict | None = None  # of these graphs, by wanted results, see `interpreter.Order`

    def after(self, bound: Any, references: tuple, outs: tuple[Sig, ...]) -> tuple[Outline, bool]:
        """The one after a step, and whether it is new."""
        kinds = [r.kind if r.__class__ is Sig else r for r in references]
        step = (bound.op, *kinds, *[s.kind for s in outs])
        found = self.get(step)
        return (self.setdefault(step, Outline()), True) if found is None else (found, False)


class Number:
    """Operand reference to a packed Python number: its dtype and its place among the segment's numbers."""

    __slots__ = ("dtype", "place")

    def __init__(self, dtype: DType, place: int):
        self.dtype, self.place = dtype, place


@functools.lru_cache(maxsize=4096)
def number_at(dtype: DType, place: int) -> Number:
    """The reference to a number: one object for all segments."""
    return Number(dtype, place)


SAFE = 65504.0  # numbers below it are finite in every floating-point type


class Graph:
    """A sequence of calls with its leaves, numbers and values: a segment that was cut, a traced function, a program."""

    __slots__ = (
        "nodes",
        "leaf_sigs",
        "number_dtypes",
        "value_sigs",
        "key",
        "work",
        "nbytes",
        "packs",
        "device",
        "entry",
        "guarded",
        "padded",
        "_skeleton",
        "__weakref__",
    )

    def __init__(self, last: Node, device: Any):
        nodes = []
        node: Node | None = last
        while node is not None and node.bound is not None:
            nodes.append(node)
            node = node.parent
        nodes.reverse()
        self.nodes: tuple[Node, ...] = tuple(nodes)
        first_read = [r for n in nodes for r in n.key if r.__class__ is not int]  # operators too
        self.leaf_sigs: tuple[Sig, ...] = tuple([r for r in first_read if r.__class__ is Sig])
        self.number_dtypes: tuple[DType, ...] = tuple([r for r in first_read if r.__class__ is DType])
        self.value_sigs: tuple[Sig, ...] = tuple([s for n in nodes for s in n.outs])
        self.key = (device, *[n.key for n in nodes])
        self.work, self.nbytes, self.device = last.work, last.nbytes, device
        packs: dict[DType, list[int]] = {}
        for place, dtype in enumerate(self.number_dtypes):
            packs.setdefault(dtype, []).append(place)
        self.packs = tuple(packs.items())
        self.entry: Any = None
        self.guarded: dict[Any, Any] = {}  # what depends on guards in it, see `record.guards`
        self.padded = False  # whether its calls are those of another one on larger arrays, see `run.padding`
        self._skeleton: tuple[Any, ...] | None = None

    @property
    def skeleton(self) -> tuple[Any, ...]:
        """Operators and wiring without Sigs and attributes: the same for the same calls at other shapes."""
        if self._skeleton is None:
            outline = self.nodes[-1].outline if self.nodes else None
            calls = None if outline is None else outline.skeleton
            if calls is None:
                calls = tuple([shared((n.bound.op, *[_shapeless(r) for r in n.key[1:]])) for n in self.nodes])
                if outline is not None:
                    outline.skeleton = calls
            self._skeleton = (self.device, *calls)
        return self._skeleton

    @property
    def origin(self) -> tuple:
        """Which operators from which lines: the same for other shapes, and for a loop in Python that goes round more or
        less often.
        """
        return (self.device, self.padded, frozenset([shared((n.bound.op, n.pos)) for n in self.nodes]))

    @property
    def work_by_numpy(self) -> float:
        """The part of the work that NumPy does much faster than a compiled program."""
        return self._work_of([n for n in self.nodes if n.bound.by_numpy])

    @property
    def work_of_updates(self) -> float:
        """The part of the work in calls that treat many tensors alike, as updates of parameters do."""
        return self._work_of([n for n in self.nodes if n.bound.op.each is not None])

    def _work_of(self, nodes: list[Node]) -> float:
        return sum([n.work - n.parent.work for n in nodes if n.parent is not None])

    def needed(self, live: tuple[int, ...]) -> tuple[list[Node], list[tuple[int, ...]]]:
        """The calls that results in `live` depend on, and what nobody reads after each: that is not computed, this not
        kept.
        """
        wanted, found, unread = set(live), [], []
        for node in reversed(self.nodes):
            if node.end - node.first == 1:  # as nearly all have
                if node.first not in wanted:
                    continue
                free = []
            else:
                made = range(node.first, node.end)
                if wanted.isdisjoint(made):
                    continue
                free = [i for i in made if i not in wanted]
            for r in node.args:
                if r.__class__ is int and r >= 0 and r not in wanted:
                    wanted.add(r)
                    free.append(r)
            found.append(node)
            unread.append(tuple(free))
        found.reverse()
        unread.reverse()
        return found, unread

    def pack(self, numbers: list) -> list[np.ndarray]:
        """The segment's Python numbers as one vector per dtype."""
        vectors = []
        for dtype, places in self.packs:
            found = [numbers[i] for i in places]
            if dtype.kind == "i" or (dtype.kind == "f" and all(-SAFE < x < SAFE for x in found)):
                vectors.append(np.array(found, dtype.np))
            else:
                with np.errstate(
                    over="ignore"
                ):  # 65536 is infinite in float16, as it is in Paddle: no news for the user
                    vectors.append(np.array(found, dtype.np))
        return vectors

    def places(self) -> dict[int, tuple[int, int]]:
        """Where each number went: place -> (vector, index)."""
        return {place: (v, i) for v, (_, places) in enumerate(self.packs) for i, place in enumerate(places)}

    def __str__(self) -> str:
        lines = [f"leaves: {', '.join(map(str, self.leaf_sigs))}"]
        for n in self.nodes:
            args = ", ".join("number" if r.__class__ is Number else f"%{r}" if r >= 0 else f"leaf{~r}" for r in n.args)
            outs = ", ".join(f"%{n.first + i}: {s}" for i, s in enumerate(n.outs))
            lines.append(f"{outs} = {n.bound}({args})")
        return "\n".join(lines)


_SHARED: dict[tuple, tuple] = {}


def shared(part: tuple) -> tuple:
    """One object for equal tuples: the same calls at 500 shapes would have 500 of each, for the collector to walk."""
    if len(_SHARED) > 100_000:
        _SHARED.clear()
    return _SHARED.setdefault(part, part)


def _shapeless(r: Any) -> Any:
    return shared((r.dtype, r.ndim)) if r.__class__ is Sig else r


def fitting(given: Iterable[tuple[int, Hashable]], wanted: Iterable[Hashable]) -> tuple[int, ...]:
    """Of numbered arrays that nobody reads any more, those whose memory one of the wanted results can take: what both are
    like is equal.
    """
    room = Counter(wanted)
    found = []
    for i, kind in given:
        if room[kind]:
            room[kind] -= 1
            found.append(i)
    return tuple(found)
