"""Learning rate schedules: plain Python, stepped by the user, read by the optimizer at each step."""

from bireme.optimizer.cycles import (
    CosineAnnealingDecay,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    LinearLR,
    LinearWarmup,
    OneCycleLR,
    ReduceOnPlateau,
)
from bireme.optimizer.decays import (
    ExponentialDecay,
    InverseTimeDecay,
    LambdaDecay,
    MultiplicativeDecay,
    MultiStepDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    StepDecay,
)
from bireme.optimizer.legacy_schedules import cosine_decay as cosine_decay
from bireme.optimizer.legacy_schedules import exponential_decay as exponential_decay
from bireme.optimizer.legacy_schedules import inverse_time_decay as inverse_time_decay
from bireme.optimizer.legacy_schedules import linear_lr_warmup as linear_lr_warmup
from bireme.optimizer.legacy_schedules import natural_exp_decay as natural_exp_decay
from bireme.optimizer.legacy_schedules import noam_decay as noam_decay
from bireme.optimizer.legacy_schedules import piecewise_decay as piecewise_decay
from bireme.optimizer.legacy_schedules import polynomial_decay as polynomial_decay
from bireme.optimizer.schedule import LRScheduler

__all__ = [
    "LRScheduler", "NoamDecay", "PiecewiseDecay", "NaturalExpDecay", "InverseTimeDecay", "PolynomialDecay",
    "LinearWarmup", "ExponentialDecay", "MultiStepDecay", "StepDecay", "LambdaDecay", "ReduceOnPlateau",
    "CosineAnnealingDecay", "MultiplicativeDecay", "OneCycleLR", "CyclicLR", "LinearLR", "CosineAnnealingWarmRestarts",
]  # fmt: skip
