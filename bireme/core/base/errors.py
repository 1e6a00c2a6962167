"""Errors in one form: `op(argument): expected …, got …`, a hint, and the user's line."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Container, Mapping
from numbers import Integral, Number
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

_HOME = str(Path(__file__).absolute().parents[2]) + os.sep


class ArgumentError(ValueError, AssertionError):
    """An argument has a value that is not allowed.

    Examples:
        >>> try:
        ...     bireme.nn.functional.dropout(bireme.ones([2]), p=3)
        ... except bireme.errors.ArgumentError as e:
        ...     print(str(e).splitlines()[0])
        dropout(p): expected a probability in [0, 1], got 3
    """


class ArgumentTypeError(TypeError, ValueError, AssertionError):
    """An argument is of a type that is not allowed. Paddle raises one or another of the builtin classes it derives
    from.

    Examples:
        >>> try:
        ...     bireme.nn.Linear("3", 4)
        ... except bireme.errors.ArgumentTypeError as e:
        ...     print("Linear" in str(e))
        True
    """


class MissingAttributeError(ArgumentTypeError, AttributeError):
    """An object is not what is expected, such as a layer or an optimizer, and lacks its methods.

    Examples:
        >>> try:
        ...     bireme.nn.RNN(3)
        ... except bireme.errors.MissingAttributeError as e:
        ...     print(str(e).splitlines()[0])
        RNN(cell): expected an RNN cell, got 3
    """


class NotATensorError(MissingAttributeError):
    """A tensor is expected, and something else was given.

    Examples:
        >>> try:
        ...     bireme.exp("a")
        ... except bireme.errors.NotATensorError as e:
        ...     print(str(e).splitlines()[0])
        exp(x): expected a Tensor, got 'a'
    """


class UnsupportedTypeError(ArgumentTypeError, NotImplementedError):
    """Nothing is implemented for objects of this type.

    Examples:
        >>> import io
        >>> try:
        ...     bireme.save({"a": object()}, io.BytesIO())
        ... except bireme.errors.UnsupportedTypeError as e:
        ...     print(str(e).splitlines()[0])
        save(obj): expected tensors, arrays, numbers, str, bytes, dict, list, tuple, set, got object
    """


class DtypeError(ArgumentTypeError, RuntimeError):
    """An operator does not take tensors of this data type.

    Examples:
        >>> try:
        ...     bireme.linalg.inv(bireme.ones([2, 2], dtype="int32"))
        ... except bireme.errors.DtypeError as e:
        ...     print("int32" in str(e))
        True
    """


class ShapeError(ArgumentError, RuntimeError):
    """The shapes of tensors do not fit an operator, or each other.

    Examples:
        >>> try:
        ...     bireme.matmul(bireme.ones([2, 4]), bireme.ones([5, 4]))
        ... except bireme.errors.ShapeError as e:
        ...     print(str(e).splitlines()[0])
        matmul(y): expected 4 rows to match x of shape [2, 4], got shape [5, 4]
    """


class OutOfRangeError(ArgumentError, IndexError, RuntimeError):
    """An axis or an index is out of range.

    Examples:
        >>> try:
        ...     bireme.ones([2, 3]).sum(axis=5)
        ... except bireme.errors.OutOfRangeError as e:
        ...     print(str(e).splitlines()[0])
        sum(axis): expected an axis in [-2, 1], got 5, out of range
    """


class MissingKeyError(ArgumentError, KeyError):
    """A name is not one of those that are known, or is not free.

    Examples:
        >>> try:
        ...     bireme.nn.utils.weight_norm(bireme.nn.Linear(2, 3), name="w")
        ... except bireme.errors.MissingKeyError as e:
        ...     print(str(e).splitlines()[0])
        weight_norm(name): expected one of 'weight', 'bias', got 'w'
    """

    __str__ = ValueError.__str__  # KeyError would show the repr of the message


class FileFormatError(ArgumentError):
    """A file is damaged, not of a known format, or holds something other than tensors and plain data.

    Examples:
        >>> import io
        >>> try:
        ...     bireme.load(io.BytesIO(b"text"))
        ... except bireme.errors.FileFormatError as e:
        ...     print("load(path)" in str(e))
        True
    """


class MissingMethodError(NotImplementedError, OSError):
    """A subclass does not implement a method that it needs, as ``forward`` of a ``PyLayer``.

    Examples:
        >>> try:
        ...     bireme.autograd.PyLayer.apply(bireme.ones([1]))
        ... except bireme.errors.MissingMethodError as e:
        ...     print(str(e).splitlines()[0])
        PyLayer.forward: expected a static method `forward(ctx, ...)` in the subclass, got none
    """


class NotIndexableError(RuntimeError, TypeError):
    """An ``IterableDataset`` has neither indices nor a length.

    Examples:
        >>> try:
        ...     len(bireme.io.IterableDataset())
        ... except bireme.errors.NotIndexableError as e:
        ...     print(str(e).splitlines()[0])
        IterableDataset.__len__: expected iteration, since an IterableDataset has neither indices nor a length, got a call of __len__
    """


class InplaceError(RuntimeError):
    """Backward needs a tensor that an inplace operator has changed since.

    Examples:
        >>> x = bireme.to_tensor([2.0], stop_gradient=False)
        >>> y = x * 1.0
        >>> z = y * y
        >>> y.add_(bireme.ones([1]))  # doctest: +ELLIPSIS
        Tensor(...
        >>> try:
        ...     z.backward()
        ... except bireme.errors.InplaceError as e:
        ...     print("inplace" in str(e))
        True
    """


class FreedGraphError(RuntimeError, SystemError):
    """A second backward goes through a graph that the first one has freed: pass ``retain_graph=True`` to the first.

    Examples:
        >>> x = bireme.to_tensor([2.0], stop_gradient=False)
        >>> y = x * x
        >>> y.backward()
        >>> try:
        ...     y.backward()
        ... except bireme.errors.FreedGraphError as e:
        ...     print(str(e).splitlines()[0])
        backward(): expected a graph that was kept, got one through multiply that has been freed
    """


class RecompileError(RuntimeError):
    """A program would have to be compiled inside ``bireme.debug.no_recompile()``.

    Examples:
        >>> issubclass(bireme.errors.RecompileError, RuntimeError)
        True
    """


class ProcessLostError(RuntimeError):
    """A process of the job is gone, so that a collective or a message cannot be completed.

    Examples:
        >>> issubclass(bireme.errors.ProcessLostError, RuntimeError)
        True
    """


class NonFiniteError(RuntimeError):
    """An operator produced NaN or infinity while ``FLAGS_check_nan_inf`` is on.

    Examples:
        >>> from bireme.amp.debugging import check_numerics
        >>> try:
        ...     check_numerics(bireme.to_tensor([float("nan")]), "log", "x")
        ... except bireme.errors.NonFiniteError as e:
        ...     print("num_nan=1" in str(e))
        True
    """


for _class in [c for c in vars().copy().values() if isinstance(c, type) and issubclass(c, Exception)]:
    _class.__module__ = "bireme.errors"  # where users find it, and what a traceback says


def nonfinite(name: str, nans: int, infinities: int, shape: Any) -> str:
    """What a NonFiniteError says of an operator's result."""
    return f"{name}: There are NAN or INF (num_nan={nans}, num_inf={infinities}) in a result of shape {list(shape)}"


def show(got: Any) -> str:
    """A value as a message shows it: values rather than types, short."""
    sig = getattr(got, "_sig", None)
    if sig is not None:
        return f"a Tensor of shape {list(sig.shape)}, {sig.dtype.name}"
    if isinstance(got, (int, float, complex, bool, str, type(None))):
        text = repr(got)
        return text if len(text) <= 200 else f"{text[:200]}..."
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
    """Whether a file is of this package, or stands between it and its caller: looked up for each frame of each new
    call.
    """

    def __missing__(self, name: str) -> bool:
        found = self[name] = name.startswith((_HOME, "<frozen importlib")) or name == contextlib.__file__
        return found


_ours = _Files()


def user_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost frame outside this package: the line the user wrote. Starts from the caller, or from the frame given."""
    frame = frame or sys._getframe(1)
    while frame is not None and _ours[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def position(frame: FrameType | None = None) -> tuple[str, int] | None:
    """File and line of the user's call, cheap enough to keep with a node."""
    frame = user_frame(frame or sys._getframe(1))
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """A warning at the user's line, however deep in here it is found: the one way to give one."""
    frame = user_frame()
    if frame is None:  # a thread of our own found it
        warnings.warn_explicit(message, kind, "bireme", 0)
    else:
        seen = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(
            message, kind, frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__"), seen
        )


def location(pos: tuple[str, int] | None) -> str:
    """`file.py:41`, or `<unknown>`."""
    if pos is None:
        return "<unknown>"
    return f"{os.path.basename(pos[0])}:{pos[1]}"


_NOTHING: Any = object()


def failure(
    message: str, *, hint: str | None = None, kind: type[Exception] = RuntimeError, pos: Any = _NOTHING
) -> Exception:
    """The exception to raise for a state that is wrong, rather than an argument: the message, a hint, and the user's
    line.

    The line is that of `pos`, if it was kept when the call was recorded, and otherwise the one that runs now.
    """
    lines = [message] if hint is None else [message, f"  hint: {hint}"]
    pos = position() if pos is _NOTHING else pos
    if pos is not None:
        lines.append(f"  at {location(pos)}")
    return as_told(kind("\n".join(lines)))


def as_told(error: Exception) -> Exception:
    """Mark an error as one that says all there is to say."""
    error._told = True  # type: ignore[attr-defined]  # a mark on the exception
    return error


def bad(
    where: str,
    expected: str,
    got: Any = _NOTHING,
    *,
    described: str = "",
    hint: str | None = None,
    kind: type[Exception] = ArgumentError,
) -> Exception:
    """The exception to raise for a bad argument: `raise bad("mean(axis)", "an axis in [-2, 1]", axis,
    kind=OutOfRangeError)`.

    `got` is the value that was given; where a word about it says more than the value, it is `described` instead.
    """
    shown = described if got is _NOTHING else show(got)
    if issubclass(kind, IndexError) and isinstance(got[0] if isinstance(got, (list, tuple)) and got else got, Number):
        shown += ", out of range"
    return failure(f"{where}: expected {expected}, got {shown}", hint=hint or None, kind=kind)


def missing_method(owner: Any, method: str, kind: type[Exception] = NotImplementedError) -> Exception:
    """The exception for a method that a subclass of `owner`'s class has to implement."""
    name = owner.__name__ if isinstance(owner, type) else type(owner).__name__
    return failure(f"{name}.{method}: expected an implementation in the subclass, got none", kind=kind)


def with_line(error: Exception) -> Exception:
    """The same error with the user's line, for one that was made where there was none."""
    pos = position()
    if pos is not None and error.args and "\n  at " not in str(error.args[0]):
        error.args = (f"{error.args[0]}\n  at {location(pos)}", *error.args[1:])
    return error


def for_integer(got: Any) -> type[Exception]:
    """The class for an argument that has to be an integer: of its type if it is none, of its value otherwise."""
    return ArgumentError if isinstance(got, Integral) else ArgumentTypeError


def for_number(got: Any) -> type[Exception]:
    """The same for one that has to be a number."""
    return ArgumentError if isinstance(got, Number) else ArgumentTypeError


def check_number(where: str, got: Any) -> None:
    """Raise for what is no real number, nor anything that is taken for one: an array or a tensor of one element."""
    if not hasattr(got, "__float__"):
        raise bad(where, "a number", got, kind=ArgumentTypeError)


def check_integer(where: str, got: Any) -> None:
    """Raise for what is no integer."""
    if not hasattr(got, "__index__"):
        raise bad(where, "an integer", got, kind=ArgumentTypeError)


def check_function(where: str, got: Any) -> None:
    """Raise for what cannot be called."""
    if not callable(got):
        raise bad(where, "a function", got, kind=ArgumentTypeError)


def renamed(
    error: Exception,
    op: str,
    parameters: Container[str],
    part: bool = False,
    names: Mapping[str, str] | None = None,
) -> Exception:
    """An error that came from inside the function `op`, told as its own: users know the name that they called.

    The inner operator's argument is the one of `op` that `names` says it is, or that has its name; an error about
    another one is told without an argument. An operator that is `part` of a function (`split_sizes` of `split`) may
    speak in that one's name.
    """
    if not getattr(error, "_told", False) or not error.args:
        return error
    message = str(error.args[0])
    found = _HEAD.match(message)
    if found is None or found["op"] == op or (part and op.startswith(f"{found['op']}_")):
        return error
    if found["op"] is None:  # an index that it reads by
        argument, known = found["item"], False
    elif found["argument"] is None:  # an argument that the function only hands on
        argument, known = found["op"], True
    else:
        argument, known = found["argument"], found["argument"].partition("[")[0] in parameters
    for inner, outer in (names or {}).items():
        if argument == inner or argument.startswith(f"{inner}["):
            argument, known = outer + argument[len(inner) :], True
            break
    rest = _PASS.sub(lambda hint: _hint(hint, parameters, names or {}), message[found.end() :])
    error.args = (f"{op}({argument if known else ''}): {rest}", *error.args[1:])
    return error


def _hint(found: re.Match, parameters: Container[str], names: Mapping[str, str]) -> str:
    """A hint at a keyword, if the function that the user called has it."""
    keyword = names.get(found[2], found[2])
    return f"{found[1]}{keyword}{found[3]}" if keyword in parameters or keyword in names.values() else ""


_PASS = re.compile(r"(\n  hint: pass )(\w+)(=.*)")


_HEAD = re.compile(r"(?:(?P<op>\w+)(?:\((?P<argument>[^()]*)\))?|(?P<item>x\[index\](?: = value)?)): ")


def called(names: tuple[str, ...]) -> str:
    """Which of a function's names the user's code calls it by; the first where that is not plain to see."""
    frame = user_frame()
    used = [] if frame is None else [n for n in names if n in frame.f_code.co_names]
    return used[0] if len(used) == 1 else names[0]


class within:
    """Errors from inside the block are told as those of `op`, see `renamed`; `same` are arguments that keep their name."""

    def __init__(self, op: str, *same: str, **names: str):
        self._op, self._names = op, {n: n for n in same} | names

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, tb: Any) -> None:
        if isinstance(error, TELLING):
            renamed(error, self._op, (), names=self._names)


