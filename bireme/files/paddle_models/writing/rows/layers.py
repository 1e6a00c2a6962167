"""Rows of products, convolutions, pooling, normalization, attention and resizing."""

from __future__ import annotations

import math
from typing import Any

from bireme.core.program.variable import Dim
from bireme.files.paddle_models.writing.rows.creation import filled
from bireme.files.paddle_models.writing.rows.reductions import one
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, broadcast, row, same_size

# ---------------------------------------------------------------- products


def product(w: Writer, x: Value, y: Value, turn_x: bool = False, turn_y: bool = False) -> Value:
    """The product of matrices, batches of them broadcast."""
    rows = x.shape[-1 if turn_x else -2]
    columns = y.shape[-2 if turn_y else -1]
    shape = [*broadcast(x.shape[:-2], y.shape[:-2]), rows, columns] if x.ndim > 2 or y.ndim > 2 else [rows, columns]
    return w.op("matmul", [x, y], [(x.dtype, shape)], transpose_x=turn_x, transpose_y=turn_y)


@row("matmul")
def _matmul(w: Writer, x: Value, y: Value, transpose_x: bool = False, transpose_y: bool = False) -> Value:
    dtype = w.types[0][0]
    return w.op("matmul", [w.cast(x, dtype), w.cast(y, dtype)], transpose_x=transpose_x, transpose_y=transpose_y)


@row("bmm")
def _bmm(w: Writer, x: Value, y: Value) -> Value:
    return w.op("bmm", [x, y])


@row("mm")
def _mm(w: Writer, input: Value, mat2: Value) -> Value:
    return w.op("matmul", [input, mat2], transpose_x=False, transpose_y=False)


@row("mv")
def _mv(w: Writer, x: Value, vec: Value) -> Value:
    return w.op("mv", [x, vec])


@row("dot")
def _dot(w: Writer, x: Value, y: Value) -> Value:
    return w.op("dot", [x, y])


@row("kron")
def _kron(w: Writer, x: Value, y: Value) -> Value:
    return w.op("kron", [x, y])


@row("cross")
def _cross(w: Writer, x: Value, y: Value, axis: int = 9) -> Value:
    return w.op("cross", [x, y], axis=axis)


@row("addmm")
def _addmm(w: Writer, input: Value, x: Value, y: Value, beta: float = 1.0, alpha: float = 1.0) -> Value:
    return w.op("addmm", [input, x, y], beta=beta, alpha=alpha)


@row("linear")
def _linear(w: Writer, x: Value, weight: Value, bias: Value | None = None) -> Value:
    made = w.op("matmul", [x, weight], transpose_x=False, transpose_y=False)
    return made if bias is None else w.op("add", [made, bias])


@row("bilinear")
def _bilinear(w: Writer, x1: Value, x2: Value, weight: Value, bias: Value | None = None) -> Value:
    return w.op("bilinear", [x1, x2, weight, bias])


@row("einsum")
def _einsum(w: Writer, equation: str, *operands: Any) -> Value:
    each = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    types = [x.type for x in each]
    return w.op("einsum", [each], [w.types[0], types, types], equation=equation)[0]


@row("einsum_of")
def _einsum_of(w: Writer, operands: list[Value], terms: Any, labels: Any) -> Value:
    sizes: dict[Any, Any] = {}
    for x, term in zip(operands, terms, strict=True):
        for n, c in zip(x.shape, term, strict=True):
            known = sizes.setdefault(c, n)
            # sizes that are unknown are checked when the file is run
            if not same_size(known, n) and not isinstance(known, Dim) and not isinstance(n, Dim):
                raise Unwritable("that broadcasts")
    letters = {c: chr(ord("a") + i) for i, c in enumerate(sizes)}  # the operation knows no capital ones
    told = ["".join([letters[c] for c in term]) for term in (*terms, labels)]
    types = [x.type for x in operands]
    return w.op("einsum", [list(operands)], [w.types[0], types, types], equation=f"{','.join(told[:-1])}->{told[-1]}")[
        0
    ]


# ---------------------------------------------------------------- convolutions


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


def _beside(n: Any, other: int) -> list[int]:
    """A number for one dimension with that of the dimension before it, which is of size 1."""
    return [other, *many(n, 1)]


def _wider(w: Writer, x: Value, axis: int) -> Value:
    return w.op("unsqueeze", [x, w.ints([axis])], [(x.dtype, [*x.shape[:axis], 1, *x.shape[axis:]])])


