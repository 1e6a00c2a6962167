"""Rows of histograms, counts and sampling."""

import numpy as np

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, BOOL, COMPLEX, FLOAT, INT, REAL, Bad, Row, call, same, still, widen
from tests.table.samples import floats, ints

SINGLE = frozenset((dtypes.float32, dtypes.float64))
_x = floats(2, 5)


def _histogram(input, bins=100, min=0.0, max=0.0, weight=None, density=False):
    min, max = (int(min), int(max)) if input.dtype.kind in "iu" else (min, max)
    low, high = (min, max) if min != max else (input.min(), input.max()) if input.size else (0, 0)
    low, high = (low - 1, high + 1) if low == high else (low, high)
    weight = None if weight is None else weight.reshape(-1)
    found, _ = np.histogram(input.reshape(-1), bins, (low, high), weights=weight, density=density and bool(input.size))
    return found.astype(np.int64 if weight is None and not density else np.float32)


def _edges(input, bins=100, min=0.0, max=0.0):
    low, high = (min, max) if min != max or min != 0 else (input.min(), input.max())
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return np.linspace(low, high, bins + 1)


def _bin_of(x, low, high, bins):
    low, high = (low, high) if low != high else (x.min(), x.max())
    low, high = (low - 1, high + 1) if low == high else (low, high)
    place = np.floor((x - low) * bins / (high - low))
    return np.where((x >= low) & (x <= high), np.minimum(place, bins - 1), -1)


def _counts(places, weights, n):
    out = np.zeros(n, int if weights is None else weights.dtype)
    for i, p in enumerate(places.reshape(-1)):
        if 0 <= p < n:
            out[p] += 1 if weights is None else weights.reshape(-1)[i]
    return out


def _bincount(found, x, weights=None, minlength=0):
    """Sums are float64, unless the weights are float32."""
    want = np.bincount(x, None if weights is None else widen(weights).astype(float), int(minlength))
    single = weights is not None and weights.dtype == np.float32
    same(found, want.astype(np.float32) if single else want, 1e-6 if single else 1e-12, "counts")
    return True


def _cells(x, edges):
    found = np.zeros(x.shape[:-1])
    for i in np.ndindex(found.shape):
        for d, e in enumerate(edges):
            places = [k for k in range(len(e) - 1) if e[k] <= x[(*i, d)] < e[k + 1] or (k == len(e) - 2 and x[(*i, d)] == e[-1])]
            found[i] = found[i] * (len(e) - 1) + places[0] if places and found[i] >= 0 else -1e9
    return np.maximum(found, -1)


def _histogramdd(x, bins=10, ranges=None, density=False, weights=None):
    n = x.shape[-1]
    pairs = None if ranges is None else [ranges[2 * d : 2 * d + 2] for d in range(n)]
    hist, edges = np.histogramdd(x.reshape(-1, n), bins, pairs, density, None if weights is None else weights.reshape(-1))
    return [hist, *edges]


_points, _half = floats(6, 2), floats(2, 3, 2)
_bounds = [still([-3.0, -1.0, 0.5, 3.0]), still([-2.0, 0.0, 2.0])]
_bins = [
    call(floats(4, 3)), call(floats(4, 3), 4, -1, 2), call(floats(4, 3), bins=5, density=True), call(floats(4, 3), 4, -1.5, 2, density=True),
    call(floats(4, 3), 4, -1, 2, floats(4, 3, seed=1)), call(floats()), call(np.zeros((0, 2)), 4), call(np.zeros((0, 2)), 4, 0, 1, None, True),
    call(np.array([np.nan, 1.0, np.inf, 2.0, 5.0]), 4, 1, 5), call(np.full(3, 2.0), 4),
    call(ints(4, 3, low=-1, high=4), 4, 0.5, 2.5), call(ints(4, 3, low=-1, high=4), 4, 1.2, 1.9, density=True),
]  # fmt: skip

_chances = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])


def _drawn(got, x, ps, *more, **kwargs):
    """A value of each row with its place, among the likeliest that hold the part `ps`."""
    values, places = got[:2]
    for row, value, place, p in zip(x, values[:, 0], places[:, 0], np.asarray(ps).reshape(-1), strict=True):
        order = np.sort(np.asarray(row, float))[::-1]
        if row[place] != value or (kwargs.get("mode") != "non-truncated" and order[order > value].sum() >= p):
            return False
    return len(got) == 2 or (len(got) == 4 and got[2].shape == got[3].shape == (len(x), kwargs["k"]))


_draws = [call(_chances, still([0.5, 0.5])), call(_chances, still([[0.9], [0.1]])), call(np.zeros((0, 4)), still(np.zeros(0)))]
_rows = {"0-d": "it draws from rows"}
_ranges = [call(floats(4, 3), -1.0, 2.0, 4), call(floats(4, 3), 0.0, 0.0, 4), call(floats(), 0.0, 3.0, 2), call(np.zeros(0), 0.0, 1.0, 2)]
_exact = {"width": "edges are computed in double precision, or an element on one would fall beside it"}

