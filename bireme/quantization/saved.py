"""Saved models as networks of layers: products with stored weights become `Linear` and `Conv2D` again, to be quantized."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program import running
from bireme.core.program.program import Operation, leaves, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments
from bireme.nn.common import Linear
from bireme.nn.conv import Conv2D
from bireme.nn.layer import Layer
from bireme.nn.quant.format import LinearDequanter, LinearQuanter, lasting
from bireme.ops import embedding, to_tensor
from bireme.quantization.config import QuantConfig
from bireme.quantization.equalization import equalize, join_biases
from bireme.quantization.observers import (
    AbsMaxChannelWiseWeightObserver,
    AbsmaxObserver,
    GroupWiseWeightObserver,
)
from bireme.quantization.quantize import PTQ

RECURRENT = ("recurrence", "sequence", "lstm", "gru")
LARGE = 4096  # numbers of a table from which on integers are worth their calls
INTEGERS = ("matmul_integer", "conv2d_integer", "unpack_int4", "dequantize_linear")  # calls of quantized models
_SLIGHT = 0.01  # part of an output's magnitude
_CONV = ("stride", "padding", "dilation", "groups", "data_format")


@dataclass(frozen=True)
class Choice:
    """Which products of a model are quantized, and how their weights are: in so many bits, with a scale for each output or one.

    Convolutions with one channel a group stay as they are unless `depthwise`: each output is a sum of few products, so
    nothing averages their rounding, and there is little to save in their kernels. See decisions/065.
    """

    bits: int = 8
    group: int | None = None  # rows of a matrix that share a scale
    each: bool = True
    conv: bool = True
    depthwise: bool = False
    matrix: bool = True
    # those of embeddings, and matrices of recurrent networks: stored in 8 bits, numbers when they are used
    tables: bool = False
    skipped: frozenset[str] = frozenset()  # names of variables: products that read or make one stay as they are

    def takes(self, layer: Layer, x: Symbol, made: Symbol) -> bool:
        if self.skipped.intersection((x.name, made.name)):
            return False
        if not isinstance(layer, Conv2D):
            return self.matrix
        return self.depthwise if _is_depthwise(layer) else self.conv

    def config(self, activation: Any) -> QuantConfig:
        """Observers of the layers, given that of inputs."""
        each: Any = AbsMaxChannelWiseWeightObserver(quant_bits=self.bits) if self.each else AbsmaxObserver(self.bits)
        matrix = each if self.group is None else GroupWiseWeightObserver(self.bits, self.group)
        made = QuantConfig(activation=None, weight=None)
        made.add_type_config(Conv2D, activation=activation, weight=each)
        made.add_type_config(Linear, activation=activation, weight=matrix)
        return made


class Table(Layer):
    """The table of an embedding as int8, with a scale for each row: rows become numbers after they were looked up."""

    def __init__(self, weight: Tensor, padding: int | None):
        super().__init__()
        rows = weight.numpy()
        scale = np.maximum(np.abs(rows).max(1, keepdims=True) / np.float32(127), np.float32(1e-30))
        self._padding = padding
        self.register_buffer("weight", lasting(to_tensor(np.round(rows / scale).astype(np.int8))))
        self.register_buffer("scale", lasting(to_tensor(scale)))

    def forward(self, x: Tensor) -> Tensor:
        return embedding(x, self.weight, self._padding).astype("float32") * embedding(x, self.scale)


class Stored(Layer):
    """A matrix as int8, with a scale for each row, that becomes numbers when it is used."""

    def __init__(self, weight: Tensor):
        super().__init__()
        most = np.abs(weight.numpy()).max(1)
        self.register_buffer("weight", lasting(to_tensor(LinearQuanter(most, quant_axis=0)(weight).numpy())))
        self._numbers = LinearDequanter(most, quant_axis=0)

    def forward(self) -> Tensor:
        return self._numbers(self.weight)


class Lifted(Layer):
    """A saved model. Its calls are made one by one; those of products with weights are calls of layers, which `PTQ` finds.

    Args:
        model: The model, in evaluation.
        choice: Which products become layers. Default: None, all.
    """

    def __init__(self, model: Model, choice: Choice | None = None):
        super().__init__()
        self._model = model
        self._places: dict[int, tuple[str, Symbol, Symbol]] = {}  # step -> name of a layer, what it reads and makes
        self._tables: dict[int, tuple[str, Symbol, Symbol]] = {}
        self._stored: dict[int, dict[int, str]] = {}  # step -> id of a matrix -> name of what it is stored in
        for i, step in enumerate(model.plan().steps):
            found, kind = layer_of(step.operation), step.operation.type
            if found is not None and (choice is None or choice.takes(found[0], found[1], step.operation.results)):
                self._places[i] = self._added(found[0], kind), found[1], step.operation.results
            elif choice is not None and choice.tables:
                table = _table(step.operation)
                if table is not None:
                    self._tables[i] = self._added(table[0], kind), table[1], step.operation.results
                elif kind in RECURRENT:
                    read = [
                        x for x in leaves((step.operation.args, step.operation.kwargs)) if _weight(x, 2) is not None
                    ]
                    self._stored[i] = {id(x): self._added(Stored(x.detach()), kind) for x in read}
        self.eval()

    def _added(self, layer: Layer, kind: str) -> str:
        name = f"{kind}_{len(self._sub_layers)}"
        self.add_sublayer(name, layer)
        return name

    def _make(self, i: int, step: running.Step, env: dict[Symbol, Any]) -> None:
        """Make one call, the layer of which may stand in its place."""
        place = self._places.get(i) or self._tables.get(i)
        if place is None:
            held, layers = self._stored.get(i, {}), dict[str, Any](self._sub_layers)
            running.make([step], env, lambda t: layers[held[id(t)]]() if id(t) in held else t)
            return
        name, x, made = place
        layer: Any = self._sub_layers[name]
        env[made] = layer(env[x])
        for symbol in step.dead:
            env.pop(symbol, None)

    def forward(self, *inputs: Tensor) -> Any:
        """Run the model.

        Args:
            *inputs: One tensor for each input, in order.

        Returns:
            What the saved function returned, structured as it was.
        """
        env: dict[Symbol, Any] = dict(zip(self._model.inputs, inputs, strict=True))
        for i, step in enumerate(self._model.plan().steps):
            self._make(i, step, env)

        def result(x: Any) -> Any:
            if isinstance(x, Dim):
                return x.find(lambda symbol, axis: env[symbol].shape[axis])
            return env[x] if isinstance(x, Symbol) else x

        return mapped(result, self._model.results)


def quantized_model(
    model: Model, to: str, batches: list[list[Any]], observer: Any = None, choice: Choice | None = None
) -> tuple[Layer, int]:
    """A saved model with integers, and how many layers have them; the one that is given is used up.

    `to` is int8, which finds scales of inputs in batches of arrays by an observer, weight-int8 or weight-int4. Rounding
    moves the mean of an output; with batches it is moved back, by the bias.
    """
    if to == "int8" and not batches:
        raise errors.failure(
            "int8 finds the scales of inputs in samples, and there are none",
            hint="give some, or quantize weights alone",
            kind=ValueError,
        )
    choice = choice or Choice(bits=4 if to == "weight-int4" else 8)
    activation = observer if to == "int8" else None
    join_biases(model)
    if activation is not None:
        equalize(model, batches)
    net, ptq = Lifted(model, choice), PTQ(choice.config(activation))
    count = len(net._sub_layers)
    if not count:
        whole = any(step.operation.type in INTEGERS for step in model.plan().steps)
        why = "the model has integers already" if whole else "the model has no product with a stored weight"
        raise errors.failure(f"{why}, so nothing can be quantized", kind=ValueError)
    watched = ptq.quantize(net, inplace=True)
    with no_grad():
        for rows in batches if activation is not None else []:
            watched(*[to_tensor(a) for a in rows])
    made = ptq.convert(watched, inplace=True)
    assert isinstance(made, Lifted)
    if batches:
        _move_means_back(Lifted(model, replace(choice, tables=False)), made, batches)
    return made, count


@no_grad()
def _move_means_back(plain: Lifted, made: Lifted, batches: list[list[Any]]) -> None:
    """Let each channel of each layer's output have the mean that it had before; later layers see what was mended."""
    inputs = made._model.inputs
    pairs: list[tuple[dict[Symbol, Any], dict[Symbol, Any]]] = []
    for rows in batches:
        given = [to_tensor(a) for a in rows]
        pairs.append((dict(zip(inputs, given, strict=True)), dict(zip(inputs, given, strict=True))))
    for i, step in enumerate(made._model.plan().steps):
        place = made._places.get(i)
        if place is None:
            for before, after in pairs:
                plain._make(i, step, before)
                made._make(i, step, after)
            continue
        name, x, out = place
        layers: list[Any] = [plain._sub_layers[plain._places[i][0]], made._sub_layers[name]]
        axis = 1 if getattr(layers[0], "_data_format", None) == "NCHW" else -1
        sums: Any = 0.0
        count, power = 0, 0.0
        for pair in pairs:
            for env, layer in zip(pair, layers, strict=True):
                env[out] = layer(env[x])
            far = np.moveaxis((pair[0][out] - pair[1][out]).numpy(), axis, -1)
            sums, count = sums + far.reshape(-1, far.shape[-1]).sum(0, np.float64), count + far.size // far.shape[-1]
            power += float((pair[0][out] ** 2).mean().item()) / len(pairs)
        means = sums / max(count, 1)
        bias = layers[1].bias
        if bias is None and float((means**2).mean()) <= _SLIGHT**2 * power:
            means = 0 * means  # not worth an addition of its own
        else:
            moved = to_tensor(means.astype("float32"))
            layers[1].bias = Parameter(moved if bias is None else bias.detach() + moved)
        shift = to_tensor(means.astype("float32"))
        for pair in pairs:
            pair[1][out] = pair[1][out] + (shift.reshape([-1, 1, 1]) if axis == 1 else shift)
            for env in pair:
                for symbol in step.dead:
                    env.pop(symbol, None)


