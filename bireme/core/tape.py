"""Autograd: edges recorded beside the calls, walked backwards to record gradient nodes into the same segment."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any
from weakref import ref

from bireme.core import errors, flush, registry
from bireme.core.grad_mode import GradMode, enable_grad, state
from bireme.core.graph import Node, Value, Zero, scalar_sig
from bireme.core.tensor import Tensor, read, wrap
from bireme.core.walk import Walk, add, freed, handle, key_of, leads

_order = itertools.count(1)


def now() -> int:
    """A point in the order of the tape: edges recorded later have a larger one."""
    return next(_order)


class _Seldom:
    """What few edges have; they keep it in a dict of their own over these defaults."""

    __slots__ = ()

    outs: Any = None  # results that the rule reads
    hooks: Any = None  # by output, the user's functions
    unpack: Any = None  # how saved_tensors_hooks gives back what it packed


class Edge(_Seldom):
    """One differentiable call: where its gradients go, and what its rule reads. Outputs are known by position.

    `inputs` has, per operand, None (no gradient), (Edge, output index), or the leaf Tensor that accumulates.
    """

    __slots__ = ("__dict__", "__weakref__", "bound", "first", "inputs", "order", "out_sigs", "saved", "sigs")

    plain = True  # its gradients are recorded steps and nothing else
    inputs: Any
    first: int  # place of its first output in the segment that has the edge, -1 if that is another one

    def __init__(self, bound: Any, inputs: Any, sigs: tuple, out_sigs: tuple, saved: Any = None):
        self.bound, self.inputs, self.sigs, self.out_sigs, self.saved = bound, inputs, sigs, out_sigs, saved
        self.order = next(_order)

    @property
    def name(self) -> str:
        return self.bound.op.name

    def free(self) -> None:
        """Let go of what the rule would read; a second backward then says so."""
        self.saved = self.outs = self.inputs = None

    def pull(self, gs: list, needs: list[int], create_graph: bool) -> list[tuple[int, Tensor]]:
        """Gradients of the operands in `needs`, given those of the outputs."""
        bound, found, rest = self.bound, [], []
        for i in needs:
            if i in bound.passes and gs[0] is not None and self.sigs[i] is self.out_sigs[0]:
                found.append((i, gs[0]))
            else:
                rest.append(i)
        if not rest:
            return found
        grad = bound.grad_bound(tuple(g is not None for g in gs), tuple(rest), self.sigs, self.out_sigs)
        operands = [g for g in gs if g is not None]
        return found + list(zip(rest, apply(grad, operands + self._saved_for(grad, create_graph))))

    def push(self, vs: list) -> list[Tensor | None]:
        """Tangents of the outputs, given those of the operands that move.

        The gradient is linear in what comes in, and its transpose is the tangent. So one rule serves both directions,
        and what the edge saved for backward is enough: forward mode works on any graph, however it was recorded.
        """
        needs = tuple([i for i, v in enumerate(vs) if v is not None])
        given = tuple([s.dtype.kind in "fc" for s in self.out_sigs])
        places = [i for i, g in enumerate(given) if g]
        grad = self.bound.grad_bound(given, needs, self.sigs, self.out_sigs)
        operands = [_zeros(self.out_sigs[i]) for i in places] + self._saved_for(grad, state.grad)
        sigs = tuple([scalar_sig(t[0]) if t.__class__ is tuple else t._sig for t in operands])
        pulled = tuple([self.sigs[i] for i in needs])
        back = grad.grad_bound((True,) * len(needs), tuple(range(len(places))), sigs, pulled)
        made = dict(zip(places, apply(back, [vs[i] for i in needs] + operands)))
        return [made.get(i) for i in range(len(given))]

    def _saved_for(self, grad: Any, create_graph: bool) -> list:
        """What a gradient node reads besides the incoming gradients."""
        unread = self._by_numbers(grad)
        operands = [self._restore(self.saved[i], self.inputs[i], create_graph, unread) for i in grad.operand_places]
        if grad.takes_outs:
            operands += [self._restore(o, (self, i), create_graph, unread) for i, o in enumerate(self.outs)]
        return operands

    def _by_numbers(self, grad: Any) -> bool:
        """Whether the call only scales the operand in question by a number: its gradient reads no tensor."""
        scales = self.bound.op.scales
        if not scales or len(grad.needs) != 1 or grad.needs[0] not in scales:
            return False
        return all(s.__class__ is tuple for i, s in enumerate(self.saved) if i != grad.needs[0])

    def _restore(self, saved: Any, source: Any, create_graph: bool, unread: bool = False) -> Any:
        """A saved value as an operand of the gradient node, with its place on the tape if that is wanted."""
        if saved.__class__ is tuple:
            return saved
        if self.unpack is not None:
            t = self.unpack(saved)
            v = read(t)
        else:
            v = saved
            if v.marks > self.order and not unread:  # changed in place by an operator that came later
                raise RuntimeError(
                    f"backward: {self.name} needs a tensor of shape {list(v.sig.shape)} that an in-place operator has changed since\n"
                    f"  {v.marks}\n"
                    f"  hint: use the operator without the trailing underscore, or clone() before changing it"
                )
        return restored(v, source if create_graph else None)


class Relay(Edge):
    """Carries a gradient to a leaf whose value has changed since it was used."""

    __slots__ = ()

    plain = False

    def __init__(self, leaf: Tensor):
        super().__init__(None, (leaf,), (), ())
        self.order = -1

    def pull(self, gs: list, needs: list[int], create_graph: bool) -> list[tuple[int, Tensor]]:
        return [(0, gs[0])]

    def push(self, vs: list) -> list[Tensor | None]:
        return [vs[0]]


class CustomEdge(Edge):
    """A call whose gradient is the user's own Python function: gradients of the outputs in, of the inputs out."""

    __slots__ = ("function",)

    plain = False

    def __init__(self, name: str, inputs: tuple, sigs: tuple, out_sigs: tuple, function: Callable[[list], list]):
        super().__init__(name, inputs, sigs, out_sigs)
        self.function: Any = function

    @property
    def name(self) -> str:
        return self.bound

    def free(self) -> None:
        super().free()
        self.function = None

    def pull(self, gs: list, needs: list[int], create_graph: bool) -> list[tuple[int, Tensor]]:
        found = self.function([None if g is None else handle(g) for g in gs])
        return [(i, found[i]) for i in needs if found[i] is not None]

    def push(self, vs: list) -> list[Tensor | None]:
        """As for any edge, the transpose of the gradient: here of the user's function, by differentiating it."""
        gs = [_zeros(s) if s.dtype.kind in "fc" else None for s in self.out_sigs]
        for g in gs:
            if g is not None:
                g.stop_gradient = False
        with enable_grad():
            found = self.function(gs)
        pairs = [(f, v) for f, v in zip(found, vs) if f is not None and v is not None]
        ys, seeds = [f for f, _ in pairs], [v for _, v in pairs]
        moved = iter(grad(ys, [g for g in gs if g is not None], seeds, create_graph=state.grad, allow_unused=True))
        return [None if g is None else next(moved) for g in gs]


