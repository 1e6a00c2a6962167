"""Control flow of programs: branches and loops whose conditions are known when the program runs.

A branch, or the body of a loop, is a block: operations that are recorded once, and made as often as the condition says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.graph.graph import sig_of
from bireme.core.program import running
from bireme.core.program.building import UNLIKE, Builder, together
from bireme.core.program.program import Operation, Program, mapped
from bireme.core.program.variable import Sample, Symbol, Variable, symbol_of
from bireme.core.tensor.tensor import Tensor


class Block:
    """Operations that belong to another one, what they read from outside, and what they give."""

    def __init__(self, operations: list[Operation], inputs: list[Symbol], results: Any):
        self.operations, self.inputs, self.results = operations, inputs, results
        made = {id(s) for o in operations for s in o.makes} | {id(s) for s in inputs}
        wanted = [x for o in operations for x in o.reads] + [
            x for x in flat(results) if isinstance(x, (Symbol, Tensor))
        ]
        self.outside = list({id(x): x for x in wanted if id(x) not in made}.values())

    def run(self, inputs: list[Tensor], outside: dict[int, Tensor]) -> Any:
        """Make the calls, on tensors for what is read from outside."""
        env = dict(zip(self.inputs, inputs, strict=True))
        env |= {s: outside[id(s)] for s in self.outside if isinstance(s, Symbol)}
        kept = {id(t): outside[id(t)] for t in self.outside if isinstance(t, Tensor)}
        running.make(self.operations, env, lambda t: kept.get(id(t), t))
        return mapped(lambda x: env[x] if isinstance(x, Symbol) else kept.get(id(x), x), self.results)


def flat(tree: Any) -> list[Any]:
    """The leaves of a structure."""
    found: list[Any] = []
    mapped(found.append, tree)
    return found


def recorded(builder: Builder, body: Callable, inputs: Sequence[Variable] = ()) -> Block:
    """What a function does with variables, as a block."""
    program = builder.program
    outer, program.operations = program.operations, []
    try:
        made = body(*inputs)
    finally:
        inner, program.operations = program.operations, outer
    return Block(inner, [x.symbol for x in inputs], mapped(symbol_of, made))


class Branch:
    """One of several blocks: the one whose key the predicate is, else the last, which has none."""

    def __init__(self, blocks: list[Block], keys: list[int]):
        self.blocks, self.keys = blocks, keys
        self.outside = list({id(x): x for block in blocks for x in block.outside}.values())

    def __call__(self, pred: Tensor, given: list[Tensor]) -> Any:
        found = {id(x): t for x, t in zip(self.outside, given, strict=True)}
        value = int(pred)
        return self.blocks[self.keys.index(value) if value in self.keys else -1].run([], found)


class Loop:
    """A block that changes values as long as another one is true of them."""

    def __init__(self, test: Block, step: Block):
        self.test, self.step = test, step
        self.outside = list({id(x): x for block in (test, step) for x in block.outside}.values())

    def __call__(self, values: list[Tensor], given: list[Tensor]) -> list[Tensor]:
        found = {id(x): t for x, t in zip(self.outside, given, strict=True)}
        while bool(self.test.run(values, found)):
            values = self.step.run(values, found)
        return values


def branch(builder: Builder, where: str, pred: Tensor, bodies: list[Callable], keys: list[int]) -> Any:
    """Add the choice of one of several functions to the program; their results have to be alike."""
    call = Branch([recorded(builder, body) for body in bodies], keys)
    blocks = call.blocks
    operation = Operation(call, where, (symbol_of(pred), call.outside), {}, errors.position())
    try:
        merged = together(lambda *each: _merged(where, each), [block.results for block in blocks])
    except RuntimeError:
        described = ", ".join([repr(len(flat(block.results))) for block in blocks])
        raise errors.bad(where, "branches that give the same number of results", described=described) from None
    return _appended(builder.program, operation, merged)


def loop(builder: Builder, where: str, cond: Callable, body: Callable, start: list[Tensor]) -> list[Variable]:
    """Add a loop to the program: `body` changes the variables as long as `cond` holds for them."""
    program = builder.program
    samples = [_samples(x) for x in start]
    for _ in range(2):  # sizes that the body changes are unknown: it is recorded once more for such ones
        inputs = [program._var(program._add(Symbol(program._unused_name(where), s, False))) for s in samples]
        for x, given in zip(inputs, start, strict=True):
            x.symbol.stop_gradient = given.stop_gradient
        test, step = recorded(builder, cond, inputs), recorded(builder, _listed(body), inputs)
        made = step.results
        if len(made) != len(start):
            raise errors.bad(f"{where}(body)", f"{len(start)} results, as there are loop_vars", len(made))
        grown = [_widened(s, _samples(y)) for s, y in zip(samples, made, strict=True)]
        if all([a.sig for a in s] == [b.sig for b in g] for s, g in zip(samples, grown, strict=True)):
            break
        samples = grown
    for x, y in zip(inputs, made, strict=True):
        x.symbol.stop_gradient = x.symbol.stop_gradient and getattr(y, "stop_gradient", True)
    call = Loop(test, step)
    operation = Operation(call, where, ([symbol_of(x) for x in start], call.outside), {}, errors.position())
    return _appended(program, operation, [tuple(s) for s in samples], [x.symbol.stop_gradient for x in inputs])


def _listed(body: Callable) -> Callable:
    def call(*given: Any) -> list[Any]:
        made = body(*given)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    return call


def _appended(program: Program, operation: Operation, merged: Any, stops: list[bool] | None = None) -> Any:
    """Add an operation whose results are known by their examples, tuples of Samples."""
    left = iter(stops or ())
    operation.renewable = False

    def variable(x: Any) -> Any:
        if not (isinstance(x, _Merged) or (isinstance(x, tuple) and x and isinstance(x[0], Sample))):
            return x
        stop = x.stop if isinstance(x, _Merged) else next(left, False)
        samples = x.samples if isinstance(x, _Merged) else x
        return program._add(Symbol(program._unused_name(operation.type), samples, stop))

    operation.results = [variable(x) for x in merged] if stops is not None else mapped(variable, merged)
    program._append(operation)
    return mapped(lambda x: program._var(x) if isinstance(x, Symbol) else x, operation.results)


class _Merged:
    """The result of several branches: examples, and whether none of them has a gradient."""

    def __init__(self, samples: tuple[Sample, ...], stop: bool):
        self.samples, self.stop = samples, stop


def _merged(where: str, each: tuple) -> Any:
    tensors = [isinstance(x, (Symbol, Tensor)) for x in each]
    if not any(tensors):
        return each[0]
    if not all(tensors):
        raise errors.bad(where, "branches that all give a tensor in one place", each[tensors.index(False)])
    found = _samples(each[0])
    for x in each[1:]:
        other = _samples(x)
        if other[0].sig.dtype is not found[0].sig.dtype or other[0].sig.ndim != found[0].sig.ndim:
            told = [f"{s[0].sig.dtype.name} of {s[0].sig.ndim} dimensions" for s in (found, other)]
            raise errors.bad(where, f"branches that give alike tensors, as {told[0]}", described=told[1])
        found = _widened(found, other)
    return _Merged(found, all(x.stop_gradient for x in each))


def _samples(x: Any) -> tuple[Sample, ...]:
    return (
        x.symbol.samples
        if isinstance(x, Variable)
        else x.samples
        if isinstance(x, Symbol)
        else (Sample(x._value.sig),) * 3
    )


def _widened(one: tuple[Sample, ...], other: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Examples of what may be either: a size that differs is unknown."""
    shapes = [(a.sig.shape, b.sig.shape) for a, b in zip(one, other, strict=True)]
    if any(len(a) != len(b) for a, b in shapes):
        raise errors.failure("the number of dimensions changes inside of a loop or a branch")
    known = [all(a[i] == b[i] for a, b in shapes) for i in range(len(shapes[0][0]))]
    return tuple([
        Sample(sig_of(tuple([n if k else UNLIKE[w] for n, k in zip(sample.sig.shape, known, strict=True)]), sample.sig.dtype))
        for w, sample in enumerate(one)
    ])  # fmt: skip
