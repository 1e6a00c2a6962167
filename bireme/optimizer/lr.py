"""Learning rate schedules: plain Python, stepped by the user, read by the optimizer at each step."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

from bireme.core import errors

__all__ = [
    "LRScheduler", "NoamDecay", "LinearWarmup", "ExponentialDecay", "MultiStepDecay", "StepDecay", "LambdaDecay",
    "CosineAnnealingDecay",
]  # fmt: skip


class LRScheduler:
    """Base of schedules. A subclass writes `get_lr`, which makes a rate of `base_lr` and `last_epoch`.

    >>> class Halved(bireme.optimizer.lr.LRScheduler):
    ...     def get_lr(self):
    ...         return self.base_lr / 2**self.last_epoch
    >>> rate = Halved(1.0)
    >>> rate.step()
    >>> rate()
    0.5
    """

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False):
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise errors.bad(f"{type(self).__name__}(learning_rate)", "a number", learning_rate, kind=TypeError)
        if learning_rate < 0:
            raise errors.bad(f"{type(self).__name__}(learning_rate)", "a rate of 0 or more", learning_rate)
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        """The rate now."""
        return self.last_lr

    def get_lr(self) -> float:
        """The rate at `last_epoch`; written by each schedule."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr: not written")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to `epoch`, and set the rate."""
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = epoch
            # a schedule that is computed from the rate before needs another formula to jump
            self.last_lr = getattr(self, "_get_closed_form_lr", self.get_lr)()
        if self.verbose:
            sys.stdout.write(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.\n")

    def state_keys(self) -> None:
        """Set `self.keys`, the names of the attributes that `state_dict` holds; a subclass may add to them."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to go on from here."""
        self.state_keys()
        return {key: _plain(self.__dict__[key]) for key in self.keys if key in self.__dict__}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                where = f"{type(self).__name__}.set_state_dict(state_dict)"
                raise errors.bad(where, f"the key {key}", ", ".join(map(str, state_dict)), kind=RuntimeError)
            self.__dict__[key] = state_dict[key]

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """The same as `set_state_dict`."""
        self.set_state_dict(state_dict)


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
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rising = self.warmup_steps**-1.5 * self.last_epoch
        falling = 1 if self.last_epoch == 0 else self.last_epoch**-0.5
        return self.base_lr * self.d_model**-0.5 * min(falling, rising)


class LinearWarmup(LRScheduler):
    """Rises from `start_lr` to `end_lr` over `warmup_steps`, then follows `learning_rate`, a number or a schedule.

    >>> rate = bireme.optimizer.lr.LinearWarmup(0.5, warmup_steps=2, start_lr=0.0, end_lr=0.5)
    >>> rate.step()
    >>> rate()
    0.25
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float, LRScheduler)):
            raise errors.bad("LinearWarmup(learning_rate)", "a number or a schedule", learning_rate, kind=TypeError)
        _positive("LinearWarmup(warmup_steps)", warmup_steps)
        if end_lr <= start_lr:
            raise errors.bad("LinearWarmup(end_lr)", f"more than start_lr = {start_lr}", end_lr)
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.start_lr, self.end_lr = start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if not isinstance(self.learning_rate, LRScheduler):
            return float(self.learning_rate)
        self.learning_rate.step(self.last_epoch - self.warmup_steps)
        return self.learning_rate()

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            if "LinearWarmup_LR" not in state_dict:
                expected = "the key LinearWarmup_LR, the state of the schedule after the warm-up"
                got = ", ".join(map(str, state_dict))
                raise errors.bad("LinearWarmup.set_state_dict(state_dict)", expected, got, kind=RuntimeError)
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])


class ExponentialDecay(LRScheduler):
    """`learning_rate * gamma ** epoch`.

    >>> rate = bireme.optimizer.lr.ExponentialDecay(1.0, gamma=0.5)
    >>> rate.step()
    >>> rate()
    0.5
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        if not 0.0 < gamma < 1.0:
            raise errors.bad("ExponentialDecay(gamma)", "a factor between 0 and 1", gamma)
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
        _factor("MultiStepDecay(gamma)", gamma)
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
        _positive("StepDecay(step_size)", step_size)
        _factor("StepDecay(gamma)", gamma)
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


class CosineAnnealingDecay(LRScheduler):
    """Follows half a cosine from `learning_rate` to `eta_min` in `T_max` epochs, then back up, and so on.

    >>> rate = bireme.optimizer.lr.CosineAnnealingDecay(1.0, T_max=2)
    >>> rate.step()
    >>> round(rate(), 4)
    0.5
    """

    def __init__(self, learning_rate: float, T_max: int, eta_min: float = 0, last_epoch: int = -1, verbose: bool = False):
        _positive("CosineAnnealingDecay(T_max)", T_max)
        if isinstance(eta_min, bool) or not isinstance(eta_min, (int, float)):
            raise errors.bad("CosineAnnealingDecay(eta_min)", "a number", eta_min, kind=TypeError)
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        # from the rate before, so that a rate set by hand is annealed from where it is
        if self.last_epoch == 0:
            return self.base_lr
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (self.base_lr - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
            return self.last_lr + rise
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return now / before * (self.last_lr - self.eta_min) + self.eta_min

    def _get_closed_form_lr(self) -> float:
        swing = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * swing


def _positive(where: str, n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, int):
        raise errors.bad(where, "an int", n, kind=TypeError)
    if n <= 0:
        raise errors.bad(where, "a number above 0", n)


def _factor(where: str, gamma: float) -> None:
    if gamma >= 1.0:
        raise errors.bad(where, "a factor below 1", gamma)


def _plain(value: Any) -> Any:
    """Tensors of one element as numbers: a state is saved as plain data."""
    return value.item() if hasattr(value, "item") else value
