"""Schedules by the names of functions, which older programs call: each gives the schedule of the class that came after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.optimizer.cycles import CosineAnnealingDecay, LinearWarmup
from bireme.optimizer.decays import ExponentialDecay, InverseTimeDecay, NaturalExpDecay, NoamDecay, PiecewiseDecay, PolynomialDecay


def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = 1.0) -> NoamDecay:
    """`NoamDecay`.

    >>> bireme.optimizer.lr.noam_decay(4, 2)()
    0.0
    """
    return NoamDecay(d_model, warmup_steps, learning_rate=learning_rate)


def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> ExponentialDecay:
    """`ExponentialDecay` by `decay_rate`; how many steps are one is the caller's affair now: who calls `step`, and when.

    >>> schedule = bireme.optimizer.lr.exponential_decay(1.0, 10, 0.5); schedule.step(); schedule()
    0.5
    """
    return ExponentialDecay(learning_rate, decay_rate)


def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> NaturalExpDecay:
    """`NaturalExpDecay` by `decay_rate`.

    >>> bireme.optimizer.lr.natural_exp_decay(1.0, 10, 0.5)()
    1.0
    """
    return NaturalExpDecay(learning_rate, decay_rate)


def inverse_time_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> InverseTimeDecay:
    """`InverseTimeDecay` by `decay_rate`.

    >>> schedule = bireme.optimizer.lr.inverse_time_decay(1.0, 10, 1.0); schedule.step(); schedule()
    0.5
    """
    return InverseTimeDecay(learning_rate, decay_rate)


def polynomial_decay(
    learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False
) -> PolynomialDecay:
    """`PolynomialDecay`.

    >>> schedule = bireme.optimizer.lr.polynomial_decay(1.0, 2, 0.0); schedule.step(); schedule()
    0.5
    """
    return PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power, cycle)


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> PiecewiseDecay:
    """`PiecewiseDecay`.

    >>> schedule = bireme.optimizer.lr.piecewise_decay([1], [0.5, 0.25]); schedule.step(); schedule()
    0.25
    """
    return PiecewiseDecay(boundaries, values)


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> CosineAnnealingDecay:
    """`CosineAnnealingDecay` over `epochs`.

    >>> bireme.optimizer.lr.cosine_decay(0.5, 10, 4)()
    0.5
    """
    if not isinstance(learning_rate, float):
        raise errors.bad("cosine_decay(learning_rate)", "a float", learning_rate, kind=TypeError)
    return CosineAnnealingDecay(learning_rate, epochs)


def linear_lr_warmup(learning_rate: Any, warmup_steps: int, start_lr: float, end_lr: float) -> LinearWarmup:
    """`LinearWarmup`.

    >>> schedule = bireme.optimizer.lr.linear_lr_warmup(0.5, 2, 0.0, 0.5); schedule.step(); schedule()
    0.25
    """
    return LinearWarmup(learning_rate, warmup_steps, start_lr, end_lr)
