"""Schedules that fall: by a formula of the epoch, or at given epochs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from bireme.core.base import errors
from bireme.optimizer.schedule import LRScheduler, factor, positive


class NoamDecay(LRScheduler):
    """The schedule of the original Transformer: a linear rise, then a decay with the root of the step.

    ``learning_rate * d_model ** -0.5 * min(epoch ** -0.5, epoch * warmup_steps ** -1.5)``, made to be stepped per
    batch.

    Args:
        d_model: Width of the model, above 0.
        warmup_steps: Number of steps in which the learning rate rises.
        learning_rate: Factor on the formula. Default: 1.0.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.NoamDecay(d_model=4, warmup_steps=1)
        >>> scheduler.step()
        >>> scheduler()
        0.5
    """

    def __init__(
        self,
        d_model: int,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        errors.check_number("NoamDecay(d_model)", d_model)
        errors.check_number("NoamDecay(warmup_steps)", warmup_steps)
        if d_model <= 0:
            raise errors.bad("NoamDecay(d_model)", "a positive number", d_model, kind=errors.for_number(d_model))
        if warmup_steps <= 0:
            raise errors.bad(
                "NoamDecay(warmup_steps)", "a positive number", warmup_steps, kind=errors.for_number(warmup_steps)
            )
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rising = self.warmup_steps**-1.5 * self.last_epoch
        falling = 1 if self.last_epoch == 0 else self.last_epoch**-0.5
        return self.base_lr * self.d_model**-0.5 * min(falling, rising)


class ExponentialDecay(LRScheduler):
    """Exponential decay: ``learning_rate * gamma ** epoch``.

    Args:
        learning_rate: The initial learning rate, a float.
        gamma: Factor per epoch, between 0 and 1.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.ExponentialDecay(1.0, gamma=0.5)
        >>> scheduler.step()
        >>> scheduler()
        0.5
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        errors.check_number("ExponentialDecay(gamma)", gamma)
        if not 0.0 < gamma < 1.0:
            raise errors.bad("ExponentialDecay(gamma)", "a factor in (0, 1)", gamma, kind=errors.ArgumentError)
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


