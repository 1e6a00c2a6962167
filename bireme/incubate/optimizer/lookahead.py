"""LookAhead: fast steps of another optimizer, and slow weights that follow them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.incubate.optimizer.wrapper import Wrapper
from bireme.optimizer.optimizer import Optimizer, Pairs


class LookAhead(Wrapper):
    """Lookahead: every ``k`` steps of another optimizer, goes back part of the way to slow weights.

    ``slow += alpha * (parameter - slow)`` and ``parameter = slow``. The slow weights begin as the parameters after the
    first step, as in Paddle.

    Args:
        inner_optimizer: The optimizer that makes the steps.
        alpha: Fraction of the way from the slow weights to the parameters, in [0, 1]. Default: 0.5.
        k: Number of steps between two updates of the slow weights. Default: 5.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> ahead = bireme.incubate.LookAhead(bireme.optimizer.SGD(1.0, parameters=[w]), alpha=0.5, k=2)
        >>> for _ in range(2):
        ...     (w * 1.0).sum().backward()
        ...     ahead.step()
        ...     ahead.clear_grad()
        >>> w.tolist()
        [-0.5]
    """

    _accumulator_names = ("slow",)
    _count_name = "lookahead_step"

    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5, name: str | None = None):
        if not isinstance(inner_optimizer, Optimizer):
            raise errors.bad("LookAhead(inner_optimizer)", "an optimizer", inner_optimizer, kind=errors.ArgumentError)
        if not 0.0 <= alpha <= 1.0:
            raise errors.bad("LookAhead(alpha)", "a number in [0, 1]", alpha, kind=errors.ArgumentError)
        if isinstance(k, bool) or not isinstance(k, int) or k <= 0:
            raise errors.bad("LookAhead(k)", "a positive integer", k, kind=errors.for_integer(k))
        super().__init__(float(alpha), inner_optimizer._parameter_list, name=name)
        self.inner_optimizer, self.alpha, self.k = inner_optimizer, alpha, k
        self._count = 0

    def step(self) -> None:
        """Make a step of the inner optimizer; every ``k``-th call also updates the slow weights."""
        self._step()

    def _step(self, only: set[int] | None = None, skip: Tensor | None = None) -> Pairs:
        pairs = self.inner_optimizer._step(only, skip)
        self._follow(pairs)
        return pairs

    def minimize(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
    ) -> tuple[list, Pairs]:
        """Update the parameters with the gradients that ``loss.backward()`` has left.

        Args:
            loss: The loss tensor; only its type is checked.
            startup_program: Has no effect.
            parameters: Parameters to update. Default: None, all parameters of the optimizer.
            no_grad_set: Parameters, or names of parameters, to leave out. Default: None.

        Returns:
            A tuple of an empty list and the list of ``(parameter, gradient)`` pairs that were used.
        """
        ops, pairs = self.inner_optimizer.minimize(loss, startup_program, parameters, no_grad_set)
        self._follow(pairs)
        return ops, pairs

    @no_grad()
    def _follow(self, pairs: Pairs) -> None:
        self._count += 1
        for p, _ in pairs:
            slot, inner = self._slot(p), self.inner_optimizer._slots.get(id(p))
            slow, fast = slot.state["slow"], p if inner is None else inner.target
            # in Paddle the slow weights begin as the parameters after the first step
            if self._count == 1:
                slow._assign_value(fast.astype(slow.dtype))
            if self._count % self.k == 0:
                new = fast.astype(slow.dtype) * self.alpha + slow * (1.0 - self.alpha)
                slow._assign_value(new)
                for held in (p, fast) if fast is not p else (p,):
                    held._assign_value(new.astype(held.dtype))
