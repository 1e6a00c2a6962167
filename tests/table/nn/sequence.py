"""Rows of sequences of several lengths, whose rows stand behind each other."""

import numpy as np

from tests.table.harness import FLOAT, Bad, Row, call, still
from tests.table.samples import floats

NO_SCALAR = {"0-d": "it takes rows"}
GIVEN = "counts that it is given take the place of two columns of the gradient, see tests/test_static_more.py"
LENGTHS = np.array([2, 0, 1, 3])


def _parts(x, lengths):
    return np.split(x, np.cumsum(lengths)[:-1])


def _pool(x, lengths, pool, pad_value):
    how = {
        "sum": lambda part: part.sum(0),
        "average": lambda part: part.mean(0),
        "sqrt": lambda part: part.sum(0) / np.sqrt(len(part)),
        "max": lambda part: part.max(0),
        "first": lambda part: part[0],
        "last": lambda part: part[-1],
    }[pool]
    rows = [how(part) if len(part) else np.full(x.shape[1:], pad_value, x.dtype) for part in _parts(x, lengths)]
    return np.array(rows, x.dtype).reshape(len(lengths), *x.shape[1:])


def _softmax(x, lengths):
    return np.concatenate([np.exp(part) / np.exp(part).sum(0) for part in _parts(x, lengths)])


def _context(x, lengths, start, size):
    out = []
    for part in _parts(x, lengths):
        for i in range(len(part)):
            near = range(i + start, i + start + size)
            out.append([part[k] if 0 <= k < len(part) else np.zeros_like(part[0]) for k in near])
    return np.array(out, x.dtype).reshape(len(x), size, *x.shape[1:])


def _counts(x, cvm, use_cvm):
    if not use_cvm:
        return x[:, 2:]
    show = np.log(x[:, :1] + 1)
    return np.concatenate([show, np.log(x[:, 1:2] + 1) - show, x[:, 2:]], 1)


def _bad(name, *rest):
    where = f"{name}(lengths): expected a 1-D integer tensor"
    return [
        Bad(call(floats(6, 2), np.array([[6]]), *rest), where),
        Bad(call(floats(6, 2), np.array([6.0], "float32"), *rest), where),
    ]


POOLS = ("sum", "average", "sqrt", "max", "first", "last")
CVM = still(np.abs(floats(4, 2, seed=3)))

TABLE = [
    Row("pool_sequences", [*[call(floats(6, 2), LENGTHS, p, 7.0) for p in POOLS], call(floats(3), np.array([3]), "max", 0.0),
        *[call(np.zeros((0, 2)), np.zeros(2, np.int64), p, 1.0) for p in ("sum", "last")]],
        _pool, dtypes=FLOAT, skip=NO_SCALAR, bad=_bad("pool_sequences", "sum", 0.0)),
    Row("softmax_sequences", [call(floats(6, 1), np.array([2, 1, 3])), call(floats(6), np.array([6])),
        call(np.zeros((0, 1)), np.zeros(0, np.int64))], _softmax, dtypes=FLOAT, skip=NO_SCALAR, bad=_bad("softmax_sequences")),
    Row("sequence_context", [call(floats(6, 2), LENGTHS, -1, 3), call(floats(6, 2), LENGTHS, 1, 2),
        call(np.zeros((0, 2)), np.zeros(1, np.int64), 0, 2)], _context, dtypes=FLOAT, skip=NO_SCALAR,
        bad=_bad("sequence_context", 0, 2)),
    Row("continuous_values", [call(np.abs(floats(4, 3)), CVM, True), call(np.abs(floats(4, 5)), CVM, False),
        call(np.zeros((0, 3)), still(np.zeros((0, 2))), True)], _counts, dtypes=FLOAT,
        skip={**NO_SCALAR, "gradient": GIVEN, "gradient rule": GIVEN},
        bad=[Bad(call(floats(4, 3), floats(4, 1), True), "continuous_values(cvm): expected two columns")]),
]  # fmt: skip
