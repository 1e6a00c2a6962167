"""A graph at padded sizes: the same calls, each with the true sizes as numbers beside its operands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core

from bireme.core.base import dtype as dtypes
from bireme.core.base.device import Device
from bireme.core.graph.bound import Inapplicable, bounded
from bireme.core.graph.graph import Graph, Node, Number, Sig, number_at, scalar_sig, sig_of
from bireme.core.graph.varying import Extent, Varying, rebuilt
from bireme.core.xla_exec import padded_rules, padded_windows, xla  # noqa: F401 - the first two are read for their rules
from bireme.core.xla_exec.padded import evaluated
from bireme.core.xla_exec.padded_sizes import LARGEST_PLUS, NOT_MADE, Dims, Disagree, Fit, Refused, varied


class PaddedBound:
    """A call on padded arrays: what `padded.evaluated` made of its form for a platform, or, where `said` is None, the
    operator's own form for such arrays. Interned, so it compares by identity.
    """

    __slots__ = ("base", "closed", "dims", "operands", "platform", "said")

    selects = is_ufunc = by_numpy = differentiable = False

    def __init__(self, base: Any, closed: Any, dims: list[Dims], operands: int, platform: str, said: list | None):
        self.base, self.closed, self.dims, self.operands, self.platform = base, closed, dims, operands, platform
        self.said = said

    @property
    def fractions(self) -> set[Extent]:
        """The sizes in it that are rounded down."""
        found = {e for each in self.dims for dim in each if dim is not None for _, e in dim.factors}
        for said in self.said or ():
            found |= {said} if said.__class__ is Extent else set(said[1]) if said else set()
        return {e for e in found if e is not None and e.over > 1}

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "base"), name)

    def __repr__(self) -> str:
        return f"{self.base} padded"

    def amounts(self, sigs: tuple[Sig, ...], outs: tuple[Sig, ...]) -> tuple[float, float, float]:
        return self.base.amounts(sigs[: self.operands], outs)

    def lower(self, platform: str) -> Callable:
        fn, many = core.jaxpr_as_fun(self.closed), self.base.many

        def call(*arrays: Any) -> Any:
            made = fn(*arrays)
            return made if many else made[0]

        return call

    def lower_once(self, platform: str) -> Callable:
        return jax.jit(self.lower(platform), inline=True)

    def jitted(self, platform: str, around: Callable[[Callable, str], Callable]) -> Callable:
        return jax.jit(around(self.lower(platform), platform))


_known: dict[tuple, PaddedBound | None] = {}


def padded(
    bound: Any,
    sigs: tuple[Sig, ...],
    other: Any,
    others: tuple[Sig, ...],
    dims: tuple[Dims, ...],
    fit: Fit,
    device: Device,
    given: tuple[Sig, ...],
) -> PaddedBound:
    """A call at padded sizes, of which `other` is the one at other sizes, on operands of which only the beginnings may be
    wanted, see `growing`; raises Refused.
    """
    key = (bound, sigs, other, others, dims, fit.padded, fit.other, device, given)
    found = _known.get(key)
    if found is None:
        if key in _known:
            raise Refused(f"{bound.op.name}, as before")
        bounded(_known)[key] = None
        with xla.x64(), jax.default_device(device.jax):
            found = _by_its_form(bound, sigs, dims, fit, device) or _by_its_steps(
                bound, sigs, other, others, dims, fit, device
            )
            if given != sigs:
                found.closed = _of_beginnings(found.closed, sigs, given)
        _known[key] = found
    return found


def _by_its_form(
    bound: Any, sigs: tuple[Sig, ...], dims: tuple[Dims, ...], fit: Fit, device: Device
) -> PaddedBound | None:
    """A call by the operator's own form for padded operands; None where there is none, or it does not apply."""
    like: list[int] = []

    def call(*operands: Any) -> list:
        arrays, values = operands[: len(sigs)], operands[len(sigs) :]
        lengths = [tuple([None if dim is None else dim.prefix.at(values) for dim in each]) for each in dims]
        made, like[:] = bound.on_beginnings(device.platform, arrays, lengths)
        return made

    params = [jax.ShapeDtypeStruct((), np.int64)] * len(fit.padded)
    try:
        closed = jax.make_jaxpr(call)(*map(xla.spec, sigs), *params)
    except (Inapplicable, Refused):
        return None
    found: list[Dims] = []
    for out, i in zip(bound.infer(sigs), like):
        found.append(tuple([varied(dim) for dim in dims[i]]))
        assert len(out.shape) == len(dims[i]), f"{bound.op.name}: a result of other axes than its operand"
        assert all(dim is None or n == m for n, m, dim in zip(out.shape, sigs[i].shape, dims[i]))
    return PaddedBound(bound, closed, found, len(sigs), device.platform, None)