TABLE = [
    Row("histogram", _bins, _histogram, dtypes=REAL, out="ref", grad=0, bad=[
        Bad(call(_x, 0), "histogram(bins): expected at least 1 bin, got 0"),
        Bad(call(_x, 4, 2, 1), "histogram(max): expected at least min, 2, got 1"),
        Bad(call(_x, 4, np.nan, 1), "histogram(min): expected a finite number, got nan"),
        Bad(call(_x, 4, 0, 1, floats(3)), "histogram(weight): expected shape [2, 5], float64, as input has, got a Tensor of shape [3], float64"),
        Bad(call(np.array([np.nan]), 4), "histogram(input): expected finite numbers where min and max are not given, got NaN or infinity"),
    ]),
    Row("histogram_bin_edges", [
        call(floats(4, 3)), call(floats(4, 3), 4, -1, 2), call(floats(), 3), call(np.zeros((0, 2)), 4, 0, 1), call(floats(2), 2, 1.5, 1.5),
    ], _edges, dtypes=REAL, unchecked=BOOL | COMPLEX, out="float32", grad=0,
        bad=[Bad(call(np.zeros(0)), "histogram_bin_edges(input): expected at least one element, since min and max are not given, got a Tensor of shape [0]")]),
    Row("bin_of", _ranges, _bin_of, dtypes=REAL, out="int64", grad=0, skip=_exact),
    Row("bin_edges", _ranges, lambda x, low, high, bins: _edges(x, bins, low, high), dtypes=REAL, out="float32", grad=0, skip=_exact),
    Row("count_into", [
        call(np.array([1, 2, 1, 7, -1]), None, 4), call(np.array([[1, 2], [1, 3]]), floats(2, 2), 4), call(np.array(1), None, 2),
        call(np.zeros(0, int), None, 3),
    ], _counts, dtypes=FLOAT, unchecked=ALL - FLOAT, out="last", grad=0),
    Row("bincount", [
        call(np.array([1, 2, 1, 4])), call(np.array([1, 2, 1]), floats(3)), call(np.array([1, 0], np.int32), minlength=5),
        call(np.zeros(0, int), None, 2),
    ], law=_bincount, dtypes=FLOAT | INT | BOOL, unchecked=COMPLEX, grad=0,
        skip={"static": "the shape of its result depends on values", "0-d": "it counts along its one axis"}, bad=[
        Bad(call(np.array([-1, 2])), "bincount(x): expected non-negative integers, got -1"),
        Bad(call(floats(2)), "bincount(x): expected an integer tensor, got a Tensor of shape [2], float64", TypeError),
        Bad(call(np.array([1]), None, -1), "bincount(minlength): expected a non-negative integer, got -1"),
        Bad(call(np.array([1]), floats(2)), "bincount(weights): expected shape [1], as x has, got a Tensor of shape [2], float64"),
        Bad(call(np.array(1)), "bincount(x): expected a 1-D tensor, got a Tensor of shape [], int64"),
    ]),
    Row("cell_of", [call(_points, _bounds), call(_half, _bounds), call(np.zeros((0, 2)), _bounds)], _cells, dtypes=FLOAT, out="int64", grad=0,
        skip={"0-d": "a point has coordinates"}),
    Row("histogramdd", [
        call(_points, 3), call(_half, [2, 3], [-3.0, 3.0, -2.0, 3.0]), call(_points, _bounds), call(_points, 2, None, True, floats(6, low=0.5)),
        call(np.zeros((0, 2)), 2, [0.0, 1.0, 0.0, 2.0]),
    ], _histogramdd, dtypes=SINGLE, grad=0, skip={"0-d": "a point has coordinates"}, bad=[
        Bad(call(floats(3)), "histogramdd(x): expected a tensor with at least 2 dimensions"),
        Bad(call(_points, "a"), "histogramdd(bins): expected an integer, a list of integers or a list of tensors, got 'a'"),
        Bad(call(_points, [2]), "histogramdd(bins): expected 2 entries, one for each coordinate"),
        Bad(call(_points, 0), "histogramdd(bins): expected at least 1 bin along each coordinate, got 0"),
        Bad(call(_points, 2, [0.0, 1.0]), "histogramdd(ranges): expected a list of 4 numbers, min and max of each of the 2 dimensions"),
        Bad(call(_points, 2, weights=floats(3)), "histogramdd(weights): expected shape [6], as x has before its last axis"),
    ]),
    Row("top_p_of", [call(s.args[0], s.args[1], None, None, True) for s in _draws], law=lambda got, x, ps, *more: _drawn(got, x, ps), dtypes=FLOAT,
        grad=0, skip=_rows),
    Row("top_p_sampling", [
        *_draws, call(_chances, still([0.5, 0.5]), seed=3), call(_chances, still([0.1, 0.1]), mode="non-truncated"),
        call(_chances, still([0.5, 0.5]), threshold=still([0.2, 0.2])), call(_chances, still([0.5, 0.5]), topp_seed=np.array([1, 2])),
        call(_chances, still([0.5, 0.5]), k=2, return_top=True),
    ], law=_drawn, dtypes=FLOAT, grad=0, skip=_rows, bad=[
        Bad(call(_chances, floats(3)), "top_p_sampling(ps): expected one element per row of x, 2, got shape [3]"),
        Bad(call(_chances, floats(2), mode="all"), "top_p_sampling(mode): expected 'truncated' or 'non-truncated', got 'all'"),
    ]),
]  # fmt: skip
