"""`flops`: the arithmetic of a forward pass, counted layer by layer as Paddle does (multiply-add is one operation)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guarded
from bireme.core.tensor.tensor import Tensor
from bireme.hapi.callback import say
from bireme.hapi.model_summary import looked_at, made_inputs, own_tensors
from bireme.hapi.static_flops import Table
from bireme.nn.layer import Layer

# A rule is called as rule(layer, inputs, output) after each call of the layer, and adds to `layer.total_ops`.
Rule = Callable[[Any, Any, Any], None]


def count_convNd(m: Any, x: Any, y: Tensor) -> None:
    """Convolutions: for each output element, the kernel size times the input channels of its group, and the bias."""
    kernel = math.prod(m.weight.shape[2:])
    m.total_ops += y.size * (m._in_channels // m._groups * kernel + (m.bias is not None))


def count_linear(m: Any, x: Any, y: Tensor) -> None:
    """Linear: for each output element, the number of input features."""
    m.total_ops += y.size * m.weight.shape[0]


def count_bn(m: Any, x: Any, y: Tensor) -> None:
    """Batch norm: two per element; none in training."""
    if not m.training:
        m.total_ops += 2 * x[0].size


def count_leaky_relu(m: Any, x: Any, y: Tensor) -> None:
    """Leaky ReLU: one per element."""
    m.total_ops += x[0].size


def count_avgpool(m: Any, x: Any, y: Tensor) -> None:
    """Average pooling: one per output element."""
    m.total_ops += y.size


def count_adap_avgpool(m: Any, x: Any, y: Tensor) -> None:
    """Adaptive average pooling: for each output element, the size of its window and the division."""
    window = math.prod(n // k for n, k in zip(x[0].shape[2:], y.shape[2:], strict=True))
    m.total_ops += y.size * (window + 1)


def count_zero_ops(m: Any, x: Any, y: Any) -> None:
    """Layers that count as free."""


def count_parameters(m: Any, x: Any, y: Any) -> None:
    """Store the number of the layer's own parameters in ``m.total_params``.

    Args:
        m: The layer.
        x: The layer's inputs, which are not used.
        y: The layer's output, which is not used.
    """
    m.total_params = sum(int(t.size) for t in own_tensors(m))


def count_io_info(m: Any, x: Any, y: Any) -> None:
    """Store the shapes of a layer's input and output in ``m.input_shape`` and ``m.output_shape``.

    Args:
        m: The layer.
        x: Tuple of the layer's inputs, of which the first counts.
        y: The layer's output, or a list of them, of which the first counts.
    """
    m.input_shape = list(x[0].shape) if x and isinstance(x[0], Tensor) else None
    m.output_shape = (
        list(y.shape)
        if isinstance(y, Tensor)
        else list(y[0].shape)
        if isinstance(y, (list, tuple)) and isinstance(y[0], Tensor)
        else None
    )


register_hooks: dict[type, Rule] = {
    nn.Conv1D: count_convNd,
    nn.Conv2D: count_convNd,
    nn.Conv3D: count_convNd,
    nn.Conv1DTranspose: count_convNd,
    nn.Conv2DTranspose: count_convNd,
    nn.Conv3DTranspose: count_convNd,
    nn.BatchNorm2D: count_bn,
    nn.BatchNorm: count_bn,
    nn.ReLU: count_zero_ops,
    nn.ReLU6: count_zero_ops,
    nn.LeakyReLU: count_leaky_relu,
    nn.Linear: count_linear,
    nn.Dropout: count_zero_ops,
    nn.AvgPool1D: count_avgpool,
    nn.AvgPool2D: count_avgpool,
    nn.AvgPool3D: count_avgpool,
    nn.AdaptiveAvgPool1D: count_adap_avgpool,
    nn.AdaptiveAvgPool2D: count_adap_avgpool,
    nn.AdaptiveAvgPool3D: count_adap_avgpool,
}
_NOTES = ("total_ops", "total_params", "input_shape", "output_shape")


@guarded
def flops(
    net: Layer, input_size: Any, custom_ops: dict[type[Layer], Rule] | None = None, print_detail: bool = False
) -> int:
    """Count the arithmetic operations of a forward pass and print the total.

    A multiplication with its addition counts as one. Layers without a counting rule count as zero and are listed. The
    network stays as it was.

    Args:
        net: The network, a ``Layer``.
        input_size: Shape of the input, or a list of shapes.
        custom_ops: Dict of layer class to a function that takes the layer, the tuple of its inputs and its output, and
            adds to ``layer.total_ops``. Default: None.
        print_detail: Print a table with a row for each layer. Default: False.

    Returns:
        The number of operations, an int.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 8), bireme.nn.ReLU(), bireme.nn.Linear(8, 2))
        >>> bireme.flops(net, [1, 4])
        Total Flops: 48     Total Params: 58
        48
    """
    if not isinstance(net, Layer):
        raise errors.bad("flops(net)", "a Layer", net, kind=errors.ArgumentTypeError)
    if custom_ops is not None and not (
        isinstance(custom_ops, dict) and all(callable(rule) for rule in custom_ops.values())
    ):
        raise errors.bad(
            "flops(custom_ops)", "a dict of a layer class to a function", custom_ops, kind=errors.ArgumentTypeError
        )
    rules = register_hooks | (custom_ops or {})
    leaves = [layer for layer in net.sublayers(include_self=True) if not any(True for _ in layer.children())]
    args = made_inputs("flops", input_size, None)
    called: dict[int, Any] = {}
    unknown: dict[str, None] = {}

    def note(layer: Any, inputs: Any, output: Any) -> None:
        called[id(layer)] = layer
        count_parameters(layer, inputs, output)
        count_io_info(layer, inputs, output)
        rule = rules.get(type(layer))
        if rule is None:
            unknown[type(layer).__name__] = None
        else:
            rule(layer, inputs, output)

    def call() -> list[tuple]:
        called.clear()
        for layer in leaves:
            layer._buffers.pop("total_ops", None)  # a rule may have made it a tensor
            layer.total_ops = 0
        net(*args)
        return [
            (m.full_name(), m.input_shape, m.output_shape, m.total_params, int(m.total_ops)) for m in called.values()
        ]

    hooks = [layer.register_forward_post_hook(note) for layer in leaves]
    try:
        rows = looked_at(net, call)
    finally:
        for hook in hooks:
            hook.remove()
        for layer in leaves:
            for name in _NOTES:
                layer.__dict__.pop(name, None)
            layer._non_persistable_buffer_names_set.discard("total_ops")
    if unknown:
        say(f"flops: no rule for {', '.join(unknown)}, counted as zero; custom_ops= takes one")
    if print_detail:
        table = Table(["Layer Name", "Input Shape", "Output Shape", "Params", "Flops"])
        for row in rows:
            table.add_row(row)
        table.print_table()
    total = sum(row[-1] for row in rows)
    say(f"Total Flops: {total}     Total Params: {sum(row[3] for row in rows)}")
    return total
