"""Rows of elementwise functions and activations."""

from __future__ import annotations

from typing import Any

from bireme.files.paddle_models.writing.attributes import ATTRIBUTES
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, broadcast, common, row


def same(names: str, kind: str | None = None, operands: str = "x") -> None:
    """Functions that are operations of the same names, or of one other name, with attributes of the same names."""
    for name in names.split():

        def write(w: Writer, _kind: str = kind or name, **given: Any) -> Any:
            wanted = [n for n, _, _ in ATTRIBUTES.get(_kind, [])]
            return w.op(_kind, [given[n] for n in operands.split()], **{n: given[n] for n in wanted if n in given})

        row(name)(write)


def floating(names: str) -> None:
    """Functions of one tensor that compute in floating point, whatever they are given."""
    for name in names.split():

        def write(w: Writer, x: Value, _name: str = name, **given: Any) -> Any:
            return w.op(_name, [w.cast(x, w.types[0][0])])

        row(name)(write)


def arithmetic(names: str, kind: str | None = None) -> None:
    """Functions of two tensors or numbers, computed in the dtype of the result."""
    for name in names.split():

        def write(w: Writer, x: Any, y: Any, _kind: str = kind or name, **given: Any) -> Any:
            if given.get("alpha", 1) != 1 or given.get("rounding_mode") is not None:
                raise Unwritable("with options")
            return w.binary(_kind, x, y, w.types[0][0])

        row(name)(write)


@row("atan2 nextafter copysign")
def _paired(w: Writer, x: Value, y: Value) -> Value:
    dtype = w.types[0][0]
    name = w.name
    return w.op(name, w.expanded([w.cast(x, dtype), w.cast(y, dtype)]))


@row("real conj imag")
def _complex_part(w: Writer, x: Value) -> Value:
    if x.dtype.startswith("complex"):
        return w.op(w.name, [x])
    if w.name == "imag":
        raise Unwritable("of a real tensor")
    return x


def comparing(names: str) -> None:
    """Comparisons: in the dtype that both have in common."""
    for name in names.split():

        def write(w: Writer, x: Any, y: Any, _name: str = name, **given: Any) -> Any:
            dtype = common(x, y)
            both = [w.cast(a, dtype) if isinstance(a, Value) else w.number(a, dtype) for a in (x, y)]
            return w.op(_name, both)

        row(name)(write)


same("relu relu6 abs ceil floor sign square hardswish tanhshrink isfinite isinf isnan bitwise_not gelu leaky_relu elu "
     "celu selu hardshrink hardsigmoid softshrink softplus thresholded_relu softsign mish stanh silu swish "
     "as_complex as_real angle maxout temporal_shift")  # fmt: skip
same("tanhshrink", "tanh_shrink")
same("log_sigmoid", "logsigmoid")
same("silu_of", "silu")
same("trunc", operands="input")
same("lerp", operands="x y weight")
floating(
    "acos acosh asin asinh atan atanh cos cosh digamma erf erfinv exp expm1 lgamma log log10 log1p log2 reciprocal rsqrt "
    "sigmoid sin sinh sqrt tan tanh i0 i0e i1 i1e"
)
arithmetic(
    "add subtract multiply maximum minimum fmax fmin floor_divide remainder bitwise_and bitwise_or bitwise_xor "
    "heaviside"
)
arithmetic("quotient divide", "divide")
arithmetic("mul", "multiply")
arithmetic("power power_const", "elementwise_pow")
comparing("equal not_equal less_than less_equal greater_than greater_equal logical_and logical_or logical_xor")


@row("logical_not")
def _logical_not(w: Writer, x: Value) -> Value:
    return w.op("logical_not", [x])


@row("pow")
def _pow(w: Writer, x: Any, y: Any) -> Value:
    if isinstance(x, Value) and isinstance(y, (int, float)) and x.dtype == w.types[0][0]:
        return w.op("pow", [x], y=y)
    return w.binary("elementwise_pow", x, y, w.types[0][0])


@row("increment")
def _increment(w: Writer, x: Value, value: Any = 1.0) -> Value:
    return w.binary("add", x, value, x.dtype)


@row("bitwise_left_shift bitwise_right_shift")
def _shift(w: Writer, x: Any, y: Any, is_arithmetic: bool = True) -> Value:
    dtype = w.types[0][0]
    both = [w.cast(a, dtype) if isinstance(a, Value) else w.number(a, dtype) for a in (x, y)]
    return w.op(w.name, both, is_arithmetic=is_arithmetic)


@row("equal_all")
def _equal_all(w: Writer, x: Value, y: Value) -> Value:
    return w.op("equal_all", [x, y])


@row("frac")
def _frac(w: Writer, x: Value) -> Value:
    return w.op("subtract", [x, w.op("trunc", [x], [x.type])])


@row("polygamma")
def _polygamma(w: Writer, x: Value, n: int) -> Value:
    return w.op("polygamma", [w.cast(x, w.types[0][0])], n=n)


