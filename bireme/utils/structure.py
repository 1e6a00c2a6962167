"""Nested lists, tuples and dicts of tensors: flat, rebuilt, mapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor


def is_sequence(x: Any) -> bool:
    """Return whether an object is a list, tuple, dict or the like, and not a string.

    Args:
        x: The object.

    Returns:
        A bool.

    Examples:
        >>> [bireme.utils.structure.is_sequence(x) for x in ([1], "a", {"k": 1})]
        [True, False, True]
    """
    return isinstance(x, (Mapping, Sequence)) and not isinstance(x, (str, bytes, Tensor))


def _parts(x: Any) -> list:
    """Return the elements of a container; those of a dict in the order of its keys."""
    return [x[k] for k in sorted(x)] if isinstance(x, Mapping) else list(x)


def flatten(nest: Any) -> list:
    """Return the leaves of a nested structure as a list; dicts in the order of their keys.

    Args:
        nest: Nested lists, tuples and dicts.

    Returns:
        A list.

    Examples:
        >>> bireme.utils.flatten([1, (2, {"b": 4, "a": 3})])
        [1, 2, 3, 4]
    """
    return [leaf for x in _parts(nest) for leaf in flatten(x)] if is_sequence(nest) else [nest]


def _like(model: Any, parts: list) -> Any:
    kind: Any = type(model)
    if isinstance(model, Mapping):
        found = dict(zip(sorted(model), parts))
        return kind((k, found[k]) for k in model)
    if hasattr(model, "_fields"):
        return kind(*parts)
    return kind(parts) if isinstance(model, (list, tuple)) else list(parts)


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """Put leaves into the structure of another object: the inverse of ``flatten``.

    Args:
        structure: Nested lists, tuples and dicts.
        flat_sequence: List of as many leaves.

    Returns:
        The leaves in the structure.

    Examples:
        >>> bireme.utils.pack_sequence_as([0, (0, 0)], ["a", "b", "c"])
        ['a', ('b', 'c')]
    """
    if not is_sequence(flat_sequence):
        raise errors.bad(
            "pack_sequence_as(flat_sequence)", "a list or tuple", flat_sequence, kind=errors.ArgumentTypeError
        )
    leaves = list(flat_sequence)
    wanted = len(flatten(structure))
    if len(leaves) != wanted:
        raise errors.bad("pack_sequence_as(flat_sequence)", f"{wanted} leaves, as the structure has", len(leaves))
    rest = iter(leaves)
    return _packed(structure, rest)


def _packed(structure: Any, rest: Any) -> Any:
    return _like(structure, [_packed(x, rest) for x in _parts(structure)]) if is_sequence(structure) else next(rest)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raise an error if two structures are nested differently.

    Args:
        nest1: Nested lists, tuples and dicts.
        nest2: The same.
        check_types: Compare the types of the containers as well. Default: True.

    Raises:
        ValueError: If the structures differ.
        TypeError: If the types of containers differ.

    Examples:
        >>> bireme.utils.structure.assert_same_structure([1, (2,)], [3, (4,)])
    """
    where = "assert_same_structure(nest2)"
    a, b = is_sequence(nest1), is_sequence(nest2)
    if a != b:
        raise errors.bad(where, "the same structure as nest1", described=f"{nest2!r:.60} beside {nest1!r:.60}")
    if not a:
        return
    if check_types and type(nest1) is not type(nest2):
        raise errors.bad(
            where, f"a {type(nest1).__name__}, as in nest1", type(nest2).__name__, kind=errors.ArgumentTypeError
        )
    if len(nest1) != len(nest2):
        raise errors.bad(where, f"{len(nest1)} elements, as in nest1", len(nest2))
    if isinstance(nest1, Mapping) and sorted(nest1) != sorted(nest2):
        raise errors.bad(where, f"the keys {sorted(nest1)}", sorted(nest2))
    for x, y in zip(_parts(nest1), _parts(nest2)):
        assert_same_structure(x, y, check_types)


def map_structure(func: Callable[..., Any], *structure: Any) -> Any:
    """Apply a function to each leaf of one or more structures.

    Args:
        func: Function of as many arguments as there are structures.
        *structure: Nested lists, tuples and dicts with the same structure.

    Returns:
        The results in the structure of the first.

    Examples:
        >>> bireme.utils.map_structure(lambda a, b: a + b, [1, (2,)], [10, (20,)])
        [11, (22,)]
    """
    if not structure:
        raise errors.bad("map_structure(structure)", "at least one structure", described="none")
    leaves = [flatten(x) for x in structure]
    if any(len(x) != len(leaves[0]) for x in leaves):
        raise errors.bad(
            "map_structure(structure)", "structures with equal numbers of leaves", [len(x) for x in leaves]
        )
    return (
        pack_sequence_as(structure[0], [func(*parts) for parts in zip(*leaves)])
        if is_sequence(structure[0])
        else func(*next(zip(*leaves)))
    )
