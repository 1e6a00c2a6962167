"""Control flow of programs: branches and loops whose conditions are known when the program runs.

A branch, or the body of a loop, is a block: operations that are recorded once, and made as often as the condition says.
What a block gives is a list of values; whatever structure they stand in belongs to who records it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.graph.graph import sig_of
from bireme.core.program import calls, running
from bireme.core.program.building import UNLIKE, Builder
from bireme.core.program.program import Operation, Program, mapped
from bireme.core.program.variable import Dim, Sample, Symbol, Variable, VariableList, symbol_of
from bireme.core.tensor.tensor import Tensor

PASSES = 12  # recordings of the body of a loop until it is known what changes in it


class Undefined:
    """What a name stands for that no statement has given a value yet, or that has no one value for a reason."""

    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: Exception | None = None):
        self.name, self.reason = name, reason

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        if self.reason is not None:
            raise self.reason
        raise UnboundLocalError(f"local variable {self.name!r} is used before it has a value")

    __getattr__ = __call__ = __bool__ = __iter__ = __len__ = __getitem__ = __add__ = __radd__ = __mul__ = __rmul__ = (
        _refuse
    )
    __sub__ = __rsub__ = __truediv__ = __lt__ = __gt__ = __le__ = __ge__ = __neg__ = _refuse


class Block:
    """Operations that belong to another one, what they read from outside, and what they give."""

    def __init__(self, operations: list[Operation], inputs: list[Symbol], results: list[Any]):
        self.operations, self.inputs, self.results = operations, inputs, results
        self._steps: list[running.Step] | None = None
        made = {id(s) for o in operations for s in o.makes} | {id(s) for s in inputs}
        wanted = [x for o in operations for x in o.reads] + [x for x in results if isinstance(x, (Symbol, Tensor))]
        self.outside = list({id(x): x for x in wanted if id(x) not in made}.values())

    def run(self, inputs: list[Any], outside: dict[int, Any]) -> list[Any]:
        """Make the calls, on tensors for what is read from outside."""
        env = dict(zip(self.inputs, inputs, strict=True))
        env |= {s: outside[id(s)] for s in self.outside if isinstance(s, Symbol)}
        kept = {id(t): outside[id(t)] for t in self.outside if isinstance(t, Tensor)}
        if self._steps is None:
            self._steps = [running.Step(o) for o in self.operations]
        running.make(self._steps, env, lambda t: kept.get(id(t), t))
        return [env[x] if isinstance(x, Symbol) else kept.get(id(x), x) for x in self.results]


class Branch:
    """The choice of one of several blocks: by a bool, or by an integer among `keys`, the last block for any other."""

    def __init__(self, blocks: list[Block], keys: list[int] | None = None):
        self.blocks, self.keys = blocks, keys
        self.outside = list({id(x): x for block in blocks for x in block.outside}.values())

    def __call__(self, pred: Tensor, given: list[Any]) -> list[Any]:
        found = {id(x): t for x, t in zip(self.outside, given, strict=True)}
        return self.blocks[self._chosen(pred)].run([], found)

    def labelled(self) -> list[tuple[str, Block]]:
        """Its blocks, each with what it is chosen by."""
        labels = ["true", "false"] if self.keys is None else [*map(str, self.keys), "default"]
        return list(zip(labels, self.blocks, strict=True))

    def _chosen(self, pred: Tensor) -> int:
        if self.keys is None:
            return 0 if bool(pred) else 1
        index = int(pred)
        return self.keys.index(index) if index in self.keys else len(self.blocks) - 1


class Loop:
    """A block that changes values as long as another one gives true for them."""

    def __init__(self, test: Block, step: Block):
        self.test, self.step = test, step
        self.outside = list({id(x): x for block in (test, step) for x in block.outside}.values())

    def __call__(self, values: list[Any], given: list[Any]) -> list[Any]:
        found = {id(x): t for x, t in zip(self.outside, given, strict=True)}
        while bool(self.test.run(values, found)[0]):
            values = self.step.run(values, found)
        return values

    def labelled(self) -> list[tuple[str, Block]]:
        """Its blocks: what it goes on by, and what it does."""
        return [("while", self.test), ("do", self.step)]


# ------------------------------------------------------------ recording


class Recorded:
    """What a function does: operations, the structure that it returns, and variables that it changes inplace."""

    def __init__(self, builder: Builder, body: Callable, inputs: Sequence[Symbol] = ()):
        program = builder.program
        outer, program.operations = program.operations, []
        builder.changed.append({})
        try:
            self.made = body()
        finally:
            self.operations, program.operations = program.operations, outer
            changed = builder.changed.pop()
            inside = {id(s) for o in self.operations for s in o.makes} | set(map(id, inputs))
            self.changed = [(x, x.symbol) for x, old in changed.values() if id(old) not in inside]
            self.fresh = {id(x): x.symbol for x, _ in changed.values()}
            self.made_symbols = mapped(symbol_of, getattr(self, "made", None))
            for x, old in changed.values():
                x._become(old)

    def block(self, inputs: Sequence[Symbol], results: list[Any]) -> Block:
        return Block(self.operations, list(inputs), results)

    def value(self, x: Any) -> Any:
        """What a variable stands for at the end of it."""
        return self.fresh.get(id(x), symbol_of(x))


def branch(
    builder: Builder,
    where: str,
    pred: Tensor,
    bodies: list[Callable],
    keys: list[int] | None = None,
    lenient: bool = False,
) -> Any:
    """Add the choice of one of several functions to the program; their results have to be alike.

    If `lenient`, the results are lists, in which what is not alike is no error until it is used.
    """
    program = builder.program
    parts = [Recorded(builder, body) for body in bodies]
    changed = list({id(x): x for part in parts for x, _ in part.changed}.values())
    trees = [[part.made_symbols, [part.value(x) for x in changed]] for part in parts]
    joined: list[_Joined] = []
    structure = _join_each(where, trees, joined) if lenient else _join(where, trees, joined)
    blocks = [
        part.block((), [leaf.of(program, part.operations, which) for leaf in joined])
        for which, part in enumerate(parts)
    ]  # fmt: skip
    if not joined and not any(block.operations for block in blocks):
        return mapped(lambda x: x, structure)[0]
    call = Branch(blocks, keys)
    operation = Operation(call, where, (symbol_of(pred), call.outside), {}, errors.position())
    operation.renewable = False
    symbols = {leaf: program._add(Symbol(program._unused_name(where), leaf.samples, leaf.stop)) for leaf in joined}
    operation.results = [symbols[leaf] for leaf in joined]
    program._append(operation)
    made, renewed = mapped(lambda x: symbols.get(x, x) if isinstance(x, _Joined) else x, structure)
    for x, symbol in zip(changed, renewed, strict=True):
        builder.renew(x, symbol)
    return mapped(lambda x: program._var(x) if isinstance(x, Symbol) else x, made)


class _Joined:
    """A value that several branches give: examples, whether none has a gradient, and what each of them gives."""

    def __init__(self, samples: tuple[Sample, ...], stop: bool, each: list[Any]):
        self.samples, self.stop, self.each = samples, stop, each

    def of(self, program: Program, operations: list[Operation], which: int) -> Any:
        """The value of one branch, as a symbol, a tensor or None."""
        return _operand(program, operations, self.each[which], self.samples, self.stop)


def _join(where: str, trees: list[Any], joined: list[_Joined]) -> Any:
    """One structure of several that are alike; leaves that differ are `_Joined`."""
    there = [x for x in trees if not isinstance(x, Undefined)]
    for x in trees:
        if isinstance(x, Undefined) and x.reason is not None:
            return x
    if not there:
        return trees[0]
    first = there[0]
    if len(there) == len(trees) and all(x is first for x in there):
        return first
    if all(isinstance(x, dict) for x in there):
        if any(x.keys() != first.keys() for x in there):
            raise errors.bad(where, f"branches that give the same keys, as {list(first)}", [list(x) for x in there][-1])
        return {key: _join(where, [_at(x, key) for x in trees], joined) for key in first}
    if all(isinstance(x, (list, tuple)) and type(x) is type(first) and len(x) == len(first) for x in there):
        items = [_join(where, [_at(x, i) for x in trees], joined) for i in range(len(first))]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if all(isinstance(x, list) or _is_list(x) for x in there):
        leaf = _Joined(_list_samples(there), all(_stops(x) for x in there), trees)
    elif all(_is_value(x) for x in there):
        if any(isinstance(x, Dim) for x in there):
            if len(there) == len(trees) and all(_same(x, first) for x in there):
                return first
        elif not any(isinstance(x, (Symbol, Tensor)) for x in there) and len({(type(x), x) for x in there}) == 1:
            return first
        leaf = _Joined(_common(where, there), all(_stops(x) for x in there), trees)
    elif all(_same(x, first) for x in there):
        return first
    else:
        told = [x for x in there if not _is_value(x)] or there
        if any(isinstance(x, (list, tuple)) for x in there):
            described = ", ".join([str(len(x)) if isinstance(x, (list, tuple)) else "1" for x in there])
            raise errors.bad(where, "branches that give the same number of results", described=described)
        raise errors.bad(where, "branches that all give a tensor in one place", told[0])
    joined.append(leaf)
    return leaf


def _join_each(where: str, trees: list[Any], joined: list[_Joined]) -> Any:
    made = []
    for i in range(len(trees[0][0])):
        before = len(joined)
        try:
            made.append(_join(where, [tree[0][i] for tree in trees], joined))
        except errors.TELLING as e:
            del joined[before:]
            made.append(Undefined(where, e))
    return [made, _join(where, [tree[1] for tree in trees], joined)]


def _at(tree: Any, key: Any) -> Any:
    return tree if isinstance(tree, Undefined) else tree[key]


def loop(
    builder: Builder, where: str, test: Callable, step: Callable, start: list[Any], lenient: bool = False
) -> list[Any]:
    """Add a loop to the program: `step` gives new values for `start` as long as `test` holds for them.

    Values are structures. Which of their leaves change is found by recording: those that `step` gives back as they are
    stay as they are, numbers that change become tensors, lists that grow become one value each. If `lenient`, what is no
    tensor and changes is no error until it is used after the loop, or by the next round.
    """
    program = builder.program
    entries = [mapped(symbol_of, x) for x in start]
    carried: dict[tuple, _Carried] = {}
    extra: list[Any] = []  # variables that are changed inplace
    before = dict(program.symbols)
    for _ in range(PASSES):
        program.symbols = dict(before)
        inputs = {path: program._add(c.symbol(program, where)) for path, c in carried.items()}
        given = [_placed(x, (i,), inputs) for i, x in enumerate(entries)]
        were = [(x, x.symbol) for x in extra]
        for n, x in enumerate(extra):
            x._become(inputs.get(("inplace", n), x.symbol))
        try:
            own = list(inputs.values())
            asked = Recorded(builder, lambda: test(*_variables(program, given)), own)  # noqa: B023 - called at once
            taken = Recorded(builder, lambda: _listed(step(*_variables(program, given))), own)  # noqa: B023 - called at once
        finally:
            for x, old in were:
                x._become(old)
        made = taken.made_symbols
        if len(made) != len(start):
            raise errors.bad(f"{where}(body)", f"{len(start)} results, as there are loop_vars", len(made))
        settled = _Settled(where, program, carried, inputs)
        for n, x in enumerate(extra):
            settled.note(("inplace", n), x.symbol, taken.fresh.get(id(x), inputs["inplace", n]))
        for x, symbol in taken.changed:
            if not any(x is other for other in extra):
                extra.append(x)
                settled.note(("inplace", len(extra) - 1), x.symbol, symbol)
        for i, (x, y) in enumerate(zip(given, made, strict=True)):
            if isinstance(entries[i], Undefined) and entries[i].reason is not None:
                continue
            try:
                entries[i] = settled.compare((i,), entries[i], x, y)
            except errors.TELLING as e:
                if not lenient:
                    raise
                entries[i], settled.grown = Undefined(where, e), True
                for path in [path for path in carried if path[0] == i]:
                    del carried[path]
        if not settled.grown:
            break
    else:
        raise errors.failure(f"{where}: what changes in the loop cannot be told apart from what stays")
    for path, c in carried.items():
        inputs[path].stop_gradient = c.stop
    results = [
        _operand(program, taken.operations, settled.results[path], c.samples, c.stop) for path, c in carried.items()
    ]
    condition = symbol_of(asked.made)
    call = Loop(asked.block(list(inputs.values()), [condition]), taken.block(list(inputs.values()), results))
    first = [_operand(program, program.operations, c.start, c.samples, c.stop) for c in carried.values()]
    operation = Operation(call, where, (first, call.outside), {}, errors.position())
    operation.renewable = False
    symbols = {path: program._add(c.symbol(program, where)) for path, c in carried.items()}
    for path, c in carried.items():
        symbols[path].stop_gradient = c.stop
    operation.results = list(symbols.values())
    program._append(operation)
    for n, x in enumerate(extra):
        builder.renew(x, symbols["inplace", n])
    return _variables(program, [_placed(x, (i,), symbols) for i, x in enumerate(entries)])


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


class _Carried:
    """A value that a loop changes: what it is at the start, and examples of it."""

    def __init__(self, start: Any, samples: tuple[Sample, ...], stop: bool):
        self.start, self.samples, self.stop = start, samples, stop

    def symbol(self, program: Program, where: str) -> Symbol:
        return Symbol(program._unused_name(where), self.samples, self.stop)


class _Settled:
    """Compares what the body of a loop was given with what it gives."""

    def __init__(self, where: str, program: Program, carried: dict[tuple, _Carried], inputs: dict[tuple, Symbol]):
        self.where, self.program, self.carried, self.inputs = where, program, carried, inputs
        self.grown, self.results = False, {path: inputs[path] for path in inputs}

    def compare(self, path: tuple, start: Any, given: Any, made: Any) -> Any:
        """`start`, in the form that it needs for the loop."""
        if made is given or (isinstance(made, Undefined) and isinstance(given, Undefined)):
            return start
        if isinstance(given, dict) and isinstance(made, dict) and not isinstance(start, Symbol):
            new = {key: Undefined(str(key)) for key in made if key not in given}
            self.grown = self.grown or bool(new)
            all_start, all_given = {**start, **new}, {**given, **new}
            lost = [key for key in given if key not in made]
            if lost:
                raise errors.bad(self.where, "a body that leaves keys in dicts", f"{lost[0]!r} removed")
            return {k: self.compare((*path, k), all_start[k], all_given[k], made[k]) for k in all_start}
        if isinstance(given, (list, tuple)) and type(made) is type(given) and len(made) == len(given):
            items = [
                self.compare((*path, i), s, g, m) for i, (s, g, m) in enumerate(zip(start, given, made, strict=True))
            ]
            return type(start)(*items) if hasattr(start, "_fields") else type(start)(items)
        if isinstance(given, list) and isinstance(made, list):
            self.note(path, start, made)
            return start
        if isinstance(given, Undefined) and isinstance(made, (tuple, dict)):
            self.grown = True
            return mapped(lambda _: given, made)
        self.note(path, start, made)
        return start

    def note(self, path: tuple, start: Any, made: Any) -> None:
        """A leaf and what the body makes of it."""
        known = self.carried.get(path)
        if known is None:
            if not isinstance(start, Undefined) and _same(start, made):
                return
            values = [x for x in (start, made) if not isinstance(x, Undefined)]
            samples = (
                _list_samples(values) if any(isinstance(x, list) or _is_list(x) for x in values)
                else _common(self.where, values, loop=True)
            )  # fmt: skip
            self.carried[path] = _Carried(start, samples, all(map(_stops, values)))
            self.grown = True
            return
        if known.samples[0].items is not None:
            samples = _list_samples([self.inputs[path], made])
        elif _is_value(known.start) and not isinstance(known.start, (Symbol, Tensor)):
            samples = _common(self.where, [made, self.inputs[path]], loop=True)
        else:
            samples = _common(self.where, [self.inputs[path], made], loop=True)
        stop = known.stop and _stops(made)
        if stop != known.stop or not all(map(Sample.same, samples, known.samples)):
            known.samples, known.stop, self.grown = samples, stop, True
        self.results[path] = made


def _placed(x: Any, path: tuple, symbols: dict[tuple, Symbol]) -> Any:
    """A structure with symbols in some places."""
    if path in symbols:
        return symbols[path]
    if isinstance(x, dict):
        return {key: _placed(y, (*path, key), symbols) for key, y in x.items()}
    if isinstance(x, (list, tuple)):
        items = [_placed(y, (*path, i), symbols) for i, y in enumerate(x)]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return x


def _variables(program: Program, tree: Any) -> Any:
    return mapped(lambda x: program._var(x) if isinstance(x, Symbol) else x, tree)


# ------------------------------------------------------------ values


def _is_list(x: Any) -> bool:
    return isinstance(x, Symbol) and x.samples[0].items is not None


def _is_value(x: Any) -> bool:
    """Whether it is a tensor, or a number that may be one."""
    return isinstance(x, (Symbol, Tensor, bool, int, float, np.number, np.bool_)) and not _is_list(x)


_PLAIN = (str, bytes, bool, int, float, complex, frozenset, type(None))


def _same(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, (Symbol, Tensor)) or isinstance(y, (Symbol, Tensor)):
        return False
    if isinstance(x, Dim):
        return x.same(y)
    return type(x) is type(y) and isinstance(x, _PLAIN) and x == y


def _stops(x: Any) -> bool:
    if isinstance(x, list):
        return all(map(_stops, x))
    return x.stop_gradient if isinstance(x, (Symbol, Tensor)) else True


def _operand(program: Program, operations: list[Operation], x: Any, samples: tuple[Sample, ...], stop: bool) -> Any:
    """A value as an operand: a number or a size as a tensor of the type that it has elsewhere, a list as one value,
    None for what is not defined.
    """
    if isinstance(x, Undefined):
        return None
    if isinstance(x, list):
        operation = Operation(calls.list_of, "list_of", (x,), {}, errors.position())
        operation.results = program._add(Symbol(program._unused_name("list"), samples, stop))
        operations.append(operation)
        return operation.results
    if isinstance(x, Dim):
        kind = samples[0].sig.dtype.name
        operation = Operation(calls.size_of, "size_of", (x,) if kind == "int64" else (x, kind), {}, errors.position())
        operation.results = program._add(Symbol(program._unused_name("size_of"), samples, stop))
        operations.append(operation)
        return operation.results
    return x if isinstance(x, (Symbol, Tensor)) else Tensor(np.asarray(x), samples[0].sig.dtype)


def _kind(x: Any) -> Any:
    """The type of a number."""
    if isinstance(x, (bool, np.bool_)):
        return dtypes.of("bool", "")
    return dtypes.of("int64", "") if isinstance(x, (int, np.integer)) else dtypes.get_default()


def _samples(x: Any) -> tuple[Sample, ...]:
    if isinstance(x, (Variable, VariableList)):
        x = x.symbol
    if isinstance(x, Symbol):
        return x.samples
    return (Sample(x._value.sig if isinstance(x, Tensor) else sig_of((), _kind(x))),) * 3


def _common(where: str, values: list[Any], loop: bool = False) -> tuple[Sample, ...]:
    """Examples of a value that may be any of several: a size that differs is unknown."""
    tensors = [x for x in values if isinstance(x, (Symbol, Tensor))]
    if not all(_is_value(x) for x in values):
        wrong = next(x for x in values if not _is_value(x))
        told = "a loop in which a tensor stays a tensor" if loop else "branches that all give a tensor in one place"
        raise errors.bad(where, told, wrong)
    if not tensors:
        kinds = [_kind(x) for x in values]
        widest = max(kinds, key=lambda kind: "bif".index(kind.kind))
        return (Sample(sig_of((), widest)),) * 3
    found = _samples(tensors[0])
    numbers = [x for x in values if not isinstance(x, (Symbol, Tensor))]
    if any(_kind(x).kind == "f" and found[0].sig.dtype.kind in "bi" for x in numbers):
        told = "branches that give alike tensors" if not loop else "a loop whose values keep their dtype"
        raise errors.bad(where, told, described=f"{found[0].sig.dtype.name} and a float")
    if numbers and not loop and found[0].sig.ndim:
        raise errors.bad(where, "branches that all give a tensor of the same number of dimensions", numbers[0])
    for x in tensors[1:]:
        other = _samples(x)
        if other[0].sig.dtype is not found[0].sig.dtype or other[0].sig.ndim != found[0].sig.ndim:
            described = [f"{s[0].sig.dtype.name} of {s[0].sig.ndim} dimensions" for s in (found, other)]
            what = (
                "a loop whose values keep dtype and number of dimensions"
                if loop
                else "branches that give alike tensors"
            )
            raise errors.bad(where, f"{what}, as {described[0]}", described=described[1])
        found = _widened(found, other)
    return tuple([Sample(sample.sig) for sample in found])


def _list_samples(lists: list[Any]) -> tuple[Sample, ...]:
    """Examples of a list of any length, given lists of symbols, or symbols of lists."""
    items: list[tuple[Sample, ...]] = []
    for x in lists:
        if isinstance(x, list):
            if not all(_is_value(y) for y in x):
                wrong = next(y for y in x if not _is_value(y))
                raise errors.bad("a list that a loop changes", "tensors in it", wrong)
            items.extend([_samples(y) for y in x])
        elif x.samples[0].items:
            items.append(tuple([sample.items[0] for sample in x.samples]))
    if not items:
        return (Sample(None, items=()),) * 3
    found = items[0]
    for other in items[1:]:
        if other[0].sig.dtype is not found[0].sig.dtype or other[0].sig.ndim != found[0].sig.ndim:
            raise errors.bad("a list that a loop changes", "tensors of one dtype and number of dimensions in it",
                             described=f"{found[0].sig.dtype.name} and {other[0].sig.dtype.name}")  # fmt: skip
        found = _widened(found, other)
    return tuple([Sample(None, items=(Sample(found[which].sig),) * UNLIKE[which]) for which in range(3)])


def _widened(one: tuple[Sample, ...], other: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Examples of what may be either: a size that differs is unknown."""
    shapes = [(a.sig.shape, b.sig.shape) for a, b in zip(one, other, strict=True)]
    sizes = []
    for axis in range(len(shapes[0][0])):
        pairs = [(a[axis], b[axis]) for a, b in shapes]
        if all(a == b for a, b in pairs):
            sizes.append([a for a, _ in pairs])
        else:  # the one of both that is unknown already; of two such the one that can be divided better
            either = [list(each) for each in zip(*pairs, strict=True) if len(set(each)) > 1]
            sizes.append(max(either, key=lambda each: math.gcd(*each[:2]), default=list(UNLIKE)))
    return tuple([
        Sample(sig_of(tuple([each[which] for each in sizes]), sample.sig.dtype)) for which, sample in enumerate(one)
    ])  # fmt: skip
