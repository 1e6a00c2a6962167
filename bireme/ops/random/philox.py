"""Philox2x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (2011): random words of a key, on both
tiers the same.

The key of a draw has two words: one is the generator's key, the other the upper half of its counter. What is counted is
the place in the tensor, so every element is made by itself. See decisions/024.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.numpy_exec import blas

ROUNDS = 10
FACTOR, WEYL, LOW = 0xD256D193, 0x9E3779B9, 0xFFFFFFFF
FEW = 256  # counters that Python's own integers take less time for than NumPy's calls
BLOCK = 1 << 15  # counters at a time: three arrays of them stay in a cache
MANY = 1 << 14  # counters that all cores make together: half a millisecond of one

_FACTOR, _LOW, _HALF = [np.array(n, np.uint64) for n in (FACTOR, LOW, 32)]


def scrambled(low, high, key):
    """Both words that a counter of two words becomes: ten rounds of the generator."""
    for i in range(ROUNDS):
        upper = (low.astype(np.uint64) * np.uint64(FACTOR) >> np.uint64(32)).astype(np.uint32)
        low, high = upper ^ high ^ (key + np.uint32(i * WEYL & LOW)), low * np.uint32(FACTOR)
    return low, high


def _counted(n: int, key: Any, step: int) -> tuple:
    """The words of the counters of n places, `step` of which share one."""
    place = jnp.arange(n, dtype=jnp.uint32 if n <= 1 << 32 else jnp.uint64)
    at = place // step if step > 1 else place
    high = key[1] if n <= 1 << 32 else key[1] + (at >> 32).astype(jnp.uint32)
    return place, scrambled(at.astype(jnp.uint32), high, key[0])


def on_host(key: Any) -> bool:
    """Whether a key is one of NumPy's, so that its words are made at once."""
    return isinstance(key[0], (np.generic, np.ndarray)) and isinstance(key[1], (np.generic, np.ndarray))


def words(key: Any, n: int) -> Any:
    """n words of 32 bits: two of each counter, one after the other."""
    if on_host(key):
        return longs(key, (n + 1) // 2).view(np.uint32)[:n]
    place, (first, second) = _counted(n, key, 2)
    return jnp.where(place & 1 == 0, first, second)


def longs(key: Any, n: int) -> Any:
    """n words of 64 bits: `words` taken by twos, the first one below."""
    if on_host(key):
        return _few(int(key[0]), int(key[1]), n) if n <= FEW else _many(int(key[0]), int(key[1]), n)
    first, second = pairs(key, n)
    return first.astype(jnp.uint64) | second.astype(jnp.uint64) << np.uint64(32)


def pairs(key: Any, n: int) -> tuple[Any, Any]:
    """The first and the second word of n counters."""
    if on_host(key):
        both = longs(key, n).view(np.uint32).reshape(n, 2)
        return both[:, 0], both[:, 1]
    return _counted(n, key, 1)[1]


@functools.cache
def _fields(n: int) -> tuple[int, int, int]:
    """Integers with n fields of 64 bits: ones, the field's number, and the lower half of each field."""
    ones = int.from_bytes(np.ones(n, "<u8").tobytes(), "little")
    return ones, int.from_bytes(np.arange(n, dtype="<u8").tobytes(), "little"), ones * LOW


def _few(key: int, high: int, n: int) -> np.ndarray:
    """All counters in one integer of Python: a product of a field with the factor fits into the field."""
    ones, low, halves = _fields(n)
    high *= ones
    for _ in range(ROUNDS):
        product = low * FACTOR
        low, high = (product >> 32 & halves) ^ high ^ key * ones, product & halves
        key = key + WEYL & LOW
    return np.frombuffer((low | high << 32).to_bytes(8 * n, "little"), np.uint64)


def _many(key: int, high: int, n: int) -> np.ndarray:
    out = np.empty(n, np.uint64)
    cores = blas.cores() if n >= MANY else 1
    size = -(-n // cores)
    makers = [functools.partial(_fill, out[start : start + size], start, key, high) for start in range(0, n, size)]
    blas.share(makers) if len(makers) > 1 else makers[0]()
    return out


def _fill(out: np.ndarray, first: int, key: int, high: int) -> None:
    """The words of the counters from `first` on."""
    product, rest = np.empty((2, min(len(out), BLOCK)), np.uint64)
    keys = [np.array(key + i * WEYL & LOW, np.uint64) for i in range(ROUNDS)]
    for start in range(0, len(out), BLOCK):
        low, place = out[start : start + BLOCK], first + start
        product, rest = product[: len(low)], rest[: len(low)]
        low[:] = np.arange(place & LOW, (place & LOW) + len(low), dtype=np.uint64)
        rest.fill(high + (place >> 32) & LOW)
        for k in keys:
            np.multiply(low, _FACTOR, product)
            np.right_shift(product, _HALF, low)
            np.bitwise_xor(low, rest, low)
            np.bitwise_xor(low, k, low)
            np.bitwise_and(product, _LOW, rest)
        np.left_shift(rest, _HALF, rest)
        np.bitwise_or(low, rest, low)