def restored(v: Value, source: Any) -> Tensor:
    """A saved value as a tensor with the place on the tape that it had: `source` is what `target_of` said then."""
    if source is None:
        return wrap(v)
    if source.__class__ is not tuple:
        if source._value is v:
            return source
        source = (Relay(source), 0)
    t = wrap(v, stop_gradient=False)
    t._edge = source
    return t


def target_of(t: Tensor) -> Any:
    """Where a gradient of `t` goes: None, (Edge, index), or the leaf itself."""
    if t.stop_gradient:
        return None
    return t if t._edge is None else t._edge


def apply(bound: Any, operands: list) -> list[Tensor]:
    """Record one call on tensors and (dtype, number) pairs, and its edge if somebody wants gradients.

    It does what `flush.record` does for a step that the tree of segments knows; anything else is left to that.
    """
    seg = flush.local.segment
    key: Any = [bound]
    numbers: list[Any] = []
    leaves: dict[Value, None] = {}  # in order; an update of many parameters reads thousands
    needs = False
    for t in operands:
        if t.__class__ is tuple:
            if key is not None:
                key.append(t[0])
                numbers.append(t[1])
            continue
        view = t._view
        if view is not None and view.version != view.cell.version:
            view.refresh(t)
            key = None  # what it recorded moved the segment on
        if not t.stop_gradient:
            needs = True
        if key is not None:
            v = t._value
            if v.segment is seg:
                key.append(v.index)
            elif v.leaf_of is seg:
                key.append(~v.leaf)
            elif v.array is not None and v.device is seg.device and flush.local.waiting is None and v not in leaves:
                key.append(v.sig)
                leaves[v] = None
            else:
                key = None
    if key is not None and len(numbers) < len(operands):  # made of nothing, it belongs on the current device, which `record` looks at
        node = seg.state.next.get(tuple(key))
        if node is not None and not node.over and not flush.debug_mode.at_once:
            outs = step(seg, node, operands, numbers, leaves, needs)
            if outs is not None:
                return outs
    values: list[Any] = [t if t.__class__ is tuple else t._value for t in operands]
    made = flush.record(bound, values)
    if not needs or not state.grad or not bound.differentiable:
        return [wrap(v) for v in made]
    sigs = tuple([scalar_sig(v[0]) if v.__class__ is tuple else v.sig for v in values])
    first = made[0].index if made and made[0].segment is flush.local.segment else -1  # recording it may have cut the segment
    return _tracked(bound, operands, sigs, made, tuple([v.sig for v in made]), first)


