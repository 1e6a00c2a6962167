"""Rows of comparison, logic and bits."""

import numpy as np

from tests.table.elementwise import SMALL_INTS, no_type, pair
from tests.table.harness import ALL, FLOAT, REAL, Bad, Row, call, still
from tests.table.samples import broadcasting, floats, ints, unary, with_number


def whole(low=-9, high=9):
    """Pairs of integers that broadcast."""
    return [call(*[ints(*a.shape, low=low, high=high, seed=i) for i, a in enumerate(s.args)]) for s in broadcasting(nonfinite=False)]


def _shift(towards, x, y, is_arithmetic=True):
    """By Python's integers, which have room for everything."""
    size = x.dtype.itemsize * 8

    def one(a, n):
        a, n = int(a), int(n)
        if not is_arithmetic and a < 0 and towards < 0:
            a += 1 << size
        n = n if 0 <= n < size else size
        a = a << n if towards > 0 else a >> n
        low = 0 if x.dtype.kind == "u" else -(1 << (size - 1))
        return (a - low) % (1 << size) + low

    x, y = np.broadcast_arrays(x, y)
    return np.array([one(a, n) for a, n in zip(x.ravel(), y.ravel(), strict=True)], object).astype(x.dtype).reshape(x.shape)


def _shifts(name, towards):
    counts = np.array([0, 1, 7, 8, -1, 3], np.int8)
    samples = [*[call(s.args[0], abs(s.args[1])) for s in whole()], call(SMALL_INTS, counts), call(SMALL_INTS, counts, False),
               call(SMALL_INTS, counts, is_arithmetic=False), call(SMALL_INTS.view(np.uint8), counts.view(np.uint8)), call(ints(2, 3), 2),
               call(np.array([-5, 7]), np.array([63, 64]))]  # fmt: skip
    row = pair(name, lambda x, y, is_arithmetic=True: _shift(towards, x, y, is_arithmetic), samples, dtypes=frozenset(), grad=0, wrong=int,
               bad=[no_type(name.removesuffix("_"), "float32", n=2)])  # fmt: skip
    if name.endswith("_"):
        row.samples = [s for s in samples if np.broadcast_shapes(*[np.shape(a) for a in s.args[:2]]) == s.args[0].shape]
        row.bad = [Bad(call(np.ones((2, 1), int), np.ones(3, int)), f"{name}(x): expected a result of x's shape [2, 1], got shape [2, 3]")]
    return row


def _multiplex(inputs, index):
    return np.stack([inputs[k][i] for i, k in enumerate(index[:, 0])]) if index.size else inputs[0][:0]


_PICK = np.array([[2], [0], [1], [0]])

