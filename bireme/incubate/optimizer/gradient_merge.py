"""GradientMergeOptimizer: gradients of several batches, one step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bireme.core.base import errors
from bireme.core.record.flush import close_step
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.incubate.optimizer.wrapper import Wrapper
from bireme.ops import where, zeros_like
from bireme.ops.optimizer.updates import unless_invalid
from bireme.optimizer.optimizer import Optimizer, Pairs


class GradientMergeOptimizer(Wrapper):
    """Accumulates the gradients of several steps and lets another optimizer make one step with them.

    Args:
        inner_optimizer: The optimizer that makes the steps.
        k_steps: Number of calls of ``step`` for one step of ``inner_optimizer``. Default: 1.
        avg: Use the mean of the gradients; if False, their sum. Default: True.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> sgd = bireme.optimizer.SGD(1.0, parameters=[w])
        >>> merge = bireme.incubate.optimizer.GradientMergeOptimizer(sgd, k_steps=2)
        >>> for factor in (1.0, 2.0):
        ...     (w * factor).sum().backward()
        ...     merge.step()
        ...     merge.clear_grad()
        >>> w.tolist()
        [-0.5]
    """

    _accumulator_names = ("gradient_merge",)
    _count_name = "gradient_merge_step"

    def __init__(self, inner_optimizer: Optimizer, k_steps: int = 1, avg: bool = True):
        if not isinstance(inner_optimizer, Optimizer):
            raise errors.bad("GradientMergeOptimizer(inner_optimizer)", "an optimizer", inner_optimizer, kind=errors.ArgumentTypeError)
        if isinstance(k_steps, bool) or not isinstance(k_steps, int) or k_steps <= 0:
            raise errors.bad(
                "GradientMergeOptimizer(k_steps)", "a positive integer", k_steps, kind=errors.for_integer(k_steps)
            )
        super().__init__(1.0, inner_optimizer._parameter_list)
        self.inner_optimizer, self.k_steps, self.avg = inner_optimizer, k_steps, bool(avg)
        self._count = 0

    def step(self) -> None:
        """Accumulate the gradients; every ``k_steps``-th call also updates the parameters."""
        self._step()

    @no_grad()
    def _step(self, only: set[int] | None = None, skip: Tensor | None = None) -> Pairs:
        pairs = [
            (p, p.grad)
            for p in self._parameter_list
            if not p.stop_gradient and p.grad is not None and (only is None or id(p) in only)
        ]
        self._count += 1
        for p, g in pairs:
            merged = self._slot(p).state["gradient_merge"]
            total = merged + g.astype(merged.dtype)
            merged._assign_value(*unless_invalid([merged], [total if skip is None else where(skip, merged, total)]))
        if self._count % self.k_steps:
            close_step()
            return pairs
        sums = [(p, self._slots[id(p)].state["gradient_merge"]) for p in self._parameter_list if id(p) in self._slots]
        scale = 1.0 / self.k_steps if self.avg else 1.0
        self.inner_optimizer._apply([(p, (s * scale).astype(p.dtype)) for p, s in sums])
        for _, s in sums:
            s._assign_value(zeros_like(s))
        return pairs

    def minimize(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
    ) -> tuple[list, Pairs]:
        """Accumulate the gradients that ``loss.backward()`` has left.

        Every ``k_steps``-th call also updates the parameters.

        Args:
            loss: Has no effect.
            startup_program: Has no effect.
            parameters: Parameters whose gradients are used. Default: None, all parameters of the optimizer.
            no_grad_set: Parameters, or names of parameters, to leave out. Default: None.

        Returns:
            A tuple of an empty list and the list of ``(parameter, gradient)`` pairs.
        """
        return [], self._step({id(p) for p in self._wanted(parameters, no_grad_set)})

    def get_lr(self) -> float:
        """Return the learning rate of the inner optimizer."""
        return self.inner_optimizer.get_lr()

    def set_lr(self, value: float) -> None:
        """Set the learning rate of the inner optimizer.

        Args:
            value: The learning rate.
        """
        self.inner_optimizer.set_lr(value)
