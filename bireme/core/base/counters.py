"""Counters of what the engine did: compiles, interpreted runs, cache hits."""

from __future__ import annotations

from typing import Any

STATS: dict[str, Any] = {
    "compiles": 0, "interprets": 0, "flushes": 0, "cache_hits": 0, "nodes": 0, "compile_ms": 0.0, "call_ms": 0.0,
    "op_by_op": 0, "primitives_by_jax": 0, "repeated_backwards": 0, "sparse_in_full": 0,
}  # fmt: skip
_ZERO = dict(STATS)


def reset() -> None:
    """Set every counter to zero."""
    STATS.update(_ZERO)