def _narrower(w: Writer, x: Value, axis: int) -> Value:
    return w.op("squeeze", [x, w.ints([axis])], [(x.dtype, [*x.shape[:axis], *x.shape[axis + 1 :]])])


def _flat_paddings(padding: Any, last: bool) -> Any:
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
        w, _wider(w, x, at), _wider(w, weight, 2), bias, _beside(stride, 1), _flat_paddings(padding, last),
        _beside(dilation, 1), groups, "NHWC" if last else "NCHW", (dtype, [*shape[:at], 1, *shape[at:]]), 2,
    )  # fmt: skip
    return _narrower(w, made, at)


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
        w, _wider(w, x, at), _wider(w, weight, 2), bias, _beside(stride, 1), _flat_paddings(padding, last),
        0 if output_padding in (0, [0]) else _beside(output_padding, 0), _beside(dilation, 1), groups,
        None if output_size is None else _beside(output_size, 1), "NHWC" if last else "NCHW",
        (dtype, [*shape[:at], 1, *shape[at:]]), 2,
    )  # fmt: skip
    return _narrower(w, made, at)


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


# ---------------------------------------------------------------- pooling


def _pooled(
    w: Writer, x: Value, how: str, size: list[int], stride: Any, padding: Any, data_format: str, out: Any,
    ceil_mode: bool = False, exclusive: bool = True, adaptive: bool = False,
) -> Value:  # fmt: skip
    count = len(size)
    pads, rule = paddings(padding, count, data_format[-1] == "C")
    attrs: dict[str, Any] = {
        "strides": size if stride is None else many(stride, count), "paddings": pads, "ceil_mode": ceil_mode,
        "exclusive": exclusive, "data_format": data_format, "pooling_type": how, "adaptive": adaptive,
        "padding_algorithm": rule,
    }  # fmt: skip
    if count == 3:
        return w.op("pool3d", [x], [out], kernel_size=size, **attrs)
    return w.op("pool2d", [x, w.ints(size)], [out], **attrs)


def _flat(w: Writer, x: Value, pool: Any) -> Any:
    """Pooling of one dimension as that of two, the first of size 1."""
    outer = w.types
    made = pool(_wider(w, x, 2), [(dtype, [*shape[:2], 1, *shape[2:]]) for dtype, shape in outer])
    return tuple([_narrower(w, m, 2) for m in made]) if isinstance(made, tuple) else _narrower(w, made, 2)


@row("max_pool2d")
def _max_pool2d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
    ceil_mode: bool = False, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    if return_mask:
        return _masked(w, x, many(kernel_size, 2), stride, padding, ceil_mode, w.types)
    return _pooled(w, x, "max", many(kernel_size, 2), stride, padding, data_format, w.types[0], ceil_mode)


@row("max_pool3d")
def _max_pool3d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
    ceil_mode: bool = False, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    if return_mask:
        return _masked(w, x, many(kernel_size, 3), stride, padding, ceil_mode, w.types)
    return _pooled(w, x, "max", many(kernel_size, 3), stride, padding, data_format, w.types[0], ceil_mode)


def _masked(
    w: Writer, x: Value, size: list[int], stride: Any, padding: Any, ceil_mode: bool, outs: Any, adaptive: bool = False
) -> Any:
    count = len(size)
    pads, rule = paddings(padding, count, False)
    if rule != "EXPLICIT" or len(pads) != count:
        raise Unwritable("with return_mask and such a padding")
    types = [outs[0], ("int32", outs[0][1])]
    made = w.op(
        f"max_pool{count}d_with_index", [x], types, kernel_size=size, paddings=pads, adaptive=adaptive,
        strides=size if stride is None else many(stride, count), ceil_mode=ceil_mode,
    )  # fmt: skip
    return made


@row("max_pool1d")
def _max_pool1d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    size, step = [1, *many(kernel_size, 1)], None if stride is None else _beside(stride, 1)
    pads = padding if isinstance(padding, str) else _flat_paddings(padding, False)
    if return_mask:
        pads = [0, pads[2]] if not isinstance(pads, str) and pads[2] == pads[3] else pads
        return _flat(w, x, lambda y, outs: _masked(w, y, size, step, pads, ceil_mode, outs))
    return _flat(w, x, lambda y, outs: _pooled(w, y, "max", size, step, pads, "NCHW", outs[0], ceil_mode))


