"""Recording calls into segments, cutting them at stable places, forcing values. What runs them is chosen in `lookup`.

A segment belongs to one thread. Values point at the segment they are pending in; the segment points back weakly, so
what nobody holds any more is neither kept nor computed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors, flags, shutdown
from bireme.core.graph.bound import bounded
from bireme.core.graph.graph import SYMBOLIC, Node, Sig, Unmade, Value, Zero, number_at, scalar_sig, shared
from bireme.core.graph.segment import (
    OPEN,
    Segment,
    announce,
    debug_mode,
    guarding,
    known,
    local,
    nodes,
    reads_again,
)
from bireme.core.numpy_exec import rows
from bireme.core.record import agreement, guards
from bireme.core.record.agreement import Need
from bireme.core.run import lookup, padding


def record(bound: Any, operands: list) -> list[Value]:
    """Append one call to this thread's segment and return its results, pending. Operands: Values or (dtype, number)."""
    seg = local.segment
    try:
        key: list[Any] = [bound]
        for v in operands:
            if v.__class__ is tuple:
                seg.numbers.append(v[1])
                key.append(v[0])
                continue
            r: Any = known(seg, v)
            if r is None:
                if (v.device.several or (seg.device is not None and seg.device.several)) and _apart(seg, v):
                    roll_back(seg)
                    return _record_beside_mesh(seg, bound, operands)
                r = _add_leaf(seg, v)
                if r is None:  # the segment had to be cut: everything pending is a leaf now
                    roll_back(seg)
                    return record(bound, _on_one_device(operands))
            key.append(r)
        if len(seg.numbers) - seg.state.numbers == len(operands) and seg.device is not None and not seg.symbolic:
            if seg.device is not devices.current():  # made of nothing, on another device than what is pending
                roll_back(seg)
                if seg.device.several:
                    with aside():
                        return record(bound, operands)
                run(seg)
                return record(bound, operands)
        state = seg.state
        found = tuple(key)
        node = None if debug_mode.at_once else state.get(found)  # a known one has the line where it was met first
        if node is None:
            node = extend(state, found, bound, operands)
        if seg.device is None:
            seg.device = devices.current()
        outs = follow(seg, node, (), ())  # its leaves and numbers are there already
    except BaseException:  # an interrupt in between: the call is forgotten whole
        roll_back(seg)
        raise
    if outs is None:  # another thread cut it meanwhile
        if local.segment is seg:
            _open_new()
        return record(bound, operands)
    if node.over and not seg.symbolic:
        limit(seg)
    if debug_mode.at_once and not seg.symbolic:
        _run_at_once(seg, bound, operands, outs)
    return outs


def follow(seg: Segment, node: Node, numbers: Any, leaves: Collection[Value]) -> list[Value] | None:
    """Take a step that the tree knows; `leaves` are read for the first time. None if another thread cut the segment
    meanwhile.
    """
    outs, new, device = [], Value.__new__, seg.device
    try:
        if leaves:
            read_first(seg, leaves)
        if numbers:
            seg.numbers += numbers
        for index, sig in enumerate(node.outs, node.first):
            v = new(Value)  # as `segment.pending` does: its calls would be a tenth of an optimizer's step
            v.sig, v.segment, v.index, v.device = sig, seg, index, device
            v.array = v.leaf_of = v.bounds = None
            v.marks = 0
            outs.append(v)
        seg.values += map(ref, outs)
        seg.state = node
    except BaseException:  # an interrupt in between
        roll_back(seg)
        raise
    return None if seg.closed else outs


def read_first(seg: Segment, leaves: Collection[Value]) -> None:
    """Give places to values that the segment reads for the first time."""
    place = len(seg.leaves)
    for v in leaves:
        seg.leaves.append(ref(v))
        seg.arrays.append(v.array)
        v.leaf_of, v.leaf = seg, place
        place += 1
    if guarding.used:
        guards.add_leaves(seg, leaves)


def _add_leaf(seg: Segment, v: Value) -> Sig | None:
    if local.waiting is not None and not seg.symbolic:
        run_closed()
    if v.array is None and not (seg.symbolic and v.marks == SYMBOLIC):
        force(v)
    if seg.device is None:
        seg.device = v.device
    elif v.device is not seg.device:
        if not seg.symbolic:
            run(seg)
        return None
    place = len(seg.leaves)
    seg.leaves.append(ref(v))
    seg.arrays.append(v.array)
    v.leaf_of, v.leaf = seg, place  # last: an interrupt before it leaves nothing that points at a place not taken
    if guarding.used:
        guards.add_leaves(seg, (v,))
    return v.sig


