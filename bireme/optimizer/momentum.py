"""Gradient descent with momentum."""

from __future__ import annotations

import numbers
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops.optimizer import updates
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Pairs
from bireme.regularizer import L2Decay


class Momentum(Optimizer):
    """`velocity = momentum * velocity + gradient; parameter -= learning_rate * velocity`, or Nesterov's form of it.

    `rescale_grad` is a factor on the gradients. `use_multi_tensor` changes nothing: all parameters of a group are
    updated together anyway.

    >>> w = bireme.to_tensor([1.0], stop_gradient=False)
    >>> (w * 2.0).backward()
    >>> bireme.optimizer.Momentum(0.25, parameters=[w]).step()
    >>> w.tolist()
    [0.5]
    """

    _accumulator_names = (_velocity_acc_str,) = ("velocity",)

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        momentum: float = 0.9,
        parameters: Any = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ):
        if not isinstance(momentum, (numbers.Real, Tensor)):
            raise errors.bad("Momentum(momentum)", "a number", momentum, kind=TypeError)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._momentum, self._use_nesterov, self._rescale_grad = momentum, bool(use_nesterov), rescale_grad
        self._multi_precision = multi_precision

    def _hand_down_decay(self, p: Any, decay: Any) -> None:
        p.regularizer = None if type(decay) is L2Decay else decay  # in Paddle it is part of the rule, and of no other optimizer's

    def _decayed(self, group: dict, pairs: Pairs) -> Pairs:
        factor = group.get("rescale_grad", self._rescale_grad)
        if factor != 1.0:
            pairs = [(p, g * factor) for p, g in pairs]
        return super()._decayed(group, pairs)

    def _new(self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]) -> list[Tensor]:
        nesterov = bool(group.get("use_nesterov", self._use_nesterov))
        return updates.momentum_update(params, grads, *states, lr, group.get("momentum", self._momentum), nesterov)