@row("avg_pool1d")
def _avg_pool1d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, exclusive: bool = True,
    ceil_mode: bool = False,
) -> Value:  # fmt: skip
    size, step = [1, *many(kernel_size, 1)], None if stride is None else _beside(stride, 1)
    pads = padding if isinstance(padding, str) else _flat_paddings(padding, False)
    return _flat(w, x, lambda y, outs: _pooled(w, y, "avg", size, step, pads, "NCHW", outs[0], ceil_mode, exclusive))


@row("avg_pool2d avg_pool3d")
def _avg_pool(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    exclusive: bool = True, divisor_override: Any = None, data_format: str = "NCHW",
) -> Value:  # fmt: skip
    size = many(kernel_size, x.ndim - 2)
    if divisor_override is not None:
        made = _pooled(w, x, "avg", size, stride, padding, data_format, w.types[0], ceil_mode, False)
        return w.binary("multiply", made, math.prod(size) / divisor_override)
    return _pooled(w, x, "avg", size, stride, padding, data_format, w.types[0], ceil_mode, exclusive)


def _target(x: Value, output_size: Any, last: bool) -> list[int]:
    count = x.ndim - 2
    own = x.shape[1:-1] if last else x.shape[2:]
    wanted = [output_size] * count if output_size is None or isinstance(output_size, int) else list(output_size)
    found = [own[i] if n is None else n for i, n in enumerate(wanted)]
    if any(isinstance(n, (Dim, Value)) for n in found):
        raise Unwritable("to a size that is unknown")
    return [int(n) for n in found]


@row("adaptive_avg_pool2d adaptive_avg_pool3d")
def _adaptive_avg_pool(w: Writer, x: Value, output_size: Any, data_format: str = "NCHW") -> Value:
    size = _target(x, output_size, data_format[-1] == "C")
    return _pooled(w, x, "avg", size, 1, 0, data_format, w.types[0], adaptive=True)


@row("adaptive_avg_pool1d")
def _adaptive_avg_pool1d(w: Writer, x: Value, output_size: Any) -> Value:
    size = [1, *_target(x, output_size, False)]
    return _flat(w, x, lambda y, outs: _pooled(w, y, "avg", size, 1, 0, "NCHW", outs[0], adaptive=True))


