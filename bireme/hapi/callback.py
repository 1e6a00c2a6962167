"""Callbacks: the base class, and those that save models, step schedulers and stop the training."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.optimizer.lr import LRScheduler as Schedule


def say(text: str) -> None:
    """Print a line to stdout and flush it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Callback(Guarded):
    """Base class of callbacks: its methods are called during ``Model.fit``, ``evaluate`` and ``predict``.

    ``self.model`` is the ``Model``, ``self.params`` a dict with ``batch_size``, ``epochs``, ``steps``, ``verbose`` and
    ``metrics``. Values in ``logs`` are read from the device when they are accessed, so a callback that accesses them at
    every step slows the training down.

    Examples:
        >>> class Steps(bireme.callbacks.Callback):
        ...     n = 0
        ...     def on_train_batch_end(self, step, logs=None):
        ...         self.n += 1
        >>> net, steps = bireme.nn.Linear(1, 1), Steps()
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
        """Set ``self.params``; ``Model`` calls it before a run.

        Args:
            params: Dict with ``batch_size``, ``epochs``, ``steps``, ``verbose`` and ``metrics``.
        """
        self.params = params

    def set_model(self, model: Any) -> None:
        """Set ``self.model``; ``Model`` calls it before a run.

        Args:
            model: The ``Model``.
        """
        self.model = model

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Called before the first epoch.

        Args:
            logs: None.
        """

    def on_train_end(self, logs: dict | None = None) -> None:
        """Called after the last epoch.

        Args:
            logs: Loss and metrics of the last epoch or evaluation.
        """

    def on_eval_begin(self, logs: dict | None = None) -> None:
        """Called before an evaluation.

        Args:
            logs: Dict with ``steps`` and ``metrics``.
        """

    def on_eval_end(self, logs: dict | None = None) -> None:
        """Called after an evaluation.

        Args:
            logs: Dict with the loss of the last batch and the metrics.
        """

    def on_predict_begin(self, logs: dict | None = None) -> None:
        """Called before a prediction.

        Args:
            logs: Dict with ``steps``.
        """

    def on_predict_end(self, logs: dict | None = None) -> None:
        """Called after a prediction.

        Args:
            logs: Dict with the last ``step`` and ``batch_size``.
        """

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Called before an epoch.

        Args:
            epoch: Index of the epoch, from 0.
            logs: None.
        """

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Called after an epoch, before its evaluation.

        Args:
            epoch: Index of the epoch, from 0.
            logs: Dict with the loss of the last batch and the metrics over the epoch.
        """

    def on_train_batch_begin(self, step: int, logs: dict | None = None) -> None:
        """Called before a training step.

        Args:
            step: Index of the batch, from 0.
            logs: Loss and metrics of the previous step.
        """

    def on_train_batch_end(self, step: int, logs: dict | None = None) -> None:
        """Called after a training step.

        Args:
            step: Index of the batch, from 0.
            logs: Dict with the loss of the batch, the metrics so far, ``step`` and ``batch_size``.
        """

    def on_eval_batch_begin(self, step: int, logs: dict | None = None) -> None:
        """Called before a batch of an evaluation.

        Args:
            step: Index of the batch, from 0.
            logs: Loss and metrics of the previous batch.
        """

    def on_eval_batch_end(self, step: int, logs: dict | None = None) -> None:
        """Called after a batch of an evaluation.

        Args:
            step: Index of the batch, from 0.
            logs: Dict with the loss of the batch, the metrics so far, ``step`` and ``batch_size``.
        """

    def on_predict_batch_begin(self, step: int, logs: dict | None = None) -> None:
        """Called before a batch of a prediction.

        Args:
            step: Index of the batch, from 0.
            logs: Dict with the previous ``step`` and ``batch_size``.
        """

    def on_predict_batch_end(self, step: int, logs: dict | None = None) -> None:
        """Called after a batch of a prediction.

        Args:
            step: Index of the batch, from 0.
            logs: Dict with ``step`` and ``batch_size``.
        """


