"""Rows of sorting and of elements picked by their place in order."""

import numpy as np

from tests.table.harness import BOOL, REAL, Bad, Row, call
from tests.table.pairs import along, exact, lines, order
from tests.table.samples import NONFINITE, floats

TIES = np.array([[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0], [0.0, -1.0, 5.0, 5.0]])
ODD = np.array([NONFINITE, NONFINITE[::-1]])
NONE = np.zeros((2, 0, 3))
NO_RULE = {"gradient rule": "the places are integers, which have no gradient to compare"}


def axis_error(name, keyword="axis", *more):
    return Bad(call(floats(2, 3), *more, **{keyword: 5}), f"{name}({keyword}): expected an axis in [-2, 1], got 5")


_along = [
    call(floats(2, 3)), call(floats(2, 3), axis=0), call(floats(2, 3, 2), -2, True), call(floats()), call(TIES, descending=True), call(TIES, 1, False,
        True),
    call(ODD), call(ODD, -1, True), call(ODD.T, 0, True, True), call(np.zeros(0)), call(NONE, axis=1), call(NONE, 0, True), call(floats(3, 70)),
]  # fmt: skip


def _sorted(x, axis=-1, descending=False, stable=False):
    return along(x, order(x, axis, descending), axis)


def _sort_grad(w, x, axis=-1, descending=False, stable=False):
    out = np.zeros(x.shape)
    if not x.ndim:
        return w
    np.put_along_axis(out, order(x, axis, descending), w, axis)
    return out


def _compat_sort(input, dim=-1, descending=False, stable=False):
    places = order(input, dim, descending)
    return along(input, places, dim), places


def _topk(x, k, axis=None, largest=True, sorted=True):
    axis = -1 if axis is None else axis
    if not x.ndim:
        return x, np.zeros((), int)
    places = np.take(order(x, axis, largest), np.arange(k), axis)
    return along(x, places, axis), places


def _kthvalue(x, k, axis=None, keepdim=False):
    axis = -1 if axis is None else axis
    if not x.ndim:
        return x, np.zeros((), int)
    places = np.take(order(x, axis), [k - 1], axis)
    found = along(x, places, axis), places
    return found if keepdim else tuple(np.squeeze(f, axis) for f in found)


def _mode_of(line):
    counts = [sum(1 for b in line if a == b) for a in line]  # NaN equals nothing
    best = max([*counts, 1])
    value = min([a for a, n in zip(line, counts, strict=True) if n == best], default=np.nan)
    return value, max(i for i, a in enumerate(line) if a == value)


def _mode(x, axis=-1, keepdim=False):
    if not x.ndim:
        return x, np.zeros((), int)
    found = lines(x, axis, _mode_of)
    return tuple(np.expand_dims(f, axis) for f in found) if keepdim else found


_tops = [
    call(floats(2, 5), 2), call(floats(3, 2), 2, 0), call(floats(2, 3, 2), k=2, axis=-2, largest=False), call(floats(), 1), call(TIES, 3),
    call(TIES, 3, largest=False), call(ODD, 3), call(ODD, 3, None, False), call(np.zeros((0, 3)), 2), call(NONE, 1, -1), call(floats(2, 90), 3),
    call(floats(2, 90), 80, sorted=False),
]  # fmt: skip
_kths = [
    call(floats(2, 5), 2), call(floats(3, 2), 3, 0, True), call(floats(2, 3, 2), k=2, axis=-2), call(floats(), 1), call(TIES, 3), call(ODD, 5),
    call(np.zeros((0, 3)), 2), call(NONE, 1, -1, keepdim=True),
]  # fmt: skip
_modes = [
    call(floats(2, 3)), call(TIES), call(TIES, 0, True), call(np.array([[2.0, 2.0, 1.0, 1.0, 1.0], [5.0, 4.0, 5.0, 4.0, 3.0]]), -1), call(floats()),
    call(ODD), call(np.zeros((0, 3)), 1), call(floats(2, 3, 2), axis=1),
]  # fmt: skip
_many = "an integer in [1, 3], the size of axis 1, got"

TABLE = [
    Row("sort", _along, _sorted, dtypes=REAL | BOOL, grad_ref=_sort_grad, bad=[axis_error("sort"), Bad(call(floats(2), None),
        "sort(axis): expected an integer, got None", TypeError),
        Bad(call(floats(2), dim=0), "sort(dim): expected a keyword among x, axis, descending, stable, name, got 'dim'\n  hint: use axis, or bireme.compat.sort", TypeError)]),
    Row("argsort", _along, lambda x, axis=-1, descending=False, stable=False: order(x, axis, descending), dtypes=REAL | BOOL, out="int64", grad=0,
        bad=[axis_error("argsort")]),
    Row("msort", [call(floats(3, 2)), call(floats()), call(NONE), call(ODD)], lambda input: _sorted(input, 0), dtypes=REAL | BOOL),
    Row("compat_sort", [call(floats(2, 3)), call(floats(2, 3), dim=0), call(TIES, -1, True), call(floats()), call(ODD, stable=True), call(NONE)],
        law=exact(_compat_sort), dtypes=REAL | BOOL, bad=[axis_error("sort", "dim")]),
    Row("topk", _tops, law=exact(_topk), dtypes=REAL, bad=[axis_error("topk", "axis", 1), Bad(call(floats(2, 3), 4), f"topk(k): expected {_many} 4"),
        Bad(call(floats(2, 3), 0), f"topk(k): expected {_many} 0"), Bad(call(floats(2, 3), "a"), "topk(k): expected an integer, got 'a'", TypeError),
        Bad(call(NONE, 1, 1), "topk(k): expected an integer in [1, 0], the size of axis 1, got 1")]),
    Row("topk_of", [call(floats(2, 5), 2, -1, True), call(floats(2, 3, 2), 2, 1, False), call(floats(), 1, 0, True), call(TIES, 3, 1, False),
        call(ODD, 3, -1, True), call(ODD, 3, -1, False), call(NONE, 1, -1, True), call(floats(2, 90), 3, 1, True)], law=exact(_topk), dtypes=REAL,
        skip=NO_RULE),
    Row("kthvalue", _kths, law=exact(_kthvalue), dtypes=REAL, skip=NO_RULE, bad=[axis_error("kthvalue", "axis", 1),
        Bad(call(floats(2, 3), 4), f"kthvalue(k): expected {_many} 4"), Bad(call(floats(2, 3), 0), f"kthvalue(k): expected {_many} 0")]),
    Row("mode", _modes, law=exact(_mode), dtypes=REAL, skip=NO_RULE, bad=[axis_error("mode"), Bad(call(floats(), 3),
        "mode(axis): expected an axis in [-1, 0], got 3"), Bad(call(NONE, 1), "mode(x): expected at least one element along axis 1, got shape [2, 0, 3]")]),
]  # fmt: skip
