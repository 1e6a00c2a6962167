"""Rows of fused products, gates and softmaxes, each against the plain formula."""

import dataclasses

import numpy as np
from scipy import special

from tests.table.harness import FLOAT, INT, NUMBER, Bad, Row, call, still
from tests.table.samples import NONFINITE, floats

NO_SCALAR = "it has a last axis to go along"
PARTS = "its operands have several axes each"


def divided(rows, keep):
    """The rows with the first samples alone, which are compiled and differentiated; and with the others, whose values
    are enough.
    """
    table, extra = [], []
    for row in rows:
        full = [s for s in row.samples if not s.is_empty and not s.is_scalar]
        table.append(
            dataclasses.replace(row, samples=[*full[:keep], *[s for s in row.samples if s not in full]], cache={})
        )
        if full[keep:]:
            extra.append(dataclasses.replace(row, samples=full[keep:], cache={}))
    return table, extra


NORM_PARTS = "it goes along axes, and weights have as many elements"


# ---------------------------------------------------------------- products and gates


def _product(x, y, transpose_x=False, transpose_y=False):
    return (np.swapaxes(x, -1, -2) if transpose_x else x) @ (np.swapaxes(y, -1, -2) if transpose_y else y)


def _matmul_bias(x, y, bias=None, transpose_x=False, transpose_y=False):
    return _product(x, y, transpose_x, transpose_y) + (0 if bias is None else bias)


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _gelu(x):
    return x * special.ndtr(x)


def _silu(x):
    return x * special.expit(x)


def _linear_act(x, y, bias, trans_x=False, trans_y=False, activation=None):
    out = _matmul_bias(x, y, bias, trans_x, trans_y)
    return {"relu": lambda v: np.maximum(v, 0), "gelu": _gelu_tanh}.get(activation, lambda v: v)(out)


def _swiglu(x, y=None):
    if y is not None:
        return _silu(x) * y
    first, second = np.split(x, 2, axis=-1)
    return _silu(first) * second


def _round(x, kind):
    return np.rint(x) if kind == 0 else np.trunc(x + np.copysign(0.5, x))


def _bounds(x, scale, most, least, round_type, eighths=False):
    return np.clip(_round(np.float32(most * scale) * x.astype(np.float32), round_type), least, most).astype(np.int8)


def _bias_act(
    x,
    bias=None,
    dequant_scales=None,
    shift=None,
    smooth=None,
    act_method="gelu",
    compute_dtype="default",
    quant_scale=-1,
    quant_round_type=0,
    quant_max_bound=0,
    quant_min_bound=0,
):
    x = x * (1 if dequant_scales is None else dequant_scales) + (0 if bias is None else bias)
    n = x.shape[-1] // 2 if x.ndim else 0
    acts = {
        "gelu": _gelu,
        "relu": lambda v: np.maximum(v, 0),
        "silu": _silu,
        "swish": _silu,
        "sigmoid": special.expit,
        "tanh": np.tanh,
        "geglu": lambda v: _gelu(v[..., :n]) * v[..., n:],
        "swiglu": _swiglu,
    }
    out = (acts[act_method](x) + (0 if shift is None else shift)) * (1 if smooth is None else smooth)
    return out if quant_scale <= 0 else _bounds(out, quant_scale, quant_max_bound, quant_min_bound, quant_round_type)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True, initial=-1e30))
    return e / e.sum(-1, keepdims=True)


def _lower(x):
    n = x.shape[-1]
    return _softmax(np.where(np.tril(np.ones((n, n), bool)), x, -np.inf))


def _dropped(x, y, p=0.5, training=True, mode="upscale_in_train"):
    return x * (1 - p if mode == "downscale_in_infer" and not training else 1) + y


MASK = still(np.where(np.tril(np.ones((2, 1, 3, 3))) > 0, 0.0, -30.0))
DROPS = [
    call(floats(2, 3), floats(2, 3, seed=1), 0.0),
    call(floats(2, 3), floats(3, seed=1), 0.25, training=False),
    call(floats(2, 3), floats(2, 3, seed=1), 0.25, False, "downscale_in_infer"),
    call(floats(), floats(seed=1), p=0),
    call(np.zeros((2, 0)), np.zeros((2, 0))),
]

