"""Names that code written for Paddle takes from `paddle.base.data_feeder`: questions about types, and their checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.program.variable import UNKNOWN
from bireme.core.tensor.tensor import Tensor
from bireme.static import default_main_program
from bireme.static.dense_tensor import DenseTensor

__all__ = [
    "check_dtype",
    "check_type",
    "check_variable_and_dtype",
    "convert_dtype",
    "convert_float_to_uint16",
    "convert_uint16_to_float",
]


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
        raise errors.bad(
            f"{op_name}({input_name})", names, input, hint=extra_message or None, kind=errors.ArgumentTypeError
        )


def check_dtype(input_dtype: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = "") -> None:
    """Raise TypeError unless the type is one of the expected names.

    >>> bireme.base.data_feeder.check_dtype("float32", "x", ["float32", "float64"], "tanh")
    """
    found = convert_dtype(input_dtype)
    expected = list(expected_dtype) if isinstance(expected_dtype, (list, tuple)) else [expected_dtype]
    if found not in expected:
        raise errors.bad(
            f"{op_name}({input_name})",
            " or ".join(map(str, expected)),
            described=found,
            hint=extra_message or None,
            kind=errors.ArgumentTypeError,
        )


def check_variable_and_dtype(
    input: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = ""
) -> None:
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
    return (
        np.ascontiguousarray(source.astype(np.uint16)).view(dtypes.bfloat16.np).astype(np.float32).reshape(source.shape)
    )


class DataFeeder:
    """Turns batches of samples into what programs are fed with.

    Args:
        feed_list: Inputs of a program, or their names, in the order of a sample's fields.
        place: Device.
        program: The program. Default: None, the default main program.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x, y = bireme.static.data("x", [None, 2]), bireme.static.data("y", [None, 1], "int64")
        ...     feed = bireme.base.DataFeeder([x, y], bireme.CPUPlace()).feed([([1.0, 2.0], [3]), ([4.0, 5.0], [6])])
        >>> bireme.disable_static()
        >>> feed["x"].shape(), feed["y"].shape()
        ([2, 2], [2, 1])
    """

    def __init__(self, feed_list: Any, place: Any, program: Any = None):
        found = default_main_program() if program is None else program
        self._inputs = [found.var(x) if isinstance(x, str) else x for x in feed_list]
        self._place = place

    def feed(self, iterable: Any) -> dict[str, DenseTensor]:
        """Return the values of the inputs for a batch.

        Args:
            iterable: Samples, each with a field for each input.

        Returns:
            A dict of values by name.

        Raises:
            ValueError: If a sample does not have as many fields as there are inputs, or one does not fit its input.

        Examples:
            >>> bireme.base.DataFeeder([], bireme.CPUPlace()).feed([])
            {}
        """
        samples = [tuple(sample) for sample in iterable]
        for sample in samples:
            if len(sample) != len(self._inputs):
                raise errors.bad("feed(iterable)", f"{len(self._inputs)} fields in a sample", len(sample))
        return {x.name: self._value(x, [s[i] for s in samples]) for i, x in enumerate(self._inputs)}

    def _value(self, x: Any, fields: list[Any]) -> DenseTensor:
        made = DenseTensor()
        sizes = [int(n) for n in x.shape[1:]]
        if x.lod_level:
            rows = [np.asarray(field, x.dtype.np).reshape(-1, *sizes) for field in fields]
            made.set(np.concatenate(rows), self._place)
            made.set_recursive_sequence_lengths([[len(row) for row in rows]])
            return made
        values = np.asarray(fields, x.dtype.np)
        if UNKNOWN not in sizes:
            if values.size != len(fields) * int(np.prod(sizes)):
                raise errors.bad("feed(iterable)", f"fields of shape {sizes} for {x.name}", values.shape[1:])
            values = values.reshape(len(fields), *sizes)
        made.set(values, self._place)
        return made
