"""Views of a tensor's storage in another shape or dtype, changes of storage, and strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType, DTypeLike
from bireme.core.declare.conversion import ints
from bireme.core.declare.conversion import shape as checked_shape
from bireme.core.declare.op import Attr, DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor import grad_mode
from bireme.core.tensor.inplace import adopt
from bireme.core.tensor.view import in_a_row, layout
from bireme.ops.creation.tensors import clone, full
from bireme.ops.indexing.getitem import getitem
from bireme.ops.manipulation.join import concat
from bireme.ops.manipulation.reshape import ravel, reshaped, resolve_shape, strides_as
from bireme.ops.manipulation.strided import strided_on

# ---------------------------------------------------------------- another type


def _bits(x, dtype):
    """The same bytes along the last axis in another dtype."""
    if x.dtype == dtype:
        return x
    if x.dtype == bool:
        return _bits(x.astype(jnp.uint8), dtype)
    if dtype.kind == "b":
        return _bits(x, np.dtype(np.uint8)) != 0
    if jnp.iscomplexobj(x):
        pairs = jnp.stack([x.real, x.imag], -1)
        return _bits(pairs.reshape((*x.shape[:-1], -1)) if x.ndim else pairs, dtype)
    if np.issubdtype(dtype, np.complexfloating):
        parts = _bits(x, np.dtype(f"f{dtype.itemsize // 2}"))
        pairs = parts.reshape((*parts.shape[:-1], -1, 2))
        return lax.complex(pairs[..., 0], pairs[..., 1])
    ratio = dtype.itemsize // x.dtype.itemsize
    if ratio > 1:
        return lax.bitcast_convert_type(
            x.reshape((*x.shape[:-1], -1, ratio) if x.size else (*x.shape[:-1], x.shape[-1] // ratio, ratio)), dtype
        )
    made = lax.bitcast_convert_type(x, dtype)
    return (
        made if made.ndim == x.ndim else made.reshape((*x.shape[:-1], made.shape[-1] * (x.shape[-1] if x.ndim else 1)))
    )


@op(internal=True, view=True)
def view_dtype(x: Tensor, dtype: DTypeArg) -> Tensor:
    """The same bytes as numbers of another dtype; use `view`.

    >>> bireme.view(bireme.to_tensor([1.0]), "int32").tolist()
    [1065353216]
    """
    return _bits(x, np.dtype(dtype.np))


def _retyped(x, old, new):
    return (*x.shape[:-1], x.shape[-1] * old // new) if old != new else x.shape


@view_dtype.check
def _(x, dtype):
    old, new = x.dtype.itemsize, dtype.itemsize
    if old != new and (not x.ndim or x.shape[-1] * old % new):
        raise errors.bad(
            "view(x)",
            f"a last dimension whose size in bytes is divisible by the itemsize of {dtype.name}",
            described=f"shape {list(x.shape)}, {x.dtype.name}",
            kind=errors.ShapeError,
        )


view_dtype.infer(lambda x, dtype: sig_of(_retyped(x, x.dtype.itemsize, dtype.itemsize), dtype))


view_dtype.grad(lambda g, sigs: _bits(g, np.dtype(sigs[0].dtype.np)))


@view_dtype.put
def _(source, part, bound, numbers):
    return view_dtype(part, source.dtype)


@view_dtype.layout
def _(sig, strides, first, bound, numbers):
    old, new = sig.dtype.itemsize, bound.attrs[0].itemsize
    if old == new:
        return strides, first
    return ((*[n * old // new for n in strides[:-1]], 1), first * old // new) if strides[-1] == 1 else None


_NO_VIEW = "x.reshape(...) copies where it must"


@composite(method=True, varargs="shape_or_dtype", alias={"shape_or_dtype": ["dtype", "size"]},
           c_ops={"view_dtype": "x dtype:shape_or_dtype"})  # fmt: skip
def view(x: Tensor, shape_or_dtype: Attr[Sequence[int] | DTypeLike]) -> Tensor:
    """View the storage of a tensor in another shape, or its bytes as another dtype.

    Always shares storage. Where the strides do not allow the shape, use ``reshape``, which copies.

    Args:
        x: Input tensor of any dtype.
        shape_or_dtype: New shape (one size may be ``-1``, which is inferred), as a list or integers one by one; or a
            dtype. With a dtype of another item size the last axis shrinks or grows, and its elements must be adjacent
            in memory.

    Returns:
        Tensor that shares storage with ``x``.

    Raises:
        ValueError: If the elements do not lie in memory as the view needs them.

    Examples:
        >>> bireme.view(bireme.to_tensor([[1, 2], [3, 4]]), [4]).tolist()
        [1, 2, 3, 4]
    """
    own, _ = layout(x)
    if isinstance(shape_or_dtype, (str, DType, np.dtype, type)):
        dtype = dtypes.of(shape_or_dtype, "view(shape_or_dtype)")
        if dtype.itemsize != x.itemsize and x.ndim and own[-1] != 1:
            raise errors.bad(
                "view(x)",
                "a last dimension of stride 1",
                described=f"strides {list(own)}",
                hint="x.contiguous() copies",
            )
        return view_dtype(x, dtype)
    if shape_or_dtype is None:
        raise errors.bad("view(shape_or_dtype)", "a shape or a dtype", None, kind=errors.ArgumentTypeError)
    dims = list(ints(shape_or_dtype, 0, "view(shape_or_dtype)") or ())
    if 0 in dims and x._value.sig.size:
        raise errors.bad("view(shape_or_dtype)", f"a shape of {x._value.sig.size} elements, as x has", dims)
    found = resolve_shape(x._value.sig, dims, "view(shape_or_dtype)")
    if strides_as(x._value.sig.shape, own, found) is None:
        raise errors.bad(
            "view(x)",
            f"strides that are compatible with shape {list(found)}",
            described=f"strides {list(own)}",
            hint=_NO_VIEW,
        )
    return reshaped(x, list(found))


@composite(method=True, hands={"shape_or_dtype": "other"})
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """View the storage of a tensor in the shape of another.

    Args:
        x: Input tensor of any dtype.
        other: Tensor whose shape is taken.

    Returns:
        Tensor of the shape of ``other`` that shares storage with ``x``.

    Examples:
        >>> bireme.view_as(bireme.to_tensor([[1, 2], [3, 4]]), bireme.zeros([4])).tolist()
        [1, 2, 3, 4]
    """
    return view(x, other.shape)


# ---------------------------------------------------------------- other storage


def _free(x: Tensor, name: str) -> None:
    if grad_mode.state.grad and not x.stop_gradient and x.is_leaf:
        raise errors.bad(
            f"{name}(x)",
            "a non-leaf Tensor or no_grad() for an inplace operation",
            described="a leaf Tensor that requires grad",
        )


@errors.named
def resize_(self: Tensor, shape: Any, fill_zero: bool = False, name: str | None = None) -> Tensor:
    """Change the shape and the number of elements of a tensor in place.

    The first elements in row-major order stay; new ones are zeros. The tensor gets storage of its own.

    Args:
        shape: New shape, a list or tuple.
        fill_zero: New elements are zeros in either case. Default: False.
        name: Not used; kept for Paddle's signature.

    Returns:
        The tensor itself.

    Raises:
        ValueError: If it is a leaf that requires gradients, outside of ``no_grad()``.

    Examples:
        >>> bireme.to_tensor([1, 2, 3]).resize_([2, 2]).tolist()
        [[1, 2], [3, 0]]
    """
    if not isinstance(shape, (list, tuple)):
        raise errors.bad("resize_(shape)", "a list of integers", shape)
    dims = checked_shape(shape, 0, "resize_(shape)") or ()
    _free(self, "resize_")
    flat, more = ravel(self), math.prod(dims) - self.size
    if more > 0:
        flat = concat([flat, full([more], 0, self.dtype)])
    return adopt(self, reshaped(clone(getitem(flat, slice(0, math.prod(dims)))), list(dims)))


@errors.named
def set_(
    self: Tensor,
    source: Tensor | None = None,
    shape: Any = None,
    stride: Any = None,
    offset: int = 0,
    name: str | None = None,
) -> Tensor:
    """Let the tensor view the storage of another in place.

    Args:
        source: Tensor of the same dtype to view; ``None`` leaves the tensor without elements. Default: None.
        shape: Shape of the view; ``None`` means that of ``source``. Default: None.
        stride: Strides in elements; ``None`` means those of ``source``, or contiguous ones if ``shape`` is given.
            Default: None.
        offset: Bytes from the start of the storage to the first element. Default: 0.
        name: Not used; kept for Paddle's signature.

    Returns:
        The tensor itself, now of shape ``shape``.

    Raises:
        ValueError: If it is a leaf that requires gradients, outside of ``no_grad()``.

    Examples:
        >>> bireme.to_tensor([1.0]).set_(bireme.to_tensor([2.0, 3.0, 4.0]), [2], [2]).tolist()
        [2.0, 4.0]
    """
    _free(self, "set_")
    if source is None:
        return adopt(self, full([0], 0, self.dtype))
    if not isinstance(source, Tensor):
        raise errors.bad("set_(source)", "a Tensor", source)
    if source.dtype is not self.dtype:
        raise errors.bad("set_(source)", self.dtype.name, described=source.dtype.name, kind=errors.ArgumentTypeError)
    own, first = layout(source)
    dims = tuple(source.shape) if shape is None else checked_shape(shape, 0, "set_(shape)") or ()
    steps = ints(stride, 0, "set_(stride)") if stride is not None else own if shape is None else in_a_row(dims)
    if shape is None and stride is None and not offset:
        offset = first * source.itemsize
    return adopt(self, strided_on("set_", source.detach(), dims, steps, offset))  # type: ignore[attr-defined]  # installed by core.view


# ---------------------------------------------------------------- where the elements lie


def get_strides(self: Tensor) -> list[int]:
    """Strides in elements: how far apart in the storage neighbours along each axis are.

    Examples:
        >>> bireme.zeros([2, 3]).T.get_strides()
        [1, 3]
    """
    return list(layout(self)[0])


def _offset(self: Tensor) -> int:
    """Offset of the first element in the storage, in bytes."""
    return layout(self)[1] * self.itemsize


def is_contiguous(self: Tensor) -> bool:
    """Whether the elements lie in memory in row-major order without gaps.

    Examples:
        >>> bireme.zeros([2, 3]).T.is_contiguous()
        False
    """
    return not self._value.sig.size or layout(self)[0] == in_a_row(self._value.sig.shape)


def contiguous(self: Tensor) -> Tensor:
    """The tensor itself if it is contiguous, otherwise a contiguous copy.

    Examples:
        >>> bireme.zeros([2, 3]).T.contiguous().is_contiguous()
        True
    """
    return self if is_contiguous(self) else clone(self)


for _f in (resize_, set_, get_strides, is_contiguous, contiguous):
    setattr(Tensor, _f.__name__, _f)
Tensor.strides = property(get_strides, doc=get_strides.__doc__)  # type: ignore[attr-defined]  # a method that Tensor gets here
Tensor.offset = property(_offset, doc=_offset.__doc__)  # type: ignore[attr-defined]  # a method that Tensor gets here
