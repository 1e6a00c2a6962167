"""The white and black list of `auto_cast`: what operators declare with `amp=`, by the names that Paddle has for them."""

from __future__ import annotations

from bireme.core.base import registry
from bireme.core.declare.public import PUBLIC


def _listed(*marks: str) -> set[str]:
    """The names of the operators with one of these marks: those of functions, and of Paddle's kernels."""
    found = [op for op in registry.OPS.values() if op.options.get("amp") in marks]
    return {name for op in found for name in (op.told, *op.kernels) if name in op.kernels or name in PUBLIC}


def white_list() -> dict[str, dict[str, set[str]]]:
    """Return the operators that compute in half precision under ``auto_cast``, by Paddle's names.

    Returns:
        A dict of dtype to a dict of level to a set of names.

    Examples:
        >>> "matmul" in bireme.amp.white_list()["bfloat16"]["O1"]
        True
    """
    return {kind: {level: _listed("low") for level in ("OD", "O1", "O2")} for kind in ("float16", "bfloat16")}


def black_list() -> dict[str, dict[str, set[str]]]:
    """Return the operators that compute in float32 under ``auto_cast``, by Paddle's names.

    Returns:
        A dict of dtype to a dict of level to a set of names.

    Examples:
        >>> lists = bireme.amp.black_list()["float16"]
        >>> "softmax" in lists["O1"], "softmax" in lists["O2"]
        (True, False)
    """
    levels = {"OD": set(), "O1": _listed("high", "wide"), "O2": _listed("wide")}
    return {kind: {level: set(names) for level, names in levels.items()} for kind in ("float16", "bfloat16")}
