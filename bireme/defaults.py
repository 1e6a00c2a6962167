"""Process-wide defaults and small questions about tensors."""

from __future__ import annotations

from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare import precision
from bireme.core.tensor.tensor import Tensor


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
    precision.settle()


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor.

    >>> bireme.is_tensor(bireme.zeros([1]))
    True
    """
    return isinstance(x, Tensor)


_static = [False]


def in_dynamic_mode() -> bool:
    """Whether the mode is dynamic: operators run as they are called. So it is from the start.

    >>> bireme.in_dynamic_mode()
    True
    """
    return not _static[0]


def enable_static() -> None:
    """Switch to static mode, in which what is called on symbolic inputs becomes a part of a program.

    The graph is the same in both modes: a call on tensors with numbers computes with them here as well.

    >>> bireme.enable_static()
    >>> bireme.in_dynamic_mode()
    False
    >>> bireme.disable_static()
    """
    _static[0] = True


@errors.named
def disable_static(place: Any = None) -> None:
    """Switch back to dynamic mode, on `place` if one is given.

    >>> bireme.disable_static()
    >>> bireme.in_dynamic_mode()
    True
    """
    if place is not None:
        devices.set_device(place)
    _static[0] = False


def disable_signal_handler() -> None:
    """Leave signals to the program: nothing to do, Bireme catches none.

    >>> bireme.disable_signal_handler()
    """
