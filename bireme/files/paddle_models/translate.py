"""From what a file holds to a program: each operation becomes calls of public functions, recorded into a Program."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.core.program import control_flow
from bireme.core.program.building import into, suspended
from bireme.core.program.program import Program
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Variable, VariableList
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models import arrays, known, legacy
from bireme.files.paddle_models.graph import Block, Declared, Graph, Op
from bireme.files.paddle_models.kinds import IGNORED, KINDS, Kind
from bireme.files.paddle_models.known import Known
from bireme.files.pdparams import tensor_of
from bireme.ops import full, reshape

MAX_DEPTH = 50  # of branches and loops inside each other
UNDEFINED = 1.77113e27  # stands for what a variable is before the first branch or loop gives it a value
UNSAVED = object()  # a value that no file has: the state of a generator of random numbers
STATISTICS = {  # operands that are gathered while a network is trained, not learned
    "batch_norm": ("mean", "variance", "Mean", "Variance"), "sync_batch_norm": ("mean", "variance", "Mean", "Variance"),
    "spectral_norm": ("u", "v", "U", "V"),
}  # fmt: skip


def translate(graph: Graph, values: dict[str, np.ndarray]) -> Model:
    """The model of a file, given the arrays of its parameters."""
    program = Program()
    with into(program) as builder:
        work = _Work(graph, builder)
        scope: dict[Any, Any] = {}
        with suspended():
            gathered = _gathered(graph)
            for each in graph.parameters:
                scope[each.key] = _held(each, values[each.name], each.key in gathered)
            scope.update(dict.fromkeys(graph.unsaved, UNSAVED))
            scope.update({key: [] for key in graph.arrays})
        inputs = []
        for each in graph.inputs:
            inputs.append(work.input(program, each, each.name, each.shape, each.dtype))
            scope[each.key] = inputs[-1]
        for each in graph.inputs:
            if each.lod_level:
                if each.lod_level > 1:
                    raise FileFormatError(f"the input {each.name[:60]!r} of sequences of sequences")
                inputs.append(work.input(program, each, f"{each.name}.lengths", [-1], "int64"))
                work.lengths[each.key] = inputs[-1]
        work.run(graph.block, scope, 0)
        results, names = [], []
        for key, name in graph.outputs:
            if scope.get(key) is None:
                raise FileFormatError(f"the output {name[:60]!r}, which nothing computes")
            results.append(work.tensor(scope[key]))
            names.append(name)
            if key in work.lengths and isinstance(results[-1], Variable):
                results[-1].symbol.lengths = (work.lengths[key].symbol,)
    if not results:
        raise FileFormatError("a program without an output")
    model = Model(program, inputs, results, names)
    for each in graph.parameters:
        # parameters that no output needs are there too: they are saved, and a state dict has them
        held = scope[each.key]
        program.tensors.setdefault(held.name, held)
    return model


def apply(
    kind: str, inputs: dict[str, list[Tensor]], outputs: dict[str, int], attrs: dict[str, Any]
) -> dict[str, list[Tensor]]:
    """Results of one operation of the older form on tensors, by slot, given how many each slot has."""
    op, scope, work = _alone(kind, inputs, attrs)
    op.outputs = {slot: [(slot, "out", i) for i in range(n)] for slot, n in outputs.items()}
    try:
        work.op(op, scope, 0)
    except FileFormatError as e:
        raise errors.bad("append_op(type)", "an operation that is known", described=str(e)) from None
    found = {slot: [scope.get(key) for key in keys] for slot, keys in op.outputs.items()}
    return {slot: [work.tensor(x) for x in given] for slot, given in found.items() if all(x is not None for x in given)}


def results(kind: str, inputs: dict[str, list[Tensor]], attrs: dict[str, Any]) -> tuple:
    """Results of one operation of the older form on tensors, in order; a slot of several is a list."""
    op, scope, work = _alone(kind, inputs, attrs)
    name, given = legacy.operands(op, lambda key: work.value(scope, key))
    try:
        made = work.call(name, KINDS[name], given)
    except FileFormatError as e:
        raise errors.bad(kind, "what the operation takes", described=str(e)) from None
    return tuple([[work.tensor(y) for y in x] if isinstance(x, list) else work.tensor(x) for x in made])


def _alone(kind: str, inputs: dict[str, list[Tensor]], attrs: dict[str, Any]) -> tuple[Op, dict[Any, Any], _Work]:
    """An operation that is part of no program, with the values of its inputs."""
    scope: dict[Any, Any] = {(slot, i): x for slot, given in inputs.items() for i, x in enumerate(given)}
    named = {slot: [(slot, i) for i in range(len(given))] for slot, given in inputs.items()}
    return Op(kind, named, {}, attrs), scope, _Work(Graph(Block([]), [], [], [], legacy=True), None)


def _held(declared: Declared, array: np.ndarray, gathered: bool) -> Tensor:
    """A parameter, or a buffer for what is not trained by gradients."""
    made = tensor_of(array)
    if gathered or not made.dtype.is_floating:
        made.persistable, made.name = True, declared.name
        return made
    return Parameter(made, declared.name, declared.trained)


def _gathered(graph: Graph) -> set[Any]:
    """Keys of parameters that are statistics."""
    found: set[Any] = set()
    left = [graph.block]
    while left:
        for op in left.pop().ops:
            left.extend(op.blocks)
            name = op.kind.removeprefix("pd_op.").removesuffix("_")
            if name in STATISTICS:
                wanted = STATISTICS[name]
                if graph.legacy:
                    found.update([key for slot in wanted for key in op.inputs.get(slot, [])])
                else:
                    operands = KINDS[name].operands
                    found.update([key for o, key in zip(operands, op.inputs, strict=False) if o in wanted])
    return found


class _Work:
    """One translation: where calls go, lengths of sequences by the keys of their values."""

    def __init__(self, graph: Graph, builder: Any):
        self.legacy, self.builder = graph.legacy, builder
        self.lengths: dict[Any, Variable] = {}

    @staticmethod
    def input(program: Program, declared: Declared, name: str, shape: list[int], dtype: str) -> Variable:
        """An input of the program."""
        if program.has_var(name):
            raise FileFormatError(f"two inputs of the name {name[:60]!r}")
        made = Variable(program, name=name, shape=shape, dtype=dtype, is_data=True, stop_gradient=True)
        if math.prod([n for n in shape if n > 0]) > 1 << 40:
            raise FileFormatError(f"the input {name[:60]!r} of shape {shape[:8]}")
        return made

    # ------------------------------------------------------------ operations in order

    def run(self, block: Block, scope: dict[Any, Any], depth: int) -> list[Any]:
        """Record the operations of a block; what it yields."""
        if depth > MAX_DEPTH:
            raise FileFormatError(f"blocks inside each other, more than {MAX_DEPTH} deep")
        for op in block.ops:
            if op.kind == "cf.yield":
                return [self.value(scope, key) for key in op.inputs]
            try:
                self.op(op, scope, depth)
            except FileFormatError:
                raise
            except errors.TELLING as e:
                said = str(e).split("\n")[0]
                raise FileFormatError(f"the operation {op.kind[:60]!r} that does not fit: {said[:300]}") from e
        return []

    def op(self, op: Op, scope: dict[Any, Any], depth: int) -> None:
        special = _SPECIAL.get(op.kind)
        if special is not None:
            special(self, op, scope, depth)
            return
        if op.blocks:
            raise FileFormatError(f"the operation {op.kind[:60]!r} with blocks")
        if self.legacy:
            name, given = legacy.operands(op, lambda key: self.value(scope, key))
            lengths = next((self.lengths[k] for keys in op.inputs.values() for k in keys if k in self.lengths), None)
        else:
            if not op.kind.startswith("pd_op."):
                raise FileFormatError(f"the operation {op.kind[:60]!r}, which is not known")
            name, given, lengths = op.kind[6:].removesuffix("_"), None, None
        if name not in KINDS:
            raise FileFormatError(f"the operation {op.kind[:60]!r}, which is not known")
        kind = KINDS[name]
        if given is None:
            given = self.ordered(op, kind, scope)
        if "lengths" in kind.operands:
            given["lengths"] = lengths
        results = self.call(name, kind, given)
        if self.legacy:
            legacy.bind(op, name, results, scope)
            self.share(op, scope, lengths, name)
        else:
            self.bind(op, results, scope)

    def share(self, op: Op, scope: dict[Any, Any], lengths: Variable | None, name: str) -> None:
        """What is computed from sequences is sequences, of the same lengths."""
        for keys in op.outputs.values():
            for key in keys:
                if lengths is not None and name != "sequence_pool":
                    self.lengths[key] = lengths
                else:
                    self.lengths.pop(key, None)

    def ordered(self, op: Op, kind: Kind, scope: dict[Any, Any]) -> dict[str, Any]:
        """Operands and attributes by name, for operands in order."""
        if len(op.inputs) > len(kind.operands):
            raise FileFormatError(f"the operation {op.kind[:60]!r} with {len(op.inputs)} operands")
        given = {n: a for n, a in op.attrs.items() if n in kind.parameters or n not in IGNORED}
        for name, key in zip(kind.operands, op.inputs, strict=False):
            given[name] = None if key == 0 else self.value(scope, key)
        return given

    def call(self, name: str, kind: Kind, given: dict[str, Any]) -> tuple:
        """What an operation gives, in order of its results."""
        if not kind.takes_all:
            unknown = set(given) - kind.parameters
            if unknown:
                raise FileFormatError(f"the operation {name!r} with the attribute {min(unknown)[:60]!r}")
        fold = known.FOLDED.get(name)
        if fold is not None:
            found = fold(**given)
            if found is not None:
                return (found,)
        made = kind.call(**{n: self.fitted(x, kind.modes.get(n)) for n, x in given.items()})
        if kind.many:
            return (list(made),)
        return tuple(made) if isinstance(made, tuple) else (made,)

    def fitted(self, x: Any, mode: str | None) -> Any:
        """An operand or attribute as the function of a kind takes it."""
        if mode in ("ints", "int", "number"):
            if isinstance(x, Known):
                found = x.numbers()
                return found if mode == "ints" else _one(found, mode == "int")
            if isinstance(x, list):
                found = [_one(y.numbers()) if isinstance(y, Known) else y for y in x]
                return [reshape(y, []) if isinstance(y, Tensor) and y.ndim else y for y in found]
            if mode == "int" and isinstance(x, Tensor) and x.ndim:
                return reshape(x, [])
            return x
        if isinstance(x, Known):
            return x.tensor()
        if isinstance(x, list):
            return [y.tensor() if isinstance(y, Known) else y for y in x]
        return x

    def tensor(self, x: Any) -> Tensor:
        """A value as a tensor."""
        x = x.tensor() if isinstance(x, Known) else x
        if isinstance(x, control_flow.Undefined):
            raise FileFormatError("a value that a branch has not computed")
        if not isinstance(x, Tensor):
            raise FileFormatError("a list where a tensor is expected")
        return x

    def value(self, scope: dict[Any, Any], key: Any) -> Any:
        """The value of a key."""
        found = scope.get(key)
        if found is None:
            raise FileFormatError(f"the value {str(key)[:60]!r}, which nothing has computed")
        return None if found is UNSAVED else found

    def bind(self, op: Op, results: tuple, scope: dict[Any, Any]) -> None:
        """Give results in order their keys; an operation in place changes its first operand too."""
        if len(results) > len(op.outputs) and any(x is not None for x in results[len(op.outputs) :]) and not op.outputs:
            raise FileFormatError(f"the operation {op.kind[:60]!r} without a result")
        for key, made in zip(op.outputs, results, strict=False):
            if key != 0 and made is not None:
                scope[key] = made
        if op.kind.endswith("_") and not op.kind.startswith("pd_op.batch_norm") and results:
            changed = op.inputs[-1] if op.kind == "pd_op.assign_out_" else op.inputs[0] if op.inputs else 0
            if changed and not isinstance(scope.get(changed), Parameter):
                scope[changed] = results[0]

    # ------------------------------------------------------------ branches and loops

    def branches(
        self, pred: Any, blocks: list[Block | None], scope: dict[Any, Any], depth: int, keys: list[Any]
    ) -> list[Any]:
        """Record a choice of blocks; what they yield, or the values of keys afterwards."""
        changed = [k for k in _changed(blocks) if k in scope and k not in keys]

        def body(block: Block | None) -> Callable[[], list[Any]]:
            def call() -> list[Any]:
                inner, before = dict(scope), dict(self.lengths)
                yielded = self.run(block, inner, depth + 1) if block is not None else []
                self.lengths = before
                return [*map(self.carried, yielded), *[self.carried(inner.get(k), k) for k in [*keys, *changed]]]

            return call

        made = control_flow.branch(self.builder, "if", self.tensor(pred), [body(b) for b in blocks])
        count = len(made) - len(changed)
        scope.update(zip(changed, made[count:], strict=True))
        return made[:count]

    def carried(self, x: Any, key: Any = "") -> Any:
        """A value as branches and loops take it; where a branch gives nothing, nobody reads what stands for it."""
        if x is None or isinstance(x, control_flow.Undefined):
            return control_flow.Undefined(str(key))
        if isinstance(x, list):
            return [self.tensor(y) for y in x]
        return x if isinstance(x, VariableList) else self.tensor(x)

    def loop(self, scope: dict[Any, Any], carried: list[Any], start: list[Any], block: Block, depth: int,
             after: Callable[[dict[Any, Any], list[Any]], list[Any]]) -> list[Any]:  # fmt: skip
        """Record a loop over a block, as long as the first of its variables holds."""
        begin = [self.carried(x) for x in start]

        def body(*given: Variable) -> list[Tensor]:
            inner, before = dict(scope), dict(self.lengths)
            inner.update(zip(carried, given, strict=True))
            yielded = self.run(block, inner, depth + 1)
            self.lengths = before
            return [self.carried(x) for x in after(inner, yielded)]

        return control_flow.loop(self.builder, "while", lambda *given: given[0], body, begin)


def _one(found: list[Any], whole: bool = False) -> Any:
    if len(found) != 1:
        raise FileFormatError(f"{len(found)} numbers where one is expected")
    if whole and isinstance(found[0], float):
        return int(found[0])
    return found[0]


def _changed(blocks: Sequence[Block | None]) -> list[Any]:
    """Keys that the operations of blocks give a value, in order: those of outer values are changed by them."""
    found: dict[Any, None] = {}
    left = [b for b in blocks if b is not None]
    while left:
        block = left.pop(0)
        for op in block.ops:
            left.extend(op.blocks)
            if isinstance(op.outputs, dict):
                found.update(dict.fromkeys([key for keys in op.outputs.values() for key in keys]))
            elif op.kind.endswith("_") and op.inputs:
                found[op.inputs[-1] if op.kind == "pd_op.assign_out_" else op.inputs[0]] = None
    return list(found)


# ---------------------------------------------------------------- operations that are no function of their operands


def _combine(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    scope[_result(op)] = [work.value(scope, key) for key in op.inputs]


def _take(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    """One of a list."""
    found, index = work.value(scope, op.inputs[0]), op.attrs.get("index")
    if not isinstance(found, list) or not isinstance(index, int) or not 0 <= index < len(found):
        raise FileFormatError("an element that a list does not have")
    scope[_result(op)] = found[index]


def _spread(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    """All of a list."""
    found = work.value(scope, op.inputs[0])
    if not isinstance(found, list) or len(found) != len(op.outputs):
        raise FileFormatError(f"{len(op.outputs)} elements of a list that has others")
    scope.update(zip(op.outputs, found, strict=True))


def _result(op: Op) -> Any:
    if len(op.outputs) != 1:
        raise FileFormatError(f"the operation {op.kind[:60]!r} with {len(op.outputs)} results")
    return op.outputs[0]


def _full(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    """A constant."""
    shape, value, dtype = op.attrs.get("shape"), op.attrs.get("value"), op.attrs.get("dtype")
    scope[_result(op)] = constant(shape, value, dtype)


def constant(shape: Any, value: Any, dtype: Any) -> Any:
    """One number everywhere: known where there are few."""
    kind = dtypes.of(dtype, "full(dtype)")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 64:
        raise FileFormatError("a constant with an invalid shape")
    if not isinstance(value, (int, float, complex)):
        raise FileFormatError("a constant without a number")
    if kind.kind == "b":
        value = bool(value)
    elif kind.kind == "i":
        if isinstance(value, complex) or not math.isfinite(value):
            raise FileFormatError(f"the integer {value}")
        value = int(value)
    if math.prod(shape) <= known.MAX:
        made = np.empty(shape, dtype=object)
        made[...] = value
        return Known(made, dtype)
    return full(shape, value, dtype)


def _full_int_array(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    value = op.attrs.get("value")
    if not isinstance(value, list) or not all(type(n) is int for n in value):
        raise FileFormatError("a list of integers without integers")
    made = np.empty(len(value), dtype=object)
    made[:] = value
    scope[_result(op)] = Known(made, op.attrs.get("dtype", "int64"))


def _assign_value(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    """Numbers that stand in the program."""
    key = _result(op)
    scope[key] = numbers(op.attrs.get("shape"), op.attrs.get("values"), op.attrs.get("dtype"))
    if op.inputs and op.inputs[0]:
        scope[op.inputs[0]] = scope[key]


def numbers(shape: Any, values: Any, dtype: Any) -> Any:
    """An array of numbers."""
    kind = dtypes.of(dtype, "assign_value(dtype)")
    if dtype == "float64" and values == [UNDEFINED]:
        return control_flow.Undefined("a variable of a branch")
    valid = isinstance(shape, list) and isinstance(values, list) and all(type(n) is int and n >= 0 for n in shape)
    if not valid or math.prod(shape) != len(values) or not all(isinstance(x, (int, float, complex)) for x in values):
        raise FileFormatError("numbers that do not fit their shape")
    if len(values) <= known.MAX:
        made = np.empty(len(values), dtype=object)
        made[:] = [int(x) for x in values] if kind.kind == "i" else values
        return Known(made.reshape(shape), dtype)
    with suspended():
        return Tensor(np.array(values, dtype=kind.np).reshape(shape), kind)


def _shape(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    x = work.tensor(work.value(scope, op.inputs[0]))
    scope[_result(op)] = known.shape(x, "int64" if op.kind == "pd_op.shape64" else "int32")


def _if(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    if len(op.blocks) != 2 or len(op.inputs) != 1:
        raise FileFormatError("a branch without two blocks")
    pred = work.value(scope, op.inputs[0])
    made = work.branches(pred, list(op.blocks), scope, depth, [])
    if len(made) != len(op.outputs):
        raise FileFormatError(f"a branch with {len(made)} results where it has {len(op.outputs)}")
    scope.update(zip(op.outputs, made, strict=True))


def _while(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    if len(op.blocks) != 1 or not op.inputs or len(op.blocks[0].args) != len(op.inputs) - 1:
        raise FileFormatError("a loop whose block does not fit it")
    block = op.blocks[0]
    changed = [k for k in _changed([block]) if k in scope and k not in op.inputs[:1]]
    cond = op.inputs[0]
    carried = [("condition", id(op)), *block.args, *changed]
    start = [work.value(scope, k) for k in [*op.inputs, *changed]]

    def after(inner: dict[Any, Any], yielded: list[Any]) -> list[Any]:
        if len(yielded) != len(op.inputs):
            raise FileFormatError("a loop whose block does not fit it")
        return [*yielded, *[inner[k] for k in changed]]

    made = work.loop(scope, carried, start, block, depth, after)
    scope.update(zip(op.outputs, made[1 : len(op.inputs)], strict=True))
    scope.update(zip(changed, made[len(op.inputs) :], strict=True))
    scope[cond] = made[0]


def _legacy_while(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    names = op.inputs.get("Condition", [])
    if len(op.blocks) != 1 or len(names) != 1:
        raise FileFormatError("a loop without a block")
    changed = [k for k in _changed(op.blocks) if k in scope and k != names[0]]
    carried = [names[0], *changed]
    start = [work.value(scope, k) for k in carried]
    made = work.loop(
        scope, carried, start, op.blocks[0], depth, lambda inner, _: [work.value(inner, k) for k in carried]
    )
    scope.update(zip(carried, made, strict=True))


def _conditional_block(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    names = op.inputs.get("Cond", [])
    if len(op.blocks) != 1 or len(names) != 1:
        raise FileFormatError("a conditional block without a block")
    keys = [k for k in op.outputs.get("Out", []) if k and k != "@EMPTY@"]
    pred = work.value(scope, names[0])
    made = work.branches(pred, [op.blocks[0], None], scope, depth, keys)
    scope.update(zip(keys, made, strict=True))


def _select_input(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    """The value that one of several branches has given."""
    names, mask, out = op.inputs.get("X", []), op.inputs.get("Mask", []), op.outputs.get("Out", [])
    if not names or len(mask) != 1 or len(out) != 1:
        raise FileFormatError("a choice of nothing")
    values = [work.tensor(work.value(scope, k)) for k in names]
    which = work.tensor(work.value(scope, mask[0]))

    keys = list(range(len(values) - 1))  # the last one for any other index
    made = control_flow.branch(work.builder, "select_input", which, [lambda v=v: [v] for v in values], keys)
    scope[out[0]] = made[0]


def _nothing_to_do(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    pass


def _legacy_constant(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    legacy.fill_constant(work, op, scope, constant)


def _legacy_numbers(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    legacy.assign_value(op, scope, numbers)


def _legacy_shape(work: _Work, op: Op, scope: dict[Any, Any], depth: int) -> None:
    names, out = op.inputs.get("Input", []), op.outputs.get("Out", [])
    if len(names) != 1 or len(out) != 1:
        raise FileFormatError("the shape of nothing")
    scope[out[0]] = known.shape(work.tensor(work.value(scope, names[0])), "int32")


_SPECIAL: dict[str, Callable] = {
    "builtin.combine": _combine,
    "builtin.slice": _take,
    "builtin.split": _spread,
    "pd_op.full": _full,
    "pd_op.full_int_array": _full_int_array,
    "pd_op.assign_value_": _assign_value,
    "pd_op.assign_value": _assign_value,
    "pd_op.shape": _shape,
    "pd_op.shape64": _shape,
    "pd_op.if": _if,
    "pd_op.while": _while,
    "while": _legacy_while,
    "conditional_block": _conditional_block,
    "conditional_block_infer": _conditional_block,
    "select_input": _select_input,
    "fill_constant": _legacy_constant,
    "assign_value": _legacy_numbers,
    "shape": _legacy_shape,
    "nop": _nothing_to_do,
    "assert": _nothing_to_do,
    "pd_op.assert": _nothing_to_do,
    "builtin.shadow_output": _nothing_to_do,
    **arrays.SPECIAL,
}
