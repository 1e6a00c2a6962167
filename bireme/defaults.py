"""Process-wide defaults and small questions about tensors."""

from __future__ import annotations

from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import Place
from bireme.core.declare import precision
from bireme.core.program import building
from bireme.core.tensor.tensor import Tensor


def get_default_dtype() -> str:
    """Return the default floating-point dtype: that of Python floats and of new parameters.

    Returns:
        Its name, a str.

    Examples:
        >>> bireme.get_default_dtype()
        'float32'
    """
    return dtypes.get_default().name


def set_default_dtype(d: str | dtypes.DType | type) -> None:
    """Set the default floating-point dtype: that of Python floats and of new parameters.

    Args:
        d: float16, bfloat16, float32 or float64, as a name or a dtype.

    Examples:
        >>> bireme.set_default_dtype("float64")
        >>> bireme.to_tensor(1.5).dtype.name
        'float64'
        >>> bireme.set_default_dtype("float32")
    """
    precision.set_default(d)


def is_tensor(x: Any) -> bool:
    """Return whether an object is a ``Tensor``.

    Args:
        x: The object.

    Returns:
        A bool.

    Examples:
        >>> bireme.is_tensor(bireme.zeros([1])), bireme.is_tensor(1.0)
        (True, False)
    """
    return isinstance(x, Tensor)


def in_dynamic_mode() -> bool:
    """Return whether dynamic mode is on, in which operators compute values; it is on from the start.

    Returns:
        A bool.

    Examples:
        >>> bireme.in_dynamic_mode()
        True
    """
    return building.current() is None


def enable_static() -> None:
    """Switch to static mode in this thread: calls are recorded into a program, which an ``Executor`` runs.

    Examples:
        >>> bireme.enable_static()
        >>> bireme.in_dynamic_mode()
        False
        >>> bireme.disable_static()
    """
    building.begin()


@errors.named
def disable_static(place: str | Place | None = None) -> None:
    """Switch back to dynamic mode.

    Args:
        place: Device to use from now on, as for ``set_device``. Default: None, the device stays.

    Examples:
        >>> bireme.disable_static()
        >>> bireme.in_dynamic_mode()
        True
    """
    if place is not None:
        devices.set_device(place)
    building.end()


def disable_signal_handler() -> None:
    """Do nothing: Bireme installs no signal handlers.

    Examples:
        >>> bireme.disable_signal_handler()
    """


guard_functions(globals())
