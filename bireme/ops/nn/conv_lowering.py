"""Convolutions by XLA: which form is fast at which shapes; kernels are [outputs, channels / groups, *window].

A convolution is linear in the image and in the kernel, so either gradient is the transpose of some form of it, and the
form that gives the result soonest need not be the one with the fastest transpose. On CUDA cuDNN has them all, but takes
up to a second, one at a time, to prepare one channel a group: sums of shifted images compile sooner, and run as fast (an
H200: 3 x 3 at 0.6 of its time, 5 x 5 at 0.8, 7 x 7 at 1.3). On CPU:
- few positions of the window, or many groups, are products of matrices: XLA's own operator is up to 50 times slower
  there
- a window of one element is a product too, one channel a group a sum of shifted images, few groups a convolution each
- two axes are what XLA's operator is made for: a third is folded into the channels, a missing one added
"""

from __future__ import annotations

import functools
import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import machine
from bireme.core.numpy_exec.convolution import places, taps
from bireme.core.xla_exec.barrier import holding
from bireme.ops._shared.precision import widen

_FEW = 49  # positions of the window
_FEWER = 12  # and where the kernel need not be turned
_SMALL = 9  # elements of a window that is read as fast from an image that is padded on the way
_LOW = 3  # rows of a result that are added up one by one
_DIMENSIONS = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}
# measured: with AVX, XLA's operator gives the kernel's gradient two to three times faster than products, without it
# slower
_WIDE = machine.X86


def move(x, last: bool):
    """Channels last: XLA would transpose by itself, and slower; between two convolutions the transposes cancel."""
    return x if last else x.transpose(0, *range(2, x.ndim), 1)


def back(x, last: bool):
    return x if last else x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


def dims_of(x, last):
    """The sizes of an image."""
    return x.shape[1:-1] if last else x.shape[2:]


def counted(x, w, stride, pads, dilation, last):
    """The sizes of what comes out of a convolution."""
    return tuple([places(*axis) for axis in zip(dims_of(x, last), w.shape[2:], stride, pads, dilation)])


def _padded(x, pads, first):
    """Zeros around the spatial axes, which start at `first`."""
    if not any(a or b for a, b in pads):
        return x
    rest = x.ndim - first - len(pads)
    return lax.pad(x, np.zeros((), x.dtype), [*[(0, 0, 0)] * first, *[(a, b, 0) for a, b in pads], *[(0, 0, 0)] * rest])


# what puts an array into memory: XLA would add up a sum of many shifted images in each kernel that reads it
_held, _held_on_device = holding("cpu"), holding("cuda")


# ---------------------------------------------------------------- the forms


def _operator(x, w, stride, pads, dilation, groups, last):
    kernel = w.transpose(*range(2, w.ndim), 1, 0)
    numbers = _DIMENSIONS[x.ndim - 2]
    made = lax.conv_general_dilated(
        move(x, last),
        kernel,
        stride,
        pads,
        rhs_dilation=dilation,
        dimension_numbers=numbers,
        feature_group_count=groups,
    )
    return back(made, last)


