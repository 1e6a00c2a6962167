"""Schedules that rise as well: warm-up, cosines, cycles; and the one that waits for a metric to stop improving."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.optimizer.schedule import LRScheduler, positive


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
        if isinstance(warmup_steps, bool) or not isinstance(warmup_steps, int) or warmup_steps <= 0:
            raise errors.bad("LinearWarmup(warmup_steps)", "an int above 0", warmup_steps, kind=errors.Unfit)
        if end_lr <= start_lr:
            raise errors.bad("LinearWarmup(end_lr)", f"more than start_lr = {start_lr}", end_lr, kind=errors.Unfit)
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


class CosineAnnealingDecay(LRScheduler):
    """Follows half a cosine from `learning_rate` to `eta_min` in `T_max` epochs, then back up, and so on.

    >>> rate = bireme.optimizer.lr.CosineAnnealingDecay(1.0, T_max=2)
    >>> rate.step()
    >>> round(rate(), 4)
    0.5
    """

    def __init__(self, learning_rate: float, T_max: int, eta_min: float = 0, last_epoch: int = -1, verbose: bool = False):
        positive("CosineAnnealingDecay(T_max)", T_max)
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


class LinearLR(LRScheduler):
    """Goes in a straight line from `start_factor` to `end_factor` times the rate, in `total_steps`, and stays there.

    >>> rate = bireme.optimizer.lr.LinearLR(1.0, total_steps=4, start_factor=0.5)
    >>> rate.step()
    >>> rate()
    0.625
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if not 0 < start_factor <= 1.0:
            raise errors.bad("LinearLR(start_factor)", "a factor above 0 and at most 1", start_factor)
        if not 0 <= end_factor <= 1.0:
            raise errors.bad("LinearLR(end_factor)", "a factor between 0 and 1", end_factor)
        if total_steps <= 0:
            raise errors.bad("LinearLR(total_steps)", "a number above 0", total_steps)
        self.start_factor, self.end_factor, self.total_steps = start_factor, end_factor, total_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch == 0:
            return self.base_lr * self.start_factor
        if self.last_epoch > self.total_steps:
            return self.last_lr
        # from the rate before, like Paddle: a rate set by hand goes on from where it is
        rise = self.end_factor - self.start_factor
        return self.last_lr * (1.0 + rise / (self.total_steps * self.start_factor + (self.last_epoch - 1) * rise))


class CosineAnnealingWarmRestarts(LRScheduler):
    """Falls along half a cosine in `T_0` epochs, starts again at the top, and takes `T_mult` times as long each time.

    >>> rate = bireme.optimizer.lr.CosineAnnealingWarmRestarts(1.0, T_0=2)
    >>> [round(x, 4) for x in (rate(), rate.step() or rate(), rate.step() or rate())]
    [1.0, 0.5, 1.0]
    """

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if not isinstance(T_0, int) or T_0 <= 0:
            raise errors.bad("CosineAnnealingWarmRestarts(T_0)", "an int above 0", T_0)
        if not isinstance(T_mult, int) or T_mult < 1:
            raise errors.bad("CosineAnnealingWarmRestarts(T_mult)", "an int of 1 or more", T_mult)
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, last_epoch
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise errors.bad("CosineAnnealingWarmRestarts.step(epoch)", "an epoch of 0 or more", epoch)
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self.last_lr = self.get_lr()
        self._tell()

    def _jump(self, epoch: float) -> None:
        """The place in its cycle of an epoch."""
        self.T_cur, self.T_i = epoch, self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        self._jump(self.last_epoch)


