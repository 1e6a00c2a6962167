"""Kernels that update many tensors at once: loss scaling, several parameters, averages, as in `paddle._C_ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import tensor
from bireme._C_ops.updates import adam_, momentum_, store
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor


@no_grad()
def check_finite_and_unscale_(x: Sequence[Tensor], scale: Tensor) -> tuple[list[Tensor], Tensor]:
    """Divide gradients by the loss scale in place, and check that they are finite.

    Args:
        x: Gradients.
        scale: Loss scale.

    Returns:
        The gradients, and a bool tensor of shape ``[1]``, whether one was infinite or NaN; from that one on they are
        multiplied by zero.

    Examples:
        >>> g = bireme.to_tensor([2.0, 4.0])
        >>> bireme._C_ops.check_finite_and_unscale_([g], bireme.to_tensor([2.0]))[1].tolist(), g.tolist()
        ([False], [1.0, 2.0])
    """
    found = tensor.zeros([1], "bool")
    for t in x:
        found = tensor.logical_or(found, tensor.logical_not(tensor.all(tensor.isfinite(t))))
        wide = t.astype("float32") if t.dtype.itemsize < 4 else t  # type: ignore[attr-defined]  # installed by ops
        factor = tensor.reciprocal(scale.astype(wide.dtype))  # type: ignore[attr-defined]  # installed by ops
        store(t, wide * tensor.where(found, tensor.zeros_like(factor), factor).reshape([]))  # type: ignore[attr-defined]  # installed by ops
    return list(x), found


@no_grad()
def update_loss_scaling_(x: Sequence[Tensor], found_infinite: Tensor, prev_loss_scaling: Tensor, in_good_steps: Tensor, in_bad_steps: Tensor,
                         incr_every_n_steps: int, decr_every_n_nan_or_inf: int, incr_ratio: float, decr_ratio: float,
                         stop_update: Any = False) -> tuple:  # fmt: skip
    """Update a dynamic loss scale in place; after a step with infinities the gradients become zeros.

    Args:
        x: Gradients.
        found_infinite: Bool tensor, whether one was infinite or NaN.
        prev_loss_scaling: Loss scale.
        in_good_steps: Number of good steps in a row.
        in_bad_steps: Number of bad steps in a row.
        incr_every_n_steps: Good steps after which the scale grows.
        decr_every_n_nan_or_inf: Bad steps after which it shrinks.
        incr_ratio: Factor by which it grows.
        decr_ratio: Factor by which it shrinks, to no less than 1.
        stop_update: Whether the scale stays as it is. Default: False.

    Returns:
        ``x``, the scale, and the numbers of good and bad steps.
    """
    bad = tensor.any(found_infinite)
    for t in x:
        store(t, tensor.where(bad, tensor.zeros_like(t), t))
    if not bool(stop_update):
        good_steps = tensor.where(bad, tensor.zeros_like(in_good_steps), in_good_steps + 1)
        bad_steps = tensor.where(bad, in_bad_steps + 1, tensor.zeros_like(in_bad_steps))
        grows, falls = good_steps == incr_every_n_steps, bad_steps == decr_every_n_nan_or_inf
        more, less = prev_loss_scaling * incr_ratio, tensor.clip(prev_loss_scaling * decr_ratio, min=1.0)
        store(prev_loss_scaling, tensor.where(falls, less, tensor.where(tensor.logical_and(grows, tensor.isfinite(more)), more, prev_loss_scaling)))
        store(in_good_steps, tensor.where(grows, tensor.zeros_like(good_steps), good_steps))
        store(in_bad_steps, tensor.where(falls, tensor.zeros_like(bad_steps), bad_steps))
    return list(x), prev_loss_scaling, in_good_steps, in_bad_steps


def _each(of: Any, count: int) -> list:
    """One for each parameter, or none for any, or the same for all."""
    return [None] * count if not of else list(of) * (count if len(of) == 1 else 1)


def merged_momentum_(param: Sequence[Tensor], grad: Sequence[Tensor], velocity: Sequence[Tensor], learning_rate: Sequence[Tensor],
                     master_param: Sequence[Tensor] | None, mu: float, use_nesterov: bool = False, regularization_method: Sequence[str] = (),
                     regularization_coeff: Sequence[float] = (), multi_precision: bool = False, rescale_grad: float = 1.0) -> tuple:  # fmt: skip
    """Update several parameters in place by gradient descent with momentum.

    Args:
        param: Parameters to update.
        grad: Their gradients.
        velocity: Running sums of the gradients.
        learning_rate: Learning rates, one for each parameter or one for all.
        master_param: float32 copies, used with ``multi_precision``.
        mu: Momentum coefficient.
        use_nesterov: Whether to use Nesterov's momentum. Default: False.
        regularization_method: ``'l2_decay'`` for each parameter that is regularized, or one for all. Default: ``[]``.
        regularization_coeff: Coefficients of the regularization. Default: ``[]``.
        multi_precision: Whether to compute with ``master_param``. Default: False.
        rescale_grad: Factor of the gradient. Default: 1.0.

    Returns:
        Parameters, velocities and master parameters.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.merged_momentum_([p], [g], [bireme.zeros([1])], [rate], None, 0.9)
        >>> p.tolist()
        [0.5]
    """
    n = len(param)
    columns = [_each(of, n) for of in (learning_rate, master_param, regularization_method, regularization_coeff)]
    for p, g, v, rate, master, method, coeff in zip(param, grad, velocity, *columns):
        momentum_(p, g, v, rate, master, mu, use_nesterov, method or "", coeff or 0.0, multi_precision, rescale_grad)
    return list(param), list(velocity), master_param


def merged_adam_(param: Sequence[Tensor], grad: Sequence[Tensor], learning_rate: Sequence[Tensor], moment1: Sequence[Tensor],
                 moment2: Sequence[Tensor], moment2_max: Sequence[Tensor] | None, beta1_pow: Sequence[Tensor], beta2_pow: Sequence[Tensor],
                 master_param: Sequence[Tensor] | None = None, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8,
                 multi_precision: bool = False, use_global_beta_pow: bool = False, amsgrad: bool = False) -> tuple:  # fmt: skip
    """Update several parameters in place by Adam.

    Args:
        param: Parameters to update.
        grad: Their gradients.
        learning_rate: Learning rates, one for each parameter or one for all.
        moment1: Running means of the gradients.
        moment2: Running means of their squares.
        moment2_max: Running maxima of ``moment2``, used with ``amsgrad``.
        beta1_pow: Powers of ``beta1``.
        beta2_pow: Powers of ``beta2``.
        master_param: float32 copies, used with ``multi_precision``. Default: None.
        beta1: Decay rate of the mean of the gradients. Default: 0.9.
        beta2: Decay rate of the mean of their squares. Default: 0.999.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-08.
        multi_precision: Whether to compute with ``master_param``. Default: False.
        use_global_beta_pow: Whether ``beta1_pow`` and ``beta2_pow`` are left unchanged. Default: False.
        amsgrad: Whether to divide by the largest second moment so far. Default: False.

    Returns:
        Parameters, moments, powers of the betas and master parameters.
    """
    columns = [_each(of, len(param)) for of in (learning_rate, moment2_max, master_param)]
    for p, g, m, v, b1, b2, rate, most, master in zip(param, grad, moment1, moment2, beta1_pow, beta2_pow, *columns):
        adam_(p, g, rate, m, v, most, b1, b2, master, None, beta1, beta2, epsilon, False, 1000, multi_precision, use_global_beta_pow, amsgrad)
    return list(param), list(moment1), list(moment2), moment2_max, list(beta1_pow), list(beta2_pow), master_param


_MOST = 16384  # updates after which the first sum moves to the second


@no_grad()
def average_accumulates_(param: Tensor, in_sum_1: Tensor, in_sum_2: Tensor, in_sum_3: Tensor, in_num_accumulates: Tensor,
                         in_old_num_accumulates: Tensor, in_num_updates: Tensor, average_window: float, max_average_window: int,
                         min_average_window: int) -> tuple:  # fmt: skip
    """Accumulate a parameter for its average over a window that grows with the number of updates.

    Args:
        param: Parameter.
        in_sum_1: Sum of the last updates.
        in_sum_2: Sum of the updates before those.
        in_sum_3: Sum of the last full window.
        in_num_accumulates: Number of updates in the window.
        in_old_num_accumulates: Number of updates in the last full window.
        in_num_updates: Number of updates in all.
        average_window: Size of the window relative to the number of updates.
        max_average_window: Largest size of the window.
        min_average_window: Smallest size of the window.

    Returns:
        The three sums and the three counts, updated in place.
    """
    updates, count = int(in_num_updates) + 1, int(in_num_accumulates) + 1
    first, second = in_sum_1 + param, in_sum_2
    if updates % _MOST == 0:
        first, second = tensor.zeros_like(first), second + first
    if count >= min_average_window and count >= min(max_average_window, int(updates * average_window)):
        store(in_sum_3, first + second)
        first, second = tensor.zeros_like(first), tensor.zeros_like(second)
        store(in_old_num_accumulates, tensor.full_like(in_old_num_accumulates, count))
        count = 0
    store(in_sum_1, first)
    store(in_sum_2, second)
    store(in_num_accumulates, tensor.full_like(in_num_accumulates, count))
    store(in_num_updates, tensor.full_like(in_num_updates, updates))
    return in_sum_1, in_sum_2, in_sum_3, in_num_accumulates, in_old_num_accumulates, in_num_updates
