"""Whether gradients are recorded, per thread: `no_grad` and its kin, and the hooks on what is saved for backward."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from bireme.core.base import errors

F = TypeVar("F", bound=Callable[..., Any])


class _Mode(threading.local):
    grad = True
    pack: Any = None  # (pack, unpack) of saved_tensors_hooks


state = _Mode()


class _InMode(Generator):
    """A generator that runs in a grad mode of its own, which its caller does not see."""

    def __init__(self, it: Any, enabled: bool):
        self._it, self._enabled = it, enabled

    def send(self, value: Any) -> Any:
        with GradMode(self._enabled):
            return self._it.send(value)

    def throw(self, *error: Any) -> Any:
        with GradMode(self._enabled):
            return self._it.throw(*error)

    def close(self) -> None:
        with GradMode(self._enabled):
            self._it.close()


class GradMode:
    """Context manager and decorator that sets whether gradients are recorded, and restores the mode at its end."""

    def __init__(self, enabled: bool):
        self._enabled = enabled
        self._before: list[bool] = []

    DECORATED_BY_MARKER_ATTR = "__decorated_by__"  # the attribute of a decorated function that holds its decorator

    def clone(self) -> GradMode:
        """Return another context manager of the same kind."""
        new = object.__new__(type(self))
        new.__dict__ |= vars(self) | {"_before": []}
        return new

    def __enter__(self) -> None:
        self._before.append(state.grad)
        state.grad = self._enabled

    def __exit__(self, *exc: Any) -> None:
        state.grad = self._before.pop()

    def __call__(self, function: F) -> F:
        if not callable(function):
            raise errors.bad(f"{type(self).__name__}()", "a function to decorate", function, kind=TypeError)
        made: Any = self._decorated(function)
        with contextlib.suppress(TypeError, ValueError):  # what was not written in Python may have none
            made.__signature__ = inspect.signature(function)
        setattr(made, self.DECORATED_BY_MARKER_ATTR, self)
        return made

    def _decorated(self, function: Callable) -> Callable:
        enabled = self._enabled
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                return (yield from _InMode(function(*args, **kwargs), enabled))

            return generator

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before, state.grad = state.grad, enabled
            try:
                return function(*args, **kwargs)
            finally:
                state.grad = before

        return call


class no_grad(GradMode):
    """Context manager and decorator that disables the recording of gradients.

    The setting holds for the current thread.

    Examples:
        >>> x = bireme.to_tensor([1.0], stop_gradient=False)
        >>> with bireme.no_grad():
        ...     y = x * 2
        >>> y.stop_gradient
        True
    """

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(GradMode):
    """Context manager and decorator that enables the recording of gradients inside ``no_grad``.

    Examples:
        >>> with bireme.no_grad(), bireme.enable_grad():
        ...     bireme.is_grad_enabled()
        True
    """

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(GradMode):
    """Enable or disable the recording of gradients, at once or as a context manager or decorator.

    Args:
        mode: Whether gradients are recorded.

    Examples:
        >>> with bireme.set_grad_enabled(False):
        ...     bireme.is_grad_enabled()
        False
    """

    def __init__(self, mode: bool):
        if not hasattr(type(mode), "__bool__"):  # text and containers have a truth too, but none that was meant
            raise errors.bad("set_grad_enabled(mode)", "True or False", mode, kind=errors.ArgumentTypeError)
        super().__init__(bool(mode))
        self._outer = state.grad
        state.grad = self._enabled

    def __enter__(self) -> None:
        self._before.append(self._outer)
        state.grad = self._enabled

    def __call__(self, function: F) -> F:
        state.grad = self._outer  # as a decorator it says nothing about now
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Return whether gradients are recorded in the current thread.

    Returns:
        A bool.

    Examples:
        >>> bireme.is_grad_enabled()
        True
    """
    return state.grad


class saved_tensors_hooks:
    """Context manager that packs what operators save for the backward pass, and unpacks it when it is needed.

    It is used to keep saved tensors on the host, on disk or compressed.

    Args:
        pack_hook: Function that takes a tensor and returns any object, which is saved instead.
        unpack_hook: Function that takes that object and returns a tensor with the values of the first.

    Examples:
        >>> x = bireme.to_tensor([2.0], stop_gradient=False)
        >>> with bireme.autograd.saved_tensors_hooks(lambda t: t.numpy(), lambda a: bireme.to_tensor(a)):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad.tolist()
        [4.0]
    """

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[[Any], Any]):
        self._hooks = (pack_hook, unpack_hook)
        self._before: list = []

    def __enter__(self) -> None:
        self._before.append(state.pack)
        state.pack = self._hooks

    def __exit__(self, *exc: Any) -> None:
        state.pack = self._before.pop()
