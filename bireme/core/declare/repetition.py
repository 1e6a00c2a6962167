"""Composites that are remembered: which operators a function recorded for certain kinds of arguments, recorded again.

A composite declared `plain=True` records the same operators whenever the kinds of its arguments are the same: Sigs of
tensors, values of everything else. Then its body runs once for each of them; later calls record the operators straight
away, with keys drawn anew where operators take one. What a body must not do for that (read a number from a tensor, draw
a random number by itself, change a tensor) ends the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any
from weakref import ref

from bireme.core.base import errors, random_state
from bireme.core.graph import segment
from bireme.core.graph.graph import Node, Value, number_at, scalar_sig
from bireme.core.record import flush
from bireme.core.tensor import grad_mode, tape, view
from bireme.core.tensor.recording import Call, Recording
from bireme.core.tensor.tensor import Tensor, wrap

FORGET = 256  # calls of new kinds after which a composite is not worth remembering: some argument keeps changing


class _Drawn:
    """Among the numbers of a recording: a part of a key, which is drawn anew each time."""

    __slots__ = ()


KEY = (_Drawn(), _Drawn())


class Trace:
    """Operators recorded while a body runs: (operator, bound, operands, results)."""

    __slots__ = ("calls", "drawn", "outer", "spoiled")

    builds = False  # calls are made; what builds a program records them instead, see `program.building`
    captures = False

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, list, list]] = []
        self.spoiled = False

    def __enter__(self) -> Trace:
        self.outer, self.drawn = segment.local.trace, random_state.drawn()
        segment.local.trace = self
        return self

    def __exit__(self, *exc: Any) -> None:
        segment.local.trace = self.outer
        if self.outer is not None:
            self.outer.calls += self.calls
            self.outer.spoiled |= self.spoiled


def given(args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors among a call's arguments, in order, those in lists too."""
    found: list[Tensor] = []
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            found.append(x)
        elif x.__class__ is list or x.__class__ is tuple:
            found += [t for t in x if isinstance(t, Tensor)]
    return found


def repeats(tensors: list[Tensor]) -> tuple[int, ...]:
    """Which of the tensors are one and the same: a part of the key, where there are any."""
    if len(tensors) < 2 or len({id(t) for t in tensors}) == len(tensors):
        return ()
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(t), i) for i, t in enumerate(tensors)])


class Steps(Recording):
    """What a call of certain kinds recorded: the inputs are the tensors among its arguments."""

    __slots__ = ("end", "inputs", "is_one_call", "result", "short", "stages")

    def __init__(self, calls: tuple[Call, ...], numbers: tuple, inputs: int, result: Any):
        super().__init__(calls, numbers)
        self.inputs, self.result = inputs, result
        # for a Path an argument is an index into the inputs followed by the results: what is made is then appended, a
        # tenth faster
        self.end = result + inputs if result.__class__ is int else _as(result, [i + inputs for i in result])
        self.stages = [
            (
                call.bound,
                places := [s if s.__class__ is not int else ~s if s < 0 else s + inputs for s in self.sources(call)],
                _fixed_numbers(places),
                _is_plain(call.bound),
            )
            for call in calls
        ]
        # all there is to it is one plain operator on the call's tensors as they come
        self.is_one_call = len(calls) == 1 and self.stages[0][1] == [*range(len(calls[0].args))] and self.stages[0][3]
        self.is_one_call = self.is_one_call and result == 0
        self.short = self._short()

    def _short(self) -> tuple[tuple, tuple, tuple] | None:
        """Where plain operators lead to the result of the last one: the inputs in the order in which they are read, all
        numbers, and what stands for the results on the way, which nobody will hold.
        """
        if self.result != len(self.calls) - 1 or not all(
            plain and fixed is not None for _, _, fixed, plain in self.stages
        ):
            return None
        read = dict.fromkeys([s for _, places, _, _ in self.stages for s in places if s.__class__ is int])
        numbers = [n for _, _, fixed, _ in self.stages for n in fixed or ()]
        return tuple([s for s in read if s < self.inputs]), tuple(numbers), (segment.GONE,) * self.result

    def path(self, since: Any, seg: segment.Segment) -> Path | None:
        """The nodes that recording this has led through, from the state `since`; None where it did anything else on the
        way.
        """
        nodes: list[Any] = []
        node: Any = seg.state
        while node is not since and node is not None and len(nodes) < len(self.calls):
            nodes.insert(0, node)
            node = node.parent
        if node is not since or len(nodes) != len(self.calls):
            return None
        if any(n.bound is not call.bound or n.over for n, call in zip(nodes, self.calls)):
            return None
        return Path(self, nodes)

    def found_again(self, state: Node, line: tuple, tensors: list[Tensor]) -> Node | Path | None:
        """Where these steps lead from a state by the way that they led from another one of its outline; None where that
        is not known, or differs at these sizes.
        """
        like = None if state.outline is None else state.outline.get(line)
        if like is None:
            return None
        if like.__class__ is Path:
            return like.at(state, line, tensors, self) if like.steps is self or like.steps.alike(self) else None
        if like.bound is not self.calls[0].bound:
            return None
        node = state.get(like.key)
        if node is not None:
            segment.keep_call(state, line, node)
            return node
        node = flush.grown(state, like, like.bound, tuple([t._value.sig for t in tensors]), errors.position())
        return None if node is None or node.over else node

    def alike(self, other: Steps) -> bool:
        """Whether others are the same operators, wired in the same way: only attributes differ, as the shapes that
        something is reshaped to.
        """
        if len(self.calls) != len(other.calls) or self.inputs != other.inputs or self.result != other.result:
            return False
        return all(a.bound.op is b.bound.op and a.args == b.args for a, b in zip(self.calls, other.calls))

    def on(self, tensors: list[Tensor]) -> Any:
        """Record the same on other tensors."""
        # results to come, then the inputs, last first: an argument of a call is an index into this
        known: list[Any] = [None] * self.size + tensors[::-1]
        last: list[Any] = []

        def operands(call: Call) -> list:
            found = _fetched(known, self.sources(call))
            if call.bound.op.index_rule is not None:
                call.bound.op.check_indices(call.bound, found)
            last[:] = found
            return found

        def done(call: Call, made: list[Tensor]) -> None:
            if call.bound.op.is_view:
                view.attach(made[0], last[0], call.bound, last[1:])
            known[call.first : call.first + call.width] = made

        self.again(operands, done)
        result = self.result
        return known[result] if result.__class__ is int else _as(result, [known[i] for i in result])

    def sources(self, call: Call) -> list:
        """A call's arguments with its numbers, or what stands for one that is drawn each time."""
        return [r if r.__class__ is int else self.number(r) for r in call.args]


