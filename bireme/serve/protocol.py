"""The Open Inference Protocol over HTTP: requests as JSON, or as JSON and raw tensors behind it, and answers alike.

Functions of bytes alone, so that any input can be tried on them. What is wrong with a request is a `Refused`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from bireme.serve.refusals import BAD, TOO_LARGE, Refused

DATATYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"{kind}{n}": np.dtype(f"{kind.lower()}{n}") for kind in ("INT", "UINT") for n in (8, 16, 32, 64)},
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
NAMES = {dtype: name for name, dtype in DATATYPES.items()}
MOST_DIMENSIONS = 32
LONGEST_NAME = 512
# numbers that JSON has no form for are strings, as protocol buffers write them in JSON
NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
LENGTH = "inference-header-content-length"  # header with the size of the JSON before raw tensors


@dataclass
class Request:
    """What a client wants of a model."""

    inputs: dict[str, np.ndarray]
    id: str = ""
    outputs: list[str] | None = None  # None: all
    raw: set[str] = field(default_factory=set)  # outputs that are wanted as raw tensors
    all_raw: bool = False


def request(body: bytes, header: str | None = None, most: int = 2**63) -> Request:
    """Read a request; `header` is the size of its JSON if raw tensors follow that, and `most` what it may be."""
    told, rest = _parts(body, header, most)
    inputs = _listed(told, "inputs")
    found: dict[str, np.ndarray] = {}
    for one in inputs:
        name, array, rest = _tensor(one, rest)
        if name in found:
            raise Refused(BAD, f"there are two inputs {name}")
        found[name] = array
    if len(rest):
        raise Refused(BAD, f"{len(rest)} bytes follow the last tensor")
    parameters = _object(told.get("parameters", {}), "parameters")
    result = Request(found, _text(told.get("id", ""), "id"), all_raw=parameters.get("binary_data_output") is True)
    if "outputs" in told:
        result.outputs = []
        for one in _listed(told, "outputs"):
            name = _name(one.get("name"), "the name of an output")
            result.outputs.append(name)
            if _object(one.get("parameters", {}), f"parameters of {name}").get("binary_data") is True:
                result.raw.add(name)
    return result


def _parts(body: bytes, header: str | None, most: int) -> tuple[dict[str, Any], memoryview]:
    size = len(body)
    if header is not None:
        if not header.isascii() or not header.isdigit() or len(header) > 20 or int(header) > len(body):
            raise Refused(BAD, f"{LENGTH}: expected a size of at most {len(body)}, got {header[:20]}")
        size = int(header)
    return parsed(body[:size], most), memoryview(body)[size:]


def parsed(body: bytes, most: int) -> dict[str, Any]:
    """The object that a body is, in JSON; what Python makes of it takes several times the memory, hence a limit."""
    if len(body) > most:
        raise Refused(TOO_LARGE, f"a request has at most {most} bytes of JSON: send larger tensors raw")
    try:
        told = json.loads(body)
    except RecursionError:
        raise Refused(BAD, "the request is nested too deeply") from None
    except ValueError as e:
        raise Refused(BAD, f"the request is not JSON: {e}") from None
    return _object(told, "the request")


def _object(x: Any, what: str) -> dict[str, Any]:
    if not isinstance(x, dict):
        raise Refused(BAD, f"{what}: expected an object")
    return x


def _text(x: Any, what: str) -> str:
    if not isinstance(x, str):
        raise Refused(BAD, f"{what}: expected a string")
    return x


def _name(x: Any, what: str) -> str:
    if len(_text(x, what)) > LONGEST_NAME:
        raise Refused(BAD, f"{what}: expected at most {LONGEST_NAME} characters")
    return x


def _listed(told: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = told.get(key)
    if not isinstance(found, list):
        raise Refused(BAD, f"{key}: expected a list")
    return [_object(one, f"an element of {key}") for one in found]


def _tensor(one: dict[str, Any], rest: memoryview) -> tuple[str, np.ndarray, memoryview]:
    """Name and array of an input, and what is left of the raw tensors."""
    name = _name(one.get("name"), "the name of an input")
    dtype, shape = described(name, one.get("datatype"), one.get("shape"))
    size = _object(one.get("parameters", {}), f"parameters of {name}").get("binary_data_size")
    if size is None:
        return name, _of_list(name, one.get("data"), dtype, shape), rest
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(rest):
        raise Refused(
            BAD, f"{name}: binary_data_size {repr(size)[:40]} is not within the {len(rest)} bytes that follow"
        )
    return name, of_bytes(name, rest[:size], dtype, shape), rest[size:]


def described(name: str, datatype: Any, shape: Any) -> tuple[np.dtype, tuple[int, ...]]:
    """The dtype and shape that a tensor is said to have."""
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise Refused(BAD, f"{name}: datatype {str(datatype)[:40]!r} is not one of {', '.join(DATATYPES)}")
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        raise Refused(BAD, f"{name}: expected a shape of at most {MOST_DIMENSIONS} sizes")
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**40 for n in shape):
        raise Refused(BAD, f"{name}: sizes of a shape are non-negative integers")
    return DATATYPES[datatype], tuple(shape)


def of_bytes(name: str, data: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of raw bytes, little-endian and in C order."""
    if len(data) != _count(shape) * dtype.itemsize:
        raise Refused(BAD, f"{name}: {len(data)} bytes are no {NAMES[dtype]} of shape {list(shape)}")
    return np.frombuffer(data, dtype).reshape(shape)


