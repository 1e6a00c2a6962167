"""Observers: what finds the scales of weights and inputs in the data."""

from bireme.quantization.observers.abs_max import (
    AbsmaxObserver,
    AbsmaxObserverLayer,
    MovingAverageAbsmaxObserver,
    MovingAverageAbsmaxObserverLayer,
)
from bireme.quantization.observers.channel_wise import (
    AbsMaxChannelWiseWeightObserver,
    AbsMaxChannelWiseWeightObserverLayer,
    GroupWiseWeightObserver,
    GroupWiseWeightObserverLayer,
)
from bireme.quantization.observers.histogram import (
    HistObserver,
    HistObserverLayer,
    KLObserver,
    KLObserverLayer,
    MSEObserver,
    MSEObserverLayer,
)

__all__ = [
    "AbsMaxChannelWiseWeightObserver",
    "AbsMaxChannelWiseWeightObserverLayer",
    "AbsmaxObserver",
    "AbsmaxObserverLayer",
    "GroupWiseWeightObserver",
    "GroupWiseWeightObserverLayer",
    "HistObserver",
    "HistObserverLayer",
    "KLObserver",
    "KLObserverLayer",
    "MSEObserver",
    "MSEObserverLayer",
    "MovingAverageAbsmaxObserver",
    "MovingAverageAbsmaxObserverLayer",
]
