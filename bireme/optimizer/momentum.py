"""Gradient descent with momentum."""

from __future__ import annotations

import numbers
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops.optimizer import updates
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Pairs, Parameters
from bireme.regularizer import L2Decay, WeightDecayRegularizer


class Momentum(Optimizer):
    """Gradient descent with momentum.

    ``velocity = momentum * velocity + gradient`` and ``parameter -= learning_rate * velocity``; with Nesterov's
    momentum ``parameter -= learning_rate * (gradient + momentum * velocity)``.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        momentum: Factor on the velocity of the previous step, a number or a tensor of one element. Default: 0.9.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        use_nesterov: Use Nesterov's momentum. Default: False.
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        rescale_grad: Factor on the gradients, after clipping and before the decay is added. Default: 1.0.
        use_multi_tensor: Has no effect: the parameters of a group are always updated together.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> momentum = bireme.optimizer.Momentum(0.25, momentum=0.5, parameters=[w])
        >>> for _ in range(2):
        ...     (w * 2.0).backward()
        ...     momentum.step()
        ...     momentum.clear_grad()
        >>> w.tolist()
        [-0.25]
    """

    _accumulator_names = (_velocity_acc_str,) = ("velocity",)

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        momentum: float | Tensor = 0.9,
        parameters: Parameters | None = None,
        use_nesterov: bool = False,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ):
        if not isinstance(momentum, (numbers.Real, Tensor)):
            raise errors.bad("Momentum(momentum)", "a number", momentum, kind=errors.ArgumentTypeError)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._momentum: float | Tensor = momentum
        self._use_nesterov, self._rescale_grad = bool(use_nesterov), rescale_grad
        self._multi_precision = multi_precision

    @property
    def _regularization_coeff(self) -> float | Tensor:
        """The coefficient of L2 decay by its name in Paddle, where programs change it between steps."""
        decay = self.regularization
        return decay._coeff if type(decay) is L2Decay else 0.0

    @_regularization_coeff.setter
    def _regularization_coeff(self, coeff: float | Tensor) -> None:
        self.regularization = L2Decay(coeff)

    def _hand_down_decay(self, p: Any, decay: Any) -> None:
        # L2 decay is part of the rule in Paddle, so another optimizer of the same parameter does not see it
        p.regularizer = None if type(decay) is L2Decay else decay

    def _decayed(self, group: dict, pairs: Pairs) -> Pairs:
        factor = group.get("rescale_grad", self._rescale_grad)
        if factor != 1.0:
            pairs = [(p, g * factor) for p, g in pairs]
        return super()._decayed(group, pairs)

    def _decay_inside(self, group: dict) -> Any:
        decay = group["weight_decay"]
        return decay if type(decay) is L2Decay else None

    def _update(self, group: dict, pairs: Pairs) -> None:
        nesterov = bool(group.get("use_nesterov", self._use_nesterov))
        for lr, slots, grads in self._by_rate(group, pairs):
            coeff, decays = self._decays(group, slots)
            new = updates.momentum_update(
                [slot.target for slot in slots],
                grads,
                [slot.state["velocity"] for slot in slots],
                lr,
                group.get("momentum", self._momentum),
                coeff,
                use_nesterov=nesterov,
                decays=decays,
            )
            self._store(slots, new, self._accumulator_names)
