"""Optimizers and learning rate schedules."""

from bireme.optimizer import lr
from bireme.optimizer.adam import Adam, AdamW
from bireme.optimizer.adaptive import Adadelta, Adagrad, Adamax, RMSProp, Rprop
from bireme.optimizer.averaged import ASGD, Muon
from bireme.optimizer.lbfgs import LBFGS
from bireme.optimizer.momentum import Momentum
from bireme.optimizer.optimizer import Optimizer
from bireme.optimizer.sgd import SGD
from bireme.optimizer.variants import Lamb, NAdam, RAdam

__all__ = [
    "lr", "Optimizer", "SGD", "Momentum", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "RMSProp", "Rprop",
    "ASGD", "Lamb", "NAdam", "RAdam", "LBFGS", "Muon",
]  # fmt: skip