def step(seg: flush.Segment, node: Node, operands: list, numbers: Sequence, leaves: Collection[Value], needs: bool) -> list[Tensor] | None:
    """Take a step that the tree of segments knows; None if another thread cut the segment meanwhile."""
    made = flush.follow(seg, node, numbers, leaves)
    if made is None:
        return None
    if needs and state.grad and node.bound.differentiable:
        return _tracked(node.bound, paired(node, operands) if numbers else operands, node.sigs, made, node.outs, node.first)
    new, outs = Tensor.__new__, []
    for v in made:
        t = new(Tensor)
        t._value, t._edge, t._view, t.stop_gradient = v, None, None, True
        outs.append(t)
    return outs


def step_to_one(seg: flush.Segment, node: Node, operands: list, numbers: Sequence, leaves: list[Value], needs: bool) -> Tensor | None:
    """The same where the step has one result, which nearly all have: without lists, because it is what most calls come to."""
    v = Value.__new__(Value)
    v.sig, v.array, v.segment, v.index, v.leaf_of, v.device, v.marks, v.bounds = node.outs[0], None, seg, node.first, None, seg.device, 0, None
    try:
        if leaves:
            flush.read_first(seg, leaves)
        if numbers:
            seg.numbers += numbers
        seg.values.append(ref(v))
        seg.state = node
    except BaseException:  # an interrupt in between
        flush.roll_back(seg)
        raise
    if seg.closed:
        return None
    t = Tensor.__new__(Tensor)
    bound = node.bound
    if needs and state.grad and bound.differentiable:
        plain = node.plain
        if plain is None:
            plain = node.plain = all(s.dtype.kind in "fc" for s in (*node.sigs, *node.outs))
        if plain and state.pack is None:
            reads = bound.reads
            if numbers:
                operands = paired(node, operands)
                inputs = [None if x.__class__ is tuple or x.stop_gradient else x._edge or x for x in operands]
                saved: Any = [x if x.__class__ is tuple else x._value if reads is None or i in reads else None for i, x in enumerate(operands)]
            else:
                inputs = [None if x.stop_gradient else x._edge or x for x in operands]
                if reads is None:
                    saved = [x._value for x in operands]
                else:
                    saved = [x._value if i in reads else None for i, x in enumerate(operands)] if reads else (None,) * len(operands)
            edge: Any = Edge(bound, inputs, node.sigs, node.outs, saved)
            edge.first = node.first
            if bound.reads_out:
                edge.outs = (v,)
            seg.edges.append(ref(edge))
            t._value, t._edge, t._view, t.stop_gradient = v, (edge, 0), None, False
            return t
        edge, carries = _edge(bound, paired(node, operands) if numbers else operands, node.sigs, [v], node.outs, node.first)
        if carries or (edge is not None and v.sig.dtype.kind in "fc"):
            t._value, t._edge, t._view, t.stop_gradient = v, (edge, 0), None, False
            return t
    t._value, t._edge, t._view, t.stop_gradient = v, None, None, True
    return t