class CallbackList:
    """Several callbacks that are called as one, in order.

    Args:
        callbacks: A callback or a list of them. Default: None.
    """

    def __init__(self, callbacks: Callback | Iterable[Callback] | None = None):
        if isinstance(callbacks, Callback):
            callbacks = [callbacks]
        if callbacks is not None and not isinstance(callbacks, Iterable):
            raise errors.bad("callbacks", "a list of callbacks", callbacks, kind=errors.ArgumentTypeError)
        self.callbacks: list[Any] = []
        for one in callbacks or ():
            self.append(one)

    def append(self, callback: Callback) -> None:
        """Add a callback at the end.

        Args:
            callback: The callback.
        """
        if not hasattr(callback, "on_train_begin"):
            raise errors.bad(
                "callbacks", "objects of bireme.callbacks.Callback", callback, kind=errors.ArgumentTypeError
            )
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
        """Call ``on_train_begin``, ``on_eval_begin`` or ``on_predict_begin``, depending on ``mode``."""
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
        """End unfinished lines on the terminal before an error is shown."""
        for one in self.callbacks:
            if hasattr(one, "end_line"):
                one.end_line()


class ModelCheckpoint(Callback):
    """Callback that saves the model after every ``save_freq`` epochs and at the end.

    The files are ``save_dir/EPOCH.pdparams`` and ``.pdopt``, at the end ``save_dir/final.pdparams`` and ``.pdopt``.
    ``Model.fit`` adds one of its own accord. To resume an interrupted run, use ``Checkpoint``.

    Args:
        save_freq: Number of epochs between two saved models. Default: 1.
        save_dir: Directory of the saved models. Default: None, nothing is saved.

    Examples:
        >>> bireme.callbacks.ModelCheckpoint(save_freq=2, save_dir="checkpoints").save_freq
        2
    """

    def __init__(self, save_freq: int = 1, save_dir: str | None = None):
        super().__init__()
        if isinstance(save_freq, bool) or not isinstance(save_freq, int) or save_freq < 1:
            raise errors.bad(
                "ModelCheckpoint(save_freq)", "a positive integer", save_freq, kind=errors.for_number(save_freq)
            )
        self.save_freq, self.save_dir = save_freq, save_dir
        self.epoch = 0

    def on_epoch_begin(self, epoch: int | None = None, logs: dict | None = None) -> None:
        self.epoch = epoch or 0

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: dict | None = None) -> None:
        self._save("final")

    def _save(self, name: str) -> None:
        if self.save_dir and self.model is not None and world.rank() == 0:
            path = os.path.join(self.save_dir, name)
            self.model.save(path)
            say(f"save checkpoint at {os.path.abspath(path)}")


