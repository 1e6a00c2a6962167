"""Bits of integers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base.dtype import BOOL, INT
from bireme.core.declare.op import Extra, Tensor, composite, op
from bireme.core.tensor.inplace import assign_inplace
from bireme.ops._shared.broadcast import elementwise, same


@op(method=True, inplace=True, promote="x y", mix="same", dtypes=INT | BOOL, differentiable=False, numpy=np.bitwise_and)
def bitwise_and(x: Tensor, y: Tensor | int, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise bitwise AND of integers, or logical AND of bools, with broadcasting.

    Args:
        x: Integer or bool tensor.
        y: Tensor of the same dtype, or an integer.
        out: Tensor that receives the result. Default: None.

    Returns:
        Tensor of the broadcast shape and the dtype of ``x``.

    Examples:
        >>> bireme.bitwise_and(bireme.to_tensor([6]), bireme.to_tensor([3])).tolist()
        [2]
    """
    return jnp.bitwise_and(x, y)


@op(method=True, inplace=True, promote="x y", mix="same", dtypes=INT | BOOL, differentiable=False, numpy=np.bitwise_or, torch=True)
def bitwise_or(x: Tensor, y: Tensor | int, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise bitwise OR of integers, or logical OR of bools, with broadcasting.

    Args:
        x: Integer or bool tensor.
        y: Tensor of the same dtype, or an integer.
        out: Tensor that receives the result. Default: None.

    Returns:
        Tensor of the broadcast shape and the dtype of ``x``.

    Examples:
        >>> bireme.bitwise_or(bireme.to_tensor([6]), bireme.to_tensor([3])).tolist()
        [7]
    """
    return jnp.bitwise_or(x, y)


@op(method=True, inplace=True, promote="x y", mix="same", dtypes=INT | BOOL, differentiable=False, numpy=np.bitwise_xor)
def bitwise_xor(x: Tensor, y: Tensor | int, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise bitwise exclusive OR of integers, or logical one of bools, with broadcasting.

    Args:
        x: Integer or bool tensor.
        y: Tensor of the same dtype, or an integer.
        out: Tensor that receives the result. Default: None.

    Returns:
        Tensor of the broadcast shape and the dtype of ``x``.

    Examples:
        >>> bireme.bitwise_xor(bireme.to_tensor([6]), bireme.to_tensor([3])).tolist()
        [5]
    """
    return jnp.bitwise_xor(x, y)


@op(public="bitwise_not bitwise_invert", method="bitwise_not bitwise_invert", inplace="bitwise_not_ bitwise_invert_",
    dtypes=INT | BOOL, differentiable=False, numpy=np.invert)  # fmt: skip
def bitwise_not(x: Tensor, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise inversion of all bits; of bools, logical NOT.

    Args:
        x: Integer or bool tensor.
        out: Tensor that receives the result. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.bitwise_not(bireme.to_tensor([0])).tolist()
        [-1]
    """
    return jnp.invert(x)


def _shift(toward, x, y):
    """Shifted by any count, and whether the dtype has as many bits: if not, none of `x` is left."""
    room = x.dtype.itemsize * 8
    fits = (y >= 0) & (y < room)
    return fits, toward(*jnp.broadcast_arrays(x, jnp.where(fits, y, 0)))


def _left_numpy(x, y, is_arithmetic):
    fits = (y >= 0) & (y < x.dtype.itemsize * 8)
    return np.where(fits, np.left_shift(x, np.where(fits, y, 0)), 0)


def _right_numpy(x, y, is_arithmetic):
    fits, signed = (y >= 0) & (y < x.dtype.itemsize * 8), is_arithmetic and x.dtype.kind == "i"
    bits = x if signed else x.view(f"u{x.dtype.itemsize}")
    moved = np.right_shift(bits, np.where(fits, y, 0).astype(bits.dtype)).astype(x.dtype)
    return np.where(fits, moved, np.where(x < 0, -1, 0) if signed else 0)


@op(method=True, promote="x y", mix="same", dtypes=INT, differentiable=False, numpy=_left_numpy)
def bitwise_left_shift(x: Tensor | int, y: Tensor | int, is_arithmetic: bool = True,
                       out: Extra[Tensor] = None) -> Tensor:  # fmt: skip
    """Shift the bits of integers to the left, with zeros shifted in.

    A shift by a negative count, or by at least the number of bits of the dtype, gives 0.

    Args:
        x: Integer tensor or an integer.
        y: Number of bits to shift by: a tensor of the same dtype, or an integer.
        is_arithmetic: Not used: both kinds of shift to the left are the same. Default: True.
        out: Tensor that receives the result. Default: None.

    Returns:
        Tensor of the broadcast shape and the common dtype.

    Examples:
        >>> bireme.bitwise_left_shift(bireme.to_tensor([3]), bireme.to_tensor([2])).tolist()
        [12]
    """
    fits, moved = _shift(lax.shift_left, x, y)
    return jnp.where(fits, moved, 0)


@op(method=True, promote="x y", mix="same", dtypes=INT, differentiable=False, numpy=_right_numpy)
def bitwise_right_shift(x: Tensor | int, y: Tensor | int, is_arithmetic: bool = True,
                        out: Extra[Tensor] = None) -> Tensor:  # fmt: skip
    """Shift the bits of integers to the right.

    A shift by a negative count, or by at least the number of bits of the dtype, leaves only what is shifted in.

    Args:
        x: Integer tensor or an integer.
        y: Number of bits to shift by: a tensor of the same dtype, or an integer.
        is_arithmetic: Whether copies of the sign bit are shifted in; otherwise zeros. Default: True.
        out: Tensor that receives the result. Default: None.

    Returns:
        Tensor of the broadcast shape and the common dtype.

    Examples:
        >>> bireme.bitwise_right_shift(bireme.to_tensor([-8]), bireme.to_tensor([1])).tolist()
        [-4]
    """
    signed = is_arithmetic and jnp.issubdtype(x.dtype, jnp.signedinteger)
    fits, moved = _shift(lax.shift_right_arithmetic if signed else lax.shift_right_logical, x, y)
    return jnp.where(fits, moved, jnp.where(x < 0, -1, 0).astype(x.dtype) if signed else 0)


for _op in (bitwise_and, bitwise_or, bitwise_xor, bitwise_left_shift, bitwise_right_shift):
    _op.infer(elementwise(_op.name))
bitwise_not.infer(same)


# declared by themselves: unlike other in-place forms, Paddle's take `out`


@composite(method=True)
def bitwise_left_shift_(x: Tensor, y: Tensor | int, is_arithmetic: bool = True, out: Extra[Tensor] = None) -> Tensor:
    """In-place form of ``bitwise_left_shift``: changes ``x`` and returns it.

    Args:
        x: Integer tensor to change.
        y: Number of bits to shift by: a tensor of the same dtype, or an integer.
        is_arithmetic: Not used: both kinds of shift to the left are the same. Default: True.
        out: Tensor that receives a copy of the result. Default: None.

    Returns:
        ``x`` itself.

    Examples:
        >>> bireme.to_tensor([3]).bitwise_left_shift_(bireme.to_tensor([2])).tolist()
        [12]
    """
    return assign_inplace(x, bitwise_left_shift(x, y, is_arithmetic), "bitwise_left_shift_")


@composite(method=True)
def bitwise_right_shift_(x: Tensor, y: Tensor | int, is_arithmetic: bool = True, out: Extra[Tensor] = None) -> Tensor:
    """In-place form of ``bitwise_right_shift``: changes ``x`` and returns it.

    Args:
        x: Integer tensor to change.
        y: Number of bits to shift by: a tensor of the same dtype, or an integer.
        is_arithmetic: Whether copies of the sign bit are shifted in; otherwise zeros. Default: True.
        out: Tensor that receives a copy of the result. Default: None.

    Returns:
        ``x`` itself.

    Examples:
        >>> bireme.to_tensor([-8]).bitwise_right_shift_(bireme.to_tensor([1])).tolist()
        [-4]
    """
    return assign_inplace(x, bitwise_right_shift(x, y, is_arithmetic), "bitwise_right_shift_")
