"""Quanters: what simulates quantization in training."""

from bireme.quantization.quanters.abs_max import (
    FakeQuanterChannelWiseAbsMax,
    FakeQuanterChannelWiseAbsMaxLayer,
    FakeQuanterWithAbsMaxObserver,
    FakeQuanterWithAbsMaxObserverLayer,
)

__all__ = [
    "FakeQuanterChannelWiseAbsMax",
    "FakeQuanterChannelWiseAbsMaxLayer",
    "FakeQuanterWithAbsMaxObserver",
    "FakeQuanterWithAbsMaxObserverLayer",
]