class MultiStepDecay(LRScheduler):
    """Multiplies the learning rate by ``gamma`` at each of the given epochs.

    Args:
        learning_rate: The initial learning rate, a float.
        milestones: Epochs at which the learning rate is multiplied, in increasing order.
        gamma: The factor, below 1. Default: 0.1.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.MultiStepDecay(1.0, milestones=[1, 3], gamma=0.5)
        >>> scheduler.step(3)
        >>> scheduler()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        milestones: list[int] | tuple[int, ...],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if not isinstance(milestones, (list, tuple)):
            raise errors.bad(
                "MultiStepDecay(milestones)", "a list of epochs", milestones, kind=errors.ArgumentTypeError
            )
        if any(a >= b for a, b in itertools.pairwise(milestones)):
            raise errors.bad("MultiStepDecay(milestones)", "increasing epochs", milestones)
        factor("MultiStepDecay(gamma)", gamma)
        self.milestones, self.gamma = milestones, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** sum(self.last_epoch >= m for m in self.milestones)


class StepDecay(LRScheduler):
    """Multiplies the learning rate by ``gamma`` every ``step_size`` epochs.

    Args:
        learning_rate: The initial learning rate, a float.
        step_size: Number of epochs between two changes.
        gamma: The factor, below 1. Default: 0.1.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.StepDecay(1.0, step_size=2, gamma=0.5)
        >>> scheduler.step(5)
        >>> scheduler()
        0.25
    """

    def __init__(
        self, learning_rate: float, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ):
        positive("StepDecay(step_size)", step_size)
        factor("StepDecay(gamma)", gamma)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class LambdaDecay(LRScheduler):
    """The learning rate times a function of the epoch: ``learning_rate * lr_lambda(epoch)``.

    Args:
        learning_rate: The initial learning rate, a float.
        lr_lambda: Function that takes the epoch and returns the factor.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.LambdaDecay(2.0, lambda epoch: 1 / (1 + epoch))
        >>> scheduler.step()
        >>> scheduler()
        1.0
    """

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ):
        if not callable(lr_lambda):
            raise errors.bad(
                "LambdaDecay(lr_lambda)", "a function of the epoch", lr_lambda, kind=errors.ArgumentTypeError
            )
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * _factor_at(self, self.last_epoch)


class PiecewiseDecay(LRScheduler):
    """A constant learning rate in each interval between the boundaries.

    Args:
        boundaries: Epochs at which the next value begins.
        values: Learning rates, one more than there are boundaries.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.PiecewiseDecay(boundaries=[2, 4], values=[1.0, 0.5, 0.25])
        >>> scheduler.step(3)
        >>> scheduler()
        0.5
    """

    def __init__(self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False):
        if len(boundaries) == 0:
            raise errors.bad("PiecewiseDecay(boundaries)", "at least one epoch", boundaries)
        if len(values) <= len(boundaries):
            raise errors.bad("PiecewiseDecay(values)", f"one more than the {len(boundaries)} boundaries", values)
        self.boundaries, self.values = boundaries, values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        return next(
            (value for end, value in zip(self.boundaries, self.values) if self.last_epoch < end), self.values[-1]
        )


class NaturalExpDecay(LRScheduler):
    """Natural exponential decay: ``learning_rate * exp(-gamma * epoch)``.

    Args:
        learning_rate: The initial learning rate, a float.
        gamma: Rate of the decay, above 0.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.NaturalExpDecay(1.0, gamma=0.5)
        >>> scheduler.step(2)
        >>> round(scheduler(), 4)
        0.3679
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        errors.check_number("NaturalExpDecay(gamma)", gamma)
        if not gamma > 0.0:
            raise errors.bad("NaturalExpDecay(gamma)", "a positive number", gamma, kind=errors.for_number(gamma))
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """Inverse time decay: ``learning_rate / (1 + gamma * epoch)``.

    Args:
        learning_rate: The initial learning rate, a float.
        gamma: Factor on the epoch in the denominator.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.InverseTimeDecay(1.0, gamma=0.5)
        >>> scheduler.step(2)
        >>> scheduler()
        0.5
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        errors.check_number("InverseTimeDecay(gamma)", gamma)
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """Polynomial decay: ``(learning_rate - end_lr) * (1 - epoch / decay_steps) ** power + end_lr``.

    Args:
        learning_rate: The initial learning rate, a float.
        decay_steps: Number of epochs until ``end_lr`` is reached.
        end_lr: The final learning rate. Default: 0.0001.
        power: Exponent of the polynomial, above 0. Default: 1.0.
        cycle: Replace ``decay_steps`` by its next multiple whenever it is passed, instead of staying at ``end_lr``.
            Default: False.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.PolynomialDecay(1.0, decay_steps=4, end_lr=0.0, power=2.0)
        >>> scheduler.step(2)
        >>> scheduler()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if isinstance(decay_steps, bool) or not isinstance(decay_steps, int) or decay_steps <= 0:
            raise errors.bad(
                "PolynomialDecay(decay_steps)", "a positive integer", decay_steps, kind=errors.for_integer(decay_steps)
            )
        errors.check_number("PolynomialDecay(end_lr)", end_lr)
        errors.check_number("PolynomialDecay(power)", power)
        if not power > 0.0:
            raise errors.bad("PolynomialDecay(power)", "a positive number", power, kind=errors.for_number(power))
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        span, epoch = self.decay_steps, self.last_epoch
        if self.cycle:
            span *= max(math.ceil(epoch / span), 1)
        else:
            epoch = min(epoch, span)
        return (self.base_lr - self.end_lr) * (1 - epoch / span) ** self.power + self.end_lr


class MultiplicativeDecay(LRScheduler):
    """Multiplies the learning rate by ``lr_lambda(epoch)`` at each epoch from 1 on.

    Args:
        learning_rate: The initial learning rate, a float.
        lr_lambda: Function that takes the epoch and returns the factor.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.MultiplicativeDecay(1.0, lambda epoch: 0.5)
        >>> scheduler.step(3)
        >>> scheduler()
        0.125
    """

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ):
        if not callable(lr_lambda):
            raise errors.bad(
                "MultiplicativeDecay(lr_lambda)", "a function of the epoch", lr_lambda, kind=errors.ArgumentTypeError
            )
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate = rate * _factor_at(self, epoch)
        return rate


def _factor_at(schedule: LambdaDecay | MultiplicativeDecay, epoch: int) -> float:
    """What the user's function says for an epoch."""
    found = schedule.lr_lambda(epoch)
    errors.check_number(f"{type(schedule).__name__}(lr_lambda)", found)
    return found
