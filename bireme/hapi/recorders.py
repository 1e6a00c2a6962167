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
    """Base of callbacks that keep numbers: `scalar(tag, value, step)` is called for each, with training steps or epochs for steps.

    Losses and rates are kept for each step, metrics for each tenth; they are read from the device only then, so that a step waits for nothing.
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
        """Keep one number; written by each."""
        raise NotImplementedError  # each recorder writes its own

    def put_down(self) -> None:
        """Called when a row of numbers is complete."""

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Note how long it will be."""
        self.epochs, self.steps = self.params.get("epochs"), self.params.get("steps")
        self._in_training = True

    def on_epoch_begin(self, epoch: int | None = None, logs: dict | None = None) -> None:
        """Note the epoch, and the steps that a run made before it was interrupted."""
        self.epoch = epoch or 0
        self._done = self._done or getattr(self.model, "_before", 0)

    def on_train_batch_end(self, step: int, logs: dict | None = None) -> None:
        """Keep the step's loss; read the losses so far and the metrics every tenth step."""
        self._done += 1
        losses, optimizer = getattr(logs, "losses", None), getattr(self.model, "_optimizer", None)
        rate = None if optimizer is None else float(optimizer.get_lr())
        self._unread.append((self._done, losses if losses is not None else (logs or {}).get("loss", []), rate))
        if self._done % _EVERY == 0:
            self._row(logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Read what was not read yet."""
        self._row(logs)

    def on_eval_begin(self, logs: dict | None = None) -> None:
        """Nothing is kept of the single batches."""

    def on_eval_end(self, logs: dict | None = None) -> None:
        """Keep loss and metrics of an evaluation, by epoch; by number where it stands alone."""
        where = self.epoch if self._in_training else self._done
        for name, value in _numbers(logs):
            self.scalar(f"eval/{name}", value, where)
        self.put_down()

    def on_train_end(self, logs: dict | None = None) -> None:
        """The run is over."""
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
        if name not in _OTHER and isinstance(value, (int, float, np.number, np.ndarray, Tensor, list)) and np.size(value):
            yield name, _value(value)


class TensorBoard(Recorder):
    """Writes loss, metrics and learning rate to files in `log_dir`; `tensorboard --logdir LOG_DIR` shows them.

    With `histograms`, how the parameters are spread is written after each epoch. `writer` is an EventWriter for numbers of your own.

    >>> net = bireme.nn.Linear(1, 1)
    >>> model = bireme.Model(net)
    >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
    >>> board = bireme.callbacks.TensorBoard("/tmp/bireme_example_logs")
    >>> model.fit([[bireme.ones([4, 1]), bireme.ones([4, 1])]], verbose=0, callbacks=[board])
    >>> import os; os.path.getsize(board.writer.path) > 100
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
        """Write one number; an evaluation belongs to the training step it was made at, so that its curve lies over the other."""
        self._open().add_scalar(tag, value, self._done if tag.startswith("eval/") else step)

    def put_down(self) -> None:
        """Flush."""
        if self.writer is not None and not self.writer.closed:
            self.writer.flush()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Read what was not read yet, and write histograms if they are wanted."""
        super().on_epoch_end(epoch, logs)
        if self.histograms:
            for name, p in self.model.network.named_parameters():
                self._open().add_histogram(name, p, self._done)
            self.put_down()

    def on_train_end(self, logs: dict | None = None) -> None:
        """Close the file."""
        super().on_train_end(logs)
        if self.writer is not None:
            self.writer.close()


class VisualDL(Recorder):
    """Writes loss, metrics and learning rate to a log in `log_dir`; `visualdl --logdir LOG_DIR` shows them.

    >>> bireme.callbacks.VisualDL("/tmp/bireme_example_logs").log_dir
    '/tmp/bireme_example_logs'
    """

    def __init__(self, log_dir: str):
        super().__init__()
        self.log_dir = log_dir
        self._writer: Any = None

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Write one number."""
        if self._writer is None:
            self._writer = _visualdl(self.log_dir)
        self._writer.add_scalar(tag=tag, value=value, step=step)

    def on_train_end(self, logs: dict | None = None) -> None:
        """Close the log."""
        super().on_train_end(logs)
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _visualdl(log_dir: str) -> Any:
    """VisualDL's own writer where it is installed, else ours, which writes the same files."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("visualdl").LogWriter(log_dir)
    return RecordWriter(log_dir)


class WandbCallback(Recorder):
    """Sends loss, metrics and learning rate to Weights & Biases; what it does not know goes to `wandb.init`.

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
            raise ImportError("WandbCallback: expected the package wandb, which is not installed; `pip install wandb` installs it") from None
        given = {"project": project, "entity": entity, "name": name, "dir": dir, "mode": mode, "job_type": job_type}
        self.wandb_args = {k: v for k, v in given.items() if v is not None} | kwargs
        self._run: Any = None
        self._figures: dict[int, dict[str, float]] = {}

    @property
    def run(self) -> Any:
        """The run that numbers go to: the one that is open, or a new one."""
        if self._run is None:
            if self.wandb.run is not None:
                errors.warn("WandbCallback: a run is open already; its numbers go there, and the arguments given here are not used")
                self._run = self.wandb.run
            else:
                if self.wandb_args.get("dir"):
                    os.makedirs(self.wandb_args["dir"], exist_ok=True)
                self._run = self.wandb.init(**self.wandb_args)
        return self._run

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Open the run."""
        super().on_train_begin(logs)
        _ = self.run

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Note the epoch."""
        super().on_epoch_begin(epoch, logs)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Keep a number until its row is complete."""
        self._figures.setdefault(self._done if tag.startswith("eval/") else step, {})[tag] = value

    def put_down(self) -> None:
        """Send the rows."""
        for step, figures in sorted(self._figures.items()):
            self.run.log({**figures, "epoch": self.epoch}, step=step)
        self._figures = {}

    def on_train_end(self, logs: dict | None = None) -> None:
        """Close the run."""
        super().on_train_end(logs)
        if self._run is not None:
            self._run.finish()
            self._run = None
