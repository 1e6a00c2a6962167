"""Words and their ids: counted, sorted, looked up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bireme.core.base import errors

Word = bytes | str  # what a file holds is bytes, marks are str


def frequent(counts: Mapping[Word, int], more_than: int) -> dict[Word, int]:
    """Return the ids of words that were counted more than so often, the most frequent first, equal ones by name.

    The last id is that of words that are not among them.
    """
    kept = [word for word, n in counts.items() if n > more_than]
    kept.sort(key=lambda word: (-counts[word], word.encode() if isinstance(word, str) else word))
    return {word: i for i, word in enumerate([*kept, "<unk>"])}


def ids(words: Iterable[Any], known: Mapping[Any, int], unknown: int) -> list[int]:
    """Return the ids of words."""
    return [known.get(word, unknown) for word in words]


def size_of(where: str, n: Any) -> int:
    """Return the size of a dictionary."""
    integer = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
    if not integer or n <= 0:
        raise errors.bad(where, "a positive number of words", n, kind=errors.for_integer(n))
    return int(n)


def reversed_dict(known: Mapping[str, int]) -> dict[int, str]:
    """Return words by their ids."""
    return {i: word for word, i in known.items()}
