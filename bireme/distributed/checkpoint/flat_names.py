"""Nested state dicts as flat ones: names joined by dots, and where each value belongs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.checkpoint.sharded_weight import ShardedWeight

PLAIN = (bool, int, float, str, type(None))


def flattened(where: str, state: Any) -> dict[str, tuple[Any, Any, Any]]:
    """By flat name: the value, the dict that has it, and its name there."""
    if not isinstance(state, Mapping):
        raise errors.bad(where, "a dict of names and tensors", state, kind=errors.ArgumentTypeError)
    found: dict[str, tuple[Any, Any, Any]] = {}
    _walk(where, state, "", found)
    return found


def _walk(where: str, state: Any, prefix: str, found: dict) -> None:
    for name, x in state.items():
        if not isinstance(name, str):
            raise errors.bad(where, "names that are strings", name, kind=errors.ArgumentTypeError)
        if isinstance(x, Mapping):
            _walk(where, x, f"{prefix}{name}.", found)
            continue
        if not isinstance(x, (Tensor, ShardedWeight)) and not _is_plain(x):
            expected = "tensors, numbers, str, and lists of these"
            raise errors.bad(f"{where}[{prefix}{name}]", expected, x, kind=errors.ArgumentTypeError)
        if prefix + name in found:
            raise errors.bad(where, "names that differ when joined by dots", f"{prefix}{name} twice")
        found[prefix + name] = x, state, name


def _is_plain(x: Any) -> bool:
    return isinstance(x, PLAIN) or (isinstance(x, (list, tuple)) and all(_is_plain(part) for part in x))
