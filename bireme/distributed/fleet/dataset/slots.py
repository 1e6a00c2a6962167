"""Lines of slot files as columns: for each slot how many values a sample has, and all values behind each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors


class Columns:
    """Samples: counts and values for each slot."""

    def __init__(self, counts: list[np.ndarray], values: list[np.ndarray]):
        self.counts, self.values = counts, values

    def __len__(self) -> int:
        return len(self.counts[0]) if self.counts else 0

    def taken(self, which: np.ndarray) -> Columns:
        """Some of the samples, in another order."""
        counts, values = [], []
        for each, held in zip(self.counts, self.values):
            starts = np.cumsum(each) - each
            own = each[which]
            # the places of a sample's values are its start and those after it
            steps = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
            counts.append(own)
            values.append(held[np.repeat(starts[which], own) + steps])
        return Columns(counts, values)

    def arrays(self) -> list[np.ndarray]:
        return [array for pair in zip(self.counts, self.values) for array in pair]


def joined(parts: Sequence[Columns]) -> Columns:
    """Samples behind each other."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        [np.concatenate(each) for each in zip(*[part.counts for part in parts])],
        [np.concatenate(each) for each in zip(*[part.values for part in parts])],
    )


def parsed(where: str, first_line: int, lines: Iterable[bytes], dtypes: Sequence[np.dtype], skipped: int) -> Columns:
    """The samples of lines: for each slot a count and as many values. `skipped` such groups come before, as the name of
    a sample.
    """
    counts: list[list[int]] = [[] for _ in dtypes]
    texts: list[list[bytes]] = [[] for _ in dtypes]
    for number, line in enumerate(lines, first_line):
        words = line.split()
        if not words:
            continue
        at = 0
        for slot in range(-skipped, len(dtypes)):
            count = int(words[at]) if at < len(words) and words[at].isdigit() else -1
            end = at + 1 + count
            if count < 0 or end > len(words):
                what = f"{len(words) - at - 1} values" if count >= 0 else str(words[at : at + 1])
                raise errors.failure(
                    f"{where}, line {number}: expected a count and as many values for slot {slot}, got {what}",
                    kind=errors.FileFormatError,
                )
            if slot >= 0:
                counts[slot].append(count)
                texts[slot] += words[at + 1 : end]
            at = end
        if at != len(words):
            raise errors.failure(
                f"{where}, line {number}: expected {len(dtypes)} slots, got {len(words) - at} words more",
                kind=errors.FileFormatError,
            )
    return Columns(
        [np.array(each, np.int64) for each in counts], [_numbers(where, t, d) for t, d in zip(texts, dtypes)]
    )


def _numbers(where: str, texts: list[bytes], dtype: np.dtype) -> np.ndarray:
    try:
        if dtype.kind == "f":
            return np.array(texts, dtype="S").astype(dtype) if texts else np.zeros(0, dtype)
        try:
            return np.array(list(map(int, texts)), np.int64)
        except OverflowError:  # ids of 64 bits without a sign
            return np.array(list(map(int, texts)), np.uint64).view(np.int64)
    except (ValueError, OverflowError) as e:
        raise errors.failure(f"{where}: expected numbers: {e}", kind=errors.FileFormatError) from None


def shaped(var: Any, counts: np.ndarray, values: np.ndarray) -> Any:
    """The values of a slot as an input takes them: an array if all samples have as many; else with their lengths."""
    sizes = [int(n) for n in var.shape[1:]]
    if var.lod_level:
        return values.reshape(-1, *sizes) if sizes and -1 not in sizes else values.reshape(-1, 1), counts
    wanted = int(np.prod(sizes)) if -1 not in sizes else int(counts[0])
    if (counts != wanted).any():
        got = int(counts[counts != wanted][0])
        raise errors.failure(
            f"dataset: expected {wanted} values of {var.name} in each sample, got {got}", kind=errors.FileFormatError,
            hint="declare it with lod_level=1 where samples have different numbers of values",
        )  # fmt: skip
    return values.reshape(len(counts), *sizes), None
