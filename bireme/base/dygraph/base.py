"""Names that code written for Paddle takes from `paddle.base.dygraph.base`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import device as devices
from bireme.core.tensor.backward import grad
from bireme.core.tensor.grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from bireme.core.tensor.grad_mode import no_grad as no_grad_
from bireme.defaults import disable_static, enable_static, in_dynamic_mode
from bireme.utils import unique_name

enable_dygraph, disable_dygraph, enabled = disable_static, enable_static, in_dynamic_mode

__all__ = [
    "disable_dygraph", "enable_dygraph", "enable_grad", "enabled", "grad", "guard", "in_declarative_mode", "in_sot_simulation_mode",
    "in_to_static_mode", "is_grad_enabled", "no_grad", "no_grad_", "set_grad_enabled",
]  # fmt: skip


def no_grad(func: Callable | None = None) -> Any:
    """What `bireme.no_grad()` is; here a function may be given to it, which it decorates.

    >>> @bireme.base.dygraph.no_grad
    ... def double(x):
    ...     return x * 2
    >>> double(bireme.to_tensor(1.0, stop_gradient=False)).stop_gradient
    True
    """
    return no_grad_() if func is None else no_grad_()(func)


@contextlib.contextmanager
def guard(place: Any = None) -> Iterator[None]:
    """Run the block in dynamic mode, with names counted anew.

    Args:
        place: Device that new tensors are made on. Default: None, the current one.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.base.dygraph.guard(bireme.CPUPlace()):
        ...     bireme.ones([2]).place
        Place(cpu)
    """
    device = devices.current() if place is None else devices.parse(place, "guard(place)")
    device.ensure("guard(place)")
    before, dynamic = devices.use(device), in_dynamic_mode()
    disable_static()
    try:
        with unique_name.guard():
            yield
    finally:
        devices.use(before)
        if not dynamic:
            enable_static()


def in_to_static_mode() -> bool:
    """Whether a function is being made into a static program: never, recording is the same in both modes."""
    return False


in_declarative_mode = in_sot_simulation_mode = in_to_static_mode
