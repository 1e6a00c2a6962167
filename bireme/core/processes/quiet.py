"""What C++ prints while processes meet is not shown: gloo tells `std::cout` of each connection that it makes, in every process,
and knows no setting against it. Nothing but that stream is closed, and only meanwhile: what Python and C print goes on.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

BAD = 1  # std::ios_base::badbit: what is written is dropped
_CLEAR = "_ZNSt9basic_iosIcSt11char_traitsIcEE5clearESt12_Ios_Iostate"  # std::ios::clear(state)


@functools.cache
def _state() -> Callable[[int], Any]:
    """What sets the state of the `std::cout` that jaxlib prints to; where that is another library's, nothing is set."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        stream = ctypes.addressof(ctypes.c_char.in_dll(library, "_ZSt4cout"))
        clear = library[_CLEAR]
    except (OSError, ValueError, AttributeError):  # a system with another C++
        return lambda state: None
    clear.argtypes, clear.restype = [ctypes.c_void_p, ctypes.c_int], None
    # the state stands in a virtual base, at an offset that the table of virtual functions has before its begin
    table = ctypes.c_void_p.from_address(stream).value or 0
    offset = ctypes.c_ssize_t.from_address(table - 3 * ctypes.sizeof(ctypes.c_void_p)).value
    return functools.partial(clear, stream + offset)


def hush() -> None:
    """Drop what is written to `std::cout` from now on."""
    _state()(BAD)


def resume() -> None:
    """Show it again."""
    _state()(0)
