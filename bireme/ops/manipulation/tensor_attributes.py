"""Attributes of a tensor: questions about its dtype, size and layout, and the methods that change dtype or device."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.keywords import renamed
from bireme.core.declare.op import Tensor
from bireme.core.declare.public import function
from bireme.core.graph.segment import local
from bireme.core.tensor.inplace import assign_inplace
from bireme.core.tensor.tensor import value_of
from bireme.ops.creation.tensors import full
from bireme.ops.indexing.masks import where
from bireme.ops.math.arithmetic import cast


def _tensor(x: Any, where: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise errors.bad(where, "a Tensor", x, kind=errors.NotATensorError)
    return x


@function(method=True)
def is_floating_point(x: Tensor) -> bool:
    """Tell whether the dtype of a tensor is a floating-point one.

    Args:
        x: Input tensor.

    Returns:
        True or False.

    Examples:
        >>> bireme.is_floating_point(bireme.to_tensor([1.0]))
        True
    """
    return _tensor(x, "is_floating_point(x)").dtype.is_floating


@function(method=True)
def is_integer(x: Tensor) -> bool:
    """Tell whether the dtype of a tensor is an integer one; bool is not.

    Args:
        x: Input tensor.

    Returns:
        True or False.

    Examples:
        >>> bireme.is_integer(bireme.to_tensor([1]))
        True
    """
    return _tensor(x, "is_integer(x)").dtype.is_integer


@function(method=True)
@renamed(x="input")
def is_complex(x: Tensor) -> bool:
    """Tell whether the dtype of a tensor is a complex one.

    Args:
        x: Input tensor.

    Returns:
        True or False.

    Examples:
        >>> bireme.is_complex(bireme.to_tensor([1j]))
        True
    """
    return _tensor(x, "is_complex(x)").dtype.is_complex


@function(method=True)
def is_empty(x: Tensor, name: str | None = None) -> Tensor:
    """Tell whether a tensor has no elements.

    Args:
        x: Input tensor.
        name: Not used; kept for Paddle's signature.

    Returns:
        0-D bool tensor.

    Examples:
        >>> bireme.is_empty(bireme.zeros([0, 3])).item()
        True
    """
    return Tensor(value_of(_tensor(x, "is_empty(x)")._value.sig.size == 0))


@function(method=True)
def numel(x: Tensor, name: str | None = None) -> Tensor:
    """Count the elements of a tensor; ``x.size`` is the plain integer.

    Args:
        x: Input tensor.
        name: Not used; kept for Paddle's signature.

    Returns:
        0-D int64 tensor.

    Examples:
        >>> bireme.numel(bireme.zeros([2, 3])).item()
        6
    """
    return Tensor(value_of(_tensor(x, "numel(x)")._value.sig.size))


@function(method=True)
def rank(input: Tensor) -> Tensor:
    """Count the axes of a tensor; ``x.ndim`` is the plain integer.

    Args:
        input: Input tensor.

    Returns:
        0-D int32 tensor.

    Examples:
        >>> bireme.rank(bireme.zeros([2, 3])).item()
        2
    """
    return Tensor(value_of(_tensor(input, "rank(input)").ndim, dtypes.int32))


@errors.named
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Convert the tensor to another dtype, move it to another device, or both.

    Forms: ``x.to(dtype)``, ``x.to(device)``, ``x.to(device, dtype)`` and ``x.to(other)``, which takes device and dtype
    of another tensor; each also takes ``blocking``, and all by keyword.

    Args:
        *args: ``dtype``, ``device`` or ``other``, as above. A device is a place or its name, as ``'cpu'`` or
            ``'gpu:0'``.
        **kwargs: The same by keyword: ``device``, ``dtype``, ``blocking``, ``other``. ``blocking`` has no effect:
            values are complete whenever they are read.

    Returns:
        Converted tensor; the tensor itself if nothing changes, except that a dtype given as a string always copies.

    Examples:
        >>> bireme.to_tensor([1.7]).to("int64").tolist()
        [1]
    """
    device, dtype, blocking = _destination(args, kwargs)
    del blocking  # a copy is always complete when its values are asked for
    out = self if device is None else self._to_device(devices.parse(device, "to(device)"))
    # a dtype that is given by its name makes a copy in any case, as in Paddle
    return cast(out, dtype) if isinstance(dtype, str) else out if dtype is None else astype(out, dtype)


