"""Rows of numbers as integers and back, and of integers of 4 bits in bytes."""

import numpy as np

from tests.table.harness import FLOAT, Bad, Row, call, still
from tests.table.samples import floats

NONE: frozenset = frozenset()
KINDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}


def spread(t, shape, axis, block):
    if t is None or t.size == 1:
        return 0.0 if t is None else t.reshape(())
    if not block:
        return t.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    return np.repeat(t, block, axis).take(range(shape[axis]), axis)


def quantized(x, scale, zero_point=None, axis=1, block_size=0, dtype="int8", bits=None):
    low, high = KINDS[dtype]
    if bits is not None:
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    whole = np.rint(x / spread(scale, x.shape, axis, block_size)) + spread(zero_point, x.shape, axis, block_size)
    return np.clip(whole, low, high).astype(dtype)


def dequantized(x, scale, zero_point=None, axis=1, block_size=0):
    return (x.astype(float) - spread(zero_point, x.shape, axis, block_size)) * spread(scale, x.shape, axis, block_size)


def faked(x, scale, axis, bits, block):
    most, top = spread(scale, x.shape, axis, block), 2 ** (bits - 1) - 1
    steps = np.clip(x / most, -1, 1) * top
    return np.sign(steps) * np.floor(np.abs(steps) + 0.5) * most / top


def packed(x, axis):
    low, high = np.split(x, 2, axis)
    return (low.view(np.uint8) % 16 + high.view(np.uint8) % 16 * 16).astype(np.uint8).view(np.int8)


def unpacked(x, axis):
    whole = x.view(np.uint8)
    nibbles = np.concatenate([whole % 16, whole // 16], axis).astype(int)
    return np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8)


def steps(*shape):
    """Powers of 2: every type holds them and what is divided by them."""
    return still(2.0 ** (np.arange(int(np.prod(shape))).reshape(shape) % 3 - 4))


NIBBLES = (np.arange(24).reshape(4, 6) % 16 - 8).astype(np.int8)
WHOLE = (np.arange(24).reshape(2, 3, 4) * 11 - 128).astype(np.int8)
STRAIGHT = "rounding is passed straight through, which no difference shows"
EMPTY = np.zeros((2, 0))

TABLE = [
    Row("quantize_linear", [call(floats(2, 3), steps()), call(floats(2, 3), steps(3)), call(floats(2, 3), steps(2), still([1.0, 3.0]), 0, dtype="uint8"),
        call(floats(5, 2), steps(3, 2), None, 0, 2, "int8", 4), call(floats(3, 2), steps(1), axis=-1, dtype="int16"),
        call(np.array([-9e9, 0.25, 0.75, 9e3]), steps(1), axis=0, dtype="int8"), call(EMPTY, steps(), axis=0), call(np.array(0.4), steps(), axis=0)],
        quantized, dtypes=FLOAT, out="ref", grad=0,
        bad=[Bad(call(floats(2, 3), steps(2)), "quantize_linear(scale): expected one element, or shape [3] for axis 1 of x of shape [2, 3], got shape [2]"),
             Bad(call(floats(2, 3), steps(1), dtype="float32"), "quantize_linear(dtype): expected one of int8, uint8, int16, int32, got float32"),
             Bad(call(floats(2, 3), steps(1), bits=9), "quantize_linear(bits): expected an integer in [2, 8] for int8, got 9")]),
    Row("dequantize_linear", [call(WHOLE, steps()), call(WHOLE, steps(4), still([1.0, 2.0, 3.0, 4.0]), -1), call(WHOLE, steps(2, 2, 4), None, 1, 2),
        call(np.zeros((0, 2), np.int8), steps(2))], dequantized, dtypes=FLOAT, out="last", grad=0,
        bad=[Bad(call(WHOLE, steps(2)), "dequantize_linear(scale): expected one element, or shape [3] for axis 1 of x of shape [2, 3, 4], got shape [2]")]),
    Row("fake_quantize", [call(floats(2, 3), still([1.0]), 0, 8, 0), call(floats(4, 3), steps(3), 1, 4, 0), call(floats(4, 3), steps(2, 3), 0, 8, 2),
        call(np.zeros((0, 3)), still([1.0]), 0, 8, 0), call(np.array(0.4), still([1.0]), 0, 8, 0)], faked, dtypes=FLOAT, grad=1,
        skip={"gradient": STRAIGHT, "gradient rule": STRAIGHT}),
    Row("pack_int4", [call(NIBBLES, 0), call(NIBBLES, 1), call(np.zeros((0, 2), np.int8), 0)], packed, dtypes=NONE, out="ref", grad=0,
        skip={"0-d": "it takes an axis"},
        bad=[Bad(call(NIBBLES[:3], 0), "pack_int4(x): expected an int8 tensor with an even size of axis 0, got int8, shape [3, 6]")]),
    Row("unpack_int4", [call(WHOLE, 0), call(WHOLE, 2), call(np.zeros((0, 2), np.int8), 0)], unpacked, dtypes=NONE, out="ref", grad=0,
        skip={"0-d": "it takes an axis"},
        bad=[Bad(call(np.zeros((2, 2), np.int32), 0), "unpack_int4(x): expected an int8 tensor, got int32")]),
]  # fmt: skip
