"""Guards of Paddle's tests around its two representations of programs; here there is one, so they set the mode."""

from __future__ import annotations

from typing import Any

from bireme.defaults import disable_static, enable_static, in_dynamic_mode

__all__ = ["DygraphOldIrGuard", "DygraphPirGuard", "IrGuard", "OldIrGuard"]


class IrGuard:
    """Context manager in which programs are built: static mode, whatever it was before.

    Examples:
        >>> with bireme.pir_utils.IrGuard():
        ...     bireme.in_dynamic_mode()
        False
        >>> bireme.in_dynamic_mode()
        True
    """

    _static = True

    def __enter__(self) -> None:
        self._was_dynamic = in_dynamic_mode()
        if self._was_dynamic is self._static:
            (enable_static if self._static else disable_static)()

    def __exit__(self, *exc: Any) -> None:
        if in_dynamic_mode() is not self._was_dynamic:
            (disable_static if self._was_dynamic else enable_static)()


class OldIrGuard(IrGuard):
    """The same: Paddle's older representation is no other here.

    Examples:
        >>> with bireme.pir_utils.OldIrGuard():
        ...     bireme.in_dynamic_mode()
        False
    """


class DygraphPirGuard(IrGuard):
    """Context manager in which calls are made: dynamic mode, whatever it was before.

    Examples:
        >>> with bireme.pir_utils.DygraphPirGuard():
        ...     bireme.ones([2]).tolist()
        [1.0, 1.0]
    """

    _static = False


class DygraphOldIrGuard(DygraphPirGuard):
    """The same: Paddle's older representation is no other here.

    Examples:
        >>> with bireme.pir_utils.DygraphOldIrGuard():
        ...     bireme.in_dynamic_mode()
        True
    """
