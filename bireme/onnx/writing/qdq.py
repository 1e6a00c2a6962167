"""Products of integers in the form that runtimes fuse: products of floats, between pairs of QuantizeLinear and
DequantizeLinear (QDQ). What follows a product with constants of its own becomes a part of its scales and its bias.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.onnx.packages import onnx
from bireme.onnx.writing.graph import Val, Writer

PRODUCTS = {"ConvInteger": 0, "MatMulInteger": 1}  # with the axis of the output channels of a weight
MOVES = ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze")
MONOTONE = (
    "Relu",
    "MaxPool",
    "Clip",
    *MOVES,
)  # rounding before them and behind them is the same as rounding behind them
WHOLE = ("Relu", "MaxPool", *MOVES)  # nodes on int8 that onnxruntime has kernels for
MOST = 2.0**30  # steps that a bias has at most: it is an int32, and sums are added to it


@dataclass
class Product:
    """A product of integers: what its numbers mean, and what of the following nodes is a part of it."""

    node: Any
    input: str
    step: float  # of the input
    scale: list[str]  # names of the input's scale and zero point
    weight: np.ndarray
    steps: np.ndarray  # of the weight, by channel
    last: Any  # the node whose result it gives now
    turned: Any = None  # the Transpose behind a convolution with channels last
    bias: np.ndarray | None = None
    taken: list[Any] = field(default_factory=list)

    def scaled(self, factor: np.ndarray, shift: np.ndarray) -> bool:
        """Take over a factor and a shift by channel; whether the weight can hold it."""
        negative = factor < 0
        turned = np.moveaxis(self.weight, PRODUCTS[self.node.op_type], 0)
        if (turned[negative] == -128).any():
            return False
        turned = np.where(negative.reshape(-1, *[1] * (turned.ndim - 1)), -turned, turned)
        self.weight = np.moveaxis(turned, 0, PRODUCTS[self.node.op_type])
        self.steps = self.steps * np.abs(factor)
        self.bias = shift if self.bias is None else self.bias * factor + shift
        return True

    def fitted(self) -> None:
        """Widen the steps of channels whose bias would be too many of them: it outweighs all their products."""
        least = 0.0 if self.bias is None else np.abs(self.bias) / (self.step * MOST)
        steps = np.maximum(self.steps, least)
        steps[steps == 0] = 1.0
        shape = [-1 if i == PRODUCTS[self.node.op_type] else 1 for i in range(self.weight.ndim)]
        if (steps != self.steps).any():
            self.weight = np.round(self.weight * (self.steps / steps).reshape(shape)).astype(np.int8)
            self.steps = steps


class Form:
    """The nodes of a graph that are written again in QDQ form."""

    def __init__(self, w: Writer, outputs: list[str]):
        self.w, self.nodes = w, w.nodes
        self.constants = {t.name: t for t in w.root.initializers}
        self.made = {name: node for node in w.nodes for name in node.output}
        self.readers: dict[str, list[Any]] = {}
        for name in outputs:
            self.readers.setdefault(name, []).append(None)
        for node in w.nodes:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
            for name in _read_inside(node):
                self.readers.setdefault(name, []).append(None)
        self.zeros: dict[int, Val] = {}
        self.rounded: dict[int, Any] = {}  # nodes by id whose results are rounded as this QuantizeLinear does
        self.whole: dict[int, Any] = {}  # those whose results are the integers of it
        self.names: dict[str, str] = {}  # what is read now instead of a value

    def array(self, name: str) -> np.ndarray | None:
        """The value of a constant, or of one in another shape."""
        if name in self.constants:
            return onnx("numpy_helper").to_array(self.constants[name])
        node = self.made.get(name)
        if node is not None and node.op_type == "Reshape":
            found = [self.array(x) for x in node.input]
            if all(x is not None for x in found):
                return found[0].reshape(found[1])  # type: ignore[union-attr]  # constants, as was asked above
        return None

    def reader(self, node: Any) -> Any:
        """The only node that reads a node's result."""
        found = self.readers.get(node.output[0], [])
        return found[0] if len(found) == 1 else None

    # ------------------------------------------------------------ what is found

    def product(self, node: Any) -> Product | None:
        """What a product of integers means, if its input was quantized by one scale, and its result has scales."""
        weight = self.array(node.input[1])
        source = self.made.get(node.input[0])
        while source is not None and source.op_type == "Transpose":
            source = self.made.get(source.input[0])
        if weight is None or weight.dtype != np.int8 or source is None or source.op_type != "QuantizeLinear":
            return None
        back, turned = self.reader(node), None
        if back is not None and back.op_type == "Transpose":
            turned, back = back, self.reader(back)
        if back is None or back.op_type != "DequantizeLinear" or len(back.input) != 2:
            return None
        point = self.array(node.input[2]) if len(node.input) > 2 else np.zeros(1)
        if len(node.input) > 3 or point is None or not self._has_zero(source, point):
            return None
        step, sums = self.array(source.input[1]), self.array(back.input[1])
        if step is None or sums is None or step.size != 1 or not (step > 0).all():
            return None
        channels = weight.shape[PRODUCTS[node.op_type]]
        steps = np.broadcast_to(sums.astype(np.float64).reshape(-1) / float(step), [channels])
        return Product(
            node, node.input[0], float(step), list(source.input[1:]), weight, steps, back, turned, taken=[back]
        )

    def _has_zero(self, quantize: Any, point: np.ndarray) -> bool:
        """Whether the integers of a QuantizeLinear mean zero where a product reads them so."""
        own = self.array(quantize.input[2]) if len(quantize.input) > 2 else np.zeros(1)
        return own is not None and own.size == point.size == 1 and int(own.item()) == int(point.item())

    def join(self, p: Product) -> None:
        """Take the nodes behind a product that add or multiply constants by channel."""
        if p.turned is not None:
            p.taken.append(p.turned)
        while (after := self.reader(p.last)) is not None:
            if not (self._adds(p, after) or self._normalizes(p, after)):
                break
            p.last = after
            p.taken.append(after)

    def _adds(self, p: Product, node: Any) -> bool:
        if node.op_type != "Add" or (p.node.op_type == "MatMulInteger" and not self._is_matrix(p)):
            return False
        other = self.array(node.input[0 if node.input[1] == p.last.output[0] else 1])
        n, conv = len(p.steps), p.node.op_type == "ConvInteger"
        fits = other is not None and other.size == n and other.ndim <= p.weight.ndim
        axis = -1 if p.turned is not None or not conv else 1 - p.weight.ndim
        if not fits or (n > 1 and (other.ndim < -axis or other.shape[axis] != n)):  # type: ignore[union-attr]  # constants, as was asked above
            return False
        return p.scaled(np.ones(n), other.astype(np.float64).reshape(-1))  # type: ignore[union-attr]  # constants, as was asked above

    def _normalizes(self, p: Product, node: Any) -> bool:
        if node.op_type != "BatchNormalization" or p.node.op_type != "ConvInteger" or p.turned is not None:
            return False
        found = [self.array(x) for x in node.input[1:]]
        if any(x is None for x in found):
            return False
        weight, bias, mean, variance = [x.astype(np.float64) for x in found]  # type: ignore[union-attr]  # constants, as was asked above
        factor = weight / np.sqrt(variance + next(a.f for a in node.attribute if a.name == "epsilon"))
        return bool(np.isfinite(factor).all()) and p.scaled(factor, bias - mean * factor)

    def _is_matrix(self, p: Product) -> bool:
        return p.node.output[0] in self.w.root.matrices

    def rounds(self, p: Product) -> tuple[Any, list[Any]]:
        """The QuantizeLinear that rounds a product's result, and monotone nodes between."""
        between: list[Any] = []
        last = p.last
        while True:
            found = self.readers.get(last.output[0], [])
            if found and all(x is not None and x.op_type == "QuantizeLinear" for x in found):
                scales = [self.array(x.input[1]) for x in found]
                same = all(s is not None and s.size == 1 and s.item() == scales[0].item() for s in scales)  # type: ignore[union-attr]  # constants, as was asked above
                zeros = [self.array(x.input[2]) for x in found]
                same = same and all(z is not None and z.dtype == np.int8 and z.item() == zeros[0].item() for z in zeros)  # type: ignore[union-attr]  # constants, as was asked above
                # the same constants are read where the rounding stands now
                same = same and all(x in self.constants for x in found[0].input[1:])
                return (found[0] if same else None), between
            after = self.reader(last)
            if (
                after is None
                or after.op_type not in MONOTONE
                or len(after.output) > 1
                or after.input[0] != last.output[0]
            ):
                return None, between
            last = after
            between.append(last)

    # ------------------------------------------------------------ what is written

    def write(self, keep_integers: bool) -> None:
        """Write all nodes again. With `keep_integers`, convolutions whose results are not rounded stay as they are, and
        what stands between a product and its rounding is computed on integers.
        """
        self.w.nodes = []
        gone: set[int] = set()
        replaced: set[str] = set()
        for node in self.nodes:
            if id(node) in gone:
                continue
            found = self.product(node) if node.op_type in PRODUCTS else None
            if found is None:
                self._again(node)
                continue
            self.join(found)
            quantize, between = self.rounds(found)
            if quantize is None and keep_integers and node.op_type == "ConvInteger":
                self._again(node)
                continue
            gone.update(id(x) for x in found.taken)
            replaced.update((node.input[1], *[x for one in found.taken for x in one.input]))
            if quantize is not None:
                for one in between:
                    self._simplify(one, quantize)
                if keep_integers and between and all(self._is_whole(one, quantize) for one in between):
                    gone.update(id(x) for x in self.readers[between[-1].output[0]])
                    self._on_integers(found, between, quantize)
                else:
                    self.rounded.update((id(one), quantize) for one in (found.last, *between)[: len(between)])
            self._product(found)
        replaced |= self._drop()
        read = {x for node in self.w.nodes for x in (*node.input, *_read_inside(node))}
        unread = {x for x in replaced if x in self.constants and x not in read}
        self.w.initializers = [t for t in self.w.initializers if t.name not in unread]

    def _drop(self) -> set[str]:
        """Leave out constants in another shape that nobody reads any more; what they were made of."""
        read = {x for node in self.w.nodes for x in (*node.input, *_read_inside(node))}
        unread = [
            node for node in self.w.nodes
            if node.op_type == "Reshape" and node.output[0] not in read and None not in self.readers.get(node.output[0], [])
        ]  # fmt: skip
        gone = {id(node) for node in unread}
        self.w.nodes = [node for node in self.w.nodes if id(node) not in gone]
        return {x for node in unread for x in node.input}

    def _simplify(self, node: Any, quantize: Any) -> None:
        """A Clip from zero to what rounding clips anyway is a Relu, which runtimes have for integers."""
        if node.op_type != "Clip":
            return
        low, high = (self.array(x) for x in node.input[1:])
        scale, zero = (self.array(x) for x in quantize.input[1:])
        if any(x is None for x in (low, high, scale, zero)):
            return
        if low == 0 and high >= (127 - int(zero.item())) * scale:  # type: ignore[operator, union-attr]  # constants, as was asked above
            node.op_type = "Relu"
            del node.input[1:]

    def _is_whole(self, node: Any, quantize: Any) -> bool:
        """Whether runtimes have a node on integers; their Relu takes 0 for zero."""
        zero = self.array(quantize.input[2])
        return node.op_type in WHOLE and (node.op_type != "Relu" or (zero is not None and not zero.any()))

    def _on_integers(self, p: Product, between: list[Any], quantize: Any) -> None:
        """Round a product at once, and let the nodes between read integers and give what was rounded behind them."""
        self.whole[id(p.last)] = quantize
        self.names[p.last.output[0]] = self.w.unused(f"{p.last.output[0]}_rounded")
        for one in self.readers[between[-1].output[0]]:
            self.names[one.output[0]] = between[-1].output[0]

    def _again(self, node: Any) -> None:
        for i, name in enumerate(node.input):
            node.input[i] = self.names.get(name, name)
        self.w.nodes.append(node)
        self._rounded(node, id(node))

    def _rounded(self, node: Any, key: int) -> None:
        """Round a node's result, if what reads it rounds it so."""
        name = node.output[0]
        if key in self.whole:
            self._node("QuantizeLinear", [name, *self.whole[key].input[1:]], self.names[name])
        quantize = self.rounded.get(key)
        if quantize is None:
            return
        node.output[0] = self.w.unused(f"{name}_exact")
        q = self._node("QuantizeLinear", [node.output[0], *quantize.input[1:]], self.w.unused(f"{name}_rounded"))
        self._node("DequantizeLinear", [q, *quantize.input[1:]], name)

    def _zeros(self, n: int) -> Val:
        """Zero points of channels, once for each number of them."""
        if n not in self.zeros:
            self.zeros[n] = self.w.constant(np.zeros(n, np.int8))
        return self.zeros[n]

    def _node(self, op: str, given: list[str], name: str, **attrs: Any) -> str:
        self.w.nodes.append(onnx("helper").make_node(op, given, [name], **attrs))
        return name

    def _product(self, p: Product) -> None:
        w, axis = self.w, PRODUCTS[p.node.op_type]
        p.fitted()
        before = self.array(p.node.input[1])
        same = before is not None and np.array_equal(before, p.weight)
        weight = Val(w, p.node.input[1], dtypes.int8) if same else w.constant(p.weight, p.node.input[1])
        steps = p.steps.astype(np.float32)
        scale, zero = w.constant(steps), self._zeros(len(steps))
        given = [
            self._node("DequantizeLinear", [self.names.get(p.input, p.input), *p.scale], w.unused(f"{p.input}_float")),
            w("DequantizeLinear", weight, scale, zero, dtype=dtypes.float32, axis=axis).name,
        ]
        matrix = p.node.op_type == "MatMulInteger"
        if p.bias is not None:
            unit = np.maximum(np.float32(p.step) * steps, np.finfo(np.float32).tiny)
            bias = np.round(p.bias / unit.astype(np.float64)).astype(np.int32)
            given.append(w("DequantizeLinear", w.constant(bias), w.constant(unit), dtype=dtypes.float32, axis=0).name)
        op = "Conv" if not matrix else "Gemm" if self._is_matrix(p) else "MatMul"
        made = onnx("helper").make_node(op, given, [p.last.output[0]])
        made.attribute.extend(p.node.attribute)
        w.nodes.append(made)
        if p.turned is not None:
            made.output[0] = w.unused(f"{made.output[0]}_turned")
            made = onnx("helper").make_node("Transpose", [made.output[0]], [p.last.output[0]])
            made.attribute.extend(p.turned.attribute)
            w.nodes.append(made)
        self._rounded(made, id(p.last))


def _read_inside(node: Any) -> list[str]:
    """What the graphs in a node's attributes read."""
    found = []
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
            for one in inner.node:
                found += [*one.input, *_read_inside(one)]
            found += [x.name for x in inner.output]
    return found
