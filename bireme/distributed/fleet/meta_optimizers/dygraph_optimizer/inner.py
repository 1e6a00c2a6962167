"""InnerOptimizer: an optimizer around another, which does the work and has all other attributes."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.nn.clip import Pairs


class InnerOptimizer:
    """An optimizer around another; what it does not have itself is the other's."""

    def __init__(self, optimizer: Any, hcg: HybridCommunicateGroup) -> None:
        if not hasattr(optimizer, "step"):
            raise errors.bad(
                f"{type(self).__name__}(optimizer)", "an optimizer", optimizer, kind=errors.MissingAttributeError
            )
        if not isinstance(hcg, HybridCommunicateGroup):
            raise errors.bad(
                f"{type(self).__name__}(hcg)", "a HybridCommunicateGroup", hcg, kind=errors.MissingAttributeError
            )
        self._inner_opt, self._hcg = optimizer, hcg

    def step(self) -> None:
        """Update the parameters."""
        self._step()

    def _step(self, only: set[int] | None = None, skip: Tensor | None = None) -> Pairs:
        return self._inner_opt._step(only, skip)

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Clear the gradients.

        Args:
            set_to_zero: Set them to zero rather than to None. Default: True.
        """
        self._inner_opt.clear_grad(set_to_zero)

    def minimize(self, loss: Any, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None) -> Any:
        """Update the parameters with the gradients that a backward pass has computed.

        Args:
            loss: The loss.
            startup_program: Program that initializes the parameters of a static program. Default: None.
            parameters: Parameters to update. Default: None, those of the optimizer.
            no_grad_set: Tensors without gradients. Default: None.

        Returns:
            An empty list, and the pairs of parameters and gradients.
        """
        if parameters is not None or no_grad_set is not None or startup_program is not None:
            return self._inner_opt.minimize(loss, startup_program, parameters, no_grad_set)
        return [], self._step()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_inner_opt":
            raise AttributeError(name)
        return getattr(self._inner_opt, name)
