"""Editing of graphs: arguments by name, values in the place of others, and who reads what."""

from __future__ import annotations

from typing import Any

from bireme.core.program import methods
from bireme.core.program.control_flow import Block, Branch, Loop
from bireme.core.program.program import Operation, mapped
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor


def arguments(operation: Operation) -> dict[str, Any] | None:
    """Arguments of an operator by name, those that were not given too; None for what is no operator."""
    made = getattr(operation.call, "op", None)
    if made is None:
        return None
    sign = made.signature
    given = dict(sign.defaults) | dict(zip(sign.positional, operation.args, strict=False))
    return given | {sign.aliases.get(key, key): x for key, x in operation.kwargs.items()}


def rebuilt(operation: Operation, changes: dict[str, Any]) -> Operation:
    """The call of an operator with some of its arguments changed, by name."""
    given = arguments(operation)
    assert given is not None
    given |= changes
    sign = operation.call.op.signature  # type: ignore[attr-defined]  # an operator's, as it has arguments by name
    made = operation.copy()
    made.sources = []  # places among the operands, which are others now
    made.args = tuple([given[name] for name in sign.positional if name in given])
    made.kwargs = {key: x for key, x in operation.kwargs.items() if sign.aliases.get(key, key) not in sign.positional}
    made.kwargs |= {key: x for key, x in changes.items() if key not in sign.positional}
    return made


def replaced(operation: Operation, table: dict[Symbol, Any]) -> Operation:
    """The operation with other values in the place of some, in its blocks and where sizes come from too."""

    def value(x: Any) -> Any:
        if isinstance(x, Dim):
            return _size(x, table)
        return table.get(x, x) if isinstance(x, Symbol) else x

    made = operation.copy()
    if isinstance(operation.call, (Branch, Loop)):
        made.call = _control(operation.call, table)
        made.args = (mapped(value, operation.args[0]), made.call.outside)
    else:
        made.args, made.kwargs = mapped(value, (operation.args, operation.kwargs))
    return made


def _size(size: Dim, table: dict[Symbol, Any]) -> int:
    kind, *rest = size.how
    if kind != "size":
        return Dim((kind, *[_size(x, table) if isinstance(x, Dim) else x for x in rest]))
    symbol, axis = rest
    found = table.get(symbol, symbol)
    return int(found.shape[axis]) if isinstance(found, Tensor) else Dim((kind, found, axis))


def _control(call: Branch | Loop, table: dict[Symbol, Any]) -> Branch | Loop:
    blocks = [_block(block, table) for _, block in call.labelled()]
    return Branch(blocks, call.keys) if isinstance(call, Branch) else Loop(*blocks)


def _block(block: Block, table: dict[Symbol, Any]) -> Block:
    results = [table.get(x, x) if isinstance(x, Symbol) else x for x in block.results]
    return Block([replaced(o, table) for o in block.operations], block.inputs, results)


def readers(operations: list[Operation], outputs: list[Any]) -> dict[Symbol, int]:
    """How often each value is read, as an output too."""
    found: dict[Symbol, int] = {}
    for x in [x for o in operations for x in o.reads] + list(outputs):
        if isinstance(x, Symbol):
            found[x] = found.get(x, 0) + 1
    return found


def is_pure(operation: Operation) -> bool:
    """Whether an operation is known by its arguments alone: it draws no random numbers, and changes and reads no state."""
    made = getattr(operation.call, "op", None)
    if made is None:
        is_method = not hasattr(operation.call, "labelled") and operation.call in methods.recorded()
        return is_method and not any(_is_state(x) for x in operation.reads)
    draws = "random" in (made.body.__module__ or "") or made.name in DRAWING
    return operation.role == "forward" and not draws and not any(_is_state(x) for x in operation.reads)


DRAWING = frozenset((
    *("dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu", "gumbel_softmax"),
    *("bernoulli", "multinomial", "poisson", "binomial", "standard_gamma", "class_center_sample"),
    *("scaled_dot_product_attention", "flash_attention", "fractional_max_pool2d", "fractional_max_pool3d"),
))  # fmt: skip


def _is_state(x: Any) -> bool:
    return isinstance(x, Tensor) and x.persistable and not isinstance(x, Parameter)


def told(operation: Operation) -> str:
    """An operation in a line of a report."""
    made = ", ".join([s.name for s in operation.makes])
    where = f" of {operation.scope}" if operation.scope else ""
    return f"{made} = {operation.type}{where}"
