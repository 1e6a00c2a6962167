"""Rows of creation and of copies."""

import numpy as np

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, Bad, Row, call, still
from tests.table.samples import filled, floats, unary

NONE: frozenset = frozenset()
F32, F64, I64 = dtypes.float32, dtypes.float64, dtypes.int64


def wide(name, sizes="shape"):
    return Bad(call([-1, 2], *([0] if name == "full" else [])), f"{name}({sizes}): expected non-negative sizes, got [-1, 2]")


def _full(shape, fill_value, dtype=None, **_):
    kind = dtype or {bool: "bool", complex: "complex128"}.get(type(fill_value), "float32")
    return np.full(shape, float(fill_value) if isinstance(fill_value, str) else fill_value, kind)


def _constant(value):
    return lambda shape, dtype=None, **_: np.full(shape, value, dtype or "float32")


def _like(value):
    return lambda x, dtype=None: np.full(x.shape, value)


def _arange(start=0, end=None, step=1, dtype=None, **_):
    start, end, step = [None if v is None else v.item() if isinstance(v, np.ndarray) else v for v in (start, end, step)]
    kind = dtype or ("int64" if all(isinstance(v, int) for v in (start, end, step) if v is not None) else "float32")
    return (np.arange(start, end, step) if end is not None else np.arange(start)).astype(kind)


_shapes = [
    call([2, 3]),
    call([2, 3], "int32"),
    call([]),
    call([2, 0, 3]),
    call(shape=[3], dtype="float64"),
    call([2], dtype="bool"),
    call([np.array(2), 3]),
]
_news = [*filled([2, 3]), call(floats(2), 2, 3), call(floats(2), [], dtype="int32"), call(np.array([1, 2], np.int16), [0, 2])]


def _new(value):
    return lambda x, *size, dtype=None: np.full(size[0] if isinstance(size[0], list) else size, value)


def _linspace(start, stop, num, dtype="float32", base=None):
    start, stop = [float(v) if np.dtype(dtype).kind == "f" else int(v) for v in (start, stop)]
    found = np.linspace(start, stop, num)
    return (found if base is None else np.power(float(base if np.dtype(dtype).kind == "f" else int(base)), found)).astype(dtype)


def _range(start, end, step):
    start, end = (0, start) if end is None else (start, end)
    return np.array([start + i * step for i in range(int((end - start) / step + 1e-9) + 1)], float)


_likes = [*unary(), call(floats(2, 3), dtype="int32"), call(np.array([1, 2], np.int16))]


EXTENTS = {"zero size": "its only tensors are extents", "static": "extents are read when the call is recorded"}
_once = {"width": "numbers are computed in double precision and rounded once"}

