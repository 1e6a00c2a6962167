"""Activation functions as layers: one line each, made from the operator and the arguments that the layer keeps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.initializer import Constant
from bireme.nn.layer import Layer
from bireme.ops import (
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    maxout,
    mish,
    prelu,
    relu,
    relu6,
    rrelu,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softshrink,
    softsign,
    swish,
    tanh,
    tanhshrink,
    thresholded_relu,
)  # fmt: skip


class Activation(Layer):
    """A layer that applies one operator to its input with arguments fixed when the layer was made."""

    _function: Callable[..., Tensor]
    _defaults: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        given = self._take(args, kwargs)
        self._name = given.pop("name")
        self._arguments = given
        # what the operator does by itself need not be said at each call
        self._said = {k: v for k, v in given.items() if v != self._defaults[k]}

    @classmethod
    def _take(cls, args: tuple, kwargs: dict) -> dict[str, Any]:
        names = [*cls._defaults, "name"]
        given = {**cls._defaults, "name": None, **dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or len(given) > len(names):
            got = next((k for k in kwargs if k not in names), f"{len(args)} arguments")
            raise errors.bad(f"{cls.__name__}()", f"arguments {', '.join(names)}", got, kind=TypeError)
        return given

    def forward(self, x: Tensor) -> Tensor:
        return type(self)._function(x, **self._said)

    def extra_repr(self) -> str:
        shown = [f"{k}={v}" for k, v in self._arguments.items()]
        return ", ".join(shown + ([f"name={self._name}"] if self._name else []))


def _layer(name: str, function: Callable[..., Tensor], **defaults: Any) -> type[Activation]:
    doc = f"`bireme.nn.functional.{function.__name__}` as a layer."
    body = {"_function": staticmethod(function), "_defaults": defaults, "__doc__": doc, "__module__": __name__}
    cls = type(name, (Activation,), body)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [inspect.Parameter(k, keyword, default=v) for k, v in {**defaults, "name": None}.items()]
    cls.__signature__ = inspect.Signature(arguments)
    return cls


ReLU = _layer("ReLU", relu)
ReLU6 = _layer("ReLU6", relu6)
GELU = _layer("GELU", gelu, approximate=False)
Sigmoid = _layer("Sigmoid", sigmoid)
LogSigmoid = _layer("LogSigmoid", log_sigmoid)
Tanh = _layer("Tanh", tanh)
Tanhshrink = _layer("Tanhshrink", tanhshrink)
Softmax = _layer("Softmax", softmax, axis=-1)
LogSoftmax = _layer("LogSoftmax", log_softmax, axis=-1)
Silu = _layer("Silu", silu, inplace=False)
Swish = _layer("Swish", swish)
Mish = _layer("Mish", mish)
GLU = _layer("GLU", glu, axis=-1)
LeakyReLU = _layer("LeakyReLU", leaky_relu, negative_slope=0.01)
ELU = _layer("ELU", elu, alpha=1.0)
CELU = _layer("CELU", celu, alpha=1.0)
SELU = _layer("SELU", selu, scale=1.0507009873554804934193349852946, alpha=1.6732632423543772848170429916717)
Softplus = _layer("Softplus", softplus, beta=1, threshold=20)
Softsign = _layer("Softsign", softsign)
Softshrink = _layer("Softshrink", softshrink, threshold=0.5)
Hardshrink = _layer("Hardshrink", hardshrink, threshold=0.5)
Hardsigmoid = _layer("Hardsigmoid", hardsigmoid)
Hardswish = _layer("Hardswish", hardswish)
Hardtanh = _layer("Hardtanh", hardtanh, min=-1.0, max=1.0)
ThresholdedReLU = _layer("ThresholdedReLU", thresholded_relu, threshold=1.0, value=0.0)


class Softmax2D(Layer):
    """Softmax over the channels of images, [batch, channels, height, width] or without the batch.

    >>> bireme.nn.Softmax2D()(bireme.zeros([1, 2, 1, 1])).flatten().tolist()
    [0.5, 0.5]
    """

    def __init__(self, name: str | None = None):
        super().__init__()
        self._name = name

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (3, 4):
            raise errors.bad("Softmax2D(x)", "3 or 4 axes", x, kind=AssertionError)
        return softmax(x, axis=-3)

    def extra_repr(self) -> str:
        return f"name={self._name}" if self._name else ""


class Maxout(Layer):
    """The largest of each `groups` channels that follow each other.

    >>> bireme.nn.Maxout(2)(bireme.to_tensor([1.0, 5.0, 2.0, 3.0]).reshape([1, 4, 1, 1])).flatten().tolist()
    [5.0, 3.0]
    """

    def __init__(self, groups: int, axis: int = 1, name: str | None = None):
        super().__init__()
        self._groups, self._axis, self._name = groups, axis, name

    def forward(self, x: Tensor) -> Tensor:
        return maxout(x, self._groups, self._axis)

    def extra_repr(self) -> str:
        return f"groups={self._groups}, axis={self._axis}" + (f", name={self._name}" if self._name else "")


class PReLU(Layer):
    """A rectifier whose slope for negative numbers is learned: one slope, or one for each channel.

    >>> bireme.nn.PReLU(init=0.5)(bireme.to_tensor([-2.0, 3.0])).tolist()
    [-1.0, 3.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, weight_attr: Any = None, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self._num_parameters, self._init, self._data_format, self._name = num_parameters, init, data_format, name
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(float(init)))

    def forward(self, x: Tensor) -> Tensor:
        return prelu(x, self._weight, data_format=self._data_format)

    def extra_repr(self) -> str:
        shown = f"num_parameters={self._num_parameters}, data_format={self._data_format}, init={self._init}, dtype={self._dtype}"
        return shown + (f", name={self._name}" if self._name else "")


class RReLU(Layer):
    """A rectifier whose slopes for negative numbers are drawn in training; in evaluation the mean slope is taken.

    >>> layer = bireme.nn.RReLU(0.25, 0.75)
    >>> layer.training = False
    >>> layer(bireme.to_tensor([-2.0, 3.0])).tolist()
    [-1.0, 3.0]
    """

    def __init__(self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, name: str | None = None):
        super().__init__()
        self._lower, self._upper, self._name = lower, upper, name

    def forward(self, x: Tensor) -> Tensor:
        return rrelu(x, self._lower, self._upper, self.training)

    def extra_repr(self) -> str:
        shown = f"lower={self._lower}, upper={self._upper}, training={self.training}, dtype={self._dtype}"
        return shown + (f", name={self._name}" if self._name else "")