def _on_one_device(operands: list) -> list:
    """Operands of one call from several devices: those on the host follow the accelerator, others are an error."""
    found = {v.device for v in operands if v.__class__ is not tuple}
    far = [d for d in found if not d.is_cpu]
    if len(far) > 1:
        raise errors.bad(
            "operands",
            "tensors on one device",
            described=", ".join(sorted(d.name for d in found)),
            hint="move one with .to(device)",
        )
    return [v if v.__class__ is tuple or v.device in far or not far else move(v, far[0]) for v in operands]


def _apart(seg: Segment, v: Value) -> bool:
    """Whether a value is not where the segment is: one of both is on a mesh."""
    return seg.device is not None and v.device is not seg.device and not seg.symbolic


def _record_beside_mesh(seg: Segment, bound: Any, operands: list) -> list[Value]:
    """A call on values of which some are on a mesh, or none while the segment is.

    A call on none of a mesh is no part of what the mesh runs: it runs by itself, and the mesh's segment stays as it is.
    """
    if seg.state.bound is None:
        seg.device = None  # what an operand has left there
    found = {v.device: None for v in operands if v.__class__ is not tuple}
    meshes = [d for d in found if d.several]
    if not meshes:
        if seg.device is None:
            return record(bound, operands)
        with aside():
            return record(bound, operands)
    if len(meshes) > 1:
        raise errors.bad(
            "operands",
            "tensors on one mesh",
            described=", ".join(sorted(d.name for d in meshes)),
            hint="bring one to the other's mesh with distributed.reshard",
        )
    operands = [v if v.__class__ is tuple or v.device is meshes[0] else _on_mesh(v, meshes[0]) for v in operands]
    if seg.device not in (None, meshes[0]) and not seg.closed:
        run(seg)
    return record(bound, operands)


_on_meshes: WeakKeyDictionary[Value, Value] = WeakKeyDictionary()


def _on_mesh(v: Value, device: Any) -> Value:
    """A value of this process alone as one that every device of a mesh has: once, however often it is used there."""
    moved = _on_meshes.get(v)
    if moved is None or moved.device is not device:
        moved = _on_meshes[v] = move(v, device)
    return moved


def move(v: Value, device: Any) -> Value:
    """A copy of a Value on another device."""
    array = force(v, Need.NUMBERS if v.device.several else Need.OPERAND)
    if v.device.several and not isinstance(array, np.ndarray):
        array = agreement.whole(v)
    moved = Value(v.sig, lookup.put(array, device), device)
    moved.bounds = v.bounds
    return guards.copy_guards(v, moved)


def roll_back(seg: Segment) -> None:
    """Forget what an unfinished call had appended."""
    state = seg.state
    for r in seg.leaves[state.leaves :]:
        v = r()
        if v is not None:
            v.leaf_of = None
    if seg.leaf_guards:
        seg.leaf_guards = {place: found for place, found in seg.leaf_guards.items() if place < state.leaves}
    del seg.leaves[state.leaves :], seg.arrays[state.leaves :], seg.numbers[state.numbers :], seg.values[state.end :]


def extend(state: Node, key: tuple, bound: Any, operands: list) -> Node:
    """A sequence met for the first time: infer, check, and add a Node to the tree."""
    sigs = shared(tuple([scalar_sig(v[0]) if v.__class__ is tuple else v.sig for v in operands]))
    use = bound.use(sigs)
    leaves, numbers = state.leaves, state.numbers
    args: list[Any] = []
    for r in key[1:]:
        if r.__class__ is int:
            args.append(r)
        elif r.__class__ is Sig:
            args.append(~leaves)
            leaves += 1
        else:
            args.append(number_at(r, numbers))
            numbers += 1
    outline, new = (None, False) if state.outline is None else state.outline.after(bound, key[1:], use.outs)
    node = _node(state, key, sigs, use, (tuple(args), leaves, numbers, outline), errors.position())
    if not debug_mode.at_once:  # debugging wants each call's own line, so nothing is shared between call sites
        state[key] = node
        nodes[0] += 1 + new
    return node


