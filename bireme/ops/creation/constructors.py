"""Constructors by dtype: `FloatTensor(2, 3)` and its kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Tensor
from bireme.ops.creation.tensors import empty, placed, to_tensor


def _made(name: str, dtype: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    device, requires_grad = kwargs.pop("device", None), kwargs.pop("requires_grad", False)
    if kwargs:
        raise errors.bad(
            f"{name}({next(iter(kwargs))})",
            "sizes or data, device or requires_grad",
            described=f"'{next(iter(kwargs))}'",
            kind=errors.ArgumentTypeError,
        )
    if all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in args):
        return placed(empty(list(args) or [0], dtype), device, requires_grad)
    if len(args) != 1 or not (isinstance(args[0], (list, tuple, Tensor)) or hasattr(args[0], "__array__")) or isinstance(args[0], np.generic):
        raise errors.bad(f"{name}()", "sizes, or data as a list, an array or a Tensor", args[0] if len(args) == 1 else list(args))
    return to_tensor(args[0], dtype, device, not requires_grad)


def _constructor(name: str, dtype: Any) -> type:
    def new(cls: type, *args: Any, **kwargs: Any) -> Tensor:
        return _made(name, dtype, args, kwargs)

    doc = f"""Create a {dtype.name} tensor from data, or of a shape, to be filled later.

    Args:
        *args: Sizes, one integer for each axis, of a tensor of zeros; or one list, array or tensor to copy.
        **kwargs: ``device``, where to put it, and ``requires_grad``, whether it collects gradients.

    Examples:
        >>> bireme.{name}([0, 1]).dtype
        bireme.{dtype.name}
    """
    return type(name, (), {"__new__": new, "__doc__": doc, "__module__": __name__})


BFloat16Tensor = _constructor("BFloat16Tensor", dtypes.bfloat16)
BoolTensor = _constructor("BoolTensor", dtypes.bool_)
ByteTensor = _constructor("ByteTensor", dtypes.uint8)
CharTensor = _constructor("CharTensor", dtypes.int8)
DoubleTensor = _constructor("DoubleTensor", dtypes.float64)
FloatTensor = _constructor("FloatTensor", dtypes.float32)
HalfTensor = _constructor("HalfTensor", dtypes.float16)
IntTensor = _constructor("IntTensor", dtypes.int32)
LongTensor = _constructor("LongTensor", dtypes.int64)
ShortTensor = _constructor("ShortTensor", dtypes.int16)