TABLE = [
    Row("to_tensor", [call([[1, 2], [3, 4]]), call(1.5), call([True, False]), call([1 + 2j]), call([1, 2], dtype="float64"), call(floats(2, 3)),
        call(floats()), call(np.zeros((2, 0, 3)))],
        lambda data, dtype=None: np.asarray(data, dtype or (None if isinstance(data, np.ndarray) else {"f": "float32",
        "c": "complex64"}.get(np.asarray(data).dtype.kind))), dtypes=NONE, out="ref", grad=0,
        bad=[Bad(call("text"), "to_tensor(data): expected numbers, lists of numbers, an array or a Tensor, got 'text'", TypeError)]),
    Row("as_tensor", [call([[1, 2], [3, 4]]), call(1.5), call([1, 2], "float64"), call(floats(2, 3)), call(floats()), call(np.zeros((2, 0, 3)))],
        lambda data, dtype=None: np.asarray(data, dtype or (None if isinstance(data, np.ndarray) else {"f": "float32"}.get(
        np.asarray(data).dtype.kind))), dtypes=NONE, out="ref", grad=0,
        bad=[Bad(call("text"), "as_tensor(data): expected numbers, lists of numbers, an array or a Tensor, got 'text'", TypeError)]),
    Row("full_of", [call((F32, 2.5), [2, 3], "float32"), call((I64, 7), [2], "int64"), call(np.array(1.5), [2], "float64"), call(np.array([1.5]), [],
        "float64"), call((F32, 1.0), [2, 0], "float32")],
        lambda value, shape, dtype: np.full(shape, value[1] if isinstance(value, tuple) else value.ravel()[0], dtype), dtypes=NONE, out="ref", grad=0,
        skip={"zero size": "its operand is one number"}, bad=[Bad(call(floats(2), [2], "float32"),
        "full(fill_value): expected a number or a tensor of one element")]),
    Row("full", [call([2, 3], 7), call([2], True), call([2], 1 + 2j), call([2, 0], 1.5, "float16"), call(shape=[], fill_value=3, dtype="int64"),
        call([2], 2.5, "int32"), call([2], "-1.5e1")], _full, dtypes=NONE, out="ref", grad=0,
        bad=[wide("full"), Bad(call([2], "a"), "full(fill_value): expected a number, got 'a'", TypeError)]),
    Row("zeros", _shapes, _constant(0), dtypes=NONE, out="ref", grad=0, bad=[wide("zeros")], skip=EXTENTS),
    Row("ones", _shapes, _constant(1), dtypes=NONE, out="ref", grad=0, bad=[wide("ones")], skip=EXTENTS),
    Row("empty", _shapes, _constant(0), dtypes=NONE, out="ref", grad=0, bad=[wide("empty")], skip=EXTENTS),
    Row("full_like", [*filled(5), call(floats(2, 3), 1.5, dtype="int32"), call(floats(2), fill_value=True, dtype="bool")],
        lambda x, fill_value, dtype=None: np.full(x.shape, fill_value), dtypes=ALL - {dtypes.bool_}, grad=0,
        bad=[Bad(call(np.array([1], np.uint8), -1), "full_like(fill_value): expected a number in the range of uint8, got -1"),
        Bad(call(np.array([1], np.float32), 1e40), "full_like(fill_value): expected a number in the range of float32, got 1e+40")]),
    Row("empty_like", _likes, _like(0), dtypes=ALL, grad=0),
    *[Row(f"new_{n}", _news, _new(v), dtypes=ALL, grad=0, bad=[Bad(call(floats(2), [-1]), f"new_{n}(size): expected non-negative sizes, got [-1]")])
      for n, v in (("empty", 0), ("ones", 1), ("zeros", 0))],
    Row("new_full", [*filled([2, 3], 1), call(floats(2), [2], 7.5, dtype="int32"), call(floats(3), 2, fill_value=True)], lambda x, size, fill_value,
        dtype=None: np.full(size, fill_value), dtypes=ALL, grad=0,
        bad=[Bad(call(floats(2), [2], "a"), "new_full(fill_value): expected a number, got 'a'", TypeError)]),
    Row("zeros_like", _likes, _like(0), dtypes=ALL, grad=0),
    Row("ones_like", _likes, _like(1), dtypes=ALL, grad=0),
    Row("count_up", [call((I64, 3), (I64, 2), 4, "int64"), call((F64, 0.5), (F64, -0.25), 5, "float32"), call((I64, 0), (I64, 1), 0, "int32"),
        call(np.array(1.5), np.array(0.5), 3, "float64")],
        lambda start, step, size, dtype: np.array([(start[1] if isinstance(start, tuple) else start) + i * (step[1] if isinstance(step,
        tuple) else step) for i in range(size)], float).astype(dtype),
        dtypes=NONE, out="ref", grad=0, skip={"zero size": "its operands are numbers"}),
    Row("arange", [call(5), call(1, 7, 2), call(0, 1, 0.25), call(5, 0, -2), call(0), call(1.5, 4), call(0, 5, dtype="float16"),
        call(np.array(1), np.array(4))], _arange, dtypes=NONE, out="ref", grad=0,
        skip={"zero size": "its operands are numbers", "static": "its length depends on the values of its operands"},
        bad=[Bad(call(0, 5, 0), "arange(step): expected a nonzero step, got 0"), Bad(call("a"), "arange(end): expected a number, got 'a'",
        TypeError)]),
    Row("linspace_of", [call((F64, 0.0), (F64, 10.0), 5, "float32"), call((F64, 1.0), (F64, -1.0), 4, "float64"), call((F64, -3.0), (F64, 4.0), 6,
        "int32"), call((F64, 2.0), (F64, 3.0), 1, "float32"), call((F64, 0.0), (F64, 1.0), 0, "float32")],
        lambda start, stop, num, dtype: np.linspace(start[1], stop[1], num).astype(dtype), dtypes=NONE, out="ref", grad=0, skip=_once),
    Row("linspace", [call(0, 10, 5), call(1.0, -1.0, 4), call(2, 2, 1), call(0, 1, 3, "float64"), call(-3, 7, 11, dtype="float64"), call(0, 1, 0),
        call(-3.9, 4.2, 6, "int32"), call(np.array(0.5), np.array(2.5), 3)], _linspace, dtypes=NONE, out="ref", grad=0,
        skip={"zero size": "its operands are numbers"},
        bad=[Bad(call(0, 1, -1), "linspace(num): expected a non-negative integer, got -1"),
        Bad(call("a", 1, 2), "linspace(start): expected a real number, got 'a'", TypeError),
        Bad(call(0, 1, 2, "bool"), "linspace(dtype): expected an integer or floating-point dtype, got bool", TypeError)]),
    Row("logspace_of", [call((F64, 0.0), (F64, 2.0), (F64, 10.0), 5, "float32"), call((F64, 0.0), (F64, 3.0), (F64, -2.0), 4, "int32")],
        lambda start, stop, base, num, dtype: np.power(base[1], np.linspace(start[1], stop[1], num)).astype(dtype), dtypes=NONE, out="ref", grad=0,
        skip=_once),
    Row("logspace", [call(0, 2, 5), call(0, 3, 4, 2), call(1.5, -1.0, 4, dtype="float64"), call(0.0, 3.9, 7, 2.5, "int32"),
        call(np.array(1.0), 2, 3)],
        lambda start, stop, num, base=10.0, dtype="float32": _linspace(start, stop, num, dtype, base), dtypes=NONE, out="ref", grad=0,
        skip={"zero size": "its operands are numbers"}, bad=[Bad(call(0, 1, 0), "logspace(num): expected a positive integer, got 0")]),
    Row("range", [call(5), call(1, 7, 2), call(0, 1, 0.25), call(5, 0, -2), call(0), call(1.5, 4), call(0, 7, 3, "int32"), call(np.array(1),
        np.array(4))], lambda start=0, end=None, step=1, dtype="float32": _range(start, end, step).astype(dtype), dtypes=NONE, out="ref", grad=0,
        skip={"zero size": "its operands are numbers", "static": "its length depends on the values of its operands"},
        bad=[Bad(call(0, 5, 0), "range(step): expected a nonzero step, got 0"),
        Bad(call(5, 0), "range(end): expected an end that steps of 1 from 5 can reach, got 0")]),
    Row("eye_of", [call(2, 3, "float32"), call(3, 3, "int64"), call(0, 2, "float32")], lambda n, m, dtype: np.eye(n, m, dtype=dtype), dtypes=NONE,
        out="ref", grad=0),
    Row("eye", [call(2), call(2, 3), call(3, dtype="int64"), call(0)], lambda n, m=None, dtype=None: np.eye(n, m, dtype=dtype or "float32"),
        dtypes=NONE, out="ref", grad=0,
        bad=[Bad(call(-1), "eye(num_rows): expected a non-negative integer, got -1", TypeError),
        Bad(call(2, "int32"), "eye(num_columns): expected a non-negative integer, got 'int32'", TypeError)]),
    Row("clone", unary(), np.copy, dtypes=ALL),
    Row("assign", [*unary(), call(floats(2), still(np.zeros(3)))], lambda x, output=None: np.copy(x), dtypes=ALL,
        bad=[Bad(call("text"), "assign(x): expected a Tensor, an array, numbers or lists of numbers, got 'text'", TypeError)]),
]  # fmt: skip
