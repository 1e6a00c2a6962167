"""Variants of Adam that keep running numbers: NAdam and RAdam; and LAMB, whose steps are as large as the parameters allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops.optimizer import update_variants
from bireme.optimizer.adam import Adam
from bireme.optimizer.adaptive import between, not_negative
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer
from bireme.optimizer.states import Slot


class _Running(Optimizer):
    """Adam's moments beside running numbers. A number is held once a parameter; in a checkpoint it has the parameter's shape, as in Paddle."""

    _numbers: tuple[str, ...] = ()

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        beta1: float | Tensor,
        beta2: float | Tensor,
        epsilon: float,
        parameters: Any,
        weight_decay: Any,
        grad_clip: Any,
        name: str | None,
    ):
        where = type(self).__name__
        if learning_rate is None or (isinstance(learning_rate, float) and learning_rate < 0):
            raise errors.bad(f"{where}(learning_rate)", "a number of 0 or more", learning_rate, kind=errors.WrongType)
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
                raise errors.bad(where, f"shape {p.shape}", f"shape {list(host.shape)}")
            value = host.reshape(-1)[0] if host.size else self._initial(p, name)
        return super()._loaded(where, value, p, name)


class NAdam(_Running):
    """Adam that looks a step ahead, with Nesterov's momentum.

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
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        not_negative("NAdam", momentum_decay=momentum_decay)
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)
        self._momentum_decay = momentum_decay

    def _new(self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]) -> list[Tensor]:
        decay = group.get("momentum_decay", self._momentum_decay)
        return update_variants.nadam_update(params, grads, *states, lr, *self._moments(group), decay)


class RAdam(_Running):
    """Adam that does without the mean square for the first steps, while it is too uncertain, and trusts it little by little.

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
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)

    def _new(self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]) -> list[Tensor]:
        return update_variants.radam_update(params, grads, *states, lr, *self._moments(group))


class Lamb(Adam):
    """Adam's direction with steps in proportion to the norm of each parameter, for large batches.

    `exclude_from_weight_decay_fn` takes a parameter and says whether it is spared the decay. What has no decay is not
    scaled by its norm either, unless `always_adapt`.

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
        parameters: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Tensor], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ):
        if exclude_from_weight_decay_fn is not None and not callable(exclude_from_weight_decay_fn):
            expected = "a function of a parameter, or None"
            raise errors.bad("Lamb(exclude_from_weight_decay_fn)", expected, exclude_from_weight_decay_fn, kind=TypeError)
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, grad_clip=grad_clip, multi_precision=multi_precision, name=name)
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
