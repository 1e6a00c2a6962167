"""Images of another size: interpolation along each spatial axis with weights known beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.xla_exec.barrier import holding

FORMATS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
MODES = {"linear": (3,), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,), "nearest": (3, 4, 5), "area": (3, 4, 5)}


def _taps(
    mode: str, n: int, m: int, ratio: np.float32, align_corners: bool, align_mode: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each of `m` results, the indices of its sources among `n` elements and their weights, both [taps, m]."""
    i = np.arange(m, dtype=np.float32)
    if mode == "area":
        begin, end = (np.arange(m) * n) // m, -((-(np.arange(m) + 1) * n) // m)
        at = begin + np.arange(int((end - begin).max(initial=1)))[:, None]
        return np.minimum(at, n - 1), np.where(at < end, 1 / np.maximum(end - begin, 1), 0.0)
    if mode == "nearest":
        at = (ratio * i + (np.float32(0.5) if align_corners else 0)).astype(np.int64)
        return np.minimum(at, n - 1)[None], np.ones((1, m))
    half = not align_corners and (align_mode == 0 or mode == "bicubic")
    source = ratio * (i + np.float32(0.5)) - np.float32(0.5) if half else ratio * i
    if mode == "bicubic":
        first = np.floor(source)
        t = (source - first).astype(np.float64)
        near = [_cubic(t + 1, True), _cubic(t, False), _cubic(1 - t, False), _cubic(2 - t, True)]
        at = first.astype(np.int64) + np.arange(-1, 3)[:, None]
        return np.clip(at, 0, n - 1), np.stack(near)
    source = np.maximum(source, 0)
    first = np.minimum(source.astype(np.int64), n - 1)
    t = (source - first).astype(np.float64)
    return np.stack([first, np.minimum(first + 1, n - 1)]), np.stack([1 - t, t])


def _cubic(t: np.ndarray, far: bool) -> np.ndarray:
    """Keys' kernel with a = -0.75, beyond the nearest neighbours or between them."""
    a = -0.75
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if far else ((a + 2) * t - (a + 3)) * t * t + 1


def _plans(shape, axes, sizes, scales, mode, align_corners, align_mode):
    """By axis: its taps, or how many times each element is repeated."""
    for axis, m, scale in zip(axes, sizes, scales):
        n, one = shape[axis], np.float32(1)
        if align_corners:
            ratio = np.float32(n - 1) / np.float32(m - 1) if m > 1 else np.float32(0)
        else:
            ratio = one / np.float32(scale) if scale else np.float32(n) / np.float32(m)
        if m == 1:  # a single result stands at the beginning
            ratio = np.float32(0)
        if (
            mode == "nearest"
            and not align_corners
            and m % n == 0
            and (m == 1 or ratio == np.float32(n) / np.float32(m))
        ):
            yield axis, m // n, None
        else:
            yield axis, 0, _taps(mode, n, m, ratio, align_corners, align_mode)


def _matrix(taps, n, dtype):
    at, weights = taps
    found = np.zeros((at.shape[1], n))
    for a, w in zip(at, weights):
        found[np.arange(at.shape[1]), a] += w
    return found.astype(dtype)


def _as_float(x):
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x


@op(internal="resize", dtypes=FLOAT | INT, amp="wide", numpy=True,
    kernels="bicubic_interp_v2 bilinear_interp_v2 linear_interp_v2 nearest_interp_v2 trilinear_interp_v2")  # fmt: skip
def resize_of(
    x: Tensor, axes: Attr, sizes: Attr, scales: Attr, mode: str, align_corners: bool, align_mode: int
) -> Tensor:
    """Interpolated along some axes; use `interpolate`."""
    return _resized(x, axes, sizes, scales, mode, align_corners, align_mode)


@resize_of.on("cpu")
def _(x, axes, sizes, scales, mode, align_corners, align_mode):
    # in memory after the first axis: XLA would compute what comes before anew for each tap, and taps of taps
    return _resized(x, axes, sizes, scales, mode, align_corners, align_mode, holding("cpu"))