def _is_depthwise(layer: Layer) -> bool:
    weight = layer.weight if isinstance(layer, Conv2D) and layer._groups > 1 else None
    return weight is not None and weight.shape[1] == 1


def _table(operation: Operation) -> tuple[Layer, Symbol] | None:
    """What stands in the place of a call of an embedding with a large table, and the indices that it reads."""
    given = arguments(operation) if operation.type == "embedding" else None
    if given is None or given.get("max_norm") is not None or not isinstance(operation.results, Symbol):
        return None
    x, weight = given.get("x"), _weight(given.get("weight"), 2)
    return (
        (Table(weight, given.get("padding_idx")), x)
        if isinstance(x, Symbol) and weight is not None and weight.size >= LARGE
        else None
    )


def layer_of(operation: Operation) -> tuple[Layer, Symbol] | None:
    """The layer that a call is, and what it is called with; None where it is none."""
    given = arguments(operation)
    if given is None or not isinstance(operation.results, Symbol):
        return None
    if operation.type == "linear":
        return _linear(given.get("x"), given.get("weight"), given.get("bias"), False)
    if operation.type in ("matmul", "mm") and not given.get("transpose_x"):
        x, y = (given.get(a, given.get(b)) for a, b in (("x", "input"), ("y", "mat2")))
        return _linear(x, y, None, bool(given.get("transpose_y")))
    if operation.type == "conv2d":
        return _conv(given)
    return None


