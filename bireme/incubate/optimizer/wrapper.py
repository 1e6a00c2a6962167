"""Base of optimizers that wrap another one: an accumulator and a step count of their own, saved with its state."""

from __future__ import annotations

from typing import Any

from bireme.optimizer.optimizer import Optimizer


class Wrapper(Optimizer):
    """Base class of optimizers that let ``inner_optimizer`` make the steps."""

    _count_name: str  # what the count of steps is called in a checkpoint
    inner_optimizer: Optimizer
    _count: int

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the wrapper and of the inner optimizer."""
        return {**self.inner_optimizer.state_dict(), **super().state_dict(), self._count_name: self._count}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of a wrapper of the same class.

        Args:
            state_dict: What ``state_dict()`` returned.
        """
        own = {self._key(p, self._accumulator_names[0]) for p in self._parameter_list}
        mine = {key: value for key, value in state_dict.items() if key.rpartition("_")[0] in own}
        super().set_state_dict(mine)
        self.inner_optimizer.set_state_dict(
            {key: value for key, value in state_dict.items() if key not in mine and key != self._count_name}
        )
        self._count = int(state_dict.get(self._count_name, 0))
