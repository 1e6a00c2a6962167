"""What may still change: functional derivatives, optimizers around optimizers."""

from bireme.incubate import autograd, optimizer
from bireme.incubate.optimizer import LookAhead, ModelAverage

__all__ = ["autograd", "optimizer", "LookAhead", "ModelAverage"]
