"""Rows of messages along the edges of graphs."""

import numpy as np

from tests.table.graph.segment_pool import NO_SCALAR, _pool
from tests.table.harness import FLOAT, INT, Bad, Row, call
from tests.table.samples import floats

NONE = np.zeros(0, np.int64)
SRC, DST = np.array([0, 1, 2, 0]), np.array([1, 2, 1, 0])
MESSAGES = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def _send(x, src_index, dst_index, pool_type="sum", out_size=None):
    rows = x.shape[0] if out_size is None or int(out_size) <= 0 else int(out_size)
    return _pool(x[src_index.ravel()], dst_index.ravel(), pool_type, rows)


def _message(x, y, op):
    most = max(x.ndim, y.ndim, 2)
    left, right = (t.reshape(t.shape[0], *[1] * (most - t.ndim), *t.shape[1:]) for t in (x, y))
    return MESSAGES[op](left, right)


def _send_u(x, src_index, dst_index, reduce_op="sum", out_size=None):
    return _send(x, src_index, dst_index, reduce_op, out_size)


def _send_ue(x, y, src_index, dst_index, message_op="add", reduce_op="sum", out_size=None):
    rows = x.shape[0] if out_size is None else out_size
    return _pool(_message(x[src_index], y, message_op), dst_index, reduce_op, rows)


def _send_uv(x, y, src_index, dst_index, message_op="add"):
    return _message(x[src_index], y[dst_index], message_op)


TABLE = [
    Row(
        "graph_send_recv",
        [
            *[
                call(floats(3, 2), np.array([0, 1, 2, 0]), np.array([1, 2, 1, 0]), p)
                for p in ("sum", "mean", "max", "min")
            ],
            call(floats(3), np.array([[0], [2]]), np.array([[1], [1]]), "mean", 2),
            call(floats(3), np.array([0, 2]), np.array([1, 1]), out_size=5),
            call(floats(3), np.array([0]), np.array([1]), out_size=0),
            call(np.zeros((2, 0)), np.array([0]), np.array([1])),
            call(floats(2), NONE, NONE, "max"),
        ],
        _send,
        dtypes=FLOAT | INT,
        skip={"0-d": NO_SCALAR},
        bad=[
            Bad(
                call(floats(3), np.array([0]), np.array([1]), "bad"),
                "graph_send_recv(pool_type): expected one of 'sum', 'mean', 'max', 'min', got 'bad'",
            ),
            Bad(
                call(floats(3), np.array([0]), np.array([1, 2])),
                "graph_send_recv(dst_index): expected 1 elements, as src_index has",
            ),
            Bad(call(floats(3), np.array([0]), np.array([1], np.int32)), "graph_send_recv(dst_index): expected int64"),
            Bad(call(floats(3), np.array([0]), np.array([4])), "graph_send_recv(", IndexError),
            Bad(call(floats(3), np.array([4]), np.array([0])), "graph_send_recv(", IndexError),
            Bad(call(floats(), np.array([0]), np.array([0])), "graph_send_recv(x): expected a row for each node"),
        ],
    ),
    Row(
        "send_u_recv",
        [
            *[call(floats(3, 2), SRC, DST, p) for p in ("sum", "mean", "max", "min")],
            call(floats(3), np.array([[0], [2]]), np.array([[1], [1]]), out_size=5),
            call(floats(2), NONE, NONE, "max"),
        ],
        _send_u,
        dtypes=FLOAT | INT,
        skip={"0-d": NO_SCALAR},
        bad=[
            Bad(
                call(floats(3), SRC, DST, "bad"),
                "send_u_recv(reduce_op): expected one of 'sum', 'mean', 'max', 'min', got 'bad'",
            ),
            Bad(call(floats(3), SRC + 5, DST), "send_u_recv(", IndexError),
            Bad(call(floats(3), SRC, DST, out_size=1), "send_u_recv(", IndexError),
        ],
    ),
    Row(
        "send_ue_recv",
        [
            *[call(floats(3, 2), floats(4, 1), SRC, DST, m, p) for m in ("add", "sub", "mul") for p in ("sum", "max")],
            *[call(floats(3, 2, 1), floats(4, 1, 3), SRC, DST, "mul", p) for p in ("mean", "min")],
            call(floats(3, 2), floats(4), SRC, DST),
            call(floats(3), floats(4), SRC, DST, out_size=4),
            call(floats(2), np.zeros(0), NONE, NONE),
        ],
        _send_ue,
        dtypes=FLOAT | INT,
        skip={"0-d": NO_SCALAR},
        bad=[
            Bad(
                call(floats(3), floats(4), SRC, DST, "bad"),
                "send_ue_recv(message_op): expected one of 'add', 'sub', 'mul', 'div', got 'bad'",
            ),
            Bad(
                call(floats(3), floats(3), SRC, DST),
                "send_ue_recv(y): expected 4 rows, one for each edge, got shape [3]",
            ),
        ],
    ),
    Row(
        "send_uv",
        [
            *[call(floats(3, 2), floats(3, 1) + 3, SRC, DST, m) for m in ("add", "sub", "mul", "div")],
            call(floats(3, 2, 1), floats(3, 1, 3), SRC, DST),
            call(floats(3), floats(3), SRC, DST),
            call(floats(2), floats(2), NONE, NONE),
        ],
        _send_uv,
        dtypes=FLOAT | INT,
        skip={"0-d": NO_SCALAR},
        bad=[
            Bad(
                call(floats(3), floats(3), SRC, DST, "bad"),
                "send_uv(message_op): expected one of 'add', 'sub', 'mul', 'div', got 'bad'",
            ),
            Bad(
                call(floats(3), floats(3), SRC, DST.astype(np.int32)),
                "send_uv(dst_index): expected int64, as src_index is",
            ),
        ],
    ),
]