class Path:
    """The same steps from a certain state of a segment: the nodes of the tree that they lead through."""

    __slots__ = ("nodes", "reads", "steps")

    over = False

    def __init__(self, steps: Steps, nodes: list):
        self.steps, self.nodes = steps, nodes
        self.reads: int = nodes[-1].leaves - nodes[0].parent.leaves  # how many leaves, for the first time

    def at(self, state: Node, line: tuple, tensors: list[Tensor], steps: Steps | None = None) -> Path | None:
        """The same from another state of its outline, at other sizes; None where results would be of other kinds.
        `steps` are those at these sizes, where they are others.
        """
        steps = steps or self.steps
        start, pos = state, errors.position()
        sigs = [t._value.sig for t in tensors]
        nodes: list[Node] = []
        before = segment.nodes[0]
        for like, (bound, sources, _, _) in zip(self.nodes, steps.stages):
            own = tuple([scalar_sig(s[0]) if isinstance(s, tuple) else sigs[s] for s in sources])
            node = flush.grown(state, like, bound, own, pos)
            if node is None or node.over:
                return None
            sigs += node.outs
            nodes.append(node)
            state = node
        found = Path(steps, nodes)
        if segment.nodes[0] == before:  # not the first time: most sizes never come back
            segment.keep_call(start, line, found)
        return found

    def again(self, seg: segment.Segment, tensors: list[Tensor], new: Collection[Value], needs_gradients: bool) -> Any:
        """Record the same on other tensors that the segment has at the same places; `new` are those that it has not read yet,
        as the call's key says: where a value was read last may be another thread's segment by now.
        """
        values = [t._value for t in tensors]
        if (sum([v in new for v in values]) if new else 0) != self.reads:
            return self.steps.on(tensors)  # another thread has given one of them another value since
        if self.steps.short is not None and not (needs_gradients and grad_mode.state.grad):
            last = self._last_alone(seg, values, new, *self.steps.short)
            if last is not None:
                return last
        known = tensors
        inputs, unread = len(tensors), set(new)
        for node, (bound, sources, fixed, plain) in zip(self.nodes, self.steps.stages):
            numbers: Sequence[Any]
            if fixed is None:
                operands = _fetched(known, sources)
                numbers = [x[1] for x in operands if x.__class__ is tuple]
            else:
                numbers = fixed
                operands = [known[s] if s.__class__ is int else s for s in sources]
            if not plain and bound.op.index_rule is not None:
                bound.op.check_indices(bound, operands)
            made: Any = None
            # asking about indices may have recorded a question; another thread may cut it at any time
            if seg.state is node.parent:
                leaves: list[Value] = []
                needs = False
                for s, t in zip(sources, operands):
                    if t.__class__ is not tuple:
                        needs = needs or not t._stop_gradient
                        if s < inputs and (v := values[s]) in unread:
                            leaves.append(v)
                            unread.discard(v)
                if bound.many:
                    made = tape.step(seg, node, operands, numbers, leaves, needs)
                elif (one := tape.step_to_one(seg, node, operands, numbers, leaves, needs)) is not None:
                    if plain:
                        known.append(one)
                        continue
                    made = [one]
            if made is None:
                made = tape.apply(bound, operands)
            if bound.op.is_view:
                view.attach(made[0], operands[0], bound, operands[1:])
            known += made
        result: Any = self.steps.end
        return known[result] if result.__class__ is int else _as(result, [known[i] for i in result])

    def _last_alone(
        self,
        seg: segment.Segment,
        values: list[Value],
        new: Collection[Value],
        read: tuple,
        numbers: tuple,
        gone: tuple,
    ) -> Tensor | None:
        """The same in one step, where no gradient asks for what is made on the way; None if another thread has cut the
        segment.
        """
        if seg.state is not self.nodes[0].parent:
            return None
        leaves = dict.fromkeys([v for i in read if (v := values[i]) in new]) if new else ()
        node = self.nodes[-1]
        made = segment.pending(seg, node.outs[0], node.first)
        try:
            if leaves:
                flush.read_first(seg, leaves)
            if numbers:
                seg.numbers += numbers
            seg.values += gone
            seg.values.append(ref(made))
            seg.state = node
        except BaseException:  # an interrupt in between
            flush.roll_back(seg)
            raise
        return None if seg.closed else wrap(made)


