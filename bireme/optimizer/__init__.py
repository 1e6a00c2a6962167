"""Optimizers and learning rate schedules."""

from bireme.optimizer import lr
from bireme.optimizer.adam import Adam, AdamW
from bireme.optimizer.momentum import Momentum
from bireme.optimizer.optimizer import Optimizer
from bireme.optimizer.sgd import SGD

__all__ = ["lr", "Optimizer", "SGD", "Momentum", "Adam", "AdamW"]
