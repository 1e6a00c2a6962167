"""Values of types that no tensor has: integers and floats of less than a byte, and bytes of other layouts.

They are held as tensors of a type that has all of their values, beside the type that they stand for.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from bireme import ops
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.reading.file import array_of, wrong
from bireme.onnx.reading.table import host, tensor

# by the numbers of ONNX: the type, the type of what holds it, and how many of them a byte of raw data has
KINDS: dict[int, tuple[Any, str, int]] = {
    18: (ml_dtypes.float8_e4m3fnuz, "float32", 1), 20: (ml_dtypes.float8_e5m2fnuz, "float32", 1),
    21: (ml_dtypes.uint4, "uint8", 2), 22: (ml_dtypes.int4, "int8", 2), 23: (ml_dtypes.float4_e2m1fn, "float32", 2),
    24: (ml_dtypes.float8_e8m0fnu, "float32", 1), 25: (ml_dtypes.uint2, "uint8", 4), 26: (ml_dtypes.int2, "int8", 4),
}  # fmt: skip
CODES = {np.dtype(kind): code for code, (kind, _, _) in KINDS.items()}


class Narrow:
    """Values of a type that no tensor has."""

    __slots__ = ("tensor", "code")

    def __init__(self, values: Tensor, code: int):
        self.tensor, self.code = values, code

    @property
    def np(self) -> np.dtype:
        """Their type in NumPy."""
        return np.dtype(KINDS[self.code][0])


def held(array: np.ndarray, code: int | None = None) -> Narrow:
    """An array of such a type."""
    code = CODES[array.dtype] if code is None else code
    wide = KINDS[code][1]
    return Narrow(tensor(array.astype(wide)), code)


def narrowed(x: Any, code: int, saturate: bool = True) -> Narrow:
    """Numbers rounded to such a type."""
    kind = np.dtype(KINDS[code][0])
    values = host(x)
    if values.dtype.kind == "V" or values.dtype == ml_dtypes.bfloat16:
        values = values.astype(np.float32)
    if kind.name.startswith("float8") and saturate and code != 24:
        info = ml_dtypes.finfo(kind)
        values = np.clip(values.astype(np.float32), float(info.min), float(info.max))
    with np.errstate(all="ignore"):
        return held(values.astype(kind), code)


def unpacked(t: Any, told: str) -> Narrow:
    """The elements of a TensorProto of such a type."""
    kind, _, each = KINDS[t.data_type]
    dims = list(t.dims)
    if any(n < 0 for n in dims):
        raise wrong("a shape of non-negative sizes", f"{dims[:8]} in {told}")
    count = math.prod(dims)
    data = t.raw_data if t.HasField("raw_data") else bytes([v & 255 for v in t.int32_data])
    if len(data) != -(-count // each):
        raise wrong(f"{-(-count // each)} bytes of {told}", str(len(data)))
    bits = np.frombuffer(data, np.uint8)
    if each > 1:
        width = 8 // each
        parts = [(bits >> (width * i)) & (2**width - 1) for i in range(each)]
        bits = np.stack(parts, -1).reshape(-1)[:count]
        if np.dtype(kind).name.startswith("int"):  # the highest bit is the sign
            return Narrow(
                tensor((bits.astype(np.int16) - ((bits >> (width - 1)) << width)).astype(np.int8).reshape(dims)),
                t.data_type,
            )
        if np.dtype(kind).name.startswith("uint"):
            return Narrow(tensor(bits.reshape(dims)), t.data_type)
    return held(bits.view(kind).reshape(dims), t.data_type)


def widened(x: Any, dtype: Any) -> Tensor:
    """Such values in a type of tensors."""
    return ops.cast(x.tensor, dtype)


def value_of(t: Any, folder: str | None = None) -> Any:
    """The value of a TensorProto."""
    return unpacked(t, f"tensor {t.name!r}") if t.data_type in KINDS else tensor(array_of(t, folder))