TABLE, EXTRA = divided(
    [
        Row(
            "fused_matmul_bias",
            [
                call(floats(2, 3), floats(3, 4)),
                call(floats(3, 2), floats(4, 3), floats(4), True, True),
                call(floats(2, 2, 3), floats(3, 4), bias=floats(4)),
                call(np.zeros((0, 3)), floats(3, 2), floats(2)),
            ],
            _matmul_bias,
            dtypes=NUMBER,
            skip={"0-d": PARTS},
            bad=[Bad(call(floats(2, 3), floats(2, 3)), "fused_matmul_bias(y): expected")],
        ),
        Row(
            "fused_linear",
            [
                call(floats(2, 3), floats(3, 4), floats(4)),
                call(floats(2, 2, 3), floats(4, 3), None, True),
                call(np.zeros((0, 3)), floats(3, 2)),
            ],
            lambda x, weight, bias=None, transpose_weight=False: _matmul_bias(x, weight, bias, False, transpose_weight),
            dtypes=NUMBER,
            skip={"0-d": PARTS},
        ),
        Row(
            "fused_linear_activation",
            [call(floats(2, 3), floats(3, 4), floats(4), activation=a) for a in (None, "none", "relu", "gelu")]
            + [
                call(floats(3, 2), floats(4, 3), floats(4), True, True),
                call(np.zeros((0, 3)), floats(3, 2), floats(2)),
            ],
            _linear_act,
            skip={"0-d": PARTS},
            loose=(8, "gelu of a sum rounded to half precision"),
            bad=[
                Bad(
                    call(floats(2, 3), floats(3, 4), floats(4), activation="silu"),
                    "fused_linear_activation(activation): expected None",
                )
            ],
            slow=True,
        ),
        Row(
            "gated",
            [
                call(floats(2, 3), floats(2, 3, seed=1)),
                call(floats(), floats(seed=1)),
                call(np.zeros((2, 0)), np.zeros((2, 0))),
                call(np.array(NONFINITE[1:]), np.array(NONFINITE[1:])),
            ],
            _swiglu,
            slow=True,
        ),
        Row(
            "swiglu",
            [
                call(floats(2, 4)),
                call(floats(2, 3), floats(2, 3, seed=1)),
                call(floats(), floats(seed=1)),
                call(np.zeros((2, 0))),
            ],
            _swiglu,
            bad=[
                Bad(call(floats(3)), "swiglu(x): expected a last dimension of even size, got shape [3]"),
                Bad(call(floats(2, 3), floats(3)), "swiglu(y): expected shape [2, 3], as x has, got shape [3]"),
                Bad(call(np.array([1, 2])), "swiglu(x): expected one of", TypeError),
            ],
        ),
        Row(
            "to_bounds",
            [
                call(floats(2, 3), 0.2, 127.0, -127.0, 0, False),
                call(np.array([0.5, 1.5, -2.5, 900.0]), 1 / 127, 127.0, -127.0, 1, False),
                call(floats(), 0.5, 127.0, -127.0, 0, False),
                call(np.zeros((2, 0)), 0.5, 127.0, -127.0, 0, False),
            ],
            _bounds,
            out="int8",
            grad=0,
        ),
        Row(
            "fused_bias_act",
            [
                *[
                    call(floats(2, 4), floats(4), act_method=a)
                    for a in ("gelu", "relu", "silu", "geglu", "swiglu", "tanh", "sigmoid", "swish")
                ],
                call(floats(2, 4), None, shift=floats(4), smooth=floats(4, seed=2)),
                call(np.zeros((0, 4)), floats(4)),
                call(floats(), act_method="relu"),
            ],
            _bias_act,
            dtypes=FLOAT,
            loose=(4, "a sum rounded to half precision before the activation"),
            unchecked=INT,
            bad=[
                Bad(
                    call(floats(2), act_method="abc"),
                    "fused_bias_act(act_method): expected one of 'gelu', 'relu', 'silu', 'swish', 'sigmoid', 'tanh', 'none', 'geglu', 'swiglu'",
                ),
                Bad(
                    call(floats(2), compute_dtype="abc"),
                    "fused_bias_act(compute_dtype): expected one of 'default', 'fp16', 'bf16', 'fp32'",
                ),
            ],
            slow=True,
        ),
        Row(
            "fused_dropout_add",
            DROPS,
            _dropped,
            bad=[
                Bad(call(floats(2), floats(2), 2), "fused_dropout_add(p): expected a probability in [0, 1], got 2"),
                Bad(call(floats(2), floats(2), "a"), "fused_dropout_add(p): expected a number", TypeError),
                Bad(call(floats(2), floats(2), mode="x"), "fused_dropout_add(mode): expected 'upscale_in_train'"),
            ],
        ),
        Row(
            "softmax_mask_fuse",
            [call(floats(2, 2, 3, 3), MASK), call(np.zeros((0, 2, 3, 3)), np.zeros((0, 1, 3, 3)))],
            lambda x, mask: _softmax(x + mask),
            skip={"0-d": PARTS},
            bad=[
                Bad(
                    call(floats(2, 2, 3, 3), floats(1, 1, 3, 3)), "softmax_mask_fuse(mask): expected shape [2, 1, 3, 3]"
                ),
                Bad(call(floats(3, 3), floats(3, 3)), "softmax_mask_fuse(x): expected a 4-D tensor"),
            ],
        ),
        Row(
            "softmax_mask_fuse_upper_triangle",
            [call(floats(2, 2, 3, 3)), call(np.zeros((1, 2, 0, 0)))],
            _lower,
            skip={"0-d": PARTS},
            bad=[
                Bad(
                    call(floats(1, 2, 3, 4)),
                    "softmax_mask_fuse_upper_triangle(x): expected shape [batch, heads, n, n], got shape [1, 2, 3, 4]",
                )
            ],
        ),
        Row(
            "identity_loss",
            [
                call(floats(2, 3)),
                *[call(floats(2, 3), r) for r in ("mean", "sum", 0, 1, 2)],
                call(floats(), "sum"),
                call(np.zeros((2, 0)), 0),
            ],
            lambda x, reduction="none": {"none": x, 2: x}.get(
                reduction, x.mean() if reduction in ("mean", 1) else x.sum()
            ),
            bad=[
                Bad(call(floats(2), "bad"), "identity_loss(reduction): expected 'sum'"),
                Bad(call(floats(2), 5), "identity_loss(reduction): expected 'sum'"),
            ],
        ),
    ],
    keep=2,
)
