"""Process-wide defaults and small questions about tensors."""

from __future__ import annotations

from typing import Any

from bireme.core import device as devices
from bireme.core import dtype as dtypes
from bireme.core import errors
from bireme.core.tensor import Tensor


def get_default_dtype() -> str:
    """Name of the type that Python floats take.

    >>> bireme.get_default_dtype()
    'float32'
    """
    return dtypes.get_default().name


def set_default_dtype(d: Any) -> None:
    """Set the type that Python floats take: float16, bfloat16, float32 or float64.

    >>> bireme.set_default_dtype("float32")
    """
    dtypes.set_default(d)


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor.

    >>> bireme.is_tensor(bireme.zeros([1]))
    True
    """
    return isinstance(x, Tensor)


def in_dynamic_mode() -> bool:
    """Whether operators run as they are called: always, outside of a static program.

    >>> bireme.in_dynamic_mode()
    True
    """
    return True


@errors.named
def disable_static(place: Any = None) -> None:
    """Make operators run as they are called, on `place` if one is given; without a static program that is so already.

    >>> bireme.disable_static()
    """
    if place is not None:
        devices.set_device(place)


def disable_signal_handler() -> None:
    """Leave signals to the program: nothing to do, Bireme catches none.

    >>> bireme.disable_signal_handler()
    """
