"""What all learning rate schedules share: an epoch, a rate, a state. Plain Python, stepped by the user."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded


class LRScheduler(Guarded):
    """Base class of the learning rate schedulers.

    An optimizer reads the current learning rate at each step; the user calls ``step()`` of the scheduler, once per
    epoch or once per batch, whichever ``last_epoch`` is to count. A subclass implements ``get_lr``, which computes the
    learning rate from ``self.base_lr`` and ``self.last_epoch``.

    Args:
        learning_rate: The initial learning rate, a non-negative number. Default: 0.1.
        last_epoch: Index of the last epoch; -1 starts from the beginning. Default: -1.
        verbose: Print a line to stdout at each step. Default: False.

    Examples:
        >>> class Halved(bireme.optimizer.lr.LRScheduler):
        ...     def get_lr(self):
        ...         return self.base_lr / 2**self.last_epoch
        >>> scheduler = Halved(1.0)
        >>> scheduler.step()
        >>> scheduler()
        0.5
    """

    base_lr: float
    last_lr: float
    last_epoch: int
    verbose: bool
    keys: list[str]

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False):
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise errors.bad(
                f"{type(self).__name__}(learning_rate)", "a number", learning_rate, kind=errors.ArgumentTypeError
            )
        if learning_rate < 0:
            raise errors.bad(f"{type(self).__name__}(learning_rate)", "a non-negative learning rate", learning_rate)
        if isinstance(last_epoch, bool) or not isinstance(last_epoch, numbers.Real):
            raise errors.bad(
                f"{type(self).__name__}(last_epoch)", "a number", last_epoch, kind=errors.ArgumentTypeError
            )
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        """Return the current learning rate."""
        return self.last_lr

    def get_lr(self) -> float:
        """Compute the learning rate at ``last_epoch``; each scheduler implements it.

        Users call the scheduler itself to read the current learning rate: ``scheduler()``.
        """
        where = f"{type(self).__name__}.get_lr"
        raise errors.bad(where, "a subclass that implements get_lr", type(self), kind=NotImplementedError)

    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch and update the learning rate.

        Args:
            epoch: Epoch to go to. Default: None, the one after ``last_epoch``.
        """
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = epoch
            # a schedule that is computed from the rate before needs another formula to jump
            self.last_lr = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._tell()

    def _tell(self) -> None:
        if self.verbose:
            sys.stdout.write(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.\n")

    def state_keys(self) -> None:
        """Set ``self.keys``, the names of the attributes in ``state_dict()``; a subclass may add to them."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the scheduler: what a checkpoint needs to resume.

        Examples:
            >>> bireme.optimizer.lr.StepDecay(0.5, step_size=2).state_dict()
            {'last_epoch': 0, 'last_lr': 0.5}
        """
        self.state_keys()
        return {key: _plain(self.__dict__[key]) for key in self.keys if key in self.__dict__}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of a scheduler of the same class.

        Args:
            state_dict: What ``state_dict()`` returned.

        Raises:
            RuntimeError: If a key is missing.

        Examples:
            >>> scheduler = bireme.optimizer.lr.StepDecay(0.5, step_size=2)
            >>> scheduler.set_state_dict({"last_epoch": 3, "last_lr": 0.05})
            >>> scheduler()
            0.05
        """
        where = f"{type(self).__name__}.set_state_dict(state_dict)"
        if not isinstance(state_dict, Mapping):
            raise errors.bad(where, "a dict, as state_dict() gives it", state_dict, kind=errors.ArgumentTypeError)
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise errors.bad(where, f"the key {key}", described=", ".join(map(str, state_dict)), kind=RuntimeError)
            self.__dict__[key] = state_dict[key]

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Same as ``set_state_dict``.

        Args:
            state_dict: What ``state_dict()`` returned.
        """
        self.set_state_dict(state_dict)


def positive(where: str, n: Any) -> None:
    """Raise an error for anything but a positive int."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise errors.bad(where, "an integer", n, kind=errors.ArgumentTypeError)
    if n <= 0:
        raise errors.bad(where, "a positive integer", n, kind=errors.for_number(n))


def factor(where: str, gamma: float) -> None:
    """Raise an error for a factor of 1 or more."""
    errors.check_number(where, gamma)
    if gamma >= 1.0:
        raise errors.bad(where, "a factor less than 1", gamma)


def _plain(value: Any) -> Any:
    """Return a tensor of one element as a number: a state is saved as plain data."""
    return value.item() if hasattr(value, "item") else value
