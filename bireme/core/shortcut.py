"""The short ways: a call whose kinds of arguments were met before, and `x + y`, recorded without detours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from bireme.core import dtype as dtypes
from bireme.core import flush, grad_mode, tape
from bireme.core.graph import Value, scalar_sig
from bireme.core.tensor import Tensor

ATTRIBUTE, OPERAND, NUMBER = 0, 1, 2  # what a parameter takes: a value, a tensor, a tensor or a number that travels


def kinds_of(args: tuple, places: tuple[int, ...], kwargs: dict[str, Any], names: dict[str, int]) -> tuple | None:
    """What a call's memory is keyed by: Sigs of operands, types of numbers that travel, values of all else.

    None where something is in it that a key cannot stand for: a tensor as an attribute, a list with tensors.
    """
    if len(args) > len(places):
        return None
    key: list[Any] = []
    for x, takes in zip(args, places):
        if not _add_kind(key, x, takes):
            return None
    for name, x in kwargs.items():
        key.append(name)
        if not _add_kind(key, x, names.get(name, ATTRIBUTE)):
            return None
    return tuple(key)


def _add_kind(key: list, x: Any, takes: int) -> bool:
    if isinstance(x, Tensor):
        if takes is ATTRIBUTE:
            return False
        key.append(x._value.sig)
        return True
    kind = x.__class__
    if kind is float and takes is NUMBER:
        key.append(float)
    elif kind is int or kind is bool or kind is str or kind is float or x is None or kind is dtypes.DType:
        key += (kind, x)
    elif kind is list or kind is tuple:
        if takes is not ATTRIBUTE and all(isinstance(t, Tensor) for t in x):
            key += (kind, len(x), *[t._value.sig for t in x])
        elif all(i.__class__ is int for i in x):
            key += (kind, *x)
        else:
            return False
    else:
        return False
    return True


def binary(op: Any) -> Callable:
    """`x op y` recorded without detours when this very step is known: two tensors, or a tensor and a float.

    It does what `Op.call` does once the tree of segments has seen the step; everything else goes the long way.
    """
    if op.looks_at_values:
        return op
    bound = op.bind((1, 1), tuple(op.signature.defaults[n] for n in op.attr_names))
    local, grad_state, debug_state = flush.local, grad_mode.state, flush.debug_mode
    new_value, new_tensor, long_way = Value.__new__, Tensor.__new__, op.public

    def method(x: Tensor, y: Any) -> Tensor:
        seg = local.segment
        vx = x._value
        vy: Any
        if x._view is None and not debug_state.at_once and not debug_state.long_way:
            rx = vx.index if vx.segment is seg else ~vx.leaf if vx.leaf_of is seg else None
            cls = y.__class__
            if rx is not None and isinstance(y, Tensor) and y._view is None:
                vy = y._value
                ry = vy.index if vy.segment is seg else ~vy.leaf if vy.leaf_of is seg else None
                node = seg.state.next.get((bound, rx, ry))
                needs = not (x.stop_gradient and y.stop_gradient)
            elif rx is not None and cls is float and vx.sig.dtype.kind == "f":
                vy, ry = (vx.sig.dtype, y), None
                node = seg.state.next.get((bound, rx, vx.sig.dtype))
                needs = not x.stop_gradient
            else:
                node = None
            if node is not None and not node.over:
                v = new_value(Value)
                sig = node.outs[0]
                v.sig, v.array, v.segment, v.index, v.leaf_of, v.device, v.marks, v.bounds = sig, None, seg, node.first, None, seg.device, 0, None
                try:
                    if cls is float:
                        seg.numbers.append(y)
                    seg.values.append(ref(v))
                    seg.state = node
                except BaseException:  # an interrupt in between
                    flush.roll_back(seg)
                    raise
                if not seg.closed:
                    t = new_tensor(Tensor)
                    t._value, t._view = v, None
                    if needs and grad_state.grad and sig.dtype.kind in "fc":
                        pair = vy.__class__ is tuple
                        edge = tape.Edge(
                            bound,
                            (tape.target_of(x), None if pair else tape.target_of(y)),
                            (vx.sig, scalar_sig(vy[0]) if pair else vy.sig),
                            node.outs,
                        )
                        if grad_state.pack is None:
                            reads = bound.reads
                            edge.saved = (vx if reads is None or 0 in reads else None, vy if pair or reads is None or 1 in reads else None)
                            if bound.reads_out:
                                edge.outs = (v,)
                        else:
                            tape._save(edge, bound, [vx, vy], [v])
                        edge.first = node.first
                        seg.edges.append(ref(edge))
                        t._edge, t.stop_gradient = (edge, 0), False
                    else:
                        t._edge, t.stop_gradient = None, True
                    return t
        return long_way(x, y)

    return method
