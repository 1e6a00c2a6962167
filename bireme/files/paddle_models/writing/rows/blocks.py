"""Rows of branches and loops, and of lists that loops build.

A list is an array of tensors in the file, which is changed where it is: a list that was appended to is not there any
more, and whoever reads it is told so.
"""

from __future__ import annotations

from typing import Any

from bireme.core.program.control_flow import Block
from bireme.core.program.program import Operation
from bireme.core.program.variable import Dim, Symbol
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row


@row("branch")
def _branch(w: Writer, operation: Operation) -> Any:
    call: Any = operation.call
    return _choice(w, w.value(operation.args[0]), call.blocks, call.keys, list(operation.results))


def _choice(w: Writer, pred: Value, blocks: list[Block], keys: Any, symbols: list[Symbol]) -> list[Any]:
    """One of two blocks; of more, the first or the choice among the others."""
    if keys is None:
        given, rest = w.cast(pred, "bool"), None
    elif not keys:
        raise Unwritable("without a choice")
    else:
        given = w.op("equal", [pred, w.number(keys[0], pred.dtype)], [("bool", pred.shape)])
        rest = keys[1:] if len(keys) > 1 else None
    if given.shape:
        given = w.reshape(given, [])
    lists = [s.samples[0].items is not None for s in symbols]
    held: list[list[Any]] = []

    def first() -> list[Any]:
        return _results(w, blocks[0], symbols)

    def second() -> list[Any]:
        if rest is None:
            return _results(w, blocks[1], symbols)
        return _choice(w, pred, blocks[1:], rest, symbols)

    regions = []
    for body in (first, second):
        made, region = _region(w, body, lists)
        held.append(made)
        regions.append(region)
    types = [(s.dtype.name, s.shape) for s, is_list in zip(symbols, lists, strict=True) if not is_list]
    made = w.op("if", [given], types)
    w.ops[-1]["regions"] = regions
    tensors = iter([made] if isinstance(made, Value) else made)
    found = []
    for i, is_list in enumerate(lists):
        if is_list and _key(held[0][i]) != _key(held[1][i]):
            raise Unwritable("whose branches give different lists")
        found.append(held[0][i] if is_list else next(tensors))
    return found


def _region(w: Writer, body: Any, lists: list[bool], args: list[Any] | None = None) -> tuple[list[Any], dict[str, Any]]:
    """What a body gives, and its operations as a region."""
    outer = w.ops, w.env, w.sizes
    w.ops, w.env, w.sizes = [], dict(w.env), dict(w.sizes)
    w.blocks += 1
    number = w.blocks
    try:
        made = body()
        w.op("2.yield", [x for x, is_list in zip(made, lists, strict=True) if not is_list], [])
        ops = w.ops
    finally:
        w.ops, w.env, w.sizes = outer
    block = {"#": f"block_{number}", "args": args or [], "ops": ops}
    return made, {"#": f"region_{number}", "blocks": [block]}


def _results(w: Writer, block: Block, symbols: list[Symbol]) -> list[Any]:
    w.operations(block.operations)
    return [_fitting(w, x, s) for x, s in zip(block.results, symbols, strict=True)]


def _fitting(w: Writer, x: Any, like: Symbol) -> Any:
    """A result of a block in the dtype that it is declared with; zeros for what nobody reads.

    None for a list as it was before it changed: only reading it is wrong.
    """
    if like.samples[0].items is not None:
        return w.env.get(x) if isinstance(x, Symbol) else w.array()
    if x is None:
        return w.full([1 if isinstance(n, Dim) else n for n in like.shape], 0, like.dtype.name)
    if isinstance(x, (bool, int, float)):
        return w.number(x, like.dtype.name)
    value = w.cast(w.value(x), like.dtype.name)
    # what stands outside of the block is given back as a value of its own
    return w.op("assign", [value], [value.type])


@row("loop")
def _loop(w: Writer, operation: Operation) -> Any:
    loop: Any = operation.call
    start, symbols = operation.args[0], list(operation.results)
    inputs = loop.step.inputs
    lists = [s.samples[0].items is not None for s in inputs]
    begin = [_fitting(w, x, s) for x, s in zip(start, inputs, strict=True)]

    def asked(values: list[Value]) -> Value:
        w.env.update([(s, x) for s, x in zip(loop.test.inputs, values, strict=True) if x is not None])
        w.operations(loop.test.operations)
        found = w.cast(w.value(loop.test.results[0]), "bool")
        return w.reshape(found, []) if found.shape else found

    before = dict(w.env)
    condition = asked(begin)
    condition = w.op("assign", [condition], [condition.type])
    w.env = before
    args, given = [], []
    for x, s, is_list in zip(begin, inputs, lists, strict=True):
        if is_list:
            given.append(x)
            continue
        w.arguments += 1
        given.append(Value(-w.arguments, s.dtype.name, s.shape))
        args.append({"#": -w.arguments, "TT": w.type_of(s.dtype.name, s.shape)})

    def body() -> list[Any]:
        w.env.update([(s, x) for s, x in zip(inputs, given, strict=True) if x is not None])
        made = _results(w, loop.step, symbols)
        return [asked(made), *made]

    made, region = _region(w, body, [False, *lists], args)
    for i, (x, y) in enumerate(zip(begin, made[1:], strict=True)):
        if lists[i] and y is not None and _key(x) != y.key:
            raise Unwritable("in which a list becomes another one")
        begin[i] = None if lists[i] and y is None else x
    tensors = [x for x, is_list in zip(begin, lists, strict=True) if not is_list]
    types = [(s.dtype.name, s.shape) for s, is_list in zip(symbols, lists, strict=True) if not is_list]
    results = w.op("while", [condition, *tensors], types)
    w.ops[-1]["regions"] = [region]
    found = iter([results] if isinstance(results, Value) else results)
    return [x if is_list else next(found) for x, is_list in zip(begin, lists, strict=True)]


def _key(x: Value | None) -> int:
    return 0 if x is None else x.key


# ---------------------------------------------------------------- lists


@row("program.list_of")
def _list_of(w: Writer, items: list[Value]) -> Value:
    array = w.array()
    for n, item in enumerate(items):
        w.write_array(array, item, w.full([], n, "int64"))
    return array


@row("program.list_append")
def _list_append(w: Writer, x: Value, item: Value) -> Value:
    w.forget(x)
    length = w.op("array_length", [x], [("int64", [1])])
    w.write_array(x, item, length)
    return x


@row("program.list_extend")
def _list_extend(w: Writer, x: Value, items: list[Value]) -> Value:
    if not isinstance(items, (list, tuple)):
        raise Unwritable("by another list that a loop builds")
    for item in items:
        _list_append(w, x, item)
    return x


@row("program.list_item")
def _list_item(w: Writer, x: Value, index: Any) -> Value:
    if isinstance(index, int) and not isinstance(index, Dim) and index < 0:
        length = w.op("array_length", [x], [("int64", [1])])
        at = w.binary("add", length, w.full([1], index, "int64"))
    else:
        at = w.number(index, "int64")
    return w.op("array_read", [x, at])


@row("program.list_length")
def _list_length(w: Writer, x: Value) -> Value:
    return w.reshape(w.op("array_length", [x], [("int64", [1])]), [])
