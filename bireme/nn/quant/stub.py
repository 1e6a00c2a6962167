"""A place in a network where numbers are quantized, for what is done by functions and not by layers."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer


class Stub(Layer):
    """Layer that returns its input, and marks a place where quantization is to look at it or round it.

    ``QAT`` and ``PTQ`` put a quanter there. It serves for inputs of functions, which have no layer of their own.

    Args:
        observer: Factory of the quanter. Default: None, that which the configuration has for activations.

    Shape:
        - input: any; output: the same.

    Examples:
        >>> bireme.nn.quant.Stub()(bireme.to_tensor([1.0])).tolist()
        [1.0]
    """

    def __init__(self, observer: Any = None):
        super().__init__()
        self._observer = observer

    def forward(self, input: Tensor) -> Tensor:
        """Return the input.

        Args:
            input: Tensor.

        Returns:
            The same tensor.
        """
        return input


class QuanterStub(Layer):
    """What a ``Stub`` becomes: a layer with a quanter."""

    def __init__(self, layer: Stub, q_config: Any):
        super().__init__()
        factory = layer._observer if layer._observer is not None else q_config.activation
        self._observer = None if factory is None else factory._instance(layer)

    def forward(self, input: Tensor) -> Tensor:
        return input if self._observer is None else self._observer(input)