@row("neg")
def _neg(w: Writer, x: Value) -> Value:
    return _scaled(w, x, -1.0, 0.0)


def _scaled(w: Writer, x: Value, scale: Any, bias: float, after: bool = True) -> Value:
    by = w.number(scale, x.dtype if isinstance(scale, Value) else "float32", [1])
    return w.op("scale", [x, by], [x.type], bias=bias, bias_after_scale=after)


@row("scale")
def _scale(
    w: Writer, x: Value, scale: Any = 1.0, bias: Any = 0.0, bias_after_scale: bool = True, act: Any = None
) -> Value:
    if isinstance(bias, Value):
        raise Unwritable("with a tensor as bias")
    made = _scaled(w, x, scale, float(bias), bias_after_scale)
    return made if act is None else w.op(act, [made], [made.type])


@row("round")
def _round(w: Writer, x: Value, decimals: int = 0) -> Value:
    return w.op("round", [x], decimals=decimals)


@row("hardtanh")
def _hardtanh(w: Writer, x: Value, min: float = -1.0, max: float = 1.0) -> Value:
    return w.op("hardtanh", [x], t_min=min, t_max=max)


@row("logit")
def _logit(w: Writer, x: Value, eps: Any = None) -> Value:
    return w.op("logit", [x], eps=eps or 0.0)


@row("clip clip_number")
def _clip(w: Writer, x: Value, min: Any = None, max: Any = None) -> Value:
    ends = (min, max)
    given = [n if n is not None else end for n, end in zip(ends, _limits(x.dtype), strict=True)]
    return w.op("clip", [x, *[w.number(n, x.dtype, [1]) for n in given]])


def _limits(dtype: str) -> tuple[float, float]:
    if dtype.startswith("int"):
        top = 2 ** (int(dtype[3:]) - 1)
        return (-top, top - 1) if dtype != "int64" else (-(2**53), 2**53)
    return -3.4028234663852886e38, 3.4028234663852886e38


@row("cast Tensor.astype Tensor.to Tensor.type_as")
def _cast(w: Writer, x: Value, *args: Any, **kwargs: Any) -> Value:
    return w.cast(x, w.types[0][0])


@row("Tensor.float Tensor.double Tensor.half Tensor.bfloat16 Tensor.float16 Tensor.float32 Tensor.float64 Tensor.int "
     "Tensor.long Tensor.short Tensor.char Tensor.byte Tensor.bool Tensor.int8 Tensor.int16 Tensor.int32 Tensor.int64 "
     "Tensor.uint8 Tensor.cpu Tensor.cuda Tensor.contiguous Tensor.pin_memory Tensor.detach Tensor.clone clone assign "
     "positive")  # fmt: skip
def _as_it_is(w: Writer, x: Value, *args: Any, **kwargs: Any) -> Value:
    return w.cast(x, w.types[0][0])


@row("where select")
def _where(w: Writer, condition: Value, x: Any = None, y: Any = None) -> Any:
    if x is None:
        found = w.op("nonzero", [condition], [("int64", [-1, condition.ndim])])
        return tuple([w.slice(found, [1], [i], [i + 1], ("int64", [-1, 1])) for i in range(condition.ndim)])
    dtype, shape = w.types[0]
    each = [w.cast(a, dtype) if isinstance(a, Value) else w.number(a, dtype) for a in (x, y)]
    shape = broadcast(condition.shape, each[0].shape, each[1].shape)
    return w.op("where", w.expanded([condition, *each]), [(dtype, shape)])


@row("masked_fill")
def _masked_fill(w: Writer, x: Value, mask: Value, value: Any) -> Value:
    return _where(w, mask, value, x)


@row("isclose allclose")
def _isclose(w: Writer, x: Value, y: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Value:
    ends = [w.full([1], rtol, "float64"), w.full([1], atol, "float64")]
    return w.op("isclose" if w.types[0][1] else "allclose", [x, y, *ends], equal_nan=equal_nan)


@row("prelu")
def _prelu(w: Writer, x: Value, weight: Value, data_format: str = "NCHW") -> Value:
    mode = "all" if weight.shape == [1] else "channel"
    layout = "NHWC" if data_format[-1] == "C" and len(data_format) > 2 else "NCHW"
    return w.op("prelu", [x, weight], data_format=layout, mode=mode)


@row("hypot")
def _hypot(w: Writer, x: Value, y: Value) -> Value:
    dtype = w.types[0][0]
    both = [w.binary("multiply", a, a, dtype) for a in (w.cast(x, dtype), w.cast(y, dtype))]
    return w.op("sqrt", [w.binary("add", both[0], both[1])])


@row("add_n sum_of")
def _add_n(w: Writer, inputs: Any) -> Value:
    return w.op("add_n", [inputs if isinstance(inputs, (list, tuple)) else [inputs]])


@row("multiplex")
def _multiplex(w: Writer, inputs: list[Value], index: Value) -> Value:
    return w.op("multiplex", [list(inputs), w.cast(index, "int32")])
