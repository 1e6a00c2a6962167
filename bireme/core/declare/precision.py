"""Mixed precision: which operators compute in half precision, and the casts of their operands.

An operator says with `amp="low"` that it gains from half precision (products, convolutions), with `amp="high"` that it
loses by it (sums of many terms, exponentials; level O2 does it in half precision all the same, and rounds once), with
`amp="wide"` that it is kept in float32 at every level; all others take what they are given, in float32 where one
operand has it, and those without a form for half precision compute in float32. A composite says with `amp="one"` that
its operands must agree. `bireme.amp.auto_cast` sets the policy of its thread; it is looked at where a call's arguments
come in, before any memory. What a call means depends on the default type too, so that is set here.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import registry
from bireme.core.base.dtype import DType
from bireme.core.tensor.tensor import Tensor

HALF = frozenset((dtypes.float16, dtypes.bfloat16))
MIXED = HALF | {dtypes.float32}  # what it moves between; float64 was asked for by the user


class Policy:
    """What `auto_cast` asks for. Operators are told apart by name; `low` and `high` add to what they declare."""

    __slots__ = ("dtype", "high", "level", "low", "_rest", "_targets")

    def __init__(self, dtype: DType, level: str, low: frozenset[str], high: frozenset[str], promote: bool):
        self.dtype, self.level, self.low, self.high = dtype, level, low, high
        # operators of neither list
        self._rest = dtypes.float32 if level == "OD" else dtype if level == "O2" and not promote else None
        self._targets: dict[str, DType | None] = {}

    def target(self, op: Any) -> DType | None:
        """The type that an operator's floating operands take, or None: as they are."""
        name = op.name
        if name not in self._targets:
            found = self._decide(name, op.options.get("amp"))
            if op.dtypes is not None and self.dtype not in op.dtypes and dtypes.float32 in op.dtypes:
                found = dtypes.float32  # it has no half form: computed in float32, as in Paddle
            self._targets[name] = found
        return self._targets[name]

    def _decide(self, name: str, own: str | None) -> DType | None:
        if name in self.high:
            return dtypes.float32
        if name in self.low or own == "low":
            return self.dtype
        # at O2 only the weights' copies stay wide, as in Paddle
        if own == "wide" or (own == "high" and self.level != "O2"):
            return dtypes.float32
        return self._rest


@functools.lru_cache(maxsize=64)
def policy(
    dtype: DType,
    level: str = "O1",
    low: frozenset[str] = frozenset(),
    high: frozenset[str] = frozenset(),
    promote: bool = True,
) -> Policy:
    """The policy with these settings, one object for equal ones: memories of calls are kept by it."""
    return Policy(dtype, level, low, high, promote)


class _State(threading.local):
    policy: Policy | None = None
    # what calls mean besides their arguments, by policy and default type: memories are kept by it; None for neither
    meaning: Any = None

    def __init__(self) -> None:
        self.own = _Own(self.__dict__)
        with _lock:
            _threads.add(self.own)
            self.meaning = _meaning(None)


class _Own:
    """What one thread has of the state, for the others: the default type is the process's."""

    __slots__ = ("values", "__weakref__")

    def __init__(self, values: dict[str, Any]):
        self.values = values


def _meaning(policy: Policy | None) -> Any:
    default = dtypes.get_default()
    return policy if default is dtypes.float32 else (policy, default)


_lock = threading.Lock()  # a change of the default type and one of a thread's policy are both seen
_threads: weakref.WeakSet[_Own] = weakref.WeakSet()
state = _State()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def settle() -> None:
    """Bring up to date what calls mean in this thread."""
    with _lock:
        state.meaning = _meaning(state.policy)


def set_default(spec: Any) -> None:
    """Set the floating type that Python floats take when nothing else decides, in all threads."""
    with _lock:
        dtypes.set_default(spec)
        for thread in _threads:
            thread.values["meaning"] = _meaning(thread.values.get("policy"))


class using:
    """Set the policy of this thread; None switches mixed precision off."""

    def __init__(self, policy: Policy | None):
        self._policy = policy
        self._before: list[Policy | None] = []

    def __enter__(self) -> None:
        self._before.append(state.policy)
        state.policy = self._policy
        settle()

    def __exit__(self, *exc: Any) -> None:
        state.policy = self._before.pop()
        settle()


def cast_arguments(op: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """A call's arguments with floating tensors in the type that the policy wants for this operator."""
    policy = state.policy
    assert policy is not None
    wanted = policy.target(op)
    if wanted is None or op.carries:
        return args, kwargs
    takes = op.signature.takes
    args = tuple([_cast(x, wanted) for x in args])
    return args, {k: _cast(x, wanted) if k in takes else x for k, x in kwargs.items()}


def unify(arguments: dict[str, Any]) -> None:
    """Where mixed precision has left a function operands in float32 and in half precision, bring them to float32."""
    tensors = [
        t for x in arguments.values() for t in (x if isinstance(x, (list, tuple)) else [x]) if isinstance(t, Tensor)
    ]
    kinds = {t._value.sig.dtype for t in tensors}
    if dtypes.float32 in kinds and kinds & HALF:
        arguments.update({name: _cast(x, dtypes.float32) for name, x in arguments.items()})


def _cast(x: Any, wanted: DType) -> Any:
    if isinstance(x, Tensor):
        kind = x._value.sig.dtype
        return registry.find("cast")(x, wanted) if kind is not wanted and kind in MIXED else x
    if x.__class__ is list or x.__class__ is tuple:
        return x.__class__([_cast(t, wanted) for t in x]) if any(isinstance(t, Tensor) for t in x) else x
    return x
