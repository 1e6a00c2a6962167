"""Requirements of a program: versions, modules, and marks of deprecation."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bireme import version
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions


def deprecated(
    update_to: str = "", since: str = "", reason: str = "", level: int = 0
) -> Callable[[Callable], Callable]:
    """Return a decorator that marks a function as deprecated.

    Args:
        update_to: Name of the replacement. Default: ``""``.
        since: Version since which it is deprecated. Default: ``""``.
        reason: Reason. Default: ``""``.
        level: 0: say so in the docstring; 1: also warn at each call; 2: raise an error at each call. Default: 0.

    Returns:
        The decorator.

    Examples:
        >>> @bireme.utils.deprecated(update_to="new", since="1.0", reason="it is slow")
        ... def old():
        ...     return 1
        >>> old(), old.__doc__
        (1, 'Deprecated since 1.0; use "new" instead. Reason: it is slow.')
    """
    if level not in (0, 1, 2):
        raise errors.bad("deprecated(level)", "0, 1 or 2", level)
    words = ["Deprecated", *([f"since {since}"] if since else [])]
    text = (
        " ".join(words)
        + (f'; use "{update_to}" instead' if update_to else "")
        + "."
        + (f" Reason: {reason.rstrip('.')}." if reason else "")
    )

    def mark(function: Callable) -> Callable:
        name = f"{function.__module__}.{function.__qualname__}"

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if level == 2:
                raise errors.failure(f"{name}: {text}")
            if level == 1:
                errors.warn(f"{name}: {text}", DeprecationWarning)
            return function(*args, **kwargs)

        call.__doc__ = f"{text}\n\n{function.__doc__}" if function.__doc__ else text
        return call

    return mark


def _numbers(name: str, text: Any, optional: bool) -> tuple[int, ...] | None:
    if text is None and optional:
        return None
    if not isinstance(text, str):
        raise errors.bad(f"require_version({name})", "a version such as '3.2.2'", text, kind=errors.ArgumentTypeError)
    if not re.fullmatch(r"\d+(\.\d+){0,3}", text):
        raise errors.bad(f"require_version({name})", "a version such as '3.2.2'", text)
    parts = [int(n) for n in text.split(".")]
    return tuple(parts + [0] * (4 - len(parts)))


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Raise an error unless the version of Paddle's interface that Bireme implements is in a range.

    Args:
        min_version: The lowest version, such as ``"2.0"``.
        max_version: The highest version. Default: None, any.

    Raises:
        RuntimeError: If the version is outside the range.

    Examples:
        >>> bireme.utils.require_version("2.0", "4.0")
    """
    low, high = _numbers("min_version", min_version, False), _numbers("max_version", max_version, True)
    own, text = _own()
    assert low is not None
    if not any(own):
        errors.warn("require_version(): bireme.version says 0.0.0, an unnamed build: nothing is compared")
        return
    if own < low or (high is not None and own > high):
        wanted = f"{min_version} or later" if max_version is None else f"between {min_version} and {max_version}"
        raise errors.bad("require_version()", f"version {wanted}", described=text, kind=RuntimeError)


def _own() -> tuple[tuple[int, ...], str]:
    """Return the version of the interface, or what a program has assigned to ``version.major`` and so on."""
    said = [version.major, version.minor, version.patch, version.rc]
    text = version.interface if ".".join(said[:3]) == version.__version__ else ".".join(said)
    found = _numbers("own", text, False)
    assert found is not None
    return found, text


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """Import a module by name, with a helpful error if it is not installed.

    Args:
        module_name: Name of the module.
        err_msg: Message of the error. Default: None, one that names the package to install.

    Returns:
        The module.

    Raises:
        ImportError: If the module is not installed.

    Examples:
        >>> bireme.utils.try_import("math").floor(1.5)
        1
    """
    try:
        return importlib.import_module(module_name)
    except ImportError:
        if err_msg is not None:
            raise ImportError(err_msg) from None
        where, hint = "try_import(module_name)", f"pip install {module_name.split('.')[0]}"
        raise errors.bad(where, "a module that is installed", module_name, hint=hint, kind=ImportError) from None


guard_functions(globals())
