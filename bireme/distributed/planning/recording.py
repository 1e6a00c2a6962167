"""The description of a model from one recorded step: forward and backward pass on values that have no numbers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.graph.bound import GradBound
from bireme.core.graph.graph import Graph, Node, Unmade, Value
from bireme.core.record.capture import capture
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.distributed.planning.description import Description, Part
from bireme.nn.layer import Layer
from bireme.ops import mean

__all__ = ["abstract", "describe"]

LOSS_REDUCES, LOSS_NUMBERS = 2, 5  # all-reduces of a cross entropy of divided logits, and numbers of a row in them
VIEWS = {"reshape", "transpose", "lay_out", "unsqueeze", "squeeze", "flatten"}  # results that are their operand
PLAIN = {
    "add",
    "subtract",
    "multiply",
    "matmul",
    "mean",
    "sum",
    "cast",
    "scale",
}  # gradients without more than operands
NORMS = ("layer_norm", "rms_norm", "batch_norm", "group_norm", "embedding")
Loss = Callable[..., Tensor]


def abstract(model: Layer, also: Any = None) -> tuple[Layer, Any]:
    """Copies of a model, and of what belongs to it, whose parameters have shapes and no numbers."""
    memo: dict[int, Any] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        empty = wrap(Unmade(tensor._value.sig, None, tensor._value.device), tensor.stop_gradient)
        if isinstance(tensor, Parameter):
            empty = Parameter(empty, name=tensor.name, trainable=not tensor.stop_gradient)
            empty.optimize_attr, empty.need_clip = tensor.optimize_attr, tensor.need_clip
            empty.regularizer = tensor.regularizer
        memo[id(tensor)] = empty
    return copy.deepcopy(model, memo), copy.deepcopy(also, memo)


def shapes_of(sample: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Shapes and dtypes of a sample: tensors, arrays, or objects with a shape and a dtype such as InputSpec."""
    found = []
    for x in sample if isinstance(sample, (list, tuple)) else [sample]:
        x = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(x)
        shape = tuple(x.shape)
        if not shape or not all(isinstance(n, int) and n > 0 for n in shape):
            raise errors.bad("plan(sample)", "positive sizes with the batch first", list(shape))
        found.append((shape, dtypes.of(x.dtype, "plan(sample)")))
    if len({shape[0] for shape, _ in found}) != 1:
        raise errors.bad("plan(sample)", "one batch size for all inputs", [list(shape) for shape, _ in found])
    return found


def run(model: Layer, inputs: Sequence[Tensor], loss: Loss | None) -> Tensor:
    """The loss of a batch: of the outputs and the last input, or the mean of the outputs where there is none."""
    if loss is not None:
        return loss(model(*inputs[:-1]), inputs[-1])
    out = model(*inputs)
    out = out[0] if isinstance(out, (list, tuple)) else out
    return out if out.ndim == 0 else mean(out)


def describe(model: Layer, sample: Any, loss: Loss | None = None) -> Description:
    """Record a step of a model without numbers, and return what it consists of.

    Args:
        model: The model; of its parameters only shapes are looked at, so ``LazyGuard`` will do.
        sample: A batch, or shapes of one: tensors, arrays or ``InputSpec``, the last one for the loss if there is one.
        loss: Function of outputs and the last input. Default: None, the mean of the outputs.

    Returns:
        The description.

    Raises:
        ValueError: If the sample has no batch axis, or the model looks at values.

    Examples:
        >>> from bireme.distributed import planning
        >>> model = bireme.nn.Sequential(bireme.nn.Linear(4, 8), bireme.nn.ReLU(), bireme.nn.Linear(8, 2))
        >>> found = planning.describe(model, bireme.ones([3, 4]))
        >>> found.parameters, found.roles
        (58, {'0': 'column', '2': 'row'})
    """
    return Recorded(model, sample, loss).description()