class LRScheduler(Callback):
    """Callback that steps the learning rate scheduler of the optimizer; ``Model.fit`` adds one that steps per batch.

    Args:
        by_step: Step after each training step. Default: True.
        by_epoch: Step after each epoch; ``by_step`` must then be False. Default: False.

    Examples:
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
        if self.by_step:
            self._step()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.by_epoch:
            self._step()


class _Watching(Callback):
    """Base class of callbacks that compare one value after each evaluation with the best so far."""

    def __init__(self, monitor: str, mode: str, min_delta: float):
        super().__init__()
        who = type(self).__name__
        if mode not in ("auto", "min", "max"):
            errors.warn(f"{who}(mode): expected 'auto', 'min' or 'max', got {mode!r}; it is taken as 'auto'")
            mode = "auto"
        self.monitor, self.mode = monitor, mode
        self.min_delta = abs(min_delta)
        # as in Paddle: a name with "acc" should increase, anything else decrease
        self._grows = mode == "max" or (mode == "auto" and "acc" in monitor)

    def _worst(self) -> float:
        return -np.inf if self._grows else np.inf

    def _better(self, now: float, best: float) -> bool:
        return bool(now - self.min_delta > best if self._grows else now + self.min_delta < best)

    def _look(self, logs: dict | None) -> float | None:
        if logs is None or self.monitor not in logs:
            known = ", ".join(k for k in logs or () if k not in ("step", "batch_size"))
            text = f"expected the loss or a metric, got {self.monitor!r}; the evaluation has {known or 'nothing'}"
            errors.warn(f"{type(self).__name__}(monitor): {text}")
            return None
        value = logs[self.monitor]
        if isinstance(value, Tensor):
            value = value._host()
        return float(np.ravel(value)[0])


class EarlyStopping(_Watching):
    """Callback that stops the training when a value of the evaluation has not improved for ``patience`` evaluations.

    It needs ``eval_data`` in ``Model.fit``. The best model is saved as ``best_model`` in the ``save_dir`` of ``fit``.

    Args:
        monitor: Name of the value: ``"loss"`` or a metric. Default: ``"loss"``.
        mode: ``"min"`` if the value should decrease, ``"max"`` if it should increase; ``"auto"`` means ``"max"`` if
            ``monitor`` contains ``"acc"``, else ``"min"``. Default: ``"auto"``.
        patience: Number of evaluations in a row without improvement after which the training stops. Default: 0.
        verbose: Print a line when the training stops, unless 0. Default: 1.
        min_delta: Smallest change that counts as an improvement. Default: 0.
        baseline: Value that the first evaluation must improve on. Default: None.
        save_best_model: Save the best model. Default: True.

    Examples:
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
        self.wait_epoch = 0
        self.best_value = self._worst() if self.baseline is None else self.baseline
        self.best_weights = None

    def on_eval_end(self, logs: dict | None = None) -> None:
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
                    path = os.path.abspath(os.path.join(self.save_dir, "best_model"))
                    say(f"Best checkpoint has been saved at {path}")


class ReduceLROnPlateau(_Watching):
    """Callback that lowers the learning rate when a value of the evaluation has stopped improving.

    It needs ``eval_data`` in ``Model.fit`` and an optimizer with a constant learning rate.

    Args:
        monitor: Name of the value: ``"loss"`` or a metric. Default: ``"loss"``.
        factor: Factor on the learning rate, below 1. Default: 0.1.
        patience: Number of evaluations in a row without improvement after which the learning rate is lowered. Default:
            10.
        verbose: Print a line when the learning rate is lowered, unless 0. Default: 1.
        mode: ``"min"`` if the value should decrease, ``"max"`` if it should increase; ``"auto"`` means ``"max"`` if
            ``monitor`` contains ``"acc"``, else ``"min"``. Default: ``"auto"``.
        min_delta: Smallest change that counts as an improvement. Default: 0.0001.
        cooldown: Number of evaluations after a reduction in which a lack of improvement is not counted. Default: 0.
        min_lr: The lowest learning rate. Default: 0.

    Examples:
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
            raise errors.bad(
                "ReduceLROnPlateau(factor)", "a number less than 1", factor, kind=errors.for_number(factor)
            )
        self.factor = factor
        self.patience = patience
        self.verbose = verbose
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.epoch = 0
        self._reset()

    def _reset(self) -> None:
        self.cooldown_counter = self.wait = 0
        self.best = self._worst()

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._reset()

    def in_cooldown(self) -> bool:
        """Return whether evaluations are ignored because the learning rate was lowered only a short while ago.

        Examples:
            >>> bireme.callbacks.ReduceLROnPlateau().in_cooldown()
            False
        """
        return self.cooldown_counter > 0

    def on_eval_end(self, logs: dict | None = None) -> None:
        now = self._look(logs)
        if now is None:
            return
        optimizer = self.model._optimizer
        if isinstance(optimizer._learning_rate, Schedule):
            name = type(optimizer._learning_rate).__name__
            errors.warn(
                f"ReduceLROnPlateau: expected an optimizer with a constant learning rate, got one whose rate {name} sets"
            )
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