def paired(node: Node, operands: list) -> list:
    """Operands with each number beside its dtype."""
    return [(kind, t) if t.__class__ is float or t.__class__ is int else t for kind, t in zip(node.key[1:], operands)]


def _tracked(bound: Any, operands: list, sigs: tuple, made: list[Value], out_sigs: tuple, first: int) -> list[Tensor]:
    """Results with an edge from the operands to them."""
    edge, carries = _edge(bound, operands, sigs, made, out_sigs, first)
    new, outs = Tensor.__new__, []
    for i, v in enumerate(made):
        t = new(Tensor)
        if carries or (edge is not None and v.sig.dtype.kind in "fc"):
            t._value, t._edge, t._view, t.stop_gradient = v, (edge, i), None, False
        else:
            t._value, t._edge, t._view, t.stop_gradient = v, None, None, True
        outs.append(t)
    return outs


def _edge(bound: Any, operands: list, sigs: tuple, made: list[Value], out_sigs: tuple, first: int) -> tuple[Edge | None, bool]:
    """The edge of a call, None if no operand takes a gradient after all; and whether results of whole numbers carry one too."""
    inputs: list[Any] = []
    saved: list[Any] = []
    reads, whole, left = bound.reads, False, False
    for i, t in enumerate(operands):
        if t.__class__ is tuple:
            inputs.append(None)
            saved.append(t)
            continue
        v = t._value
        if t.stop_gradient:
            inputs.append(None)
        elif v.sig.dtype.kind in "fc" or _carried(bound, v.sig.dtype.kind, out_sigs):
            whole = whole or v.sig.dtype.kind not in "fc"
            inputs.append(t._edge or t)
        else:
            left = True
            inputs.append(None)
        saved.append(v if reads is None or i in reads else None)
    if left and not any(t is not None for t in inputs):
        return None, False
    edge = Edge(bound, inputs, sigs, out_sigs, saved)
    edge.first = first
    if bound.reads_out:
        edge.outs = made
    if state.pack is not None and not _only_scales(bound, saved):
        _pack(edge)
    flush.local.segment.edges.append(ref(edge))
    return edge, whole or bound.op.name == "cast"


def _carried(bound: Any, kind: str, outs: tuple) -> bool:
    """Whether an operand of whole numbers is what the results are made of: then, as in Paddle, gradients go to it where somebody asks.

    What is counted, compared or looked up by integers is not made of them.
    """
    return bound.op.name == "cast" or (kind == "i" and any(s.dtype.kind == "i" for s in outs))


def _only_scales(bound: Any, saved: list) -> bool:
    """Whether the call scales one tensor by numbers: its gradient reads no tensor, so there is nothing to pack."""
    tensors = [i for i, v in enumerate(saved) if v.__class__ is not tuple]
    return len(tensors) == 1 and tensors[0] in bound.op.scales


def _pack(edge: Edge) -> None:
    """Give what the rule reads to the user's function that packs it."""
    pack, edge.unpack = state.pack
    edge.saved = [v if v is None or v.__class__ is tuple else pack(wrap(v)) for v in edge.saved]
    if edge.outs is not None:
        edge.outs = [pack(wrap(v)) for v in edge.outs]


# ---------------------------------------------------------------- walking backwards


def _zeros(sig: Any) -> Tensor:
    return registry.find("zeros")(list(sig.shape), sig.dtype)


def _seed(t: Tensor, g: Any, where: str) -> Tensor:
    sig = t._sig
    if g is None:
        return registry.find("ones_like")(wrap(t._value))
    if not isinstance(g, Tensor):
        raise errors.bad(where, "a Tensor or None", g, hint="The type of grad_tensor must be paddle.Tensor", kind=errors.Alien)
    if g._sig.shape != sig.shape:
        if g._sig.size != 1 or sig.size != 1:  # one number is one number, [] or [1], as in Paddle
            hint = "Tensor shape not match, Tensor of grad_tensor has another"
            raise errors.bad(where, f"the output's shape {list(sig.shape)}", f"shape {g.shape}", hint=hint, kind=errors.Unfit)
        g = registry.find("reshape")(g, list(sig.shape))
    return g if g._sig is sig else registry.find("cast")(g, sig.dtype)


