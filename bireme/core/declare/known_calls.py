"""The short ways: a call whose kinds of arguments were met before, and `x + y`, recorded without detours."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: F401  # annotations of public functions name it
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.device import DeviceLike  # noqa: F401  # the same
from bireme.core.base.dtype import DTypeLike  # noqa: F401  # the same
from bireme.core.declare import precision
from bireme.core.declare.names import leave
from bireme.core.declare.repetition import Path, Trace, given, recorded_steps, repeats
from bireme.core.graph import segment
from bireme.core.graph.bound import bounded, exact
from bireme.core.graph.graph import Node, Value
from bireme.core.graph.segment import reference
from bireme.core.record import flush
from bireme.core.tensor import tape
from bireme.core.tensor.tensor import Tensor
from bireme.core.tensor.view import attach

_local, _mixed, _modes = segment.local, precision.state, segment.debug_mode
# what a parameter takes: a value, a tensor, a tensor or a number that travels, a tensor whose sizes nothing depends on
ATTRIBUTE, OPERAND, NUMBER, ANY_SIZE = 0, 1, 2, 3


def travels(x: Any) -> bool:
    """Whether a number goes with the others of its segment, whatever its value: a float, or an integer that is exact as
    one.
    """
    return x.__class__ is float or (x.__class__ is int and -_EXACT <= x <= _EXACT)


def kinds_of(
    args: tuple, places: tuple[int, ...], kwargs: dict[str, Any], names: dict[str, int], sizes: bool = True
) -> tuple | None:
    """What a call's memory is keyed by: what calls mean now, Sigs of operands or only their dtypes and numbers of axes,
    types of numbers that travel, values.

    One part for each argument, so that no two calls have one key. None where something is in it that a key cannot stand
    for: a tensor as an attribute, a list with tensors.
    """
    if len(args) > len(places):
        return None
    key: list[Any] = [_mixed.meaning, *kwargs]
    for x, takes in _coded(args, places, kwargs, names) if kwargs else zip(args, places):
        kind = x.__class__
        if isinstance(x, Tensor):
            if takes is ATTRIBUTE:
                return None
            key.append(x._value.sig if sizes and takes is not ANY_SIZE else x._value.sig.kind)
        elif takes is NUMBER and travels(x):
            key.append(kind)
        elif takes is not ATTRIBUTE and (kind is list or kind is tuple) and x and isinstance(x[0], Tensor):
            if not all(isinstance(t, Tensor) for t in x):
                return None
            key.append((kind, *[t._value.sig if sizes else t._value.sig.kind for t in x]))
        elif not _add_value(key, x):
            return None
    return tuple(key)


SIMPLE = frozenset((int, bool, str, float, type(None), dtypes.DType))  # attributes that a key can stand for
_EXACT = 1 << 53
LIST = object()  # in what a call's memory knows of an operand: all tensors of a list


def call_key(
    call: Any, args: tuple, places: tuple[int, ...], kwargs: dict[str, Any], takes: dict[str, int]
) -> tuple | None:
    """A call as it is written, as a key that the segment's state may know: (key, segment, device, operands, numbers,
    new leaves, gradients wanted).

    None where only the long way will do: a view that must be refreshed, work that waits, a composite's body that is
    looked at.
    """
    if _modes.at_once or _local.trace is not None or len(args) > len(places):
        return None
    seg, needs = _local.segment, False
    device = seg.device
    key: list[Any] = [call, _mixed.meaning]
    if kwargs:
        key += kwargs  # names: nothing else in a key is a bare string
    operands: list[Any] = []
    numbers: list[float] = []
    leaves: dict[Value, None] = {}
    for x, code in _coded(args, places, kwargs, takes) if kwargs else zip(args, places):
        if isinstance(x, Tensor):
            view = x._view
            if view is not None and view.version != view.cell.version:
                return None
            v = x._value
            if v.segment is seg:  # what `reference` says first: its call would be 3 % of one with two such operands
                key.append(v.index)
            else:
                if device is None:
                    device = v.device
                r = reference(seg, v, device, leaves)
                if r is None:
                    return None
                key.append(r)
            operands.append(x)
            if not x._stop_gradient:
                needs = True
        elif code is NUMBER and travels(x):
            key.append(x.__class__)
            operands.append(x)
            numbers.append(x)
        elif code and (x.__class__ is list or x.__class__ is tuple) and x and isinstance(x[0], Tensor):
            where: list[Any] = [Tensor, x.__class__]  # told apart from a list of integers
            for t in x:
                if not isinstance(t, Tensor) or (t._view is not None and t._view.version != t._view.cell.version):
                    return None
                if device is None:
                    device = t._value.device
                r = reference(seg, t._value, device, leaves)
                if r is None:
                    return None
                where.append(r)
                needs = needs or not t._stop_gradient
            key.append(tuple(where))
            operands += x
        elif not _add_value(key, x):
            return None
    if device is None:  # nothing but numbers, in a segment that has no device yet
        return None
    return tuple(key), seg, device, operands, numbers, leaves, needs


def _coded(
    args: tuple, places: tuple[int, ...], kwargs: dict[str, Any], takes: dict[str, int]
) -> list[tuple[Any, int]]:
    """Arguments with what their parameters take."""
    return [*zip(args, places), *[(x, takes.get(name, ATTRIBUTE)) for name, x in kwargs.items()]]


def remembered(op: Any) -> Callable:
    """The public call of an operator, by the shortest way that is open.

    First: from this very state of the segment, the call was made before as it is written now; then the tree of segments
    knows where it led, and nothing is looked at but where the operands lie. Second: the kinds of arguments (dtypes and
    numbers of axes of tensors, their sizes where arguments are completed by them, values of attributes) were met before;
    they always come to the same Bound on the same operands. Last: the arguments are checked, completed, promoted and
    converted.
    """
    sign, takes = op.signature, op.signature.takes
    memo: dict[tuple, Any] = {}
    places = tuple(takes.get(n, ATTRIBUTE) for n in sign.positional)

    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            call, state = call_key(op, args, places, kwargs, takes), None
            if call is None and _local.trace is not None and _local.trace.builds:
                return _local.trace.build(op, args, kwargs)
            if call is not None:
                line, seg, device, operands, numbers, leaves, needs = call
                state = seg.state
                node = state.get(line)
                if node is None and not op.looks_at_sizes:
                    node = _at_new_sizes(state, line, operands)
                if node is not None and not node.over:
                    seg.device = device
                    if node.__class__ is Path:
                        return node.again(seg, operands, leaves, needs)
                    if op.index_rule is not None:
                        op.check_indices(node.bound, tape.paired(node, operands))
                    if seg.state is not state:
                        pass  # asking about indices has recorded a question
                    elif op.many:
                        made = tape.step(seg, node, operands, numbers, leaves, needs)
                        if made is not None:
                            return op.container(made)
                    else:
                        one = tape.step_to_one(seg, node, operands, numbers, leaves, needs)
                        if one is not None:
                            if op.is_view:
                                attach(
                                    one,
                                    operands[0],
                                    node.bound,
                                    tape.paired(node, operands)[1:] if len(operands) > 1 else [],
                                )
                            return one
            key = kinds_of(args, places, kwargs, takes, op.looks_at_sizes)
            found = memo.get(key) if key is not None else None
            if call is not None and key is not None and line[1] != key[0]:
                state = None  # what calls mean was changed in between
            if found.__class__ is tuple:
                bound, sources, in_order = found
                result = op.record(bound, _fetched(sources, args, kwargs))
                if state is not None and seg.state.parent is state and in_order:
                    segment.keep_call(state, line, seg.state)
                return result
            if found is not None and _local.trace is None:
                tensors = given(args, kwargs)
                if not repeats(tensors):
                    result = found.on(tensors)
                    path = None if state is None else found.path(state, seg)
                    if path is not None and state is not None:
                        segment.keep_call(state, line, path)
                    return result
            result = first(args, kwargs, None if found is not None else key)
            if state is not None and key is not None and found is None and seg.state.parent is state:
                made = memo.get(key)
                if made.__class__ is tuple and made[2] and made[0] is seg.state.bound:
                    segment.keep_call(state, line, seg.state)
            return result
        except errors.TELLING as e:
            leave(e, op)
            raise

    def first(args: tuple, kwargs: dict[str, Any], key: tuple | None) -> Any:
        """A call of new kinds; what it comes to is remembered under `key`."""
        if key is None or kwargs.get("out") is not None:
            if _mixed.policy is not None:
                args, kwargs = precision.cast_arguments(op, args, kwargs)
            return op.call(sign.bind(args, kwargs))
        own, named, tensors = args, kwargs, given(args, kwargs)
        with Trace() as trace:
            if _mixed.policy is not None:
                args, kwargs = precision.cast_arguments(op, args, kwargs)
            arguments = sign.bind(args, kwargs)
            arguments.pop("out", None)
            arguments.pop("name", None)
            operands, layout, attrs = op._operands_and_attrs(arguments)
            bound, sources = op.bind(layout, attrs), op.sources(operands, layout, args, kwargs)
            result = op.record(bound, operands)
        if _mixed.meaning != key[0]:
            return result  # another thread has changed what it means
        cast = any(x is not y for x, y in zip((*own, *named.values()), (*args, *kwargs.values())))
        if sources is not None and not cast:
            bounded(memo, 1024)[key] = (bound, sources, _in_order(sources, args, places, kwargs, takes))
        elif op._may_be_remembered and not repeats(tensors) and not _has_numbers(own, named):
            steps = recorded_steps(trace, tensors, result)
            if steps is not None:
                bounded(memo, 1024)[key] = steps
        return result

    def _has_numbers(args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether a number is among the operands: a key does not know its value, which steps would keep."""
        return any(code is NUMBER and travels(x) for x, code in _coded(args, places, kwargs, takes))

    return public


