"""Rows of products of integers, and of linear maps with quantized weights."""

import numpy as np

from tests.table.harness import FLOAT, Bad, Row, call, still
from tests.table.samples import floats

NONE: frozenset = frozenset()
RNG = np.random.default_rng(0)
HALF_SUMS = (3, "half precision loses digits in sums of products")


def integers(*shape):
    return RNG.integers(-128, 128, shape).astype(np.int8)


def sums(weight, zero_point, axis):
    """What a zero point adds to each sum of products."""
    beside = tuple(i for i in range(weight.ndim) if i != axis)
    return (zero_point * weight.astype(np.int64).sum(beside)).astype(np.int32)


Y, W, G = integers(5, 4), integers(64, 3, 2, 2), integers(6, 2, 3, 3)


def product(x, y, zero_point=0, offset=None):
    return ((x.astype(np.int64) - zero_point) @ y.astype(np.int64)).astype(np.int32)


def convolved(x, weight, stride=1, padding=0, dilation=1, groups=1, data_format="NCHW", zero_point=0, offset=None):
    x = x.astype(np.int64) - zero_point
    x = x if data_format == "NCHW" else x.transpose(0, 3, 1, 2)
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    outs, ins, h, w = weight.shape
    rows, columns = [(m - (k - 1) * dilation - 1) // stride + 1 for m, k in zip(padded.shape[2:], (h, w), strict=True)]
    out = np.zeros((x.shape[0], outs, rows, columns), np.int64)
    for o, i, j in np.ndindex(outs, rows, columns):
        first = o // (outs // groups) * ins
        top, left = i * stride, j * stride
        seen = padded[
            :, first : first + ins, top : top + h * dilation : dilation, left : left + w * dilation : dilation
        ]
        out[:, o, i, j] = (seen * weight[o]).sum((1, 2, 3))
    return (out if data_format == "NCHW" else out.transpose(0, 2, 3, 1)).astype(np.int32)


# ---------------------------------------------------------------- quantized weights


def rounded(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def weights(x, bits, group_size):
    """Integers [n, k] and scales."""
    k, n = x.shape
    size = k if group_size < 0 else group_size
    parts = x.T.reshape(n, k // size, size)
    scale = np.abs(parts).max(2, initial=0) / (2 ** (bits - 1) - 1)
    q = rounded(parts / np.where(scale == 0, 1, scale)[:, :, None]).reshape(n, k)
    return q.astype(np.int8), (scale[:, 0] if group_size < 0 else scale.T)


def nibbles(q):
    n = len(q) // 2
    return (q[:n].view(np.uint8) % 16 + q[n:].view(np.uint8) % 16 * 16).astype(np.uint8).view(np.int8)


def whole(q, bits):
    if bits == 8:
        return q.astype(float)
    both = np.concatenate([q.view(np.uint8) % 16, q.view(np.uint8) // 16]).astype(float)
    return np.where(both > 7, both - 16, both)


def numbers(q, scale, bits=8):
    full = whole(q, bits)
    return full * (scale[:, None] if scale.ndim == 1 else np.repeat(scale.T, full.shape[1] // len(scale), 1))


BITS = {"weight_only_int8": 8, "weight_only_int4": 4, "llm.int8": 8, "int8": 8, "int4": 4}


def quantized(x, bits, group_size, wide):
    q, scale = weights(x, bits, group_size)
    return [q if bits == 8 else nibbles(q), scale.astype(np.float32)]


def weight_quantize(x, algo="weight_only_int8", arch=None, group_size=-1):
    return quantized(x, BITS[algo], group_size, False)


def weight_dequantize(x, scale, algo="weight_only_int8", out_dtype="float16", group_size=-1):
    return numbers(x, scale, BITS[algo]).T.astype(out_dtype)


def weight_only(x, weight, bias=None, weight_scale=None, weight_dtype="int8", arch=None, group_size=-1):
    return x @ numbers(weight, weight_scale, BITS[weight_dtype]).T + (0 if bias is None else bias)


def llm(x, weight, bias=None, weight_scale=None, threshold=6.0):
    rows = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    far = np.abs(rows).max(0, initial=0) > threshold
    near = np.where(far, 0, rows)
    unit = np.abs(near).max(1, keepdims=True, initial=0) / 127
    q = np.rint(near / np.where(unit == 0, 1, unit))
    out = (q * unit + np.where(far, rows, 0)) @ numbers(weight, weight_scale).T
    return out.reshape(*x.shape[:-1], out.shape[1]) + (0 if bias is None else bias)


def still_scale(*shape):
    return still(2.0 ** -(4 + np.arange(int(np.prod(shape))).reshape(shape) % 3))


Q8, Q4 = integers(6, 4), integers(3, 4)
PLAIN = {"0-d": "it takes matrices"}
STRAIGHT = "rounding is passed straight through, which no difference shows"
OUTLIER = np.array([[0.5, -1.0, 0.25, 1.0], [0.125, 9.0, 0.75, -0.5]])

TABLE = [
    Row("matmul_integer", [call(integers(3, 5), integers(5, 4)), call(integers(5), integers(5, 4)), call(integers(2, 1, 5), integers(5, 4)),
        call(np.full((2, 2000), -128, np.int8), np.full((2000, 1), 127, np.int8)), call(integers(0, 5), integers(5, 4)),
        call(integers(3, 5), Y, -128, sums(Y, -128, 1))],
        product, dtypes=NONE, out="ref", grad=0, skip=PLAIN,
        bad=[Bad(call(integers(3, 5), Y, 3), "matmul_integer(zero_point): expected an int8 integer, and an offset unless it is 0, got 3"),
            Bad(call(integers(3, 5), Y, 3, sums(Y, 3, 0)), "matmul_integer(offset): expected int32 of shape [4], got int32 of shape [5]"),
            Bad(call(integers(3, 5), integers(4, 4)), "matmul_integer(y): expected int8 tensors, and 5 rows, got int8 and int8 of shape [4, 4]")]),
    Row("conv2d_integer", [call(integers(2, 3, 5, 4), integers(4, 3, 3, 2)), call(integers(1, 4, 5, 5), integers(6, 2, 3, 3), 2, 1, 1, 2),
        call(integers(1, 6, 6, 2), integers(3, 2, 2, 2), 1, 1, 2, data_format="NHWC"), call(integers(1, 2, 3, 3), integers(64, 2, 2, 2)), call(integers(0, 3, 5, 4), integers(4, 3, 3, 2)),
        call(integers(2, 3, 5, 4), W, 2, 1, zero_point=-128, offset=sums(W, -128, 0)),
        call(integers(1, 5, 5, 4), G, 1, 1, 2, 2, "NHWC", 7, sums(G, 7, 0))],
        convolved, dtypes=NONE, out="ref", grad=0, skip={"0-d": "it takes images"},
        bad=[Bad(call(integers(2, 3, 5, 4).astype(np.int32), integers(4, 3, 3, 2)), "conv2d_integer(x): expected int8 tensors, got int32 and int8")]),
    Row("quantize_weight", [call(floats(6, 4).astype(np.float32), 8, -1, False), call(floats(6, 4).astype(np.float32), 4, 3, False),
        call(np.zeros((2, 0), np.float32), 8, -1, True)], quantized, dtypes=NONE, unchecked=FLOAT, out="ref", grad=0, skip=PLAIN),
    Row("weight_quantize", [call(floats(6, 4).astype(np.float32)), call(floats(6, 4).astype(np.float32), "weight_only_int4", group_size=2),
        call(floats(6, 4).astype(np.float32), "llm.int8"), call(np.zeros((2, 0), np.float32))],
        weight_quantize, dtypes=NONE, unchecked=FLOAT, out="ref", grad=0, skip=PLAIN,
        bad=[Bad(call(floats(6, 4), "int8"), "weight_quantize(algo): expected one of 'weight_only_int8', 'weight_only_int4', 'llm.int8', got 'int8'"),
             Bad(call(floats(6, 4), group_size=4), "weight_quantize(group_size): expected -1, or a positive factor of 6 rows, got 4"),
             Bad(call(floats(6, 3), "weight_only_int4"), "weight_quantize(x): expected an even number of columns with 4 bits, got shape [6, 3]")]),
    Row("dequantize_weight", [call(Q8, still_scale(6), 8, "float32"), call(Q4, still_scale(2, 6), 4, "float32"), call(np.zeros((0, 4), np.int8), still_scale(0), 8, "float32")],
        lambda x, scale, bits, dtype: numbers(x, scale, bits).T, dtypes=NONE, unchecked=FLOAT, out="float32", grad=0, skip=PLAIN),
    Row("weight_dequantize", [call(Q8, still_scale(6), out_dtype="float32"), call(Q4, still_scale(2, 6), "weight_only_int4", "float32", 2),
        call(np.zeros((0, 4), np.int8), still_scale(0), out_dtype="float32")], weight_dequantize, dtypes=NONE, unchecked=FLOAT, out="float32", grad=0, skip=PLAIN,
        bad=[Bad(call(Q8, still_scale(5)), "weight_dequantize(scale): expected shape [6], got shape [5]")]),
    Row("weight_only_product", [call(floats(2, 4), Q8, still_scale(6), 8), call(floats(3, 2, 4), Q4, still_scale(2, 6), 4), call(floats(4), Q4, still_scale(6), 4),
        call(np.zeros((0, 4)), Q8, still_scale(6), 8)], lambda x, w, s, bits: x @ numbers(w, s, bits).T, dtypes=FLOAT, grad=2, loose=HALF_SUMS, skip=PLAIN),
    Row("weight_only_linear", [call(floats(2, 4), Q8, floats(6), still_scale(6)), call(floats(3, 2, 4), Q4, None, still_scale(2, 6), "int4", None, 2),
        call(np.zeros((0, 4)), Q8, None, still_scale(6))], weight_only, dtypes=FLOAT, grad=2, loose=HALF_SUMS, skip=PLAIN,
        bad=[Bad(call(floats(2, 5), Q8, None, still_scale(6)), "weight_only_linear(x): expected 4 features in the last dimension to match weight of shape [6, 4], got shape [2, 5]"),
             Bad(call(floats(2, 4), Q8), "weight_only_linear(weight_scale): expected the scales that weight_quantize returned, got None"),
             Bad(call(floats(2, 4), Q8, None, still_scale(6), "int2"), "weight_only_linear(weight_dtype): expected one of 'int8', 'int4', got 'int2'")]),
    Row("llm_int8_product", [call(OUTLIER, Q8, still_scale(6), 6.0), call(OUTLIER, Q8, still_scale(6), 10.0), call(np.zeros((0, 4)), Q8, still_scale(6), 6.0)],
        lambda x, w, s, threshold: llm(x, w, None, s, threshold), dtypes=FLOAT, grad=1, loose=HALF_SUMS, skip={**PLAIN, "gradient": STRAIGHT, "gradient rule": STRAIGHT}),
    Row("llm_int8_linear", [call(OUTLIER, Q8, floats(6), still_scale(6)), call(OUTLIER, Q8, None, still_scale(6), 10.0), call(np.zeros((0, 4)), Q8, None, still_scale(6))],
        llm, dtypes=FLOAT, grad=1, loose=HALF_SUMS, skip={**PLAIN, "gradient": STRAIGHT},
        bad=[Bad(call(floats(2, 4), Q8, None, still_scale(5)), "llm_int8_linear(weight_scale): expected shape [6], got shape [5]")]),
]  # fmt: skip