def grown(state: Node, like: Node, bound: Any, sigs: tuple[Sig, ...], pos: Any) -> Node | None:
    """The step from a state that `like` is from another state of its outline, at other sizes; None where it is another
    one there: it has more results, or such with more axes.
    """
    key = like.key if bound is like.bound else (bound, *like.key[1:])
    node = state.get(key)
    if node is None:
        use = bound.use(sigs)
        if len(use.outs) != len(like.outs):
            return None
        for made, known_one in zip(use.outs, like.outs):
            if made.kind is not known_one.kind:
                return None
        wiring = like.args, like.leaves, like.numbers, like.outline
        node = state[key] = _node(state, key, use.sigs, use, wiring, pos)
        nodes[0] += 1
    return node


def _node(state: Node, key: tuple, sigs: tuple[Sig, ...], use: Any, wiring: tuple, pos: Any) -> Node:
    """A Node after `state`; `wiring` are its arguments, the leaves and numbers read so far, and its outline."""
    node = Node.__new__(Node)  # all slots are set here: `__init__` would be a tenth of it
    node.parent, node.bound, node.key, node.sigs, node.outs = state, key[0], key, sigs, use.outs
    node.args, node.leaves, node.numbers, node.outline = wiring
    node.first = state.end
    node.end = state.end + len(use.outs)
    node.depth = depth = state.depth + 1
    node.nbytes = nbytes = state.nbytes + use.nbytes
    node.work = state.work + use.work
    node.pos = pos
    node.graph = node.passes = node.plain = None
    size_limit = flags.max_pending_bytes.value
    node.over = depth % flags.max_pending_nodes.value == 0 or nbytes // size_limit > state.nbytes // size_limit
    return node


def has_live_tape(seg: Segment) -> bool:
    """Whether somebody can still ask for a gradient through something pending here."""
    edges = seg.edges
    while edges and edges[-1]() is None:
        edges.pop()
    return bool(edges)


def limit(seg: Segment) -> None:
    """Pending work reached a bound. Inside a live tape it may grow on: the cut comes at the end of the step."""
    if has_live_tape(seg) and seg.state.depth < 8 * flags.max_pending_nodes.value:
        return
    if seg.state.depth >= flags.max_pending_nodes.value:
        run(seg)
        return
    live = sum(v.sig.nbytes for r in seg.values if (v := r()) is not None)
    if live >= flags.max_pending_bytes.value // 2:
        run(seg)


# ---------------------------------------------------------------- cutting and running


def run(seg: Segment, need: Need = Need.CUT, wanted: Value | None = None) -> None:
    """Run a segment: everything somebody still holds becomes real, once.

    One of a mesh that other processes have a part in may stay as it is, if what is needed of it is none of its values.
    """
    if seg.symbolic:
        raise errors.bad(
            "value",
            "a value outside a graph being captured",
            described="a symbolic value, which has no data",
            kind=RuntimeError,
        )
    after: Segment | None = None
    with seg.lock:
        if local.segment is seg:
            _open_new()
        seg.closed = True
        if local.waiting is seg:
            local.waiting = None
        if seg.error is not None:
            raise errors.with_line(seg.error)
        if seg.state.bound is not None and not seg.results:
            new = seg.state.graph is None
            if seg.edges:
                local.last_edge = seg.edges[-1]
            if seg.cells:
                _drop_lone_views(seg)
            shared_mesh = seg.device.several and seg.device.channel is not None
            try:
                if shared_mesh:
                    after = agreement.run(seg, wanted, need, _ENGINE)
                else:
                    _execute(seg)
            except (MemoryError, RuntimeError, LookupError) as e:
                if seg.results:  # it has run: a signal's handler raised this
                    raise
                _take_back(seg)
                if not isinstance(e, MemoryError):
                    guards.check_leaves(seg)
                raise
            if seg.joined is not None:
                _note_join(seg, new and seg.plan is None)
        fill(seg)
    if after is not None:
        run(after, need, wanted)


def _execute(seg: Segment) -> None:
    try:
        shutdown.within(lookup.execute, seg, _held_elsewhere)
    except lookup.GuardFailed as e:
        _execute_without(e, seg)


