"""All callbacks, and which of them a run has."""

from __future__ import annotations

from typing import Any

from bireme.hapi.callback import Callback, CallbackList, EarlyStopping, LRScheduler, ModelCheckpoint, ReduceLROnPlateau
from bireme.hapi.curve import TrainingCurve
from bireme.hapi.progressbar import ProgBarLogger, ProgressBar
from bireme.hapi.recorders import TensorBoard, VisualDL, WandbCallback
from bireme.hapi.resume import Checkpoint

__all__ = [
    "Callback", "CallbackList", "Checkpoint", "EarlyStopping", "LRScheduler", "ModelCheckpoint", "ProgBarLogger", "ProgressBar",
    "ReduceLROnPlateau", "TensorBoard", "TrainingCurve", "VisualDL", "WandbCallback", "config_callbacks",
]  # fmt: skip


def config_callbacks(
    callbacks: Any = None,
    model: Any = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    log_freq: int = 2,
    verbose: int = 2,
    save_freq: int = 1,
    save_dir: str | None = None,
    metrics: list[str] | None = None,
    mode: str = "train",
) -> CallbackList:
    """The callbacks of a run: those given, and progress, schedule and saving unless one of that kind is among them.

    A Checkpoint comes last, so that what it keeps is the state after everything else.

    >>> from bireme.hapi.callbacks import config_callbacks
    >>> [type(c).__name__ for c in config_callbacks(save_dir="a")]
    ['ProgBarLogger', 'LRScheduler', 'ModelCheckpoint']
    """
    given = CallbackList(callbacks).callbacks

    def lacks(kind: type) -> bool:
        return not any(isinstance(c, kind) for c in given)

    chosen = [*([ProgBarLogger(log_freq, verbose)] if verbose and lacks(ProgBarLogger) else []), *given]
    if mode == "train":
        chosen += [LRScheduler()] if lacks(LRScheduler) else []
        chosen += [ModelCheckpoint(save_freq, save_dir)] if lacks(ModelCheckpoint) else []
        for one in given:
            if isinstance(one, EarlyStopping):
                one.save_dir = save_dir
    found = CallbackList(sorted(chosen, key=lambda c: isinstance(c, Checkpoint)))
    found.set_model(model)
    found.set_params({"batch_size": batch_size, "epochs": epochs, "steps": steps, "verbose": verbose, "metrics": metrics or []})
    return found
