"""Optimizers around optimizers: merged gradients, slow weights and averages; and L-BFGS under its older name."""

from bireme.incubate.optimizer import functional
from bireme.incubate.optimizer.average import ModelAverage
from bireme.incubate.optimizer.gradient_merge import GradientMergeOptimizer
from bireme.incubate.optimizer.lookahead import LookAhead
from bireme.optimizer import LBFGS

__all__ = ["functional", "GradientMergeOptimizer", "LBFGS", "LookAhead", "ModelAverage"]
