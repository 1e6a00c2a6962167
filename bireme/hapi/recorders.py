"""Callbacks that keep the numbers of a run for a viewer: TensorBoard, VisualDL, Weights & Biases."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.hapi.callback import Callback
from bireme.hapi.log_writer import EventWriter, RecordWriter

_EVERY = 10  # steps between two readings of the metrics
_OTHER = ("step", "batch_size")


class Recorder(Callback):
    """Base class of callbacks that record numbers: each calls ``scalar`` with a tag, a value and a step.

    Losses and learning rates are recorded for each step, metrics for each tenth; they are read from the device only
    every tenth step, so that no step waits for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epochs: int | None = None
        self.steps: int | None = None
        self.epoch = 0
        self._done = 0  # training steps, over all epochs
        self._unread: list[tuple[int, list[Any], float | None]] = []
        self._in_training = False

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Record one number; each subclass implements it.

        Args:
            tag: Name of the curve, such as ``"train/loss"``.
            value: The number.
            step: Number of training steps so far; the epoch for values of an evaluation.
        """
        raise NotImplementedError  # each recorder writes its own

    def put_down(self) -> None:
        """Called when all numbers of a step have been recorded."""

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.epochs, self.steps = self.params.get("epochs"), self.params.get("steps")
        self._in_training = True

    def on_epoch_begin(self, epoch: int | None = None, logs: dict | None = None) -> None:
        self.epoch = epoch or 0
        # the steps of a resumed run before its interruption
        self._done = self._done or getattr(self.model, "_before", 0)

    def on_train_batch_end(self, step: int, logs: dict | None = None) -> None:
        self._done += 1
        losses, optimizer = getattr(logs, "losses", None), getattr(self.model, "_optimizer", None)
        rate = None if optimizer is None else float(optimizer.get_lr())
        self._unread.append((self._done, losses if losses is not None else (logs or {}).get("loss", []), rate))
        if self._done % _EVERY == 0:
            self._row(logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._row(logs)

    def on_eval_end(self, logs: dict | None = None) -> None:
        where = self.epoch if self._in_training else self._done
        for name, value in _numbers(logs):
            self.scalar(f"eval/{name}", value, where)
        self.put_down()

    def on_train_end(self, logs: dict | None = None) -> None:
        self._in_training = False
        self.put_down()

    def _row(self, logs: dict | None) -> None:
        unread, self._unread = self._unread, []
        for step, losses, rate in unread:
            for i, loss in enumerate(losses if isinstance(losses, (list, tuple)) else [losses]):
                self.scalar(f"train/loss{i or ''}", _value(loss), step)
            if rate is not None:
                self.scalar("train/lr", rate, step)
        if unread:
            for name, value in _numbers(logs):
                if name != "loss":
                    self.scalar(f"train/{name}", value, self._done)
        self.put_down()


def _value(x: Any) -> float:
    return float(np.ravel(x._host() if isinstance(x, Tensor) else x)[0])


def _numbers(logs: dict | None) -> Iterator[tuple[str, float]]:
    for name, value in (logs or {}).items():
        if (
            name not in _OTHER
            and isinstance(value, (int, float, np.number, np.ndarray, Tensor, list))
            and np.size(value)
        ):
            yield name, _value(value)


class TensorBoard(Recorder):
    """Callback that writes loss, metrics and learning rate to a log for TensorBoard.

    ``tensorboard --logdir LOG_DIR`` shows it; writing it needs no package. Other values can be added to ``writer``, an
    ``EventWriter``. Paddle has no counterpart.

    Args:
        log_dir: Directory of the log.
        histograms: Write a histogram of each parameter after each epoch. Default: False.

    Examples:
        >>> net = bireme.nn.Linear(1, 1)
        >>> model = bireme.Model(net)
        >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     board = bireme.callbacks.TensorBoard(folder)
        ...     model.fit([[bireme.ones([4, 1]), bireme.ones([4, 1])]], verbose=0, callbacks=[board])
        ...     os.path.getsize(board.writer.path) > 100
        True
    """

    def __init__(self, log_dir: str, histograms: bool = False):
        super().__init__()
        self.log_dir, self.histograms = log_dir, histograms
        self.writer: Any = None

    def _open(self) -> Any:
        if self.writer is None or self.writer.closed:
            self.writer = EventWriter(self.log_dir)
        return self.writer

    def scalar(self, tag: str, value: float, step: int) -> None:
        # an evaluation belongs to the training step it was made at, so that both curves have one axis
        self._open().add_scalar(tag, value, self._done if tag.startswith("eval/") else step)

    def put_down(self) -> None:
        """Flush the log."""
        if self.writer is not None and not self.writer.closed:
            self.writer.flush()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.histograms:
            for name, p in self.model.network.named_parameters():
                self._open().add_histogram(name, p, self._done)
            self.put_down()

    def on_train_end(self, logs: dict | None = None) -> None:
        super().on_train_end(logs)
        if self.writer is not None:
            self.writer.close()


class VisualDL(Recorder):
    """Callback that writes loss, metrics and learning rate to a log for VisualDL.

    ``visualdl --logdir LOG_DIR`` shows it. The package ``visualdl`` is used where it is installed; without it the same
    files are written.

    Args:
        log_dir: Directory of the log.

    Examples:
        >>> bireme.callbacks.VisualDL("logs").log_dir
        'logs'
    """

    def __init__(self, log_dir: str):
        super().__init__()
        self.log_dir = log_dir
        self._writer: Any = None

    def scalar(self, tag: str, value: float, step: int) -> None:
        if self._writer is None:
            self._writer = _visualdl(self.log_dir)
        self._writer.add_scalar(tag=tag, value=value, step=step)

    def on_train_end(self, logs: dict | None = None) -> None:
        super().on_train_end(logs)
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _visualdl(log_dir: str) -> Any:
    """Return VisualDL's own writer if it is installed, else ours, which writes the same files."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("visualdl").LogWriter(log_dir)
    return RecordWriter(log_dir)


