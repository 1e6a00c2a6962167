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
    """A linear rise from ``start_lr`` to ``end_lr``, then another learning rate or scheduler.

    A scheduler after the warm-up is stepped by this one, from its epoch 0 on; do not step it yourself.

    Args:
        learning_rate: Learning rate after the warm-up, a number or an ``LRScheduler``.
        warmup_steps: Number of warm-up steps.
        start_lr: Learning rate at the start of the warm-up.
        end_lr: Learning rate that the warm-up leads to, above ``start_lr``.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.LinearWarmup(0.5, warmup_steps=2, start_lr=0.0, end_lr=0.5)
        >>> scheduler.step()
        >>> scheduler()
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
            raise errors.bad(
                "LinearWarmup(learning_rate)",
                "a number or an LRScheduler",
                learning_rate,
                kind=errors.ArgumentTypeError,
            )
        if isinstance(warmup_steps, bool) or not isinstance(warmup_steps, int) or warmup_steps <= 0:
            raise errors.bad(
                "LinearWarmup(warmup_steps)", "a positive integer", warmup_steps, kind=errors.for_integer(warmup_steps)
            )
        if end_lr <= start_lr:
            raise errors.bad(
                "LinearWarmup(end_lr)",
                f"a number greater than start_lr = {start_lr}",
                end_lr,
                kind=errors.ArgumentError,
            )
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
                raise errors.bad("LinearWarmup.set_state_dict(state_dict)", expected, described=got, kind=RuntimeError)
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])


class CosineAnnealingDecay(LRScheduler):
    """Cosine annealing: half a cosine from ``learning_rate`` to ``eta_min`` in ``T_max`` epochs, then back up.

    ``eta_min + (learning_rate - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Args:
        learning_rate: The initial learning rate, a float.
        T_max: Number of epochs of half a period.
        eta_min: The lowest learning rate. Default: 0.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.CosineAnnealingDecay(1.0, T_max=2)
        >>> scheduler.step()
        >>> round(scheduler(), 4)
        0.5
    """

    def __init__(
        self, learning_rate: float, T_max: int, eta_min: float = 0, last_epoch: int = -1, verbose: bool = False
    ):
        positive("CosineAnnealingDecay(T_max)", T_max)
        if isinstance(eta_min, bool) or not isinstance(eta_min, (int, float)):
            raise errors.bad("CosineAnnealingDecay(eta_min)", "a number", eta_min, kind=errors.ArgumentTypeError)
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        # from the previous rate, so that a rate set by hand is annealed
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
    """A linear change of the factor on the learning rate from ``start_factor`` to ``end_factor``.

    Args:
        learning_rate: The learning rate that the factors apply to.
        total_steps: Number of steps until ``end_factor`` is reached.
        start_factor: Factor at the start, above 0 and at most 1. Default: 1/3.
        end_factor: Factor at the end, in [0, 1]. Default: 1.0.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.LinearLR(1.0, total_steps=4, start_factor=0.5)
        >>> scheduler.step()
        >>> scheduler()
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
            raise errors.bad("LinearLR(start_factor)", "a factor in (0, 1]", start_factor)
        if not 0 <= end_factor <= 1.0:
            raise errors.bad("LinearLR(end_factor)", "a factor in [0, 1]", end_factor)
        if total_steps <= 0:
            raise errors.bad(
                "LinearLR(total_steps)", "a positive number", total_steps, kind=errors.for_number(total_steps)
            )
        self.start_factor, self.end_factor, self.total_steps = start_factor, end_factor, total_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch == 0:
            return self.base_lr * self.start_factor
        if self.last_epoch > self.total_steps:
            return self.last_lr
        # from the previous rate, as in Paddle: a rate set by hand is continued
        rise = self.end_factor - self.start_factor
        return self.last_lr * (1.0 + rise / (self.total_steps * self.start_factor + (self.last_epoch - 1) * rise))


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing from ``learning_rate`` to ``eta_min``, restarted at the end of each period.

    Args:
        learning_rate: Learning rate at the start of each period.
        T_0: Number of epochs of the first period.
        T_mult: Factor on the length of each following period, an int of at least 1. Default: 1.
        eta_min: The lowest learning rate. Default: 0.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.CosineAnnealingWarmRestarts(1.0, T_0=2)
        >>> [round(x, 4) for x in (scheduler(), scheduler.step() or scheduler(), scheduler.step() or scheduler())]
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
            raise errors.bad(
                "CosineAnnealingWarmRestarts(T_0)", "a positive integer", T_0, kind=errors.for_integer(T_0)
            )
        if not isinstance(T_mult, int) or T_mult < 1:
            raise errors.bad(
                "CosineAnnealingWarmRestarts(T_mult)", "a positive integer", T_mult, kind=errors.for_integer(T_mult)
            )
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch and update the learning rate.

        Args:
            epoch: Epoch to go to, which may be a fraction: ``epoch + batch / batches_per_epoch``. Default: None, the
                one after ``last_epoch``.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise errors.bad("CosineAnnealingWarmRestarts.step(epoch)", "a non-negative epoch", epoch)
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self.last_lr = self.get_lr()
        self._tell()

    def _jump(self, epoch: float) -> None:
        """Set the position in the period that ``epoch`` falls into."""
        self.T_cur, self.T_i = epoch, self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        self._jump(self.last_epoch)


class OneCycleLR(LRScheduler):
    """One cycle: a rise to ``max_learning_rate``, then a fall to ``end_learning_rate`` over the rest of the training.

    It begins at ``max_learning_rate / divide_factor`` and is made to be stepped per batch. With ``three_phase`` it
    first falls back to where it began, as fast as it rose, and then to ``end_learning_rate``.

    Args:
        max_learning_rate: The highest learning rate.
        total_steps: Number of steps of the whole training; a step beyond it is an error.
        divide_factor: ``max_learning_rate`` over the initial learning rate. Default: 25.0.
        end_learning_rate: The final learning rate. Default: 0.0001.
        phase_pct: Fraction of ``total_steps`` in which the learning rate rises, a float in [0, 1]; below 0.5 for three
            phases. Default: 0.3.
        anneal_strategy: ``"cos"`` or ``"linear"``. Default: ``"cos"``.
        three_phase: Use three phases. Default: False.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.OneCycleLR(
        ...     1.0, total_steps=10, divide_factor=4.0, phase_pct=0.5, anneal_strategy="linear"
        ... )
        >>> scheduler.step(2)
        >>> scheduler()
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
            raise errors.bad("OneCycleLR(phase_pct)", "a float", phase_pct, kind=errors.ArgumentTypeError)
        if not 0 <= phase_pct <= 1:
            raise errors.bad("OneCycleLR(phase_pct)", "a number in [0, 1]", phase_pct, kind=errors.for_number(phase_pct))
        if three_phase and phase_pct >= 0.5:
            raise errors.bad("OneCycleLR(phase_pct)", "less than 0.5 for three phases", phase_pct)
        if isinstance(divide_factor, bool) or not isinstance(divide_factor, (int, float)):
            raise errors.bad("OneCycleLR(divide_factor)", "a number", divide_factor, kind=errors.ArgumentTypeError)
        if divide_factor <= 0:
            raise errors.bad(
                "OneCycleLR(divide_factor)", "a positive number", divide_factor, kind=errors.for_number(divide_factor)
            )
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
        return (
            last + (first - last) * (1 + math.cos(math.pi * part)) / 2
            if self.anneal_strategy == "cos"
            else first + (last - first) * part
        )


class CyclicLR(LRScheduler):
    """Cycles between ``base_learning_rate`` and ``max_learning_rate``, with a linear rise and fall.

    Args:
        base_learning_rate: The lowest learning rate.
        max_learning_rate: The highest learning rate.
        step_size_up: Number of steps of the rise.
        step_size_down: Number of steps of the fall. Default: None, ``step_size_up``.
        mode: ``"triangular"``: all cycles are equally high; ``"triangular2"``: the height is halved from cycle to
            cycle; ``"exp_range"``: the height is multiplied by ``exp_gamma`` at each step. Default: ``"triangular"``.
        exp_gamma: Factor of ``"exp_range"``, a float. Default: 1.0.
        scale_fn: Function that returns the factor on the height, used instead of ``mode``. Default: None.
        scale_mode: What ``scale_fn`` takes: the number of the cycle, from 1 on (``"cycle"``), or of the step
            (``"iterations"``). Default: ``"cycle"``.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.CyclicLR(1.0, 3.0, step_size_up=2)
        >>> scheduler.step(3)
        >>> scheduler()
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
            raise errors.bad("CyclicLR(exp_gamma)", "a float", exp_gamma, kind=errors.ArgumentTypeError)
        scales = {
            "triangular": (_same, "cycle"),
            "triangular2": (_halved, "cycle"),
            "exp_range": (self._fading, "iterations"),
        }
        if mode not in scales and scale_fn is None:
            raise errors.bad("CyclicLR(mode)", "'triangular', 'triangular2' or 'exp_range', or a scale_fn", mode)
        if scale_fn is not None and not callable(scale_fn):
            raise errors.bad("CyclicLR(scale_fn)", "a function or None", scale_fn, kind=errors.ArgumentTypeError)
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
        return self.base_lr + self.amplitude * height * self.scale_fn(
            cycle if self.scale_mode == "cycle" else self.last_epoch
        )


class ReduceOnPlateau(LRScheduler):
    """Multiplies the learning rate by ``factor`` when a metric has stopped improving.

    Args:
        learning_rate: The initial learning rate, a float.
        mode: ``"min"`` if the metric should decrease, ``"max"`` if it should increase. Default: ``"min"``.
        factor: The factor, at least 0 and below 1. Default: 0.1.
        patience: Number of epochs without improvement that are tolerated. Default: 10.
        threshold: Smallest change that counts as an improvement. Default: 0.0001.
        threshold_mode: ``"rel"``: ``threshold`` is relative to the best value so far; ``"abs"``: it is absolute.
            Default: ``"rel"``.
        cooldown: Number of epochs after a reduction in which the metric is ignored. Default: 0.
        min_lr: The lowest learning rate. Default: 0.
        epsilon: A reduction by at most this much is not made. Default: 1e-08.
        verbose: Print a line to stdout at each reduction. Default: False.

    Examples:
        >>> scheduler = bireme.optimizer.lr.ReduceOnPlateau(1.0, factor=0.5, patience=0)
        >>> scheduler.step(3.0)
        >>> scheduler.step(3.0)
        >>> scheduler()
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
            raise errors.bad("ReduceOnPlateau(learning_rate)", "a number", learning_rate, kind=errors.ArgumentTypeError)
        if mode.lower() not in ("min", "max"):
            raise errors.bad("ReduceOnPlateau(mode)", "'min' or 'max'", mode)
        if threshold_mode.lower() not in ("rel", "abs"):
            raise errors.bad("ReduceOnPlateau(threshold_mode)", "'rel' or 'abs'", threshold_mode)
        if not 0 <= factor < 1.0:
            raise errors.bad("ReduceOnPlateau(factor)", "a factor in [0, 1)", factor)
        self.mode, self.threshold_mode = mode.lower(), threshold_mode.lower()
        self.factor, self.patience, self.threshold = factor, patience, threshold
        self.cooldown, self.min_lr, self.epsilon = cooldown, min_lr, epsilon
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: Any = None
        # no step here: the first one needs a metric
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch, self.verbose = 0, verbose

    def state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def get_lr(self) -> float:
        return self.last_lr

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # Paddle's signature
        """Record a metric, and reduce the learning rate if it has not improved for long enough.

        Args:
            metrics: The metric: a number, an array or a tensor of one element.
            epoch: The current epoch. Default: None, the one after ``last_epoch``.
        """
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if isinstance(metrics, (Tensor, np.ndarray)):
            if metrics.size != 1:
                got = f"shape {list(metrics.shape)}"
                raise errors.bad(
                    "ReduceOnPlateau.step(metrics)",
                    "a single number",
                    described=got,
                    hint="take its mean first",
                    kind=errors.for_number(got),
                )
        elif isinstance(metrics, bool) or not isinstance(metrics, (int, float, np.number)):
            raise errors.bad("ReduceOnPlateau.step(metrics)", "a number, an array or a Tensor", metrics, kind=errors.ArgumentTypeError)
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
        raise errors.bad(where, "a number", rate, kind=errors.ArgumentTypeError)
    if rate < 0:
        raise errors.bad(where, "a non-negative learning rate", rate)


def _same(cycle: float) -> float:
    return 1.0


def _halved(cycle: float) -> float:
    return 0.5 ** (cycle - 1)
