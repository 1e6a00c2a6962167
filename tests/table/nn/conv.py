"""Rows of convolutions and transposed convolutions."""

import math

import numpy as np

from tests.table.harness import FLOAT, Bad, Row, call
from tests.table.samples import floats

HALF_SUMS = (3, "half precision loses digits in sums of products")
IMAGES = {"0-d": "it takes a batch of images"}


def each(x, n):
    return (x,) * n if np.ndim(x) == 0 else tuple(x)


def same_pads(length, window, stride):
    """By definition: the least padding with which the window has ceil(length / stride) places; the two ends take turns,
    the last one first.
    """
    before = after = 0
    while sum(at + window <= before + length + after for at in range(0, length, stride)) < math.ceil(length / stride):
        before, after = (before, after + 1) if before == after else (before + 1, after)
    return before, after


def pads_of(padding, dims, window, stride):
    """What is added before and after each axis."""
    if padding == "VALID":
        return [(0, 0)] * len(dims)
    if padding == "SAME":
        return [same_pads(m, k, s) for m, k, s in zip(dims, window, stride, strict=True)]
    if np.ndim(padding) == 2:
        return [tuple(p) for p in padding if sum(p)] if len(padding) > len(dims) else padding
    p = each(padding, len(dims))
    return [(i, i) for i in p] if len(p) == len(dims) else list(zip(p[::2], p[1::2], strict=True))


