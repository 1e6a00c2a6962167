"""Derivatives of what the tape holds: backwards into leaves or wanted inputs, and forwards along tangents."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bireme.core.base import errors, registry
from bireme.core.base.boundary import guarded
from bireme.core.graph import segment
from bireme.core.graph.graph import Zero
from bireme.core.record import flush, guards
from bireme.core.tensor import graph_pass
from bireme.core.tensor.backward_pass import BackwardPass, add, freed, handle, key_of, leads
from bireme.core.tensor.grad_mode import GradMode, enable_grad, state
from bireme.core.tensor.tape import Edge, target_of, zeros
from bireme.core.tensor.tensor import Tensor, read, wrap


def _seed(t: Tensor, g: Any, where: str) -> Tensor:
    sig = t._sig
    if g is None:
        made = registry.find("ones_like")(wrap(t._value))
        if segment.guarding.used:
            guards.link(made._value, t._value)
        return made
    guards.check_value(t._value)
    if not isinstance(g, Tensor):
        raise errors.bad(where, "a Tensor or None", g, kind=errors.ArgumentTypeError)
    if g._sig.shape != sig.shape:
        if g._sig.size != 1 or sig.size != 1:  # one number is one number, [] or [1], as in Paddle
            wanted = f"the output's shape {list(sig.shape)}"
            raise errors.bad(where, wanted, described=f"shape {g.shape}", kind=errors.ShapeError)
        g = registry.find("reshape")(g, list(sig.shape))
    return g if g._sig is sig else registry.find("cast")(g, sig.dtype)


def _carriers(tensors: list) -> list:
    return [t._carrier if isinstance(t, Tensor) else t for t in tensors]


def _reject_stopped(t: Any, where: str) -> None:
    if not isinstance(t, Tensor):
        raise errors.bad(where, "a Tensor", t, kind=errors.ArgumentTypeError)


@guarded
def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Compute the gradients of tensors and accumulate them in the ``.grad`` of the leaf tensors.

    Args:
        tensors: A tensor or a list of tensors.
        grad_tensors: Gradients of ``tensors`` to start from, a tensor or a list with None for ones. Default: None,
            ones.
        retain_graph: Keep what was saved for the backward pass, so that another one can follow. Default: False.

    Examples:
        >>> x = bireme.to_tensor([2.0], stop_gradient=False)
        >>> bireme.autograd.backward([x * x])
        >>> x.grad.tolist()
        [4.0]
    """
    roots: list[Any] = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    seeds = (
        [None] * len(roots)
        if grad_tensors is None
        else list(grad_tensors)
        if isinstance(grad_tensors, (list, tuple))
        else [grad_tensors]
    )
    if not roots:
        raise errors.bad(
            "backward(tensors)", "at least one tensor", described="an empty list", kind=errors.ArgumentError
        )
    if not isinstance(retain_graph, bool):
        raise errors.bad("backward(retain_graph)", "True or False", retain_graph, kind=errors.ArgumentTypeError)
    if len(seeds) != len(roots):
        raise errors.bad(
            "backward(grad_tensors)", f"{len(roots)} gradients", described=f"{len(seeds)}", kind=errors.ArgumentError
        )
    if len({id(t) for t in roots}) != len(roots):
        raise errors.bad("backward(tensors)", "no duplicate", described="a tensor twice", kind=errors.ArgumentError)
    roots, seeds = _carriers(roots), _carriers(seeds)
    flush.backward_starts(frees=not retain_graph)
    outer, state.grad = state.grad, False  # no `with`: an interrupt at the door of __exit__ would leave it off
    try:
        current = BackwardPass(False, outer)
        for t, g in zip(roots, seeds):
            _reject_stopped(t, "backward(tensors)")
            read(t)
            target = target_of(t)
            if target is None:  # Paddle passes over it without a word
                got = "one that needs none, so nothing to do"
                errors.warn(f"backward(tensor): expected a floating tensor that requires gradients, got {got}")
                continue
            current.give(target, _seed(t, g, "backward(grad_tensor)"))
        current.run_remembered(retain_graph)
        for leaf, g in current.leaves.values():
            g = current.hooked(leaf._hooks, g, id(leaf))
            accumulate(leaf, g, id(leaf) in current.stopped)
            if leaf._after is not None:
                for hook in list(leaf._after.values()):
                    hook()
    finally:
        state.grad = outer
    while final_hooks:
        final_hooks.pop(0)()


