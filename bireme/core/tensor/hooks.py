"""Hooks on tensors: what the user has called when a gradient is known."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

from bireme.core.base import errors
from bireme.core.tensor.tape import now
from bireme.core.tensor.tensor import Tensor, read, wrap


class RemovableHandle:
    """Handle of a registered hook."""

    def __init__(self, hooks: dict, key: int):
        self._hooks, self._key = hooks, key

    def remove(self) -> bool:
        """Remove the hook; returns False if it was removed before."""
        return self._hooks.pop(self._key, None) is not None


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Register a function that is called when the gradient of this tensor is computed.

    Args:
        hook: Function that takes the gradient; if it returns a tensor, that replaces the gradient.

    Returns:
        A handle with a method ``remove()``.

    Raises:
        RuntimeError: If the tensor has ``stop_gradient=True``.

    Examples:
        >>> x = bireme.to_tensor([1.0], stop_gradient=False)
        >>> handle = x.register_hook(lambda g: g * 2)
        >>> (x * 3).backward()
        >>> x.grad.tolist()
        [6.0]
    """
    if not callable(hook):
        raise errors.bad("register_hook(hook)", "a callable", hook, kind=errors.ArgumentTypeError)
    read(self)
    if self.stop_gradient:
        raise errors.bad(
            "register_hook()",
            "a tensor that requires gradients",
            described="a tensor with stop_gradient=True",
            kind=RuntimeError,
        )
    hooks = _hooks_of(self)
    key = now()
    hooks[key] = hook
    return RemovableHandle(hooks, key)


def _register_backward_hook(self: Tensor, hook: Callable) -> None:
    """Call ``hook()`` whenever a gradient has been added to this leaf."""
    if not callable(hook):
        raise errors.bad("_register_backward_hook(hook)", "a callable", hook, kind=errors.ArgumentTypeError)
    read(self)
    if self.stop_gradient or self._edge is not None:
        raise errors.bad("_register_backward_hook()", "a leaf Tensor that requires grad", described="another tensor")
    self._after = {**(self._after or {}), now(): hook}


def _hooks_of(t: Tensor) -> dict:
    if t._edge is None:
        if t._hooks is None:
            t._hooks = {}
        return t._hooks
    edge, i = t._edge
    if edge.hooks is None:
        edge.hooks = {}
    return edge.hooks.setdefault(i, {})


def retain_grads(self: Tensor) -> None:
    """Keep the gradient of this intermediate result in its ``.grad``.

    A tensor with ``stop_gradient=True`` and a leaf are left as they are.

    Examples:
        >>> x = bireme.to_tensor([1.0], stop_gradient=False)
        >>> y = x * 2
        >>> y.retain_grads()
        >>> (y * y).backward()
        >>> y.grad.tolist()
        [4.0]
    """
    read(self)
    if self.stop_gradient or self._edge is None:
        return
    me = ref(self)

    def keep(g: Tensor) -> None:
        t = me()
        if t is not None:
            t._grad = wrap(read(g), g.stop_gradient)

    _hooks_of(self)[now()] = keep


Tensor.register_hook = Tensor._register_grad_hook = register_hook  # type: ignore[assignment, method-assign]  # a method that Tensor gets here
Tensor._register_backward_hook = _register_backward_hook  # type: ignore[assignment, method-assign]  # a method that Tensor gets here
Tensor.retain_grads = retain_grads  # type: ignore[assignment, method-assign]  # a method that Tensor gets here