def _execute_without(failed: lookup.GuardFailed, seg: Segment) -> None:
    """Run what can be run: an invalid call is left out with all that depends on it, which raises when it is read."""
    while True:
        guard = failed.guard
        if guard.failed():  # it was left out before
            raise guard.error() from failed.__cause__
        guard.resolve(True)
        seg.lost = guards.not_computable(seg, guard) | seg.lost
        _take_back(seg, seg.lost)
        try:
            shutdown.within(lookup.execute, seg, _held_elsewhere)
            return
        except lookup.GuardFailed as e:
            failed = e


def _take_back(seg: Segment, lost: Collection[int] | None = None) -> None:
    """A step could not run, or not what is lost of it: parameters and optimizer state are what they were before it."""
    for r, leaf in seg.replaced:
        t, array = r(), (seg.arrays if seg.original is None else seg.original[1])[leaf]
        if t is None or t._value.segment is not seg or array is None or getattr(array, "is_deleted", bool)():
            continue
        if lost is not None and t._value.index not in lost:
            continue
        old = Value(t._value.sig, array, seg.device)
        old.guards = (seg.leaf_guards or {}).get(leaf, ())
        if t._view is None:
            t._value = old
        else:
            t._view.overwrite(t, old)


def fill(seg: Segment) -> None:
    """Give the results to the values that wait for them; safe to repeat."""
    if seg.results:
        live = seg.live
        assert live is not None
        made = (*seg.early, *seg.results[0]) if seg.early else seg.results[0]
        if rows.used[0]:
            made = rows.settled(made)
        if seg.guards or seg.leaf_guards:
            _fill_guards(seg, dict(zip(live, made)))
        for i, array in zip(live, made):
            v = seg.values[i]()
            if v is not None and v.segment is seg:
                if array.__class__ is rows.Rows:
                    _put_off(v, array)
                    continue
                v.array = array if seg.plan is None else padding.result(seg, i, array, v.sig.shape)
                v.segment = None
        if seg.guards:
            guards.keep(seg)
        seg.arrays, seg.results, seg.replaced, seg.early, seg.original = [], [()], [], (), None
        seg.edges, seg.cells = [], []
        OPEN.pop(id(seg), None)


def _put_off(v: Value, found: rows.Rows) -> None:
    """Let a value wait in a segment of its own, which has run, until somebody asks for it: most gradients of a large table
    are gone by then.
    """
    seg = Segment()
    seg.closed, seg.device, seg.live, seg.values = True, v.device, (0,), [ref(v)]
    seg.results = [[rows.Asked(found)]]
    v.index, v.segment = 0, seg


def _fill_guards(seg: Segment, made: dict[int, Any]) -> None:
    """Fill in the flags, and give values the guards that they depend on, before anybody can read them."""
    for g in seg.guards:
        if g.index in seg.lost:
            g.resolve(False)  # it checks what depends on another one, which has failed
        elif g.flag is not None and g.flag.segment is seg:
            g.flag.array, g.flag.segment = made.get(g.index), None
    found = guards.dependent(seg) | {i: (g,) for i, g in seg.lost.items()}
    for i, those in found.items():
        v = seg.values[i]()
        if v is not None and v.segment is seg:
            v.guards = those
            if i in seg.lost:
                v.segment = None


def _open_new() -> Segment:
    seg = Segment()
    announce(seg)
    for region in local.regions:
        region.moved(seg)
    local.segment = seg
    return seg


class aside:
    """Calls inside the block are a program of their own, run at its end; what this thread has pending stays as it is.

    For what happens once beside a step that is repeated, and would make its first program another one.
    """

    def __enter__(self) -> None:
        run_closed()
        self._outer = local.segment
        local.segment = Segment()
        announce(local.segment)

    def __exit__(self, *exc: object) -> None:
        try:
            run(local.segment)
        finally:
            local.segment = self._outer
            reads_again(self._outer)


def _held_elsewhere(seg: Segment) -> set[int]:
    """Arrays that another segment reads, a thread's or that of a graph being captured: they must not be donated."""
    others = [s for r in list(OPEN.values()) if (s := r()) is not None and s is not seg and s.arrays]
    return {id(padding.buffer(a)) for s in others for a in s.arrays} if others else set()


_ENGINE = agreement.Engine(_execute, _take_back, fill, run, extend, _held_elsewhere)


