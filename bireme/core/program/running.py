"""Running programs: the calls of a program are made, on tensors, and what is wanted of it comes back.

They are recorded by the engine as any calls are, so everything that holds for dynamic code holds for them: they are run as
one compiled program, which is found again for the same sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.declare import precision
from bireme.core.program.building import together
from bireme.core.program.program import Operation, Program, leaves
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.grad_mode import state as grad_state
from bireme.core.tensor.tensor import Tensor


class Plan:
    """The calls that a fetch needs, in order, and which values can be dropped after each."""

    def __init__(self, program: Program, fetched: list[Symbol]):
        self.version = program.version
        wanted, kept = set(fetched), []
        for operation in reversed(program.operations):
            if operation.role == "update" or _changes(operation) or wanted.intersection(operation.makes):
                kept.append(operation)
                wanted.update([x for x in operation.reads if isinstance(x, Symbol)])
        self.operations = kept[::-1]
        self.needs_grad = any(o.role == "backward" for o in self.operations)
        self.initializes = any(o.type == "initialize" for o in self.operations)
        self.inputs = [s for s in wanted if s.is_data]
        last: dict[Symbol, int] = {}
        for at, operation in enumerate(self.operations):
            last.update({x: at for x in (*operation.reads, *operation.makes) if isinstance(x, Symbol)})
        dead: list[list[Symbol]] = [[] for _ in self.operations]
        asked = set(fetched)
        for symbol, at in last.items():
            if symbol not in asked:
                dead[at].append(symbol)
        self.steps = [Step(o, symbols) for o, symbols in zip(self.operations, dead, strict=True)]


def _changes(operation: Operation) -> bool:
    """Whether a call is made for what it does: it prints, or changes a tensor that outlives the run, as the statistics of a
    normalization; or one of its blocks does.
    """
    if getattr(operation.call, "acts", False) or getattr(operation.call, "effect", False):
        return True
    blocks = getattr(operation.call, "labelled", None)
    if blocks is not None:
        return any(_changes(inner) for _, block in blocks() for inner in block.operations)
    return operation.role == "forward" and any(
        isinstance(x, Tensor) and x.persistable and x.stop_gradient for x in operation.reads
    )


Find = Callable[[Tensor], Tensor]  # what a parameter or buffer is in a run
Reader = Callable[[dict[Symbol, Any], Find], Any]


def present(symbol: Symbol, value: Any) -> Any:
    """The value of a symbol, which it does not have where only a branch gives it that was not taken."""
    if value is None:
        raise errors.failure(
            f"{symbol.name} is used but has no value: the branch that was taken gives it none", pos=None
        )
    return value


def _reader(x: Any, partial: bool) -> Reader:
    """How an argument is found when the program runs; looked at once, since a program runs often. It may have no value if
    `partial`.
    """
    if isinstance(x, Symbol):
        return (lambda env, find: env[x]) if partial else (lambda env, find: present(x, env[x]))
    if isinstance(x, Dim):
        return lambda env, find: x.find(lambda symbol, axis: env[symbol].shape[axis])
    if isinstance(x, Tensor):
        return lambda env, find: find(x)
    if not any(isinstance(y, (Symbol, Dim, Tensor)) for y in leaves(x)):
        return lambda env, find: x
    if isinstance(x, dict):
        pairs = [(key, _reader(y, partial)) for key, y in x.items()]
        return lambda env, find: {key: read(env, find) for key, read in pairs}
    if isinstance(x, slice):
        ends = [_reader(y, partial) for y in (x.start, x.stop, x.step)]
        return lambda env, find: slice(*[read(env, find) for read in ends])
    inner = [_reader(y, partial) for y in x]
    if hasattr(x, "_fields"):
        return lambda env, find: type(x)(*[read(env, find) for read in inner])
    return lambda env, find: type(x)([read(env, find) for read in inner])


class Step:
    """A call of a plan, with how its arguments are found, and what is not needed after it."""

    __slots__ = ("operation", "call", "args", "kwargs", "dead")

    def __init__(self, operation: Operation, dead: list[Symbol] | tuple[()] = ()):
        self.operation, self.call, self.dead = operation, operation.call, dead
        # blocks pass on what has no value, and there are no gradients of what a loss does not depend on
        partial = operation.role != "forward" or hasattr(operation.call, "labelled")
        self.args = [_reader(x, partial) for x in operation.args]
        self.kwargs = [(key, _reader(x, partial)) for key, x in operation.kwargs.items()]

    def make(self, env: dict[Symbol, Any], find: Find) -> Any:
        """Make the call under the settings that it was recorded with."""
        args = [read(env, find) for read in self.args]
        kwargs = {key: read(env, find) for key, read in self.kwargs}
        operation = self.operation
        if operation.policy is precision.state.policy and (operation.grad or not grad_state.grad):
            return self.call(*args, **kwargs)
        with precision.using(operation.policy), contextlib.nullcontext() if operation.grad else no_grad():
            return self.call(*args, **kwargs)


def run(plan: Plan, env: dict[Symbol, Any], find: Find) -> dict[Symbol, Any]:
    """Make the calls of a plan, given its inputs; `find` says what a parameter or buffer is in this run."""
    if plan.needs_grad:
        make(plan.steps, env, find)
    else:
        with no_grad():
            make(plan.steps, env, find)
    return env


def make(steps: list[Step], env: dict[Symbol, Any], find: Find) -> None:
    """Make calls in order: what they read is in `env`, and what they give comes there."""

    def keep(symbol: Any, made: Any) -> None:
        if isinstance(symbol, Symbol):
            if symbol.stop_gradient and isinstance(made, Tensor) and not made._stop_gradient:
                made = made.detach()
            env[symbol] = made

    for step in steps:
        operation = step.operation
        try:
            made = step.make(env, find)
        except errors.TELLING as e:
            e.add_note(f"  in {operation.type} of the program, called at {errors.location(operation.pos)}")
            raise
        results = operation.results
        if results.__class__ is Symbol:
            keep(results, made)
        elif results is not None:
            together(keep, [results, made])
        for symbol in step.dead:
            env.pop(symbol, None)