REFERENCE = "reference"


def _by_its_steps(
    bound: Any,
    sigs: tuple[Sig, ...],
    other: Any,
    others: tuple[Sig, ...],
    dims: tuple[Dims, ...],
    fit: Fit,
    device: Device,
) -> PaddedBound:
    """A call by what `padded.evaluated` makes of its steps, of those of the reference where the platform has others that
    nobody can look into, as a kernel's.
    """
    root = bound.root.op
    # those for CPUs go through rows in loops
    forms = [REFERENCE] if device.is_cpu else [device.platform]
    if device.platform in root.lowerings or device.platform in root.grad_lowerings:
        forms.append(REFERENCE)
    for form in dict.fromkeys(forms):
        own = Fit(fit.padded, fit.other)
        try:
            first, second = _traced(bound, sigs, form), _traced(other, others, form)
            closed, made = evaluated(first, second, [xla.spec(s) for s in sigs], dims, own)
        except (Refused, *NOT_MADE):
            if form == forms[-1]:
                raise
        else:
            break
    return PaddedBound(bound, closed, made, len(sigs), form, own.said)


_agreed: dict[tuple, bool] = {}


def agrees(
    found: PaddedBound, sigs: tuple[Sig, ...], call: Call, dims: tuple[Dims, ...], fit: Fit, device: Device
) -> bool:
    """Whether a call at a third set of sizes says the same of a padded one as the call that it was made from. Two alone
    may agree by chance: `min(n, 5)` is 5 at 32 and at 20.
    """
    if found.said is None:
        return True
    key = (found, call, fit.other)
    known = _agreed.get(key)
    if known is None:
        own = Fit(fit.padded, fit.other)
        with xla.x64(), jax.default_device(device.jax):
            try:
                first, third = _traced(found.base, sigs, found.platform), _traced(*call, found.platform)
                _, made = evaluated(first, third, [xla.spec(s) for s in sigs], dims, own)
                known = made == found.dims and own.said == found.said
            except (Refused, *NOT_MADE):  # by an operator that cannot have these sizes
                known = False
        bounded(_agreed)[key] = known
    return known


Call = tuple[Any, tuple[Sig, ...]]  # with what it takes


def recorded(graph: Graph) -> list[Call]:
    """The calls of a graph."""
    return [(node.bound, node.sigs) for node in graph.nodes]


def remade(graph: Graph, varying: Varying, values: tuple[int, ...]) -> list[Call]:
    """The calls that a graph would have at other sizes; raises what an operator raises that cannot have these."""
    integers = varying.at(values)
    leaves = [rebuilt(sig, integers) for sig in graph.leaf_sigs]
    made: list[Sig] = []
    calls: list[Call] = []
    for node in graph.nodes:
        bound = rebuilt(node.bound, integers)
        sigs = tuple(
            [
                sig if r.__class__ is Number else made[r] if r >= 0 else leaves[~r]
                for r, sig in zip(node.args, node.sigs)
            ]
        )
        outs = bound.infer(sigs)
        if any(n < 0 for s in (*sigs, *outs) for n in s.shape):
            raise ValueError("a size below zero")
        made += outs
        calls.append((bound, sigs))
    return calls


