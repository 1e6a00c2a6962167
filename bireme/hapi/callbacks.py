"""All callbacks, and which of them a run has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bireme.hapi.callback import Callback, CallbackList, EarlyStopping, LRScheduler, ModelCheckpoint, ReduceLROnPlateau
from bireme.hapi.curve import TrainingCurve
from bireme.hapi.progressbar import ProgBarLogger, ProgressBar
from bireme.hapi.recorders import TensorBoard, VisualDL, WandbCallback
from bireme.hapi.resume import Checkpoint

__all__ = [
    "Callback", "CallbackList", "Checkpoint", "EarlyStopping", "LRScheduler", "ModelCheckpoint", "ProgBarLogger",
    "ProgressBar", "ReduceLROnPlateau", "TensorBoard", "TrainingCurve", "VisualDL", "WandbCallback", "config_callbacks",
]  # fmt: skip


def config_callbacks(
    callbacks: Callback | Iterable[Callback] | None = None,
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
    """Return the callbacks of a run: those given, and the default ones of which no other is given.

    The default ones show the progress, step the learning rate scheduler and save the model. A ``Checkpoint`` comes
    last, so that it saves the state after everything else.

    Args:
        callbacks: A callback or a list of them. Default: None.
        model: The ``Model``. Default: None.
        batch_size: Number of samples per batch, for ``params`` of the callbacks. Default: None.
        epochs: Number of epochs. Default: None.
        steps: Number of batches per epoch. Default: None.
        log_freq: Number of batches between two lines of progress. Default: 2.
        verbose: How progress is shown; 0 for not at all. Default: 2.
        save_freq: Number of epochs between two saved models. Default: 1.
        save_dir: Directory of the saved models. Default: None, nothing is saved.
        metrics: Names of the values in ``logs``. Default: None.
        mode: ``"train"``, ``"eval"`` or ``"predict"``. Default: ``"train"``.

    Returns:
        A ``CallbackList``.

    Examples:
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
    found.set_params(
        {"batch_size": batch_size, "epochs": epochs, "steps": steps, "verbose": verbose, "metrics": metrics or []}
    )
    return found