def _resized(x, axes, sizes, scales, mode, align_corners, align_mode, hold=None):
    y = _as_float(x) if mode != "nearest" else x
    for axis, times, taps in _plans(x.shape, axes, sizes, scales, mode, align_corners, align_mode):
        if taps is None:
            if times > 1:
                shape = [*y.shape[: axis + 1], times, *y.shape[axis + 1 :]]
                y = jnp.broadcast_to(jnp.expand_dims(y, axis + 1), shape).reshape(
                    *y.shape[:axis], y.shape[axis] * times, *y.shape[axis + 1 :]
                )
            continue
        at, weights = taps
        if len(at) > 4:  # many taps: a product with the matrix of all weights
            y = jnp.moveaxis(jnp.tensordot(y, _matrix(taps, y.shape[axis], y.dtype), ((axis,), (1,))), -1, axis)
            continue
        shape = [-1 if i == axis else 1 for i in range(y.ndim)]
        parts = [jnp.take(y, a, axis=axis, mode="clip") for a in at]
        y = (
            parts[0]
            if mode == "nearest"
            else sum([p * w.astype(y.dtype).reshape(shape) for p, w in zip(parts, weights)])
        )
        if hold is not None and axis == axes[0] and len(at) > 1:
            y = hold(y)
    return y.astype(x.dtype)


@resize_of.check
def _(x, mode):
    if not (x.dtype.is_floating or mode == "nearest" or (mode == "linear" and x.dtype.name == "uint8")):
        raise errors.bad(
            "interpolate(x)",
            f"a floating-point dtype for mode {mode!r}",
            described=x.dtype.name,
            kind=errors.DtypeError,
        )


@resize_of.infer
def _(x, axes, sizes):
    new = list(x.shape)
    for axis, m in zip(axes, sizes):
        new[axis] = m
    return sig_of(tuple(new), x.dtype)


@resize_of.grad(numpy=True)
def _(g, sigs, axes, sizes, scales, mode, align_corners, align_mode):
    # products with the transposed weights: a scatter of the taps is slower
    y, shape = _as_float(g), sigs[0].shape
    if not y.size:
        return jnp.zeros(shape, g.dtype)
    for axis, times, taps in _plans(shape, axes, sizes, scales, mode, align_corners, align_mode):
        if taps is None:
            if times > 1:
                y = jnp.sum(y.reshape(*y.shape[:axis], shape[axis], times, *y.shape[axis + 1 :]), axis=axis + 1)
        else:
            y = jnp.moveaxis(jnp.tensordot(y, _matrix(taps, shape[axis], y.dtype), ((axis,), (0,))), -1, axis)
    return y.astype(g.dtype)


def _target(
    name: str, x: Any, axes: list[int], size: Any, scale_factor: Any, recompute: bool, whole: bool
) -> tuple[tuple, tuple]:
    """Sizes of the spatial axes, and the factors where they decide, else 0; sizes are truncated unless `whole`."""
    count = len(axes)
    if size is not None:
        given = size.tolist() if isinstance(size, Tensor) or hasattr(size, "tolist") else size
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        given = [n.item() if isinstance(n, Tensor) or getattr(n, "shape", None) == () else n for n in given]
        if not whole:
            given = [int(n) if isinstance(n, float) and math.isfinite(n) else n for n in given]
        if len(given) == 1 and count > 1 and not isinstance(size, (list, tuple, Tensor)):
            given = given * count
        if len(given) != count or not all(isinstance(n, (int, np.integer)) for n in given):
            raise errors.bad(f"{name}(size)", f"{count} integers", size, kind=errors.ArgumentTypeError)
        if min(given) < 1:
            raise errors.bad(f"{name}(size)", "positive sizes", list(given), kind=errors.ArgumentError)
        return tuple([int(n) for n in given]), (0.0,) * count
    given = (
        scale_factor.tolist() if isinstance(scale_factor, Tensor) or hasattr(scale_factor, "tolist") else scale_factor
    )
    given = list(given) if isinstance(given, (list, tuple)) else [given] * count
    given = [n.item() if isinstance(n, Tensor) or getattr(n, "shape", None) == () else n for n in given]
    if not all(isinstance(n, (int, float)) for n in given):
        raise errors.bad(
            f"{name}(scale_factor)", f"a number or {count} numbers", scale_factor, kind=errors.ArgumentTypeError
        )
    given = [float(n) for n in given]
    if len(given) != count:
        raise errors.bad(
            f"{name}(scale_factor)", f"a number or {count} numbers", scale_factor, kind=errors.for_number(scale_factor)
        )
    if min(given) <= 0 or not all(math.isfinite(s) for s in given):
        raise errors.bad(f"{name}(scale_factor)", "positive numbers", scale_factor)
    sizes = tuple([int(np.float32(x.shape[a]) * np.float32(s)) for a, s in zip(axes, given)])
    if min(sizes) < 1:
        raise errors.bad(f"{name}(scale_factor)", "scale factors that leave at least one element", given)
    return sizes, (0.0,) * count if recompute else tuple(given)


