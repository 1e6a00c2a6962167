"""Errors in one form: `op(argument): expected …, got …`, a hint, and the user's line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Container
from types import CodeType, FrameType
from typing import Any

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class RecompileError(RuntimeError):
    """Raised inside `debug.no_recompile()` when a program would have to be compiled."""


class NonFiniteError(RuntimeError):
    """Raised under FLAGS_check_nan_inf when an operator produced NaN or infinity."""


class WrongType(TypeError, ValueError):
    """An argument of the wrong type: Paddle raises TypeError for some and ValueError for others, so code may catch either."""


class OutOfRange(ValueError, IndexError):
    """An axis or a place out of range, to those who catch ValueError and to those who catch IndexError, as NumPy has it."""


class NoLength(TypeError, AssertionError):
    """The length of what has none: Python's TypeError, and Paddle's AssertionError."""


class Unfit(ValueError, AssertionError):
    """A tensor that does not fit where Paddle asserts that it does."""


def show(got: Any) -> str:
    """A value as a message shows it: values rather than types, short."""
    sig = getattr(got, "_sig", None)
    if sig is not None:
        return f"a Tensor of shape {list(sig.shape)}, {sig.dtype.name}"
    if isinstance(got, (int, float, complex, bool, type(None))):
        return repr(got)
    if isinstance(got, str):
        return got
    if isinstance(got, (list, tuple)):
        text = repr(got)
        return text if len(text) <= 80 else f"{type(got).__name__} of {len(got)} elements"
    if isinstance(got, type):
        return got.__name__
    shape = getattr(got, "shape", None)
    if shape is not None:
        return f"{type(got).__name__} of shape {list(shape)}"
    return type(got).__name__


def user_frame() -> FrameType | None:
    """The innermost frame outside this package: the line the user wrote."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HOME):
        frame = frame.f_back
    return frame


def position() -> tuple[CodeType, int] | None:
    """Code object and line of the user's call, cheap enough to keep with a node."""
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lineno)


def place_of(pos: tuple[CodeType, int] | None) -> str:
    """`file.py:41`, or `<unknown>`."""
    if pos is None:
        return "<unknown>"
    return f"{os.path.basename(pos[0].co_filename)}:{pos[1]}"


def text(where: str, expected: str, got: Any, hint: str | None = None, pos: Any = None) -> str:
    lines = [f"{where}: expected {expected}, got {show(got)}"]
    if hint:
        lines.append(f"  hint: {hint}")
    pos = pos or position()
    if pos is not None:
        lines.append(f"  at {place_of(pos)}")
    return "\n".join(lines)


def bad(where: str, expected: str, got: Any, hint: str | None = None, kind: type[Exception] = ValueError) -> Exception:
    """The exception to raise for a bad argument: `raise bad("mean(axis)", "an axis in [-2, 1]", axis)`."""
    error = (WrongType if kind is TypeError else kind)(text(where, expected, got, hint))
    error._told = True  # type: ignore[attr-defined]
    return error


def renamed(error: Exception, op: str, parameters: Container[str]) -> Exception:
    """An error that came from inside the function `op`, told as its own: users know the name that they called.

    Where the inner operator's argument is one of `op` too, it is named as such, and otherwise with the operator it belongs to.
    """
    if not getattr(error, "_told", False) or not error.args:
        return error
    message = str(error.args[0])
    found = re.match(r"(\w+)\((\w*)\): ", message)
    if found is None or found[1] == op:
        return error
    argument = found[2] if not found[2] or found[2] in parameters else f"{found[2]} of {found[1]}"
    error.args = (f"{op}({argument}): {message[found.end() :]}", *error.args[1:])
    return error


TELLING = (ValueError, TypeError, IndexError, RuntimeError, ArithmeticError)  # what `bad` is asked to make


def short(error: Exception) -> Exception:
    """The error without the engine's own frames, if it says all there is to say; FLAGS_full_traceback keeps them."""
    told = getattr(error, "_told", False) and not full_traceback[0]
    return error.with_traceback(None) if told else error


full_traceback = [False]  # set from the flag: flags are declared on top of errors
