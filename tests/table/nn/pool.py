"""Rows of pooling, of columns and back, and of the way back from max pooling."""

import math

import numpy as np

from tests.table.harness import COMPLEX, FLOAT, INT, Bad, Row, call
from tests.table.nn.conv import each, pads_of
from tests.table.pairs import exact
from tests.table.samples import floats

HALF_SUMS = (3, "half precision loses digits in sums of products")
IMAGES = {"0-d": "it takes a batch of images"}
INDEX = {**IMAGES, "gradient rule": "one of its results is an index"}
FORMATS = {1: "NLC", 2: "NHWC", 3: "NDHWC"}
DIMS = {1: (7,), 2: (5, 4), 3: (4, 3, 5)}


def _regular(dims, kernel_size, stride=None, padding=0, ceil_mode=False):
    """Windows by axis: (first element, first one after), which may lie outside of the image."""
    n = len(dims)
    size = each(kernel_size, n)
    stride = size if stride is None else each(stride, n)
    found = []
    for m, k, s, (a, b) in zip(dims, size, stride, pads_of(padding, dims, size, stride), strict=True):
        count = math.ceil((m + a + b - k) / s) if ceil_mode else (m + a + b - k) // s
        found.append([(i * s - a, i * s - a + k) for i in range(count + 1)])
    return found


