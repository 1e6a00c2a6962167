"""The interface through which something that can run a graph registers itself.

An executor is an object with a `name` and one method:

    prepare(graph, live, donate, device) -> call

`graph` is a core.graph.Graph, `live` the indices of the values to return, `donate` the indices of leaves whose buffers
may be reused, `device` a core.device.Device. `call(leaves, vectors)` gets the leaf arrays (NumPy or jax arrays) and
the packed numbers (`graph.pack`), and returns one array per live index; what it returns must not share memory with a
leaf. (XLA's own calls take the donated leaves as a list of their own; `lookup` knows.) Preparing may be slow (a
compiler); calling is what happens every step. The NumPy interpreter and XLA both go through this; `register(executor)`
adds another and `use(name)` sends everything to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from bireme.core.base import errors
from bireme.core.base.device import Device
from bireme.core.graph.graph import Graph

Call = Callable[[list, list], list]


class Executor(Protocol):
    """Something that can run a graph."""

    name: str

    def prepare(self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], device: Device) -> Call: ...


_ALL: dict[str, Executor] = {}
_forced: list[str] = []


def register(executor: Executor) -> Executor:
    """Register an executor under its name.

    Args:
        executor: Object with a ``name`` and a method ``prepare(graph, live, donate, device)`` that returns a function;
            see the architecture page of the documentation.

    Returns:
        The executor.

    Examples:
        >>> class Nothing:
        ...     name = "nothing"
        ...     def prepare(self, graph, live, donate, device):
        ...         raise NotImplementedError
        >>> bireme.device.register_executor(Nothing()).name
        'nothing'
    """
    _ALL[executor.name] = executor
    return executor


def find(name: str) -> Executor:
    if name not in _ALL:
        raise errors.bad("executor", f"one of {', '.join(map(repr, _ALL))}", name)
    return _ALL[name]


def forced() -> Executor | None:
    """The executor that `use` asked for, if any."""
    return _ALL[_forced[-1]] if _forced else None


@contextmanager
def use(name: str) -> Iterator[None]:
    """Context manager inside which every graph of the process is run by one executor.

    Args:
        name: Name of the executor: ``"xla"``, ``"interpreter"`` or one that was registered.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.debug.use_executor("xla"):
        ...     (bireme.ones([2]) + 1).tolist()
        [2.0, 2.0]
    """
    find(name)
    _forced.append(name)
    try:
        yield
    finally:
        _forced.pop()
