"""The row of the trace, a sum along a diagonal."""

import numpy as np

from tests.table.harness import NUMBER, Bad, Row, call
from tests.table.samples import floats

SAMPLES = [
    call(floats(3, 3)),
    call(floats(2, 3), 1),
    call(floats(2, 3), offset=-1),
    call(floats(2, 3), 7),
    call(floats(2, 3, 4), 0, -1, 0),
    call(floats(2, 3, 4), axis1=1, axis2=2),
    call(floats(0, 3)),
    call(floats(2, 0, 3)),
]


def _trace(x, offset=0, axis1=0, axis2=1):
    return np.diagonal(x, offset, axis1, axis2).sum(-1, dtype=x.dtype)


TABLE = [
    Row("trace", SAMPLES, _trace, dtypes=NUMBER, skip={"0-d": "a matrix has two axes"}, bad=[
        Bad(call(floats(2, 3), axis1=7), "trace(axis1): expected an axis in [-2, 1], got 7"),
        Bad(call(floats(2, 3), 0, 1, 1), "trace(axis2): expected an axis other than axis1, got 1"),
        Bad(call(floats(3)), "trace(x): expected"),
        Bad(call(np.ones((2, 2), bool)), "trace(x): expected a numeric dtype, got bool", TypeError),
        Bad(call("a"), "trace(x): expected a Tensor", TypeError),
    ]),
]  # fmt: skip