def _windows(dims, window, stride, dilation):
    """Places of the window, and what of a padded image each of them meets."""
    count = [(m - (k - 1) * d - 1) // s + 1 for m, k, s, d in zip(dims, window, stride, dilation, strict=True)]
    for at in np.ndindex(*count):
        yield (
            at,
            tuple(
                slice(i * s, i * s + (k - 1) * d + 1, d)
                for i, s, k, d in zip(at, stride, window, dilation, strict=True)
            ),
        )


def _conv(n):
    def ref(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NC?"):
        last = data_format[-1] == "C"
        x = np.moveaxis(x, -1, 1) if last else x
        stride, dilation, window = each(stride, n), each(dilation, n), weight.shape[2:]
        dilation = (1,) * n if padding == "SAME" else dilation
        x = np.pad(x, [(0, 0), (0, 0), *pads_of(padding, x.shape[2:], window, stride)])
        short = [(k - 1) * d + 1 - m for m, k, d in zip(x.shape[2:], window, dilation, strict=True)]
        x = np.pad(x, [(0, 0), (0, 0), *[(0, m if 0 < m < s else 0) for m, s in zip(short, stride, strict=True)]])
        size = [
            (m - (k - 1) * d - 1) // s + 1 for m, k, s, d in zip(x.shape[2:], window, stride, dilation, strict=True)
        ]
        out = np.zeros((x.shape[0], weight.shape[0], *size))
        per_in, per_out = weight.shape[1], weight.shape[0] // groups
        for at, part in _windows(x.shape[2:], window, stride, dilation):
            seen = x[(slice(None), slice(None), *part)]
            for o in range(weight.shape[0]):
                first = o // per_out * per_in
                out[(slice(None), o, *at)] = np.tensordot(seen[:, first : first + per_in], weight[o], n + 1)
        out = out if bias is None else out + bias.reshape(-1, *[1] * n)
        return np.moveaxis(out, 1, -1) if last else out

    return ref


def _transposed(n):
    def ref(
        x,
        weight,
        bias=None,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        dilation=1,
        output_size=None,
        data_format="NC?",
    ):
        last = data_format[-1] == "C"
        x = np.moveaxis(x, -1, 1) if last else x
        stride, dilation, window = each(stride, n), each(dilation, n), weight.shape[2:]
        dilation = (1,) * n if padding == "SAME" else dilation
        pads, more = pads_of(padding, x.shape[2:], window, stride), each(output_padding, n)
        least = [
            (m - 1) * s + (k - 1) * d + 1 for m, s, k, d in zip(x.shape[2:], stride, window, dilation, strict=True)
        ]
        size = (
            [m - a - b + e for m, (a, b), e in zip(least, pads, more, strict=True)]
            if output_size is None
            else each(output_size, n)
        )
        full = [max(m, a + k) for m, (a, _), k in zip(least, pads, size, strict=True)]
        out = np.zeros((x.shape[0], weight.shape[1] * groups, *full))
        per_in, per_out = weight.shape[0] // groups, weight.shape[1]
        for at, part in _windows(least, window, stride, dilation):
            for c in range(weight.shape[0]):
                first = c // per_in * per_out
                share = x[(slice(None), c, *at)].reshape(-1, *[1] * (n + 1)) * weight[c]
                out[(slice(None), slice(first, first + per_out), *part)] += share
        out = out[(slice(None), slice(None), *[slice(a, a + k) for (a, _), k in zip(pads, size, strict=True)])]
        out = out if bias is None else out + bias.reshape(-1, *[1] * n)
        return np.moveaxis(out, 1, -1) if last else out

    return ref


LENGTH, IMAGE, VOLUME = (7,), (5, 6), (4, 3, 5)
FORMATS = {1: "NLC", 2: "NHWC", 3: "NDHWC"}


def _samples(n, dims, big):
    """The forms that a convolution takes: few places and many, a window of one, groups, one channel a group; all
    paddings.
    """
    window = (2, 3, 2)[:n]
    x, w = floats(2, 4, *dims), floats(6, 4, *window)
    full = [[0, 0], [0, 0], *[[1, 0]] * n]
    found = [
        call(floats(1, 2, *big), floats(3, 2, *window), floats(3), padding=1),
        call(x, w, floats(6), 2, 1),
        call(x, floats(4, 1, *window), groups=4, dilation=2, padding=2),
        call(floats(2, *dims, 4), w, floats(1), stride=[2] * n, padding="SAME", dilation=2, data_format=FORMATS[n]),
        call(np.zeros((0, 4, *dims)), w, floats(6)),
        call(np.zeros((2, 4, *[0] * n)), w, padding=1),
        call(x, floats(2, 4, *[m + 1 for m in dims])),  # one step short of a place
        call(x, floats(2, 4, *[m + 1 for m in dims]), stride=3),  # less than a step: zeros stand in
    ]
    more = [
        call(x, floats(6, 2, *window), None, 1, list(range(2 * n)), groups=2),
        call(x, floats(3, 4, *[1] * n), padding="VALID", stride=2),
        call(floats(1, 18, *dims), floats(9, 2, *window), groups=9, padding=full),
        call(floats(1, 3, *dims), floats(6, 1, *window), groups=3, padding=[1] * n),
    ]
    return found + more if n == 2 else found


def _transposed_samples(n, dims, big):
    window = (2, 3, 2)[:n]
    x, w = floats(2, 4, *dims), floats(4, 3, *window)
    least = [(m - 1) * 2 + k - 2 for m, k in zip(dims, window, strict=True)]
    found = [
        call(floats(1, 2, *big), floats(2, 3, *window), floats(3), stride=2, padding=1),
        call(x, w, floats(3), 2, 1, output_padding=1),
        call(x, floats(4, 1, *window), groups=4, dilation=2),
        call(floats(2, *dims, 4), w, floats(1), stride=[2] * n, padding="SAME", data_format=FORMATS[n]),
        call(np.zeros((0, 4, *dims)), w, floats(3)),
    ]
    more = [
        call(x, floats(4, 2, *window), stride=3, groups=2, padding=list(range(2)) * n),
        call(x, w, stride=2, padding=1, output_size=[m + 1 for m in least]),
        call(x, floats(4, 3, *[1] * n), stride=2, padding="VALID"),
        call(floats(1, 18, *dims), floats(18, 2, *window), groups=9),
    ]
    return found + more if n == 2 else found


def _bad(name, n, dims):
    x, w = floats(2, 4, *dims), floats(6, 4, *[2] * n)
    axes = {1: "length", 2: "height, width", 3: "depth, height, width"}[n]
    first = {1: "NCL", 2: "NCHW", 3: "NCDHW"}[n]
    formats = f"'{first}' or '{FORMATS[n]}'"
    return [
        Bad(call(x, w, stride=0), f"{name}(stride): expected a positive integer, got 0"),
        Bad(call(x, w, dilation=-1), f"{name}(dilation): expected a positive integer, got -1"),
        Bad(call(x, w, padding=-1), f"{name}(padding): expected non-negative padding, got -1"),
        Bad(call(x, w, padding="FULL"), f"{name}(padding): expected 'SAME', 'VALID' or integers, got 'FULL'"),
        Bad(
            call(x, w, padding=[[1, 1]] * (n + 2)),
            f"{name}(padding): expected no padding of the batch and channel dimensions, got [[1, 1]",
        ),
        Bad(call(x, w, padding=[1] * 7), f"{name}(padding): expected an integer"),
        Bad(call(x, w, stride=[1] * 7), f"{name}(stride): expected an integer"),
        Bad(call(x, w, stride=1.5), f"{name}(stride): expected an integer, got 1.5", TypeError),
        Bad(call(x, w, groups=0), f"{name}(groups): expected a positive integer, got 0"),
        Bad(call(x, w, data_format="CHW"), f"{name}(data_format): expected {formats}, got 'CHW'"),
        Bad(call(floats(2, 3), w), f"{name}(x): expected shape [batch, channels, {axes}], got shape [2, 3]"),
        Bad(call(x, floats(2, 3)), f"{name}(weight): expected kernels of shape ["),
        Bad(
            call(x, floats(6, 4, *[2] * n).astype(np.float32)),
            f"{name}(): expected operands whose dtypes promote, got float64 and float32",
            TypeError,
        ),
    ]


def _conv_row(n, dims, big):
    name, x = f"conv{n}d", floats(2, 4, *dims)
    bad = [
        *_bad(name, n, dims),
        Bad(
            call(x, floats(4, 3, *[2] * n)),
            f"{name}(x): expected 3 channels, as weight.shape[1] says for groups = 1, got 4",
        ),
        Bad(
            call(x, floats(5, 2, *[2] * n), groups=2),
            f"{name}(weight): expected a first dimension divisible by groups = 2",
        ),
        Bad(
            call(x, floats(4, 4, *[9] * n)),
            f"{name}(weight): expected a kernel size of at most {dims[0]}, the size of the padded input, got 9",
        ),
        Bad(call(x, np.zeros((0, 4, *[2] * n))), f"{name}(weight): expected a non-empty kernel, got shape [0, 4"),
        Bad(
            call(x, floats(6, 4, *[2] * n), floats(5)),
            f"{name}(bias): expected shape [6], as weight.shape[0] says, got shape [5]",
        ),
    ]
    return Row(name, _samples(n, dims, big), _conv(n), dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS, bad=bad)


def _transposed_row(n, dims, big):
    name, x, w = f"conv{n}d_transpose", floats(2, 4, *dims), floats(4, 3, *[2] * n)
    bad = [
        *_bad(name, n, dims),
        Bad(
            call(x, floats(3, 3, *[2] * n)),
            f"{name}(x): expected 3 channels, as weight.shape[0] says for groups = 1, got 4",
        ),
        Bad(call(x, w, stride=2, output_padding=2), f"{name}(output_padding): expected less than stride = 2, got 2"),
        Bad(call(x, w, output_size=90), f"{name}(output_size): expected {dims[0] + 1} to {dims[0] + 1}, got 90"),
        Bad(
            call(x, w, stride=2, output_padding=1, output_size=9),
            f"{name}(output_padding): expected none, because output_size is given, got [",
        ),
        Bad(
            call(x, w, padding=9),
            f"{name}(padding): expected padding that leaves a non-negative output size, got a result of shape [-",
        ),
    ]
    return Row(
        name, _transposed_samples(n, dims, big), _transposed(n), dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS, bad=bad
    )


TABLE = [
    _conv_row(1, LENGTH, (60,)),
    _conv_row(2, IMAGE, (8, 7)),
    _conv_row(3, VOLUME, (3, 8, 7)),
    _transposed_row(1, LENGTH, (60,)),
    _transposed_row(2, IMAGE, (8, 7)),
    _transposed_row(3, VOLUME, (2, 8, 7)),
]
