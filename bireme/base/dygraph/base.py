"""Names that code written for Paddle takes from `paddle.base.dygraph.base`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from bireme.core import device as devices
from bireme.core.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from bireme.core.tape import grad
from bireme.defaults import disable_static, in_dynamic_mode
from bireme.utils import unique_name

enable_dygraph, enabled = disable_static, in_dynamic_mode

__all__ = [
    "enable_dygraph", "enable_grad", "enabled", "grad", "guard", "in_to_static_mode", "is_grad_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip


@contextlib.contextmanager
def guard(place: Any = None) -> Iterator[None]:
    """Run the block in dynamic mode: new tensors in it are made on `place`, names are counted anew.

    >>> with bireme.base.dygraph.guard(bireme.CPUPlace()):
    ...     bireme.ones([2]).place
    Place(cpu)
    """
    device = devices.current() if place is None else devices.parse(place, "guard(place)")
    device.ensure("guard(place)")
    before = devices.use(device)
    try:
        with unique_name.guard():
            yield
    finally:
        devices.use(before)


def in_to_static_mode() -> bool:
    """Whether a function is being made into a static program: never, recording is the same in both modes."""
    return False
