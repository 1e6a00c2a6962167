"""Python's numbers, lists and other libraries' arrays as NumPy arrays in the types that Paddle gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType

KNOWN = frozenset(d.np for d in dtypes.ALL)


class OnHost:
    """What gives its numbers as an array through `_host()`: a Tensor."""

    __slots__ = ()

    def _host(self) -> np.ndarray:
        raise AssertionError("a Tensor says how")


def convert(host: np.ndarray, want: DType) -> np.ndarray:
    """Change the type on the host as `cast` does on the device."""
    if host.dtype.kind == "c" and want.kind not in "cb":
        host = host.real
    if want.kind == "i" and host.dtype.kind not in "iub":
        # towards zero, as XLA: NaN is 0, beyond the range is the limit; narrow types wrap from int32
        real = np.nan_to_num(host.astype(np.float64), nan=0.0)
        wide = np.dtype(np.int32) if want.itemsize < 4 else want.np
        info = np.iinfo(wide)
        inside = np.clip(real, float(info.min), np.nextafter(float(info.max), 0)).astype(wide)
        return np.where(real >= float(info.max), info.max, inside).astype(want.np)
    return host.astype(want.np)


def host_array(data: Any, want: DType | None) -> np.ndarray:
    """Python data as an array in the type that Paddle gives it."""
    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, np.generic):
        return np.asarray(data)
    if isinstance(data, (bool, int, float, complex)):
        return _number_array(data, want)
    if isinstance(data, (list, tuple, range)):
        return _sequence_array(data, want)
    if hasattr(data, "__dlpack__"):
        return np.from_dlpack(data)
    if hasattr(data, "__array__"):
        return np.asarray(data)
    raise errors.bad(
        "to_tensor(data)", "numbers, lists of numbers, an array or a Tensor", data, kind=errors.ArgumentTypeError
    )


def _number_array(x: Any, want: DType | None) -> np.ndarray:
    kind = want if want is not None else dtypes.of_number(x)
    if kind.kind == "i" and isinstance(x, int):
        info = np.iinfo(kind.np)
        if not info.min <= x <= info.max:
            raise errors.bad("to_tensor(data)", f"a number in the range of {kind.name}", x, kind=OverflowError)
    if isinstance(x, complex) and kind.kind != "c":
        return np.asarray(x)
    return np.array(x, dtype=kind.np if kind.kind != "i" or isinstance(x, int) else None)


def _odd(flat: list[Any]) -> str:
    """The first element that is no number, in words; empty if there is none."""
    numbers = (int, float, complex, np.number, np.bool_, np.ndarray, OnHost)
    odd = [x for x in flat if not isinstance(x, numbers)]
    return f"a list with {errors.show(odd[0])} in it" if odd else ""


def _sequence_array(data: Any, want: DType | None) -> np.ndarray:
    flat: list[Any] = []
    arrays = _collect(data, flat)
    try:
        host = np.array(arrays, dtype=None)
    except (ValueError, OverflowError):
        raise errors.bad("to_tensor(data)", "nested lists of equal lengths", described="ragged nested lists") from None
    if host.dtype == np.uint64 and not any(isinstance(x, (np.ndarray, np.generic, OnHost)) for x in flat):
        raise errors.bad("to_tensor(data)", "numbers in the range of int64", int(host.max()), kind=OverflowError)
    if host.dtype == object:
        far = [x for x in flat if isinstance(x, int) and not -(1 << 63) <= x < 1 << 63]
        if far:
            raise errors.bad("to_tensor(data)", "numbers in the range of int64", far[0])
        raise errors.bad(
            "to_tensor(data)",
            "numeric data",
            described=_odd(flat) or "ragged nested lists",
        )
    if host.dtype.kind not in "biufc" and host.dtype not in KNOWN:
        raise errors.bad(
            "to_tensor(data)",
            "numeric data",
            described=_odd(flat) or f"elements of dtype {host.dtype}",
            kind=errors.ArgumentTypeError,
        )
    if want is not None:
        return host
    if host.size == 0:
        return host.astype(dtypes.get_default().np)
    # a list takes the type of Python numbers, also with NumPy's inside: floats are the default type, integers int64
    if any(isinstance(x, OnHost) for x in data):  # and with Tensors deeper down, as in Paddle
        return host
    if host.dtype.kind == "f":
        return host.astype(dtypes.get_default().np)
    if host.dtype.kind == "c":
        return host.astype(dtypes.complex_of(dtypes.get_default()).np)
    return host.astype(np.int64) if host.dtype.kind in "iu" else host


def _collect(data: Any, flat: list, depth: int = 0) -> Any:
    if depth > 64:
        raise errors.bad("to_tensor(data)", "lists nested at most 64 deep", described="deeper ones")
    if isinstance(data, (list, tuple, range)):
        return [_collect(x, flat, depth + 1) for x in data]
    flat.append(data)
    return data._host() if isinstance(data, OnHost) else data
