"""All operators by name. The engine finds here the few that it needs itself; nothing imports an operator module."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors

OPS: dict[str, Any] = {}
_KNOWN: dict[str, list[str]] = {}  # operators by the names that lists of them use


def add(name: str, op: Any) -> None:
    """Let an operator be found. One of a user takes the place of an older one, as when a notebook's cell runs again."""
    older = OPS.get(name)
    if older is not None and (is_own(older) or is_own(op)):
        raise errors.bad("op(name)", "a name that no operator of Bireme has", name, kind=errors.ArgumentError)
    OPS[name] = op
    for known in {name: None, op.told: None, **dict.fromkeys(op.kernels)}:
        _KNOWN.setdefault(known, []).append(name)


def known_as(name: str) -> list[str]:
    """The operators that a list means by a name: their own, that of the function they are a part of, or a kernel's."""
    return _KNOWN.get(name, [name])


def is_own(op: Any) -> bool:
    """Whether an operator is one of Bireme's, not of a user."""
    return (op.body.__module__ or "").startswith("bireme.")


def find(name: str) -> Any:
    return OPS[name]
