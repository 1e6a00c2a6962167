"""Schedules that fall: by a formula of the epoch, or at given epochs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from bireme.core.base import errors
from bireme.optimizer.schedule import LRScheduler, factor, positive


class NoamDecay(LRScheduler):
    """Rises for `warmup_steps`, then falls with the square root of the step: the schedule of the first Transformer.

    >>> rate = bireme.optimizer.lr.NoamDecay(d_model=4, warmup_steps=1)
    >>> rate.step()
    >>> rate()
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
        if d_model <= 0:
            raise errors.bad("NoamDecay(d_model)", "a width above 0", d_model)
        if warmup_steps <= 0:
            raise errors.bad("NoamDecay(warmup_steps)", "a number above 0", warmup_steps)
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rising = self.warmup_steps**-1.5 * self.last_epoch
        falling = 1 if self.last_epoch == 0 else self.last_epoch**-0.5
        return self.base_lr * self.d_model**-0.5 * min(falling, rising)


class ExponentialDecay(LRScheduler):
    """`learning_rate * gamma ** epoch`.

    >>> rate = bireme.optimizer.lr.ExponentialDecay(1.0, gamma=0.5)
    >>> rate.step()
    >>> rate()
    0.5
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        if not 0.0 < gamma < 1.0:
            raise errors.bad("ExponentialDecay(gamma)", "a factor between 0 and 1", gamma, kind=errors.Unfit)
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


class MultiStepDecay(LRScheduler):
    """Multiplied by `gamma` at each epoch in `milestones`.

    >>> rate = bireme.optimizer.lr.MultiStepDecay(1.0, milestones=[1, 3], gamma=0.5)
    >>> rate.step(3)
    >>> rate()
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
            raise errors.bad("MultiStepDecay(milestones)", "a list of epochs", milestones, kind=TypeError)
        if any(a >= b for a, b in itertools.pairwise(milestones)):
            raise errors.bad("MultiStepDecay(milestones)", "epochs that increase", milestones)
        factor("MultiStepDecay(gamma)", gamma)
        self.milestones, self.gamma = milestones, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** sum(self.last_epoch >= m for m in self.milestones)


class StepDecay(LRScheduler):
    """Multiplied by `gamma` every `step_size` epochs.

    >>> rate = bireme.optimizer.lr.StepDecay(1.0, step_size=2, gamma=0.5)
    >>> rate.step(5)
    >>> rate()
    0.25
    """

    def __init__(self, learning_rate: float, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False):
        positive("StepDecay(step_size)", step_size)
        factor("StepDecay(gamma)", gamma)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class LambdaDecay(LRScheduler):
    """`learning_rate * lr_lambda(epoch)`.

    >>> rate = bireme.optimizer.lr.LambdaDecay(2.0, lambda epoch: 1 / (1 + epoch))
    >>> rate.step()
    >>> rate()
    1.0
    """

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False):
        if not callable(lr_lambda):
            raise errors.bad("LambdaDecay(lr_lambda)", "a function of the epoch", lr_lambda, kind=TypeError)
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class PiecewiseDecay(LRScheduler):
    """One of `values` in each stretch between `boundaries`.

    >>> rate = bireme.optimizer.lr.PiecewiseDecay(boundaries=[2, 4], values=[1.0, 0.5, 0.25])
    >>> rate.step(3)
    >>> rate()
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
        return next((value for end, value in zip(self.boundaries, self.values) if self.last_epoch < end), self.values[-1])


class NaturalExpDecay(LRScheduler):
    """`learning_rate * exp(-gamma * epoch)`.

    >>> rate = bireme.optimizer.lr.NaturalExpDecay(1.0, gamma=0.5)
    >>> rate.step(2)
    >>> round(rate(), 4)
    0.3679
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        if not gamma > 0.0:
            raise errors.bad("NaturalExpDecay(gamma)", "a number above 0", gamma, kind=errors.Unfit)
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """`learning_rate / (1 + gamma * epoch)`.

    >>> rate = bireme.optimizer.lr.InverseTimeDecay(1.0, gamma=0.5)
    >>> rate.step(2)
    >>> rate()
    0.5
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """Falls to `end_lr` in `decay_steps` along a power of what is left; with `cycle`, the span is lengthened when it is over.

    >>> rate = bireme.optimizer.lr.PolynomialDecay(1.0, decay_steps=4, end_lr=0.0, power=2.0)
    >>> rate.step(2)
    >>> rate()
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
            raise errors.bad("PolynomialDecay(decay_steps)", "an int above 0", decay_steps, kind=errors.Unfit)
        if not power > 0.0:
            raise errors.bad("PolynomialDecay(power)", "a number above 0", power, kind=errors.Unfit)
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
    """Multiplied by `lr_lambda(epoch)` at each epoch.

    >>> rate = bireme.optimizer.lr.MultiplicativeDecay(1.0, lambda epoch: 0.5)
    >>> rate.step(3)
    >>> rate()
    0.125
    """

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False):
        if not callable(lr_lambda):
            raise errors.bad("MultiplicativeDecay(lr_lambda)", "a function of the epoch", lr_lambda, kind=TypeError)
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate = rate * self.lr_lambda(epoch)
        return rate