def _of_beginnings(closed: Any, sigs: tuple[Sig, ...], given: tuple[Sig, ...]) -> Any:
    """The same on operands with more rows than it takes."""
    fn, numbers = core.jaxpr_as_fun(closed), closed.in_avals[len(sigs) :]

    def call(*arrays: Any) -> Any:
        cut = [lax.slice(x, (0,) * x.ndim, sig.shape) for x, sig in zip(arrays, sigs)]
        return fn(*cut, *arrays[len(sigs) :])

    return jax.make_jaxpr(call)(*[xla.spec(s) for s in given], *numbers)


def growing(graph: Graph, other: Graph) -> dict[int, tuple[int, int]]:
    """The leaves that a call makes longer along an axis whose size varies, as a cache of keys by `concat`: axis and by
    how much. Both graphs differ in sizes alone.

    Such a leaf has room for what is added, so that the result can be the leaf of the next run as it lies.
    """
    found: dict[int, tuple[int, int]] = {}
    for node, twin in zip(graph.nodes, other.nodes):
        for r, sig, sig2 in zip(node.args, node.sigs, twin.sigs):
            if r.__class__ is Number or r >= 0:
                continue
            for out, out2 in zip(node.outs, twin.outs):
                axis = _longer(sig, out)
                if axis is not None and axis == _longer(sig2, out2) and sig.shape[axis] != sig2.shape[axis]:
                    more = out.shape[axis] - sig.shape[axis]
                    if more == out2.shape[axis] - sig2.shape[axis]:
                        found[~r] = axis, more
    return found


def _longer(sig: Sig, out: Sig) -> int | None:
    """The axis along which a result is a little longer than an operand, where that is all in which they differ."""
    if sig.dtype is not out.dtype or sig.ndim != out.ndim:
        return None
    axes = [axis for axis, (a, b) in enumerate(zip(sig.shape, out.shape)) if a != b]
    return axes[0] if len(axes) == 1 and 0 < out.shape[axes[0]] - sig.shape[axes[0]] <= LARGEST_PLUS else None


@functools.lru_cache(maxsize=4096)
def _traced(bound: Any, sigs: tuple[Sig, ...], platform: str) -> Any:
    """A call, in the form for a platform, as a jaxpr with a flat list of results."""
    fn = bound.lower(platform)
    return jax.make_jaxpr(lambda *arrays: list(fn(*arrays)) if bound.many else [fn(*arrays)])(*map(xla.spec, sigs))


def _with_room(sig: Sig, axis: int, more: int) -> Sig:
    return sig_of((*sig.shape[:axis], sig.shape[axis] + more, *sig.shape[axis + 1 :]), sig.dtype)


