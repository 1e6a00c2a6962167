"""Rows of attention with keys and values in pages: row by row, token by token."""

import numpy as np

from tests.table.fused.attention import PARTS, ROUNDED, part, softmax
from tests.table.harness import Bad, Row, call, still

TABLES = np.array([[3, 1], [0, 2]], np.int32)
POOL = part(4, 4, 2, 3, seed=5)  # pages, heads of keys and of values, tokens, width


def ints(*rows):
    return np.array(rows, np.int32)


def _written(pool, rows, tables, places):
    out = pool.copy()
    for b in range(places.shape[0]):
        for t, place in enumerate(places[b]):
            if place >= 0:
                out[tables[b, place // pool.shape[2]], :, place % pool.shape[2]] = rows[b, t]
    return out


def _attended(query, pool, tables, places, scale, window):
    out, heads = np.zeros(query.shape), pool.shape[1] // 2
    for b in range(query.shape[0]):
        kept = np.moveaxis(pool[tables[b]], 1, 0).reshape(2 * heads, -1, pool.shape[3])
        for t, place in enumerate(places[b]):
            first = max(0, place - window + 1) if window else 0
            for h in range(query.shape[2]):
                g = h // (query.shape[2] // heads)
                if place >= 0:
                    keys, values = kept[g, first : place + 1], kept[heads + g, first : place + 1]
                    out[b, t, h] = softmax(keys @ query[b, t, h] * scale) @ values
    return out


TABLE = [
    Row(
        "write_pages",
        [
            call(still(POOL), still(part(2, 3, 4, 3)), TABLES, ints([0, 1, 2], [2, -1, -1])),
            call(still(POOL), still(np.zeros((2, 0, 4, 3))), TABLES, np.zeros((2, 0), np.int32)),
        ],
        _written,
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": PARTS},
        bad=[
            Bad(
                call(POOL, part(2, 1, 3, 3), TABLES, ints([3], [-1])),
                "write_pages(rows): expected shape [2, 1, 4, 3], got shape [2, 1, 3, 3]",
            ),
            Bad(
                call(POOL, part(2, 1, 4, 3), TABLES, ints([3])),
                "write_pages(tables): expected a pool [pages, heads, tokens, width]",
            ),
        ],
    ),
    Row(
        "paged_attention",
        [
            call(still(part(2, 1, 4, 3)), still(POOL), TABLES, ints([3], [1]), 0.5, 0),
            # rows that go far, of which a few tokens are seen
            call(
                still(part(1, 2, 2, 3)),
                still(part(20, 2, 16, 3, seed=8)),
                ints(list(range(19, -1, -1))),
                ints([140, 310]),
                1.0,
                100,
            ),
        ],
        _attended,
        dtypes=frozenset(),
        grad=0,
        loose=ROUNDED,
        skip={"0-d": PARTS, "zero size": "a batch has rows, and a model heads"},
        bad=[
            Bad(
                call(part(2, 1, 3, 3), POOL, TABLES, ints([3], [1]), 0.5, 0),
                "paged_attention(query): expected shape [2, 1, a multiple of 2, 3], got shape [2, 1, 3, 3]",
            )
        ],
    ),
    Row(
        "put_row",
        [call(part(3, 4), part(4, seed=1), ints(1)), call(ints([1, 2], [3, 4]), ints(7, 8), ints(0))],
        lambda x, row, place: np.concatenate([x[: place[0]], row[None], x[place[0] + 1 :]]),
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": PARTS, "zero size": "a matrix has the row"},
    ),
]