@row("adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(w: Writer, x: Value, output_size: Any, return_mask: bool = False) -> Any:
    size = _target(x, output_size, False)
    made = _masked(w, x, size, 1, 0, False, w.types, adaptive=True)
    return made if return_mask else made[0]


@row("adaptive_max_pool1d")
def _adaptive_max_pool1d(w: Writer, x: Value, output_size: Any, return_mask: bool = False) -> Any:
    size = [1, *_target(x, output_size, False)]
    made = _flat(w, x, lambda y, outs: _masked(w, y, size, 1, 0, False, outs, adaptive=True))
    return made if return_mask else made[0]


# ---------------------------------------------------------------- normalization


def _layout(data_format: str) -> str:
    return "NHWC" if data_format[-1] == "C" and len(data_format) > 2 else "NCHW"


@row("batch_norm")
def _batch_norm(
    w: Writer, x: Value, running_mean: Value, running_var: Value, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.9, epsilon: float = 1e-5, data_format: str = "NCHW",
    use_global_stats: Any = None,
) -> Value:  # fmt: skip
    if training and not use_global_stats:
        raise Unwritable("in training")
    one_each = running_mean.type
    weight = weight if weight is not None else w.full(running_mean.shape, 1.0, running_mean.dtype)
    bias = bias if bias is not None else w.full(running_mean.shape, 0.0, running_mean.dtype)
    made = w.op(
        "batch_norm_", [x, running_mean, running_var, weight, bias],
        [x.type, one_each, one_each, one_each, one_each, ("uint8", [-1])],
        momentum=momentum, epsilon=epsilon, data_format=_layout(data_format),
    )  # fmt: skip
    return made[0]


@row("layer_norm")
def _layer_norm(
    w: Writer, x: Value, normalized_shape: Any, weight: Any = None, bias: Any = None, epsilon: float = 1e-5
) -> Value:
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    begin = x.ndim - count
    each = [p if p is None or p.ndim == 1 else w.reshape(p, [math.prod(p.shape)]) for p in (weight, bias)]
    stats = ("float32", x.shape[:begin])
    return w.op("layer_norm", [x, *each], [x.type, stats, stats], epsilon=epsilon, begin_norm_axis=begin)[0]


@row("layer_norm_of")
def _layer_norm_of(w: Writer, x: Value, weight: Any, bias: Any, epsilon: Any, axes: Any) -> Value:
    if [one(a, x) for a in axes] != list(range(x.ndim - len(axes), x.ndim)):
        raise Unwritable("over other than the last axes")
    return _layer_norm(w, x, [x.shape[a] for a in axes], weight, bias, _plain(epsilon))


def _plain(x: Any) -> Any:
    """A number that may come with its dtype."""
    if isinstance(x, Value):
        raise Unwritable("with a tensor as epsilon")
    return x[1] if isinstance(x, tuple) else x


@row("rms_norm_of")
def _rms_norm_of(w: Writer, x: Value, weight: Any, bias: Any, epsilon: Any, axes: Any) -> Value:
    places = [one(a, x) for a in axes]
    kind = x.dtype if x.dtype in ("float32", "float64") else "float32"
    wide = w.cast(x, kind)
    kept = [1 if i in places else n for i, n in enumerate(x.shape)]
    mean = w.op("mean", [w.op("square", [wide], [wide.type]), w.ints(places)], [(kind, kept)], keepdim=True)
    mean = w.op("scale", [mean, w.full([1], 1.0, "float32")], [mean.type], bias=_plain(epsilon), bias_after_scale=True)
    made = w.op("multiply", [wide, w.op("rsqrt", [mean], [mean.type])], [wide.type])
    if weight is not None:
        made = w.op("multiply", [made, w.cast(weight, kind)], [made.type])
    if bias is not None:
        made = w.op("add", [made, w.cast(bias, kind)], [made.type])
    return w.cast(made, x.dtype)


@row("group_norm")
def _group_norm(
    w: Writer, x: Value, num_groups: int, epsilon: float = 1e-5, weight: Any = None, bias: Any = None,
    data_format: str = "NCHW",
) -> Value:  # fmt: skip
    stats = ("float32", [x.shape[0], num_groups])
    made = w.op(
        "group_norm", [x, weight, bias], [x.type, stats, stats], epsilon=epsilon, groups=num_groups,
        data_format=_layout(data_format),
    )  # fmt: skip
    return made[0]


@row("instance_norm")
def _instance_norm(
    w: Writer, x: Value, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: bool = True, momentum: float = 0.9, eps: float = 1e-5, data_format: str = "NCHW",
) -> Value:  # fmt: skip
    if not use_input_stats or data_format[-1] == "C":
        raise Unwritable("with these options")
    stats = ("float32", [-1])
    return w.op("instance_norm", [x, weight, bias], [x.type, stats, stats], epsilon=eps)[0]


@row("dropout")
def _dropout(
    w: Writer, x: Value, p: Any = 0.5, axis: Any = None, training: bool = True, mode: str = "upscale_in_train"
) -> Value:
    if not training and mode == "upscale_in_train":
        return x
    if axis is not None:
        raise Unwritable("along axes in training")
    kept = "upscale_in_train" if mode == "upscale_in_train" else "downgrade_in_infer"
    inputs = [x, None, w.number(p, "float32", [1])]
    return w.op("dropout", inputs, [x.type, ("uint8", x.shape)], is_test=not training, mode=kept)[0]


@row("dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout")
def _whole_dropout(w: Writer, training: bool = True, **given: Any) -> Value:
    if training:
        raise Unwritable("in training")
    return given["input"] if "input" in given else given["x"]


@row("rrelu")
def _rrelu(w: Writer, x: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = True) -> Value:
    if training:
        raise Unwritable("in training")
    return w.op("leaky_relu", [x], negative_slope=(lower + upper) / 2)


@row("softmax")
def _softmax(w: Writer, x: Value, axis: int = -1, dtype: Any = None) -> Value:
    return w.op("softmax", [w.cast(x, w.types[0][0])], axis=one(axis, x) if x.ndim else -1)


@row("softmax_of")
def _softmax_of(w: Writer, x: Value, axis: int) -> Value:
    return _softmax(w, x, axis)


@row("log_softmax")
def _log_softmax(w: Writer, x: Value, axis: int = -1, dtype: Any = None) -> Value:
    return w.op("log_softmax", [w.cast(x, w.types[0][0])], axis=one(axis, x) if x.ndim else -1)


@row("log_softmax_of")
def _log_softmax_of(w: Writer, x: Value, axis: int) -> Value:
    return _log_softmax(w, x, axis)


@row("swiglu")
def _swiglu(w: Writer, x: Value, y: Value | None = None) -> Value:
    return w.op("swiglu", [x, y])


# ---------------------------------------------------------------- attention


@row("scaled_dot_product_attention")
def _attention(
    w: Writer, query: Value, key: Value, value: Value, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, training: bool = True, backend: Any = None,
) -> Value:  # fmt: skip
    if dropout_p and training:
        raise Unwritable("with dropout in training")
    weights = attended(w, query, key, attn_mask, is_causal)
    v = _shared(w, w.transpose(value, [0, 2, 1, 3]), _groups(query, value), weights.shape[1])
    return w.transpose(product(w, weights, v), [0, 2, 1, 3])


@row("flash_attention")
def _flash_attention(
    w: Writer, query: Value, key: Value, value: Value, dropout: float = 0.0, causal: bool = False,
    return_softmax: bool = False, training: bool = True, softmax_scale: Any = None, **options: Any,
) -> Any:  # fmt: skip
    if return_softmax or softmax_scale is not None:
        raise Unwritable("with options")
    return _attention(w, query, key, value, None, dropout, causal, training), None


@row("attention")
def _plain_attention(w: Writer, query: Value, key: Value, value: Value, mask: Any, causal: bool) -> Value:
    return _attention(w, query, key, value, mask, 0.0, causal)


@row("attention_weights")
def _attention_weights(
    w: Writer, query: Value, key: Value, mask: Any, causal: bool, shift: int = 0, scale: Any = None
) -> Value:
    if causal and shift:
        raise Unwritable("with a shift")
    return attended(w, query, key, mask, causal, scale)


def attended(w: Writer, query: Value, key: Value, mask: Any, causal: bool, scale: Any = None) -> Value:
    """How much each query attends to each key, [batch, heads, queries, keys]."""
    if query.ndim != 4:
        raise Unwritable("of other than 4 dimensions")
    q, k = [w.transpose(x, [0, 2, 1, 3]) for x in (query, key)]
    k = _shared(w, k, _groups(query, key), q.shape[1])
    factor = w.full([1], query.shape[-1] ** -0.5 if scale is None else scale, "float32")
    q = w.op("scale", [q, factor], [q.type], bias=0.0, bias_after_scale=True)
    scores = product(w, q, k, turn_y=True)
    allowed = None
    if mask is not None and mask.dtype == "bool":
        allowed = w.cast(mask, q.dtype)
        hidden = w.op("scale", [allowed, w.full([1], 1.0, "float32")], [allowed.type], bias=-1.0, bias_after_scale=True)
        mask = w.binary("multiply", hidden, LOW[q.dtype == "float16"])
    if mask is not None:
        scores = w.op("add", [scores, w.cast(mask, q.dtype)], [scores.type])
    if causal:
        scores = w.op("add", [scores, _causal(w, scores)], [scores.type])
    weights = w.op("softmax", [scores], [scores.type], axis=3)
    # a query that may attend to nothing gives zeros
    return weights if allowed is None else w.op("multiply", [weights, allowed], [weights.type])


LOW = (1e30, 6e4)  # what hidden scores are less by, also in half precision


def _shared(w: Writer, x: Value, groups: int, heads: int) -> Value:
    """Keys or values of which several heads share each."""
    if groups == 1:
        return x
    out = (x.dtype, [x.shape[0], heads, *x.shape[2:]])
    return w.op("repeat_interleave", [x], [out], repeats=groups, axis=1)


def _groups(query: Value, key: Value) -> int:
    heads, own = query.shape[2], key.shape[2]
    if isinstance(heads, Dim) or isinstance(own, Dim):
        raise Unwritable("with a number of heads that is unknown")
    return heads // own


def _causal(w: Writer, scores: Value) -> Value:
    """What is added to scores so that a query sees keys up to its own place."""
    shape = scores.shape[2:]
    before, w.types = w.types, [(scores.dtype, shape)]
    low = filled(w, shape, -LOW[scores.dtype == "float16"])
    w.types = before
    return w.op("triu", [low], [low.type], diagonal=1)


# ---------------------------------------------------------------- padding and resizing

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
        wide = _wider(w, wide, 2)
    out = (x.dtype, [*shape[:2], *[1] * (5 - x.ndim), *shape[2:]])
    made = w.op("pad3d", [wide, w.ints(flat)], [out], mode=mode, pad_value=0.0, data_format="NCDHW")
    for _ in range(5 - x.ndim):
        made = _narrower(w, made, 2)
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