def _count(shape: Iterable[int]) -> int:
    """The number of elements, as an integer of Python, which does not overflow."""
    n = 1
    for size in shape:
        n *= size
    return n


def _of_list(name: str, data: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of numbers, nested as the shape is or flat."""
    if not isinstance(data, list):
        raise Refused(BAD, f"{name}: expected data, a list, or binary_data_size")
    flat, kinds = data, set(map(type, data))
    while kinds == {list}:
        if len(set(map(len, flat))) != 1:
            raise Refused(BAD, f"{name}: data is not a regular list of numbers")
        flat = list(itertools.chain.from_iterable(flat))
        kinds = set(map(type, flat))
    if list in kinds:
        raise Refused(BAD, f"{name}: data is not a regular list of numbers")
    kind = NAMES[dtype]
    if str in kinds and kind in ("FP16", "FP32", "FP64", "BF16"):
        flat = [NOT_FINITE.get(x, x) if isinstance(x, str) else x for x in flat]
        kinds = set(map(type, flat))
    allowed = {bool} if kind == "BOOL" else {int} if "INT" in kind else {int, float}
    if not kinds <= allowed:
        wanted = "true and false" if kind == "BOOL" else "integers" if "INT" in kind else "numbers"
        raise Refused(BAD, f"{name}: expected {wanted} as data of datatype {kind}")
    if len(flat) != _count(shape):
        raise Refused(BAD, f"{name}: {len(flat)} numbers are no tensor of shape {list(shape)}")
    if int in kinds and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if min(flat) < limits.min or max(flat) > limits.max:
            raise Refused(BAD, f"{name}: a number is out of the range of {kind}")
    try:
        with np.errstate(all="ignore"):
            return np.array(flat, np.float64 if dtype.kind in "fV" else dtype).astype(dtype).reshape(shape)
    except OverflowError:  # an integer beyond all floating-point numbers
        raise Refused(BAD, f"{name}: a number is out of the range of {kind}") from None


def _listed_numbers(array: np.ndarray) -> list[Any]:
    wide = array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
    numbers = wide.reshape(-1).tolist()
    if wide.dtype.kind != "f" or np.isfinite(wide).all():
        return numbers
    return [
        x if math.isfinite(x) else "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity" for x in numbers
    ]


def answer(model: str, version: str, outputs: dict[str, np.ndarray], asked: Request) -> tuple[bytes, int | None]:
    """The body of an answer, and the size of its JSON if raw tensors follow that."""
    listed: list[dict[str, Any]] = []
    raw: list[bytes] = []
    for name, array in outputs.items():
        one: dict[str, Any] = {"name": name, "datatype": NAMES[array.dtype], "shape": list(array.shape)}
        if asked.all_raw or name in asked.raw:
            data = np.ascontiguousarray(array).tobytes()
            raw.append(data)
            one["parameters"] = {"binary_data_size": len(data)}
        else:
            one["data"] = _listed_numbers(array)
        listed.append(one)
    told = {"model_name": model, "model_version": version, **({"id": asked.id} if asked.id else {}), "outputs": listed}
    head = json.dumps(told).encode()
    return (head + b"".join(raw), len(head)) if raw else (head, None)
