"""Autograd: edges recorded beside the calls; backward.py walks them and records gradient nodes into the same segment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any
from weakref import ref

from bireme.core.base import errors, registry
from bireme.core.base.dtype import DType
from bireme.core.graph import segment
from bireme.core.graph.bound import GradBound
from bireme.core.graph.graph import Node, Value, scalar_sig
from bireme.core.record import flush
from bireme.core.tensor.grad_mode import state
from bireme.core.tensor.higher_order import by_operators, of_gradient
from bireme.core.tensor.tensor import Tensor, read, wrap

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
    users = False  # its gradients are tensors of the user, with the stop_gradient that they were given
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
        bound, rest = self.bound, []
        found: list[tuple[int, Tensor]] = []
        if len(gs) > 1 and _beside_floats(self.out_sigs):
            gs = [g if s.dtype.kind in "fc" else None for g, s in zip(gs, self.out_sigs)]
            if all(g is None for g in gs):
                return found
        for i in needs:
            if i in bound.passes and gs[0] is not None and self.sigs[i] is self.out_sigs[0]:
                found.append((i, gs[0]))
            else:
                rest.append(i)
        if not rest:
            return found
        if bound.__class__ is GradBound:
            made = of_gradient(self, gs, rest, create_graph, apply)
            if made is not None:
                return found + list(zip(rest, made))
        given = (True,) if len(gs) == 1 else tuple([g is not None for g in gs])  # an edge that is walked has a gradient
        grad = bound.grad_bound(given, tuple(rest), self.sigs, self.out_sigs)
        if not create_graph and self.unpack is None:
            coming = [g._value if g._view is None else read(g) for g in gs if g is not None]
            return found + list(zip(rest, recorded(grad, coming + self._values_for(grad))))
        operands = [g for g in gs if g is not None] + self._saved_for(grad, create_graph)
        made = by_operators(grad, operands, apply) if create_graph and bound.op.by_operators else None
        return found + list(zip(rest, apply(grad, operands) if made is None else made))

    def push(self, vs: list) -> list[Tensor | None]:
        """Tangents of the outputs, given those of the operands that move.

        The gradient is linear in what comes in, and its transpose is the tangent. So one rule serves both directions,
        and what the edge saved for backward is enough: forward mode works on any graph, however it was recorded.
        """
        needs = tuple([i for i, v in enumerate(vs) if v is not None])
        given = tuple([s.dtype.kind in "fc" for s in self.out_sigs])
        places = [i for i, g in enumerate(given) if g]
        grad = self.bound.grad_bound(given, needs, self.sigs, self.out_sigs)
        operands = [zeros(self.out_sigs[i]) for i in places] + self._saved_for(grad, state.grad)
        sigs = tuple([scalar_sig(t[0]) if t.__class__ is tuple else t._sig for t in operands])
        pulled = tuple([self.sigs[i] for i in needs])
        back = grad.grad_bound((True,) * len(needs), tuple(range(len(places))), sigs, pulled)
        made = dict(zip(places, apply(back, [vs[i] for i in needs] + operands)))
        return [made.get(i) for i in range(len(given))]

    def _saved_for(self, grad: Any, create_graph: bool) -> list:
        """What a gradient node reads besides the incoming gradients."""
        unread = self._by_numbers(grad)
        past = unread or self.bound.op.of_the_past
        operands = [self._restore(self.saved[i], self.inputs[i], create_graph, past) for i in grad.operand_places]
        if grad.takes_outs:
            operands += [self._restore(o, (self, i), create_graph, unread) for i, o in enumerate(self.outs)]
        return operands

    def _values_for(self, grad: Any) -> list:
        """The same as values: where no graph is created, nobody asks for their places on the tape."""
        values = [self.saved[i] for i in grad.operand_places]
        if grad.takes_outs:
            values += self.outs
        for v in values:
            if v.__class__ is not tuple and v.marks > self.order:  # perhaps not read after all
                return [t if t.__class__ is tuple else t._value for t in self._saved_for(grad, False)]
        return values

    def _by_numbers(self, grad: Any) -> bool:
        """Whether the call only scales the operand in question by a number: its gradient reads no tensor."""
        scales = self.bound.op.scales
        if not scales or len(grad.needs) != 1 or grad.needs[0] not in scales:
            return False
        return all(s.__class__ is tuple for i, s in enumerate(self.saved) if i != grad.needs[0])

    def restore(self, i: int, create_graph: bool, unread: bool = False) -> Any:
        """A saved operand as it was, see `_restore`."""
        return self._restore(self.saved[i], self.inputs[i], create_graph, unread)

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
                raise errors.bad(
                    "backward()",
                    f"the tensor that {self.name} saved for backward to be unchanged",
                    described=f"a tensor of shape {list(v.sig.shape)} that an inplace operator has modified since: {v.marks}",
                    hint="use the operator without the trailing underscore, or clone() before changing it",
                    kind=errors.InplaceError,
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


def zeros(sig: Any) -> Tensor:
    return registry.find("zeros")(list(sig.shape), sig.dtype)


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
    if t._stop_gradient:
        return None
    return t if t._edge is None else t._edge


def apply(bound: Any, operands: list) -> list[Tensor]:
    """Record one call on tensors and (dtype, number) pairs, and its edge if somebody wants gradients.

    It does what `flush.record` does for a step that the tree of segments knows; anything else is left to that.
    """
    seg = segment.local.segment
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
        if not t._stop_gradient:
            needs = True
        if key is not None:
            r = segment.reference(seg, t._value, seg.device, leaves)
            if r is None:
                key = None
            else:
                key.append(r)
    # made of nothing, it belongs on the current device, which `record` looks at
    if key is not None and len(numbers) < len(operands) and not segment.debug_mode.at_once:
        found = tuple(key)
        node = seg.state.get(found)
        if node is None:
            node = flush.extend(seg.state, found, bound, [t if t.__class__ is tuple else t._value for t in operands])
        if node.over:
            pass
        elif bound.many:
            outs = step(seg, node, operands, numbers, leaves, needs)
            if outs is not None:
                return outs
        elif (one := step_to_one(seg, node, operands, numbers, leaves, needs)) is not None:
            return [one]
    values: list[Any] = [t if t.__class__ is tuple else t._value for t in operands]
    made = flush.record(bound, values)
    if not needs or not state.grad or not bound.differentiable:
        return [wrap(v) for v in made]
    sigs = tuple([scalar_sig(v[0]) if v.__class__ is tuple else v.sig for v in values])
    # recording it may have cut the segment
    first = made[0].index if made and made[0].segment is segment.local.segment else -1
    return _tracked(bound, operands, sigs, made, tuple([v.sig for v in made]), first)


def recorded(bound: Any, values: list) -> list[Tensor]:
    """As `apply` for values, where nobody wants gradients: most of what a backward pass records."""
    seg = segment.local.segment
    device, numbers = seg.device, []
    key: Any = [bound]
    leaves: dict[Value, None] = {}
    for v in values:
        if v.__class__ is tuple:
            key.append(v[0])
            numbers.append(v[1])
        elif v.segment is seg:
            key.append(v.index)
        else:
            r = segment.reference(seg, v, device, leaves)
            if r is None:
                return [wrap(v) for v in flush.record(bound, values)]
            key.append(r)
    if segment.debug_mode.at_once or len(numbers) == len(values):
        return [wrap(v) for v in flush.record(bound, values)]
    key = tuple(key)
    node = seg.state.get(key)
    if node is None:
        node = flush.extend(seg.state, key, bound, values)
    made = None if node.over else flush.follow(seg, node, numbers, leaves)
    return [wrap(v) for v in (flush.record(bound, values) if made is None else made)]


def step(
    seg: segment.Segment, node: Node, operands: list, numbers: Sequence, leaves: Collection[Value], needs: bool
) -> list[Tensor] | None:
    """Take a step that the tree of segments knows; None if another thread cut the segment meanwhile."""
    made = flush.follow(seg, node, numbers, leaves)
    if made is None:
        return None
    if needs and state.grad and node.bound.differentiable:
        return _tracked(
            node.bound, paired(node, operands) if numbers else operands, node.sigs, made, node.outs, node.first
        )
    new, outs = Tensor.__new__, []
    for v in made:
        t = new(Tensor)
        t._value, t._edge, t._view, t._stop_gradient = v, None, None, True
        outs.append(t)
    return outs


def step_to_one(
    seg: segment.Segment, node: Node, operands: list, numbers: Sequence, leaves: Collection[Value], needs: bool
) -> Tensor | None:
    """The same where the step has one result, which nearly all have: without lists, because it is what most calls come
    to.
    """
    v = Value.__new__(Value)  # as `segment.pending` does: that call would be 3 % of an `x + y`
    v.sig, v.segment, v.index, v.device = node.outs[0], seg, node.first, seg.device
    v.array = v.leaf_of = v.bounds = None
    v.marks = 0
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
            # numbers take no gradient anyway
            tensors = [s for s, r in zip(node.sigs, node.key[1:]) if r.__class__ is not DType]
            plain = node.plain = not bound.constants and all(s.dtype.kind in "fc" for s in (*tensors, *node.outs))
        if plain and state.pack is None:
            reads = bound.reads
            if numbers:
                operands = paired(node, operands)
                inputs = [None if x.__class__ is tuple or x._stop_gradient else x._edge or x for x in operands]
                saved: Any = [
                    x if x.__class__ is tuple else x._value if reads is None or i in reads else None
                    for i, x in enumerate(operands)
                ]
            else:
                if len(operands) == 2:  # written out: a list comprehension is a call in Python 3.11, 3 % of an `x + y`
                    x, y = operands
                    inputs = [None if x._stop_gradient else x._edge or x, None if y._stop_gradient else y._edge or y]
                else:
                    inputs = [None if x._stop_gradient else x._edge or x for x in operands]
                if reads is None:
                    saved = [x._value for x in operands]
                elif reads:
                    saved = [x._value if i in reads else None for i, x in enumerate(operands)]
                else:
                    saved = (None,) * len(operands)
            if bound.op.bilinear:
                saved = _read_factors(inputs, saved)
            edge: Any = Edge.__new__(Edge)
            edge.bound, edge.inputs, edge.saved = bound, inputs, saved
            edge.sigs, edge.out_sigs, edge.first = node.sigs, node.outs, node.first
            edge.order = next(_order)
            if bound.reads_out:
                edge.outs = (v,)
            seg.edges.append(ref(edge))
            t._value, t._edge, t._view, t._stop_gradient = v, (edge, 0), None, False
            return t
        edge, carries = _edge(
            bound, paired(node, operands) if numbers else operands, node.sigs, [v], node.outs, node.first
        )
        if carries or (edge is not None and v.sig.dtype.kind in "fc"):
            t._value, t._edge, t._view, t._stop_gradient = v, (edge, 0), None, False
            return t
    t._value, t._edge, t._view, t._stop_gradient = v, None, None, True
    return t


def paired(node: Node, operands: list) -> list:
    """Operands with each number beside its dtype."""
    return [(kind, t) if t.__class__ is float or t.__class__ is int else t for kind, t in zip(node.key[1:], operands)]


def _tracked(bound: Any, operands: list, sigs: tuple, made: list[Value], out_sigs: tuple, first: int) -> list[Tensor]:
    """Results with an edge from the operands to them."""
    edge, carries = _edge(bound, operands, sigs, made, out_sigs, first)
    carries = carries or (edge is not None and _beside_floats(out_sigs))
    new, outs = Tensor.__new__, []
    for i, v in enumerate(made):
        t = new(Tensor)
        if carries or (edge is not None and v.sig.dtype.kind in "fc"):
            t._value, t._edge, t._view, t._stop_gradient = v, (edge, i), None, False
        else:
            t._value, t._edge, t._view, t._stop_gradient = v, None, None, True
        outs.append(t)
    return outs


def _beside_floats(outs: tuple) -> bool:
    """Whether results of whole numbers stand beside others, as indices beside the elements found there.

    They belong to the graph as in Paddle, but no gradient goes through them.
    """
    return len({s.dtype.kind in "fc" for s in outs}) > 1


def _edge(
    bound: Any, operands: list, sigs: tuple, made: list[Value], out_sigs: tuple, first: int
) -> tuple[Edge | None, bool]:
    """The edge of a call, None if no operand takes a gradient after all; and whether integer results carry one too."""
    inputs: list[Any] = []
    saved: list[Any] = []
    reads, constants, whole, left = bound.reads, bound.constants, False, False
    if constants and bound.of_product and not any(t.__class__ is tuple for t in operands):
        constants = ()  # of a product of two tensors, Paddle gives zeros
    for i, t in enumerate(operands):
        if t.__class__ is tuple:
            inputs.append(None)
            saved.append(t)
            continue
        v = t._value
        if t._stop_gradient:
            inputs.append(None)
        elif i in constants:
            left = True
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
    if bound.op.bilinear and state.pack is None:  # whoever packs sees all, as in Paddle
        edge.saved = _read_factors(inputs, saved)
    if state.pack is not None and not _only_scales(bound, saved):
        _pack(edge)
    segment.local.segment.edges.append(ref(edge))
    return edge, whole or bound.op.carries


def _read_factors(inputs: list, saved: Any) -> Any:
    """What is kept of two factors: one that alone wants a gradient is not read."""
    if inputs[1] is None:
        return (None, saved[1])
    return saved if inputs[0] is not None else (saved[0], None)


def _carried(bound: Any, kind: str, outs: tuple) -> bool:
    """Whether an integer operand is what the results are made of: then, as in Paddle, gradients go to it where
    somebody asks.

    What is counted, compared or looked up by integers is not made of them.
    """
    return bound.op.carries or (kind == "i" and any(s.dtype.kind == "i" for s in outs))


def _only_scales(bound: Any, saved: list) -> bool:
    """Whether the call scales one tensor by numbers: its gradient reads no tensor, so there is nothing to pack."""
    tensors = [i for i, v in enumerate(saved) if v.__class__ is not tuple]
    return len(tensors) == 1 and tensors[0] in bound.op.scales


def _pack(edge: Edge) -> None:
    """Give what the rule reads to the user's function that packs it."""
    pack, edge.unpack = state.pack
    edge.saved = [
        v if v is None or v.__class__ is tuple else packed(pack, v, source is None)
        for v, source in zip(edge.saved, edge.inputs)
    ]
    if edge.outs is not None:
        edge.outs = [packed(pack, v, False) for v in edge.outs]


def packed(pack: Callable, v: Value, stop_gradient: bool) -> Any:
    """What the user's function makes of a saved value, which it sees as the tensor was; what it computes is no part of
    the graph.
    """
    grad, state.grad = state.grad, False
    try:
        return pack(wrap(v, stop_gradient))
    finally:
        state.grad = grad


def save_value(v: Value, stop_gradient: bool = True) -> Any:
    """A saved value as saved_tensors_hooks want it: (what to keep, how to get the tensor back)."""
    if state.pack is None:
        return v, None
    pack, unpack = state.pack
    return packed(pack, v, stop_gradient), unpack
