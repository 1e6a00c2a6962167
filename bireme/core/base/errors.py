"""Errors in one form: `op(argument): expected …, got …`, a hint, and the user's line."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Container
from numbers import Integral, Number
from pathlib import Path
from types import FrameType
from typing import Any

_HOME = str(Path(__file__).absolute().parents[2]) + os.sep


class RecompileError(RuntimeError):
    """Raised inside `debug.no_recompile()` when a program would have to be compiled."""


class NonFiniteError(RuntimeError):
    """Raised under FLAGS_check_nan_inf when an operator produced NaN or infinity."""


def nonfinite(name: str, nans: int, infinities: int, shape: Any) -> str:
    """What a NonFiniteError says of an operator's result."""
    return f"{name}: There are NAN or INF (num_nan={nans}, num_inf={infinities}) in a result of shape {list(shape)}"


class WrongType(TypeError, ValueError):
    """An argument of the wrong type: Paddle raises TypeError for some and ValueError for others, so code may catch either."""


class NotTensor(WrongType, AttributeError):
    """Something that is no tensor: where Paddle looks at its type first, it is the attribute that is missing."""


class NoKernel(WrongType, RuntimeError):
    """A type of elements that an operator does not take: Paddle, which finds no kernel for it, raises RuntimeError."""


class OutOfRange(ValueError, IndexError, RuntimeError, AssertionError):
    """An axis or a place out of range: IndexError and ValueError as NumPy has it, and what Paddle raises for some of them."""


class NoLength(TypeError, AssertionError):
    """The length of what has none: Python's TypeError, and Paddle's AssertionError."""


class Misfit(ValueError, RuntimeError):
    """Tensors that do not fit each other, where Paddle raises RuntimeError."""


class Unfit(ValueError, AssertionError):
    """A tensor that does not fit where Paddle asserts that it does."""


class Alien(WrongType, AssertionError):
    """Something of a wrong type, where Paddle asserts that it is of the right one."""


class Unknown(WrongType, NotImplementedError):
    """Something of a kind that nobody has written this for, where Paddle raises NotImplementedError."""


class Beyond(IndexError, AssertionError):
    """A place beyond the end, where Paddle asserts that it is not."""


class Freed(RuntimeError, SystemError):
    """A second backward through what the first has freed: Paddle raises SystemError, torch RuntimeError."""


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


class _Files(dict):
    """Whether a file is of this package, or of the import of it: looked up for each frame of each new call."""

    def __missing__(self, name: str) -> bool:
        found = self[name] = name.startswith((_HOME, "<frozen importlib"))
        return found


_ours = _Files()


def user_frame() -> FrameType | None:
    """The innermost frame outside this package: the line the user wrote."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _ours[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def position() -> tuple[str, int] | None:
    """File and line of the user's call, cheap enough to keep with a node."""
    frame = user_frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """A warning at the user's line, however deep in here it is found: the one way to give one."""
    frame = user_frame()
    if frame is None:  # a thread of our own found it
        warnings.warn_explicit(message, kind, "bireme", 0)
    else:
        seen = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(message, kind, frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__"), seen)


def place_of(pos: tuple[str, int] | None) -> str:
    """`file.py:41`, or `<unknown>`."""
    if pos is None:
        return "<unknown>"
    return f"{os.path.basename(pos[0])}:{pos[1]}"


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
    if kind is TypeError:
        kind = NotTensor if _TENSOR.match(expected) else WrongType
    elif kind in (ValueError, Unfit) and _no_number(expected, got):  # Paddle compares it first, which Python refuses by TypeError
        kind = Alien
    error = kind(text(where, expected, got, hint))
    error._told = True  # type: ignore[attr-defined]  # a mark on the exception
    return error


_TENSOR = re.compile(r"(a |a list of )?Tensors?\b")


def _no_number(expected: str, got: Any) -> bool:
    """Whether a number was expected and something else came, for a whole one also a fraction."""
    found = re.match(r"(?:None or )?(?:an?|one) (?:positive )?(int|number)", expected)
    return found is not None and not isinstance(got, Integral if found[1] == "int" else Number)


def renamed(error: Exception, op: str, parameters: Container[str], part: bool = False) -> Exception:
    """An error that came from inside the function `op`, told as its own: users know the name that they called.

    Where the inner operator's argument is one of `op` too, it is named as such, and otherwise with the operator it belongs to.
    An operator that is `part` of a function (`split_sizes` of `split`) may speak in that one's name.
    """
    if not getattr(error, "_told", False) or not error.args:
        return error
    message = str(error.args[0])
    found = re.match(r"(\w+)(?:\(([^()]*)\))?: ", message)
    if found is None and message.startswith("x[index]"):
        error.args = (f"{op}(): {message}", *error.args[1:])
    if found is None or found[1] == op or (part and op.startswith(f"{found[1]}_")):
        return error
    if found[2] is None:  # an argument that the function only hands on
        argument = found[1]
    else:
        known = not found[2] or found[2] in parameters or " of " in found[2] or found[1] == f"{op}_of"
        argument = found[2] if known else f"{found[2]} of {found[1]}"
    error.args = (f"{op}({argument}): {message[found.end() :]}", *error.args[1:])
    return error


# what `bad` is asked to make, and what Python raises for arguments that nobody expected
TELLING = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError)


def short(error: Exception, op: str) -> Exception:
    """The error without the engine's own frames, if it says all there is to say; FLAGS_full_traceback keeps them.

    One that Python or a library raised inside the function `op` gets its name.
    """
    if not getattr(error, "_told", False):
        message = str(error.args[0]) if error.args else ""
        if not re.search(rf"\b{op}\b", message):
            error.args = (f"{op}(): {message or type(error).__name__}",)
            if op not in str(error):  # one that makes its text itself
                kind = next(k for k in TELLING if isinstance(error, k))
                return kind(f"{op}(): {error}").with_traceback(error.__traceback__)
        return error
    return error if full_traceback[0] else error.with_traceback(None)


def named(function: Callable) -> Callable:
    """A public function that is no operator's, whose errors are told by its own name."""
    name, parameters = function.__name__, inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TELLING as e:
            raise short(renamed(e, name, parameters), name)  # noqa: B904  # the same error

    return call


full_traceback = [False]  # set from the flag: flags are declared on top of errors
