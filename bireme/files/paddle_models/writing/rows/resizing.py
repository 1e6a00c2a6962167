"""Rows of padding, resizing and sampling at places."""

from __future__ import annotations

from typing import Any

from bireme.core.program.variable import Dim
from bireme.files.paddle_models.writing.rows.convolutions import many, narrower, wider
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row

_RESIZE = {
    "linear": "linear",
    "bilinear": "bilinear",
    "trilinear": "trilinear",
    "bicubic": "bicubic",
    "nearest": "nearest",
}


@row("interpolate upsample")
def _interpolate(
    w: Writer, x: Value, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False,
    align_mode: int = 0, data_format: Any = None, recompute_scale_factor: Any = None,
) -> Value:  # fmt: skip
    mode = mode.lower()
    last = data_format is not None and data_format[-1] == "C" and len(data_format) > 2
    count = x.ndim - 2
    if mode == "area":
        raise Unwritable("by area")
    if recompute_scale_factor:
        raise Unwritable("with recompute_scale_factor")
    own = x.shape[1:-1] if last else x.shape[2:]
    outs: list[int] = [-1, -1, -1]
    scales: list[float] = []
    tensors = None
    if isinstance(size, Value):
        raise Unwritable("to a size that is a tensor")
    if size is not None:
        wanted = many(size, count)
        if any(isinstance(n, (Dim, Value)) for n in wanted):
            tensors = [w.number(n, "int32", [1]) for n in wanted]
        else:
            outs[3 - count :] = wanted
    elif isinstance(scale_factor, Value):
        raise Unwritable("by a factor that is a tensor")
    else:
        scales = [
            float(s) for s in ([scale_factor] * count if isinstance(scale_factor, (int, float)) else scale_factor)
        ]
        if not any(isinstance(n, Dim) for n in own):
            outs[3 - count :] = [int(n * s) for n, s in zip(own, scales, strict=True)]
    if mode == "nearest" and count == 3:
        raise Unwritable("of volumes by nearest")
    layout = "NHWC" if last else "NCHW"
    return w.op(
        f"{_RESIZE[mode]}_interp", [x, None, tensors, None], data_format=layout, out_d=outs[0], out_h=outs[1],
        out_w=outs[2], scale=scales, interp_method=mode, align_corners=align_corners, align_mode=align_mode,
    )  # fmt: skip


@row("grid_sample")
def _grid_sample(
    w: Writer, x: Value, grid: Value, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True
) -> Value:
    return w.op("grid_sample", [x, grid], mode=mode, padding_mode=padding_mode, align_corners=align_corners)


@row("affine_grid")
def _affine_grid(w: Writer, theta: Value, out_shape: Any, align_corners: bool = True) -> Value:
    return w.op("affine_grid", [theta, w.ints(out_shape)], align_corners=align_corners)


@row("pad")
def _pad(
    w: Writer, x: Value, pad: Any, mode: str = "constant", value: Any = 0.0, data_format: Any = None,
    pad_from_left_axis: bool = True,
) -> Value:  # fmt: skip
    if isinstance(pad, Value) or any(isinstance(n, (Dim, Value)) or n < 0 for n in pad):
        raise Unwritable("by widths that are unknown or negative")
    if not x.ndim:
        return x
    pairs = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
    widths = [(0, 0)] * x.ndim
    if len(pairs) == x.ndim and mode == "constant":
        widths = pairs if pad_from_left_axis else pairs[::-1]
    else:
        # channels come last only where the numbers are those of all spatial axes
        behind = (data_format or "NCHW").endswith("C") and 0 < len(pairs) == x.ndim - 2
        for k, pair in enumerate(pairs):
            widths[x.ndim - 1 - behind - k] = pair
    return _pad_of(w, x, value, widths, mode)


@row("pad_of")
def _pad_of(w: Writer, x: Value, value: Any, widths: Any, mode: str) -> Value:
    """Widths are pairs for each axis."""
    if any(n < 0 for pair in widths for n in pair):
        raise Unwritable("by negative widths")
    if mode != "constant":
        return _pad_around(w, x, widths, mode)
    flat = [int(n) for pair in widths for n in pair]
    return w.op("pad", [x, w.number(value, x.dtype, [1])], paddings=flat)


def _pad_around(w: Writer, x: Value, widths: Any, mode: str) -> Value:
    """The last axes, as the operation for volumes takes them: from the last to the first."""
    if x.ndim > 5 or any(n for pair in widths[: x.ndim - 3] for n in pair) or not x.ndim >= 3:
        raise Unwritable(f"by {mode} along these axes")
    if any(n for pair in widths[:2] for n in pair):
        raise Unwritable(f"by {mode} along these axes")
    flat = [int(n) for pair in list(widths[2:])[::-1] for n in pair]
    flat += [0] * (6 - len(flat))
    wide, shape = x, w.types[0][1]
    for _ in range(5 - x.ndim):
        wide = wider(w, wide, 2)
    out = (x.dtype, [*shape[:2], *[1] * (5 - x.ndim), *shape[2:]])
    made = w.op("pad3d", [wide, w.ints(flat)], [out], mode=mode, pad_value=0.0, data_format="NCDHW")
    for _ in range(5 - x.ndim):
        made = narrower(w, made, 2)
    return made


@row("roi_align")
def _roi_align(
    w: Writer, x: Value, boxes: Value, boxes_num: Value, output_size: Any, spatial_scale: float = 1.0,
    sampling_ratio: int = -1, aligned: bool = True,
) -> Value:  # fmt: skip
    rows, columns = many(output_size, 2)
    return w.op(
        "roi_align", [x, boxes, boxes_num], pooled_height=rows, pooled_width=columns, spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio, aligned=aligned,
    )  # fmt: skip
