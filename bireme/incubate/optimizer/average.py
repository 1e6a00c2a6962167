"""ModelAverage: the mean of a parameter over the last steps, to be used in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor
from bireme.optimizer.optimizer import Optimizer
from bireme.optimizer.states import Slot

_COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")
_MOST = 16384  # so many values go into one sum: more would be lost in its rounding


class ModelAverage(Optimizer):
    """Averages the parameters over the last steps, to evaluate or save the average in their place.

    Call ``step`` after each step of the optimizer that trains the parameters. The average covers a window that grows
    with the number of steps: ``average_window_rate`` of them, between ``min_average_window`` and
    ``max_average_window``.

    Args:
        average_window_rate: Length of the window as a fraction of the steps so far.
        parameters: The parameters to average.
        min_average_window: The shortest window, in steps. Default: 10000.
        max_average_window: The longest window, in steps. Default: 10000.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> sgd, mean = bireme.optimizer.SGD(1.0, parameters=[w]), bireme.incubate.ModelAverage(1.0, [w])
        >>> for _ in range(2):
        ...     (w * 1.0).sum().backward()
        ...     sgd.step()
        ...     mean.step()
        ...     sgd.clear_grad()
        >>> with mean.apply():
        ...     w.tolist()
        [-0.5]
        >>> w.tolist()
        [-1.0]
    """

    _accumulator_names = ("sum_1", "sum_2", "sum_3", "restore")

    def __init__(
        self,
        average_window_rate: float,
        parameters: Iterable[Tensor] | None = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,
    ):
        super().__init__(0.0, parameters, name=name)
        self.average_window = average_window_rate
        self.min_average_window, self.max_average_window = min_average_window, max_average_window

    @no_grad()
    def step(self) -> None:
        """Add the parameters that have a gradient to the sums."""
        for p in self._parameter_list:
            if p.stop_gradient or p.grad is None:
                continue
            slot = self._slot(p)
            recent, old, updates = slot.pows or (0, 0, 0)
            recent, updates = recent + 1, updates + 1
            first, second, third = (slot.state[f"sum_{i}"] for i in (1, 2, 3))
            first._assign_value(first + p.astype(first.dtype))
            if updates % _MOST == 0:
                second._assign_value(second + first)
                first._assign_value(first * 0.0)
            if recent >= self.min_average_window and recent >= min(
                self.max_average_window, int(updates * self.average_window)
            ):
                # the window is full: its sum is kept, and the next one begins
                third._assign_value(first + second)
                first._assign_value(first * 0.0)
                second._assign_value(second * 0.0)
                recent, old = 0, recent
            slot.pows = (recent, old, updates)

    # nothing is returned, where other optimizers return what they did
    def minimize(  # type: ignore[override]  # Paddle's signature
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
    ) -> None:
        """Same as ``step``: nothing is minimized here.

        Args:
            loss: Has no effect.
            startup_program: Has no effect.
            parameters: Has no effect.
            no_grad_set: Has no effect.
        """
        self.step()

    def apply(self, executor: Any = None, need_restore: bool = True) -> contextlib.AbstractContextManager[None]:
        """Replace the parameters by their averages, inside a ``with`` block.

        Args:
            executor: Has no effect.
            need_restore: Restore the parameters at the end of the block; if False, call ``restore`` yourself. Default:
                True.

        Returns:
            A context manager.
        """
        return self._applied(need_restore)

    @contextlib.contextmanager
    def _applied(self, need_restore: bool) -> Iterator[None]:
        with no_grad():
            for slot in self._slots.values():
                recent, old, _ = slot.pows
                slot.state["restore"]._assign_value(slot.param.astype(slot.state["restore"].dtype))
                total = slot.state["sum_1"] + slot.state["sum_2"] + slot.state["sum_3"]
                slot.param._assign_value((total / float(max(recent + old, 1))).astype(slot.param.dtype))
        try:
            yield
        finally:
            if need_restore:
                self.restore()

    @no_grad()
    def restore(self, executor: Any = None) -> None:
        """Set the parameters to what they were before ``apply``.

        Args:
            executor: Has no effect.
        """
        for slot in self._slots.values():
            slot.param._assign_value(slot.state["restore"].astype(slot.param.dtype))

    # ------------------------------------------------------------ states

    def _state_names(self) -> tuple[str, ...]:
        return (*self._accumulator_names, *_COUNTS)

    def _shared_state(self, slots: list[Slot]) -> dict[str, Tensor]:
        counted = [
            (f"{self._key(slot.param, name)}_0", slot.pows[i]) for i, name in enumerate(_COUNTS) for slot in slots
        ]
        return {key: to_tensor([n], dtype=dtypes.int64) for key, n in counted}

    def _loaded(self, where: str, value: Any, p: Tensor, name: str) -> Any:
        if name not in _COUNTS:
            return super()._loaded(where, value, p, name)
        return int(np.asarray(value.numpy() if isinstance(value, Tensor) else value).reshape(-1)[0])

    def _restore(self, slot: Slot, values: dict[str, Any]) -> None:
        slot.pows = tuple(values.pop(name, 0) for name in _COUNTS)
        super()._restore(slot, values)
