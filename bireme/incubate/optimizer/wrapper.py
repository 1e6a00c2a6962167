"""What optimizers around another optimizer share: one accumulator of their own, a count of steps, and a checkpoint of both."""

from __future__ import annotations

from typing import Any

from bireme.optimizer.optimizer import Optimizer


class Around(Optimizer):
    """An optimizer that lets `inner_optimizer` make the steps."""

    _count_name: str  # what the count of steps is called in a checkpoint
    inner_optimizer: Optimizer
    _count: int

    def state_dict(self) -> dict[str, Any]:
        """Its own accumulator and the steps made, with the state of the inner optimizer."""
        return {**self.inner_optimizer.state_dict(), **super().state_dict(), self._count_name: self._count}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        own = {self._key(p, self._accumulator_names[0]) for p in self._parameter_list}
        mine = {key: value for key, value in state_dict.items() if key.rpartition("_")[0] in own}
        super().set_state_dict(mine)
        self.inner_optimizer.set_state_dict({key: value for key, value in state_dict.items() if key not in mine and key != self._count_name})
        self._count = int(state_dict.get(self._count_name, 0))
