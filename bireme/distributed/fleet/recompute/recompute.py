"""recompute: memory for time. What a function computes on the way is not kept for backward but computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor import grad_mode
from bireme.core.tensor.recompute import Region
from bireme.core.tensor.tensor import Tensor

__all__ = ["recompute", "recompute_sequential"]


def recompute(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function without keeping its intermediate results; they are computed again in the backward pass.

    This trades time for memory. The Python code of the function runs once, and random numbers (dropout) are the same
    both times.

    Args:
        function: The function, for example a layer.
        *args: Arguments of the function.
        **kwargs: Keyword arguments of the function. ``preserve_rng_state`` and ``use_reentrant`` are not passed on and
            have no effect.

    Returns:
        What the function returns.

    Examples:
        >>> layer = bireme.nn.Sequential(bireme.nn.Linear(2, 4), bireme.nn.GELU(), bireme.nn.Linear(4, 1))
        >>> y = bireme.distributed.fleet.utils.recompute(layer, bireme.ones([3, 2]))
        >>> y.sum().backward()
        >>> layer[0].weight.grad.shape
        [2, 4]
    """
    if not callable(function):
        raise errors.bad("recompute(function)", "a callable", function, kind=errors.ArgumentTypeError)
    for name in ("preserve_rng_state", "use_reentrant"):
        flag = kwargs.pop(name, True)
        if not isinstance(flag, bool):
            raise errors.bad(f"recompute({name})", "True or False", flag, kind=errors.ArgumentTypeError)
    if not grad_mode.is_grad_enabled():
        return function(*args, **kwargs)
    with Region() as region:
        result = function(*args, **kwargs)
    found: list[Tensor] = []
    _collect(result, found)
    new = region.finish(found)
    return _replaced(result, {id(t): t_new for t, t_new in zip(found, new)})


def _collect(result: Any, found: list[Tensor]) -> None:
    if isinstance(result, Tensor):
        found.append(result)
    elif isinstance(result, (list, tuple)):
        for r in result:
            _collect(r, found)
    elif isinstance(result, dict):
        for r in result.values():
            _collect(r, found)


def _replaced(result: Any, new: dict[int, Tensor]) -> Any:
    if isinstance(result, Tensor):
        return new[id(result)]
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_replaced(r, new) for r in result])
    if type(result) in (list, tuple):
        return type(result)(_replaced(r, new) for r in result)
    if type(result) is dict:
        return {k: _replaced(r, new) for k, r in result.items()}
    return result


def recompute_sequential(ctx: dict, functions: Sequence[Callable], *args: Any, **kwargs: Any) -> Any:
    """Call functions one after the other, with recomputation of groups of them.

    Args:
        ctx: Dict whose key ``segments`` is the number of groups. Default of the key: 1.
        functions: The functions, for example a ``Sequential``; a tuple that one returns is unpacked for the next.
        *args: Arguments of the first function.
        **kwargs: Keyword arguments of the first function; see ``recompute``.

    Returns:
        What the last function returns.

    Examples:
        >>> model = bireme.nn.Sequential(bireme.nn.Linear(4, 4), bireme.nn.Linear(4, 2))
        >>> bireme.incubate.distributed.fleet.recompute_sequential({"segments": 2}, model, bireme.ones([8, 4])).shape
        [8, 2]
    """
    segments = ctx.get("segments", 1)
    layers = list(functions)
    if isinstance(segments, bool) or not isinstance(segments, int) or segments < 1:
        raise errors.bad(
            'recompute_sequential(ctx["segments"])', "a positive integer", segments, kind=errors.for_integer(segments)
        )
    if not layers:
        raise errors.bad("recompute_sequential(functions)", "at least one function", functions)
    size = max(len(layers) // segments, 1)
    for start in range(0, len(layers), size):
        args = (recompute(_Chain(layers[start : start + size]), *args, **kwargs),)
        kwargs = {}
    return args[0]


class _Chain:
    """Functions one after the other."""

    def __init__(self, functions: Sequence[Callable]):
        self.functions = functions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.functions[0](*args, **kwargs)
        for f in self.functions[1:]:
            result = f(*result) if isinstance(result, tuple) else f(result)
        return result