def _at_new_sizes(state: Node, line: tuple, operands: list) -> Any:
    """Where a call leads that was made at other sizes; None where that is not known, or differs at these.

    What it comes to depends on the kinds of its arguments alone, and those are the same for all states of an outline.
    """
    like = None if state.outline is None else state.outline.get(line)
    if like is None:
        return None
    if like.__class__ is not Node:
        return like.at(state, line, operands)
    found = state.get(like.key)
    if found is None:
        sigs = [x._value.sig if isinstance(x, Tensor) else sig for x, sig in zip(operands, like.sigs)]
        return flush.grown(state, like, like.bound, tuple(sigs), errors.position())
    segment.keep_call(state, line, found)  # not the first time: most sizes never come back
    return found


def _add_value(key: list, x: Any) -> bool:
    """Write an attribute into a key; False for one that a key cannot stand for."""
    kind = x.__class__
    if kind in SIMPLE:
        key.append((kind, x) if kind is not float or x == x != 0.0 else (kind, repr(x)))
        return True
    if kind is not list and kind is not tuple:
        return False
    for i in x:
        if i.__class__ not in SIMPLE:
            return False
    key.append(exact(x))
    return True


def _fetched(sources: tuple, args: tuple, kwargs: dict[str, Any]) -> list:
    operands: list[Any] = []
    for where, kind in sources:
        x = args[where] if where.__class__ is int else kwargs[where] if where is not None else kind
        if kind is LIST:
            operands += x
        else:
            operands.append(x if kind is None or where is None else (kind, x))
    return operands


