"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.ops.optimizer import updates
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer


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

    def _new(self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]) -> list[Tensor]:
        return updates.sgd_update(params, grads, lr)
