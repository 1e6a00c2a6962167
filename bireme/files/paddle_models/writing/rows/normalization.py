"""Rows of normalization, dropout and softmax."""

from __future__ import annotations

import math
from typing import Any

from bireme.files.paddle_models.writing.rows.reductions import one
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row


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
