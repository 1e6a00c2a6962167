"""Variants of Adam: NAdam and RAdam, which keep running scalars, and LAMB, whose steps scale with the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops.optimizer import update_variants
from bireme.optimizer.adam import Adam
from bireme.optimizer.adaptive import between, not_negative
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Parameters
from bireme.optimizer.states import Slot
from bireme.regularizer import WeightDecayRegularizer


class _Running(Optimizer):
    """Adam's moments with one running scalar or more per parameter.

    In a checkpoint the scalars have the shape of the parameter, as in Paddle.
    """

    _numbers: tuple[str, ...] = ()

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        beta1: float | Tensor,
        beta2: float | Tensor,
        epsilon: float,
        parameters: Parameters | None,
        weight_decay: float | WeightDecayRegularizer | None,
        grad_clip: ClipGradBase | None,
        name: str | None,
    ):
        where = type(self).__name__
        if learning_rate is None or (isinstance(learning_rate, float) and learning_rate < 0):
            raise errors.bad(
                f"{where}(learning_rate)", "a non-negative number", learning_rate, kind=errors.ArgumentTypeError
            )
        between(where, beta1=beta1, beta2=beta2)
        not_negative(where, epsilon=epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def _moments(self, group: dict) -> tuple[Any, Any, Any]:
        return group.get("beta1", self._beta1), group.get("beta2", self._beta2), group.get("epsilon", self._epsilon)

    def _initial(self, p: Tensor, name: str) -> np.ndarray:
        return np.ones([], self._state_dtype(p).np) if name in self._numbers else super()._initial(p, name)

    def _filed(self, slot: Slot, name: str) -> Tensor:
        held = super()._filed(slot, name)
        return held.expand(slot.param.shape) if name in self._numbers else held

    def _loaded(self, where: str, value: Any, p: Tensor, name: str) -> Any:
        if name in self._numbers:
            host = value._host() if isinstance(value, Tensor) else np.asarray(value)
            if list(host.shape) != p.shape:
                raise errors.bad(
                    where, f"shape {p.shape}", described=f"shape {list(host.shape)}", kind=errors.ShapeError
                )
            value = host.reshape(-1)[0] if host.size else self._initial(p, name)
        return super()._loaded(where, value, p, name)


class NAdam(_Running):
    """Adam with Nesterov's momentum.

    The momentum of step ``t`` is ``beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))``, so it grows from half of
    ``beta1`` to ``beta1``.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.002.
        beta1: Decay rate of the first moment, in [0, 1). Default: 0.9.
        beta2: Decay rate of the second moment, in [0, 1). Default: 0.999.
        epsilon: Added to the denominator, so that it is never 0. Default: 1e-08.
        momentum_decay: How fast the momentum approaches ``beta1``. Default: 0.004.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.NAdam(0.5, parameters=[w]).step()
        >>> round(w.item(), 4)
        0.4718
    """

    _numbers = ("momentum_decay_pow", "beta2_pow", "mu_product")
    _accumulator_names = (*_numbers, "moment1", "moment2")

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.002,
        beta1: float | Tensor = 0.9,
        beta2: float | Tensor = 0.999,
        epsilon: float = 1e-08,
        momentum_decay: float = 0.004,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ):
        not_negative("NAdam", momentum_decay=momentum_decay)
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)
        self._momentum_decay = momentum_decay

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        decay = group.get("momentum_decay", self._momentum_decay)
        return update_variants.nadam_update(params, grads, *states, lr, *self._moments(group), decay)


class RAdam(_Running):
    """Rectified Adam: no division by the root mean square in the first steps, while its variance is too large.

    Afterwards the step of Adam is multiplied by a rectification term that approaches 1, which does the work of a
    warm-up.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        beta1: Decay rate of the first moment, in [0, 1). Default: 0.9.
        beta2: Decay rate of the second moment, in [0, 1). Default: 0.999.
        epsilon: Added to the denominator, so that it is never 0. Default: 1e-08.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.RAdam(0.25, parameters=[w]).step()
        >>> round(w.item(), 4)
        0.5
    """

    _numbers = ("beta1_pow", "beta2_pow", "rho")
    _accumulator_names = (*_numbers, "moment1", "moment2")

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Tensor = 0.9,
        beta2: float | Tensor = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ):
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        return update_variants.radam_update(params, grads, *states, lr, *self._moments(group))


class Lamb(Adam):
    """LAMB: the update of Adam, scaled to the norm of each parameter, for large batches.

    ``parameter -= learning_rate * norm(parameter) / norm(r) * r`` with ``r = m_hat / (sqrt(v_hat) + epsilon) +
    lamb_weight_decay * parameter``. Parameters without weight decay are not scaled by their norm either, unless
    ``always_adapt``.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        lamb_weight_decay: Coefficient of the weight decay. Default: 0.01.
        beta1: Decay rate of the first moment, a float in [0, 1) or a tensor of one element. Default: 0.9.
        beta2: Decay rate of the second moment, a float in [0, 1) or a tensor of one element. Default: 0.999.
        epsilon: Added to the denominator, so that it is never 0; a float or a tensor of one element. Default: 1e-06.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        exclude_from_weight_decay_fn: Function that takes a parameter and returns True if it has no weight decay.
            Default: None, all have.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        always_adapt: Scale by the norm where there is no weight decay as well. Default: False.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([2.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.Lamb(0.5, parameters=[w]).step()
        >>> round(w.item(), 4)
        1.0
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float | Tensor = 0.9,
        beta2: float | Tensor = 0.999,
        epsilon: float | Tensor = 1e-06,
        parameters: Parameters | None = None,
        grad_clip: ClipGradBase | None = None,
        exclude_from_weight_decay_fn: Callable[[Tensor], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ):
        if exclude_from_weight_decay_fn is not None and not callable(exclude_from_weight_decay_fn):
            expected = "a function of a parameter, or None"
            raise errors.bad(
                "Lamb(exclude_from_weight_decay_fn)",
                expected,
                exclude_from_weight_decay_fn,
                kind=errors.ArgumentTypeError,
            )
        super().__init__(
            learning_rate,
            beta1,
            beta2,
            epsilon,
            parameters,
            grad_clip=grad_clip,
            multi_precision=multi_precision,
            name=name,
        )
        self._lamb_weight_decay, self._always_adapt = lamb_weight_decay, bool(always_adapt)
        self._spared = exclude_from_weight_decay_fn

    _rule_skips = False

    def _decay_inside(self, group: dict) -> Any:
        return None

    def _stepped(self, group: dict, slots: list[Slot], operands: tuple, ratios: tuple[float, ...]) -> list[Tensor]:
        coeff = group.get("lamb_weight_decay", self._lamb_weight_decay)
        spared = group.get("exclude_from_weight_decay_fn", self._spared)
        decays = tuple(bool(coeff) and not (spared is not None and spared(slot.param)) for slot in slots)
        adapts = tuple(decay or self._always_adapt for decay in decays)
        return update_variants.lamb_update(*operands, coeff, lr_ratios=ratios, decays=decays, adapts=adapts)
