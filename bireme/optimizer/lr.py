"""Learning rate schedules: plain Python, stepped by the user, read by the optimizer at each step."""

from bireme.optimizer.cycles import CosineAnnealingDecay, CosineAnnealingWarmRestarts, CyclicLR, LinearLR, LinearWarmup, OneCycleLR, ReduceOnPlateau
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
from bireme.optimizer.schedule import LRScheduler

__all__ = [
    "LRScheduler", "NoamDecay", "PiecewiseDecay", "NaturalExpDecay", "InverseTimeDecay", "PolynomialDecay", "LinearWarmup", "ExponentialDecay",
    "MultiStepDecay", "StepDecay", "LambdaDecay", "ReduceOnPlateau", "CosineAnnealingDecay", "MultiplicativeDecay", "OneCycleLR", "CyclicLR",
    "LinearLR", "CosineAnnealingWarmRestarts",
]  # fmt: skip