def _product(x, w, stride, pads, dilation, groups, last):
    """The kernel, as it is, times the windows side by side; the transpose adds each share where it came from.

    The channels come first, so that only blocks of an image are transposed: the kernel would take longer than the
    product.
    """
    out, batch = counted(x, w, stride, pads, dilation, last), x.shape[0]
    grown = _padded(jnp.moveaxis(x, -1 if last else 1, 0), pads, 2)
    rows = jnp.stack([grown[:, :, *at] for at in taps(w.shape[2:], stride, dilation, out)], 1)
    if groups == 1:
        made = w.reshape(w.shape[0], -1) @ rows.reshape(-1, batch * math.prod(out))
    else:
        made = w.reshape(groups, w.shape[0] // groups, -1) @ rows.reshape(groups, -1, batch * math.prod(out))
    return jnp.moveaxis(made.reshape(w.shape[0], batch, *out), 0, -1 if last else 1)


def _product_last(x, w, stride, pads, dilation):
    """The windows side by side times the kernel, all with the channels last."""
    out = counted(x, w, stride, pads, dilation, True)
    grown = _padded(x, pads, 1)
    seen = [grown[:, *at] for at in taps(w.shape[2:], stride, dilation, out)]
    rows = seen[0] if len(seen) == 1 else jnp.concatenate(seen, -1)
    kernel = w.transpose(*range(2, w.ndim), 1, 0).reshape(-1, w.shape[0])
    return (rows.reshape(-1, rows.shape[-1]) @ kernel).reshape(x.shape[0], *out, w.shape[0])


def _pointwise(x, w, stride, pads, dilation, groups, last):
    """A window of one element without padding: a product in the layout of the others."""
    seen = move(x, last)[:, *[slice(None, None, s) for s in stride]]
    made = lax.dot_general(seen.reshape(-1, seen.shape[-1]), w.reshape(w.shape[:2]), (((1,), (1,)), ((), ())))
    return back(made.reshape(*seen.shape[:-1], -1), last)


def _depthwise(x, w, stride, pads, dilation, groups, last, hold=None):
    """One channel a group: the sum of shifted images, each times its element of the kernel; in the given layout. Halves are
    added up in float32, and `hold` is given the sum as a half again: it is twice as fast to write."""
    out, first = counted(x, w, stride, pads, dilation, last), 1 if last else 2
    grown, front = _around(x, w.shape[2:], pads, first, hold), (slice(None),) * first
    per = w.shape[0] // groups
    kernel = jnp.moveaxis(widen(w).reshape(groups, per, -1), -1, 0)
    kernel = kernel.reshape(-1, groups, per, *[1] * (0 if last else len(out)))
    axis = x.ndim if last else 2  # beside the channels: the outputs of each
    parts = []
    for at, k in zip(taps(w.shape[2:], stride, dilation, out), kernel):
        seen = widen(grown[*front, *at])
        parts.append(seen * jnp.squeeze(k, 1) if per == 1 else jnp.expand_dims(seen, axis) * k)
    made = functools.reduce(operator.add, parts).astype(x.dtype)
    made = made if hold is None else hold(made)
    return made if per == 1 else made.reshape(_shaped(x.shape[0], w.shape[0], out, last))


def _depthwise_last(x, w, stride, pads, dilation):
    """One channel a group and the channels last, on a CPU: of a large window two rows in each pass over the image.

    What a pass reads has to stay in the first cache; and the kernel is turned before, since each pass would read it in
    steps otherwise. XLA would make one pass of all, and compute the image anew for each element of the window, or with
    a question in between that asks for the padding.
    """
    out, size = counted(x, w, stride, pads, dilation, True), math.prod(w.shape[2:])
    kernel = _held(w.transpose(*range(2, w.ndim), 1, 0).reshape(size, -1))
    if x.ndim == 4 and size > _SMALL and out[0] <= _LOW and any(pads[0]):
        return _depthwise_rows(x, kernel.reshape(*w.shape[2:], -1), stride, pads, dilation, out)
    grown = _padded(_held(x), pads, 1)
    parts = [grown[:, *at] * k for at, k in zip(taps(w.shape[2:], stride, dilation, out), kernel)]
    some = 2 * w.shape[-1] if size > _SMALL else size
    made = functools.reduce(operator.add, parts[:some])
    for i in range(some, size, some):
        made = functools.reduce(operator.add, parts[i : i + some], _held(made))
    return made


def _depthwise_rows(x, kernel, stride, pads, dilation, out):
    """The same for a result of few rows, as a line of text has: each takes the rows of the window that meet the image, so
    none is added for the padding, and a third of the products is left out; `kernel` is [height, width, channels]."""
    grown = _padded(_held(x), ((0, 0), pads[1]), 1)
    across = list(taps(kernel.shape[1:2], stride[1:], dilation[1:], out[1:]))
    made = []
    for row in range(out[0]):
        first, parts = row * stride[0] - pads[0][0], []
        for i in range(kernel.shape[0]):
            y = first + i * dilation[0]
            if 0 <= y < x.shape[1]:
                parts += [grown[:, y, *at] * k for at, k in zip(across, kernel[i])]
        zero = jnp.zeros((x.shape[0], out[1], x.shape[3]), x.dtype)
        some = _LOW * kernel.shape[1]
        total = functools.reduce(operator.add, parts[:some]) if parts else zero
        for i in range(some, len(parts), some):
            total = functools.reduce(operator.add, parts[i : i + some], _held(total))
        made.append(total)
    return jnp.stack(made, 1)


def _around(x, window, pads, first, hold):
    """An image with its padding, in memory where a large window reads each element of it many times."""
    grown = _padded(x, pads, first)
    return hold(grown) if hold is not None and math.prod(window) > _SMALL else grown


def _folded(x, w, stride, pads, dilation, last, of):
    """Three axes as two: the slices that a window meets along the first stand side by side in the channels."""
    x = move(x, last)
    depth = places(x.shape[1], w.shape[2], stride[0], pads[0], dilation[0])
    grown = _padded(x, pads[:1], 1)
    slices = [grown[:, *at] for at in taps(w.shape[2:3], stride[:1], dilation[:1], (depth,))]
    flat = jnp.concatenate(slices, -1).reshape(x.shape[0] * depth, *x.shape[2:4], -1)
    kernel = jnp.moveaxis(w, 2, 1).reshape(w.shape[0], -1, *w.shape[3:])
    made = _on_cpu(flat, kernel, stride[1:], pads[1:], dilation[1:], 1, True, of)
    return back(made.reshape(x.shape[0], depth, *made.shape[1:]), last)


def _on_cpu(x, w, stride, pads, dilation, groups, last, of):
    """`of` is "out" for the result, "x" or "w" where its transpose is to give that gradient."""
    channels = x.shape[-1 if last else 1]
    if of == "out" and last and w.shape[1] == 1 and w.shape[0] == groups > 1:
        return _depthwise_last(x, w, stride, pads, dilation)
    if w.shape[1] == 1 < groups:
        return _depthwise(x, w, stride, pads, dilation, groups, last)
    if x.ndim == 3:
        axis = 1 if last else 2
        made = _on_cpu(
            jnp.expand_dims(x, axis), w[:, :, None], (1, *stride), ((0, 0), *pads), (1, *dilation), groups, last, of
        )
        return jnp.squeeze(made, axis)
    if 1 < groups <= 8:
        axis = -1 if last else 1
        parts = zip(jnp.split(x, groups, axis), jnp.split(w, groups, 0))
        return jnp.concatenate([_on_cpu(a, b, stride, pads, dilation, 1, last, of) for a, b in parts], axis)
    if x.ndim == 5 and groups == 1:
        return _folded(x, w, stride, pads, dilation, last, of)
    count = math.prod(counted(x, w, stride, pads, dilation, last))
    few = (
        count <= _FEW
        or groups > 1
        or (of == "x" and count <= 256 <= w.shape[0])
        or (of == "w" and not _WIDE and channels >= 16)
    )
    single = max(w.shape[2:]) == 1 and not any(a or b for a, b in pads)
    if of == "out" and last and groups == 1:
        # the compiler has no kernel for an image that becomes a few channels
        narrow = channels <= 4 and w.shape[0] <= 16 and math.prod(w.shape[2:]) <= _SMALL
        if single or narrow or count <= _FEWER:
            return _product_last(x, w, stride, pads, dilation)
        few = False
    form = _pointwise if single and count > _FEW and groups == 1 else _product if few else _operator
    return form(x, w, stride, pads, dilation, groups, last)


def by_operator(x, w, stride, pads, dilation, groups, last, of):
    """XLA's own operator whatever the shapes: what cuDNN is fastest at."""
    return _operator(x, w, stride, pads, dilation, groups, last)


def by_shifts(x, w, stride, pads, dilation, groups, last, of):
    """One channel a group, as sums of shifted images; each is added up once, whoever reads it."""
    return _depthwise(x, w, stride, pads, dilation, groups, last, _held_on_device)


# ---------------------------------------------------------------- the three functions


def _shaped(batch, channels, dims, last):
    return (batch, *dims, channels) if last else (batch, channels, *dims)


def _reaching(x, w, stride, pads, dilation, last):
    """The kernel without elements that meet nothing but padding, and the padding for the rest."""
    kept, edges = [], []
    for n, k, s, (a, b), d in zip(dims_of(x, last), w.shape[2:], stride, pads, dilation):
        reach = (places(n, k, s, (a, b), d) - 1) * s  # of each element, from its first position
        seen = [i for i in range(k) if -reach <= i * d - a < n] or [0]
        kept.append(slice(seen[0], seen[-1] + 1))
        edges.append((a - seen[0] * d, b - (k - 1 - seen[-1]) * d))
    return (w, pads) if tuple(edges) == tuple(pads) else (w[:, :, *kept], tuple(edges))


def forward(x, w, stride, pads, dilation, groups, last, convolve=_on_cpu):
    """The convolution of an image with a kernel."""
    shape = _shaped(x.shape[0], w.shape[0], counted(x, w, stride, pads, dilation, last), last)
    if not (x.size and w.size and math.prod(shape)):
        return jnp.zeros(shape, x.dtype)
    if convolve is _on_cpu:
        w, pads = _reaching(x, w, stride, pads, dilation, last)
    return convolve(x, w, stride, pads, dilation, groups, last, "out")


def input_grad(g, w, dims, stride, pads, dilation, groups, last, convolve=_on_cpu):
    """The gradient of an image of sizes `dims`."""
    shape = _shaped(g.shape[0], w.shape[1] * groups, dims, last)
    if not (g.size and w.size and math.prod(shape)):
        return jnp.zeros(shape, g.dtype)
    if convolve is not by_operator and w.shape[1] == 1 and w.shape[0] == groups > 1:
        hold = _held_on_device if convolve is by_shifts else None
        return _depthwise_input_grad(g, w, dims, stride, pads, dilation, groups, last, hold)
    fixed = (w, stride, pads, dilation, groups, last, "x")
    made = jax.linear_transpose(lambda x: convolve(x, *fixed), jax.ShapeDtypeStruct(shape, g.dtype))(g)[0]
    return _held(made) if convolve is _on_cpu and max(w.shape[2:]) > 1 else made


def weight_grad(x, g, window, stride, pads, dilation, groups, last, convolve=_on_cpu):
    """The gradient of a kernel over `window`."""
    axis = -1 if last else 1
    shape = (g.shape[axis], x.shape[axis] // groups, *window)
    if not (x.size and g.size):
        return jnp.zeros(shape, g.dtype)
    if convolve is by_shifts:
        return _depthwise_weight_sums(x, g, shape, stride, pads, dilation, last)
    if convolve is _on_cpu and shape[1] == 1 and shape[0] == groups > 1:
        return _depthwise_weight_grad(x, g, shape, stride, pads, dilation, last)
    fixed = (stride, pads, dilation, groups, last, "w")
    return jax.linear_transpose(lambda w: convolve(x, w, *fixed), jax.ShapeDtypeStruct(shape, g.dtype))(g)[0]


def _depthwise_input_grad(g, w, dims, stride, pads, dilation, groups, last, hold):
    """The gradient, dilated by the stride, under the flipped kernel; the transpose would add a padded image a shift."""
    config = []
    for n, m, k, s, (a, _), d in zip(dims, dims_of(g, last), w.shape[2:], stride, pads, dilation):
        config.append(((k - 1) * d - a, n + a - (m - 1) * s - 1, s - 1))
    still = (0, 0, 0)
    spread = lax.pad(g, np.zeros((), g.dtype), [still, *config, still] if last else [still, still, *config])
    none, ones = ((0, 0),) * len(dims), (1,) * len(dims)
    return _depthwise(spread, jnp.flip(w, range(2, w.ndim)), ones, none, dilation, groups, last, hold)


def _depthwise_weight_sums(x, g, shape, stride, pads, dilation, last):
    """A sum for each element of the window, several in one kernel."""
    first = 1 if last else 2
    grown, front = _around(x, shape[2:], pads, first, _held_on_device), (slice(None),) * first
    axes = tuple([i for i in range(x.ndim) if i != (x.ndim - 1 if last else 1)])
    seen = [grown[*front, *at] for at in taps(shape[2:], stride, dilation, dims_of(g, last))]
    return jnp.stack([jnp.sum(widen(part) * widen(g), axes) for part in seen], 1).reshape(shape)


def _depthwise_weight_grad(x, g, shape, stride, pads, dilation, last):
    """A loop over the window, whose body is compiled once."""
    first = 1 if last else 2
    x = lax.optimization_barrier(_padded(x, pads, first))
    window, channels = shape[2:], shape[0]
    sizes = [(m - 1) * s + 1 for m, s in zip(dims_of(g, last), stride)]
    full = (x.shape[0], *sizes, channels) if last else (x.shape[0], channels, *sizes)
    starts = np.stack(np.meshgrid(*[np.arange(k) * d for k, d in zip(window, dilation)], indexing="ij"), -1).reshape(
        -1, len(window)
    )
    steps, zero = (*(slice(None),) * first, *[slice(None, None, s) for s in stride]), np.int32(0)
    ones = jnp.ones((g.size // channels,), g.dtype)

    def tap(_, at):
        q = lax.dynamic_slice(x, (zero, *at, zero) if last else (zero, zero, *at), full)[steps]
        if last:  # a product with ones adds faster than a sum along the first axes
            return None, ones @ (q * g).reshape(-1, channels)
        return None, jnp.sum(q * g, axis=(0, *range(2, q.ndim)))

    return lax.scan(tap, None, jnp.asarray(starts, jnp.int32))[1].T.reshape(shape)