def _destination(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    first = args[0] if args else kwargs.get("other")
    if isinstance(first, Tensor):
        names = ["other", "blocking"]
    elif args and _names_dtype(first):
        names = ["dtype", "blocking"]
    else:
        names = ["device", "dtype", "blocking"]
    given = dict(zip(names, args)) | kwargs
    wrong = [k for k in given if k not in ("device", "dtype", "blocking", "other")]
    if len(args) > len(names) or wrong or not given:
        raise errors.bad(
            "to()",
            "(device, dtype), (dtype) or (other)",
            described=f"{len(args)} arguments and {list(kwargs)}",
            kind=errors.ArgumentTypeError,
        )
    if "other" in given:
        given |= {"device": given["other"].place, "dtype": given["other"].dtype}
    return given.get("device"), given.get("dtype"), given.get("blocking")


def _names_dtype(x: Any) -> bool:
    if isinstance(x, str):
        return x.removeprefix("paddle.").removeprefix("bireme.") in dtypes.NAMES
    return isinstance(x, (dtypes.DType, np.dtype, type))


def fill_(self: Tensor, value: float) -> Tensor:
    """Set every element to a number, in place.

    Args:
        value: A Python number.

    Returns:
        The tensor itself.

    Examples:
        >>> bireme.to_tensor([1.0, 2.0]).fill_(3).tolist()
        [3.0, 3.0]
    """
    if not isinstance(value, (int, float)):
        raise errors.bad("fill_(value)", "a number", value, kind=errors.ArgumentTypeError)
    if local.trace is not None and local.trace.builds:
        return local.trace.build_method("fill_", self, value)
    return _filled(self, cast(full([], value, "float64"), self.dtype).expand(self.shape), "fill_")


def _filled(x: Tensor, new: Tensor, name: str) -> Tensor:
    """Replace the values of `x` by constants; what it was computed from gets the gradient 0, not None, as in Paddle."""
    return assign_inplace(x, new if x.stop_gradient else where(full([], True, "bool"), new, x), name)


def zero_(self: Tensor) -> Tensor:
    """Set every element to zero, in place, and return the tensor.

    Examples:
        >>> bireme.to_tensor([1.0, 2.0]).zero_().tolist()
        [0.0, 0.0]
    """
    if local.trace is not None and local.trace.builds:
        return local.trace.build_method("zero_", self)
    return _filled(self, full(self.shape, 0, self.dtype), "zero_")


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Convert the tensor to the dtype of another.

    Args:
        other: Tensor whose dtype is taken.

    Returns:
        Converted tensor; the tensor itself if it has that dtype.

    Examples:
        >>> bireme.to_tensor([1.7]).type_as(bireme.to_tensor([1])).tolist()
        [1]
    """
    return astype(self, _tensor(other, "type_as(other)").dtype)


def is_same_shape(self: Tensor, y: Tensor, /) -> bool:
    """Tell whether another tensor has the same shape.

    Args:
        y: The other tensor.

    Returns:
        True or False.

    Examples:
        >>> bireme.zeros([2]).is_same_shape(bireme.ones([2]))
        True
    """
    return self.shape == _tensor(y, "is_same_shape(y)").shape


def astype(self: Tensor, dtype: Any) -> Tensor:
    """Convert the tensor to another dtype.

    Args:
        dtype: New dtype, as ``bireme.float32`` or ``'float32'``.

    Returns:
        Converted tensor; the tensor itself if it has that dtype.

    Examples:
        >>> x = bireme.to_tensor([1.7]); x.astype("int32").tolist(), x.astype(x.dtype) is x
        ([1], True)
    """
    return self if dtype is not None and dtypes.of(dtype, "astype(dtype)") is self.dtype else cast(self, dtype)


def _casts(name: str, dtype: dtypes.DType) -> Any:
    def method(self: Tensor) -> Tensor:
        return astype(self, dtype)

    method.__name__ = method.__qualname__ = name
    example = f"    >>> bireme.zeros([1]).{name}().dtype\n    bireme.{dtype.name}"
    method.__doc__ = f"The tensor converted to {dtype.name}.\n\nExamples:\n{example}"
    return method


def rows(self: Tensor) -> list[int]:
    """Raise an error, as for every dense tensor: there are no selected rows. Gradients of an ``Embedding`` with
    ``sparse=True`` are dense here.

    Raises:
        SystemError: Always.

    Examples:
        >>> try:
        ...     bireme.ones([2]).rows()
        ... except SystemError as e:
        ...     print(str(e).splitlines()[0])
        rows(): expected SelectedRows, got a Tensor of shape [2], float32
    """
    raise errors.bad("rows()", "SelectedRows", self, kind=SystemError)


def get_selected_rows(self: Tensor) -> None:
    """Return None, as for every dense tensor: there are no selected rows.

    Examples:
        >>> bireme.ones([2]).get_selected_rows() is None
        True
    """


def _answers(name: str, answer: Any, doc: str) -> Any:
    def method(self: Tensor) -> Any:
        return self if answer is None else answer

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


def _install() -> None:
    for f in (to, fill_, zero_, type_as, is_same_shape, astype, rows, get_selected_rows):
        setattr(Tensor, f.__name__, f)
    kinds = {
        d.name: d
        for d in (
            dtypes.uint8,
            dtypes.int8,
            dtypes.int16,
            dtypes.int32,
            dtypes.int64,
            dtypes.float16,
            dtypes.bfloat16,
            dtypes.float32,
            dtypes.float64,
            dtypes.complex64,
            dtypes.complex128,
        )
    }
    kinds |= {
        "bool": dtypes.bool_,
        "byte": dtypes.uint8,
        "char": dtypes.int8,
        "short": dtypes.int16,
        "int": dtypes.int32,
        "long": dtypes.int64,
        "half": dtypes.float16,
        "float": dtypes.float32,
        "double": dtypes.float64,
        "cfloat": dtypes.complex64,
        "cdouble": dtypes.complex128,
    }
    for name, dtype in kinds.items():
        setattr(Tensor, name, _casts(name, dtype))
    for name, answer in (("is_tensor", True), ("is_dense", True), ("is_sparse", False),
                         ("is_sparse_coo", False), ("is_sparse_csr", False), ("is_selected_rows", False)):  # fmt: skip
        doc = f"{answer} for every dense tensor.\n\nExamples:\n    >>> bireme.zeros([1]).{name}()\n    {answer}"
        setattr(Tensor, name, _answers(name, answer, doc))
    for name in ("value", "get_tensor"):
        doc = f"The tensor itself.\n\nExamples:\n    >>> bireme.ones([1]).{name}().tolist()\n    [1.0]"
        setattr(Tensor, name, _answers(name, None, doc))


_install()
