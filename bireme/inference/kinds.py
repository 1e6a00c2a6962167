"""Kinds of numbers, places and precisions, as the inference interface names them."""

from __future__ import annotations

import enum
import functools
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions


class _Kind(enum.Enum):
    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


class DataType(_Kind):
    """Data type of a tensor handle.

    Examples:
        >>> bireme.inference.DataType.INT64.name, bireme.inference.DataType.INT64.value
        ('INT64', 1)
    """

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7
    BFLOAT16 = 8


class PlaceType(_Kind):
    """Kind of device.

    Examples:
        >>> bireme.inference.PlaceType.GPU.value
        1
    """

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    NPU = 3
    CUSTOM = 4


class PrecisionType(_Kind):
    """Precision in which a model is run.

    Examples:
        >>> bireme.inference.PrecisionType.Half.value
        2
    """

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


_SIZES = {DataType.FLOAT32: 4, DataType.INT64: 8, DataType.INT32: 4, DataType.UINT8: 1}


def get_num_bytes_of_data_type(dtype: DataType) -> int:
    """Return the number of bytes of an element.

    Args:
        dtype: A ``DataType``.

    Returns:
        An int, for float32, int64, int32 and uint8; -1 for any other, as in Paddle.

    Raises:
        TypeError: If ``dtype`` is none.

    Examples:
        >>> bireme.inference.get_num_bytes_of_data_type(bireme.inference.DataType.INT64)
        8
    """
    if not isinstance(dtype, DataType):
        raise errors.bad("get_num_bytes_of_data_type(dtype)", "a DataType", dtype, kind=errors.ArgumentTypeError)
    return _SIZES.get(dtype, -1)


@functools.cache
def data_type(dtype: Any) -> DataType:
    """The data type of an array."""
    name = np.dtype(dtype).name
    found = "BOOL" if name == "bool" else name.upper()
    if found not in DataType.__members__:
        raise errors.bad("dtype", f"one of {', '.join(DataType.__members__).lower()}", name, kind=errors.DtypeError)
    return DataType[found]


guard_functions(globals())