class WandbCallback(Recorder):
    """Callback that sends loss, metrics and learning rate to Weights & Biases; it needs the package ``wandb``.

    The arguments are those of ``wandb.init``. If a run is open already, it is used and they are ignored, with a
    warning.

    Args:
        project: Name of the project. Default: None.
        entity: User or team. Default: None.
        name: Name of the run. Default: None.
        dir: Directory for the files of the run. Default: None.
        mode: ``"online"``, ``"offline"`` or ``"disabled"``. Default: None.
        job_type: Type of the run. Default: None.
        **kwargs: Other arguments of ``wandb.init``.

    Raises:
        ImportError: If ``wandb`` is not installed.

    Examples:
        >>> bireme.callbacks.WandbCallback(project="digits")  # doctest: +SKIP
    """

    def __init__(
        self,
        project: str | None = None,
        entity: str | None = None,
        name: str | None = None,
        dir: str | None = None,
        mode: str | None = None,
        job_type: str | None = None,
        **kwargs: Any,
    ):
        super().__init__()
        try:
            self.wandb = importlib.import_module("wandb")
        except ImportError:
            message = "WandbCallback: expected the package wandb, which is not installed"
            raise errors.failure(message, hint="pip install wandb", kind=ImportError) from None
        given = {"project": project, "entity": entity, "name": name, "dir": dir, "mode": mode, "job_type": job_type}
        self.wandb_args = {k: v for k, v in given.items() if v is not None} | kwargs
        self._run: Any = None
        self._figures: dict[int, dict[str, float]] = {}

    @property
    def run(self) -> Any:
        """The run that numbers are sent to: the one that is open, or a new one."""
        if self._run is None:
            if self.wandb.run is not None:
                errors.warn(
                    "WandbCallback: a run is open already; its numbers go there, "
                    "and the arguments given here are not used"
                )
                self._run = self.wandb.run
            else:
                if self.wandb_args.get("dir"):
                    os.makedirs(self.wandb_args["dir"], exist_ok=True)
                self._run = self.wandb.init(**self.wandb_args)
        return self._run

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        _ = self.run

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:  # type: ignore[override]  # Paddle's
        super().on_epoch_begin(epoch, logs)

    def scalar(self, tag: str, value: float, step: int) -> None:
        self._figures.setdefault(self._done if tag.startswith("eval/") else step, {})[tag] = value

    def put_down(self) -> None:
        """Send the recorded numbers."""
        for step, figures in sorted(self._figures.items()):
            self.run.log({**figures, "epoch": self.epoch}, step=step)
        self._figures = {}

    def on_train_end(self, logs: dict | None = None) -> None:
        super().on_train_end(logs)
        if self._run is not None:
            self._run.finish()
            self._run = None