def _reject_stopped(t: Any, where: str) -> None:
    if not isinstance(t, Tensor):
        raise errors.bad(where, "a Tensor", t, kind=errors.Alien)


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool = False) -> None:
    """Accumulate gradients of `tensors` into the leaves they were computed from.

    >>> x = bireme.to_tensor([2.0], stop_gradient=False); bireme.autograd.backward([x * x]); x.grad.tolist()
    [4.0]
    """
    roots = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    seeds = [None] * len(roots) if grad_tensors is None else list(grad_tensors) if isinstance(grad_tensors, (list, tuple)) else [grad_tensors]
    if len(seeds) != len(roots):
        raise errors.bad("backward(grad_tensors)", f"{len(roots)} gradients", f"{len(seeds)}", kind=errors.Unfit)
    if len({id(t) for t in roots}) != len(roots):
        raise errors.bad("backward(tensors)", "no duplicate", "a tensor twice", kind=errors.Unfit)
    flush.backward_starts(frees=not retain_graph)
    outer, state.grad = state.grad, False  # no `with`: an interrupt at the door of __exit__ would leave it off
    try:
        walk = Walk(False, outer)
        for t, g in zip(roots, seeds):
            _reject_stopped(t, "backward(tensors)")
            read(t)
            target = target_of(t)
            if target is None:  # Paddle passes over it without a word
                got = "one that needs none, so nothing to do"
                warnings.warn(errors.text("backward(tensor)", "a floating tensor that requires gradients", got), stacklevel=2)
                continue
            walk.give(target, _seed(t, g, "backward(grad_tensor)"))
        walk.run_remembered(retain_graph)
        for leaf, g in walk.leaves.values():
            accumulate(leaf, walk.hooked(leaf._hooks, g))
            if leaf._after is not None:
                for hook in list(leaf._after.values()):
                    hook()
    finally:
        state.grad = outer
    while final_hooks:
        final_hooks.pop(0)()


final_hooks: list[Callable] = []  # called once, when the next backward pass has ended


def accumulate(leaf: Tensor, g: Tensor) -> None:
    """Add to `leaf.grad`: one storage, so whoever holds it sees the sum."""
    held = leaf._grad
    if held is None:
        leaf._grad = wrap(read(g), stop_gradient=False)  # as in Paddle: what is computed from a gradient may be differentiated
    elif read(held).__class__ is Zero:
        held._value = read(g)
    else:
        held._assign_value(add(held, g))