# what `bad` is asked to make, and what Python raises for arguments that nobody expected
TELLING = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError)
LEAVING = (*TELLING, OSError, ImportError)


def leave(error: Exception, op: str = "") -> None:
    """Make an error ready to leave the package, called where it is handled last: `errors.leave(e, name)`, then `raise`.

    One that says all there is to say loses the frames of this package, that of the caller too, since a bare `raise` adds
    none again; those of users stay, and FLAGS_full_traceback keeps all. One that Python or a library raised inside the
    function `op` gets its name instead.
    """
    if getattr(error, "_told", False):
        if not full_traceback[0]:
            without_frames(error, _ours.__getitem__)
    elif op:
        message = str(error.args[0]) if error.args else ""
        if not re.search(rf"\b{op}\b", message):
            error.args = (f"{op}(): {message or type(error).__name__}",)
            if op not in str(error):  # one that makes its text itself
                kind = next(k for k in TELLING if isinstance(error, k))
                raise kind(f"{op}(): {error}").with_traceback(error.__traceback__)


def without_frames(error: BaseException, hidden: Callable[[str], bool]) -> None:
    """Take the frames of some files out of an error's traceback."""
    kept = []
    tb = error.__traceback__
    while tb is not None:
        if not hidden(tb.tb_frame.f_code.co_filename):
            kept.append(tb)
        tb = tb.tb_next
    for here, following in zip(kept, [*kept[1:], None]):
        here.tb_next = following
    error.__traceback__ = kept[0] if kept else None
    if error.__cause__ is not None and _inside(error.__cause__.__traceback__, hidden):
        error.__cause__ = None  # jax's or gloo's word for what the error tells
        error.__suppress_context__ = True
    inner = error.__context__
    if inner is not None and inner.__traceback__ is not None:
        if hidden(inner.__traceback__.tb_frame.f_code.co_filename):  # it was handled in here: no user has seen it
            error.__suppress_context__ = True


def _inside(tb: TracebackType | None, hidden: Callable[[str], bool]) -> bool:
    """Whether all of a traceback is of hidden files and of jax: no line of a user's is in it."""
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not hidden(name) and f"{os.sep}jax{os.sep}_src{os.sep}" not in name:
            return False
        tb = tb.tb_next
    return True


def named(function: Callable | None = None, **names: str) -> Callable:
    """A public function that is no operator's, whose errors are told by its own name; `names` as for `renamed`."""
    if function is None:
        return lambda given: named(given, **names)
    name, parameters = function.__name__, inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TELLING as e:
            leave(renamed(e, name, parameters, names=names), name)
            raise

    return call


full_traceback = [False]  # set from the flag: flags are declared on top of errors