def _in_order(
    sources: tuple, args: tuple, places: tuple[int, ...], kwargs: dict[str, Any], takes: dict[str, int]
) -> bool:
    """Whether the operands are the tensors and numbers of the call, in order, at least one tensor among them, and
    nothing else.
    """
    own = [where for where, kind in sources if kind is LIST]
    given: list[tuple[Any, Any, int]] = [(i, x, code) for i, (x, code) in enumerate(zip(args, places))]
    given += [(name, x, takes.get(name, ATTRIBUTE)) for name, x in kwargs.items()]
    tensors = [where for where, x, _ in given if isinstance(x, Tensor) or (where in own and x)]
    travel = [where for where, x, code in given if where in tensors or (code is NUMBER and travels(x))]
    return bool(tensors) and travel == [where for where, _ in sources]


def binary(op: Any, other: Callable) -> Callable:
    """`x op y` where this very step is known: two tensors, or a tensor and a float; all else goes through the public
    call.

    `other` makes an operand of what is neither, or gives NotImplemented.
    """
    bound = op.bind((1, 1), tuple(op.signature.defaults[n] for n in op.attr_names))
    local, mixed, modes, long_way, by_value = _local, _mixed, _modes, op.public, op.looks_at_values
    # a look-up, not a call: this is the way of every `x + 1.0`
    number_types = {d: op.signature.number_type(d) for d in dtypes.ALL}

    def method(x: Tensor, y: Any) -> Any:
        try:
            if y.__class__ is int and travels(y) and x._value.sig.dtype.kind == "f":
                y = float(y)
            number = y.__class__ is float
            if not number and not isinstance(y, Tensor) and not (by_value and y.__class__ is int):
                y = other(y)
                return y if y is NotImplemented else long_way(x, y)
            view = x._view
            if view is not None and view.version != view.cell.version:
                return long_way(x, y)
            if mixed.policy is not None or modes.at_once or local.trace is not None:
                return long_way(x, y)
            if by_value:
                return _by_integer(op, bound, x, y) if y.__class__ is int else long_way(x, y)
            seg = local.segment
            device = seg.device
            leaves: Any = ()
            rx: Any
            ry: Any
            v = x._value
            if device is None:  # nothing is recorded yet
                device = v.device
            if v.segment is seg:
                rx = v.index
            elif v.leaf_of is seg:
                rx = ~v.leaf
            elif v.array is not None and v.device is device and local.waiting is None:
                rx = v.sig
                leaves = (v,)
            else:
                return long_way(x, y)
            if number:
                ry = number_types[v.sig.dtype]
                if ry.kind != "f":  # the result has another type
                    return long_way(x, y)
            else:
                view = y._view
                if view is not None and view.version != view.cell.version:
                    return long_way(x, y)
                v = y._value
                if v.segment is seg:
                    ry = v.index
                elif v.leaf_of is seg:
                    ry = ~v.leaf
                elif v.array is not None and v.device is device and local.waiting is None and v is not x._value:
                    ry = v.sig
                    leaves = (*leaves, v)
                else:
                    return long_way(x, y)
            state = seg.state
            node = state.get((bound, rx, ry))
            if node is None:
                node = _at_new_sizes(state, (op, mixed.meaning, rx, float if number else ry), [x, y])
            if node is not None and not node.over and node.__class__ is Node:
                needs = not x._stop_gradient or not (number or y._stop_gradient)
                seg.device = device
                made = tape.step_to_one(seg, node, [x, y], [y] if number else (), leaves, needs)
                if made is not None:
                    return made
            return long_way(x, y)
        except errors.TELLING as e:
            errors.leave(e)
            raise

    return method


def _by_integer(op: Any, bound: Any, x: Tensor, y: int) -> Tensor:
    """An operator that looks at numbers for zeros, such as `//`, of integers and an integer that is none."""
    dtype = x._value.sig.dtype
    if 0 < y < 1 << 31 and dtype.kind == "i" and dtype.itemsize >= 4:
        return op.record(bound, [x, (dtype, y)])
    return op.public(x, y)