def _even(dims, output_size):
    sizes = [m if size is None else size for m, size in zip(dims, each(output_size, len(dims)), strict=True)]
    return [
        [(i * m // size, -(-(i + 1) * m // size)) for i in range(size)] for m, size in zip(dims, sizes, strict=True)
    ]


def _fractional(dims, u, output_size, kernel_size=None):
    """By the formulas of the paper, in float32."""
    found, u = [], np.float32(u)
    for m, size, k in zip(dims, each(output_size, len(dims)), each(kernel_size, len(dims)), strict=True):
        ratio, v = np.float32(m - (k or 0)) / np.float32(size - bool(k) or 1), u
        if not k:
            v = u * np.float32(min((m // size + 2) / ratio - 1, (m + 1 - m // size) / ratio - (size - 1)))
        at = [int(np.floor((np.float32(i) + v) * ratio) - np.floor(v * ratio)) for i in range(size + 1)]
        found.append([(at[i], at[i] + k if k else at[i + 1]) for i in range(size)])
    return found


def _over(x, windows, reduce, last=False):
    """`reduce` of what each window has of a plane: (elements [batch, channels, ...], their places, the windows'
    bounds).
    """
    x = np.moveaxis(x, -1, 1) if last else x
    dims = x.shape[2:]
    places = np.arange(math.prod(dims)).reshape(dims)
    outs = None
    for at in np.ndindex(*map(len, windows)):
        bounds = [w[i] for w, i in zip(windows, at, strict=True)]
        part = tuple(slice(max(a, 0), max(b, 0)) for a, b in bounds)
        results = reduce(x[(..., *part)].reshape(*x.shape[:2], places[part].size), places[part].reshape(-1), bounds)
        if outs is None:
            outs = [np.zeros((*x.shape[:2], *map(len, windows))) for _ in results]
        for o, r in zip(outs, results, strict=True):
            o[(..., *at)] = r
    outs = outs or [np.zeros((*x.shape[:2], *map(len, windows)))] * 2
    return [np.moveaxis(o, 1, -1) if last else o for o in outs]


def _first(part, places, bounds):
    return part.max(-1), places[part.argmax(-1)]


def _spatial(x, data_format):
    return x.shape[1:-1] if data_format[-1] == "C" else x.shape[2:]


def _max(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format="NC?"):
    windows = _regular(_spatial(x, data_format), kernel_size, stride, padding, ceil_mode)
    out, place = _over(x, windows, _first, data_format[-1] == "C")
    return (out, place.astype(np.int32)) if return_mask else out


def _max_in_windows(x, kernel_size, stride, padding, ceil_mode, data_format):
    """The largest elements, and where in its window each is."""
    dims = _spatial(x, data_format)

    def first(part, places, bounds):
        inside = [at - a for at, (a, _) in zip(np.unravel_index(places, dims), bounds, strict=True)]
        return _first(part, np.ravel_multi_index(inside, kernel_size), bounds)

    out, tap = _over(x, _regular(dims, kernel_size, stride, padding, ceil_mode), first, data_format[-1] == "C")
    return out, tap.astype(np.uint8 if math.prod(kernel_size) < 256 else np.int32)


def _max_grad(w, x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format="NC?"):
    windows = _regular(_spatial(x, data_format), kernel_size, stride, padding, ceil_mode)
    return _first_grad(w, x, windows, data_format[-1] == "C")


def _first_grad(w, x, windows, last=False):
    """All of the gradient goes to the first largest element of its window."""
    place = _over(x, windows, _first, last)[1].astype(int)
    w, place = [np.moveaxis(a, -1, 1) if last else a for a in (w, place)]
    shape = (x.shape[0], x.shape[-1], *x.shape[1:-1]) if last else x.shape
    grad = np.zeros((*shape[:2], math.prod(shape[2:])))
    for b, c in np.ndindex(*shape[:2]):
        np.add.at(grad[b, c], place[b, c].ravel(), w[b, c].ravel())
    grad = grad.reshape(shape)
    return np.moveaxis(grad, 1, -1) if last else grad


def _avg(
    x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None, data_format="NC?"
):
    dims, n = _spatial(x, data_format), x.ndim - 2
    windows = _regular(dims, kernel_size, stride, padding, ceil_mode)
    before = [-w[0][0] if w else 0 for w in windows]
    full = math.prod(each(kernel_size, n))

    def mean(part, places, bounds):
        count = (
            len(places)
            if exclusive
            else math.prod([min(b, m + a) - max(s, -a) for (s, b), m, a in zip(bounds, dims, before, strict=True)])
        )
        return (part.sum(-1) / count * (full / divisor_override if divisor_override else 1),)

    return _over(x, windows, mean, data_format[-1] == "C")[0]


def _lp(x, norm_type, kernel_size, stride=None, padding=0, ceil_mode=False, data_format="NC?"):
    windows = _regular(_spatial(x, data_format), kernel_size, stride, padding, ceil_mode)

    def norm(part, places, bounds):
        return (part.max(-1) if norm_type == np.inf else (part**norm_type).sum(-1) ** (1 / norm_type),)

    return _over(x, windows, norm, data_format[-1] == "C")[0]


def _adaptive_avg(x, output_size, data_format="NC?"):
    if not all(_spatial(x, data_format)):  # means of nothing
        return np.full((*x.shape[:2], *[output_size] * (x.ndim - 2)), np.nan, x.dtype)
    windows = _even(_spatial(x, data_format), output_size)
    return _over(x, windows, lambda part, places, bounds: (part.mean(-1),), data_format[-1] == "C")[0]


def _adaptive_max(x, output_size, return_mask=False):
    if all(x.shape[2:]):
        out, place = _over(x, _even(x.shape[2:], output_size), _first)
    else:  # the largest of nothing
        shape = (*x.shape[:2], *each(output_size, x.ndim - 2))
        out, place = np.full(shape, np.nan), np.zeros(shape)
    return (out, place.astype(np.int32)) if return_mask else out


def _adaptive_max_grad(w, x, output_size, return_mask=False):
    return _first_grad(w, x, _even(x.shape[2:], output_size))


def _fractional_max(x, output_size, kernel_size=None, random_u=None, return_mask=False):
    out, place = _over(x, _fractional(x.shape[2:], random_u, output_size, kernel_size), _first)
    return (out, place.astype(np.int32)) if return_mask else out


def _fractional_max_grad(w, x, output_size, kernel_size=None, random_u=None, return_mask=False):
    return _first_grad(w, x, _fractional(x.shape[2:], random_u, output_size, kernel_size))


# ---------------------------------------------------------------- samples


def _pool_samples(n, more=(), formats=True):
    dims = DIMS[n]
    x, empty = floats(2, 2, *dims), np.zeros((0, 2, *dims))
    found = [
        call(x, 2),
        call(x, 3, 2, 1),
        call(x, [2, 3, 1][:n], 1, ceil_mode=True),
        call(x, 3, 2, "SAME"),
        call(x, 2, 2, "SAME"),  # an odd number of elements to add
        call(x, 2, 3, [0, 1] * n, ceil_mode=True) if n == 1 else call(x, 3, 2, [1, 0] * n),
        call(floats(1, 1, *[30] * (n if n == 1 else 1), *dims[1:]), (28, 2, 2)[:n], 1),
    ]
    if formats:
        found.append(call(floats(1, *dims, 2), 2, data_format=FORMATS[n]))
    return [*found, *more, call(empty, 2), call(x, [m + 1 for m in dims], 1)]  # the last one step short of a place


def _bad(name, n):
    x = floats(2, 2, *DIMS[n])
    return [
        Bad(call(floats(2, 3), 2), f"{name}(x): expected shape [batch, channels, "),
        Bad(call(x, 0), f"{name}(kernel_size): expected a positive integer, got 0"),
        Bad(call(x, 2, 0), f"{name}(stride): expected a positive integer, got 0"),
        Bad(call(x, [2] * 5), f"{name}(kernel_size): expected an integer"),
        Bad(call(x, 2, 1, -1), f"{name}(padding): expected non-negative padding, got -1"),
        Bad(call(x, 2, 1, "FULL"), f"{name}(padding): expected 'SAME', 'VALID' or integers, got 'FULL'"),
        Bad(
            call(x, 9, 1),
            f"{name}(kernel_size): expected a kernel size of at most the padded input size, for an input size of {DIMS[n][0]}, got 9",
        ),
        Bad(
            call(x, 2, 1, "VALID", ceil_mode=True),
            f"{name}(ceil_mode): expected False, because padding is 'VALID', got True",
        ),
    ]


def _max_row(n):
    name, x = f"max_pool{n}d", floats(2, 2, *DIMS[n])
    ties = np.round(floats(1, 2, *DIMS[n], low=-1, high=1))
    bad = [*_bad(name, n)]
    if n > 1:
        bad.append(
            Bad(
                call(floats(1, *DIMS[n], 2), 2, return_mask=True, data_format=FORMATS[n]),
                f"{name}(data_format): expected 'NC",
            )
        )
        bad.append(Bad(call(x, 2, data_format="CHW"), f"{name}(data_format): expected 'NC"))
    tied = [call(ties, 2), call(ties, 3, 1, 1), call(ties, 3, 1, 1, return_mask=True), call(ties, 3, 2, 1, True, True)]
    samples = _pool_samples(n, [*tied, call(x, 3, 2, "SAME", return_mask=True)], formats=n > 1)
    return Row(name, samples, law=exact(_max, None), grad_ref=_max_grad, dtypes=FLOAT, skip=IMAGES, bad=bad)


def _avg_row(n):
    name, x = f"avg_pool{n}d", floats(2, 2, *DIMS[n])
    more = [call(x, 3, 2, 1, exclusive=False, ceil_mode=True), call(x, 3, 2, "SAME", exclusive=False)]
    bad = _bad(name, n)
    if n > 1:
        more.append(call(x, 2, 2, 1, divisor_override=3.0))
        bad = [
            *bad,
            Bad(call(x, 2, divisor_override=0), f"{name}(divisor_override): expected a positive number, got 0"),
            Bad(call(x, 2, divisor_override=[2]), f"{name}(divisor_override): expected a number, got", TypeError),
        ]
    return Row(name, _pool_samples(n, more, formats=n > 1), _avg, dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS, bad=bad)


def _lp_row(n):
    name = f"lp_pool{n}d"
    plus, x = floats(2, 2, *DIMS[n], low=0.2), floats(2, 2, *DIMS[n])
    samples = [
        call(plus, 2, 2),
        call(plus, 3, 3, 2, 1),
        call(plus, 0.5, 2, 1, ceil_mode=True),
        call(plus, -1.0, 2, 2, "SAME"),  # an odd number of elements to add
        call(x, float("inf"), 2),
        call(x, 1, 2),
        call(floats(1, *DIMS[n], 2, low=0.2), 2, 2, data_format=FORMATS[n]),
        call(np.zeros((0, 2, *DIMS[n])), 2, 2),
    ]
    bad = [Bad(call(x, 0, 2), f"{name}(norm_type): expected a nonzero number or infinity, got 0")]
    return Row(name, samples, _lp, dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS, bad=bad)


def _adaptive_samples(n, **more):
    dims = DIMS[n]
    x = floats(2, 2, *dims)
    return [
        call(x, 1, **more),
        call(x, 2, **more),
        call(x, [3, 2, None][:n] if n > 1 else 3, **more),
        call(x, list(dims), **more),
        call(x, [m + 2 for m in dims], **more),
        call(np.zeros((0, 2, *dims)), 2, **more),
        call(np.zeros((2, 2, *dims[1:], 0)), 2, **more),
        call(x, 0, **more),
    ]


def _adaptive_bad(name, n):
    x = floats(2, 2, *DIMS[n])
    return [
        Bad(call(floats(2, 3), 2), f"{name}(x): expected shape [batch, channels, "),
        Bad(call(x, -1), f"{name}(output_size): expected a non-negative integer, got -1"),
        Bad(call(x, [2] * 5), f"{name}(output_size): expected an integer"),
        Bad(call(x, None), f"{name}(output_size): expected an integer"),
    ]


def _adaptive_avg_row(n):
    name = f"adaptive_avg_pool{n}d"
    samples = _adaptive_samples(n) + ([call(floats(1, *DIMS[n], 2), 2, data_format=FORMATS[n])] if n > 1 else [])
    return Row(name, samples, _adaptive_avg, dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS, bad=_adaptive_bad(name, n))


def _adaptive_max_row(n):
    name, ties = f"adaptive_max_pool{n}d", np.round(floats(1, 2, *DIMS[n], low=-1, high=1))
    masked = [call(a, size, return_mask=True) for a in (ties, floats(2, 2, *DIMS[n])) for size in (3, list(DIMS[n]))]
    samples = [*_adaptive_samples(n), call(ties, 2), *masked, call(np.zeros((2, 2, *DIMS[n][1:], 0)), 2, True)]
    return Row(
        name,
        samples,
        law=exact(_adaptive_max, None),
        grad_ref=_adaptive_max_grad,
        dtypes=FLOAT,
        skip=IMAGES,
        bad=_adaptive_bad(name, n),
    )


def _fractional_row(n):
    name, dims = f"fractional_max_pool{n}d", {2: (8, 7), 3: (5, 6, 4)}[n]
    x = floats(2, 2, *dims)
    samples = [
        call(x, 3, random_u=0.3),
        call(x, [2, 3, 2][:n], 2, 0.7),
        call(x, 1, random_u=0.9),
        call(x, list(dims), random_u=0.5),
        call(np.zeros((0, 2, *dims)), 2, random_u=0.4),
        call(x, 3, random_u=0.3, return_mask=True),
        call(np.round(floats(1, 2, *dims, low=-1, high=1)), 3, 2, 0.6, True),
    ]
    bad = [
        Bad(call(floats(2, 3), 2), f"{name}(x): expected shape [batch, channels, "),
        Bad(
            call(x, 9),
            f"{name}(output_size): expected sizes in [1, {dims[0]}] for an input size of {dims[0]} and a kernel size of 1, got 9",
        ),
        Bad(
            call(x, dims[0], 2),
            f"{name}(output_size): expected sizes in [1, {dims[0] - 1}] for an input size of {dims[0]} and a kernel size of 2",
        ),
        Bad(call(x, 2, random_u=1.0), f"{name}(random_u): expected a number in (0, 1), got 1.0"),
    ]
    return Row(
        name,
        samples,
        law=exact(_fractional_max, None),
        grad_ref=_fractional_max_grad,
        dtypes=FLOAT,
        skip=IMAGES,
        bad=bad,
    )


# ---------------------------------------------------------------- columns, unpooling


def _columns(dims, kernel_sizes, strides=1, paddings=0, dilations=1):
    """The grown extents, and for each place the elements that a window has."""
    size, stride, dilation = each(kernel_sizes, 2), each(strides, 2), each(dilations, 2)
    p = each(paddings, 2)
    top, left, bottom, right = p if len(p) == 4 else (*p, *p)
    grown = (dims[0] + top + bottom, dims[1] + left + right)
    reach = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
    # zeros stand in for less than a step
    grown = [r if 0 < r - m < s else m for m, r, s in zip(grown, reach, stride, strict=True)]
    count = [(m - (k - 1) * d - 1) // s + 1 for m, k, s, d in zip(grown, size, stride, dilation, strict=True)]
    at = [
        tuple(
            slice(i * s, i * s + (k - 1) * d + 1, d) for i, s, k, d in zip(place, stride, size, dilation, strict=True)
        )
        for place in np.ndindex(*count)
    ]
    return grown, (top, left), at


def _unfold(x, *args, **kwargs):
    grown, (top, left), at = _columns(x.shape[2:], *args, **kwargs)
    full = np.zeros((*x.shape[:2], *grown), np.result_type(x, float))
    full[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
    return (
        np.stack([full[(..., *i)].reshape(x.shape[0], -1) for i in at], -1)
        if x.size
        else np.zeros((0, x.shape[1] * 4, len(at)))
    )


def _fold(x, output_sizes, kernel_sizes, *args, **kwargs):
    height, width = each(output_sizes, 2)
    size = each(kernel_sizes, 2)
    grown, (top, left), at = _columns((height, width), kernel_sizes, *args, **kwargs)
    full = np.zeros((x.shape[0], x.shape[1] // math.prod(size), *grown), np.result_type(x, float))
    for i, place in enumerate(at):
        full[(..., *place)] += x[:, :, i].reshape(*full.shape[:2], *size)
    return full[:, :, top : top + height, left : left + width]


def _places(*shape, plane):
    rng = np.random.default_rng(4)
    n = math.prod(shape[2:])
    found = [rng.permutation(plane)[:n] for _ in range(shape[0] * shape[1])]
    return np.array(found, np.int64).reshape(shape)


def _unpool(n):
    def ref(x, indices, kernel_size, stride=None, padding=0, output_size=None):
        size = each(kernel_size, n)
        stride = size if stride is None else each(stride, n)
        p = each(padding, n)
        dims = [(m - 1) * s - 2 * a + k for m, s, a, k in zip(x.shape[2:], stride, p, size, strict=True)]
        dims = dims if output_size is None else output_size[-n:]
        out = np.zeros((*x.shape[:2], math.prod(dims)), x.dtype)
        for b, c in np.ndindex(*x.shape[:2]):
            out[b, c, indices[b, c].ravel()] = x[b, c].ravel()
        return out.reshape(*x.shape[:2], *dims)

    return ref


def _unpool_row(n):
    name, dims = f"max_unpool{n}d", {1: (4,), 2: (3, 2), 3: (2, 2, 3)}[n]
    shape, plane = (2, 2, *dims), math.prod(dims) * 2**n
    x, at = floats(*shape), _places(*shape, plane=math.prod(dims))
    samples = [
        call(x, _places(*shape, plane=plane), 2),
        call(x, at.astype(np.int32), 3, 2, 1),
        call(x, at, 2, output_size=[2 * m + 1 for m in dims]),
        call(x, at, 2, output_size=[2, 2, *[2 * m - 1 for m in dims]]),
        call(x[:0], at[:0], 2),
    ]
    bad = [
        Bad(
            call(x, np.full(shape, plane), 2),
            f"{name}(indices): expected indices in [0, {plane - 1}], got {plane}",
            IndexError,
        ),
        Bad(call(x, at.astype(float), 2), f"{name}(indices): expected an integer tensor, got float64", TypeError),
        Bad(call(x, at[:1], 2), f"{name}(indices): expected x's shape ["),
        Bad(call(x, at, 2, output_size=[99] * n), f"{name}(output_size): expected "),
        Bad(call(x, at, 2, data_format=FORMATS[n]), f"{name}(data_format): expected 'NC"),
        Bad(call(floats(2, 3), np.zeros((2, 3), int), 2), f"{name}(x): expected shape [batch, channels, "),
    ]
    return Row(name, samples, _unpool(n), dtypes=FLOAT, unchecked=INT, skip=IMAGES, bad=bad)


_x = floats(2, 2, 5, 4)
_ties = np.round(floats(1, 2, 5, 4, low=-1, high=1))
_no_edges = ((0, 0), (0, 0))

TABLE = [
    Row("max_pool_of", [call(_x, (2, 2), (2, 2), _no_edges, False, "NCHW"), call(_x, (3, 2), (1, 1), ((1, 1), (1, 0)), False, "NCHW"),
        call(_x, (2, 2), (3, 1), _no_edges, True, "NHWC"), call(floats(1, 1, 9, 8), (6, 5), (2, 1), ((2, 2), (1, 1)), False, "NCHW"),
        call(floats(1, 1, 3, 20), (1, 18), (1, 1), _no_edges, False, "NCHW"), call(np.zeros((0, 2, 4, 4)), (2, 2), (2, 2), _no_edges, False, "NCHW"),
        call(_ties, (3, 2), (1, 1), ((1, 1), (1, 0)), False, "NCHW"), call(_ties, (5, 4), (1, 1), _no_edges, False, "NCHW"),
        call(floats(1, 17, 17, 1), (16, 16), (1, 1), _no_edges, False, "NHWC")],
        law=exact(_max_in_windows, None),
        grad_ref=lambda w, x, size, stride, pads, ceil, form: _max_grad(w, x, size, stride, pads, False, ceil, form),
        dtypes=FLOAT, skip=INDEX),
    Row("max_pool_places", [call(np.array([[[[3, 0]]]], np.uint8), (2, 4), (2, 2), (2, 2), _no_edges, False, "NCHW"),
        call(np.array([[[[0, 1]]]], np.uint8), (1, 2), (1, 2), (1, 2), ((0, 0), (1, 1)), False, "NCHW"),
        call(np.zeros((0, 1, 1, 2), np.uint8), (2, 4), (2, 2), (2, 2), _no_edges, False, "NCHW")],
        lambda tap, dims, *_: np.zeros(tap.shape) if not tap.size else np.array([[[[5, 2]]]] if dims == (2, 4) else [[[[-1, -1]]]]),
        dtypes=frozenset(), out="int32", grad=0, skip=IMAGES),
    Row("lp_pool_of", [call(np.abs(_x) + 0.1, 2.0, (2, 2), (2, 2), _no_edges, False, "NCHW"),
        call(np.abs(_x) + 0.1, 1.5, (3, 2), (1, 1), ((1, 1), (1, 0)), False, "NCHW"),
        call(np.zeros((0, 2, 4, 4)), 3.0, (2, 2), (2, 2), _no_edges, False, "NCHW")], _lp, dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS),
    Row("adaptive_max_of", [call(_x, (2, 3)), call(_x, (5, 1)), call(np.zeros((0, 2, 5, 4)), (2, 3)), call(np.zeros((1, 2, 0, 4)), (2, 3)),
        call(_ties, (2, 3)), call(_ties, (1, 1))],
        law=exact(lambda x, size: _adaptive_max(x, size, True), None), grad_ref=_adaptive_max_grad, dtypes=FLOAT, skip=INDEX),
    Row("fractional_max_of", [call(_x, 0.25, (2, 3), None), call(_x, 0.75, (3, 2), (2, 2)), call(np.zeros((0, 2, 5, 4)), 0.5, (2, 3), None),
        call(_ties, 0.25, (2, 3), None), call(_ties, 0.75, (3, 2), (2, 2))],
        law=exact(lambda x, u, size, kernel: _fractional_max(x, size, kernel, u, True), None),
        grad_ref=lambda w, x, u, size, kernel: _fractional_max_grad(w, x, size, kernel, u), dtypes=FLOAT, skip=INDEX),
    *[row(n) for row in (_max_row, _avg_row) for n in (1, 2, 3)],
    *[_lp_row(n) for n in (1, 2)],
    *[row(n) for row in (_adaptive_avg_row, _adaptive_max_row) for n in (1, 2, 3)],
    *[_fractional_row(n) for n in (2, 3)],
    *[_unpool_row(n) for n in (1, 2, 3)],
    Row("unfold_columns", [call(_x, 2), call(_x, [2, 3], 2, 1), call(_x, 2, [1, 2], [1, 0, 2, 1], dilations=2), call(_x, [3, 1], 1, [0, 1]),
        call(_x, [6, 3], 3),
        call(np.zeros((0, 2, 5, 4)), 2)], _unfold, dtypes=FLOAT | COMPLEX, skip=IMAGES,
        bad=[Bad(call(floats(2, 3), 2), "unfold(x): expected shape [batch, channels, height, width], got shape [2, 3]"),
             Bad(call(_x, 9), "unfold(kernel_sizes): expected a kernel size of at most the padded input size, for an input size of [5, 4], got [9, 9]"),
             Bad(call(_x, 2, paddings=-1), "unfold(paddings): expected non-negative padding, got -1"),
             Bad(call(_x, 2, paddings=[1, 1, 1]), "unfold(paddings): expected one integer, two or four, got [1, 1, 1]")]),
    Row("fold", [call(floats(2, 8, 12), [5, 4], 2), call(floats(2, 6, 6), [5, 4], [2, 3], 2, 1),
        call(floats(1, 4, 15), [5, 4], 2, [1, 2], [1, 0, 1, 3], 2), call(np.zeros((0, 4, 12)), [5, 4], 2),
        call(floats(1, 12, 2), [2, 4], [6, 1], [5, 2])], _fold, dtypes=FLOAT | COMPLEX,
        skip={"0-d": "it takes a batch of columns"}, loose=HALF_SUMS,
        bad=[Bad(call(floats(2, 3), 4, 2), "fold(x): expected shape [batch, channels * kernel elements, blocks], got shape [2, 3]"),
             Bad(call(floats(1, 5, 9), 4, 2), "fold(x): expected a dimension 1 divisible by 4, the number of elements of a kernel, got 5"),
             Bad(call(floats(1, 4, 8), 4, 2), "fold(x): expected 3 * 3 blocks, got 8"),
             Bad(call(floats(1, 4, 9), 0, 2), "fold(output_sizes): expected a positive integer, got 0")]),
]  # fmt: skip