def _is_plain(bound: Any) -> bool:
    """Whether there is nothing to a call but one result."""
    return not (bound.many or bound.op.is_view or bound.op.index_rule is not None)


def _fetched(known: list[Tensor], sources: list) -> list:
    """The operands of a call; what stands for a key becomes the next one of the stream."""
    key = (
        dict(zip(KEY, random_state.next_key())) if any(s.__class__ is tuple and s[1] is KEY[0] for s in sources) else {}
    )
    return [known[s] if s.__class__ is int else (s[0], key.get(s[1], s[1])) if key else s for s in sources]


def _fixed_numbers(sources: list) -> tuple | None:
    """The numbers that a call reads; None if some are drawn each time."""
    numbers = tuple([s[1] for s in sources if s.__class__ is tuple])
    return None if any(n is KEY[0] for n in numbers) else numbers


def _as(like: Any, items: list) -> Any:
    """A list, tuple or named tuple of the same kind."""
    return getattr(like, "_make", type(like))(items)


def recorded_steps(trace: Trace, tensors: list[Tensor], result: Any) -> Steps | None:
    """The calls that lead from the arguments to the result; None where something else had a part in it."""
    if trace.spoiled:
        return None
    known: dict[int, int] = {id(t): ~i for i, t in enumerate(tensors)}
    calls: list[Call] = []
    numbers: list[Any] = []
    count = keys = 0
    for op, bound, operands, made in trace.calls:
        if op.looks_at_values or op.signature.sizes:
            return None
        drawn: dict[int, Any] = {}
        for p in op.signature.operands:
            if p.kind == "key":
                drawn.update(zip(bound.arguments(range(len(operands)))[p.name], KEY))
                keys += 1
        args: list[Any] = []
        for i, x in enumerate(operands):
            if x.__class__ is tuple:
                args.append(number_at(x[0], len(numbers)))
                numbers.append(drawn.get(i, x[1]))
            elif id(x) in known:
                args.append(known[id(x)])
            else:
                return None
        calls.append(Call(bound, tuple(args), count, len(made)))
        for t in made:
            known[id(t)] = count
            count += 1
    if random_state.drawn() - trace.drawn != keys:  # one that is no operator's, or from a stream of its own
        return None
    many = isinstance(result, (list, tuple))
    ends = [known.get(id(t), -1) for t in (result if many else [result])]
    if any(i < 0 for i in ends):
        return None
    if many or any(n.__class__ in (int, float) and n == 0 for n in numbers):  # zeros of either sign are equal
        return Steps(tuple(calls), tuple(numbers), len(tensors), _as(result, ends) if many else ends[0])
    return _steps(tuple(calls), tuple(numbers), len(tensors), ends[0])


@functools.lru_cache(maxsize=4096)
def _steps(calls: tuple[Call, ...], numbers: tuple, inputs: int, end: int) -> Steps:
    """One object for the same steps: those of most composites do not depend on shapes."""
    return Steps(calls, numbers, inputs, end)