def _weight(x: Any, ndim: int) -> Tensor | None:
    """A tensor that a layer can have, without its gradient."""
    return x.detach() if isinstance(x, Tensor) and x.ndim == ndim and x.dtype.name == "float32" else None


def _linear(x: Any, weight: Any, bias: Any, transposed: bool) -> tuple[Layer, Symbol] | None:
    matrix, vector = _weight(weight, 2), _weight(bias, 1)
    if not _reads(x) or matrix is None or (bias is not None and vector is None):
        return None
    matrix = matrix.t() if transposed else matrix
    rows, columns = matrix.shape
    return _filled(Linear(rows, columns, bias_attr=None if bias is not None else False), matrix, vector), x


def _conv(given: dict[str, Any]) -> tuple[Layer, Symbol] | None:
    x, bias, groups = given.get("x"), given.get("bias"), given["groups"]
    kernels, vector = _weight(given.get("weight"), 4), _weight(bias, 1)
    if not _reads(x) or kernels is None or (bias is not None and vector is None):
        return None
    out, into, *kernel = kernels.shape
    layer = Conv2D(into * groups, out, kernel, groups=groups, bias_attr=None if bias is not None else False)
    for name in _CONV:  # as they were given, in whichever form
        setattr(layer, f"_{name}", given[name])
    return _filled(layer, kernels, vector), x  # type: ignore[return-value]  # x is a Symbol, as `_reads` found


def _reads(x: Any) -> bool:
    return isinstance(x, Symbol) and x.dtype.name == "float32"


def _filled(layer: Any, weight: Tensor, bias: Tensor | None) -> Layer:
    layer.weight.set_value(weight)
    if bias is not None:
        layer.bias.set_value(bias)
    return layer
