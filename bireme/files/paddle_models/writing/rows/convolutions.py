"""Rows of convolutions, and what they share with other windows: paddings, sizes, an axis more or less."""

from __future__ import annotations

from typing import Any

from bireme.files.paddle_models.writing.values import Value
from bireme.files.paddle_models.writing.writer import Writer, row


def many(n: Any, count: int) -> list[int]:
    return [n] * count if isinstance(n, int) else list(n) * count if len(n) == 1 else list(n)


def paddings(padding: Any, count: int, last: bool) -> tuple[list[int], str]:
    """Paddings and the rule by which they are found, from what users write."""
    if isinstance(padding, str):
        return [0] * count, padding.upper()
    if isinstance(padding, int):
        return [padding] * count, "EXPLICIT"
    padding = list(padding)
    if padding and isinstance(padding[0], (list, tuple)):
        if len(padding) == count + 2:
            padding = padding[1:-1] if last else padding[2:]
        return [int(n) for pair in padding for n in pair], "EXPLICIT"
    if len(padding) == 1:
        padding = padding * count
    if len(padding) == 2 * (count + 2):
        padding = padding[2:-2] if last else padding[4:]
    return [int(n) for n in padding], "EXPLICIT"


def _biased(w: Writer, made: Value, bias: Value | None, last: bool) -> Value:
    if bias is None:
        return made
    if not last:
        bias = w.reshape(bias, [1, bias.shape[0], *[1] * (made.ndim - 2)])
    return w.op("add", [made, bias], [made.type])


def _convolved(
    w: Writer, x: Value, weight: Value, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    data_format: str, out: Any, count: int,
) -> Value:  # fmt: skip
    last = data_format[-1] == "C"
    pads, rule = paddings(padding, count, last)
    channels = x.shape[-1 if last else 1]
    deep = count == 2 and groups == channels != 1 and weight.shape[0] % groups == 0
    kind = "depthwise_conv2d" if deep else f"conv{count}d"
    made = w.op(
        kind, [x, weight], [out], strides=many(stride, count), paddings=pads, padding_algorithm=rule,
        dilations=many(dilation, count), groups=groups, data_format=data_format,
    )  # fmt: skip
    return _biased(w, made, bias, last)


@row("conv2d")
def _conv2d(
    w: Writer, x: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, data_format: str = "NCHW",
) -> Value:  # fmt: skip
    return _convolved(w, x, weight, bias, stride, padding, dilation, groups, data_format, w.types[0], 2)


@row("conv3d")
def _conv3d(
    w: Writer, x: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, data_format: str = "NCDHW",
) -> Value:  # fmt: skip
    return _convolved(w, x, weight, bias, stride, padding, dilation, groups, data_format, w.types[0], 3)


def beside(n: Any, other: int) -> list[int]:
    """A number for one dimension with that of the dimension before it, which is of size 1."""
    return [other, *many(n, 1)]


def wider(w: Writer, x: Value, axis: int) -> Value:
    return w.op("unsqueeze", [x, w.ints([axis])], [(x.dtype, [*x.shape[:axis], 1, *x.shape[axis:]])])


def narrower(w: Writer, x: Value, axis: int) -> Value:
    return w.op("squeeze", [x, w.ints([axis])], [(x.dtype, [*x.shape[:axis], *x.shape[axis + 1 :]])])


def flat_paddings(padding: Any, last: bool) -> Any:
    if isinstance(padding, str):
        return padding
    pads, _ = paddings(padding, 1, last)
    return [0, 0, *(pads * 2 if len(pads) == 1 else pads)]


@row("conv1d")
def _conv1d(
    w: Writer, x: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, data_format: str = "NCL",
) -> Value:  # fmt: skip
    last = data_format == "NLC"
    at = 1 if last else 2
    dtype, shape = w.types[0]
    made = _convolved(
        w, wider(w, x, at), wider(w, weight, 2), bias, beside(stride, 1), flat_paddings(padding, last),
        beside(dilation, 1), groups, "NHWC" if last else "NCHW", (dtype, [*shape[:at], 1, *shape[at:]]), 2,
    )  # fmt: skip
    return narrower(w, made, at)


