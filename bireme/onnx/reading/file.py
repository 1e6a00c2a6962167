"""Files: a model that was parsed, and the arrays in it, each of which is checked against the bytes that are there."""

from __future__ import annotations

import math
import os
from typing import Any

import ml_dtypes
import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.onnx.packages import onnx, protobuf_error

MAX_BYTES = 2**31  # what protobuf parses
MAX_AXES = 64
# by the numbers of ONNX: the type, and which field of a TensorProto holds elements that are no raw bytes
TYPES: dict[int, tuple[Any, str]] = {
    1: (np.float32, "float_data"), 2: (np.uint8, "int32_data"), 3: (np.int8, "int32_data"),
    4: (np.uint16, "int32_data"), 5: (np.int16, "int32_data"), 6: (np.int32, "int32_data"),
    7: (np.int64, "int64_data"), 9: (np.bool_, "int32_data"), 10: (np.float16, "int32_data"),
    11: (np.float64, "double_data"), 12: (np.uint32, "uint64_data"), 13: (np.uint64, "uint64_data"),
    14: (np.complex64, "float_data"), 15: (np.complex128, "double_data"), 16: (ml_dtypes.bfloat16, "int32_data"),
    17: (ml_dtypes.float8_e4m3fn, "int32_data"), 19: (ml_dtypes.float8_e5m2, "int32_data"),
}  # fmt: skip


def parsed(path: str) -> Any:
    """The model in a file; one sentence for what is none."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise errors.bad(
            "onnx.load(path)", "an ONNX file", described=f"'{path}', which is no file", kind=FileNotFoundError
        )
    if os.path.getsize(path) >= MAX_BYTES:
        raise wrong(f"a file of less than {MAX_BYTES} bytes", f"{os.path.getsize(path)}")
    with open(path, "rb") as file:
        data = file.read()
    return parsed_bytes(data, os.path.basename(path))


def parsed_bytes(data: bytes, name: str) -> Any:
    """The same of its contents."""
    model = onnx().ModelProto()
    try:
        model.ParseFromString(data)
    except protobuf_error():
        raise wrong("an ONNX model", f"{name}, whose contents are none") from None
    if not model.HasField("graph") or not model.opset_import:
        raise wrong("an ONNX model", f"{name}, which has no graph or no opset")
    return model


def wrong(expected: str, described: str, where: str = "onnx.load(path)") -> Exception:
    """The error for a file whose contents do not hold together."""
    return errors.bad(where, expected, described=described, kind=FileFormatError)


def array_of(t: Any, folder: str | None = None) -> np.ndarray:
    """The elements of a TensorProto, if there are as many bytes as its shape needs."""
    told = f"tensor {t.name!r}" if t.name else "a tensor"
    if t.data_type not in TYPES:
        kind = onnx().TensorProto.DataType
        name = kind.Name(t.data_type) if t.data_type in kind.values() else str(t.data_type)
        raise wrong("numbers of a type that tensors have", f"{name.lower()} in {told}")
    kind, field = TYPES[t.data_type]
    dtype = np.dtype(kind)
    dims = list(t.dims)
    if len(dims) > MAX_AXES or any(n < 0 for n in dims):
        raise wrong("a shape of non-negative sizes", f"{dims[:8]} in {told}")
    count = math.prod(dims)
    if t.data_location == 1:
        return _outside(t, dtype, dims, count, folder, told)
    if t.HasField("raw_data"):
        data = t.raw_data
        if len(data) != count * dtype.itemsize:
            raise wrong(f"{count * dtype.itemsize} bytes of {told}", f"{len(data)}")
        return np.frombuffer(data, dtype).reshape(dims)
    given = getattr(t, field)
    each = 2 if dtype.kind == "c" else 1
    if len(given) != count * each:
        raise wrong(f"{count * each} elements of {told}", f"{len(given)}")
    if dtype.kind == "c":
        return np.asarray(given, np.float64 if dtype.itemsize == 16 else np.float32).view(dtype).reshape(dims)
    if field == "int32_data" and (dtype.kind in "fV"):  # halves and eighths are stored by their bits
        bits = np.uint16 if dtype.itemsize == 2 else np.uint8
        return np.asarray(given, np.int64).astype(bits).view(dtype).reshape(dims)
    return np.asarray(given).astype(dtype).reshape(dims)


def _outside(t: Any, dtype: np.dtype, dims: list[int], count: int, folder: str | None, told: str) -> np.ndarray:
    """Elements that lie in a file beside the model, which has to be inside of its folder."""
    given = {entry.key: entry.value for entry in t.external_data}
    if folder is None or not given.get("location"):
        raise wrong(f"a file beside the model for {told}", "none")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, given["location"]))
    if os.path.isabs(given["location"]) or os.path.commonpath([root, path]) != root:
        raise wrong(f"a file inside of the model's folder for {told}", f"'{given['location']}'")
    if not os.path.isfile(path):
        raise wrong(f"a file beside the model for {told}", f"'{given['location']}', which is not there")
    try:
        offset, length = int(given.get("offset", 0)), int(given.get("length", count * dtype.itemsize))
    except ValueError:
        raise wrong(f"an offset and a length of {told}", "no integers") from None
    size = os.path.getsize(path)
    if length != count * dtype.itemsize or offset < 0 or offset + length > size:
        raise wrong(f"{count * dtype.itemsize} bytes of {told}", f"{length} at {offset} of {size} bytes")
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(length)
    return np.frombuffer(data, dtype).reshape(dims)
