"""All operators by name. The engine finds here the few that it needs itself; nothing imports an operator module."""

from __future__ import annotations

from typing import Any

OPS: dict[str, Any] = {}
_KNOWN: dict[str, list[str]] = {}  # operators by the names that lists of them use


def add(name: str, op: Any) -> None:
    assert name not in OPS, f"two operators named {name}"
    OPS[name] = op
    for known in {name: None, op.told: None, **dict.fromkeys(op.kernels)}:
        _KNOWN.setdefault(known, []).append(name)


def known_as(name: str) -> list[str]:
    """The operators that a list means by a name: their own, that of the function they are a part of, or Paddle's of the kernel."""
    return _KNOWN.get(name, [name])


def find(name: str) -> Any:
    return OPS[name]