class PaddedGraph:
    """A graph at padded sizes.

    `last` is its last Node, `dims` what is padded of its values, `leaves` of its leaves, `numbers` where its numbers come
    from: places among those of the recorded graph, or ~ the index of a parameter.
    """

    def __init__(
        self,
        graph: Graph,
        varying: Varying,
        values: tuple[int, ...],
        sizes: tuple[int, ...],
        grown: dict[int, tuple[int, int]],
        calls: list[Call],
        third: tuple[int, ...],
    ):
        """`graph` is one of the family, recorded at `values`, which differ from the padded `sizes`; `grown` are the leaves
        with more room than that, see `growing`; `calls` are those of a graph of `third` values, which have to agree.
        """
        device, fit, integers = graph.device, Fit(sizes, values), varying.at(sizes)
        leaf_sigs = [rebuilt(sig, integers) for sig in graph.leaf_sigs]
        self.leaf_sigs = [_with_room(sig, *grown[i]) if i in grown else sig for i, sig in enumerate(leaf_sigs)]
        self.leaves: list[Dims] = [
            tuple([fit.dim(a, b) for a, b in zip(sig.shape, other.shape)])
            for sig, other in zip(leaf_sigs, graph.leaf_sigs)
        ]
        self.dims: list[Dims] = []
        self.numbers: list[int] = []
        made: list[Sig] = []
        self.lowest = tuple(map(min, values, third))  # below, nothing is shown
        fractions: set[Extent] = set()
        at_third = Fit(sizes, third)
        state = Node()
        for twin, call in zip(graph.nodes, calls):
            bound = rebuilt(twin.bound, integers)
            sigs, given, dims = [], [], []
            for r, sig in zip(twin.args, twin.sigs):
                number = r.__class__ is Number
                sigs.append(sig if number else made[r] if r >= 0 else leaf_sigs[~r])
                given.append(sig if number else made[r] if r >= 0 else self.leaf_sigs[~r])
                dims.append(() if number else self.dims[r] if r >= 0 else self.leaves[~r])
            outs: tuple[Sig, ...] = bound.infer(tuple(sigs))
            found: list[Dims] = [(None,) * s.ndim for s in outs]
            extra = 0
            if bound is not twin.bound or any(any(d) for d in dims):
                bound = padded(bound, tuple(sigs), twin.bound, twin.sigs, tuple(dims), fit, device, tuple(given))
                if not agrees(bound, tuple(sigs), call, tuple(dims), at_third, device):
                    raise Disagree(f"{bound.base.op.name}, which follows otherwise from other sizes")
                found, extra = bound.dims, len(sizes)
                fractions |= bound.fractions
            state = self._node(state, twin, bound, tuple(given), outs, self.leaf_sigs, extra)
            made += outs
            self.dims += found
        if next(integers, None) is not None:
            raise Refused("integers that were not read")
        self.last = state
        self._shown = sizes, values, third
        self._rests: dict[Extent, set[int]] = {}
        self.hold(fractions)
        self.outs = made
        state.graph = Graph(state, device)
        state.graph.padded = True

    def hold(self, fractions: Iterable[Extent]) -> None:
        """Let it be for sizes alone of which rounding these down leaves the same as where they were looked at."""
        for extent in fractions:
            self._rests[extent] = {extent.rest(shown) for shown in self._shown}

    def fits(self, graph: Graph, values: tuple[int, ...]) -> bool:
        """Whether what a graph gives has the sizes that follow from its values; those below the smallest that it was
        made from are not even looked at.
        """
        if any(n < low for n, low in zip(values, self.lowest)):
            return False
        if any(extent.rest(values) not in shown for extent, shown in self._rests.items()):
            return False
        for sig, whole, dims in zip(graph.value_sigs, self.outs, self.dims):
            for true, size, dim in zip(sig.shape, whole.shape, dims):
                if true != (size if dim is None else dim.valid(values)):
                    return False
        return True

    def _node(
        self,
        state: Node,
        twin: Node,
        bound: Any,
        sigs: tuple[Sig, ...],
        outs: tuple[Sig, ...],
        leaf_sigs: list[Sig],
        extra: int,
    ) -> Node:
        node = Node()
        args: list[Any] = []
        key: list[Any] = [bound]
        leaves = state.leaves
        for r in twin.args:
            if r.__class__ is Number:
                args.append(number_at(r.dtype, len(self.numbers)))
                key.append(r.dtype)
                self.numbers.append(r.place)
            else:
                args.append(r)
                new = r < 0 and ~r == leaves
                key.append(leaf_sigs[~r] if new else r)
                leaves += new
        for param in range(extra):
            args.append(number_at(dtypes.int64, len(self.numbers)))
            key.append(dtypes.int64)
            self.numbers.append(~param)
        node.parent, node.bound, node.key, node.args, node.outs = state, bound, tuple(key), tuple(args), outs
        node.sigs = (*sigs, *[scalar_sig(dtypes.int64)] * extra)
        node.leaves, node.numbers = leaves, len(self.numbers)
        node.first, node.end, node.depth, node.pos = twin.first, twin.end, twin.depth, twin.pos
        node.nbytes = state.nbytes + sum([s.nbytes for s in outs])
        node.work = state.work + twin.work - (twin.parent.work if twin.parent is not None else 0.0)
        return node
