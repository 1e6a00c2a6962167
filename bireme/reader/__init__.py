"""Readers: functions that give iterators over samples, and what makes others of them. Newer programs write a
`bireme.io.Dataset`.
"""

from bireme.reader.decorator import (
    ComposeNotAligned,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    shuffle,
    xmap_readers,
)

__all__ = [
    "ComposeNotAligned",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "shuffle",
    "xmap_readers",
]
