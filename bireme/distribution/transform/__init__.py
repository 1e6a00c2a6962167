"""Transforms of random variables: a list of names."""

from bireme.distribution.transform.base import ChainTransform, Transform
from bireme.distribution.transform.base import Type as Type
from bireme.distribution.transform.combined import IndependentTransform, StackTransform
from bireme.distribution.transform.elementwise import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    TanhTransform,
)
from bireme.distribution.transform.vector import ReshapeTransform, SoftmaxTransform, StickBreakingTransform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ChainTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
]
