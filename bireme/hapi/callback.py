"""Callbacks: what happens beside a training loop. This file has the base, checkpoints, schedules and stopping."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.optimizer.lr import LRScheduler as Schedule


def say(text: str) -> None:
    """A line on the standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Callback:
    """Base of callbacks: each method is called where its name says, with a dict of what is known there.

    `self.model` is the Model and `self.params` a dict with `batch_size`, `epochs`, `steps`, `verbose` and `metrics`. Numbers in `logs`
    are read from the device when they are looked at, so a callback that looks at them in every step slows the loop down.

    >>> class Steps(bireme.callbacks.Callback):
    ...     n = 0
    ...     def on_train_batch_end(self, step, logs=None):
    ...         self.n += 1
    >>> net = bireme.nn.Linear(1, 1); steps = Steps()
    >>> model = bireme.Model(net)
    >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
    >>> model.fit([[bireme.ones([4, 1]), bireme.ones([4, 1])]] * 3, verbose=0, callbacks=[steps])
    >>> steps.n
    3
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Take the facts about the run."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take the Model."""
        self.model = model

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Before the first epoch."""

    def on_train_end(self, logs: dict | None = None) -> None:
        """After the last epoch."""

    def on_eval_begin(self, logs: dict | None = None) -> None:
        """Before an evaluation; `logs` has `steps` and `metrics`."""

    def on_eval_end(self, logs: dict | None = None) -> None:
        """After an evaluation; `logs` has loss and metrics."""

    def on_predict_begin(self, logs: dict | None = None) -> None:
        """Before a prediction; `logs` has `steps`."""

    def on_predict_end(self, logs: dict | None = None) -> None:
        """After a prediction."""

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Before an epoch."""

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """After an epoch; `logs` has the last loss and the metrics over the epoch."""

    def on_train_batch_begin(self, step: int, logs: dict | None = None) -> None:
        """Before a training step."""

    def on_train_batch_end(self, step: int, logs: dict | None = None) -> None:
        """After a training step; `logs` has its loss, the metrics so far, `step` and `batch_size`."""

    def on_eval_batch_begin(self, step: int, logs: dict | None = None) -> None:
        """Before a batch of an evaluation."""

    def on_eval_batch_end(self, step: int, logs: dict | None = None) -> None:
        """After a batch of an evaluation."""

    def on_predict_batch_begin(self, step: int, logs: dict | None = None) -> None:
        """Before a batch of a prediction."""

    def on_predict_batch_end(self, step: int, logs: dict | None = None) -> None:
        """After a batch of a prediction."""


class CallbackList:
    """Several callbacks that are called as one, in their order."""

    def __init__(self, callbacks: Any = None):
        if isinstance(callbacks, Callback):
            callbacks = [callbacks]
        if callbacks is not None and not isinstance(callbacks, Iterable):
            raise errors.bad("callbacks", "a list of callbacks", callbacks, kind=TypeError)
        self.callbacks: list[Any] = []
        for one in callbacks or ():
            self.append(one)

    def append(self, callback: Any) -> None:
        """Put one more at the end."""
        if not hasattr(callback, "on_train_begin"):
            raise errors.bad("callbacks", "objects of bireme.callbacks.Callback", callback, kind=TypeError)
        self.callbacks.append(callback)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.callbacks)

    def set_model(self, model: Any) -> None:
        for one in self.callbacks:
            one.set_model(model)

    def set_params(self, params: dict[str, Any]) -> None:
        for one in self.callbacks:
            one.set_params(params)

    def _call(self, name: str, *args: Any) -> None:
        for one in self.callbacks:
            getattr(one, name)(*args)

    def on_begin(self, mode: str, logs: dict | None = None) -> None:
        """A pass begins: `mode` is train, eval or predict."""
        self._call(f"on_{mode}_begin", logs)

    def on_end(self, mode: str, logs: dict | None = None) -> None:
        self._call(f"on_{mode}_end", logs)

    def on_epoch_begin(self, epoch: int | None = None, logs: dict | None = None) -> None:
        self._call("on_epoch_begin", epoch, logs)

    def on_epoch_end(self, epoch: int | None = None, logs: dict | None = None) -> None:
        self._call("on_epoch_end", epoch, logs)

    def on_batch_begin(self, mode: str, step: int | None = None, logs: dict | None = None) -> None:
        self._call(f"on_{mode}_batch_begin", step, logs)

    def on_batch_end(self, mode: str, step: int | None = None, logs: dict | None = None) -> None:
        self._call(f"on_{mode}_batch_end", step, logs)

    def end_lines(self) -> None:
        """An error is on its way: end what stands half written on the terminal."""
        for one in self.callbacks:
            if hasattr(one, "end_line"):
                one.end_line()