@errors.named
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
         only_inputs: bool = True, allow_unused: bool = False, no_grad_vars: Any = None) -> list[Tensor | None]:  # fmt: skip
    """Gradients of `outputs` with respect to `inputs`, without touching any `.grad`.

    >>> x = bireme.to_tensor([3.0], stop_gradient=False)
    >>> bireme.grad(x * x, x)[0].tolist()
    [6.0]
    """
    outs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    ins = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    for name, several in (("outputs", outs), ("inputs", ins)):
        if not several:
            raise errors.bad(f"grad({name})", "at least one Tensor", several, kind=errors.Unfit)
        if len({id(t) for t in several}) != len(several):
            raise errors.bad(f"grad({name})", "no duplicate", "a tensor twice", kind=errors.Misfit)
    seeds = [None] * len(outs) if grad_outputs is None else list(grad_outputs) if isinstance(grad_outputs, (list, tuple)) else [grad_outputs]
    if len(seeds) != len(outs):
        raise errors.bad("grad(grad_outputs)", f"{len(outs)} gradients", f"{len(seeds)}", kind=errors.Unfit)
    if only_inputs is not True:
        raise errors.bad("grad(only_inputs)", "True", only_inputs, kind=errors.Unfit)
    for name, switch in (("create_graph", create_graph), ("retain_graph", retain_graph), ("allow_unused", allow_unused)):
        if not isinstance(switch, bool) and (switch is not None or name != "retain_graph"):
            raise errors.bad(f"grad({name})", "True or False", switch, kind=errors.Alien)
    blocked = set()
    for t in [] if no_grad_vars is None else list(no_grad_vars) if isinstance(no_grad_vars, (list, tuple, set)) else [no_grad_vars]:
        _reject_stopped(t, "grad(no_grad_vars)")
        read(t)
        if (target := target_of(t)) is not None:
            blocked.add(key_of(target))
    for t in ins:
        _reject_stopped(t, "grad(inputs)")
        read(t)
    # Paddle frees nothing here unless told to: several calls in a row may differentiate one graph
    retain = create_graph or retain_graph is not False
    flush.backward_starts()
    for t in outs:
        _reject_stopped(t, "grad(outputs)")
        read(t)
    found = pulled(outs, seeds, ins, retain, create_graph, blocked)
    for i, g in enumerate(found):
        if g is None and not allow_unused:
            raise errors.bad(f"grad(inputs[{i}])", "a tensor that the outputs depend on", "an unused one", hint="pass allow_unused=True to get None")
    if not create_graph:
        return [None if g is None else wrap(read(g)) for g in found]
    return _apart(found, [*outs, *ins, *seeds])


def _apart(found: list[Tensor | None], given: list) -> list[Tensor | None]:
    """Gradients that may be differentiated, each a tensor of its own: what was given, or stands twice, is copied."""
    known, own = {id(t) for t in given}, []
    for g in found:
        if g is not None and g.stop_gradient:  # nothing can change it, but it may be differentiated as well
            g = wrap(read(g), stop_gradient=False)
        elif g is not None and id(g) in known:
            with GradMode(True):
                g = registry.find("clone")(g)
        known.add(id(g))
        own.append(g)
    return own


def pulled(outs: list, seeds: list, ins: list, retain: bool, create_graph: bool, blocked: set) -> list[Tensor | None]:
    """Gradients of `outs` with respect to `ins`, None where there is none."""
    targets = [target_of(t) for t in ins]
    wanted: dict[Any, Tensor | None] = {key_of(t): None for t in targets if t is not None}
    outer = state.grad
    with GradMode(create_graph):
        walk = Walk(create_graph, outer)
        roots = []
        for t, g in zip(outs, seeds):
            target = target_of(t)
            if target is not None:
                roots.append(target)
                walk.give(target, _seed(t, g, "grad(grad_outputs)"))
        walk.run(retain, _useful(roots, wanted), wanted, blocked)
        for key in wanted:
            if key in walk.leaves:  # a leaf's own hooks belong to its `.grad`, as in Paddle
                wanted[key] = walk.leaves[key][1]
    return [None if t is None else wanted[key_of(t)] for t in targets]


def push(outputs: list[Tensor], inputs: list[Tensor], tangents: list[Tensor]) -> list[Tensor | None]:
    """Forward mode: how `outputs` move when `inputs` move along `tangents`, recorded edge by edge; None: not at all."""
    moving: dict[Any, Tensor] = {}

    def move(target: Any, v: Tensor | None) -> None:
        if v is not None and target is not None:
            key = key_of(target)
            moving[key] = add(moving[key], v) if key in moving else v

    for t, v in zip(inputs, tangents):
        read(t)
        move(target_of(t), v)
    roots = []
    for t in outputs:
        read(t)
        roots.append(target_of(t))
    for edge in sorted(_useful(roots, dict.fromkeys(moving)), key=lambda e: e.order):
        if edge.inputs is None:
            raise freed(edge)
        vs = [None if t is None else moving.get(key_of(t)) for t in edge.inputs]
        if any(v is not None for v in vs):
            for i, moved in enumerate(edge.push(vs)):
                move((edge, i), moved)
    return [None if t is None else moving.get(key_of(t)) for t in roots]


