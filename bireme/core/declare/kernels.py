"""Kernels: functions of `_C_ops` that are a declared function with its arguments in another order or with other defaults.

A declaration says so with `c_ops={"histogram": "x:input weight bins=100 min=0.0"}`. Each word is a parameter of the kernel:
`name`, or `name:own` where the function has another name for it (`name:` where it has none), and `=default`; what stands after
a semicolon is given to the function besides.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any

from bireme.core.declare.docstrings import entries
from bireme.core.declare.public import INTERNAL, PUBLIC

_SPECS: dict[str, tuple[str, str]] = {}  # kernel: the declared function, its parameters


def add(made: Any) -> None:
    for names, spec in made.options.get("c_ops", {}).items():
        for name in names.split():
            twin = f"{made.name}_"
            _SPECS[name] = (twin if name.endswith("_") and twin in PUBLIC else made.name, spec)


def names() -> list[str]:
    """The kernels that declarations have named."""
    return list(_SPECS)


@functools.cache
def find(name: str) -> Callable:
    """The function of a kernel."""
    function, spec = _SPECS[name]
    public: Any = PUBLIC.get(function) or INTERNAL[function]
    words, _, besides = spec.partition(";")
    fixed = {own: ast.literal_eval(value) for own, _, value in (word.partition("=") for word in besides.split())}
    owns: dict[str, str] = {}
    parameters = []
    types = public.__annotations__
    for word in words.split():
        word, given, default = word.partition("=")
        parameter, renamed, own = word.partition(":")
        owns[parameter] = own if renamed else parameter
        value = ast.literal_eval(default) if given else inspect.Parameter.empty
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(
            inspect.Parameter(parameter, kind, default=value, annotation=types.get(owns[parameter], "Any"))
        )
    sign = inspect.Signature(parameters, return_annotation=types["return"])

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = sign.bind(*args, **kwargs)
        given.apply_defaults()
        return public(**{owns[n]: x for n, x in given.arguments.items() if owns[n]}, **fixed)

    said = entries(inspect.cleandoc(public.__doc__ or ""))
    lines = [f"    {n}: {said.get(own, 'Tensor.') if own else 'Not used.'}" for n, own in owns.items()]
    kernel.__doc__ = "\n".join(
        [
            f"Kernel of ``{public.__module__}.{public.__name__}``.\n",
            "Args:",
            *lines,
            "\nReturns:",
            "    What that returns.",
        ]
    )
    kernel.__name__ = kernel.__qualname__ = name
    kernel.__module__ = "bireme._C_ops"
    kernel.__signature__ = sign  # type: ignore[attr-defined]  # functions may have one
    kernel.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": types["return"]}
    return kernel
