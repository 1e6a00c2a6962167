"""Names that code written for Paddle takes from `paddle.base.data_feeder`: questions about types, and their checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor

__all__ = ["check_dtype", "check_type", "check_variable_and_dtype", "convert_dtype", "convert_float_to_uint16", "convert_uint16_to_float"]


def convert_dtype(dtype: Any) -> str:
    """The name of a type; bfloat16 is called by the type that NumPy keeps its bits in.

    >>> bireme.base.data_feeder.convert_dtype(bireme.bfloat16)
    'uint16'
    """
    found = dtypes.of(dtype, "convert_dtype(dtype)")
    return "uint16" if found is dtypes.bfloat16 else found.name


def check_type(input: Any, input_name: str, expected_type: Any, op_name: str, extra_message: str = "") -> None:
    """Raise TypeError unless `input` is of one of the expected classes.

    >>> bireme.base.data_feeder.check_type(1, "k", int, "topk")
    """
    if not isinstance(input, expected_type):
        expected = expected_type if isinstance(expected_type, tuple) else (expected_type,)
        names = " or ".join(t.__name__ for t in expected)
        raise errors.bad(f"{op_name}({input_name})", names, input, hint=extra_message or None, kind=errors.ArgumentTypeError)


def check_dtype(input_dtype: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = "") -> None:
    """Raise TypeError unless the type is one of the expected names.

    >>> bireme.base.data_feeder.check_dtype("float32", "x", ["float32", "float64"], "tanh")
    """
    found = convert_dtype(input_dtype)
    expected = list(expected_dtype) if isinstance(expected_dtype, (list, tuple)) else [expected_dtype]
    if found not in expected:
        raise errors.bad(
            f"{op_name}({input_name})", " or ".join(map(str, expected)), described=found, hint=extra_message or None, kind=errors.ArgumentTypeError
        )


def check_variable_and_dtype(input: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = "") -> None:
    """Raise TypeError unless ``input`` is a tensor of one of the expected dtypes.

    Args:
        input: The argument to check.
        input_name: Name of the argument, for the message.
        expected_dtype: Dtypes that are allowed, by name.
        op_name: Name of the function that is called, for the message.
        extra_message: Text to end the message with. Default: ``''``.

    Examples:
        >>> bireme.base.data_feeder.check_variable_and_dtype(bireme.ones([2]), "x", ["float32"], "tanh")
    """
    check_type(input, input_name, Tensor, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


def convert_float_to_uint16(data: Any, data_format: str = "NCHW") -> np.ndarray:
    """The bits of the numbers as bfloat16, rounded to the nearest; `NHWC` moves the second axis to the end.

    >>> bireme.base.data_feeder.convert_float_to_uint16([1.0]).tolist()
    [16256]
    """
    source = np.asarray(data, np.float32)
    moved = np.moveaxis(source, 1, -1) if data_format == "NHWC" else source
    return np.ascontiguousarray(moved.astype(dtypes.bfloat16.np)).view(np.uint16).reshape(moved.shape)


def convert_uint16_to_float(data: Any) -> np.ndarray:
    """The float32 numbers whose bits as bfloat16 these are.

    >>> bireme.base.data_feeder.convert_uint16_to_float([16256]).tolist()
    [1.0]
    """
    source = np.asarray(data)
    if source.dtype == dtypes.bfloat16.np:  # numbers already: what `Tensor.numpy` gives
        return source.astype(np.float32)
    return np.ascontiguousarray(source.astype(np.uint16)).view(dtypes.bfloat16.np).astype(np.float32).reshape(source.shape)
