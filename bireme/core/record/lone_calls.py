"""Calls that one process of a mesh makes and others do not: what calls are called by in all processes, some calls of a
segment recorded once more as another one, and what this process computes of them by itself. See decisions/068.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any
from weakref import ref

import numpy as np

from bireme.core.base import mesh
from bireme.core.base.device import Device
from bireme.core.graph.graph import Node, Number, Value
from bireme.core.graph.segment import Segment, announce
from bireme.core.run import mesh_run

_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of an object, in the text of an attribute


class Names:
    """What arrays are called in all processes of a mesh, as long as they live: which result of which run, or of which
    calls on such.
    """

    def __init__(self) -> None:
        self._names: dict[int, tuple[Any, Any]] = {}
        self._arrays: dict[Any, tuple[Any, Any]] = {}

    def get(self, array: Any) -> Any:
        found = self._names.get(id(array))
        return None if found is None else found[1]

    def find(self, name: Any) -> tuple[Any, Any]:
        """The array of that name and its devices; None twice if it is not there any more."""
        held, device = self._arrays.get(name, (None, None))
        return (None if held is None else held()), device

    def set(self, array: Any, name: Any, device: Any = None) -> None:
        held = ref(array, functools.partial(self._forget, id(array), name))
        self._names[id(array)] = held, name
        self._arrays[name] = held, device

    def _forget(self, key: int, name: Any, held: Any) -> None:
        if self._names.get(key, (None,))[0] is held:
            del self._names[key]
        if self._arrays.get(name, (None,))[0] is held:
            del self._arrays[name]


def calls(seg: Segment) -> list[Node]:
    """The calls of a segment in their order."""
    found, node = [], seg.state
    while node.parent is not None:
        found.append(node)
        node = node.parent
    return found[::-1]


def named(seg: Segment, nodes: Sequence[Node], known: Names) -> dict[Node, bytes]:
    """A name for each call that is the same in all processes that call the same on the same. A second call of that kind
    has another one.
    """
    leaves: dict[int, bytes] = {}
    values: dict[int, bytes] = {}
    divided: Counter[str] = Counter()
    seen: Counter[bytes] = Counter()
    found = {}
    for node in nodes:
        told = [_text(node.bound)]
        for r, sig in zip(node.args, node.sigs):
            if r.__class__ is Number:
                told.append(repr(seg.numbers[r.place]).encode())
                continue
            if r < 0 and r not in leaves:
                leaves[r] = _leaf(seg, ~r, sig, known, divided)
            told.append(leaves[r] if r < 0 else values[r])
        name = _hash(b"\0".join(told))
        seen[name] += 1
        found[node] = name = name if seen[name] == 1 else _hash(b"%b %d" % (name, seen[name]))
        for i in node.made:
            values[i] = result_name(name, i - node.first)
    return found


def result_name(call: bytes, index: int) -> bytes:
    return b"%b.%d" % (call, index)


def _leaf(seg: Segment, place: int, sig: Any, known: Names, divided: Counter[str]) -> bytes:
    """The name of what a segment reads. What each process has made of its own and whole is known by its numbers; what is
    divided has a name since it was made, or else the order in which a segment reads such has to do.
    """
    array = seg.arrays[place]
    name = known.get(array)
    if name is None:
        if is_whole(array):
            name = _hash(f"{sig} ".encode() + np.ascontiguousarray(np.asarray(array)).tobytes())
            known.set(array, name)
        else:
            kind = f"{sig} {mesh.layout_of(array, seg.device)}"
            divided[kind] += 1
            name = f"{kind} {divided[kind]}".encode()
    return name if isinstance(name, bytes) else str(name).encode()


@functools.lru_cache(4096)
def _text(bound: Any) -> bytes:
    return _ADDRESS.sub("", str(bound)).encode()


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).digest()


def is_whole(array: Any) -> bool:
    """Whether this process has all numbers of an array of a mesh."""
    return isinstance(array, np.ndarray) or array.is_fully_addressable or array.is_fully_replicated


def is_local(seg: Segment, nodes: Sequence[Node]) -> bool:
    """Whether this process can compute calls from what it has, and they ask for no division."""
    if any(mesh_run.asked(n.bound) is not None for n in nodes):
        return False
    made = {i for n in nodes for i in n.made}
    read = {r for n in nodes for r in n.args if r.__class__ is int and r not in made}
    return all(r < 0 and is_whole(seg.arrays[~r]) for r in read)


def needed(nodes: Sequence[Node], results: Collection[int]) -> list[Node]:
    """Those of the calls that results depend on."""
    wanted, found = set(results), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.made):
            wanted.update(r for r in node.args if r.__class__ is int and r >= 0)
            found.append(node)
    return found[::-1]


class _Shape:
    """An operand as `extend` looks at it."""

    def __init__(self, sig: Any):
        self.sig = sig


class Again:
    """Some calls of a segment, in an order in which none reads a later one, as a segment of their own; `made` are arrays
    of results that they read and that are not among theirs. Values of the first that they compute are then its values.
    """

    def __init__(self, seg: Segment, nodes: Sequence[Node], made: dict[int, Any], extend: Callable, device: Any = None):
        self.old, self.new = seg, Segment()
        self.index: dict[int, int] = {}  # results of the old segment, and as which result of the new one
        self.places: dict[int, int] = {}  # what it reads of the old one, and as which leaf
        self._made, self._depths = made, [node.depth for node in nodes]
        new = self.new
        new.device, new.closed, new.edges = device or seg.device, True, seg.edges
        for node in nodes:
            key: list[Any] = [node.bound]
            for r, sig in zip(node.args, node.sigs):
                key.append(self._refer(r, sig))
            found = tuple(key)
            known = new.state.get(found)
            operands = [(r.dtype, None) if r.__class__ is Number else _Shape(s) for r, s in zip(node.args, node.sigs)]
            new.state = extend(new.state, found, node.bound, operands) if known is None else known
            self.index.update(zip(node.made, new.state.made))
            new.values += seg.values[node.first : node.end]

    def _refer(self, r: Any, sig: Any) -> Any:
        new, seg = self.new, self.old
        if r.__class__ is Number:
            new.numbers.append(seg.numbers[r.place])
            return r.dtype
        if r in self.index:
            return self.index[r]
        if r in self.places:
            return ~self.places[r]
        self.places[r] = len(new.leaves)
        new.leaves.append(seg.leaves[~r] if r < 0 else seg.values[r])
        new.arrays.append(seg.arrays[~r] if r < 0 else self._made[r])
        return sig

    def moved(self, r: int | None) -> int | None:
        """Where the new segment has what the old one refers to."""
        return (
            None if r is None else self.index[r] if r in self.index else ~self.places[r] if r in self.places else None
        )

    def take(self) -> Segment:
        """Let values, guards and updated tensors be those of the new segment."""
        seg, new = self.old, self.new
        announce(new)
        for r, place in self.places.items():
            v = (seg.leaves[~r] if r < 0 else seg.values[r])()
            if v is not None and new.device is v.device:
                v.leaf_of, v.leaf = new, place
        for i, at in self.index.items():
            v = seg.values[i]()
            if v is not None and v.segment is seg:
                v.segment, v.index = new, at
        for g in [g for g in seg.guards if g.index in self.index]:
            g.index, g.since = self.index[g.index], sum(depth <= g.since for depth in self._depths)
            g.operand, g.result = self.moved(g.operand), self.moved(g.result)
            new.guards.append(g)
        seg.guards = [g for g in seg.guards if g not in new.guards]
        for leaf, found in (seg.leaf_guards or {}).items():
            if ~leaf in self.places:
                new.leaf_guards = {**(new.leaf_guards or {}), self.places[~leaf]: found}
        for seed, root in seg.links or ():
            if seed in self.index:
                target = self.moved(root) if root.__class__ is int else root
                new.links = [*(new.links or ()), (self.index[seed], target)]
        for r, leaf in seg.replaced:
            t = r()
            if t is not None and t._value.segment is new and ~leaf in self.places:
                new.replaced.append((r, self.places[~leaf]))
        return new


def run_here(
    seg: Segment,
    nodes: Sequence[Node],
    whole: Callable[[int], Any],
    known: Names,
    extend: Callable,
    run: Callable[[Segment], None],
    kept: Collection[int] = (),
) -> dict[int, Any]:
    """Compute calls in this process alone, of arrays that it has or gets by `whole(place)`. Their values get what comes
    out; returned are the arrays of `kept` results.
    """
    names = named(seg, calls(seg), known)
    arrays = seg.arrays
    read = {~r for n in nodes for r in n.args if r.__class__ is int and r < 0}
    seg.arrays = [whole(i) if i in read else a for i, a in enumerate(arrays)]
    try:
        part = Again(seg, nodes, {}, extend, Device("cpu", 0))
    finally:
        seg.arrays = arrays
    new = part.take()
    new.replaced = []
    held = {}  # what nobody holds but is still read
    for i in kept:
        v = seg.values[i]()
        if v is None:
            node = next(n for n in nodes if i in n.made)
            v = Value(node.outs[i - node.first], None, seg.device)
            v.segment, v.index = new, part.index[i]
            new.values[part.index[i]] = ref(v)
        held[i] = v
    values = {i: v for n in nodes for i in n.made if (v := new.values[part.index[i]]()) is not None}
    run(new)
    for n in nodes:
        for i in n.made:
            v = values.get(i)
            if v is not None and v.array is not None:
                v.array = np.asarray(v.array)
                known.set(v.array, result_name(names[n], i - n.first))
    return {i: v.array for i, v in held.items()}
