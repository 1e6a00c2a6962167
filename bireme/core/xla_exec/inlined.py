"""Steps of a jaxpr that only call another one: who goes through a program step by step goes through these as well."""

from __future__ import annotations

from typing import Any

from jax.extend import core

CALLS = frozenset((
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
    "remat", "checkpoint", "remat2",
))  # fmt: skip


def called(eqn: Any) -> Any:
    """The closed jaxpr that a step calls; None for a step that computes."""
    if eqn.primitive.name not in CALLS:
        return None
    found = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return found if found is None or hasattr(found, "consts") else core.ClosedJaxpr(found, ())