def _drop_lone_views(seg: Segment) -> None:
    # many rows of one tensor have one cell, and its one weak reference
    for r in {id(r): r for r in seg.cells}.values():
        cell = r()
        if cell is not None:
            cell.collapse()


def force(v: Value, need: Need = Need.OPERAND) -> Any:
    """The array of a Value, running what it waits for; its numbers where `need` says that they are enough."""
    if local.trace is not None:
        local.trace.spoiled = True
    if v.array is None:
        seg = v.segment
        numbers = need == Need.NUMBERS and v.device.several and v.device.channel is not None
        alone = v.device.channel.read if numbers else {}
        if seg is not None and v not in alone:
            with seg.lock:
                if seg.results:
                    fill(seg)
                elif not (numbers and seg.error is None and agreement.read_here(seg, v, _ENGINE)):
                    run(seg, need, v)
            seg = v.segment
            if seg is not None and v.array is None and seg.results:  # it was put off by that run
                with seg.lock:
                    fill(seg)
                seg = v.segment
        if v.array is None and v in alone:  # what this process has computed of it without the others
            return alone[v]
        if v.array is None:
            guards.check(v)
            if v.marks == SYMBOLIC:
                raise errors.bad(
                    "value",
                    "a number",
                    described="a symbolic input of a graph being captured",
                    hint="what captured code keeps elsewhere, as in a global object, has no value afterwards",
                    kind=RuntimeError,
                )
            elif v.__class__ is Zero:
                shape, dtype = v.sig.shape, v.sig.dtype.np
                # to an accelerator it need not be sent, see `xla.move_to_device`
                v.array = np.zeros(shape, dtype) if v.device.is_cpu else np.broadcast_to(np.zeros((), dtype), shape)
            elif v.__class__ is Unmade:
                hint = "call initialize() of each parameter first, or load a state dict"
                raise errors.bad(
                    "value",
                    "an initialized value",
                    described="a parameter created inside LazyGuard, which is not initialized yet",
                    hint=hint,
                    kind=RuntimeError,
                )
            elif seg is not None and seg.error is not None:
                raise errors.with_line(seg.error)
            else:
                raise errors.failure("this value belongs to a segment that was lost (a fork, or an interrupted run)")
    if v.array.__class__ is padding.PaddedArray:
        v.array = padding.exact(v.array)
    if guarding.used:
        guards.check(v)
    return v.array


def flush() -> None:
    """Run everything that the current thread has recorded and not run yet.

    Examples:
        >>> y = bireme.ones([2]) + 1
        >>> bireme.debug.flush()
        >>> y.tolist()
        [2.0, 2.0]
    """
    run_closed()
    run(local.segment)
    guards.check()


def pin(v: Value) -> Any:
    """The array of a Value that is about to leave the engine: from now on its buffer is never donated."""
    array = force(v)
    guards.check_value(v, wait=True)  # outside of the engine nobody could raise later
    if v.device.is_cpu or not isinstance(array, np.ndarray):
        lookup.pin(array)
        return array
    v.array = array = lookup.put(array, v.device)
    lookup.pin(array)
    return array


def close_step() -> None:
    """End of `optimizer.step()`: close the segment. It runs when its gradients may have died (see `run_closed`)."""
    run_closed()
    seg = local.segment
    if seg.symbolic or seg.state.bound is None:
        return
    seg.closed = True
    local.waiting = seg
    _open_new()


def parameters_made() -> None:
    """An optimizer was made for parameters: their first values are a program of their own, and no part of the first
    step, which so is the same as the second.
    """
    seg = local.segment
    if not seg.symbolic and seg.state.bound is not None and not has_live_tape(seg):
        run(seg)


def run_closed() -> None:
    """Run the segment that `close_step` closed, if it has not run yet."""
    seg = local.waiting
    if seg is not None:
        local.waiting = None
        run(seg)


NEW_GRAPHS = 4  # that calls of Layers one after another may lead to, more than came back, until each is cut off