final_hooks: list[Callable] = []  # called once, when the next backward pass has ended


class _Adding:
    """Two threads may come to one leaf: neither's gradient may be lost. Not held while the sum is recorded."""

    lock = threading.RLock()

    @classmethod
    def forked(cls) -> None:
        cls.lock = threading.RLock()  # who held the old one is not there any more


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Adding.forked)


def accumulate(leaf: Tensor, g: Tensor, stopped: bool) -> None:
    """Add to `leaf.grad`: one storage, so whoever holds it sees the sum."""
    value, held = read(g), leaf._grad
    while True:
        was = None if held is None else read(held)
        total = g if held is None or was.__class__ is Zero else add(held, g)
        with _Adding.lock:
            if leaf._grad is held and (held is None or read(held) is was):  # as it was when the sum was made
                if held is None:  # as in Paddle, what is computed from a gradient of operators may be differentiated
                    leaf._grad = wrap(value, stopped)
                elif total is g:
                    held._value = value
                else:
                    held._assign_value(total)
                return
            held = leaf._grad


@errors.named
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Tensor | Iterable[Tensor] | None = None,
) -> list[Tensor | None]:
    """Compute the gradients of ``outputs`` with respect to ``inputs``, without touching any ``.grad``.

    Args:
        outputs: A tensor or a list of tensors.
        inputs: A tensor or a list of tensors that ``outputs`` were computed from.
        grad_outputs: Gradients of ``outputs`` to start from, a tensor or a list with None for ones. Default: None,
            ones.
        retain_graph: Keep what was saved for the backward pass. Default: None, which means True, as in Paddle.
        create_graph: Record the computation of the gradients, so that they can be differentiated again. Default: False.
        only_inputs: Must be True.
        allow_unused: Return None for inputs that ``outputs`` do not depend on, instead of an error. Default: False.
        no_grad_vars: A tensor or a list of tensors that no gradient flows through. Default: None.

    Returns:
        A list with the gradient of each input.

    Raises:
        ValueError: If an input is not used and ``allow_unused`` is False.

    Examples:
        >>> x = bireme.to_tensor([3.0], stop_gradient=False)
        >>> (g,) = bireme.grad(x * x * x, x, create_graph=True)
        >>> g.tolist(), bireme.grad(g, x)[0].tolist()
        ([27.0], [18.0])
    """
    outs: list[Any] = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    ins: list[Any] = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    for name, several in (("outputs", outs), ("inputs", ins)):
        if not several:
            raise errors.bad(f"grad({name})", "at least one Tensor", several, kind=errors.ArgumentError)
        if len({id(t) for t in several}) != len(several):
            raise errors.bad(f"grad({name})", "no duplicate", described="a tensor twice", kind=errors.ShapeError)
    seeds = (
        [None] * len(outs)
        if grad_outputs is None
        else list(grad_outputs)
        if isinstance(grad_outputs, (list, tuple))
        else [grad_outputs]
    )
    if len(seeds) != len(outs):
        raise errors.bad(
            "grad(grad_outputs)", f"{len(outs)} gradients", described=f"{len(seeds)}", kind=errors.ArgumentError
        )
    if only_inputs is not True:
        raise errors.bad("grad(only_inputs)", "True", only_inputs, kind=errors.ArgumentError)
    for name, switch in (
        ("create_graph", create_graph),
        ("retain_graph", retain_graph),
        ("allow_unused", allow_unused),
    ):
        if not isinstance(switch, bool) and (switch is not None or name != "retain_graph"):
            raise errors.bad(f"grad({name})", "True or False", switch, kind=errors.ArgumentTypeError)
    given, outs, ins, seeds = ins, _carriers(outs), _carriers(ins), _carriers(seeds)
    blocked = set()
    stopped: Any = [] if no_grad_vars is None else no_grad_vars
    for t in stopped if isinstance(stopped, (list, tuple, set)) else [stopped]:
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
            raise errors.bad(
                f"grad(inputs[{i}])",
                "a tensor that the outputs depend on",
                described="a tensor that is not used in the graph",
                hint="pass allow_unused=True to get None",
            )
    if not create_graph:
        found = [None if g is None else wrap(read(g)) for g in found]
    else:
        found = _apart(found, [*outs, *ins, *seeds])
    return [None if g is None else t._carried(g) for t, g in zip(given, found)]


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
        current = BackwardPass(create_graph, outer)
        roots = []
        for t, g in zip(outs, seeds):
            target = target_of(t)
            if target is not None:
                roots.append(target)
                current.give(target, _seed(t, g, "grad(grad_outputs)"))
        edges = _reached(roots)
        if not create_graph and not blocked and _all_leaves(edges, wanted):
            current.run_remembered(retain)  # nothing on the way is left out: the same pass as `backward` takes
        elif blocked:
            current.run(retain, _useful(edges, wanted), wanted, blocked)
        else:
            graph_pass.run_to(current, retain, wanted, lambda: _useful(edges, wanted))
        for key in wanted:
            if key in current.leaves:  # a leaf's own hooks belong to its `.grad`, as in Paddle
                wanted[key] = current.leaves[key][1]
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
    for edge in sorted(_useful(_reached(roots), dict.fromkeys(moving)), key=lambda e: e.order):
        if edge.inputs is None:
            raise freed(edge)
        vs = [None if t is None else moving.get(key_of(t)) for t in edge.inputs]
        if any(v is not None for v in vs):
            for i, moved in enumerate(edge.push(vs)):
                move((edge, i), moved)
    return [None if t is None else moving.get(key_of(t)) for t in roots]


