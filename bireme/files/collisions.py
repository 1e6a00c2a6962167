"""What it costs to fill a dict or a set with keys that a stranger chose.

Hashes of numbers are no secret: a file can hold keys that all meet in the same slots of the table, and every new one is
then compared with all before it. CPython does not say how many slots it looked at, so its search is done here once
more, and counted.
"""

from __future__ import annotations

import array
import os
from typing import Any

MANY = 256  # keys; with fewer, each meets few others whatever they are
MOST = 64  # taken slots on average for a key; keys that nobody chose to collide meet from 1 to 40

_WORD = (1 << 64) - 1
# the hash of a text depends on a secret of the process, unless somebody fixed it
_SECRET = (str, bytes) if os.environ.get("PYTHONHASHSEED", "random") in ("", "random") else ()


class DictTable:
    """The hash table of a dict: where each key would be, and how many taken slots were met on the way."""

    near = 0  # slots beside one that is taken, tried before the next jump

    def __init__(self) -> None:
        self.count = self.met = 0
        self.hashes = array.array("Q")  # in the order in which a larger table is filled
        self.taken = bytearray(8)

    def add(self, key: Any) -> bool:
        """Note one more key; whether the keys still meet no more than others do."""
        self.count += 1
        self.hashes.append(hash(key) & _WORD)
        if 3 * self.count <= 2 * len(self.taken):
            return self._place(self.hashes[-1:])
        self.taken = bytearray(2 * len(self.taken))
        return self._place(self.hashes)

    def _place(self, hashes: array.array) -> bool:
        taken, near, most = self.taken, self.near, MOST * (self.count + MANY)
        mask = len(taken) - 1
        for key in hashes:
            at, rest = key & mask, key
            while taken[at]:
                if near and at + near <= mask:
                    free = taken.find(0, at, at + near + 1)
                    if free >= 0:
                        at = free
                        break
                self.met += self._passed(at, key)
                rest >>= 5
                at = (5 * at + rest + 1) & mask
            taken[at] = 1
            self._at(at, key)
            if self.met > most:
                return False
        return True

    def _at(self, slot: int, key: int) -> None:
        """A key has found its slot."""

    def _passed(self, slot: int, key: int) -> int:
        """What it costs to find this slot taken, and its neighbours that are tried with it."""
        return 1


class SetTable(DictTable):
    """The hash table of a set: it tries neighbours, grows by more, and then takes its keys in the order of their slots."""

    near = 9

    def __init__(self) -> None:
        super().__init__()
        self.hashes = array.array("Q", bytes(64))  # by slot

    def add(self, key: Any) -> bool:
        self.count += 1
        fine = self._place(array.array("Q", [hash(key) & _WORD]))
        if 5 * self.count < 3 * (len(self.taken) - 1) or not fine:
            return fine
        size = self.count * (2 if self.count > 50_000 else 4)
        old = self.in_order()
        self.taken = bytearray(1 << size.bit_length())
        self.hashes = array.array("Q", bytes(8 * len(self.taken)))
        return self._place(old)

    def in_order(self) -> array.array:
        return array.array("Q", (key for key, here in zip(self.hashes, self.taken, strict=True) if here))

    def _at(self, slot: int, key: int) -> None:
        self.hashes[slot] = key

    def _passed(self, slot: int, key: int) -> int:
        # neighbours cost little, unless their hashes are equal: then the keys are compared
        return 1 + self.hashes[slot : slot + self.near + 1].count(key)


class Tables:
    """The tables of the large containers of a file, which are filled key by key."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[Any, DictTable]] = {}

    def add(self, container: Any, key: Any) -> bool:
        """Before `key` goes into a dict or set: whether its keys still meet no more than others do."""
        if len(container) < MANY:
            return True
        if id(container) not in self.found:
            if isinstance(key, _SECRET):
                return True
            table = _table(container)
            self.found[id(container)] = container, table
            if not all(map(table.add, container)):
                return False
        return self.found[id(container)][1].add(key)


def harmless(container: Any) -> bool:
    """Whether the keys of a dict or set, in their order, meet no more than others do."""
    return (
        len(container) <= MANY
        or all(isinstance(key, _SECRET) for key in container)
        or all(map(_table(container).add, container))
    )


def _table(container: Any) -> DictTable:
    return SetTable() if isinstance(container, (set, frozenset)) else DictTable()