def layer_entered(layer: Any, inputs: list[Value] | None) -> None:
    """Entry of the outermost Layer call: a cut, unless something pending may still be differentiated.

    Layers that are called one after another without gradients, each with what another gave, are one program: a model's
    own loop over them; `inputs` are None where gradients are wanted. One that was called before begins the next round
    of such a loop, and is cut off; so is every one where these programs keep changing, as with a cache that grows, so
    that those parts that do not change come back.
    """
    seg = local.segment
    if seg.symbolic or has_live_tape(seg):
        return
    if seg.state.bound is not None:
        follows = inputs is not None and seg.entered and any(v.segment is seg for v in inputs)
        if not follows or seg.entered.get(id(layer), bool)() is layer or not _joins(seg):
            run(seg)
            seg = local.segment
    if inputs is not None:
        seg.entered[id(layer)] = ref(layer)


# by the line where a segment went on into another Layer: graphs that this led to, new ones against those that came back
_joined: dict[Any, int] = {}


def _joins(seg: Segment) -> bool:
    """Whether a segment goes on into another Layer, by what came of it before."""
    if seg.joined is None:
        line = errors.position()
        if _joined.get(line, 0) > NEW_GRAPHS:
            return False
        seg.joined = line
    return True


def _note_join(seg: Segment, new: bool) -> None:
    """Count what a segment of several Layers came to."""
    before = _joined.get(seg.joined, 0)
    bounded(_joined)[seg.joined] = before + 1 if new else max(before - 1, 0)


def backward_starts(frees: bool = False) -> None:
    """A stable place to cut a forward pass that has outgrown the bounds, or a loop that neither calls layers nor steps
    an optimizer.

    Two passes that free their graphs may share a program, as those of two losses do; a third belongs to another step.
    Of those that keep them, such as `grad` for each row of a Jacobian, more may.
    """
    seg = local.segment
    if (seg.state.depth > flags.max_pending_nodes.value or seg.passes >= 32) and not seg.symbolic:
        run(seg)
        seg = local.segment
    seg.passes += 16 if frees else 1


WORTH_A_CUT = 8  # calls; fewer are not worth a program of their own


def sizes_follow(cut: bool = False) -> None:
    """A size was read from data: what comes now may have another shape in each step, what came before has not.

    So that the part of the backward pass that leads through what came before is a program of its own, the same in each
    step, the pass cuts where it comes to `border` (see `Walk.run`).
    """
    seg = local.segment
    if seg.symbolic or border() != 0:  # sizes of what came before follow from data already
        return
    if cut and seg.state.depth >= WORTH_A_CUT:
        run(seg)
    local.border = seg.edges[-1] if seg.edges and seg.edges[-1]() is not None else local.last_edge


def border() -> int:
    """Where in the order of the tape sizes began to come from data; 0 if they do not, or nothing before that can be
    differentiated.
    """
    edge = local.border()
    return 0 if edge is None or edge.inputs is None else edge.order


def cross_border() -> None:
    """Cut a backward pass that comes to what was recorded before sizes came from data."""
    seg = local.segment
    if seg.state.depth >= WORTH_A_CUT and not seg.symbolic:
        run(seg)


def _run_at_once(seg: Segment, bound: Any, operands: list, outs: list[Value]) -> None:
    pos = seg.state.pos
    run(seg)
    guards.check()
    for watcher in debug_mode.watchers:
        watcher(bound, operands, outs, pos)
    if debug_mode.check_nan:
        for v in outs:
            if v.sig.dtype.is_inexact:
                found = np.asarray(force(v)).astype(np.complex128 if v.sig.dtype.is_complex else np.float64)
                if not np.isfinite(found).all():
                    text = errors.nonfinite(
                        getattr(bound.op, "told", bound.op.name),
                        int(np.isnan(found).sum()),
                        int(np.isinf(found).sum()),
                        v.sig.shape,
                    )
                    if flags.check_nan_inf_level.value > 0:
                        sys.stdout.write(f"{text}, at {errors.location(pos)}\n")
                    else:
                        raise errors.failure(text, kind=errors.NonFiniteError, pos=pos)


# ---------------------------------------------------------------- fork


def _before_fork() -> None:
    if not local.segment.symbolic:
        run_closed()
        run(local.segment)
    lookup.before_fork()


def _after_fork_in_child() -> None:
    """What this thread had pending has run; what other threads had is gone with them, and says so."""
    lookup.forked()
    for r in list(OPEN.values()):
        seg = r()
        if seg is not None:
            seg.lock = threading.RLock()
            if seg is not local.segment and not seg.results:
                seg.error = RuntimeError("this value was pending in another thread when the process was forked")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
