"""Other names for keywords of plain functions and methods; operators declare theirs with `alias=`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors


def renamed(**names: str) -> Callable[[Callable], Callable]:
    """Let a function take another keyword for a parameter: `@renamed(x="input")`."""

    def declare(fn: Callable) -> Callable:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name, other in names.items():
                if other in kwargs:
                    if name in kwargs:
                        raise errors.bad(
                            f"{fn.__name__}({name})",
                            "one value",
                            described=f"two, also as {other}",
                            kind=errors.ArgumentTypeError,
                        )
                    kwargs[name] = kwargs.pop(other)
            return fn(*args, **kwargs)

        call.aliases = {name: [other] for name, other in names.items()}  # type: ignore[attr-defined]  # a function takes attributes
        return call

    return declare
