"""ASGD, which averages the last gradients, and Muon, which orthogonalises its updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops import to_tensor
from bireme.ops.optimizer import update_variants
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Parameters
from bireme.regularizer import WeightDecayRegularizer


class ASGD(Optimizer):
    """Gradient descent along the mean of the last ``batch_num`` gradients, all of which are kept.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        batch_num: Number of gradients in the mean. Default: 1.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> asgd = bireme.optimizer.ASGD(0.25, batch_num=2, parameters=[w])
        >>> for slope in (2.0, 4.0):
        ...     (w * slope).backward()
        ...     asgd.step()
        ...     asgd.clear_grad()
        >>> w.tolist()
        [-0.25]
    """

    _accumulator_names = ("d", "y", "m")

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        batch_num: int = 1,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        if learning_rate is None:
            raise errors.bad("ASGD(learning_rate)", "a number", None, kind=errors.for_number(None))
        if batch_num is None or batch_num <= 0:
            raise errors.bad("ASGD(batch_num)", "a positive integer", batch_num, kind=errors.for_number(batch_num))
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._batch_num, self._multi_precision = int(batch_num), multi_precision

    def _initial(self, p: Tensor, name: str) -> np.ndarray:
        if name == "m":
            return np.zeros([1], np.int64)
        return np.zeros([self._batch_num, *p.shape] if name == "y" else p.shape, self._state_dtype(p).np)

    def _loaded(self, where: str, value: Any, p: Tensor, name: str) -> Any:
        loaded = super()._loaded(where, value, p, name)
        return to_tensor(loaded, dtype=dtypes.int64, place=p.place) if name == "m" else loaded

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        return update_variants.asgd_update(params, grads, *states, lr)


class Muon(Optimizer):
    """Muon: momentum whose update matrix has all singular values near 1, for weight matrices of hidden layers.

    Parameters of more than two dimensions, such as convolution kernels, are treated as matrices with one row per output
    channel. Biases, gains, embeddings and the last layer are better updated by ``AdamW``. Paddle has no counterpart.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.02.
        momentum: Factor on the momentum of the previous step. Default: 0.95.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: Coefficient of the decoupled weight decay. Default: 0.0.
        nesterov: Use Nesterov's momentum. Default: True.
        ns_steps: Number of Newton-Schulz iterations that bring the singular values near 1. Default: 5.
        epsilon: Added to the norm that the matrix is divided by. Default: 1e-07.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Raises:
        ValueError: If a parameter has fewer than two dimensions.

    Examples:
        >>> w = bireme.to_tensor([[3.0, 0.0], [0.0, 3.0]], stop_gradient=False)
        >>> (w * bireme.to_tensor([[9.0, 0.0], [0.0, 9.0]])).sum().backward()
        >>> bireme.optimizer.Muon(1.0, parameters=[w], weight_decay=0.0).step()
        >>> [abs(x - 2.0) < 0.4 for x in w.diag().tolist()]
        [True, True]
    """

    _accumulator_names = ("momentum",)

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.02,
        momentum: float = 0.95,
        parameters: Parameters | None = None,
        weight_decay: float = 0.0,
        nesterov: bool = True,
        ns_steps: int = 5,
        epsilon: float = 1e-07,
        grad_clip: ClipGradBase | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        for p in self._parameter_list:
            if p.ndim < 2:
                raise errors.bad(
                    "Muon(parameters)",
                    "matrices",
                    described=f"{p.name} of shape {p.shape}",
                    hint="give the others to AdamW",
                )
        if isinstance(ns_steps, bool) or not isinstance(ns_steps, int) or ns_steps < 1:
            raise errors.bad("Muon(ns_steps)", "a positive integer", ns_steps, kind=errors.for_number(ns_steps))
        self._momentum, self._nesterov, self._ns_steps, self._epsilon = momentum, bool(nesterov), ns_steps, epsilon
        self._multi_precision = multi_precision

    def _regularizer(self, decay: Any, what: str) -> Any:
        """Decoupled decay is a number, not a term of the gradient."""
        if isinstance(decay, bool) or not isinstance(decay, (int, float)):
            raise errors.bad(f"Muon({what})", "a number", decay, kind=errors.ArgumentTypeError)
        return decay

    def _decay_of(self, group: dict, p: Tensor) -> Any:
        return getattr(p, "regularizer", None)

    def _hand_down_decay(self, p: Any, decay: Any) -> None:
        """A number is no decay that a parameter could have."""

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        numbers = lr, group.get("momentum", self._momentum), group.get("epsilon", self._epsilon), group["weight_decay"]
        return update_variants.muon_update(
            params, grads, *states, *numbers, nesterov=self._nesterov, steps=self._ns_steps
        )
