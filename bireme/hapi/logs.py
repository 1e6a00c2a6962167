"""Logs: the dict that callbacks get. A number is read from the device when a callback accesses it, not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Logs(dict):
    """Dict whose values are read from the device when they are first accessed.

    Reading waits for the device, and a loop that reads nothing keeps it busy. Accessing one of the values reads all of
    them.

    Args:
        *args: Arguments of ``dict``.
        **kwargs: Keyword arguments of ``dict``.

    Examples:
        >>> logs = bireme.hapi.Logs(step=1)
        >>> logs.later(["loss"], lambda: {"loss": 0.5}, [])
        >>> logs["loss"]
        0.5
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._names: tuple[str, ...] = ()
        self._read: Callable[[], dict[str, Any]] | None = None
        self.losses: list[Any] = []

    def later(self, names: Iterable[str], read: Callable[[], dict[str, Any]], losses: list[Any]) -> None:
        """Set values that are read later.

        Args:
            names: Keys of the values.
            read: Function without arguments that returns a dict of them.
            losses: The tensors of the loss, kept for callbacks that read them later.
        """
        self._names, self._read, self.losses = tuple(names), read, losses
        for name in self._names:
            dict.__setitem__(self, name, None)

    def settle(self) -> Logs:
        """Read all values that are not read yet, and return the dict itself."""
        if self._read is not None:
            read, self._read = self._read, None
            dict.update(self, read())
        return self

    def __getitem__(self, key: Any) -> Any:
        if self._read is not None and key in self._names:
            self.settle()
        return dict.__getitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key.

        Args:
            key: The key.
            default: Returned if there is no such key. Default: None.

        Returns:
            The value, or ``default``.
        """
        if self._read is not None and key in self._names:
            self.settle()
        return dict.get(self, key, default)

    # with an __iter__ of its own, dict(logs) and {**logs} come through __getitem__, which reads the values
    def __iter__(self) -> Iterator[Any]:
        return dict.__iter__(self)

    def items(self) -> Any:
        """Return the pairs of key and value, after reading all values."""
        return dict.items(self.settle())

    def values(self) -> Any:
        """Return the values, after reading all of them."""
        return dict.values(self.settle())

    def copy(self) -> dict:
        """Return a plain dict with all values."""
        return dict(self.items())

    def pop(self, *args: Any) -> Any:
        """Remove a key and return its value, after reading all values.

        Args:
            *args: The key, and a default if there is no such key.

        Returns:
            The value, or the default.
        """
        return dict.pop(self.settle(), *args)

    def setdefault(self, *args: Any) -> Any:
        """Return the value of a key, and set it if there is none, after reading all values.

        Args:
            *args: The key, and the value to set.

        Returns:
            The value of the key.
        """
        return dict.setdefault(self.settle(), *args)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set values as ``dict.update`` does, after reading all values.

        Args:
            *args: A dict, or pairs of key and value.
            **kwargs: Keys with their values.
        """
        dict.update(self.settle(), *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self.settle(), other)

    __hash__ = None  # equal by value, so it has no hash

    def __or__(self, other: Any) -> dict:
        return self.copy() | dict(other)

    def __ror__(self, other: Any) -> dict:
        return dict(other) | self.copy()

    def __repr__(self) -> str:
        return dict.__repr__(self.settle())

    def __reduce__(self) -> tuple:
        return dict, (self.copy(),)
