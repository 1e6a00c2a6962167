"""The functions of older programs that return a schedule: each makes an object of the class that replaced it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.optimizer.cycles import CosineAnnealingDecay, LinearWarmup
from bireme.optimizer.decays import (
    ExponentialDecay,
    InverseTimeDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
)


def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = 1.0) -> NoamDecay:
    """Return a ``NoamDecay`` schedule.

    Args:
        d_model: Width of the model.
        warmup_steps: Number of steps in which the learning rate rises.
        learning_rate: Factor on the learning rate. Default: 1.0.

    Returns:
        The ``NoamDecay`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.noam_decay(4, 1)
        >>> schedule.step()
        >>> schedule()
        0.5
    """
    return NoamDecay(d_model, warmup_steps, learning_rate=learning_rate)


def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> ExponentialDecay:
    """Return an ``ExponentialDecay`` schedule.

    Args:
        learning_rate: The initial learning rate.
        decay_steps: Has no effect: each call of ``step()`` multiplies once.
        decay_rate: Factor on the learning rate at each step, between 0 and 1.
        staircase: Has no effect.

    Returns:
        The ``ExponentialDecay`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.exponential_decay(1.0, 10, 0.5)
        >>> schedule.step()
        >>> schedule()
        0.5
    """
    return ExponentialDecay(learning_rate, decay_rate)


def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> NaturalExpDecay:
    """Return a ``NaturalExpDecay`` schedule.

    Args:
        learning_rate: The initial learning rate.
        decay_steps: Has no effect: each call of ``step()`` counts.
        decay_rate: Rate of the decay, above 0.
        staircase: Has no effect.

    Returns:
        The ``NaturalExpDecay`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.natural_exp_decay(1.0, 10, 0.5)
        >>> schedule.step(2)
        >>> round(schedule(), 4)
        0.3679
    """
    return NaturalExpDecay(learning_rate, decay_rate)


def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> InverseTimeDecay:
    """Return an ``InverseTimeDecay`` schedule.

    Args:
        learning_rate: The initial learning rate.
        decay_steps: Has no effect: each call of ``step()`` counts.
        decay_rate: Factor on the step count in the denominator.
        staircase: Has no effect.

    Returns:
        The ``InverseTimeDecay`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.inverse_time_decay(1.0, 10, 1.0)
        >>> schedule.step()
        >>> schedule()
        0.5
    """
    return InverseTimeDecay(learning_rate, decay_rate)


def polynomial_decay(
    learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False
) -> PolynomialDecay:
    """Return a ``PolynomialDecay`` schedule.

    Args:
        learning_rate: The initial learning rate.
        decay_steps: Number of steps until ``end_learning_rate`` is reached.
        end_learning_rate: The final learning rate. Default: 0.0001.
        power: Exponent of the polynomial. Default: 1.0.
        cycle: Go on decaying after ``decay_steps``, over a longer span. Default: False.

    Returns:
        The ``PolynomialDecay`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.polynomial_decay(1.0, 2, 0.0)
        >>> schedule.step()
        >>> schedule()
        0.5
    """
    return PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power, cycle)


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> PiecewiseDecay:
    """Return a ``PiecewiseDecay`` schedule.

    Args:
        boundaries: Steps at which the learning rate changes.
        values: Learning rates, one more than there are boundaries.

    Returns:
        The ``PiecewiseDecay`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.piecewise_decay([1], [0.5, 0.25])
        >>> schedule.step()
        >>> schedule()
        0.25
    """
    return PiecewiseDecay(boundaries, values)


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> CosineAnnealingDecay:
    """Return a ``CosineAnnealingDecay`` schedule.

    Args:
        learning_rate: The initial learning rate, a float.
        step_each_epoch: Has no effect: ``step()`` is called once per epoch.
        epochs: Number of epochs until the learning rate is 0.

    Returns:
        The ``CosineAnnealingDecay`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.cosine_decay(0.5, 10, 4)
        >>> schedule.step(2)
        >>> round(schedule(), 4)
        0.25
    """
    if not isinstance(learning_rate, float):
        raise errors.bad("cosine_decay(learning_rate)", "a float", learning_rate, kind=errors.ArgumentTypeError)
    return CosineAnnealingDecay(learning_rate, epochs)


def linear_lr_warmup(learning_rate: Any, warmup_steps: int, start_lr: float, end_lr: float) -> LinearWarmup:
    """Return a ``LinearWarmup`` schedule.

    Args:
        learning_rate: Learning rate after the warm-up, a number or an ``LRScheduler``.
        warmup_steps: Number of warm-up steps.
        start_lr: Learning rate at the start of the warm-up.
        end_lr: Learning rate at the end of the warm-up.

    Returns:
        The ``LinearWarmup`` scheduler.

    Examples:
        >>> schedule = bireme.optimizer.lr.linear_lr_warmup(0.5, 2, 0.0, 0.5)
        >>> schedule.step()
        >>> schedule()
        0.25
    """
    return LinearWarmup(learning_rate, warmup_steps, start_lr, end_lr)


guard_functions(globals())
