"""Gradients and updates as operations of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.program.building import Builder
from bireme.core.program.program import STARTED, Operation, Program
from bireme.core.program.variable import Sample, Symbol, Variable, symbol_of
from bireme.core.tensor import backward
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor


def reached(program: Program, outs: list[Tensor]) -> list[Any]:
    """Symbols and tensors that variables depend on, through what passes gradients on."""
    found = {id(x): x for x in map(symbol_of, outs)}
    for operation in reversed(program.operations):
        for which, made in enumerate(operation.makes):
            if id(made) in found and not made.stop_gradient:
                found.update({id(x): x for x in operation.feeding(which)})
    return list(found.values())


def parameters(builder: Builder, where: str, loss: Any, given: Any, left_out: Any) -> list[Tensor]:
    """The parameters that a loss is differentiated with respect to: those given, by themselves or by name, or all that
    it depends on and that can be trained.
    """
    if not isinstance(loss, Variable):
        raise errors.bad(f"{where}(loss)", "a Variable", loss, kind=errors.ArgumentTypeError)
    depends = {id(x) for x in reached(builder.program, [loss])}
    known = builder.program.tensors
    names = {x if isinstance(x, str) else x.name for x in left_out or ()}
    if given is None:
        wanted: list[Tensor] = [t for t in known.values() if isinstance(t, Parameter) and not t.stop_gradient]
    else:
        unknown = [x for x in given if isinstance(x, str) and x not in known]
        if unknown:
            raise errors.bad(f"{where}(parameter_list)", "names of parameters of the program", unknown[0])
        wanted = [known[x] if isinstance(x, str) else x for x in given]
    return [p for p in wanted if id(p) in depends and p.name not in names]


def pull(builder: Builder, outs: list[Tensor], ins: list[Tensor], seeds: list[Any]) -> list[Variable]:
    """Add the gradients of variables with respect to others to the program."""
    program = builder.program
    for earlier in program.operations:
        if earlier.role == "backward":
            earlier.kwargs["create_graph"] = True  # its results may be differentiated now

    def call(outs: list[Tensor], ins: list[Tensor], seeds: list[Any], create_graph: bool) -> list[Tensor]:
        return backward.grad(outs, ins, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True)

    call.example = lambda outs, ins, seeds, create_graph: list(ins)  # type: ignore[attr-defined]  # what `Operation` looks for on a function
    symbols = [symbol_of(x) for x in outs], [symbol_of(x) for x in ins], [symbol_of(x) for x in seeds]
    operation = Operation(call, "gradients", symbols, {"create_graph": False}, errors.position())
    operation.role = "backward"
    operation.results = [program._add(_gradient(program, x)) for x in symbols[1]]
    program._append(operation)
    return [program._var(symbol) for symbol in operation.results]


def _gradient(program: Program, of: Symbol | Tensor) -> Symbol:
    name = f"{of.name}@GRAD"
    while name in program.symbols:
        name += "@"
    samples = of.samples if isinstance(of, Symbol) else (Sample(of._value.sig),) * 3
    made = Symbol(name, tuple([Sample(sample.sig) for sample in samples]), False)
    made.fixed = of.fixed if isinstance(of, Symbol) else tuple(of.shape)
    made.sizes = of.sizes if isinstance(of, Symbol) else {}
    return made


def update(builder: Builder, call: Callable, type: str, params: list[Tensor], grads: list[Any]) -> Operation:
    """Add a change of parameters to the program: `call(params, grads)`, whenever it runs."""
    symbols = [symbol_of(g) for g in grads]
    operation = Operation(call, type, (params, symbols), {}, errors.position())
    operation.role = "update"
    builder.program._append(operation)
    return operation


def start_with(startup: Program, param: Tensor, fill: Callable[[Tensor], None]) -> None:
    """Let a startup program give a parameter its initial values."""

    def initialize(p: Tensor) -> None:
        fill(p)

    call_at_start(startup, initialize, "initialize", (param,))


def call_at_start(startup: Program, call: Callable, type: str, params: tuple[Tensor, ...]) -> None:
    """Let a startup program make a call that gives parameters values."""
    operation = Operation(call, type, params, {}, errors.position())
    operation.role = "update"
    startup._append(operation)
    STARTED.update({param.name: param for param in params})
