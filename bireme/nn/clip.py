"""Gradient clipping by an optimizer, between backward and update."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import clip, clip_by_global_norm, sqrt

Pairs = list[tuple[Any, Tensor | None]]


class ClipGradBase(Guarded):
    """Base of gradient clipping: called with pairs (parameter, gradient), it returns them with clipped gradients.

    Pairs without a gradient are left out, and parameters with ``need_clip=False`` are not clipped. A subclass overrides
    ``_dygraph_clip``, which takes and returns the pairs.
    """

    def __call__(self, params_grads: Pairs) -> Pairs:
        return self._dygraph_clip(params_grads)

    def _dygraph_clip(self, params_grads: Pairs) -> Pairs:
        pairs = [(p, g) for p, g in params_grads if g is not None]
        chosen = [i for i, (p, _) in enumerate(pairs) if getattr(p, "need_clip", True)]
        if not chosen:
            return pairs
        with no_grad():
            clipped = self._clip([pairs[i][1] for i in chosen])
        for i, g in zip(chosen, clipped):
            pairs[i] = (pairs[i][0], g)
        return pairs

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        raise errors.missing_method(self, "_clip")


class ClipGradByValue(ClipGradBase):
    """Clips each element of the gradients to ``[min, max]``.

    Args:
        max: Upper limit; above 0 if ``min`` is not given.
        min: Lower limit. Default: None, ``-max``.

    Examples:
        >>> pair = (bireme.ones([2]), bireme.to_tensor([3.0, -0.5]))
        >>> bireme.nn.ClipGradByValue(1.0)([pair])[0][1].tolist()
        [1.0, -0.5]
    """

    def __init__(self, max: float, min: float | None = None):
        if min is None and max <= 0:
            raise errors.bad(
                "ClipGradByValue(max)", "a positive number if min is not given", max, kind=errors.for_number(max)
            )
        self.max, self.min = float(max), float(-max if min is None else min)

    def __str__(self) -> str:
        return f"Clip Gradient By Value, min = {self.min:f}, max={self.max:f}"

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        return [clip(g, self.min, self.max) for g in grads]


class ClipGradByNorm(ClipGradBase):
    """Scales each gradient whose L2 norm exceeds ``clip_norm`` down to that norm.

    Args:
        clip_norm: Greatest norm of each gradient, non-negative.

    Examples:
        >>> pair = (bireme.ones([2]), bireme.to_tensor([6.0, 8.0]))
        >>> bireme.nn.ClipGradByNorm(5.0)([pair])[0][1].tolist()
        [3.0, 4.0]
    """

    def __init__(self, clip_norm: float):
        if not isinstance(clip_norm, (int, float, np.number, Tensor)) and not (
            isinstance(clip_norm, np.ndarray) and clip_norm.size == 1
        ):
            raise errors.bad(f"{type(self).__name__}(clip_norm)", "a number", clip_norm, kind=errors.ArgumentTypeError)
        self.clip_norm = float(clip_norm.item() if isinstance(clip_norm, np.ndarray) else clip_norm)
        if not self.clip_norm >= 0:
            raise errors.bad(f"{type(self).__name__}(clip_norm)", "a non-negative number", clip_norm)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        return [_scaled(g, self._factor(_square_sum(g, _wide([g])))) for g in grads]

    def _factor(self, square_sum: Tensor) -> Tensor:
        # divided by the larger of norm and limit: never by zero, and exactly 1 where nothing is clipped
        return self.clip_norm / clip(sqrt(square_sum), min=self.clip_norm)


class ClipGradByGlobalNorm(ClipGradByNorm):
    """Scales all gradients by one factor, so that their L2 norm together is at most ``clip_norm``.

    The factor is ``clip_norm / max(norm, clip_norm)``. With parameter groups each group has its own norm, and after the
    step ``grad`` holds the scaled gradient, both as in Paddle.

    Args:
        clip_norm: Greatest norm of all gradients together, non-negative.
        group_name: Kept as an attribute; it has no effect. Default: ``'default_group'``.
        auto_skip_clip: Kept as an attribute; it has no effect. Default: False.

    Examples:
        >>> pairs = [(bireme.ones([1]), bireme.to_tensor([6.0])), (bireme.ones([1]), bireme.to_tensor([8.0]))]
        >>> [g.item() for _, g in bireme.nn.ClipGradByGlobalNorm(5.0)(pairs)]
        [3.0, 4.0]
    """

    def __init__(self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False):
        super().__init__(clip_norm)
        self.group_name, self.auto_skip_clip = group_name, auto_skip_clip

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        clipped = clip_by_global_norm(grads, self.clip_norm, _wide(grads))
        for g, new in zip(grads, clipped):
            g._assign_value(new)
        return clipped


# older names
GradientClipBase, GradientClipByValue = ClipGradBase, ClipGradByValue
GradientClipByNorm, GradientClipByGlobalNorm = ClipGradByNorm, ClipGradByGlobalNorm


def clip_by_norm(x: Tensor, max_norm: float, name: str | None = None) -> Tensor:
    """Scale a tensor down to an L2 norm if its own is larger.

    Args:
        x: Floating tensor.
        max_norm: Greatest norm, above 0.
        name: Not used; kept for Paddle's signature.

    Returns:
        The scaled tensor.

    Examples:
        >>> bireme.nn.clip.clip_by_norm(bireme.to_tensor([6.0, 8.0]), 5.0).tolist()
        [3.0, 4.0]
    """
    if not isinstance(x, Tensor):
        raise errors.bad("clip_by_norm(x)", "a Tensor", x, kind=errors.NotATensorError)
    if not x.dtype.is_floating:
        raise errors.bad("clip_by_norm(x)", "a floating-point dtype", described=x.dtype.name, kind=errors.DtypeError)
    if max_norm <= 0:
        raise errors.bad("clip_by_norm(max_norm)", "a positive number", max_norm, kind=errors.for_number(max_norm))
    return ClipGradByNorm(max_norm)._clip([x])[0]


def _squared_l2_norm(x: Tensor) -> Tensor:
    return _square_sum(x, _wide([x])).reshape([1]).astype(x.dtype)


def _wide(grads: list[Tensor]) -> Any:
    # half precision overflows at 65504: its squares are summed in float32
    return dtypes.float64 if any(g.dtype is dtypes.float64 for g in grads) else dtypes.float32


def _square_sum(g: Tensor, dtype: Any) -> Tensor:
    wide = g if g.dtype is dtype else g.astype(dtype)
    return (wide * wide).sum()


def _scaled(g: Tensor, factor: Tensor) -> Tensor:
    return g * (factor if factor.dtype is g.dtype else factor.astype(g.dtype))
