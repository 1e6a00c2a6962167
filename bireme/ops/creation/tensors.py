"""Creation of tensors: from data, filled with a number, as ranges, as copies."""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import number
from bireme.core.declare.op import Attr, DeviceArg, DTypeArg, Extra, Shape, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor import tape
from bireme.core.tensor.inplace import marked
from bireme.core.tensor.tensor import read, value_of


@composite(name_arg=False)
def to_tensor(data: Any, dtype: DTypeArg = None, place: DeviceArg = None, stop_gradient: bool = True) -> Tensor:
    """Create a tensor from Python numbers, nested lists, a NumPy array or another tensor; the data is copied.

    Args:
        data: Number, nested list or tuple of numbers, array, or tensor; lists may contain 0-D tensors.
        dtype: Dtype of the tensor. ``None`` keeps that of an array or tensor and takes int64, bool, the default
            floating-point dtype (float32 unless changed) or its complex counterpart for Python numbers. Default: None.
        place: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        stop_gradient: Whether gradients stop at it; ``False`` makes it a leaf that collects gradients. Default: True.

    Returns:
        A new tensor.

    Examples:
        >>> bireme.to_tensor([[1, 2], [3, 4]]).shape
        [2, 2]
        >>> bireme.to_tensor([1, 2.5]).dtype
        bireme.float32
    """
    return Tensor(value_of(data, dtype, place), stop_gradient=stop_gradient)