def _useful(roots: list, wanted: dict) -> set[Edge]:
    """Edges from which a wanted input can be reached."""
    edges: dict[Edge, None] = {}
    todo = [t[0] for t in roots if t.__class__ is tuple]
    while todo:
        e = todo.pop()
        if e in edges:
            continue
        edges[e] = None
        todo += [t[0] for t in e.inputs or () if t.__class__ is tuple]
    useful: set[Edge] = set()
    for e in sorted(edges, key=lambda e: e.order):
        if e.inputs is None or any(t is not None and leads(t, useful, wanted) for t in e.inputs):
            useful.add(e)
    return useful


# ---------------------------------------------------------------- hooks


class RemovableHandle:
    """What registering a hook returns; `remove()` takes the hook away."""

    def __init__(self, hooks: dict, key: int):
        self._hooks, self._key = hooks, key

    def remove(self) -> bool:
        """Take the hook away; False if that was done before."""
        return self._hooks.pop(self._key, None) is not None


def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(grad)` when the gradient of this tensor is known; what it returns replaces the gradient.

    >>> x = bireme.to_tensor([1.0], stop_gradient=False); h = x.register_hook(lambda g: g * 2); (x * 3).backward(); x.grad.tolist()
    [6.0]
    """
    if not callable(hook):
        raise errors.bad("register_hook(hook)", "a callable", hook, kind=TypeError)
    read(self)
    if self.stop_gradient:
        raise errors.bad("register_hook()", "a tensor that requires gradients", "one with stop_gradient=True", kind=RuntimeError)
    hooks = _hooks_of(self)
    key = next(_order)
    hooks[key] = hook
    return RemovableHandle(hooks, key)


def _register_backward_hook(self: Tensor, hook: Callable) -> None:
    """Call `hook()` whenever a gradient has been added to this leaf."""
    if not callable(hook):
        raise errors.bad("_register_backward_hook(hook)", "a callable", hook, kind=TypeError)
    read(self)
    if self.stop_gradient or self._edge is not None:
        raise errors.bad("_register_backward_hook()", "a leaf that requires gradients", "another tensor")
    self._after = {**(self._after or {}), next(_order): hook}


def _hooks_of(t: Tensor) -> dict:
    if t._edge is None:
        if t._hooks is None:
            t._hooks = {}
        return t._hooks
    edge, i = t._edge
    if edge.hooks is None:
        edge.hooks = {}
    return edge.hooks.setdefault(i, {})


def retain_grads(self: Tensor) -> None:
    """Keep the gradient of this intermediate result in its `.grad`; a tensor without gradients stays as it is, as in Paddle.

    >>> x = bireme.to_tensor([1.0], stop_gradient=False); y = x * 2; y.retain_grads(); (y * y).backward(); y.grad.tolist()
    [4.0]
    """
    read(self)
    if self.stop_gradient or self._edge is None:
        return
    me = ref(self)

    def keep(g: Tensor) -> None:
        t = me()
        if t is not None:
            t._grad = wrap(read(g), stop_gradient=False)

    _hooks_of(self)[next(_order)] = keep


def _backward_method(self: Tensor, grad_tensor: Any = None, retain_graph: bool = False) -> None:
    """Accumulate the gradient of this tensor into the leaves it was computed from; its own gradient is ones.

    >>> x = bireme.to_tensor([3.0], stop_gradient=False); (x * x).backward(); x.grad.tolist()
    [6.0]
    """
    backward([self], None if grad_tensor is None else [grad_tensor], retain_graph)


_backward_method.__name__ = _backward_method.__qualname__ = "backward"
Tensor.backward = _backward_method  # type: ignore[attr-defined]  # a method that Tensor gets here
Tensor.register_hook = Tensor._register_grad_hook = register_hook  # type: ignore[attr-defined]  # a method that Tensor gets here
Tensor._register_backward_hook = _register_backward_hook  # type: ignore[attr-defined]  # a method that Tensor gets here
Tensor.retain_grads = retain_grads  # type: ignore[attr-defined]  # a method that Tensor gets here


def save_value(v: Value) -> Any:
    """A saved value as saved_tensors_hooks want it: (what to keep, how to get the tensor back)."""
    if state.pack is None:
        return v, None
    pack, unpack = state.pack
    return pack(wrap(v)), unpack
