"""Building programs: while it goes on, public calls are recorded instead of being made.

What a call would give is found by making it on examples: tensors without values, of two sets of sizes for those that are
unknown. Nothing is computed. A size that differs between both is unknown in the result too.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors, random_state
from bireme.core.declare import precision
from bireme.core.graph import segment
from bireme.core.graph.graph import Sig, sig_of
from bireme.core.program.program import LONG, SIZES, Items, Operation, Program, leaves, mapped, samples_of, suspended
from bireme.core.program.variable import UNKNOWN, Dim, Sample, Symbol, Variable, symbol_of
from bireme.core.record.capture import capture, needs_value
from bireme.core.tensor import tape
from bireme.core.tensor.grad_mode import GradMode
from bireme.core.tensor.grad_mode import state as grad_state
from bireme.core.tensor.tensor import Tensor, wrap

LARGE = 1 << 26  # elements of an example that has values
REACH = 32  # operations that are tried again where an input is given other sizes
SMALL = 64  # integers of an array that are looked at: shapes, axes, sizes


class Builder:
    """What public calls are recorded into; it stands where a composite's calls are traced (`segment.local.trace`)."""

    builds = True
    spoiled = False

    def __init__(self, program: Program | None = None):
        self._program = program  # None: the default main program, whichever that is
        self.changed: list[
            dict[int, tuple[Any, Symbol]]
        ] = []  # by each block that is recorded: variables, as they were
        self.scope = ""  # of the layer that is being called
        self.paths: dict[int, str] = {}  # of layers, by their ids
        self.forward_of: Callable[[Any], Callable] | None = None  # what a layer calls in the place of its `forward`
        self.caught: list[Any] = []  # what says which exceptions the try statements that are being captured catch
        self.refused: Exception | None = None  # an error that captured code has caught though no graph can do that
        self.captures = program is not None  # what dynamic code does: the parameters that it makes have values at once

    @property
    def program(self) -> Program:
        return self._program or programs.main

    def build(self, made: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Record the call of an operator or composite."""
        kwargs = {k: x for k, x in kwargs.items() if k != "name" or "name" in made.signature.own_names}
        return self.append(Operation(made.public, made.told, args, kwargs, errors.position()))

    def build_inplace(self, call: Any, made: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Record a call that changes its first argument: a variable stands for the result from then on."""
        x, *rest = args
        if not isinstance(x, Variable):
            # a buffer: it is changed whenever the program runs
            return self.append(Operation(call, name, args, kwargs, errors.position()))
        return self.renew(x, self.build(made, (x, *rest), kwargs).symbol)

    @property
    def calls(self) -> Any:
        """An operator was called that is none of the public ones."""
        raise errors.failure("a call cannot be part of a program yet: it is made at once")

    def build_method(self, name: str, x: Tensor, *args: Any) -> Any:
        """Record the call of a method of a tensor that is no operator."""
        return self.append(Operation(getattr(Tensor, name), name.strip("_"), (x, *args), {}, errors.position()))

    def renew(self, x: Any, symbol: Symbol) -> Any:
        """Let a variable stand for another value from now on."""
        if self.changed:
            self.changed[-1].setdefault(id(x), (x, x.symbol))
        x._become(symbol)
        return x

    def append(self, operation: Operation) -> Any:
        """Record a call; its variables."""
        program = self.program
        operation.args, operation.kwargs = mapped(symbol_of, (operation.args, operation.kwargs))
        operation.policy, operation.grad, operation.scope = precision.state.policy, grad_state.grad, self.scope
        found = self._examples(operation)
        stops = not operation.grad or all(
            x.stop_gradient for x in operation.reads if isinstance(x, (Symbol, Tensor)) and _differentiable(x)
        )

        def variable(*samples: Any) -> Any:
            if not isinstance(samples[0], Sample):
                return samples[0]
            sources = samples[0].sources
            operation.sources.append(sources)
            stop = stops or sources == () or (samples[0].items is None and samples[0].sig.dtype.kind not in "fc")
            return program._add(Symbol(program._unused_name(operation.type), samples, stop))

        operation.sources.clear()
        operation.results = together(variable, found)
        _share_lengths(operation)
        program._append(operation)
        return mapped(lambda x: program._var(x) if isinstance(x, Symbol) else x, operation.results)

    # ------------------------------------------------------------ examples

    def _examples(self, operation: Operation) -> list[Any]:
        """What the call gives for each set of sizes; where it refuses the present ones, the program is tried with others."""
        program = self.program
        try:
            return examples(operation)
        except errors.TELLING:
            if not any(s.fixed and UNKNOWN in s.fixed for s in program.symbols.values()):
                raise
            pairs = range(program.pair + 1, len(SIZES)) if all(o.renewable for o in program.operations) else ()
            found = (
                _matched(program, operation)
                or _renewed(program, operation, [pair for pair in pairs if pair < LONG])
                or _fitted(program, operation)
                or _renewed(program, operation, [pair for pair in pairs if pair >= LONG])
            )
            if found is None:
                raise
            return found


def _share_lengths(operation: Operation) -> None:
    """Results that have a row for each row of an operand belong to the same sequences."""
    for x in operation.reads:
        if isinstance(x, Symbol) and x.lengths:
            for made in operation.makes:
                if not made.lengths and made is not x and _rows(made) == _rows(x):
                    made.lengths = x.lengths


def _rows(symbol: Symbol) -> list[int | None]:
    """The first size of its examples."""
    return [None if s.items is not None or not s.sig.ndim else s.sig.shape[0] for s in symbol.samples]


def _renew(program: Program, pair: int) -> None:
    """Find the examples of all symbols anew, for another pair of sizes."""
    program.pair = pair
    for symbol in program.symbols.values():
        if symbol.fixed is not None:
            symbol.samples = samples_of(symbol, pair)
    for operation in program.operations:
        _sample_anew(operation)


def _renewed(program: Program, operation: Operation, pairs: list[int]) -> list[Any] | None:
    """What a call gives for the first of several pairs of sizes that it takes; None: it takes none."""
    before = program.pair
    for pair in pairs:
        with contextlib.suppress(*errors.TELLING):
            _renew(program, pair)
            return examples(operation)
    if pairs:
        _renew(program, before)
    return None


def _matched(program: Program, operation: Operation) -> list[Any] | None:
    """What a call gives of an input whose unknown sizes are the unknown ones of another operand; None: it refuses them."""
    operands = [x for x in operation.reads if isinstance(x, Symbol) and x.samples[0].items is None]
    for symbol in [x for x in operands if x.fixed and UNKNOWN in x.fixed and not x.sizes]:
        for other in [x for x in operands if x is not symbol and len(x.shape) == len(symbol.shape)]:
            sizes = enumerate(zip(*[sample.sig.shape for sample in other.samples], strict=True))
            unknown = {axis: each for axis, each in sizes if len(set(each)) > 1}
            found = _tried(program, operation, symbol, [unknown]) if unknown else None
            if found is not None:
                return found
    return None


def _fitted(program: Program, operation: Operation) -> list[Any] | None:
    """What a call gives whose unknown sizes are not all alike: one more than another, a multiple, or a size that another
    operand has. An axis of an input is tried after the other; None: nothing fits.
    """
    inputs, sizes = _inputs(program, operation)
    for symbol in inputs:
        tries = [
            {axis: each}
            for axis, n in enumerate(symbol.fixed or ())
            if n == UNKNOWN and axis not in symbol.sizes
            for each in _related([sample.sig.shape[axis] for sample in symbol.samples], sizes)
        ]
        found = _tried(program, operation, symbol, tries)
        if found is not None:
            return found
    return None


def _tried(program: Program, operation: Operation, symbol: Symbol, tries: list[dict[int, Any]]) -> list[Any] | None:
    """What a call gives for the first of several sets of sizes of an input that it takes, and all that depends on it."""
    after = _depending(program, symbol)
    if len(after) > REACH or not all(o.renewable for o in after):
        return None
    made = [symbol, *[s for o in after for s in o.makes]]
    kept, before = [s.samples for s in made], dict(symbol.sizes)
    for sizes in tries:
        symbol.sizes.update(sizes)
        symbol.samples = samples_of(symbol, program.pair)
        with contextlib.suppress(*errors.TELLING):
            for o in after:
                _sample_anew(o)
            return examples(operation)
        symbol.sizes.clear()
        symbol.sizes.update(before)
    for s, samples in zip(made, kept, strict=True):
        s.samples = samples
    return None


def _related(present: list[int], sizes: list[int]) -> Iterator[tuple[int, int, int]]:
    """Sizes that may fit where those of most inputs do not."""
    a, b, few = present
    yield from ((a + 1, b + 1, few + 1), (a - 1, b - 1, few - 1))
    for n in [*range(2, 5), 8, 16, *[m for m in sizes if m > 4]]:
        yield from ((a * n, b * n, few * n), (a // n, b // n, few))
    for n in sorted({2, *sizes} - {0, 1}):
        yield from ((1, n, n), (n, n, n))


def _inputs(program: Program, operation: Operation) -> tuple[list[Symbol], list[int]]:
    """The inputs with unknown sizes that a call depends on, the nearest first, and sizes that are known."""
    needed = list(operation.reads)
    seen = set(map(id, needed))
    made: set[Symbol] = set()
    for o in reversed(program.operations):
        if any(id(s) in seen for s in o.makes):
            needed += [x for x in o.reads if id(x) not in seen]
            seen.update(map(id, o.reads))
            made.update(o.makes)
    known: set[int] = set()
    for x in needed:
        if isinstance(x, Tensor):
            known.update(x._value.sig.shape)
        elif x.samples[0].items is None:
            known.update([n for n in x.shape if not isinstance(n, Dim)])
    symbols = [x for x in needed if isinstance(x, Symbol) and x not in made]
    return [x for x in symbols if x.fixed and UNKNOWN in x.fixed], sorted(known)


def _depending(program: Program, symbol: Symbol) -> list[Operation]:
    """The operations whose results depend on an input."""
    made, found = {symbol}, []
    for o in program.operations:
        if any(x in made for x in o.reads if isinstance(x, Symbol)):
            found.append(o)
            made.update(o.makes)
    return found


def _sample_anew(operation: Operation) -> None:
    """Find the examples of what an operation gives."""
    if operation.results is not None:
        together(_sampled_anew, [operation.results, *examples(operation)])


def resample(program: Program) -> None:
    """Find the examples of results anew, where calls are made under other settings now."""
    for operation in program.operations:
        if operation.renewable and operation.role == "forward":
            _sample_anew(operation)
    program.version += 1


def _sampled_anew(symbol: Any, *samples: Any) -> None:
    if isinstance(symbol, Symbol):
        symbol.samples = samples


def examples(operation: Operation) -> list[Any]:
    """What a call gives for each set of sizes: the two that it has to take, and few, if it takes these."""
    found = [example(operation, which) for which in range(2)]
    try:
        few = example(operation, 2)
        together(_alike, [found[0], few])
        found.append(few)
    except errors.TELLING:
        found.append(found[0])
    if any(_varies(x) for x in leaves((operation.args, operation.kwargs))):
        together(_not_empty, found)
    return found


def _varies(x: Any) -> bool:
    """Whether sizes of an argument are unknown, and none is 0."""
    if isinstance(x, Dim):
        return True
    if not isinstance(x, Symbol) or x.samples[0].items is not None:
        return False
    return x.samples[0].sig.shape != x.samples[1].sig.shape and 0 not in x.samples[0].sig.shape


def _not_empty(*samples: Any) -> None:
    """A size of 0 that comes of unknown ones is their difference, and unknown too."""
    if isinstance(samples[0], Sample) and samples[0].items is None and 0 in samples[0].sig.shape:
        empty = [all(n == 0 for n in sizes) for sizes in zip(*[s.sig.shape for s in samples], strict=True)]
        for which, sample in enumerate(samples):
            shape = [UNLIKE[which] if no else n for n, no in zip(sample.sig.shape, empty, strict=True)]
            sample.sig, sample.array = sig_of(tuple(shape), sample.sig.dtype), None


def _alike(one: Any, other: Any) -> None:
    """Raise where examples cannot be of one variable."""
    if isinstance(one, Sample) and one.items is not None:
        return
    if isinstance(one, Sample) and (not isinstance(other, Sample) or one.sig.ndim != other.sig.ndim):
        raise errors.failure("the number of dimensions depends on an unknown size")


def together(fn: Any, trees: list[Any]) -> Any:
    """Several structures that are alike as one, each leaf made from theirs."""
    first = trees[0]
    nested = [isinstance(tree, (list, tuple)) and not isinstance(tree, Items) for tree in trees]
    if any(nested) and not (all(nested) and len({len(tree) for tree in trees}) == 1):
        raise errors.failure("the number of results depends on a size that is unknown while a program is built")
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[together(fn, list(each)) for each in zip(*trees, strict=True)])
    if nested[0]:
        return type(first)([together(fn, list(each)) for each in zip(*trees, strict=True)])
    if isinstance(first, dict):
        return {key: together(fn, [tree[key] for tree in trees]) for key in first}
    return fn(*trees)


def example(operation: Operation, which: int) -> Any:
    """What a call gives for one set of sizes: Samples in the structure of its result."""
    try:
        return _example(operation, which)
    except errors.TELLING:
        # in a branch that these sizes would not take: what is left of them is negative
        possible = _without_negative_sizes(operation, which)
        if possible is None:
            raise
        return _example(possible, which)


def _without_negative_sizes(operation: Operation, which: int) -> Operation | None:
    """The call with zero for each size that is computed and negative; None where there is none."""
    negative = False

    def size(x: Any) -> Any:
        nonlocal negative
        if not isinstance(x, Dim):
            return x
        n = x.find(lambda s, axis: s.samples[which].sig.shape[axis])
        negative = negative or n < 0
        return max(n, 0)

    made = copy.copy(operation)
    made.args, made.kwargs = mapped(size, (operation.args, operation.kwargs))
    return made if negative else None


def _example(operation: Operation, which: int) -> Any:
    if getattr(operation.call, "acts", False):
        return None
    with (
        suspended(),
        random_state.seeded(1),
        precision.using(operation.policy),
        GradMode(which == 0 and operation.grad),
    ):
        made = getattr(operation.call, "op", None)
        if getattr(made, "result_rule", None) is not None:
            return _by_rule(made, operation, which)
        try:
            found = _without_values(operation, which)
        except _Unreadable:
            return _by_example(operation, which)
        return _counted(operation, which) if _countable(operation, which, found) else found


def _by_rule(made: Any, operation: Operation, which: int) -> Any:
    """What a call gives whose function says so itself."""

    args, kwargs = _arguments(operation, which, lambda sample: sample.sig)
    given = {**made.signature.bind(args, kwargs), "unknown": UNLIKE[which]}
    wanted = inspect.signature(made.result_rule).parameters
    found = made.result_rule(**{n: given[n] for n in wanted})
    return mapped(lambda x: Sample(x, sources=()) if isinstance(x, Sig) else x, found)


class _Unreadable(Exception):
    """A call looks at values that are not there."""


class _Source(tape.Relay):
    """Where the gradient of an operand of an example goes: which operand that is."""

    __slots__ = ("place",)

    def __init__(self, t: Tensor, place: int):
        super().__init__(wrap(t._value, stop_gradient=False))
        self.place = place


def _arguments(operation: Operation, which: int, tensor: Callable[[Sample], Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call, with what `tensor` makes of an example in the place of each operand."""
    places = itertools.count()

    def standing_in(x: Any) -> Any:
        place = next(places)
        sample = _sample(x, which)
        if sample is None:
            return x.find(lambda s, axis: s.samples[which].sig.shape[axis]) if isinstance(x, Dim) else x
        made = tensor(sample)
        if not x.stop_gradient:
            for t in made if isinstance(made, Items) else (made,):
                if isinstance(t, Tensor) and t._value.sig.dtype.kind in "fc":
                    t._stop_gradient, t._edge = False, (_Source(t, place), 0)
        return made

    return mapped(standing_in, (operation.args, operation.kwargs))


def _sources(t: Tensor) -> tuple[int, ...]:
    """The operands of an example that gradients of its result go to."""
    found, seen, rest = set(), set(), [tape.target_of(t)]
    while rest:
        target = rest.pop()
        if target.__class__ is tuple and target[0] not in seen:
            edge = target[0]
            seen.add(edge)
            if isinstance(edge, _Source):
                found.add(edge.place)
            else:
                rest.extend(edge.inputs)
    return tuple(sorted(found))


def _without_values(operation: Operation, which: int) -> Any:
    with capture() as captured:

        def tensor(sample: Sample) -> Any:
            if sample.items is not None:
                return Items(map(tensor, sample.items))
            if sample.array is not None:
                return Tensor(sample.array, sample.sig.dtype)
            return wrap(captured.input(sample.sig.shape, sample.sig.dtype))

        args, kwargs = _arguments(operation, which, tensor)
        try:
            made = getattr(operation.call, "example", operation.call)(*args, **kwargs)
        except RuntimeError as e:
            if needs_value(e):
                raise _Unreadable from None
            raise
        return mapped(_sampled, made)


def _countable(operation: Operation, which: int, found: Any) -> bool:
    """Whether a call gives few numbers, from known ones alone: sizes that are cut, joined and computed with."""
    operands = [sample for x in leaves((operation.args, operation.kwargs)) if (sample := _sample(x, which))]
    return all(sample.array is not None for sample in operands) and all(
        isinstance(x, Sample) and x.items is None and x.sig.dtype.kind in "ibf" and x.sig.size <= SMALL
        for x in leaves(found)
    )


def _counted(operation: Operation, which: int) -> Any:
    """What such a call gives, with its values; random ones are unknown."""
    args, kwargs = _arguments(operation, which, lambda sample: Tensor(sample.array, sample.sig.dtype))
    before = random_state.drawn()
    made = getattr(operation.call, "example", operation.call)(*args, **kwargs)
    if random_state.drawn() != before:
        return mapped(_without_array, made)
    return mapped(lambda t: Sample(t._value.sig, t.numpy(), None, _sources(t)) if isinstance(t, Tensor) else t, made)


def _by_example(operation: Operation, which: int) -> Any:
    """What a call gives whose result depends on values: of zeros, ones and numbers that count up, or where it takes none
    of these, of counts that add up to the rows that there are; the first size of a result, and any that differs, is unknown.
    """
    found: list[Any] = []
    refused = None
    rows = max(
        [s.sig.shape[0] for x in operation.reads if (s := _sample(x, which)) and s.items is None and s.sig.ndim > 1],
        default=1,
    )
    for fill in (np.zeros, np.ones, _counting, functools.partial(_parts, rows)):
        if found and fill not in (np.ones, _counting):
            break

        def tensor(sample: Sample, fill: Any = fill) -> Any:
            if sample.items is not None:
                return Items(map(tensor, sample.items))
            if sample.array is None and sample.sig.size > LARGE:
                raise errors.failure(f"values of shape {list(sample.sig.shape)} are too many to be tried")
            array = fill(sample.sig.shape, sample.sig.dtype.np) if sample.array is None else sample.array
            return Tensor(array, sample.sig.dtype)

        args, kwargs = _arguments(operation, which, tensor)
        try:
            made = getattr(operation.call, "example", operation.call)(*args, **kwargs)
        except errors.TELLING as e:
            refused = e
        else:
            found.append(mapped(_without_array, made))
    if not found:
        assert refused is not None
        raise refused

    certain = getattr(operation.call, "sizes_known", False)

    def differing(*each: Any) -> Any:
        if not isinstance(each[0], Sample) or each[0].items is not None:
            return each[0]
        sizes = list(zip(*[sample.sig.shape for sample in each], strict=True))
        known = [(i > 0 or certain) and len(set(n)) == 1 for i, n in enumerate(sizes)]
        shape = tuple([n[0] if k else UNLIKE[which] for n, k in zip(sizes, known, strict=True)])
        return Sample(sig_of(shape, each[0].sig.dtype), sources=each[0].sources)

    return together(differing, found)


UNLIKE = (3, 5, 2)  # sizes of examples whose size is unknown whatever those of the inputs are


def _counting(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return (np.arange(int(np.prod(shape))) % 7).reshape(shape).astype(dtype)


def _parts(rows: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Counts whose sum is the number of rows."""
    if np.dtype(dtype).kind not in "iu" or len(shape) != 1 or not shape[0]:
        return np.ones(shape, dtype)
    return np.array([rows // shape[0] + (i < rows % shape[0]) for i in range(shape[0])], dtype)


def _sample(x: Any, which: int) -> Sample | None:
    """An example of an argument; None for what is no tensor."""
    if isinstance(x, Symbol):
        return x.samples[which]
    if isinstance(x, Tensor):
        sig = x._value.sig
        known = sig.dtype.kind in "ib" and sig.size <= SMALL and x._value.array is not None
        return Sample(sig, np.asarray(x._value.array) if known else None)
    return None


def _without_array(t: Any) -> Any:
    found = _sampled(t)
    return Sample(found.sig, sources=found.sources) if isinstance(found, Sample) and found.items is None else found


def _sampled(t: Any) -> Any:
    if isinstance(t, Items):
        items = tuple(map(_sampled, t))
        return Sample(None, items=items, sources=tuple({place for each in items for place in each.sources}))
    if not isinstance(t, Tensor):
        return t
    v = t._value
    known = v.array is not None and v.sig.dtype.kind in "ib" and v.sig.size <= SMALL
    return Sample(v.sig, np.asarray(v.array) if known else None, None, _sources(t))


def _differentiable(x: Any) -> bool:
    return (isinstance(x, Symbol) and x.samples[0].items is not None) or x.dtype.kind in "fc"


# ------------------------------------------------------------ where calls go


def current() -> Builder | None:
    """What public calls of this thread are recorded into; None where they are made."""
    trace = segment.local.trace
    return trace if isinstance(trace, Builder) else None


class _Programs:
    """The programs that are built: what is computed, and how parameters start."""

    def __init__(self) -> None:
        self.main, self.startup = Program(), Program()


programs = _Programs()


def begin() -> None:
    """Record public calls of this thread from now on."""
    segment.local.trace = Builder()


def end() -> None:
    """Make public calls again."""
    segment.local.trace = None


@contextlib.contextmanager
def into(program: Program) -> Iterator[Builder]:
    """Record public calls of this thread into a program, whatever the mode is."""
    before, segment.local.trace = segment.local.trace, Builder(program)
    try:
        yield segment.local.trace
    finally:
        segment.local.trace = before
