"""Callbacks of `Model.fit`: a list of names."""

from bireme.hapi.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LRScheduler,
    ModelCheckpoint,
    ProgBarLogger,
    ReduceLROnPlateau,
    TensorBoard,
    TrainingCurve,
    VisualDL,
    WandbCallback,
)  # fmt: skip

__all__ = [
    "Callback", "Checkpoint", "EarlyStopping", "LRScheduler", "ModelCheckpoint", "ProgBarLogger", "ReduceLROnPlateau",
    "TensorBoard", "TrainingCurve", "VisualDL", "WandbCallback",
]  # fmt: skip