def _reached(roots: list) -> dict[Edge, None]:
    """All edges behind some targets."""
    edges: dict[Edge, None] = {}
    todo = [t[0] for t in roots if t.__class__ is tuple]
    while todo:
        e = todo.pop()
        if e in edges:
            continue
        edges[e] = None
        todo += [t[0] for t in e.inputs or () if t.__class__ is tuple]
    return edges


def _all_leaves(edges: dict[Edge, None], wanted: dict) -> bool:
    """Whether the wanted inputs are all leaves that edges lead to, and nothing but leaves."""
    return all(key.__class__ is int for key in wanted) and all(
        t is None or t.__class__ is tuple or id(t) in wanted for e in edges for t in e.inputs or ()
    )


def _useful(edges: dict[Edge, None], wanted: dict) -> set[Edge]:
    """Those edges from which a wanted input can be reached."""
    useful: set[Edge] = set()
    for e in sorted(edges, key=lambda e: e.order):
        if e.inputs is None or any(t is not None and leads(t, useful, wanted) for t in e.inputs):
            useful.add(e)
    return useful


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
        found = self.function([None if g is None else handle(g, g.stop_gradient) for g in gs])
        return [(i, found[i]) for i in needs if found[i] is not None]

    def push(self, vs: list) -> list[Tensor | None]:
        """As for any edge, the transpose of the gradient: here of the user's function, by differentiating it."""
        gs = [zeros(s) if s.dtype.kind in "fc" else None for s in self.out_sigs]
        for g in gs:
            if g is not None:
                g.stop_gradient = False
        with enable_grad():
            found = self.function(gs)
        pairs = [(f, v) for f, v in zip(found, vs) if f is not None and v is not None]
        ys, seeds = [f for f, _ in pairs], [v for _, v in pairs]
        moved = iter(grad(ys, [g for g in gs if g is not None], seeds, create_graph=state.grad, allow_unused=True))
        return [None if g is None else next(moved) for g in gs]


def _backward_method(self: Tensor, grad_tensor: Tensor | None = None, retain_graph: bool = False) -> None:
    """Compute the gradients of this tensor and accumulate them in the ``.grad`` of the leaf tensors.

    Args:
        grad_tensor: Gradient of this tensor to start from. Default: None, ones.
        retain_graph: Keep what was saved for the backward pass, so that another one can follow. Default: False.

    Examples:
        >>> x = bireme.to_tensor([3.0], stop_gradient=False)
        >>> (x * x).backward()
        >>> x.grad.tolist()
        [6.0]
    """
    backward([self], None if grad_tensor is None else [grad_tensor], retain_graph)


_backward_method.__name__ = _backward_method.__qualname__ = "backward"
Tensor.backward = _backward_method  # type: ignore[assignment, method-assign]  # a method that Tensor gets here
