"""What a file is made of while it is written: values with their types, and attributes in the form of the format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.program.variable import Dim
from bireme.files.paddle_models.pir_json import TYPES

_ELEMENTS = {name: f"0.{code}" for code, name in TYPES.items()}


class Value:
    """A value of the file: its number, dtype and shape, of which unknown sizes are `Dim`s; or a list of such.

    `items` are the types in a list; an array of tensors has none of them.
    """

    __slots__ = ("key", "dtype", "shape", "items")

    def __init__(self, key: int, dtype: str = "", shape: Sequence[int] = (), items: list[tuple] | None = None):
        self.key, self.dtype, self.shape, self.items = key, dtype, list(shape), items

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def type(self) -> tuple[str, list[int]]:
        return self.dtype, self.shape


class Unwritable(Exception):
    """A call that has no form in the format; its text completes the sentence that users read."""


def known_dtype(dtype: str) -> bool:
    """Whether the format has the dtype."""
    return dtype in _ELEMENTS


def type_of(dtype: str, shape: Sequence[int]) -> dict[str, Any]:
    """The type of a tensor."""
    sizes = [-1 if isinstance(n, Dim) or n < 0 else int(n) for n in shape]
    return {"#": "0.t_dtensor", "D": [{"#": _ELEMENTS[dtype]}, sizes, "NCHW", [], 0]}


def array_type(dtype: str, shape: Sequence[int]) -> dict[str, Any]:
    """The type of an array of tensors."""
    return {"#": "1.t_dense_tensor_array", "D": type_of(dtype, shape)["D"][:3]}


def flags(name: str, each: Sequence[bool]) -> dict[str, Any]:
    """An attribute of results, one bool for each."""
    return {"AT": {"#": "0.a_array", "D": [{"#": "0.a_bool", "D": x} for x in each]}, "N": name}


def attribute(name: str, kind: str, value: Any) -> dict[str, Any]:
    """An attribute of an operation; `kind` is a letter of `KINDS`, twice for a list."""
    if len(kind) == 2 and kind[0] == kind[1]:
        return {"AT": {"#": "0.a_array", "D": [_one(kind[0], x) for x in value]}, "N": name}
    return {"AT": _one(kind, value), "N": name}


KINDS = {
    "i": "0.a_i32", "l": "0.a_i64", "f": "0.a_f32", "d": "0.a_f64", "b": "0.a_bool", "s": "0.a_str",
    "ints": "1.a_intarray", "dtype": "1.a_dtype", "place": "1.a_place",
}  # fmt: skip
_NAMES = {math.inf: "INF", -math.inf: "-INF"}


def _one(kind: str, value: Any) -> dict[str, Any]:
    data: Any = value
    if kind in ("i", "l"):
        if isinstance(value, Dim):
            raise Unwritable("with a size that is unknown where the format has a number")
        data = int(value)
    elif kind in ("f", "d"):
        if isinstance(value, Dim):
            raise Unwritable("with a size that is unknown where the format has a number")
        number = float(np.float32(value)) if kind == "f" else float(value)
        if not math.isfinite(number):
            return {"#": KINDS[kind], "VD": _NAMES.get(number, "NaN")}
        data = number
    elif kind == "b":
        data = bool(value)
    elif kind == "ints":
        data = [_one("l", n)["D"] for n in value]
    return {"#": KINDS[kind], "D": data}
