"""Checkpoint: a run that was killed resumes from its last checkpoint, with the same numbers."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import errors
from bireme.distributed import elastic, world
from bireme.distributed.communication.group import barrier
from bireme.files import checkpoint
from bireme.hapi.callback import Callback, say
from bireme.io import DataLoader


class Checkpoint(Callback):
    """Callback that saves checkpoints, and resumes an interrupted run from the last of them.

    Start the same script again, and ``Model.fit`` continues where the last checkpoint was made. A checkpoint is saved
    after each epoch and every ``every`` steps. It holds the network, the optimizer with its scheduler, the loss scaler,
    the random state and the position in the data, so the losses are those of a run without interruption, to the last
    bit on CPU with ``FLAGS_deterministic``. Metrics count from where the run is resumed. Of several processes the first
    one saves and all resume; with ``distributed.elastic.GlobalBatchSampler`` their number may change in between. Paddle
    has no counterpart.

    Args:
        folder: Directory of the checkpoints.
        every: Number of training steps between two checkpoints. Default: None, only after each epoch.
        keep: Number of newest checkpoints to keep. Default: 3.
        preemption: Where a process gets SIGTERM, save after the step, and end all of them with exit code 101, at which
            the launcher starts them again. Default: False.

    Examples:
        >>> net = bireme.nn.Linear(1, 1)
        >>> model = bireme.Model(net)
        >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = [[bireme.ones([4, 1]), bireme.ones([4, 1])]] * 3
        ...     model.fit(data, epochs=2, verbose=0, callbacks=[bireme.callbacks.Checkpoint(folder, every=2)])
        ...     bireme.callbacks.Checkpoint(folder).saved.steps()
        [3, 5, 6]
    """

    def __init__(self, folder: str | os.PathLike, every: int | None = None, keep: int = 3, preemption: bool = False):
        super().__init__()
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise errors.bad("Checkpoint(every)", "a positive integer or None", every, kind=errors.for_number(every))
        self.folder, self.every, self.keep = os.fspath(folder), every, keep
        self.saved = checkpoint.Checkpoint(self.folder, keep)
        self._epoch = self._done = self._kept = 0
        self._preemption = elastic.Preemption() if preemption else None

    def on_train_begin(self, logs: dict | None = None) -> None:
        model = self.model
        if self._preemption is not None:
            self._preemption.__enter__()
        parts: dict[str, Any] = {"network": model.network, "optimizer": model._optimizer}
        if model._precision.scaler is not None:
            parts["scaler"] = model._precision.scaler
        if isinstance(model._data, DataLoader):
            parts["data"] = model._data
        self.saved = checkpoint.Checkpoint(self.folder, self.keep, **parts)
        self._epoch, self._done = 0, self.saved.resume() or 0
        self._kept = model._before = self._done
        if self._done:
            model._place = (self.saved.extra["epoch"], self.saved.extra["batch"])
            self._epoch = model._place[0]
            if self.params.get("verbose"):
                say(f"going on after {self._done} steps, from {os.path.abspath(self.saved.path(self._done))}")

    def on_epoch_begin(self, epoch: int | None = None, logs: dict | None = None) -> None:
        if (epoch or 0) > self._epoch:  # after the evaluation of the epoch before, which may change the model
            self._epoch = epoch or 0
            self._save(self._epoch, 0)

    def on_train_batch_end(self, step: int, logs: dict | None = None) -> None:
        self._done += 1
        # between two updates the gradients would have to be saved as well: it waits for the next update
        if not self.model._updated:
            return
        asked = self._preemption is not None and self._preemption.asked()
        if asked or (self.every is not None and self._done - self._kept >= self.every):
            self._save(self._epoch, step + 1)
        if asked and self._preemption is not None:
            self._preemption.leave()

    def on_train_end(self, logs: dict | None = None) -> None:
        self._save(self._epoch + 1, 0)
        if self._preemption is not None:
            self._preemption.__exit__()

    def _save(self, epoch: int, step: int) -> None:
        if self._done:
            if world.rank() == 0:
                self.saved.save(self._done, epoch=epoch, batch=step)
            if world.size() > 1:
                barrier()  # who ends now has seen it saved
            self._kept = self._done
