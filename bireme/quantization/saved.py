"""Saved models as networks of layers: products with stored weights become `Linear` and `Conv2D` again, to be quantized."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.program import running
from bireme.core.program.program import Operation, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments
from bireme.nn.common import Linear
from bireme.nn.conv import Conv2D
from bireme.nn.layer import Layer
from bireme.ops import to_tensor
from bireme.quantization.config import QuantConfig
from bireme.quantization.observers import AbsMaxChannelWiseWeightObserver, GroupWiseWeightObserver
from bireme.quantization.quantize import PTQ

_CONV = ("stride", "padding", "dilation", "groups", "data_format")


class Lifted(Layer):
    """A saved model. Its calls are made one by one; those of products with weights are calls of layers, which `PTQ` finds.

    Args:
        model: The model, in evaluation.
    """

    def __init__(self, model: Model):
        super().__init__()
        self._model = model
        self._places: dict[int, tuple[str, Symbol, Symbol]] = {}  # step -> name of a layer, what it reads and makes
        for i, step in enumerate(model.plan().steps):
            found = _layer(step.operation)
            if found is not None:
                layer, x = found
                name = f"{step.operation.type}_{len(self._places)}"
                self.add_sublayer(name, layer)
                self._places[i] = name, x, step.operation.results
        self.eval()

    def forward(self, *inputs: Tensor) -> Any:
        """Run the model.

        Args:
            *inputs: One tensor for each input, in order.

        Returns:
            What the saved function returned, structured as it was.
        """
        env: dict[Symbol, Any] = dict(zip(self._model.inputs, inputs, strict=True))
        for i, step in enumerate(self._model.plan().steps):
            place = self._places.get(i)
            if place is None:
                running.make([step], env, _itself)
                continue
            name, x, made = place
            layer: Any = self._sub_layers[name]
            env[made] = layer(env[x])
            for symbol in step.dead:
                env.pop(symbol, None)

        def result(x: Any) -> Any:
            if isinstance(x, Dim):
                return x.find(lambda symbol, axis: env[symbol].shape[axis])
            return env[x] if isinstance(x, Symbol) else x

        return mapped(result, self._model.results)


def quantized_model(
    model: Model,
    to: str,
    batches: list[list[Any]],
    observer: Any = None,
    group: int | None = None,
    bits: int | None = None,
) -> tuple[Layer, int]:
    """A saved model with integers, and how many layers have them.

    `to` is int8, which finds scales of inputs in batches of arrays by an observer, weight-int8 or weight-int4; `group` rows of a
    matrix share a scale.
    """
    bits = bits or (4 if to == "weight-int4" else 8)
    activation = observer if to == "int8" else None
    each = AbsMaxChannelWiseWeightObserver(quant_bits=bits)
    config = QuantConfig(activation=None, weight=None)
    config.add_type_config(Conv2D, activation=activation, weight=each)
    matrix = each if group is None else GroupWiseWeightObserver(bits, group)
    config.add_type_config(Linear, activation=activation, weight=matrix)
    net, ptq = Lifted(model), PTQ(config)
    count = len(net.sublayers())
    if not count:
        raise errors.failure(
            "the model has no product with a stored weight, so nothing can be quantized", kind=ValueError
        )
    watched = ptq.quantize(net, inplace=True)
    with no_grad():
        for rows in batches if activation is not None else []:
            watched(*[to_tensor(a) for a in rows])
    return ptq.convert(watched, inplace=True), count


def _itself(t: Any) -> Any:
    return t


def _layer(operation: Operation) -> tuple[Layer, Symbol] | None:
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
