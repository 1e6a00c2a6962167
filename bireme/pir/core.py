"""Names that code written for Paddle takes from `paddle.pir.core`: data types by either of their names, parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base.boundary import guard_functions
from bireme.core.base.dtype import DType
from bireme.nn.parameter import create_parameter as make_parameter
from bireme.param_attr import ParamAttr

__all__ = ["convert_np_dtype_to_dtype_", "create_parameter", "datatype_to_vartype", "vartype_to_datatype"]

# code looks types up by either kind; both are the same here
vartype_to_datatype = datatype_to_vartype = {t: t for t in dtypes.ALL}


def convert_np_dtype_to_dtype_(np_dtype: Any) -> DType:
    """Return the dtype of a NumPy type or a name.

    Args:
        np_dtype: The NumPy type or the name.

    Returns:
        A dtype.

    Examples:
        >>> bireme.pir.core.convert_np_dtype_to_dtype_("int32")
        bireme.int32
    """
    return dtypes.of(np_dtype, "convert_np_dtype_to_dtype_(np_dtype)")


def create_parameter(dtype: Any, shape: Sequence[int], name: str | None = None, **kwargs: Any) -> Any:
    """Create a parameter.

    Args:
        dtype: Data type.
        shape: Sizes.
        name: Name. Default: None, a generated one.
        **kwargs: ``initializer``, ``trainable``; the others have no effect.

    Returns:
        The parameter.

    Examples:
        >>> bireme.pir.core.create_parameter("float32", [2], initializer=bireme.nn.initializer.Constant(3.0)).tolist()
        [3.0, 3.0]
    """
    attr = ParamAttr(name, kwargs.get("initializer"), trainable=kwargs.get("trainable", True))
    return make_parameter(shape, dtype, attr=attr)


guard_functions(globals())
