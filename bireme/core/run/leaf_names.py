"""What the leaves of a graph are to the user: a parameter, a buffer, an optimizer's state, or what a line reads.

Nothing is recorded for it while calls run: names are looked for when somebody asks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any
from weakref import ref

from bireme.core.base import errors
from bireme.core.graph.graph import Graph, Node, Number, Value

_layers: dict[int, ref[Any]] = {}  # those that live


def keep(layer: Any) -> None:
    """Let the names of a layer's parameters and buffers be found, as long as it lives."""
    # no Python function as the callback: an interrupt that comes inside one is swallowed
    _layers[id(layer)] = ref(layer, functools.partial(_layers.pop, id(layer)))


class Name:
    """How a tensor is called; `path` is its structured name in a model, if it is a parameter or a buffer of one."""

    __slots__ = ("name", "kind", "path")

    def __init__(self, name: str, kind: str = "", path: str = ""):
        self.name, self.kind, self.path = name, kind, path

    def __str__(self) -> str:
        return f"{self.kind} {self.path} ({self.name})" if self.path else self.name


class Names:
    """Names of leaves. The walk over all layers is made once, and only if somebody asks."""

    @functools.cached_property
    def _found(self) -> dict[int, Name]:
        """Parameters and buffers by the id of the tensor and by that of the value that it has now."""
        layers = [layer for r in list(_layers.values()) if (layer := r()) is not None]
        inner = {id(sub) for layer in layers for sub in layer._sub_layers.values()}
        models = [m for m in layers if id(m) not in inner and next(m.named_parameters(), None) is not None]
        found: dict[int, Name] = {}
        for model in models:
            prefix = type(model).__name__ if len(models) > 1 else ""
            for kind, named in (
                ("parameter", model.named_parameters(prefix)),
                ("buffer", model.named_buffers(prefix)),
            ):
                for path, tensor in named:
                    name = Name(tensor.name, kind, path)
                    found.setdefault(id(tensor), name)
                    found.setdefault(id(tensor._value), name)
        return found

    def known(self, leaves: Leaves) -> dict[int, Name]:
        """Those leaves that are tensors with a name, by index."""
        found = self._found
        known = {}
        for index, r in enumerate(leaves.values):
            value = r()
            if value is not None and id(value) in found:
                known[index] = found[id(value)]
        for holder, index in leaves.replaced:  # parameters have another value by now
            tensor = holder()
            if tensor is not None and id(tensor) in found:
                known[index] = found[id(tensor)]
            elif tensor is not None and tensor._name is not None:  # an optimizer's state
                known[index] = Name(tensor._name)
        return known

    def told(self, graph: Graph, leaves: Leaves, index: int) -> str:
        """A leaf in words: its name, or which operator of the user's code reads it first."""
        name = self.known(leaves).get(index)
        return operand(graph.nodes, ~index) if name is None else str(name)


class Leaves:
    """What is kept of the leaves that a graph had when it was met first, all of it weakly.

    `replaced` are tensors that an update gave a new value, with the index of the leaf that had the old one.
    """

    __slots__ = ("values", "replaced")

    def __init__(self, values: Iterable[ref[Value]] = (), replaced: Iterable[tuple[ref[Any], int]] = ()):
        self.values, self.replaced = values, replaced


NONE = Leaves()


def operand(nodes: Iterable[Node], r: int) -> str:
    """A value or a leaf by the first of some calls that reads it."""
    node = next(node for node in nodes if r in node.args)
    return read_by(node, node.args.index(r))


def read_by(node: Node, at: int) -> str:
    """An operand of a call: `input x of matmul at train.py:12`, or `number y of ...`; those of gradients have no name."""
    bound, names = node.bound, []
    if not bound.is_gradient and hasattr(bound.op, "operand_names"):
        places = bound.arguments(range(len(node.args)))
        for name in bound.op.operand_names:
            place = places[name]
            if place == at:
                names.append(f" {name}")
            elif place.__class__ in (list, tuple) and at in place:
                names.append(f" {name}[{place.index(at)}]")
    kind = "number" if node.args[at].__class__ is Number else "input"
    return f"{kind}{''.join(names[:1])} of {bound.op.told} at {errors.location(node.pos)}"


def owners(paths: Iterable[str]) -> list[str]:
    """The layer that parameters belong to: what their structured names have in common; the topmost ones if nothing."""
    layers = list(dict.fromkeys(path.rpartition(".")[0] for path in paths))
    parts = [layer.split(".") for layer in layers]
    common = [same[0] for same in itertools.takewhile(lambda same: len(set(same)) == 1, zip(*parts))]
    found = [".".join(common)] if common else dict.fromkeys(p[0] for p in parts)
    return [layer for layer in found if layer]
