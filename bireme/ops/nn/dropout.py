"""Dropout of whole channels, and the kind that keeps mean and variance of self-normalising networks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Key, Tensor, composite, op
from bireme.ops.random.dropout import dropout
from bireme.ops.random.generators import chance

LEAST = -1.7580993408473766  # where SELU ends: minus the product of its two constants


def _channels(name: str, x: Any, count: int, data_format: Any) -> list[int]:
    """Axes along which elements are dropped one by one: those of batch and channels."""
    first, last = {4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[count]
    if x.ndim != count:
        raise errors.bad(f"{name}(x)", f"a {count}-D tensor", described=f"shape {x.shape}", kind=errors.ShapeError)
    if data_format not in (first, last):
        raise errors.bad(f"{name}(data_format)", f"{first!r} or {last!r}", data_format)
    return [0, 1] if data_format == first else [0, count - 1]


@composite(name_arg=False)
def dropout1d(input: Tensor, p: Attr[float] = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of sequences to zero with probability ``p`` in training.

    The other channels are multiplied by ``1 / (1 - p)``, which keeps the mean.

    Args:
        input: Tensor of shape ``[C, L]`` or ``[N, C, L]``.
        p: Probability in ``[0, 1]`` of dropping a channel; a number or a tensor of one element. Default: 0.5.
        training: Whether to drop at all; ``False`` returns the input. Default: True.
        inplace: Has no effect but a warning: the result is another tensor. Default: False.

    Returns:
        Tensor of the shape and dtype of ``input``.

    Examples:
        >>> bireme.nn.functional.dropout1d(bireme.to_tensor([[1.0, 2.0]]), training=False).tolist()
        [[1.0, 2.0]]
    """
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise errors.bad("dropout1d(p)", "a probability in [0, 1]", p)
    if input.ndim not in (2, 3):
        raise errors.bad("dropout1d(input)", "a 2-D or 3-D tensor", described=f"shape {input.shape}", kind=RuntimeError)
    if inplace:
        errors.warn("dropout1d(inplace): has no effect, the result is another tensor")
    return dropout(input, p, list(range(input.ndim - 1)), training)


@composite()
def dropout2d(x: Tensor, p: Attr[float] = 0.5, training: bool = True, data_format: str = "NCHW") -> Tensor:
    """Set whole channels of images to zero with probability ``p`` in training.

    The other channels are multiplied by ``1 / (1 - p)``, which keeps the mean.

    Args:
        x: 4-D tensor.
        p: Probability in ``[0, 1]`` of dropping a channel; a number or a tensor of one element. Default: 0.5.
        training: Whether to drop at all; ``False`` returns the input. Default: True.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.dropout2d(bireme.ones([1, 1, 1, 2]), 1.0).tolist()
        [[[[0.0, 0.0]]]]
    """
    return dropout(x, p, _channels("dropout2d", x, 4, data_format), training)


@composite()
def dropout3d(x: Tensor, p: Attr[float] = 0.5, training: bool = True, data_format: str = "NCDHW") -> Tensor:
    """Set whole channels of volumes to zero with probability ``p`` in training.

    The other channels are multiplied by ``1 / (1 - p)``, which keeps the mean.

    Args:
        x: 5-D tensor.
        p: Probability in ``[0, 1]`` of dropping a channel; a number or a tensor of one element. Default: 0.5.
        training: Whether to drop at all; ``False`` returns the input. Default: True.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.dropout3d(bireme.ones([1, 1, 1, 1, 2]), 1.0).tolist()
        [[[[[0.0, 0.0]]]]]
    """
    return dropout(x, p, _channels("dropout3d", x, 5, data_format), training)


def _kept(sig, p, whole, key):
    """Which elements stay, and by how much they are scaled so that the variance stays."""
    shape = sig.shape[:2] + (1,) * (len(sig.shape) - 2) if whole else sig.shape
    p = p.astype(jnp.float32)
    return ~chance(key, shape, p), 1 / jnp.sqrt((1 - p) * (1 + p * (LEAST * LEAST)))


@op(internal="alpha_dropout", dtypes=FLOAT, numpy=True)
def alpha_dropout_of(x: Tensor, p: Tensor | float, whole: bool, key: Key = None) -> Tensor:
    """Elements or whole channels set to the least value of SELU; use `alpha_dropout`."""
    kind = jnp.float32 if x.dtype.itemsize < 4 else x.dtype
    keep, scale = _kept(x, p, whole, key)
    shift = -scale * LEAST * p.astype(jnp.float32)
    wide = jnp.where(keep, x.astype(kind), jnp.asarray(LEAST, kind))
    return (wide * scale.astype(kind) + shift.astype(kind)).astype(x.dtype)


alpha_dropout_of.infer(lambda x: x)


@alpha_dropout_of.grad(numpy=True)
def _(g, p, whole, key):
    # the mask comes again from its keys: nothing is kept for it
    keep, scale = _kept(g, p, whole, key)
    return jnp.where(keep, g * scale.astype(g.dtype), jnp.zeros((), g.dtype)), None, None, None


def _alpha(name: str, x: Any, p: Any, training: bool, whole: bool) -> Tensor:
    if isinstance(p, bool) or not isinstance(p, (int, float)):
        raise errors.bad(f"{name}(p)", "a number", p, kind=errors.ArgumentTypeError)
    if not 0 <= p <= 1:
        raise errors.bad(f"{name}(p)", "a probability in [0, 1]", p)
    if not training or p == 0:
        return x
    return x * 0.0 if p == 1 else alpha_dropout_of.call({"x": x, "p": (dtypes.float32, float(p)), "whole": whole})


@composite()
def alpha_dropout(x: Tensor, p: Attr[float] = 0.5, training: bool = True) -> Tensor:
    """Dropout for networks with SELU: dropped elements take the least value of SELU, and all are scaled and shifted.

    Mean 0 and variance 1 of the input are kept.

    Args:
        x: Input tensor of a floating-point dtype.
        p: Probability in ``[0, 1]`` of dropping an element; 1 gives zeros. Default: 0.5.
        training: Whether to drop at all; ``False`` returns the input. Default: True.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.alpha_dropout(bireme.to_tensor([1.0, 2.0]), training=False).tolist()
        [1.0, 2.0]
    """
    return _alpha("alpha_dropout", x, p, training, False)


@composite()
def feature_alpha_dropout(x: Tensor, p: Attr[float] = 0.5, training: bool = True) -> Tensor:
    """``alpha_dropout`` of whole channels, which are axis 1.

    Args:
        x: Input tensor of a floating-point dtype, of at least 2 dimensions.
        p: Probability in ``[0, 1]`` of dropping a channel; 1 gives zeros. Default: 0.5.
        training: Whether to drop at all; ``False`` returns the input. Default: True.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.feature_alpha_dropout(bireme.to_tensor([[1.0, 2.0]]), training=False).tolist()
        [[1.0, 2.0]]
    """
    if x.ndim < 2 and training and p != 1:
        raise errors.bad(
            "feature_alpha_dropout(x)", "at least 2 dimensions", described=f"shape {x.shape}", kind=errors.ShapeError
        )
    return _alpha("feature_alpha_dropout", x, p, training, True)
