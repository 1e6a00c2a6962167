"""Pages of the cache: which are free, who holds which, and which hold the beginning of a text that may come again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Chunk:
    """Tokens of a prompt that one program takes: `count` of them from `start` on, filled up to `size`."""

    start: int
    size: int
    count: int


def chunks(count: int, most: int, least: int) -> list[Chunk]:
    """How the first tokens of a prompt are taken: by chunks of one size, the last one by the least power of two."""
    found = [Chunk(at, most, most) for at in range(0, count - most + 1, most)]
    done = len(found) * most
    if done < count:
        size = least
        while size < count - done:
            size *= 2
        found.append(Chunk(done, min(size, most), count - done))
    return found


def keys(prompt: Sequence[int], parts: list[Chunk], page: int) -> Iterator[list[bytes]]:
    """For each chunk the keys of the pages that it fills: of all tokens so far, and of how they are taken, since other
    programs round otherwise, and a text must not depend on what was asked before it.
    """
    digest = hashlib.blake2b(digest_size=16)
    for chunk in parts:
        found = []
        for at in range(chunk.start, chunk.start + chunk.count - page + 1, page):
            digest.update(np.asarray([chunk.size, *prompt[at : at + page]], np.int64).tobytes())
            found.append(digest.copy().digest())
        yield found


class Pages:
    """The pages of a cache. Pages that nobody holds keep what they have until they are needed, oldest first."""

    def __init__(self, count: int):
        self.count = count
        self._free = deque(range(count))
        self._holders = [0] * count
        self._keys: dict[int, bytes] = {}
        self._pages: dict[bytes, int] = {}
        self._resting: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Pages that can be taken."""
        return len(self._free) + len(self._resting)

    def take(self) -> int | None:
        """A page that is nobody's, or None."""
        if self._free:
            page = self._free.popleft()
        elif self._resting:
            page, _ = self._resting.popitem(last=False)
            del self._pages[self._keys.pop(page)]
        else:
            return None
        self._holders[page] = 1
        return page

    def give(self, page: int) -> None:
        """Let go of a page."""
        self._holders[page] -= 1
        if not self._holders[page]:
            if page in self._keys:
                self._resting[page] = None
            else:
                self._free.append(page)

    def find(self, wanted: list[bytes]) -> list[int] | None:
        """The pages with these keys, to be held by one more; None if one is missing."""
        if not all(key in self._pages for key in wanted):
            return None
        found = [self._pages[key] for key in wanted]
        for page in found:
            self._resting.pop(page, None)
            self._holders[page] += 1
        return found

    def publish(self, page: int, key: bytes) -> None:
        """Have a page found by a key, if no other one is."""
        if key not in self._pages:
            self._pages[key], self._keys[page] = page, key
