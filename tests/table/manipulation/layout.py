"""The row of what says how a tensor lies on a mesh; without a mesh it says nothing."""

import numpy as np

from tests.table.harness import ALL, Row, call
from tests.table.samples import floats

TABLE = [
    Row("lay_out", [call(floats(2, 3)), call(floats()), call(np.zeros((2, 0, 3)))], lambda x: x, dtypes=ALL, grad=2),
]