class Recorded:
    """The graph of a step, and which of its calls belong to which layer."""

    def __init__(self, model: Layer, sample: Any, loss: Loss | None):
        shapes = shapes_of(sample)
        own, _ = abstract(model)
        self.model, self.batch = own, shapes[0][0][0]
        self.tokens = math.prod(shapes[0][0][1:]) if shapes[0][1].kind == "i" else 1
        self.blocks = blocks_of(own)
        self.spans: dict[str, list[tuple[int, int]]] = {}
        hooks = [hook for name, layer in own.named_sublayers() for hook in self._watch(name, layer)]
        try:
            with capture() as graph:
                self._graph = graph
                named = {}
                for name, t in [*own.named_parameters(), *own.named_buffers()]:
                    t._value = graph.input(tuple(t.shape), t._value.sig.dtype)
                    named[id(t._value)] = name if isinstance(t, Parameter) else ""
                inputs = [wrap(graph.input(shape, dtype)) for shape, dtype in shapes]
                total = run(own, inputs, loss)
                self.forward = graph.segment.state.depth
                total.backward()
                segment = graph.segment
                self.graph = Graph(segment.state, segment.device)
                held: list[Value | None] = [r() for r in segment.leaves]
        finally:
            for hook in hooks:
                hook.remove()
        self.names = {~i: named[id(v)] for i, v in enumerate(held) if v is not None and named.get(id(v))}
        self.inputs = {~i for i, v in enumerate(held) if v is not None and id(v) not in named}

    def _watch(self, name: str, layer: Layer) -> list[Any]:
        begun: list[int] = []

        def before(*_: Any) -> None:
            begun.append(self._graph.segment.state.depth)

        def after(*_: Any) -> None:
            self.spans.setdefault(name, []).append((begun.pop(), self._graph.segment.state.depth))

        return [layer.register_forward_pre_hook(before), layer.register_forward_post_hook(after)]

    # ------------------------------------------------------------ roles

    def products(self) -> dict[int, str]:
        """Calls that multiply by a weight with two axes, by their place: the name of the layer."""
        found = {}
        for i, node in enumerate(self.graph.nodes[: self.forward]):
            if node.bound.op.name == "matmul" and node.args[1] in self.names and node.sigs[1].ndim == 2:
                if True not in node.bound.attrs:
                    found[i] = self.names[node.args[1]].rpartition(".")[0]
        return found

    def roles(self, products: dict[int, str]) -> dict[int, str]:
        """Which products are divided by columns and which by rows: a row product reads nothing but column products."""
        role: dict[int, str] = {}
        sources: dict[int, frozenset[int]] = {}
        for i, node in enumerate(self.graph.nodes[: self.forward]):
            read = [sources.get(r, OTHER) for r in node.args if r.__class__ is int and r not in self.names]
            found = frozenset().union(*read) if read else OTHER
            if i in products:
                if found and all(role.get(j) in ("", "column") for j in found):
                    role[i] = "row"
                    role.update(dict.fromkeys(found, "column"))
                else:
                    role[i] = ""
                found = frozenset([i])
            elif node.bound.op.name.startswith(NORMS):
                found = OTHER
            for r in node.made:
                sources[r] = found
        if role and role[last := max(role)] == "":
            role[last] = "column"  # of logits
        return role

    # ------------------------------------------------------------ parts

    def part_of(self) -> tuple[list[str], list[int]]:
        """The names of the parts, and the part of each call of the forward pass."""
        if not self.blocks:
            return [""], [0] * self.forward
        names = sorted(
            [n for n in self.spans if n.rpartition(".")[0] == self.blocks and n.rpartition(".")[2].isdigit()],
            key=lambda n: self.spans[n][0],
        )
        starts = [self.spans[n][0][0] for n in names]
        end = self.spans[names[-1]][-1][1]
        places, now = [], 0
        for i in range(self.forward):
            while now < len(starts) and i >= starts[now]:
                now += 1
            places.append(now if i < end else len(names) + 1)
        return ["", *names, ""], places

    def description(self) -> Description:
        nodes = self.graph.nodes
        names, place = self.part_of()
        parts = [Part(name) for name in names]
        products = self.products()
        role = self.roles(products)
        divided = self._divided(role)
        sizes = self._sizes(role, divided)
        experts: set[int] = set()
        sent: set[int] = set()
        for i, node in enumerate(nodes[: self.forward]):
            part, weight = parts[place[i]], node.args[1] if len(node.args) > 1 else None
            is_divided = any(r in divided for r in node.made)
            work = _flops(node)
            moved = sum(s.nbytes for s in node.sigs) + sum(s.nbytes for s in node.outs)
            if node.bound.op.name == "embedding_of":
                moved = 2 * node.outs[0].nbytes + node.sigs[0].nbytes  # of a table only the rows
            part.working = max(part.working, moved)
            if node.bound.op.name.startswith("attention"):
                part.attention_flops += work
            elif work and (is_divided or role.get(i)):
                part.divided_flops += work
                part.divided_factors += node.sigs[0].nbytes + node.outs[0].nbytes
            elif work:
                part.flops += work
                part.factors += node.sigs[0].nbytes + node.outs[0].nbytes
            elif node.bound.op.name not in VIEWS:
                part.moved += 0 if is_divided else moved
                part.divided_moved += moved if is_divided else 0
            if role.get(i) == "row":
                part.reduced += 1
                part.reduced_bytes += node.outs[0].nbytes
            if weight in self.names and node.sigs[1].ndim == 3 and node.bound.op.name == "matmul":
                experts.add(node.sigs[1].shape[0])
                # the narrow side of experts is what travels, to them and back
                back = node.sigs[0].nbytes > node.outs[0].nbytes
                part.dispatched += back or node.args[0] not in sent
                part.dispatched_bytes += (
                    node.outs[0].nbytes if back else node.sigs[0].nbytes * (node.args[0] not in sent)
                )
                sent.add(node.args[0])
        self._backward_of_columns(parts, place, role)
        self._saved(parts, place, divided)
        self._parameters(parts, place, products, role)
        layers = {products[i]: kind for i, kind in role.items() if kind}
        owners = {name.rpartition(".")[0] for name, p in self.model.named_parameters() if p.ndim == 3}
        layers |= dict.fromkeys(sorted(owners), "experts")
        last = max(role, default=-1)
        if last >= 0 and role[last] == "column" and nodes[last].outs[0].ndim > 1:
            # a loss of logits that are divided: sums and largest of rows, forward and backward
            part = parts[place[last]]
            part.backward_reduced += LOSS_REDUCES
            part.backward_reduced_bytes += LOSS_NUMBERS * 4 * nodes[last].outs[0].size / nodes[last].outs[0].shape[-1]
        lengths = self._lengths(layers)
        return Description(
            parts, self.batch, self.tokens, sorted(sizes), lengths, max(experts, default=0), layers, self.blocks
        )

    def _divided(self, role: dict[int, str]) -> set[int]:
        """Values that tensor parallelism divides."""
        found: set[int] = set()
        kinds = {self.graph.nodes[i].args[1]: kind for i, kind in role.items()}
        for i, node in enumerate(self.graph.nodes):
            base = node.bound.base if isinstance(node.bound, GradBound) else None
            if i in role:
                found.update(node.made if role[i] == "column" else ())
            elif base is not None and base.op.name == "matmul":
                found.update(_divided_gradients(node, kinds, found))
            elif any(r in found for r in node.args if r.__class__ is int):
                found.update([r for r, s in zip(node.made, node.outs) if s.ndim])
        return found

    def _sizes(self, role: dict[int, str], divided: set[int]) -> set[int]:
        found = set()
        for i, node in enumerate(self.graph.nodes[: self.forward]):
            if role.get(i):
                found.add(node.sigs[1].shape[1 if role[i] == "column" else 0])
            elif node.bound.op.name == "reshape" and node.args[0] in divided:
                last, shape = node.sigs[0].shape[-1], node.outs[0].shape
                found.update([n for k, n in enumerate(shape) if math.prod(shape[k:]) == last][:1])
        return found

    def _backward_of_columns(self, parts: list[Part], place: list[int], role: dict[int, str]) -> None:
        """Gradients of inputs of column products are sums over devices; those of one input are reduced together, as one
        sum where the compiler adds them up first.
        """
        seen: set[int] = set()
        for i, node in enumerate(self.graph.nodes[: self.forward]):
            if role.get(i) == "column" and node.args[0] not in self.inputs:
                part = parts[place[i]]
                part.backward_reduced += node.args[0] not in seen
                part.backward_reduced_bytes += node.sigs[0].nbytes
                part.backward_added_bytes += node.sigs[0].nbytes * (node.args[0] not in seen)
                seen.add(node.args[0])

    def _saved(self, parts: list[Part], place: list[int], divided: set[int]) -> None:
        """Bytes that the backward pass reads of what the forward pass has made."""
        nodes = self.graph.nodes
        maker = {r: i for i, node in enumerate(nodes) for r in node.made}
        root: dict[int, int] = {}
        for node in nodes[: self.forward]:
            if node.bound.op.name in VIEWS and node.args[0].__class__ is int:
                root[node.first] = root.get(node.args[0], node.args[0])
        read = {root.get(r, r) for node in nodes[self.forward :] for r in node.args if r.__class__ is int and r >= 0}
        for r in read:
            i = maker.get(r, self.forward)
            if i < self.forward:
                size = nodes[i].outs[r - nodes[i].first].nbytes
                parts[place[i]].saved += 0 if r in divided else size
                parts[place[i]].divided_saved += size if r in divided else 0
        self._kept(parts, place, divided, read)
        for k, part in enumerate(parts[:-1]):
            later = {
                r for i, n in enumerate(nodes[: self.forward]) if place[i] > k for r in n.args if r.__class__ is int
            }
            crossing = [r for r in later if r >= 0 and place[maker[r]] <= k]
            sizes = [nodes[maker[r]].outs[r - nodes[maker[r]].first] for r in crossing]
            part.border = sum(s.nbytes for s in sizes if s.dtype.kind == "f" and s.ndim and s.shape[0] == self.batch)

    def _kept(self, parts: list[Part], place: list[int], divided: set[int], read: set[int]) -> None:
        """What compilers keep though no gradient reads it by name: a gradient that computes again what the forward pass
        has computed is given that, one array of the size of its operand; of attention, its weights twice.
        """
        named = {
            node.bound.base.op.name for node in self.graph.nodes[self.forward :] if isinstance(node.bound, GradBound)
        }
        for i, node in enumerate(self.graph.nodes[: self.forward]):
            op, part = node.bound.op.name, parts[place[i]]
            if op not in named or op in VIEWS or op in PLAIN or op.startswith("embedding"):
                continue
            if op.startswith("attention"):
                q, k = node.sigs[0].shape, node.sigs[1].shape
                part.scores += 2 * node.sigs[0].dtype.itemsize * q[0] * q[1] * q[2] * k[1]
                continue
            size = max(s.nbytes for s in node.sigs)
            apart = any(r in divided for r in node.args if r.__class__ is int)
            part.kept += 0 if apart else size
            part.divided_kept += size if apart else 0
            if any(r in self.names for r in node.args if r.__class__ is int):
                part.regions += size
            if op.startswith(NORMS):
                part.normed += size + (node.sigs[0].nbytes if node.args[0] in read else 0)

    def _parameters(self, parts: list[Part], place: list[int], products: dict[int, str], role: dict[int, str]) -> None:
        shards = {products[i]: kind for i, kind in role.items() if kind}
        used = {
            self.names[r]
            for n in self.graph.nodes[self.forward :]
            for r in n.args
            if r.__class__ is int and r in self.names
        }
        first: dict[str, int] = {}
        for i, node in enumerate(self.graph.nodes[: self.forward]):
            for r in node.args:
                if r.__class__ is int and r in self.names:
                    first.setdefault(self.names[r], place[i])
        owners: list[set[str]] = [set() for _ in parts]
        layers = dict(self.model.named_sublayers(include_self=True))
        for name, p in self.model.named_parameters():
            k = first.get(name, 0)
            owner, _, last = name.rpartition(".")
            owners[k].add(owner)
            kind = shards.get(owner)
            if name in used and last != "bias":  # no gradient needs what was added
                parts[k].used_tensors += 1
                parts[k].used_parameters += 0 if kind else p.size
                parts[k].divided_used_parameters += p.size if kind else 0
            if p.ndim == 3:
                parts[k].expert_parameters += p.size
                parts[k].expert_tensors += 1
            elif kind == "column" or (kind == "row" and last == "weight"):
                parts[k].divided_parameters += p.size
                parts[k].divided_tensors += 1
            else:
                parts[k].parameters += p.size
                parts[k].tensors += 1
        for part, owned in zip(parts, owners):
            part.layers = len(owned)
            norms = [layers[owner] for owner in owned if "Norm" in type(layers[owner]).__name__]
            part.norms = sum(len(layer.parameters()) for layer in norms)
            part.norm_parameters = sum(p.size for layer in norms for p in layer.parameters())

    def _lengths(self, layers: dict[str, str]) -> list[int]:
        """Sizes of the sequence where norms between blocks see ``[batch, sequence, width]``."""
        found = set()
        for name, layer in self.model.named_sublayers():
            if "Norm" in type(layer).__name__ and self.blocks and name.startswith(f"{self.blocks}."):
                for begin, end in self.spans.get(name, ()):
                    for node in self.graph.nodes[begin:end]:
                        if node.outs[0].ndim == 3:
                            found.add(node.outs[0].shape[1])
                            layers[name] = "norm"
        return sorted(found)


