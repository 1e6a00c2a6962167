"""All operators by name. The engine finds here the few that it needs itself; nothing imports an operator module."""

from __future__ import annotations

from typing import Any

OPS: dict[str, Any] = {}


def add(name: str, op: Any) -> None:
    assert name not in OPS, f"two operators named {name}"
    OPS[name] = op


def find(name: str) -> Any:
    return OPS[name]