def _turned(
    w: Writer, x: Value, weight: Value, bias: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any,
    groups: int, output_size: Any, data_format: str, out: Any, count: int,
) -> Value:  # fmt: skip
    last = data_format[-1] == "C"
    pads, rule = paddings(padding, count, last)
    extra = [] if output_padding in (0, None) else many(output_padding, count)
    attrs: dict[str, Any] = {
        "strides": many(stride, count), "paddings": pads, "output_padding": extra, "padding_algorithm": rule,
        "groups": groups, "dilations": many(dilation, count), "data_format": data_format,
    }  # fmt: skip
    sizes = [] if output_size is None else many(output_size, count)
    if count == 3:
        made = w.op("conv3d_transpose", [x, weight], [out], **attrs, output_size=sizes)
    else:
        channels = x.shape[-1 if last else 1]
        deep = groups == channels != 1 and weight.shape[1] == 1
        kind = "depthwise_conv2d_transpose" if deep else "conv2d_transpose"
        made = w.op(kind, [x, weight, w.ints(sizes)], [out], **attrs)
    return _biased(w, made, bias, last)


@row("conv2d_transpose")
def _conv2d_transpose(
    w: Writer, x: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    dilation: Any = 1, groups: int = 1, output_size: Any = None, data_format: str = "NCHW",
) -> Value:  # fmt: skip
    return _turned(
        w, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, w.types[0], 2
    )


@row("conv3d_transpose")
def _conv3d_transpose(
    w: Writer, x: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, output_size: Any = None, data_format: str = "NCDHW",
) -> Value:  # fmt: skip
    layout = "NHWC" if data_format[-1] == "C" else "NCHW"
    return _turned(
        w, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, layout, w.types[0], 3
    )


@row("conv1d_transpose")
def _conv1d_transpose(
    w: Writer, x: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, output_size: Any = None, data_format: str = "NCL",
) -> Value:  # fmt: skip
    last = data_format == "NLC"
    at = 1 if last else 2
    dtype, shape = w.types[0]
    made = _turned(
        w, wider(w, x, at), wider(w, weight, 2), bias, beside(stride, 1), flat_paddings(padding, last),
        0 if output_padding in (0, [0]) else beside(output_padding, 0), beside(dilation, 1), groups,
        None if output_size is None else beside(output_size, 1), "NHWC" if last else "NCHW",
        (dtype, [*shape[:at], 1, *shape[at:]]), 2,
    )  # fmt: skip
    return narrower(w, made, at)


@row("deform_conv2d")
def _deform_conv2d(
    w: Writer, x: Value, offset: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, deformable_groups: int = 1, groups: int = 1, mask: Any = None,
) -> Value:  # fmt: skip
    made = w.op(
        "deformable_conv", [x, offset, weight, mask], strides=many(stride, 2), paddings=many(padding, 2),
        dilations=many(dilation, 2), deformable_groups=deformable_groups, groups=groups,
    )  # fmt: skip
    return _biased(w, made, bias, False)


@row("unfold_columns")
def _unfold(w: Writer, x: Value, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1) -> Value:
    pads = many(paddings, 2)
    return w.op(
        "unfold", [x], kernel_sizes=many(kernel_sizes, 2), strides=many(strides, 2), dilations=many(dilations, 2),
        paddings=pads * 2 if len(pads) == 2 else pads,
    )  # fmt: skip


@row("fold")
def _fold(
    w: Writer, x: Value, output_sizes: Any, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1
) -> Value:
    pads = many(paddings, 2)
    return w.op(
        "fold", [x], output_sizes=many(output_sizes, 2), kernel_sizes=many(kernel_sizes, 2), strides=many(strides, 2),
        paddings=pads * 2 if len(pads) == 2 else pads, dilations=many(dilations, 2),
    )  # fmt: skip
