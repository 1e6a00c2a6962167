"""Boxes: as offsets from prior boxes and back, and the prior boxes of a feature map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.vision.arguments import floating, made, shaped


def _middle(boxes, offset):
    """Centers and sizes of boxes."""
    size = boxes[..., 2:] - boxes[..., :2] + offset
    return boxes[..., :2] + size / 2, size


def _encoded(prior, variance, target, offset):
    center, size = _middle(prior, offset)
    own = target[:, None, 2:] - target[:, None, :2] + offset
    shift = ((target[:, None, 2:] + target[:, None, :2]) / 2 - center) / size
    return jnp.concatenate([shift, jnp.log(jnp.abs(own / size))], axis=-1) / variance


def _decoded(prior, variance, target, offset, axis):
    center, size = [jnp.expand_dims(part, axis) for part in _middle(prior, offset)]
    target = target * (jnp.expand_dims(variance, axis) if variance.ndim == 2 else variance)
    center, size = target[..., :2] * size + center, jnp.exp(target[..., 2:]) * size
    return jnp.concatenate([center - size / 2, center + size / 2 - offset], axis=-1)


@op(internal="box_coder", promote="prior_box prior_box_var target_box", dtypes=FLOAT, numpy=True, upcast=True)
def box_coder_of(prior_box: Tensor, prior_box_var: Tensor | None, target_box: Tensor, factors: Attr, encode: bool,
                 offset: int, axis: int) -> Tensor:  # fmt: skip
    """Boxes as offsets from prior boxes or back; use `box_coder`."""
    variance = np.asarray(factors, prior_box.dtype) if prior_box_var is None else prior_box_var
    if encode:
        return _encoded(prior_box, variance, target_box, offset)
    return _decoded(prior_box, variance, target_box, offset, axis)


@box_coder_of.infer
def _(prior_box, target_box, encode):
    shape = (target_box.shape[0], prior_box.shape[0], 4) if encode else target_box.shape
    return sig_of(shape, target_box.dtype)


def _numbers(where: str, values: Any, n: int | None, what: str) -> list[float]:
    one = isinstance(values, (int, float, np.number)) and not isinstance(values, bool)
    found = [values] if one and n is None else list(values) if isinstance(values, (list, tuple)) else None
    if found is None or any(isinstance(v, bool) or not isinstance(v, (int, float, np.number)) for v in found):
        raise errors.bad(where, what, values, kind=errors.ArgumentTypeError)
    if n is not None and len(found) != n:
        raise errors.bad(where, what, values)
    return [float(v) for v in found]


@composite(public="vision.ops.box_coder")
def box_coder(
    prior_box: Tensor,
    prior_box_var: Attr[Tensor | Sequence[float]],
    target_box: Tensor,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
) -> Tensor:
    """Encode boxes as offsets from prior boxes, or decode such offsets.

    Centers are encoded as differences in units of the size of the prior box, sizes as logarithms of their ratio; both
    are divided by the variances.

    Args:
        prior_box: Prior boxes ``(x1, y1, x2, y2)`` of shape ``[M, 4]``, of a floating-point dtype.
        prior_box_var: Variances: a tensor of shape ``[M, 4]``, four numbers for all prior boxes, or None for 1.
        target_box: Boxes ``(x1, y1, x2, y2)`` of shape ``[N, 4]`` to encode, or offsets of shape ``[N, M, 4]`` to
            decode, ``[M, N, 4]`` with ``axis`` 1.
        code_type: ``'encode_center_size'`` or ``'decode_center_size'``. Default: ``'encode_center_size'``.
        box_normalized: Whether coordinates are fractions of the image; else the last pixel belongs to a box.
            Default: True.
        axis: With decoding, the axis of ``target_box`` that the prior boxes are repeated along: 0 or 1. Default: 0.

    Returns:
        Tensor of shape ``[N, M, 4]``: each box encoded with each prior box; or of the shape of ``target_box``.

    Examples:
        >>> prior = bireme.to_tensor([[0.0, 0.0, 2.0, 4.0]])
        >>> bireme.vision.ops.box_coder(prior, [0.5, 0.5, 1.0, 1.0], bireme.to_tensor([[1.0, 1.0, 3.0, 5.0]])).tolist()
        [[[1.0, 0.5, 0.0, 0.0]]]
    """
    if code_type not in ("encode_center_size", "decode_center_size"):
        raise errors.bad("box_coder(code_type)", "'encode_center_size' or 'decode_center_size'", code_type)
    encode, where = code_type == "encode_center_size", "box_coder(target_box)"
    shaped("box_coder(prior_box)", prior_box, (None, 4), "prior boxes of shape [M, 4]")
    m = prior_box.shape[0]
    if axis not in (0, 1):
        raise errors.bad("box_coder(axis)", "0 or 1", axis)
    if encode:
        shaped(where, target_box, (None, 4), "boxes of shape [N, 4]")
    elif axis == 0:
        shaped(where, target_box, (None, m, 4), f"offsets of shape [N, {m}, 4]")
    else:
        shaped(where, target_box, (m, None, 4), f"offsets of shape [{m}, N, 4]")
    factors, own = None, None
    if isinstance(prior_box_var, Tensor):
        shaped("box_coder(prior_box_var)", prior_box_var, (m, 4), f"variances of shape [{m}, 4]")
        floating("box_coder(prior_box_var)", prior_box_var)
        own = prior_box_var
    elif prior_box_var is None:
        factors = (1.0,) * 4
    else:
        what = "a Tensor, four numbers or None"
        factors = tuple(_numbers("box_coder(prior_box_var)", prior_box_var, 4, what))
    floating(where, target_box)
    offset = 0 if box_normalized else 1
    return box_coder_of(prior_box, own, target_box, factors, encode, offset, axis)


def _ratios(aspect_ratios: list[float], flip: bool) -> np.ndarray:
    """1 and the other ratios, each once, with their inverses if asked."""
    found = [1.0]
    for ratio in aspect_ratios:
        if all(abs(ratio - other) >= 1e-6 for other in found):
            found += [ratio, 1.0 / ratio] if flip else [ratio]
    return np.array(found)


def _extents(smallest: list[float], largest: list[float], ratios: np.ndarray, in_order: bool) -> np.ndarray:
    """Half widths and heights of the prior boxes of one place, `[boxes, 2]`."""
    root, found = np.sqrt(ratios), []
    for i, size in enumerate(np.array(smallest, ratios.dtype)):
        shapes = list(np.stack([size * root, size / root], axis=1) / 2)
        square = [np.sqrt(size * np.array([largest[i]] * 2, ratios.dtype)) / 2] if largest else []
        # the first of the ratios is 1
        found += [shapes[0], *square, *shapes[1:]] if in_order else [*shapes, *square]
    return np.array(found, ratios.dtype)


@composite(public="vision.ops.prior_box")
def prior_box(
    input: Tensor,
    image: Tensor,
    min_sizes: Attr[float | Sequence[float]],
    max_sizes: Attr[float | Sequence[float]] = None,
    aspect_ratios: Attr[float | Sequence[float]] = [1.0],  # noqa: B006 - Paddle's, and never changed
    variance: Attr[Sequence[float]] = [0.1, 0.1, 0.2, 0.2],  # noqa: B006 - Paddle's, and never changed
    flip: bool = False,
    clip: bool = False,
    steps: Attr[Sequence[float]] = [0.0, 0.0],  # noqa: B006 - Paddle's, and never changed
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Tensor, Tensor]:
    """Prior boxes of several sizes and aspect ratios around each place of a feature map, as SSD has them.

    Args:
        input: Feature map of shape ``[N, C, H, W]``; its size alone counts.
        image: Images of shape ``[N, C, H_image, W_image]``, of the dtype of ``input``; their size alone counts.
        min_sizes: Sizes of the boxes in pixels: positive numbers.
        max_sizes: For each of ``min_sizes`` a greater size; a square of their geometric mean is added. Default: None.
        aspect_ratios: Ratios of width to height; 1 is always among them. Default: ``[1.0]``.
        variance: Four numbers to return with each box. Default: ``[0.1, 0.1, 0.2, 0.2]``.
        flip: Whether to add the inverse of each aspect ratio. Default: False.
        clip: Whether to clip the boxes to the image. Default: False.
        steps: Distance of the places in pixels, across and down; 0 means the size of the image divided by that of the
            feature map. Default: ``[0.0, 0.0]``.
        offset: Center of the first place, in steps. Default: 0.5.
        min_max_aspect_ratios_order: Whether the square of the greater size comes second, else last. Default: False.

    Returns:
        Tuple of boxes ``(x1, y1, x2, y2)``, as fractions of the image, and their variances, both of shape
        ``[H, W, boxes of a place, 4]`` and the dtype of ``input``.

    Examples:
        >>> boxes, variances = bireme.vision.ops.prior_box(
        ...     bireme.zeros([1, 3, 1, 2]), bireme.zeros([1, 3, 8, 16]), min_sizes=[4.0])
        >>> boxes.tolist()
        [[[[0.125, 0.25, 0.375, 0.75]], [[0.625, 0.25, 0.875, 0.75]]]]
        >>> variances.shape
        [1, 2, 1, 4]
    """
    for which, x in (("input", input), ("image", image)):
        shaped(f"prior_box({which})", x, (None,) * 4, "shape [N, C, H, W]")
    floating("prior_box(input)", input)
    smallest = _numbers("prior_box(min_sizes)", min_sizes, None, "a number or a list of numbers")
    largest = _numbers("prior_box(max_sizes)", max_sizes or [], None, "a number or a list of numbers")
    if not smallest or min(smallest) <= 0:
        raise errors.bad("prior_box(min_sizes)", "positive numbers", min_sizes)
    if largest and (len(largest) != len(smallest) or any(b <= a for a, b in zip(smallest, largest))):
        raise errors.bad("prior_box(max_sizes)", f"{len(smallest)} numbers greater than those of min_sizes", max_sizes)
    given = _numbers("prior_box(aspect_ratios)", aspect_ratios, None, "a number or a list of numbers")
    if any(ratio <= 0 for ratio in given):
        raise errors.bad("prior_box(aspect_ratios)", "positive numbers", aspect_ratios)
    factors = _numbers("prior_box(variance)", variance, 4, "four numbers")
    across, down = _numbers("prior_box(steps)", steps, 2, "two numbers")
    (h, w), (height, width) = input.shape[2:], image.shape[2:]
    if not (height and width):
        described = f"shape {image.shape}"
        raise errors.bad("prior_box(image)", "images with pixels", described=described, kind=errors.ShapeError)
    kind = np.float64 if input.dtype is dtypes.float64 else np.float32
    half = _extents(smallest, largest, _ratios(given, flip).astype(kind), min_max_aspect_ratios_order)
    centers = [
        (np.arange(n, dtype=kind) + kind(offset)) * kind(step or size / max(n, 1))
        for n, step, size in ((w, across, width), (h, down, height))
    ]
    center = np.stack(np.meshgrid(*centers), axis=-1).reshape(h, w, 1, 2)
    ends = np.array([width, height], kind)
    boxes = np.concatenate([(center - half) / ends, (center + half) / ends], axis=-1)
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    repeated = np.broadcast_to(np.array(factors, kind), boxes.shape)
    return made(boxes, input.dtype, input), made(repeated, input.dtype, input)