OTHER: frozenset[int] = frozenset([-1])


def _divided_gradients(node: Node, kinds: dict[Any, str], divided: set[int]) -> list[int]:
    """Of the gradients of a product: of its input as the input is, of its weight as the weight is."""
    _, saved, _ = node.bound.split(node.args)
    kind = kinds.get(saved[1]) if len(saved) > 1 else None
    if kind is None:
        return list(node.made) if any(r in divided for r in node.args if r.__class__ is int) else []
    return [r for k, r in zip(node.bound.needs, node.made) if kind and (k == 1 or kind == "row")]


def _flops(node: Node) -> float:
    """Operations of products; a multiplication and an addition are two."""
    op = node.bound.op.name
    if op.startswith("attention"):
        q, k = node.sigs[0].shape, node.sigs[1].shape
        return 4.0 * q[0] * q[1] * q[2] * q[3] * k[1]
    return 2.0 * node.bound.amounts(node.sigs, node.outs)[2]


def blocks_of(model: Layer) -> str:
    """The name of the list of blocks: of lists of layers of one class the one with most parameters."""
    best, name_of_best = 0, ""
    for name, layer in model.named_sublayers():
        inside = list(layer.children())
        numbered = [key for key in layer._sub_layers if key.isdigit()]
        if len(inside) < 2 or len(numbered) != len(inside) or len({type(child) for child in inside}) > 1:
            continue
        size = sum(p.size for p in layer.parameters())
        if size > best and len({len(child.parameters()) for child in inside}) == 1 and inside[0].sublayers():
            best, name_of_best = size, name
    return name_of_best