@composite(plain=True)
def interpolate(x: Tensor, size: Attr[int | Sequence[int | Tensor] | Tensor] = None,
                scale_factor: Attr[float | Sequence[float] | Tensor] = None, mode: str = "nearest",
                align_corners: Attr[bool] = False, align_mode: int = 0, data_format: str | None = None,
                recompute_scale_factor: bool | None = None) -> Tensor:  # fmt: skip
    """Resize sequences, images or volumes to a given size or by a factor.

    Exactly one of ``size`` and ``scale_factor`` is given. The modes are:

    - ``'nearest'`` for 3-D, 4-D and 5-D input: the element that the position falls on, rounded down; also of integers
    - ``'linear'`` for 3-D, ``'bilinear'`` for 4-D, ``'trilinear'`` for 5-D input: linear between the two neighbours
    - ``'bicubic'`` for 4-D input: cubic convolution over four neighbours, with coefficient -0.75
    - ``'area'`` for 3-D, 4-D and 5-D input: the mean of the elements that a result covers, as in adaptive pooling

    Args:
        x: Input tensor of 3, 4 or 5 dimensions, with a batch axis and channels; of a floating-point dtype but for
            ``'nearest'``.
        size: Sizes of the spatial axes of the result: one integer for all of them, a list, or a tensor. Default: None.
        scale_factor: Factor by which spatial axes grow: a number or one for each axis; sizes are rounded down.
            Default: None.
        mode: One of the modes above. Default: ``'nearest'``.
        align_corners: Whether the first and last elements of both sizes are aligned, else the edges of the first and
            last elements are; must be ``False`` for ``'nearest'``. Default: False.
        align_mode: Position in the input of the result at index ``i`` in the linear modes without ``align_corners``: 0
            means ``ratio * (i + 0.5) - 0.5``, 1 means ``ratio * i``. Default: 0.
        data_format: ``'NCW'``, ``'NCHW'``, ``'NCDHW'``, or with channels last ``'NWC'``, ``'NHWC'``, ``'NDHWC'``;
            ``None`` means channels are axis 1. Default: None.
        recompute_scale_factor: Whether positions follow from the rounded size rather than from ``scale_factor`` itself;
            not with ``size``. Default: None.

    Returns:
        Tensor of the dtype of ``x``, with the new sizes along its spatial axes.

    Raises:
        ValueError: If both or none of ``size`` and ``scale_factor`` are given, or the mode does not fit the number of
            dimensions.

    Examples:
        >>> bireme.nn.functional.interpolate(bireme.to_tensor([[[[1.0, 2.0]]]]), scale_factor=2).tolist()
        [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """
    return _interpolated(
        "interpolate", x, size, scale_factor, mode, align_corners, align_mode, data_format, recompute_scale_factor
    )


