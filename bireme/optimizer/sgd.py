"""Stochastic gradient descent."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops.optimizer import updates
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Parameters
from bireme.regularizer import WeightDecayRegularizer


class SGD(Optimizer):
    """Stochastic gradient descent: ``parameter -= learning_rate * gradient``.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.SGD(0.25, parameters=[w]).step()
        >>> w.tolist()
        [0.5]
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._multi_precision = multi_precision

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        return updates.sgd_update(params, grads, lr)
