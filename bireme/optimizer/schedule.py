"""What all learning rate schedules share: an epoch, a rate, a state. Plain Python, stepped by the user."""

from __future__ import annotations

import numbers
import sys
from typing import Any

from bireme.core.base import errors


class LRScheduler:
    """Base of schedules. A subclass writes `get_lr`, which makes a rate of `base_lr` and `last_epoch`.

    >>> class Halved(bireme.optimizer.lr.LRScheduler):
    ...     def get_lr(self):
    ...         return self.base_lr / 2**self.last_epoch
    >>> rate = Halved(1.0)
    >>> rate.step()
    >>> rate()
    0.5
    """

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False):
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise errors.bad(f"{type(self).__name__}(learning_rate)", "a number", learning_rate, kind=TypeError)
        if learning_rate < 0:
            raise errors.bad(f"{type(self).__name__}(learning_rate)", "a rate of 0 or more", learning_rate)
        if isinstance(last_epoch, bool) or not isinstance(last_epoch, numbers.Real):
            raise errors.bad(f"{type(self).__name__}(last_epoch)", "a number", last_epoch, kind=TypeError)
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        """The rate now."""
        return self.last_lr

    def get_lr(self) -> float:
        """The rate at `last_epoch`; written by each schedule."""
        where = f"{type(self).__name__}.get_lr"
        raise errors.bad(where, "a schedule that writes it", type(self), kind=NotImplementedError)

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to `epoch`, and set the rate."""
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
        """Set `self.keys`, the names of the attributes that `state_dict` holds; a subclass may add to them."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to go on from here."""
        self.state_keys()
        return {key: _plain(self.__dict__[key]) for key in self.keys if key in self.__dict__}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                where = f"{type(self).__name__}.set_state_dict(state_dict)"
                raise errors.bad(where, f"the key {key}", ", ".join(map(str, state_dict)), kind=RuntimeError)
            self.__dict__[key] = state_dict[key]

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """The same as `set_state_dict`."""
        self.set_state_dict(state_dict)


def positive(where: str, n: Any) -> None:
    """Refuse anything but an int above 0."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise errors.bad(where, "an int", n, kind=TypeError)
    if n <= 0:
        raise errors.bad(where, "a number above 0", n, kind=errors.Unfit)


def factor(where: str, gamma: float) -> None:
    """Refuse a factor of 1 or more."""
    if gamma >= 1.0:
        raise errors.bad(where, "a factor below 1", gamma)


def _plain(value: Any) -> Any:
    """Tensors of one element as numbers: a state is saved as plain data."""
    return value.item() if hasattr(value, "item") else value
