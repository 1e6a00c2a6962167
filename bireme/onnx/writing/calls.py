"""Writing calls: by a converter, by the public calls that a function makes, or by what the compiler is given of it."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.program.building import into
from bireme.core.program.control_flow import Branch, Loop
from bireme.core.program.program import Operation, Program, leaves, mapped
from bireme.core.program.variable import Dim, Symbol, Variable, symbol_of
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.writing import (
    elementwise,
    indexing,
    lists,
    neural,
    primitives,
    quantized,
    reductions,
    sequences,
    shapes,
)
from bireme.onnx.writing.graph import SequenceOf, Val, Writer, kind_of
from bireme.onnx.writing.table import CONVERTERS, Call, Unwritten

FAMILIES = (
    elementwise,
    indexing,
    lists,
    neural,
    quantized,
    reductions,
    sequences,
    shapes,
)  # imported: they fill the table


def write(w: Writer, operation: Operation) -> None:
    """Write one call, its results under its symbols; raises Unwritten where there is no way."""
    if operation.role != "forward":
        raise errors.failure(f"onnx.export: {operation.type} is a part of training, which ONNX graphs have none of")
    if getattr(operation.call, "acts", False):
        return None  # it prints or asserts, and gives nothing
    if isinstance(operation.call, Branch):
        return _branch(w, operation)
    if isinstance(operation.call, Loop):
        return _loop(w, operation)
    written, known = len(w.nodes), dict(w.known)
    told = ""
    for way in (primitives.write,) if _is_empty(operation) else (_by_converter, _expanded, primitives.write):
        try:
            _keep(w, operation, way(w, operation))
            return None
        except Unwritten as e:
            told = str(e) or told
            del w.nodes[written:]
            w.known, w.root.current = dict(known), w
    raise Unwritten(told or operation.type)


def _is_empty(operation: Operation) -> bool:
    """Whether an operand or result is known to have no elements: nodes say by a size of 0 that one stays."""
    shapes = [
        x.shape for x in (*operation.reads, *operation.makes)
        if isinstance(x, Tensor) or (isinstance(x, Symbol) and x.samples[0].items is None)
    ]  # fmt: skip
    known = not any(isinstance(n, Dim) for shape in shapes for n in shape)
    return known and any(not n for shape in shapes for n in shape)


def _keep(w: Writer, operation: Operation, made: Any) -> None:
    if made is None:
        return
    many = made if isinstance(made, list) else [made]
    for symbol, value in zip(operation.makes, many):
        if value is not None:
            w.known[symbol] = value.to(kind_of(symbol))


def bound(operation: Operation, program: Program) -> dict[str, Any]:
    """Arguments of a call by name, with variables for symbols."""
    args, kwargs = mapped(lambda x: program._var(x) if isinstance(x, Symbol) else x, (operation.args, operation.kwargs))
    made = getattr(operation.call, "op", None)
    if made is not None:
        return made.signature.bind(args, kwargs)
    if operation.type in ("getitem", "setitem"):
        return dict(zip(("x", "index", "value"), args))
    try:
        found = inspect.signature(operation.call).bind(*args, **kwargs)
    except (TypeError, ValueError):
        raise Unwritten from None
    found.apply_defaults()
    return dict(found.arguments)


def _by_converter(w: Writer, operation: Operation) -> Any:
    made = getattr(operation.call, "op", None)
    found = CONVERTERS.get(made.name if made is not None else operation.type)
    if found is None:
        raise Unwritten
    if made is not None and operation.call.__name__.endswith("_") and made.name != operation.call.__name__:
        raise Unwritten  # it changes a buffer
    call = Call(w, operation, bound(operation, w.program))
    if call.arguments.get("out") is not None:
        raise Unwritten
    return found(w, call)


# ------------------------------------------------------------ what a function is composed of


def _expanded(w: Writer, operation: Operation) -> Any:
    """Write the public calls that a composed function makes. Where sizes are unknown they are recorded for two sets of
    examples, which have to give the same calls: what looks at the size of an example cannot be written so.
    """
    made = getattr(operation.call, "op", None)
    if made is None or hasattr(made, "grad_op") or made.options.get("internal") or operation.makes == []:
        raise Unwritten
    symbols = [x for x in operation.reads if isinstance(x, Symbol)]
    calls, results = _recorded(w, operation)
    if any(isinstance(n, Dim) for s in symbols for n in s.shape):
        with _swapped(symbols):
            if _told(*_recorded(w, operation)) != _told(calls, results):
                raise Unwritten
    for call in calls:
        write(w, call)
    return [w.value(x) if isinstance(x, (Variable, Tensor)) else None for x in leaves(results) if _is_tensor(x)]


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def _recorded(w: Writer, operation: Operation) -> tuple[list[Operation], Any]:
    program, call = Program(), operation.call
    made: Any = getattr(call, "op", None)
    program.pair = w.program.pair
    with into(program):
        args, kwargs = mapped(
            lambda x: program._var(x) if isinstance(x, Symbol) else x, (operation.args, operation.kwargs)
        )
        given = [(x, x.symbol, x._value) for x in leaves((args, kwargs)) if isinstance(x, Variable)]
        try:
            results = made.call(made.signature.bind(args, kwargs))
        except (*errors.TELLING, AssertionError):
            raise Unwritten from None
        if any(x.symbol is symbol and x._value is not value for x, symbol, value in given):
            raise Unwritten  # it stored its result by other means than public calls
    found = [x for x in leaves(results) if isinstance(x, Tensor)]
    known = {id(x) for x in leaves((args, kwargs)) if isinstance(x, Tensor)}
    if len(found) != len(operation.makes) or not all(isinstance(x, Variable) or id(x) in known for x in found):
        raise Unwritten
    return program.operations, results


@contextlib.contextmanager
def _swapped(symbols: list[Symbol]) -> Any:
    before = {s: (s.samples, s.fixed) for s in symbols}
    for s in before:
        a, b, few = s.samples
        s.samples = (b, a, few)
    try:
        yield
    finally:
        for s, (samples, fixed) in before.items():
            s.samples, s.fixed = samples, fixed


def _told(calls: list[Operation], results: Any) -> list[Any]:
    """Calls in a form that can be compared."""
    numbers: dict[Any, int] = {}

    def told(x: Any) -> Any:
        x = symbol_of(x)
        if isinstance(x, Symbol):
            return ("symbol", numbers.setdefault(x, len(numbers)))
        if isinstance(x, Dim):
            return ("size", *[told(y) if isinstance(y, (Symbol, Dim)) else y for y in x.how])
        return ("tensor", x.shape, str(x.dtype)) if isinstance(x, Tensor) else repr(x)

    found = [
        (c.type, list(leaves(mapped(told, (c.args, c.kwargs)))), list(leaves(mapped(told, c.results)))) for c in calls
    ]
    return [found, list(leaves(mapped(told, results)))]


# ------------------------------------------------------------ branches and loops


def _branch(w: Writer, operation: Operation) -> None:
    call: Any = operation.call
    pred = w.value(operation.args[0])
    pred = w("Reshape", pred, w.ints([]))
    symbols = operation.makes
    if not symbols:
        return
    made = _choice(w, pred, call.blocks, call.keys or [1], symbols)
    w.known.update(zip(symbols, made))


def _choice(w: Writer, pred: Val, blocks: list[Any], keys: list[int], symbols: list[Symbol]) -> list[Val]:
    """The results of the block whose key the predicate is: an If, whose other branch holds the other blocks."""
    holds = pred if pred.dtype is dtypes.bool_ else pred == keys[0]
    kinds = [kind_of(s) for s in symbols]
    graphs = []
    for some in ((blocks[:1], []), (blocks[1:], keys[1:])):
        inner = Writer(w)
        made = _block(inner, some[0][0], symbols) if len(some[0]) == 1 else _choice(inner, pred, *some, symbols)
        made = [inner("Identity", v) for v in made]
        graphs.append(inner.graph("branch", [], [inner.info(v) for v in made]))
    found = w("If", holds, n=len(kinds), dtype=kinds, then_branch=graphs[0], else_branch=graphs[1])
    return [found] if len(kinds) == 1 else found


def _block(w: Writer, block: Any, symbols: list[Symbol]) -> list[Val]:
    """What a block gives for these symbols."""
    for operation in block.operations:
        write(w, operation)
    return [_given(w, x, symbol) for x, symbol in zip(block.results, symbols)]


def _given(w: Writer, x: Any, symbol: Symbol) -> Val:
    """A value for a symbol; None, which nobody will read, is zeros."""
    kind = kind_of(symbol)
    if x is not None:
        return w.value(x, kind)
    if isinstance(kind, SequenceOf):
        return w.empty_list(kind)
    return w.constant(np.zeros([1 if isinstance(n, Dim) else n for n in symbol.shape], kind.np))


def _loop(w: Writer, operation: Operation) -> None:
    call: Any = operation.call
    symbols = operation.makes
    kinds = [kind_of(s) for s in symbols]
    start = [_given(w, x, s) for x, s in zip(operation.args[0], symbols)]
    body = Writer(w)
    count, going = (Val(body, body.unused(f"loop_{next(w.root.numbers)}"), k) for k in (dtypes.int64, dtypes.bool_))
    states = [Val(body, body.unused(f"state_{next(w.root.numbers)}"), kind) for kind in kinds]
    body.known.update(zip(call.step.inputs, states))
    made = [body("Identity", v) for v in _block(body, call.step, symbols)]
    outs = [_holds(body, call.test, made), *made]
    inputs = [body.info(count, []), body.info(going, []), *[body.info(v) for v in states]]
    graph = body.graph("body", inputs, [body.info(outs[0], []), *[body.info(v) for v in outs[1:]]])
    found = w("Loop", None, _holds(w, call.test, start), *start, n=len(start), dtype=kinds, body=graph)
    w.known.update(zip(symbols, [found] if len(start) == 1 else found))


def _holds(w: Writer, test: Any, values: list[Val]) -> Val:
    """Whether a loop goes on with these values, written where `w` is."""
    inner = Writer(w)
    inner.nodes = w.nodes
    inner.known.update(zip(test.inputs, values))
    for operation in test.operations:
        write(inner, operation)
    found = inner.value(test.results[0], dtypes.bool_)
    w.root.current = w
    return w("Identity", w("Reshape", found, w.ints([])))
