"""Model: a program with named inputs and outputs. It is what is captured, saved, loaded, exported and served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.program import running
from bireme.core.program.building import suspended
from bireme.core.program.program import Operation, Program, leaves, mapped, symbols_of
from bireme.core.program.variable import Dim, Symbol, symbol_of
from bireme.core.tensor.tensor import Tensor


class Model:
    """A program, the symbols that it is given and what it gives.

    `results` is a structure (a symbol, or lists, tuples and dicts) of symbols, tensors and plain values; `outputs` are the
    symbols and tensors in it, in order. Parameters and buffers are tensors among the operands of its operations.
    """

    def __init__(self, program: Program, inputs: Sequence[Any], results: Any, names: Sequence[str] | None = None):
        self.program = program
        self.inputs: list[Symbol] = [symbol_of(x) for x in inputs]
        self.results = mapped(symbol_of, results)
        self.outputs = [x for x in leaves(self.results) if isinstance(x, (Symbol, Tensor))]
        self.output_names = list(names) if names is not None else [x.name for x in self.outputs]
        self._plan: running.Plan | None = None

    @property
    def input_names(self) -> list[str]:
        return [symbol.name for symbol in self.inputs]

    def plan(self) -> running.Plan:
        """The calls that its outputs need, in order."""
        if self._plan is None or self._plan.version != self.program.version:
            sizes = [s for x in leaves(self.results) if isinstance(x, Dim) for s in symbols_of(x)]
            self._plan = running.Plan(self.program, [x for x in (*self.outputs, *sizes) if isinstance(x, Symbol)])
        return self._plan

    def run(self, *given: Any) -> Any:
        """Make its calls on tensors, as dynamic code would: gradients flow where they are enabled."""
        if len(given) != len(self.inputs):
            raise errors.bad("inputs", f"{len(self.inputs)} ({', '.join(self.input_names)})", len(given))
        plan = self.plan()
        env = {s: x if isinstance(x, Tensor) else Tensor(x, s.dtype) for s, x in zip(self.inputs, given, strict=True)}
        with suspended():
            running.make(plan.steps, env, lambda t: t)

        def result(x: Any) -> Any:
            if isinstance(x, Dim):
                return x.find(lambda symbol, axis: env[symbol].shape[axis])
            return running.present(x, env[x]) if isinstance(x, Symbol) else x

        return mapped(result, self.results)

    def check(self) -> None:
        """Raise where a value is read that was not made before, in the block that reads it or around it."""
        _check(self.plan().operations, set(self.inputs), self.outputs)


def _check(operations: list[Operation], known: set[Symbol], results: Sequence[Any]) -> None:
    known = set(known)
    for operation in operations:
        blocks = getattr(operation.call, "labelled", None)
        for _, block in blocks() if blocks is not None else ():
            _check(block.operations, known | set(block.inputs), block.results)
        for x in operation.reads:
            if isinstance(x, Symbol) and x not in known:
                raise errors.failure(f"{operation.type} reads {x.name}, which is not made before it", pos=operation.pos)
        known.update(operation.makes)
    for x in results:
        if isinstance(x, Symbol) and x not in known:
            raise errors.failure(f"{x.name} is made in a branch or a loop only, and used outside of it")
