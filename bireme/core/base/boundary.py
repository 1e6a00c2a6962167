"""The boundary of the public interface, where it is no operator: what errors show of the package, and how a call that
does not fit its signature is told. Operators have the same in `core/declare`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, TypeVar

from bireme.core.base import errors

F = TypeVar("F", bound=Callable)
_known: dict[Any, Any] = {}  # guarded forms: one for all names of a function
_SPECIAL = ("__init__", "__getitem__", "__setitem__", "__delitem__")

# words of PyTorch for what has another name here; a hint where the call knows that name
_TORCH = {
    "affine": "weight_attr", "batch_first": "time_major", "betas": "beta1", "bias": "bias_attr", "device": "place",
    "dim": "axis", "elementwise_affine": "weight_attr", "eps": "epsilon", "input": "x",
    "lr": "learning_rate", "params": "parameters", "track_running_stats": "use_global_stats",
}  # fmt: skip
_HOW = {
    "affine": "weight_attr=False and bias_attr=False for no weight and bias",
    "batch_first": "time_major=False, the default, for inputs of shape [batch, time, features]",
    "betas": "beta1 and beta2",
    "bias": "bias_attr=False for no bias",
    "elementwise_affine": "weight_attr=False and bias_attr=False for no weight and bias",
}


def meant(name: str, known: Iterable[str], others: Iterable[str] = ()) -> str | None:
    """The keyword that was probably meant: that for PyTorch's word, or one that is spelled nearly so."""
    known = list(known)
    found = _TORCH.get(name)
    return found if found in known else next(iter(difflib.get_close_matches(name, [*known, *others], 1)), None)


def unknown_keyword(op: str, name: str, known: Iterable[str], others: Iterable[str] = ()) -> Exception:
    """The error for a keyword that a call does not take; `others` are taken too, and not listed."""
    known = list(known)
    near = meant(name, known, others)
    if _TORCH.get(name) in known:
        hint: str | None = f"use {_HOW.get(name, near)}"
    else:
        hint = f"did you mean {near}?" if near else None
    expected = f"a keyword among {', '.join(known)}" if known else "no keywords"
    return errors.bad(f"{op}({name})", expected, described=f"'{name}'", hint=hint, kind=errors.ArgumentTypeError)


def too_many(op: str, most: int, given: int) -> Exception:
    """The error for more positional arguments than a call takes."""
    expected = f"at most {most} positional argument{'s' * (most != 1)}" if most else "no positional arguments"
    return errors.bad(f"{op}()", expected, described=f"{given}", kind=errors.ArgumentTypeError)


def twice(op: str, name: str) -> Exception:
    """The error for an argument that is given twice."""
    described = "two, by position and by keyword"
    return errors.bad(f"{op}({name})", "one value", described=described, kind=errors.ArgumentTypeError)


def missing(op: str, name: str) -> Exception:
    """The error for an argument without default that is not given."""
    described = "none: the argument is missing"
    return errors.bad(f"{op}({name})", "a value", described=described, kind=errors.ArgumentTypeError)


def wrong_call(op: str, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Exception | None:
    """The error for arguments that do not fit the signature of a function; None if they do."""
    other_names = {o: name for name, others in getattr(function, "aliases", {}).items() for o in others}
    parameters = list(inspect.signature(function).parameters.values())
    kinds = inspect.Parameter
    positional = [p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    by_name = [p.name for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    stars = {p.kind for p in parameters}
    given = set(positional[: len(args)])
    hidden = given & {"self"}
    for name in kwargs:
        name = other_names.get(name, name)
        if name not in by_name and kinds.VAR_KEYWORD not in stars:
            return unknown_keyword(op, name, [n for n in by_name if n not in hidden], other_names)
        if name in by_name and name in given:
            return twice(op, name)
        given.add(name)
    if len(args) > len(positional) and kinds.VAR_POSITIONAL not in stars:
        return too_many(op, len(positional) - len(hidden), len(args) - len(hidden))
    for p in parameters:
        if p.default is p.empty and p.name not in given and p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            return missing(op, p.name)
    return None


def leave(error: Exception) -> None:
    """As `errors.leave`; of errors that are not Bireme's own, the wrappers below are left out."""
    errors.leave(error)
    if not getattr(error, "_told", False) and not errors.full_traceback[0]:
        errors.without_frames(error, __file__.__eq__)


def guarded(function: F) -> F:
    """A public function or method whose errors show no frames of this package; a call that does not fit its signature is
    told as of operators.
    """
    name = function.__name__
    if function in _known:
        return _known[function]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return function(*args, **kwargs)
            except TypeError as e:
                told = None if getattr(e, "_told", False) else wrong_call(_called(name, args), function, args, kwargs)
                if told is not None:
                    raise told from None
                raise
        except errors.LEAVING as e:
            leave(e)
            raise

    _known[function] = _known[call] = call
    return call  # type: ignore[return-value]  # of the same signature


def _called(name: str, args: tuple) -> str:
    return type(args[0]).__name__ if name == "__init__" else name


class Guarded:
    """Base of Bireme's own classes that users construct: guards the constructor and the public methods of each.

    Not `forward`, which is called through the layer, and not what subclasses of users define.
    """

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("bireme."):
            guard_methods(cls)


def guard_methods(cls: type, more: Iterable[str] = _SPECIAL) -> None:
    """Guard the public methods that a class defines, and more by name."""
    for name, value in list(vars(cls).items()):
        if (not name.startswith("_") and name != "forward") or name in more:
            if _to_guard(value):
                setattr(cls, name, guarded(value))


def guard_functions(module: dict[str, Any]) -> None:
    """Guard the public functions that a module defines: `guard_functions(globals())` at its end."""
    for name, value in list(module.items()):
        if not name.startswith("_") and _to_guard(value) and value.__module__ == module["__name__"]:
            module[name] = guarded(value)


def guard_names(module: dict[str, Any], package: str) -> None:
    """Guard what a module lists in `__all__` and takes from the modules of a package: functions, and methods of classes."""
    for name in module["__all__"]:
        value: Any = module.get(name)
        if not str(getattr(value, "__module__", "")).startswith(f"{package}."):
            continue
        if _to_guard(value):
            module[name] = guarded(value)
        elif isinstance(value, type) and not issubclass(value, (Guarded, BaseException)):
            guard_methods(value)


def _to_guard(value: Any) -> bool:
    return value.__class__ is FunctionType and not hasattr(value, "op") and not inspect.isgeneratorfunction(value)