@composite(name_arg=False)
def as_tensor(data: Any, dtype: DTypeArg = None, device: DeviceArg = None, requires_grad: bool = False,
              pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor from Python numbers, nested lists, a NumPy array or another tensor, with PyTorch's keywords.

    The data is copied. ``to_tensor`` is the same with Paddle's keywords.

    Args:
        data: Number, nested list or tuple of numbers, array, or tensor.
        dtype: Dtype of the tensor; ``None`` infers it as ``to_tensor`` does. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether it collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        A new tensor.

    Examples:
        >>> bireme.as_tensor([1.0, 2.0], requires_grad=True).stop_gradient
        False
    """
    return to_tensor(data, dtype, device, not requires_grad)


# ---------------------------------------------------------------- filled with a number


@op(internal="full", differentiable=False)
def full_of(fill_value: Tensor | float, shape: Shape, dtype: DTypeArg) -> Tensor:
    """A tensor filled with a number; use `full`.

    >>> bireme.full([2], 7).tolist()
    [7.0, 7.0]
    """
    return jnp.full(shape, fill_value, dtype.np)


full_of.infer(lambda shape, dtype: sig_of(shape, dtype))
full_of.numpy_form = lambda fill_value, shape, dtype: np.full(shape, fill_value, dtype.np)


def _filled(where: str, shape: Any, value: Any, dtype: Any, device: Any = None, requires_grad: bool = False) -> Tensor:
    kind = dtypes.of(dtype, f"{where}(dtype)")
    shape = () if shape is None else shape
    if isinstance(value, Tensor):
        return placed(full_of.call({"fill_value": value, "shape": shape, "dtype": kind}), device, requires_grad)
    given = (kind, number(_plain(value, f"{where}(fill_value)"), kind, f"{where}(fill_value)"))
    return placed(full_of.settled([given], tuple(shape), kind), device, requires_grad)


def _plain(value: Any, where: str) -> Any:
    """A Python number, which may be given as a string."""
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?(inf|nan|[0-9.]+(e[-+]?[0-9]+)?)\s*", value.lower()):
        return float(value)
    if not isinstance(value, (int, float, builtins.complex, np.generic)):
        raise errors.bad(where, "a number", value, kind=errors.ArgumentTypeError)
    return value.item() if isinstance(value, np.generic) else value


def placed(t: Tensor, device: Any, requires_grad: bool) -> Tensor:
    """Apply the keywords of creation functions that PyTorch has too."""
    if device is not None:
        t = t._to_device(devices.parse(device, "device"))
    if requires_grad:
        t.stop_gradient = False
    return t


# a number operand may be given as a (dtype, number) pair by the engine's own callers
def _pair_or_operand(arguments):
    if arguments["fill_value"].__class__ is tuple:
        return
    t = arguments["fill_value"]
    if isinstance(t, Tensor) and t.ndim != 0:
        if t._value.sig.size != 1:
            raise errors.bad("full(fill_value)", "a number or a tensor of one element", t, kind=errors.for_number(t))
        arguments["fill_value"] = t.reshape([])


full_of.prepare(_pair_or_operand)


@composite(alias={"shape": "size"}, c_ops={"full_with_tensor": "value:fill_value shape dtype='float32'"})
def full(shape: Shape, fill_value: Attr[float | complex | Tensor], dtype: DTypeArg = None, name: Extra[str] = None, *,
         out: Extra[Tensor] = None, device: DeviceArg = None, requires_grad: bool = False,
         pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor filled with a number.

    Args:
        shape: Shape as a list, a tuple, an integer or an integer tensor; tensors in a list are read.
        fill_value: Number, string that spells one, or tensor of one element. One that an integer dtype cannot hold
            wraps around.
        dtype: Dtype of the tensor. ``None`` means bool or complex128 if the number is a Python bool or complex number,
            and the default floating-point dtype for all others, integers too. Default: None.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.full([2], 7).tolist()
        [7.0, 7.0]
    """
    if dtype is None:
        dtype = {bool: dtypes.bool_, builtins.complex: dtypes.complex128}.get(type(fill_value), dtypes.get_default())
    return _filled("full", shape, fill_value, dtype, device, requires_grad)


@composite(varargs="shape", alias={"shape": "size"})
def zeros(shape: Shape, dtype: DTypeArg = None, name: Extra[str] = None, *, out: Extra[Tensor] = None,
          device: DeviceArg = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor filled with zeros.

    Args:
        shape: Shape as a list, a tuple or an integer tensor, or integers one by one.
        dtype: Dtype of the result; ``None`` means the default floating-point dtype. Default: None.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.zeros([2]).tolist()
        [0.0, 0.0]
    """
    return _filled("zeros", shape, 0, dtype or dtypes.get_default(), device, requires_grad)


@composite(varargs="shape", alias={"shape": "size"})
def ones(shape: Shape, dtype: DTypeArg = None, name: Extra[str] = None, *, out: Extra[Tensor] = None,
         device: DeviceArg = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor filled with ones.

    Args:
        shape: Shape as a list, a tuple or an integer tensor, or integers one by one.
        dtype: Dtype of the result; ``None`` means the default floating-point dtype. Default: None.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.ones([2]).tolist()
        [1.0, 1.0]
    """
    return _filled("ones", shape, 1, dtype or dtypes.get_default(), device, requires_grad)


@composite(varargs="shape", alias={"shape": "size"})
def empty(shape: Shape, dtype: DTypeArg = None, name: Extra[str] = None, *, out: Extra[Tensor] = None,
          device: DeviceArg = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor whose values are to be written later.

    They are zeros: uninitialized memory is never exposed.

    Args:
        shape: Shape as a list, a tuple or an integer tensor, or integers one by one.
        dtype: Dtype of the result; ``None`` means the default floating-point dtype. Default: None.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.empty([2, 3]).shape
        [2, 3]
    """
    return _filled("empty", shape, 0, dtype or dtypes.get_default(), device, requires_grad)


@composite(alias={"x": "input"}, c_ops={"fill": "x value:fill_value=0"})
def full_like(x: Tensor, fill_value: Attr[float | complex | Tensor], dtype: DTypeArg = None, name: Extra[str] = None, *,
              device: DeviceArg = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of the shape of another, filled with a number.

    Args:
        x: Tensor whose shape is taken.
        fill_value: Number, or tensor of one element.
        dtype: Dtype of the result; ``None`` means that of ``x``. Default: None.
        name: Not used; kept for Paddle's signature.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of the shape of ``x``.

    Raises:
        ValueError: If the dtype cannot hold the number.

    Examples:
        >>> bireme.full_like(bireme.to_tensor([1.0, 2.0]), 5).tolist()
        [5.0, 5.0]
    """
    kind = dtype or x.dtype
    if not isinstance(fill_value, Tensor):
        _must_hold(kind, _plain(fill_value, "full_like(fill_value)"))
    return _filled("full_like", x.shape, fill_value, kind, device, requires_grad)


def _must_hold(kind: Any, value: Any) -> None:
    """`full` wraps a number that its dtype cannot hold, `full_like` refuses it, as in Paddle."""
    if kind.is_complex or isinstance(value, builtins.complex) or not math.isfinite(value):
        return
    low, high = (
        (0, 1)
        if kind is dtypes.bool_
        else (np.iinfo(kind.np).min, np.iinfo(kind.np).max)
        if kind.is_integer
        else _limits(kind)
    )
    if not low <= value <= high:
        raise errors.bad(
            "full_like(fill_value)", f"a number in the range of {kind.name}", value, kind=errors.for_number(value)
        )


def _limits(kind: Any) -> tuple[float, float]:
    info = dtypes.finfo(kind)
    return info.min, info.max


@composite(alias={"x": "input"})
def empty_like(x: Tensor, dtype: DTypeArg = None, name: Extra[str] = None, *, device: DeviceArg = None,
               requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of the shape of another, whose values are to be written later; they are zeros.

    Args:
        x: Tensor whose shape is taken.
        dtype: Dtype of the result; ``None`` means that of ``x``. Default: None.
        name: Not used; kept for Paddle's signature.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.empty_like(bireme.to_tensor([1.0, 2.0])).shape
        [2]
    """
    return _filled("empty_like", x.shape, 0, dtype or x.dtype, device, requires_grad)


@composite(alias={"x": "input"})
def zeros_like(x: Tensor, dtype: DTypeArg = None, name: Extra[str] = None, *, device: DeviceArg = None,
               requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of the shape of another, filled with zeros.

    Args:
        x: Tensor whose shape is taken.
        dtype: Dtype of the result; ``None`` means that of ``x``. Default: None.
        name: Not used; kept for Paddle's signature.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.zeros_like(bireme.to_tensor([1.0, 2.0])).tolist()
        [0.0, 0.0]
    """
    return _filled("zeros_like", x.shape, 0, dtype or x.dtype, device, requires_grad)


@composite(alias={"x": "input"})
def ones_like(x: Tensor, dtype: DTypeArg = None, name: Extra[str] = None, *, device: DeviceArg = None,
              requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of the shape of another, filled with ones.

    Args:
        x: Tensor whose shape is taken.
        dtype: Dtype of the result; ``None`` means that of ``x``. Default: None.
        name: Not used; kept for Paddle's signature.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.ones_like(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 1.0]
    """
    return _filled("ones_like", x.shape, 1, dtype or x.dtype, device, requires_grad)


@composite(method=True, varargs="size", name_arg=False)
def new_empty(x: Tensor, size: Shape, *, dtype: DTypeArg = None, device: DeviceArg = None, requires_grad: bool = False,
              pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of another shape, whose values are to be written later; they are zeros.

    Args:
        size: Shape, as a list or integers one by one.
        dtype: Dtype of the result; ``None`` means that of this tensor. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``size``.

    Examples:
        >>> bireme.to_tensor([1]).new_empty([2, 3]).shape
        [2, 3]
    """
    return _filled("new_empty", size, 0, dtype or x.dtype, device, requires_grad)


@composite(method=True, name_arg=False)
def new_full(x: Tensor, size: Shape, fill_value: Attr[float | complex | Tensor], *, dtype: DTypeArg = None,
             device: DeviceArg = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of another shape, filled with a number.

    Args:
        size: Shape.
        fill_value: Number, or tensor of one element.
        dtype: Dtype of the result; ``None`` means that of this tensor. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``size``.

    Examples:
        >>> bireme.to_tensor([1]).new_full([2], 7.5).tolist()
        [7, 7]
    """
    return _filled("new_full", size, fill_value, dtype or x.dtype, device, requires_grad)


@composite(method=True, varargs="size", name_arg=False)
def new_ones(x: Tensor, size: Shape, *, dtype: DTypeArg = None, device: DeviceArg = None, requires_grad: bool = False,
             pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of another shape, filled with ones.

    Args:
        size: Shape, as a list or integers one by one.
        dtype: Dtype of the result; ``None`` means that of this tensor. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``size``.

    Examples:
        >>> bireme.to_tensor([1]).new_ones([2]).tolist()
        [1, 1]
    """
    return _filled("new_ones", size, 1, dtype or x.dtype, device, requires_grad)


@composite(method=True, varargs="size", name_arg=False)
def new_zeros(x: Tensor, size: Shape, *, dtype: DTypeArg = None, device: DeviceArg = None, requires_grad: bool = False,
              pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a tensor of another shape, filled with zeros.

    Args:
        size: Shape, as a list or integers one by one.
        dtype: Dtype of the result; ``None`` means that of this tensor. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``size``.

    Examples:
        >>> bireme.to_tensor([1]).new_zeros([2]).tolist()
        [0, 0]
    """
    return _filled("new_zeros", size, 0, dtype or x.dtype, device, requires_grad)


# ---------------------------------------------------------------- counted


@op(internal=True, differentiable=False)
def count_up(start: Tensor | float, step: Tensor | float, size: int, dtype: DTypeArg) -> Tensor:
    """`size` numbers from `start` in steps; use `arange`.

    >>> bireme.arange(3).tolist()
    [0, 1, 2]
    """
    return (start + jnp.arange(size, dtype=start.dtype) * step).astype(dtype.np)


count_up.infer(lambda size, dtype: sig_of((size,), dtype))
count_up.numpy_form = lambda start, step, size, dtype: (start + np.arange(size).astype(start.dtype) * step).astype(
    dtype.np
)


def _count(first: Any, last: Any, by: Any, kind: Any) -> int:
    """Number of steps from `first` to before `last`, computed in the dtype of the result as Paddle does."""
    if kind.kind == "i":
        return -((first - last) // by)
    wide = np.float32 if kind.itemsize < 8 else np.float64
    return int(np.ceil((wide(last) - wide(first)) / wide(by)))


def _numbers(given: tuple) -> tuple[list, bool]:
    """Start, end and step of `arange` as Python's numbers, and whether one of them was no integer."""
    values, floats = [], False
    for name, x in zip(("start", "end", "step"), given):
        if isinstance(x, np.ndarray) and x.size == 1:
            x = x.reshape(-1)[0]
        if not isinstance(x, (Tensor, int, float, np.generic)):
            raise errors.bad(f"arange({name})", "a number", x, kind=errors.ArgumentTypeError)
        floats |= (x.dtype if isinstance(x, Tensor) else dtypes.of_number(x)).kind == "f"
        values.append(x.item() if isinstance(x, (Tensor, np.generic)) else x)
    return values, floats


@composite()
def arange(start: Attr[float | Tensor] = 0, end: Attr[float | Tensor] = None, step: Attr[float | Tensor] = 1,
           dtype: DTypeArg = None, *, out: Extra[Tensor] = None, device: DeviceArg = None, requires_grad: bool = False,
           pin_memory: bool = False, name: Extra[str] = None) -> Tensor:  # fmt: skip
    """Create a vector of evenly spaced numbers from ``start`` to before ``end``.

    With a single argument that is ``end``, and ``start`` is 0.

    Args:
        start: First number; a Python number or a tensor of one element. Default: 0.
        end: Number to stop before. Default: None.
        step: Distance from one number to the next, not 0; a negative one counts down. Default: 1.
        dtype: Dtype of the result. ``None`` means int64 if all numbers are integers, otherwise the default
            floating-point dtype. With an integer dtype the fractions of the arguments are dropped first. Default: None.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.
        name: Not used; kept for Paddle's signature.

    Returns:
        1-D tensor of size ``ceil((end - start) / step)``, empty if that is negative.

    Examples:
        >>> bireme.arange(1, 7, 2).tolist()
        [1, 3, 5]
    """
    if end is None:
        start, end = 0, start
    values: Sequence[Any] = (start, end, step)
    kind = dtype
    if not start.__class__ is end.__class__ is step.__class__ is int:
        values, floats = _numbers(values)
        if kind is None and floats:
            kind = dtypes.get_default()
        if not builtins.all(map(math.isfinite, values)):
            raise errors.bad("arange()", "finite numbers", values)
    kind = kind or dtypes.int64
    if kind.kind == "i":  # counted in the dtype of the result: arange(3.5, dtype="int64") is [0, 1, 2]
        values = [int(v) for v in values]
    first, last, by = values
    if by == 0:
        raise errors.bad("arange(step)", "a nonzero step", step)
    size = builtins.max(0, _count(first, last, by, kind))
    exact = dtypes.int64 if all(isinstance(v, int) for v in values) else dtypes.float64
    given = [(exact, number(first, exact, "arange(start)")), (exact, number(by, exact, "arange(step)"))]
    return placed(count_up.settled(given, size, kind), device, requires_grad)


@op(internal="eye", differentiable=False, numpy=True)
def eye_of(num_rows: int, num_columns: int, dtype: DTypeArg) -> Tensor:
    """The identity matrix; use `eye`."""
    return jnp.eye(num_rows, num_columns, dtype=dtype.np)


eye_of.infer(lambda num_rows, num_columns, dtype: sig_of((num_rows, num_columns), dtype))


@composite(alias={"num_rows": "n", "num_columns": "m"})
def eye(num_rows: Attr[int], num_columns: Attr[int] = None, dtype: DTypeArg = None, name: Extra[str] = None, *,
        out: Extra[Tensor] = None, device: DeviceArg = None, requires_grad: bool = False,
        pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Create a matrix with ones on the diagonal and zeros elsewhere.

    Args:
        num_rows: Number of rows.
        num_columns: Number of columns; ``None`` means as many as rows. Default: None.
        dtype: Dtype of the result; ``None`` means the default floating-point dtype. Default: None.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``[num_rows, num_columns]``.

    Examples:
        >>> bireme.eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    rows = _extent(num_rows, "eye(num_rows)")
    columns = rows if num_columns is None else _extent(num_columns, "eye(num_columns)")
    return placed(eye_of(rows, columns, dtype or dtypes.get_default()), device, requires_grad)


def _extent(n: Any, where: str) -> int:
    plain = (
        int(n)
        if isinstance(n, (int, np.integer)) or (isinstance(n, Tensor) and n.size == 1 and n.dtype.is_integer)
        else -1
    )
    if plain < 0:
        raise errors.bad(where, "a non-negative integer", n, kind=errors.ArgumentTypeError)
    return plain


# ---------------------------------------------------------------- copied


@op(passes="x", numpy=lambda x: x)
def clone(x: Tensor) -> Tensor:
    """Copy a tensor; gradients flow back to the original.

    For a copy without autograd history use ``x.detach().clone()``.

    Args:
        x: Input tensor of any dtype.

    Returns:
        Tensor with values of its own.

    Examples:
        >>> bireme.clone(bireme.to_tensor([1.0])).tolist()
        [1.0]
    """
    return x


clone.infer(lambda x: x)
clone.grad(lambda g: g, numpy=True)


def _clone(self: Tensor) -> Tensor:
    """A copy that gradients flow through.

    Examples:
        >>> bireme.to_tensor([1.0]).clone().tolist()
        [1.0]
    """
    return clone(self)


Tensor.clone = _clone  # type: ignore[attr-defined]  # a method that Tensor gets here


def _as_array(x: Any) -> Any:
    if not isinstance(x, (np.ndarray, np.generic, bool, int, float, builtins.complex, list, tuple)):
        raise errors.bad("assign(x)", "a Tensor, an array, numbers or lists of numbers", x, kind=errors.NotATensorError)
    if isinstance(x, (list, tuple)):
        value_of(x)  # refuses ragged lists and what is no number
        x = [np.asarray(i) for i in x] if any(isinstance(i, Tensor) for i in x) else x
    return value_of(x if isinstance(x, np.ndarray) else np.atleast_1d(np.asarray(x)))


@composite(name_arg=False, c_ops={"npu_identity": "x format:=-1", "memcpy_h2d memcpy_d2h": "x dst_place_type:"})
def assign(x: Any, output: Tensor | None = None) -> Tensor:
    """Copy a tensor or data, into another tensor if one is given.

    Args:
        x: Tensor, array, number or nested list of numbers. Data that is no tensor takes the dtype that NumPy gives it
            (float64 for Python floats) and has at least one axis.
        output: Tensor to copy into, which takes over shape and dtype; ``None`` creates a new one. Default: None.

    Returns:
        ``output``, or the new tensor. Gradients flow back to ``x``.

    Examples:
        >>> bireme.assign([1.0, 2.0]).tolist()
        [1.0, 2.0]
    """
    new = clone(x) if isinstance(x, Tensor) else Tensor(_as_array(x))
    if output is None:
        return new
    value = read(new)
    if output._view is not None and value.sig.shape == output._value.sig.shape and value.sig.dtype is output.dtype:
        output._view.write(output, new, marked(output, tape.now()))  # others that share the storage see it
    else:
        version = output.inplace_version + 1
        output._value, output._edge, output._view = value, new._edge, None
        output._version = version
    if not new.stop_gradient:
        output.stop_gradient = False
    return output
