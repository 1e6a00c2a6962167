"""Rules that adapt to past gradients: Adagrad, Adadelta, RMSProp, Adamax, Rprop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops.optimizer import update_variants
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Parameters
from bireme.regularizer import WeightDecayRegularizer


class Adagrad(Optimizer):
    """Adagrad: divides by the root of the sum of all squared gradients so far.

    ``sum += gradient ** 2`` and ``parameter -= learning_rate * gradient / (sqrt(sum) + epsilon)``.

    Args:
        learning_rate: A float or an ``LRScheduler``.
        epsilon: Added to the denominator, so that it is never 0. Default: 1e-06.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        name: Becomes part of the keys of ``state_dict()``. Default: None.
        initial_accumulator_value: Initial value of the sum. Default: 0.0.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.Adagrad(0.5, parameters=[w]).step()
        >>> round(w.item(), 4)
        0.5
    """

    _accumulator_names = ("moment",)

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float = 1e-06,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ):
        _given("Adagrad", learning_rate=learning_rate, epsilon=epsilon)
        not_negative("Adagrad", epsilon=epsilon, initial_accumulator_value=initial_accumulator_value)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon, self.initial_accumulator_value = epsilon, initial_accumulator_value

    def _initial(self, p: Tensor, name: str) -> np.ndarray:
        return super()._initial(p, name) + np.asarray(self.initial_accumulator_value, self._state_dtype(p).np)

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        return update_variants.adagrad_update(params, grads, *states, lr, group.get("epsilon", self._epsilon))


class Adadelta(Optimizer):
    """Adadelta: scales each step by the root mean square of past updates over that of past gradients.

    ``update = sqrt(mean_square_update + epsilon) / sqrt(mean_square_gradient + epsilon) * gradient`` and
    ``parameter -= learning_rate * update``.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        epsilon: Added under both roots. Default: 1e-06.
        rho: Decay rate of both running means, in [0, 1]. Default: 0.95.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.Adadelta(1.0, epsilon=2.0, rho=0.5, parameters=[w]).step()
        >>> round(w.item(), 4)
        -0.4142
    """

    _accumulator_names = ("_avg_squared_grad", "_avg_squared_update")

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ):
        _given("Adadelta", learning_rate=learning_rate, epsilon=epsilon, rho=rho)
        not_negative("Adadelta", epsilon=epsilon)
        if not 0 <= rho <= 1:
            raise errors.bad("Adadelta(rho)", "a number in [0, 1]", rho, kind=errors.for_number(rho))
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon, self._rho = epsilon, rho

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        numbers = group.get("rho", self._rho), group.get("epsilon", self._epsilon)
        return update_variants.adadelta_update(params, grads, *states, lr, *numbers)


class RMSProp(Optimizer):
    """RMSProp: divides by the root of the running mean of the squared gradients.

    ``mean_square = rho * mean_square + (1 - rho) * gradient ** 2``,
    ``velocity = momentum * velocity + learning_rate * gradient / sqrt(mean_square + epsilon)`` and
    ``parameter -= velocity``. ``epsilon`` is under the root.

    Args:
        learning_rate: A float or an ``LRScheduler``.
        rho: Decay rate of the running mean. Default: 0.95.
        epsilon: Added under the root. Default: 1e-06.
        momentum: Factor on the velocity of the previous step. Default: 0.0.
        centered: Subtract the square of the mean gradient, so that the root is of the variance. Default: False.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.RMSProp(0.5, rho=0.75, epsilon=3.0, parameters=[w]).step()
        >>> w.tolist()
        [0.5]
    """

    _accumulator_names = ("momentum", "mean_square", "mean_grad")

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ):
        _given("RMSProp", learning_rate=learning_rate, rho=rho, epsilon=epsilon, momentum=momentum)
        not_negative("RMSProp", epsilon=epsilon, momentum=momentum, rho=rho)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._rho, self._epsilon, self._momentum, self._centered = rho, epsilon, momentum, bool(centered)

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        numbers = (
            group.get("rho", self._rho),
            group.get("momentum", self._momentum),
            group.get("epsilon", self._epsilon),
        )
        return update_variants.rmsprop_update(
            params, grads, *states, lr, *numbers, bool(group.get("centered", self._centered))
        )


class Adamax(Optimizer):
    """Adamax: Adam with a decaying maximum of the gradients in place of the root mean square.

    ``m = beta1 * m + (1 - beta1) * gradient``, ``u = max(abs(gradient), beta2 * u + epsilon)`` and
    ``parameter -= learning_rate / (1 - beta1 ** t) * m / u`` at step ``t``.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        beta1: Decay rate of the first moment, in [0, 1). Default: 0.9.
        beta2: Decay rate of the maximum, in [0, 1). Default: 0.999.
        epsilon: Added to the decayed maximum, so that it is never 0. Default: 1e-08.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.Adamax(0.5, parameters=[w]).step()
        >>> round(w.item(), 4)
        0.5
    """

    _accumulator_names = ("moment", "inf_norm", "beta1_pow_acc")

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ):
        _given("Adamax", learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        between("Adamax", beta1=beta1, beta2=beta2)
        not_negative("Adamax", epsilon=epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def _initial(self, p: Tensor, name: str) -> np.ndarray:
        if name != "beta1_pow_acc":
            return super()._initial(p, name)
        return np.full([1], float(self._beta_of(p)), self._state_dtype(p).np)

    def _beta_of(self, p: Tensor) -> float:
        return next(
            (g.get("beta1", self._beta1) for g in self._param_groups if any(q is p for q in g["params"])), self._beta1
        )

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        numbers = group.get("beta1", self._beta1), group.get("beta2", self._beta2), group.get("epsilon", self._epsilon)
        return update_variants.adamax_update(params, grads, *states, lr, *numbers)


class Rprop(Optimizer):
    """Rprop: uses only the signs of the gradients, with a learning rate for each element.

    Where the sign of the gradient is that of the last step, the learning rate of the element is multiplied by
    ``etas[1]``; where it has changed, by ``etas[0]``, and the element does not move. Made for full batches: with small
    batches, signs change by chance.

    Args:
        learning_rate: Initial learning rate of all elements, a float or an ``LRScheduler``, of which only the current
            value is used. Default: 0.001.
        learning_rate_range: Smallest and largest learning rate of an element. Default: (1e-05, 50).
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        etas: Factor between 0 and 1 for a changed sign, and factor above 1 for the same sign. Default: (0.5, 1.2).
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> rprop = bireme.optimizer.Rprop(0.25, parameters=[w], etas=(0.5, 2.0))
        >>> for _ in range(2):
        ...     (w * 9.0).backward()
        ...     rprop.step()
        ...     rprop.clear_grad()
        >>> w.tolist()
        [0.25]
    """

    _accumulator_names = ("prevs", "learning_rates")

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        learning_rate_range: Sequence[float] = (1e-05, 50),
        parameters: Parameters | None = None,
        etas: Sequence[float] = (0.5, 1.2),
        grad_clip: ClipGradBase | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        _given("Rprop", learning_rate=learning_rate)
        start = learning_rate() if isinstance(learning_rate, LRScheduler) else learning_rate
        least, most = _pair("Rprop(learning_rate_range)", learning_rate_range)
        if not 0.0 < least <= start <= most:
            raise errors.bad(
                "Rprop(learning_rate_range)", f"0 < least <= learning_rate = {start} <= most", learning_rate_range
            )
        shrink, grow = _pair("Rprop(etas)", etas)
        if not 0.0 < shrink < 1.0 < grow:
            raise errors.bad("Rprop(etas)", "a factor in (0, 1) and one greater than 1", etas)
        super().__init__(learning_rate, parameters, None, grad_clip, name)
        self._start, self._numbers = start, (least, most, shrink, grow)
        self._multi_precision = multi_precision

    def _initial(self, p: Tensor, name: str) -> np.ndarray:
        zeros = super()._initial(p, name)
        return zeros if name == "prevs" else np.full_like(zeros, self._start)

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        return update_variants.rprop_update(params, grads, *states, *self._numbers)


def between(where: str, **betas: Any) -> None:
    """Raise an error for a beta outside [0, 1)."""
    for what, beta in betas.items():
        if not isinstance(beta, (int, float, np.number, Tensor)):
            raise errors.bad(f"{where}({what})", "a number in [0, 1)", beta, kind=errors.ArgumentTypeError)
        if not 0 <= beta < 1:
            raise errors.bad(f"{where}({what})", "a number in [0, 1)", beta, kind=errors.for_number(beta))


def not_negative(where: str, **numbers: Any) -> None:
    """Raise an error for what is not a non-negative number."""
    for what, value in numbers.items():
        if not isinstance(value, (int, float, np.number, Tensor)):
            raise errors.bad(f"{where}({what})", "a non-negative number", value, kind=errors.ArgumentTypeError)
        if not value >= 0:
            raise errors.bad(f"{where}({what})", "a non-negative number", value, kind=errors.for_number(value))


def _pair(where: str, values: Any) -> tuple[Any, Any]:
    if not isinstance(values, (list, tuple, np.ndarray)) or len(values) != 2:
        raise errors.bad(where, "two numbers", values, kind=errors.ArgumentTypeError)
    return values[0], values[1]


def _given(where: str, **settings: Any) -> None:
    for what, value in settings.items():
        if value is None:
            raise errors.bad(f"{where}({what})", "a number", None, kind=errors.ArgumentTypeError)
