"""Scores: the metrics of a model, counted batch by batch without waiting for the device."""

from __future__ import annotations

from typing import Any

from bireme import metric
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.hapi.batches import arrays, listed

_WAIT = 64  # batches, and MiB of them, that a custom metric may lag behind


class Scores:
    """The metrics of a model, and the batches they have not counted yet."""

    def __init__(self, metrics: Any = None):
        self.metrics: list[Any] = (
            [] if metrics is None else list(metrics) if isinstance(metrics, (list, tuple)) else [metrics]
        )
        for one in self.metrics:
            if not isinstance(one, metric.Metric):
                raise errors.bad("Model.prepare(metrics)", "metrics of bireme.metric", one, kind=errors.ArgumentError)
        self._waiting: list[list[tuple]] = [[] for _ in self.metrics]

    def computed(self, outputs: list, labels: list) -> list[tuple]:
        """Return the arguments of ``update`` for each metric."""
        return [tuple(listed(m.compute(*outputs, *labels))) for m in self.metrics]

    def count(self, found: list[tuple]) -> None:
        """Count a batch without reading it: built-in metrics record it, custom ones get arrays, later."""
        for m, args, waiting in zip(self.metrics, found, self._waiting, strict=True):
            if type(m).update.__module__.startswith(metric.__name__):
                m.update(*args)
            else:
                waiting.append(args)
                if (
                    len(waiting) >= _WAIT
                    or sum(a.nbytes for held in waiting for a in held if isinstance(a, Tensor)) > _WAIT << 20
                ):
                    self.catch_up()

    def count_now(self, found: list[tuple]) -> list[Any]:
        """Count a batch and return the values of the metrics for it."""
        return [m.update(*arrays(args)) for m, args in zip(self.metrics, found, strict=True)]

    def catch_up(self) -> None:
        """Let the custom metrics count all batches so far."""
        for m, waiting in zip(self.metrics, self._waiting, strict=True):
            held = list(waiting)
            waiting.clear()
            for args in held:
                m.update(*arrays(args))

    def reset(self) -> None:
        """Reset all metrics."""
        self.catch_up()
        for m in self.metrics:
            m.reset()

    def names(self) -> list[str]:
        """Return the names of the values."""
        return [name for m in self.metrics for name in listed(m.name())]

    def read(self) -> dict[str, Any]:
        """Return the values by name, over all batches since ``reset``."""
        self.catch_up()
        found: dict[str, Any] = {}
        for m in self.metrics:
            names, value = listed(m.name()), m.accumulate()
            found.update(zip(names, value if len(names) > 1 else [value], strict=True))
        return found
