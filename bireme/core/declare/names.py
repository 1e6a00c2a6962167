"""What users call an operator, and its errors by that name."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors


def told_as(name: str, options: dict[str, Any]) -> str:
    """What users call it: the name under which it is public, or the function that it is a part of."""
    if isinstance(options.get("internal"), str):
        return options["internal"]
    paths = (options.get("public") or "").split()
    return paths[0].rpartition(".")[2] if paths else name


def names_of(told: str, options: dict[str, Any]) -> tuple[str, ...]:
    """All names that users may call it by, the one it is told by first."""
    more = " ".join(n for n in (options.get("public"), options.get("method")) if isinstance(n, str))
    return tuple(dict.fromkeys([told, *[n.rpartition(".")[2] for n in more.split()]]))


def leave(error: Exception, made: Any) -> None:
    """Make the error of an operator ready to leave the package, by the name that the user called it by."""
    name = errors.called(made.names) if len(made.names) > 1 else made.told
    if name != made.told or getattr(error, "_of_operand", False):  # which knows of no operator
        errors.renamed(error, name, made.signature.defaults)
    errors.leave(error, name)