class OneCycleLR(LRScheduler):
    """Rises to `max_learning_rate` in the part `phase_pct` of `total_steps`, then falls far below where it began.

    With `three_phase` it first falls back as far as it rose, and then on to `end_learning_rate`.

    >>> rate = bireme.optimizer.lr.OneCycleLR(1.0, total_steps=10, divide_factor=4.0, phase_pct=0.5, anneal_strategy="linear")
    >>> rate.step(2)
    >>> rate()
    0.625
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        _rate("OneCycleLR(max_learning_rate)", max_learning_rate)
        _rate("OneCycleLR(end_learning_rate)", end_learning_rate)
        positive("OneCycleLR(total_steps)", total_steps)
        if not isinstance(phase_pct, float):
            raise errors.bad("OneCycleLR(phase_pct)", "a float", phase_pct, kind=TypeError)
        if not 0 <= phase_pct <= 1:
            raise errors.bad("OneCycleLR(phase_pct)", "a part between 0 and 1", phase_pct)
        if three_phase and phase_pct >= 0.5:
            raise errors.bad("OneCycleLR(phase_pct)", "less than 0.5 for three phases", phase_pct)
        if isinstance(divide_factor, bool) or not isinstance(divide_factor, (int, float)):
            raise errors.bad("OneCycleLR(divide_factor)", "a number", divide_factor, kind=TypeError)
        if divide_factor <= 0:
            raise errors.bad("OneCycleLR(divide_factor)", "a number above 0", divide_factor)
        if anneal_strategy not in ("cos", "linear"):
            raise errors.bad("OneCycleLR(anneal_strategy)", "'cos' or 'linear'", anneal_strategy)
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        start, top = max_learning_rate / float(divide_factor), phase_pct * total_steps - 1
        # where each phase ends, and at which rate
        self._turns = [(0, start), (top, max_learning_rate)]
        if three_phase:
            self._turns.append((2 * phase_pct * total_steps - 2, start))
        self._turns.append((total_steps - 1, float(end_learning_rate)))
        super().__init__(start, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch > self.total_steps:
            raise errors.bad("OneCycleLR.step()", f"at most total_steps = {self.total_steps} steps", self.last_epoch)
        phase = next((i for i, (end, _) in enumerate(self._turns[1:]) if self.last_epoch <= end), len(self._turns) - 2)
        (begin, first), (end, last) = self._turns[phase : phase + 2]
        part = (self.last_epoch - begin) / (end - begin) if end > begin else 1.0
        return last + (first - last) * (1 + math.cos(math.pi * part)) / 2 if self.anneal_strategy == "cos" else first + (last - first) * part


class CyclicLR(LRScheduler):
    """Rises from `base_learning_rate` to `max_learning_rate` and falls back, again and again.

    The height of each cycle stays ("triangular"), is halved ("triangular2"), shrinks by `exp_gamma` a step ("exp_range"), or is
    multiplied by `scale_fn` of the number of the cycle, or of the step if `scale_mode` is "iterations".

    >>> rate = bireme.optimizer.lr.CyclicLR(1.0, 3.0, step_size_up=2)
    >>> rate.step(3)
    >>> rate()
    2.0
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        _rate("CyclicLR(max_learning_rate)", max_learning_rate)
        positive("CyclicLR(step_size_up)", step_size_up)
        if step_size_down is not None:
            positive("CyclicLR(step_size_down)", step_size_down)
        if not isinstance(exp_gamma, float):
            raise errors.bad("CyclicLR(exp_gamma)", "a float", exp_gamma, kind=TypeError)
        scales = {"triangular": (_same, "cycle"), "triangular2": (_halved, "cycle"), "exp_range": (self._fading, "iterations")}
        if mode not in scales and scale_fn is None:
            raise errors.bad("CyclicLR(mode)", "'triangular', 'triangular2' or 'exp_range', or a scale_fn", mode)
        if scale_fn is not None and not callable(scale_fn):
            raise errors.bad("CyclicLR(scale_fn)", "a function or None", scale_fn, kind=TypeError)
        if scale_mode not in ("cycle", "iterations"):
            raise errors.bad("CyclicLR(scale_mode)", "'cycle' or 'iterations'", scale_mode)
        self.cycle_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_up_pct = step_size_up / self.cycle_size
        self.max_lr, self.mode, self.gamma = float(max_learning_rate), mode, exp_gamma
        self.scale_fn, self.scale_mode = scales[mode] if scale_fn is None else (scale_fn, scale_mode)
        self.amplitude = self.max_lr - base_learning_rate
        super().__init__(base_learning_rate, last_epoch, verbose)

    def _fading(self, step: float) -> float:
        return self.gamma**step

    def get_lr(self) -> float:
        cycle = 1 + self.last_epoch // self.cycle_size
        part = 1.0 + self.last_epoch / self.cycle_size - cycle
        height = part / self.step_up_pct if part <= self.step_up_pct else (1 - part) / (1 - self.step_up_pct)
        return self.base_lr + self.amplitude * height * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)


class ReduceOnPlateau(LRScheduler):
    """Multiplied by `factor` when the metric given to `step` has not improved for more than `patience` epochs.

    >>> rate = bireme.optimizer.lr.ReduceOnPlateau(1.0, factor=0.5, patience=0)
    >>> rate.step(3.0)
    >>> rate.step(3.0)
    >>> rate()
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 0.0001,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-08,
        verbose: bool = False,
    ):
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise errors.bad("ReduceOnPlateau(learning_rate)", "a number", learning_rate, kind=TypeError)
        if mode.lower() not in ("min", "max"):
            raise errors.bad("ReduceOnPlateau(mode)", "'min' or 'max'", mode)
        if threshold_mode.lower() not in ("rel", "abs"):
            raise errors.bad("ReduceOnPlateau(threshold_mode)", "'rel' or 'abs'", threshold_mode)
        if not 0 <= factor < 1.0:
            raise errors.bad("ReduceOnPlateau(factor)", "a factor from 0 to below 1", factor)
        self.mode, self.threshold_mode = mode.lower(), threshold_mode.lower()
        self.factor, self.patience, self.threshold = factor, patience, threshold
        self.cooldown, self.min_lr, self.epsilon = cooldown, min_lr, epsilon
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: Any = None
        # nothing is stepped here: the first step needs a metric
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch, self.verbose = 0, verbose

    def state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def get_lr(self) -> float:
        return self.last_lr

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # Paddle's signature
        """Take note of a metric, a number or a tensor of one element, and set the rate."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if isinstance(metrics, (Tensor, np.ndarray)):
            if metrics.size != 1:
                got = f"shape {list(metrics.shape)}"
                raise errors.bad("ReduceOnPlateau.step(metrics)", "one number", got, "take its mean first", kind=errors.Unfit)
        elif isinstance(metrics, bool) or not isinstance(metrics, (int, float, np.number)):
            raise errors.bad("ReduceOnPlateau.step(metrics)", "a number, an array or a Tensor", metrics, kind=TypeError)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        now = float(metrics.item() if isinstance(metrics, np.ndarray) else metrics)
        if self.best is None or self._is_better(now, self.best):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            rate = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - rate > self.epsilon:
                self.last_lr = rate
                self._tell()

    def _is_better(self, current: float, best: float) -> bool:
        margin = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return current < best - margin if self.mode == "min" else current > best + margin


def _rate(where: str, rate: Any) -> None:
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise errors.bad(where, "a number", rate, kind=TypeError)
    if rate < 0:
        raise errors.bad(where, "a rate of 0 or more", rate)


def _same(cycle: float) -> float:
    return 1.0


def _halved(cycle: float) -> float:
    return 0.5 ** (cycle - 1)
