"""Building programs: while it goes on, public calls are recorded instead of being made.

What a call would give is found by making it on examples: tensors without values, of two sets of sizes for those that are
unknown. Nothing is computed. A size that differs between both is unknown in the result too.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors, random_state
from bireme.core.declare import precision
from bireme.core.graph import segment
from bireme.core.graph.graph import Sig, sig_of
from bireme.core.program.program import SIZES, Items, Operation, Program, leaves, mapped, samples_of, suspended
from bireme.core.program.variable import UNKNOWN, Dim, Sample, Symbol, Variable, symbol_of
from bireme.core.record.capture import capture
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.grad_mode import state as grad_state
from bireme.core.tensor.tensor import Tensor, wrap

LARGE = 1 << 26  # elements of an example that has values
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
            stop = stops or (samples[0].items is None and samples[0].sig.dtype.kind not in "fc")
            return program._add(Symbol(program._unused_name(operation.type), samples, stop))

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
            unknown = any(s.fixed and UNKNOWN in s.fixed for s in program.symbols.values())
            if not unknown or not all(o.renewable for o in program.operations):
                raise
            before = program.pair
            for pair in range(before + 1, len(SIZES)):
                with contextlib.suppress(*errors.TELLING):
                    _renew(program, pair)
                    return examples(operation)
            _renew(program, before)
            raise


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
            symbol.samples = samples_of(symbol.fixed, symbol.dtype, pair)
    for operation in program.operations:
        together(_sampled_anew, [operation.results, *examples(operation)])


def resample(program: Program) -> None:
    """Find the examples of results anew, where calls are made under other settings now."""
    for operation in program.operations:
        if operation.renewable and operation.role == "forward":
            together(_sampled_anew, [operation.results, *examples(operation)])
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
        return [*found, few]
    except errors.TELLING:
        return [*found, found[0]]


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
    with suspended(), random_state.seeded(1), precision.using(operation.policy), no_grad():
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

    def standing_in(x: Any) -> Any:
        sample = _sample(x, which)
        if sample is None:
            return x.find(lambda s, axis: s.samples[which].sig.shape[axis]) if isinstance(x, Dim) else x
        return sample.sig

    args, kwargs = mapped(standing_in, (operation.args, operation.kwargs))
    given = {**made.signature.bind(args, kwargs), "unknown": UNLIKE[which]}
    wanted = inspect.signature(made.result_rule).parameters
    return mapped(lambda x: Sample(x) if isinstance(x, Sig) else x, made.result_rule(**{n: given[n] for n in wanted}))


class _Unreadable(Exception):
    """A call looks at values that are not there."""


def _without_values(operation: Operation, which: int) -> Any:
    with capture() as captured:

        def standing_in(x: Any) -> Any:
            sample = _sample(x, which)
            if sample is None:
                return x.find(lambda s, axis: s.samples[which].sig.shape[axis]) if isinstance(x, Dim) else x
            return tensor(sample)

        def tensor(sample: Sample) -> Any:
            if sample.items is not None:
                return Items(map(tensor, sample.items))
            if sample.array is not None:
                return Tensor(sample.array, sample.sig.dtype)
            return wrap(captured.input(sample.sig.shape, sample.sig.dtype))

        args, kwargs = mapped(standing_in, (operation.args, operation.kwargs))
        try:
            made = getattr(operation.call, "example", operation.call)(*args, **kwargs)
        except RuntimeError as e:
            if "graph being captured" in str(e):
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

    def standing_in(x: Any) -> Any:
        sample = _sample(x, which)
        if sample is None:
            return x.find(lambda s, axis: s.samples[which].sig.shape[axis]) if isinstance(x, Dim) else x
        return Tensor(sample.array, sample.sig.dtype)

    args, kwargs = mapped(standing_in, (operation.args, operation.kwargs))
    before = random_state.drawn()
    made = getattr(operation.call, "example", operation.call)(*args, **kwargs)
    if random_state.drawn() != before:
        return mapped(_without_array, made)
    return mapped(lambda t: Sample(t._value.sig, t.numpy()) if isinstance(t, Tensor) else t, made)


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

        def filled(x: Any, fill: Any = fill) -> Any:
            sample = _sample(x, which)
            if sample is None:
                return x.find(lambda s, axis: s.samples[which].sig.shape[axis]) if isinstance(x, Dim) else x
            return tensor(sample, fill)

        def tensor(sample: Sample, fill: Any) -> Any:
            if sample.items is not None:
                return Items([tensor(each, fill) for each in sample.items])
            if sample.array is None and sample.sig.size > LARGE:
                raise errors.failure(f"values of shape {list(sample.sig.shape)} are too many to be tried")
            array = fill(sample.sig.shape, sample.sig.dtype.np) if sample.array is None else sample.array
            return Tensor(array, sample.sig.dtype)

        args, kwargs = mapped(filled, (operation.args, operation.kwargs))
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
        return Sample(
            sig_of(tuple([n[0] if k else UNLIKE[which] for n, k in zip(sizes, known, strict=True)]), each[0].sig.dtype)
        )

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
    return Sample(found.sig) if isinstance(found, Sample) and found.items is None else found


def _sampled(t: Any) -> Any:
    if isinstance(t, Items):
        return Sample(None, items=tuple(map(_sampled, t)))
    if not isinstance(t, Tensor):
        return t
    v = t._value
    known = v.array is not None and v.sig.dtype.kind in "ib" and v.sig.size <= SMALL
    return Sample(v.sig, np.asarray(v.array) if known else None)


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
