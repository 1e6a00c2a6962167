"""Normalisation layers."""

from __future__ import annotations

from typing import Any

from bireme.core import errors
from bireme.core.tensor import Tensor
from bireme.nn.initializer import Constant
from bireme.nn.layer import Layer
from bireme.ops import layer_norm


class LayerNorm(Layer):
    """Shifts and scales each sample to mean 0 and variance 1 over the last axes, then applies weight and bias.

    >>> bireme.nn.LayerNorm(2, epsilon=0.0)(bireme.to_tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        if isinstance(normalized_shape, int):
            normalized_shape = [normalized_shape]
        if not isinstance(normalized_shape, (list, tuple)):
            raise errors.bad("LayerNorm(normalized_shape)", "an int or a list of them", normalized_shape, kind=TypeError)
        self._normalized_shape, self._epsilon = list(normalized_shape), epsilon
        self.weight = self.create_parameter(self._normalized_shape, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(self._normalized_shape, bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"
