"""BaseGate: what all gates have."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer

__all__ = ["BaseGate"]


class BaseGate(Layer):
    """What all gates have: numbers of experts, and a loss that grows with uneven use of them.

    Args:
        num_expert: Number of experts of each process.
        world_size: Number of processes that experts are divided among.

    Examples:
        >>> gate = bireme.incubate.distributed.models.moe.BaseGate(2, 4)
        >>> gate.tot_expert, gate.get_loss()
        (8, None)
    """

    def __init__(self, num_expert: int, world_size: int) -> None:
        super().__init__()
        for name, count in (("num_expert", num_expert), ("world_size", world_size)):
            errors.check_integer(f"{type(self).__name__}({name})", count)
            if count < 1:
                raise errors.bad(f"{type(self).__name__}({name})", "a positive number", count)
        self.world_size, self.num_expert = world_size, num_expert
        self.tot_expert = world_size * num_expert
        self.loss: Tensor | None = None

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Choose experts; each gate has its own way.

        Args:
            *inputs: Rows of tokens.
            **kwargs: Options of a gate.

        Returns:
            Weights and indices of the chosen experts.
        """
        raise errors.missing_method(self, "forward")

    def set_loss(self, loss: Tensor | None) -> None:
        """Keep the loss of a call.

        Args:
            loss: The loss.
        """
        self.loss = loss

    def get_loss(self, clear: bool = True) -> Tensor | None:
        """Return the loss of the last call, to be added to that of the model.

        Args:
            clear: Forget it. Default: True.

        Returns:
            The loss; None if there is none.
        """
        loss = self.loss
        if clear:
            self.loss = None
        return loss