TABLE = [
    *[pair(name, ref, [*with_number(broadcasting(), 2, 0.5), call(np.array([1, 2, 3]), np.array([3, 2, 1])), call(floats(2, 3), floats(2, 3))],
        dtypes=ALL, out="bool", grad=0)
      for name, ref in {"equal": np.equal, "not_equal": np.not_equal}.items()],
    *[pair(name, ref, [*with_number(broadcasting(), 2, 0.5), call(np.array([1, 2, 3]), np.array([3, 2, 1]))], dtypes=ALL, out="bool", grad=0)
      for name, ref in {"less_than": np.less, "less_equal": np.less_equal, "greater_than": np.greater, "greater_equal": np.greater_equal}.items()],
    *[pair(name, ref, broadcasting(), dtypes=ALL, out="bool", grad=0) for name, ref in {"logical_and": np.logical_and,
        "logical_or": np.logical_or, "logical_xor": np.logical_xor}.items()],
    Row("logical_not", unary(), np.logical_not, dtypes=ALL, out="bool", grad=0),
    *[pair(name, ref, [*whole(), call(np.array([True, False]), np.array([True, True])), call(SMALL_INTS, SMALL_INTS[::-1].copy())],
           dtypes=frozenset(), grad=0, wrong=int, bad=[no_type(name, "float32", n=2)])
      for name, ref in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}.items()],
    Row("bitwise_not", [call(ints(2, 3)), call(np.array([True, False])), call(SMALL_INTS), call(np.array(5)), call(np.zeros((2, 0, 3), int)),
        call(np.array([0, 255], np.uint8))],
        np.invert, dtypes=frozenset(), grad=0, bad=[no_type("bitwise_not", "float32")]),
    _shifts("bitwise_left_shift", 1),
    _shifts("bitwise_right_shift", -1),
    _shifts("bitwise_left_shift_", 1),
    _shifts("bitwise_right_shift_", -1),
    *[Row(name, [*unary(), call(SMALL_INTS)], ref, dtypes=ALL, out="bool", grad=0) for name, ref in {"isnan": np.isnan, "isinf": np.isinf,
        "isfinite": np.isfinite}.items()],
    *[Row(name, [*unary(), call(SMALL_INTS)], ref, dtypes=REAL, out="bool", grad=0, bad=[no_type(name)])
      for name, ref in {"isposinf": lambda x: x == np.inf, "isneginf": lambda x: x == -np.inf}.items()],
    Row("isreal", [*unary(), call(np.array([1 + 0j, 1j, 2 - 0j]))], np.isreal, dtypes=ALL, out="bool", grad=0),
    Row("select", [call(floats(2, 3) > 0, floats(2, 3), floats(3)), call(np.array([True, False, True]), floats(2, 1), floats()), call(np.array(True),
        floats(), floats(seed=1)),
                   call(np.zeros((2, 0, 3), bool), np.zeros((2, 0, 3)), floats(3)), call(np.array([True, False]), floats(2), 0.0)],
        lambda c, x, y: np.where(c, x, y), dtypes=ALL, out="last",
        bad=[Bad(call(np.ones(4, bool), floats(3), floats(3)), "where(): expected shapes that broadcast together")]),
    Row("where_", [call(floats(2, 3) > 0, still(floats(2, 3)), still(floats(3))), call(np.array(True), still(floats()), still(floats(seed=1))),
                   call(np.zeros((2, 0, 3), bool), still(np.zeros((2, 0, 3))), still(floats(3))),
                   call(np.array([True, False]), x=still(floats(2)), y=0.0)],
        lambda condition, x, y: np.where(condition, x, y), dtypes=ALL, out="last", grad=0,
        bad=[Bad(call(np.ones(3, bool), floats(3)), "where_(x, y): expected both x and y, got one of them"),
             Bad(call(np.ones(3), floats(3), floats(3)), "where_(condition): expected a bool tensor", TypeError),
             Bad(call(np.ones((2, 3), bool), floats(3), floats(3)), "where_(x): expected a result of x's shape [3], got shape [2, 3]")]),
    Row("multiplex", [call([floats(4, 3, seed=i) for i in range(3)], _PICK),
                      call([floats(4, 2, 2, seed=i) for i in range(3)], _PICK.astype(np.int32)),
                      call([floats(4, 3), floats(4, 3, seed=1)], _PICK[1:3]), call([np.zeros((0, 3))] * 2, np.zeros((0, 1), int)),
                      call([np.zeros((4, 0))] * 3, _PICK)],
        _multiplex, dtypes=ALL, skip={"0-d": "there are no rows", "method": "a tensor is no list of tensors"},
        bad=[Bad(call([floats(4, 3)], _PICK * 0), "multiplex(inputs): expected at least two tensors, got 1"),
             Bad(call([floats(4), floats(4)], _PICK * 0), "multiplex(inputs[0]): expected at least 2 dimensions, got shape [4]"),
             Bad(call([floats(4, 3), floats(4, 2)], _PICK * 0), "multiplex(inputs[1]): expected shape [4, 3] like the first, got shape [4, 2]"),
             Bad(call([floats(4, 3)] * 2, np.ones(4, int)), "multiplex(index): expected an integer tensor of shape [4, 1], got int64 of shape [4]"),
             Bad(call([floats(4, 3)] * 2, _PICK), "multiplex(index): expected indices in [0, 1], got 2", IndexError)]),
    Row("any_outside", [call(np.array([0, 4]), 0, 5), call(np.array([0, 5]), 0, 5), call(np.array([-1, 2]), 0, 5), call(np.array(7), 0, 5),
        call(np.zeros((2, 0), int), 0, 5), call(np.array([0, 4], np.uint8), -5, 5), call(np.array([7], np.int8), 0, 200)],
        lambda x, low, high: np.any((x < low) | (x >= high)), dtypes=frozenset(), out="bool", grad=0),
    Row("equal_all", [call(floats(2, 3), floats(2, 3)), call(floats(2, 3), floats(2, 3, seed=1)), call(floats(2, 3), floats(3)),
        call(floats(), floats()), call(np.zeros(0), np.zeros(0))],
        lambda x, y: np.array_equal(x, y), dtypes=ALL, out="bool", grad=0),
    *[Row(name, [call(floats(2, 3), floats(2, 3) + 1e-9), call(floats(2, 3), floats(2, 3) + 0.1), call(floats(), floats()),
                 call(np.zeros((2, 0, 3)), np.zeros((2, 0, 3))), call(np.array([np.nan, np.inf, 1.0]), np.array([np.nan, np.inf, -np.inf])),
                 call(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), equal_nan=True),
                 call(np.array([np.inf]), np.array([-np.inf]), rtol=1.0),
                 call(floats(3), floats(3) * 1.01, rtol=0.1), call(floats(3), floats(3) + 0.05, 0.0, 0.1)],
          ref, dtypes=FLOAT, unchecked=ALL - FLOAT, out="bool", grad=0) for name, ref in {"isclose": np.isclose, "allclose": np.allclose}.items()],
    Row("contained", [call(floats(2, 3), floats(2, 3).ravel()[:2].copy(), False), call(np.arange(40) % 17, np.array([3, 16]), True),
                      call(np.array(2.0), np.array([2.0]), False), call(np.zeros(0), floats(3), False),
                      call(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), False)],
        lambda x, y, invert: np.isin(x, y, invert=invert), dtypes=ALL, out="bool", grad=0),
    Row("isin", [call(floats(2, 3), floats(2, 3).ravel()[:2].copy()), call(np.arange(40) % 17, np.array([[3, 16]]), invert=True),
                 call(np.array(2.0), np.array(2.0)), call(np.zeros((2, 0)), floats(3)), call(floats(3), np.zeros(0)),
                 call(floats(3), floats(3), True, False)],
        lambda x, y, assume_unique=False, invert=False: np.isin(x, y, invert=invert), dtypes=ALL, out="bool", grad=0,
        bad=[Bad(call(np.ones(2, int), floats(2)), "isin(): expected operands whose dtypes promote, got int64 and float64", TypeError)]),
]  # fmt: skip