@composite(plain=True)
def upsample(x: Tensor, size: Attr[int | Sequence[int | Tensor] | Tensor] = None,
             scale_factor: Attr[float | Sequence[float] | Tensor] = None, mode: str = "nearest",
             align_corners: Attr[bool] = False, align_mode: int = 0,
             data_format: str | None = None) -> Tensor:  # fmt: skip
    """Resize sequences, images or volumes to a given size or by a factor; the same function as ``interpolate``.

    Args:
        x: Input tensor of 3, 4 or 5 dimensions, with a batch axis and channels; of a floating-point dtype but for
            ``'nearest'``.
        size: Sizes of the spatial axes of the result: one integer for all of them, a list, or a tensor. Default: None.
        scale_factor: Factor by which spatial axes grow: a number or one for each axis; sizes are rounded down.
            Default: None.
        mode: ``'nearest'``, ``'linear'``, ``'bilinear'``, ``'bicubic'``, ``'trilinear'`` or ``'area'``.
            Default: ``'nearest'``.
        align_corners: Whether the first and last elements of both sizes are aligned, else the edges of the first and
            last elements are; must be ``False`` for ``'nearest'``. Default: False.
        align_mode: Position in the input of the result at index ``i`` in the linear modes without ``align_corners``: 0
            means ``ratio * (i + 0.5) - 0.5``, 1 means ``ratio * i``. Default: 0.
        data_format: ``'NCW'``, ``'NCHW'``, ``'NCDHW'``, or with channels last ``'NWC'``, ``'NHWC'``, ``'NDHWC'``;
            ``None`` means channels are axis 1. Default: None.

    Returns:
        Tensor of the dtype of ``x``, with the new sizes along its spatial axes.

    Examples:
        >>> bireme.nn.functional.upsample(bireme.to_tensor([[[[1.0, 2.0]]]]), size=[1, 4]).tolist()
        [[[[1.0, 1.0, 2.0, 2.0]]]]
    """
    return _interpolated("upsample", x, size, scale_factor, mode, align_corners, align_mode, data_format, None)


def _interpolated(name, x, size, scale_factor, mode, align_corners, align_mode, data_format, recompute):
    kind = str(mode).lower()
    if kind not in MODES:
        raise errors.bad(f"{name}(mode)", f"one of {', '.join(map(repr, MODES))}", mode)
    if x.ndim not in MODES[kind]:
        expected = " or ".join([f"{n}-D" for n in MODES[kind]])
        raise errors.bad(
            f"{name}(x)",
            f"a {expected} tensor for mode {kind!r}",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    if not isinstance(align_corners, (bool, np.bool_)):
        raise errors.bad(f"{name}(align_corners)", "True or False", align_corners, kind=errors.ArgumentTypeError)
    if align_corners and kind == "nearest":
        raise errors.bad(f"{name}(align_corners)", f"False with mode {kind!r}", align_corners)
    if align_mode not in (0, 1):
        raise errors.bad(f"{name}(align_mode)", "0 or 1", align_mode)
    if kind == "area" and size is not None:
        scale_factor = None  # Paddle reads the size alone
    if (size is None) == (scale_factor is None):
        raise errors.bad(
            f"{name}(size, scale_factor)",
            "either size or scale_factor",
            described="neither" if size is None else "both",
        )
    if recompute and size is not None:
        raise errors.bad(f"{name}(recompute_scale_factor)", "False with size", recompute)
    first, last = FORMATS[x.ndim]
    layout = (
        first
        if data_format is None or (data_format == "NCL" and x.ndim == 3)
        else last
        if data_format == "NLC" and x.ndim == 3
        else data_format
    )
    if layout not in (first, last):
        raise errors.bad(f"{name}(data_format)", f"{first!r} or {last!r}", data_format)
    axes = list(range(1, x.ndim - 1)) if layout == last else list(range(2, x.ndim))
    if min([x.shape[a] for a in axes]) < 1:
        raise errors.bad(
            f"{name}(x)", "non-empty spatial dimensions", described=f"shape {x.shape}", kind=errors.ShapeError
        )
    sizes, scales = _target(name, x, axes, size, scale_factor, bool(recompute) or kind == "area", kind == "area")
    inner = "linear" if kind in ("bilinear", "trilinear") else kind
    return resize_of(x, tuple(axes), sizes, scales, inner, bool(align_corners), align_mode)
