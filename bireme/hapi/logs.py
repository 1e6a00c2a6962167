"""Logs: what a training loop tells its callbacks. A number is read from the device when a callback looks at it, not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Logs(dict):
    """A dict some of whose values are read when they are first looked at.

    Reading waits for the device; a loop that reads nothing keeps it busy. Looking at one of the values reads all of them.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._names: tuple[str, ...] = ()
        self._read: Callable[[], dict[str, Any]] | None = None
        self.losses: list[Any] = []

    def later(self, names: Iterable[str], read: Callable[[], dict[str, Any]], losses: list[Any]) -> None:
        """From now on the values of `names` are what `read()` gives; `losses` are the tensors behind `loss`, for those who read later."""
        self._names, self._read, self.losses = tuple(names), read, losses
        for name in self._names:
            dict.__setitem__(self, name, None)

    def settle(self) -> Logs:
        """Read now what is still to be read."""
        if self._read is not None:
            read, self._read = self._read, None
            dict.update(self, read())
        return self

    def __getitem__(self, key: Any) -> Any:
        if self._read is not None and key in self._names:
            self.settle()
        return dict.__getitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        if self._read is not None and key in self._names:
            self.settle()
        return dict.get(self, key, default)

    # what shows values shows all of them; with an __iter__ of its own, dict(logs) and {**logs} come through __getitem__ too
    def __iter__(self) -> Iterator[Any]:
        return dict.__iter__(self)

    def items(self) -> Any:
        return dict.items(self.settle())

    def values(self) -> Any:
        return dict.values(self.settle())

    def copy(self) -> dict:
        return dict(self.items())

    def pop(self, *args: Any) -> Any:
        return dict.pop(self.settle(), *args)

    def setdefault(self, *args: Any) -> Any:
        return dict.setdefault(self.settle(), *args)

    def update(self, *args: Any, **kwargs: Any) -> None:
        dict.update(self.settle(), *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self.settle(), other)

    __hash__ = None  # type: ignore[assignment]  # equal by value, so it has no hash

    def __or__(self, other: Any) -> dict:
        return self.copy() | dict(other)

    def __ror__(self, other: Any) -> dict:
        return dict(other) | self.copy()

    def __repr__(self) -> str:
        return dict.__repr__(self.settle())

    def __reduce__(self) -> tuple:
        return dict, (self.copy(),)
