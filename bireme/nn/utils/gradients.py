"""Gradient clipping inplace, between backward and step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import clip, clip_to_norm, to_tensor

_ORDERS = (math.inf, 0, 1, 2)


@no_grad()
def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float | Tensor,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients inplace by one factor, so that their norm together is at most ``max_norm``.

    Args:
        parameters: A parameter or an iterable of them; those without a gradient are skipped.
        max_norm: Greatest norm of all gradients together, non-negative.
        norm_type: Order of the norm: 0, 1, 2 or infinity. Default: 2.0.
        error_if_nonfinite: Raise a ``RuntimeError`` if the norm is infinite or NaN. Default: False.

    Returns:
        Tensor with the norm that the gradients had.

    Examples:
        >>> w = bireme.to_tensor([1.0, 1.0], stop_gradient=False)
        >>> (w * bireme.to_tensor([6.0, 8.0])).sum().backward()
        >>> bireme.nn.utils.clip_grad_norm_(w, 5.0).item()
        10.0
        >>> [round(x, 4) for x in w.grad.tolist()]
        [3.0, 4.0]
    """
    held = _held("clip_grad_norm_", parameters)
    errors.check_number("clip_grad_norm_(max_norm)", max_norm)
    if norm_type not in _ORDERS:
        raise errors.bad("clip_grad_norm_(norm_type)", "infinity, 0, 1 or 2", norm_type)
    limit = max_norm.reshape([]) if isinstance(max_norm, Tensor) else _limit("clip_grad_norm_(max_norm)", max_norm)
    if not held:
        return to_tensor(0.0)
    wide = dtypes.float64 if any(g.dtype is dtypes.float64 for g in held) else dtypes.float32
    *new, total = clip_to_norm(held, limit, float(norm_type), wide)
    # read only if asked for: the step stays one program otherwise
    if error_if_nonfinite and not math.isfinite(total.item()):
        hint = "error_if_nonfinite=False scales them anyway"
        raise errors.bad(
            "clip_grad_norm_(parameters)", "gradients with a finite norm", total.item(), hint=hint, kind=RuntimeError
        )
    for g, clipped in zip(held, new):
        g._assign_value(clipped)
    return total


@no_grad()
def clip_grad_value_(parameters: Iterable[Tensor] | Tensor, clip_value: float) -> None:
    """Clip each element of all gradients inplace to ``[-clip_value, clip_value]``.

    Args:
        parameters: A parameter or an iterable of them; those without a gradient are skipped.
        clip_value: The limit, non-negative.

    Examples:
        >>> w = bireme.to_tensor([1.0, 1.0], stop_gradient=False)
        >>> (w * bireme.to_tensor([6.0, -0.5])).sum().backward()
        >>> bireme.nn.utils.clip_grad_value_(w, 1.0)
        >>> w.grad.tolist()
        [1.0, -0.5]
    """
    limit = _limit("clip_grad_value_(clip_value)", clip_value)
    for g in _held("clip_grad_value_", parameters):
        g._assign_value(clip(g, -limit, limit))


def _limit(where: str, given: Any) -> float:
    try:
        limit = float(given)
    except (TypeError, ValueError):
        limit = -1.0
    if not limit >= 0:
        raise errors.bad(where, "a non-negative number", given, kind=errors.for_number(given))
    return limit


def _held(where: str, parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    if not isinstance(parameters, (Tensor, Iterable)):
        raise errors.bad(
            f"{where}(parameters)", "a parameter or a list of them", parameters, kind=errors.ArgumentTypeError
        )
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for p in given:
        if not isinstance(p, Tensor):
            raise errors.bad(f"{where}(parameters)", "parameters", p, kind=errors.NotATensorError)
    return [p.grad for p in given if p.grad is not None]


guard_functions(globals())
