"""Dropout: elements set to zero by chance; the mask of a gradient comes again from its key, or as NumPy kept it."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Attr, Key, Tensor, composite, op
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.ops.creation.tensors import clone
from bireme.ops.random.generators import chance


class _Masks:
    """Masks that NumPy has made, until their gradient takes them: making one takes ten times as long as using it.

    One that is not there, as when it was dropped for others or the forward was compiled, comes again from its key.
    """

    def __init__(self, most: int):
        self._most, self._left, self._kept = most, most, OrderedDict[tuple, np.ndarray]()
        self._lock = threading.Lock()

    def keep(self, name: tuple, mask: np.ndarray) -> None:
        with self._lock:
            self._kept[name] = mask
            self._left -= mask.nbytes
            while self._left < 0:
                self._left += self._kept.popitem(last=False)[1].nbytes

    def take(self, name: tuple) -> np.ndarray | None:
        with self._lock:
            mask = self._kept.pop(name, None)
            self._left += 0 if mask is None else mask.nbytes
            return mask

    def forked(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it


_masks = _Masks(1 << 26)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_masks.forked)


def _dropped_numpy(x, p, key, scale, axis):
    dims = _dims(x.shape, axis)
    keep = ~_chance_numpy(key, dims, p)
    _masks.keep((int(key[0]), int(key[1]), dims, float(p)), keep)
    return _masked_numpy(x, keep, p, scale)


def _dropped_grad_numpy(g, p, scale, axis, key):
    dims = _dims(g.shape, axis)
    keep = _masks.take((int(key[0]), int(key[1]), dims, float(p)))
    keep = ~_chance_numpy(key, dims, p) if keep is None else keep
    return _masked_numpy(g, keep, p, scale), None, None, None


def _masked_numpy(x, keep, p, scale):
    x = _scaled(x, p) if scale else x
    bits = {4: np.int32, 8: np.int64}.get(x.dtype.itemsize) if x.dtype.kind == "f" else None
    if bits is None:
        return np.where(keep, x, np.zeros((), x.dtype))
    # a pattern of bits by 0 is 0 whatever number it is; NumPy selects at half the speed
    return np.multiply(x.view(bits), keep).view(x.dtype)


@op(internal="dropout", numpy=_dropped_numpy, upcast=True)
def dropout_of(x: Tensor, p: Tensor | float, scale: bool, axis: Any, key: Key = None) -> Tensor:
    """Elements set to zero with probability p; use `dropout`.

    >>> bireme.nn.functional.dropout(bireme.to_tensor([1.0]), 0.0).tolist()
    [1.0]
    """
    return _drop(x, p, scale, axis, key)


def _dims(shape, axis):
    return shape if axis is None else tuple(n if i in axis else 1 for i, n in enumerate(shape))


def _scaled(x, p):
    # integers are scaled as float32: what is left of 1 - p in their own type is 0
    return (x / (1 - p)).astype(x.dtype) if x.dtype.kind in "iu" else x / (1 - p).astype(x.dtype)


def _drop(x, p, scale, axis, key):
    keep = ~chance(key, _dims(x.shape, axis), p)
    return jnp.where(keep, _scaled(x, p) if scale else x, jnp.zeros((), x.dtype))


_chance_numpy = on_numpy(chance)
dropout_of.infer(lambda x: x)


@dropout_of.grad(numpy=_dropped_grad_numpy)
def _(g, p, scale, axis, key):
    # the mask comes again from its keys: nothing is kept for it
    return _drop(g, p, scale, axis, key), None, None, None


@composite(method=False, plain=True)
def dropout(x: Tensor, p: Attr[float | Tensor] = 0.5, axis: Attr[int | Sequence[int]] = None, training: bool = True,
            mode: str = "upscale_in_train") -> Tensor:  # fmt: skip
    """Set elements to zero with probability ``p`` in training.

    With ``'upscale_in_train'`` the other elements are multiplied by ``1 / (1 - p)`` in training, which keeps the mean,
    and nothing happens otherwise. With ``'downscale_in_infer'`` they stay, and outside of training all are multiplied
    by ``1 - p``.

    Args:
        x: Input tensor.
        p: Probability in ``[0, 1]`` of dropping an element: a number or a tensor of one element. Default: 0.5.
        axis: Axis or axes along which elements are dropped independently, non-negative integers; along the others they
            are dropped together. ``None`` means all axes. Default: None.
        training: Whether to drop. Default: True.
        mode: ``'upscale_in_train'`` or ``'downscale_in_infer'``. Default: ``'upscale_in_train'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> x = bireme.ones([1000])
        >>> sorted(set(bireme.nn.functional.dropout(x, 0.5).tolist()))
        [0.0, 2.0]
        >>> bireme.nn.functional.dropout(bireme.to_tensor([1.0, 2.0]), training=False).tolist()
        [1.0, 2.0]
    """
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise errors.bad("dropout(mode)", "'upscale_in_train' or 'downscale_in_infer'", mode)
    value = p.item() if isinstance(p, Tensor) else p
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        kind = errors.for_number(value)
        raise errors.bad("dropout(p)", "a probability in [0, 1]", p, kind=kind)
    if axis is not None and not isinstance(axis, (int, list, tuple)):
        raise errors.bad("dropout(axis)", "an integer or a list of integers", axis, kind=errors.ArgumentTypeError)
    if not training:
        return x * (1 - value) if mode == "downscale_in_infer" else clone.public(x)  # of its own, as in Paddle
    if value == 0:
        return x
    if value == 1:
        return x * 0.0
    axes = None if axis is None else tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    if axes is not None and len(axes) > x.ndim:
        raise errors.bad("dropout(axis)", f"at most {x.ndim} axes", axis)
    for a in axes or ():
        if not 0 <= a < x.ndim:
            raise errors.bad("dropout(axis)", f"an axis in [0, {x.ndim - 1}]", a, kind=errors.OutOfRangeError)
    return dropout_of.draw([x, (dtypes.float32, float(value))], mode == "upscale_in_train", axes)
