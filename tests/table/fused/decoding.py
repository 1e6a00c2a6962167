"""Rows of what a language model does for the newest token of each text."""

import numpy as np

from tests.table.fused.attention import PARTS, ROUNDED, part
from tests.table.fused.pages import POOL, TABLES, _attended, _written, ints
from tests.table.harness import Bad, Row, call, still

X, MATRIX = part(2, 4), part(4, 6, seed=1)


def _gated(x, y):
    left, right = np.split(x @ y, 2, axis=1)
    return left / (1 + np.exp(-left)) * right


def _added(x, y, residual, weight, epsilon):
    out = residual + x @ y
    return out, out / np.sqrt((out**2).mean(1, keepdims=True) + epsilon) * weight


def _newest(made, rotation, pool, tables, places, scale, window):
    turns, value = made[:, :-2], made[:, -2:]
    if rotation:
        half = made.shape[2] // 2
        partner = np.concatenate([-turns[..., half:], turns[..., :half]], -1)
        turns = turns * rotation[0][:, None] + partner * rotation[1][:, None]
    new = np.concatenate([turns[:, -2:], value], 1)[:, None]
    pool = _written(pool, new, tables, places[:, None])
    return _attended(turns[:, None, :-2], pool, tables, places[:, None], scale, window)[:, 0], pool


_MADE, _WIDE = part(2, 8, 4, seed=2), part(4, 4, 2, 4, seed=5)
_ANGLE = part(2, 4, seed=3)

TABLE = [
    Row(
        "few_rows_product",
        [call(still(X), still(MATRIX), False), call(still(X), still(part(5, 4, seed=2)), True)],
        lambda x, y, transpose_y: x @ (y.T if transpose_y else y),
        dtypes=frozenset(),
        grad=0,
        loose=ROUNDED,
        skip={"0-d": PARTS, "zero size": "a text has a newest token"},
        bad=[
            Bad(call(X, X, False), "few_rows_product(y): expected a matrix for rows of shape [2, 4], got shape [2, 4]")
        ],
    ),
    Row(
        "gated_product",
        [call(still(X), still(MATRIX))],
        _gated,
        dtypes=frozenset(),
        grad=0,
        loose=ROUNDED,
        skip={"0-d": PARTS, "zero size": "a text has a newest token"},
        bad=[Bad(call(X, part(4, 5)), "gated_product(y): expected an even number of columns, got 5")],
    ),
    Row(
        "product_added",
        [call(still(X), still(MATRIX), still(part(2, 6, seed=2)), still(part(6, seed=3)), 1e-5)],
        _added,
        dtypes=frozenset(),
        grad=0,
        loose=ROUNDED,
        skip={"0-d": PARTS, "zero size": "a text has a newest token"},
        bad=[
            Bad(
                call(X, MATRIX, X, part(6), 1e-5),
                "product_added(residual): expected shape [2, 6] with a weight of shape [6], got shapes [2, 4] and [6]",
            )
        ],
    ),
    Row(
        "attend_newest",
        [
            call(still(part(2, 8, 3, seed=2)), [], still(POOL), TABLES, ints(3, -1), 0.5, 0),
            call(
                still(_MADE), [still(np.cos(_ANGLE)), still(np.sin(_ANGLE))], still(_WIDE), TABLES, ints(2, 3), 0.5, 2
            ),
        ],
        _newest,
        dtypes=frozenset(),
        grad=0,
        loose=ROUNDED,
        skip={"0-d": PARTS, "zero size": "a text has a newest token"},
        bad=[Bad(call(_MADE, [], POOL, TABLES, ints(3, 1), 0.5, 0), "attend_newest(made): expected [batch, heads")],
    ),
]