class ModelCheckpoint(Callback):
    """Saves the model every `save_freq` epochs as `save_dir/EPOCH`, and as `save_dir/final` at the end.

    >>> bireme.callbacks.ModelCheckpoint(save_freq=2, save_dir="checkpoints").save_freq
    2
    """

    def __init__(self, save_freq: int = 1, save_dir: str | None = None):
        super().__init__()
        if isinstance(save_freq, bool) or not isinstance(save_freq, int) or save_freq < 1:
            raise errors.bad("ModelCheckpoint(save_freq)", "a positive number of epochs", save_freq)
        self.save_freq, self.save_dir = save_freq, save_dir
        self.epoch = 0

    def on_epoch_begin(self, epoch: int | None = None, logs: dict | None = None) -> None:
        """Note the epoch."""
        self.epoch = epoch or 0

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Save, if it is this epoch's turn."""
        if epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: dict | None = None) -> None:
        """Save the end."""
        self._save("final")

    def _save(self, name: str) -> None:
        if self.save_dir and self.model is not None:
            path = os.path.join(self.save_dir, name)
            self.model.save(path)
            say(f"save checkpoint at {os.path.abspath(path)}")


class LRScheduler(Callback):
    """Steps the optimizer's schedule, after each training step or after each epoch; `fit` adds one that goes by steps.

    >>> bireme.callbacks.LRScheduler(by_step=False, by_epoch=True).by_epoch
    True
    """

    def __init__(self, by_step: bool = True, by_epoch: bool = False):
        super().__init__()
        if by_step and by_epoch:
            raise errors.bad("LRScheduler(by_step)", "by_step or by_epoch, not both", True)
        self.by_step, self.by_epoch = by_step, by_epoch

    def _step(self) -> None:
        rate = getattr(getattr(self.model, "_optimizer", None), "_learning_rate", None)
        if isinstance(rate, Schedule):
            rate.step()

    def on_train_batch_end(self, step: int, logs: dict | None = None) -> None:
        """Step, if it goes by steps."""
        if self.by_step:
            self._step()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Step, if it goes by epochs."""
        if self.by_epoch:
            self._step()


class _Watching(Callback):
    """Looks at one figure after each evaluation, and tells whether it got better."""

    def __init__(self, monitor: str, mode: str, min_delta: float):
        super().__init__()
        who = type(self).__name__
        if mode not in ("auto", "min", "max"):
            errors.warn(f"{who}(mode): expected 'auto', 'min' or 'max', got {mode!r}; it is taken as 'auto'")
            mode = "auto"
        self.monitor, self.mode = monitor, mode
        self.min_delta = abs(min_delta)
        # as Paddle has it: what is called accuracy grows, all else falls
        self._grows = mode == "max" or (mode == "auto" and "acc" in monitor)

    def _worst(self) -> float:
        return -np.inf if self._grows else np.inf

    def _better(self, now: float, best: float) -> bool:
        return bool(now - self.min_delta > best if self._grows else now + self.min_delta < best)

    def _look(self, logs: dict | None) -> float | None:
        if logs is None or self.monitor not in logs:
            known = ", ".join(k for k in logs or () if k not in ("step", "batch_size"))
            text = f"{type(self).__name__}(monitor): expected the loss or a metric, got {self.monitor!r}; the evaluation has {known or 'nothing'}"
            errors.warn(text)
            return None
        value = logs[self.monitor]
        if isinstance(value, Tensor):
            value = value._host()
        return float(np.ravel(value)[0])


class EarlyStopping(_Watching):
    """Stops training when an evaluation's figure has not got better for `patience` evaluations; the best model is saved as `best_model`.

    It needs `eval_data` in `fit`, and `save_dir` to save. The figure has to beat `baseline` to begin with, if there is one.

    >>> bireme.callbacks.EarlyStopping("acc", patience=2).patience
    2
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ):
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline, self.save_best_model = patience, verbose, baseline, save_best_model
        self.wait_epoch = self.stopped_epoch = 0
        self.best_weights: Any = None
        self.save_dir: str | None = None
        self.best_value = self._worst()

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Forget what earlier runs reached."""
        self.wait_epoch = 0
        self.best_value = self._worst() if self.baseline is None else self.baseline
        self.best_weights = None

    def on_eval_end(self, logs: dict | None = None) -> None:
        """Compare, save what is best, and stop when patience is over."""
        now = self._look(logs)
        if now is None:
            return
        if self._better(now, self.best_value):
            self.best_value, self.wait_epoch = now, 0
            if self.save_best_model and self.save_dir is not None:
                self.model.save(os.path.join(self.save_dir, "best_model"))
        else:
            self.wait_epoch += 1
        self.stopped_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose > 0:
                say(f"Epoch {self.stopped_epoch}: Early stopping.")
                if self.save_best_model and self.save_dir is not None:
                    say(f"Best checkpoint has been saved at {os.path.abspath(os.path.join(self.save_dir, 'best_model'))}")


class ReduceLROnPlateau(_Watching):
    """Lowers a constant learning rate to `factor` of it when an evaluation's figure has not got better for `patience` evaluations.

    >>> bireme.callbacks.ReduceLROnPlateau("acc", factor=0.5, patience=3).factor
    0.5
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 0.0001,
        cooldown: int = 0,
        min_lr: float = 0,
    ):
        super().__init__(monitor, mode, min_delta)
        if factor >= 1.0:
            raise errors.bad("ReduceLROnPlateau(factor)", "a number below 1", factor)
        self.factor, self.patience, self.verbose, self.cooldown, self.min_lr = factor, patience, verbose, cooldown, min_lr
        self.epoch = 0
        self._reset()

    def _reset(self) -> None:
        self.cooldown_counter = self.wait = 0
        self.best = self._worst()

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Forget what earlier runs reached."""
        self._reset()

    def in_cooldown(self) -> bool:
        """Whether the last reduction is so fresh that waiting does not count.

        >>> bireme.callbacks.ReduceLROnPlateau().in_cooldown()
        False
        """
        return self.cooldown_counter > 0

    def on_eval_end(self, logs: dict | None = None) -> None:
        """Compare, and lower the rate when patience is over."""
        now = self._look(logs)
        if now is None:
            return
        optimizer = self.model._optimizer
        if isinstance(optimizer._learning_rate, Schedule):
            name = type(optimizer._learning_rate).__name__
            errors.warn(f"ReduceLROnPlateau: expected an optimizer with a constant rate, got one whose rate {name} sets")
            return
        self.epoch += 1
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self._better(now, self.best):
            self.best, self.wait = now, 0
        elif not self.in_cooldown():
            self.wait += 1
            old = optimizer.get_lr()
            if self.wait >= self.patience and old > self.min_lr:
                optimizer.set_lr(max(old * self.factor, float(self.min_lr)))
                if self.verbose > 0:
                    say(f"\nEpoch {self.epoch}: ReduceLROnPlateau reducing learning rate to {optimizer.get_lr()}.")
                self.cooldown_counter, self.wait = self.cooldown, 0
