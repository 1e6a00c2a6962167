"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from bireme.ops import update
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Pairs


class SGD(Optimizer):
    """`parameter -= learning_rate * gradient`.

    >>> w = bireme.to_tensor([1.0], stop_gradient=False)
    >>> (w * 2.0).backward()
    >>> bireme.optimizer.SGD(0.25, parameters=[w]).step()
    >>> w.tolist()
    [0.5]
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._multi_precision = multi_precision

    def _update(self, group: dict, pairs: Pairs) -> None:
        for lr, slots, grads in self._by_rate(group, pairs):
            self._store(slots, update.sgd_update([slot.target for slot in slots], grads, lr))
