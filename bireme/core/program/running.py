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
from bireme.core.program.building import suspended, together
from bireme.core.program.program import Operation, Program, mapped
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
        self.dead: list[list[Symbol]] = [[] for _ in self.operations]
        for symbol, at in last.items():
            if symbol not in set(fetched):
                self.dead[at].append(symbol)


def _changes(operation: Operation) -> bool:
    """Whether a call is made for what it does: it prints, or changes a tensor that outlives the run, as the statistics of a
    normalization; or one of its blocks does.
    """
    if getattr(operation.call, "acts", False):
        return True
    blocks = getattr(operation.call, "labelled", None)
    if blocks is not None:
        return any(_changes(inner) for _, block in blocks() for inner in block.operations)
    return operation.role == "forward" and any(
        isinstance(x, Tensor) and x.persistable and x.stop_gradient for x in operation.reads
    )


def run(plan: Plan, env: dict[Symbol, Tensor], tensors: Callable[[Tensor], Tensor]) -> dict[Symbol, Tensor]:
    """Make the calls of a plan, given its inputs; `tensors` finds what a parameter or buffer is in this run."""
    with suspended(), contextlib.nullcontext() if plan.needs_grad else no_grad():
        make(plan.operations, env, tensors, plan.dead)
    return env


def make(
    operations: list[Operation],
    env: dict[Symbol, Tensor],
    tensors: Callable[[Tensor], Tensor],
    dead: list[list[Symbol]] | None = None,
) -> None:
    """Make calls in order: what they read is in `env`, and what they give comes there."""

    def value(x: Any) -> Any:
        if isinstance(x, Symbol):
            return env[x]
        if isinstance(x, Dim):
            return x.find(lambda symbol, axis: env[symbol].shape[axis])
        return tensors(x) if isinstance(x, Tensor) else x

    def keep(symbol: Any, made: Any) -> None:
        if isinstance(symbol, Symbol):
            env[symbol] = made
            if symbol.stop_gradient and isinstance(made, Tensor) and not made._stop_gradient:
                env[symbol] = made.detach()

    for at, operation in enumerate(operations):
        try:
            made = _call(operation, mapped(value, operation.args), mapped(value, operation.kwargs))
        except errors.TELLING as e:
            e.add_note(f"  in {operation.type} of the program, called at {errors.location(operation.pos)}")
            raise
        together(keep, [operation.results, made])
        for symbol in dead[at] if dead is not None else ():
            env.pop(symbol, None)


def _call(operation: Operation, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Make a call under the settings that it was recorded with."""
    if operation.policy is precision.state.policy and (operation.grad or not grad_state.grad):
        return operation.call(*args, **kwargs)
    with precision.using(operation.policy), contextlib.nullcontext() if operation.grad else no_grad():
        return operation.call(*args, **kwargs)
