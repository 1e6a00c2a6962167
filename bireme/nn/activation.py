"""Activation functions as layers, most of them made from the operator and the arguments that the layer keeps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr
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
        self._name = self.name = given.pop("name")
        for k, v in given.items():
            # an argument `axis` is the attribute `_axis`, which `forward` reads as Paddle's does
            setattr(self, f"_{k}", v)

    @classmethod
    def _take(cls, args: tuple, kwargs: dict) -> dict[str, Any]:
        names = [*cls._defaults, "name"]
        given = {**cls._defaults, "name": None, **dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or len(given) > len(names):
            got = next((repr(k) for k in kwargs if k not in names), f"{len(args)} arguments")
            raise errors.bad(
                f"{cls.__name__}()", f"arguments {', '.join(names)}", described=got, kind=errors.ArgumentTypeError
            )
        return given

    def forward(self, x: Tensor) -> Tensor:
        """Apply the function elementwise, or along the layer's axis where it has one.

        Args:
            x: Tensor of any shape.

        Returns:
            Tensor of the shape that the class documents.
        """
        # defaults of the operator need not be passed
        said = {k: v for k, default in self._defaults.items() if (v := getattr(self, f"_{k}")) != default}
        return type(self)._function(x, **said)

    def extra_repr(self) -> str:
        shown = [f"{k}={getattr(self, f'_{k}')}" for k in self._defaults]
        return ", ".join(shown + ([f"name={self._name}"] if self._name else []))


def _layer(title: str, function: Callable[..., Tensor], doc: str, /, **defaults: Any) -> type[Activation]:
    body = {"_function": staticmethod(function), "_defaults": defaults, "__doc__": doc, "__module__": __name__}
    cls = type(title, (Activation,), body)
    types = {**function.__annotations__, "name": "str | None"}
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = {**defaults, "name": None}.items()
    cls.__signature__ = inspect.Signature(
        [inspect.Parameter(k, keyword, default=v, annotation=types.get(k, "Any")) for k, v in arguments]
    )
    return cls


ReLU = _layer(
    "ReLU",
    relu,
    """Rectified linear unit: ``max(x, 0)``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.ReLU()(bireme.to_tensor([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """,
)

ReLU6 = _layer(
    "ReLU6",
    relu6,
    """Rectified linear unit with an upper limit: ``min(max(x, 0), 6)``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.ReLU6()(bireme.to_tensor([-1.0, 2.0, 9.0])).tolist()
        [0.0, 2.0, 6.0]
    """,
)

GELU = _layer(
    "GELU",
    gelu,
    """Gaussian error linear unit: ``x`` times the standard normal distribution function at ``x``.

    Args:
        approximate: Use the approximation by ``tanh``; ``'tanh'`` and ``'none'`` mean True and False. Default: False.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> [round(y, 4) for y in bireme.nn.GELU()(bireme.to_tensor([-1.0, 0.0, 1.0])).tolist()]
        [-0.1587, 0.0, 0.8413]
    """,
    approximate=False,
)

Sigmoid = _layer(
    "Sigmoid",
    sigmoid,
    """Logistic function: ``1 / (1 + exp(-x))``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Sigmoid()(bireme.to_tensor([0.0])).tolist()
        [0.5]
    """,
)

LogSigmoid = _layer(
    "LogSigmoid",
    log_sigmoid,
    """Logarithm of the sigmoid: ``-log(1 + exp(-x))``, without overflow.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> round(bireme.nn.LogSigmoid()(bireme.to_tensor([0.0])).item(), 4)
        -0.6931
    """,
)

Tanh = _layer(
    "Tanh",
    tanh,
    """Hyperbolic tangent.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> round(bireme.nn.Tanh()(bireme.to_tensor([1.0])).item(), 4)
        0.7616
    """,
)

Tanhshrink = _layer(
    "Tanhshrink",
    tanhshrink,
    """Difference ``x - tanh(x)``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> round(bireme.nn.Tanhshrink()(bireme.to_tensor([1.0])).item(), 4)
        0.2384
    """,
)

Softmax = _layer(
    "Softmax",
    softmax,
    """Softmax along an axis: ``exp(x) / sum(exp(x))``, so that the elements add up to 1.

    Args:
        axis: The axis of the classes. Default: -1.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Softmax()(bireme.to_tensor([[0.0, 0.0]])).tolist()
        [[0.5, 0.5]]
    """,
    axis=-1,
)

LogSoftmax = _layer(
    "LogSoftmax",
    log_softmax,
    """Logarithm of the softmax along an axis: ``x - log(sum(exp(x)))``, without overflow.

    Args:
        axis: The axis of the classes. Default: -1.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> [round(y, 4) for y in bireme.nn.LogSoftmax()(bireme.to_tensor([0.0, 0.0])).tolist()]
        [-0.6931, -0.6931]
    """,
    axis=-1,
)

Silu = _layer(
    "Silu",
    silu,
    """Sigmoid linear unit: ``x * sigmoid(x)``; also known as swish.

    Args:
        inplace: Accepted for compatibility; the input is never changed. Default: False.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> round(bireme.nn.Silu()(bireme.to_tensor([1.0])).item(), 4)
        0.7311
    """,
    inplace=False,
)

Swish = _layer(
    "Swish",
    swish,
    """Swish: ``x * sigmoid(x)``, the same as ``Silu``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> round(bireme.nn.Swish()(bireme.to_tensor([1.0])).item(), 4)
        0.7311
    """,
)

Mish = _layer(
    "Mish",
    mish,
    """Mish: ``x * tanh(log(1 + exp(x)))``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> round(bireme.nn.Mish()(bireme.to_tensor([1.0])).item(), 4)
        0.8651
    """,
)

GLU = _layer(
    "GLU",
    glu,
    """Gated linear unit: the first half of ``x`` along an axis times the sigmoid of the second half.

    Args:
        axis: The axis that is halved; its size must be even. Default: -1.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape with an even size along ``axis``
        - output: the shape of ``x`` with half that size along ``axis``

    Examples:
        >>> bireme.nn.GLU()(bireme.to_tensor([2.0, 0.0])).tolist()
        [1.0]
    """,
    axis=-1,
)

LeakyReLU = _layer(
    "LeakyReLU",
    leaky_relu,
    """Leaky rectifier: ``x`` where it is not negative, else ``negative_slope * x``.

    Args:
        negative_slope: Factor for negative elements. Default: 0.01.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.LeakyReLU(0.5)(bireme.to_tensor([-1.0, 2.0])).tolist()
        [-0.5, 2.0]
    """,
    negative_slope=0.01,
)

ELU = _layer(
    "ELU",
    elu,
    """Exponential linear unit: ``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    Args:
        alpha: Minus the limit at minus infinity. Default: 1.0.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> [round(y, 4) for y in bireme.nn.ELU()(bireme.to_tensor([-1.0, 2.0])).tolist()]
        [-0.6321, 2.0]
    """,
    alpha=1.0,
)

CELU = _layer(
    "CELU",
    celu,
    """Continuously differentiable ELU: ``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``.

    Args:
        alpha: Minus the limit at minus infinity; not 0. Default: 1.0.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> [round(y, 4) for y in bireme.nn.CELU(2.0)(bireme.to_tensor([-2.0, 2.0])).tolist()]
        [-1.2642, 2.0]
    """,
    alpha=1.0,
)

SELU = _layer(
    "SELU",
    selu,
    """Scaled exponential linear unit: ``scale * x`` where positive, else ``scale * alpha * (exp(x) - 1)``.

    The default constants keep mean 0 and variance 1 from layer to layer; ``AlphaDropout`` goes with it.

    Args:
        scale: Factor of the whole, greater than 1. Default: 1.0507009873554805.
        alpha: Factor for negative elements, non-negative. Default: 1.6732632423543772.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> [round(y, 4) for y in bireme.nn.SELU()(bireme.to_tensor([-1.0, 1.0])).tolist()]
        [-1.1113, 1.0507]
    """,
    scale=1.0507009873554804934193349852946,
    alpha=1.6732632423543772848170429916717,
)

Softplus = _layer(
    "Softplus",
    softplus,
    """Smooth rectifier: ``log(1 + exp(beta * x)) / beta``.

    Args:
        beta: How sharp the bend is. Default: 1.
        threshold: Where ``beta * x`` exceeds it, the result is ``x`` itself. Default: 20.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> round(bireme.nn.Softplus()(bireme.to_tensor([0.0])).item(), 4)
        0.6931
    """,
    beta=1,
    threshold=20,
)

Softsign = _layer(
    "Softsign",
    softsign,
    """Softsign: ``x / (1 + abs(x))``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Softsign()(bireme.to_tensor([-1.0, 3.0])).tolist()
        [-0.5, 0.75]
    """,
)

Softshrink = _layer(
    "Softshrink",
    softshrink,
    """Soft shrinkage: moves ``x`` towards 0 by ``threshold``; 0 within it.

    Args:
        threshold: Non-negative number. Default: 0.5.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Softshrink()(bireme.to_tensor([-1.0, 0.25, 2.0])).tolist()
        [-0.5, 0.0, 1.5]
    """,
    threshold=0.5,
)

Hardshrink = _layer(
    "Hardshrink",
    hardshrink,
    """Hard shrinkage: 0 between ``-threshold`` and ``threshold``, ``x`` elsewhere.

    Args:
        threshold: Half the width of the interval that becomes 0. Default: 0.5.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Hardshrink()(bireme.to_tensor([-1.0, 0.25, 2.0])).tolist()
        [-1.0, 0.0, 2.0]
    """,
    threshold=0.5,
)

Hardsigmoid = _layer(
    "Hardsigmoid",
    hardsigmoid,
    """Piecewise linear sigmoid: ``x / 6 + 0.5``, clipped to ``[0, 1]``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Hardsigmoid()(bireme.to_tensor([-9.0, 0.0, 9.0])).tolist()
        [0.0, 0.5, 1.0]
    """,
)

Hardswish = _layer(
    "Hardswish",
    hardswish,
    """Piecewise approximation of swish: ``x * min(max(x + 3, 0), 6) / 6``.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Hardswish()(bireme.to_tensor([-4.0, 3.0, 4.0])).tolist()
        [0.0, 3.0, 4.0]
    """,
)

Hardtanh = _layer(
    "Hardtanh",
    hardtanh,
    """Piecewise linear tanh: ``x`` clipped to ``[min, max]``.

    Args:
        min: Lower limit. Default: -1.0.
        max: Upper limit. Default: 1.0.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Hardtanh()(bireme.to_tensor([-3.0, 0.5, 2.0])).tolist()
        [-1.0, 0.5, 1.0]
    """,
    min=-1.0,
    max=1.0,
)

ThresholdedReLU = _layer(
    "ThresholdedReLU",
    thresholded_relu,
    """Rectifier with a threshold: ``x`` where it exceeds ``threshold``, else ``value``.

    Args:
        threshold: Elements up to it are replaced. Default: 1.0.
        value: What they are replaced by. Default: 0.0.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.ThresholdedReLU()(bireme.to_tensor([0.5, 2.0])).tolist()
        [0.0, 2.0]
    """,
    threshold=1.0,
    value=0.0,
)


class Softmax2D(Layer):
    """Softmax over the channels of images, at each pixel.

    Args:
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]`` or ``[C, H, W]``
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.Softmax2D()(bireme.zeros([1, 2, 1, 1])).flatten().tolist()
        [0.5, 0.5]
    """

    def __init__(self, name: str | None = None):
        super().__init__()
        self._name = name

    def forward(self, x: Tensor) -> Tensor:
        """Apply the softmax over the channels.

        Args:
            x: Tensor of shape ``[N, C, H, W]`` or ``[C, H, W]``.

        Returns:
            Tensor of the shape of ``x``; its channels add up to 1.
        """
        if x.ndim not in (3, 4):
            raise errors.bad("Softmax2D(x)", "a 3-D or 4-D tensor", x, kind=AssertionError)
        return softmax(x, axis=-3)

    def extra_repr(self) -> str:
        return f"name={self._name}" if self._name else ""


class Maxout(Layer):
    """Maximum over groups of consecutive channels.

    Args:
        groups: Number of channels in each group, at least 2; it must divide the number of channels.
        axis: The axis of the channels: 1, 3 or -1. Default: 1.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``, or ``[N, H, W, C]`` with ``axis=-1``
        - output: the same with ``C / groups`` channels

    Examples:
        >>> bireme.nn.Maxout(2)(bireme.to_tensor([1.0, 5.0, 2.0, 3.0]).reshape([1, 4, 1, 1])).flatten().tolist()
        [5.0, 3.0]
    """

    def __init__(self, groups: int, axis: int = 1, name: str | None = None):
        super().__init__()
        self._groups, self._axis, self._name = groups, axis, name

    def forward(self, x: Tensor) -> Tensor:
        """Take the maximum of each group of channels.

        Args:
            x: Tensor with four axes.

        Returns:
            Tensor with ``C / groups`` channels.
        """
        return maxout(x, self._groups, self._axis)

    def extra_repr(self) -> str:
        return f"groups={self._groups}, axis={self._axis}" + (f", name={self._name}" if self._name else "")


class PReLU(Layer):
    """Rectifier with a learned slope: ``x`` where it is positive, else ``weight * x``.

    Args:
        num_parameters: 1 for one slope, or the number of channels for one slope each. Default: 1.
        init: Initial slope. Default: 0.25.
        weight_attr: Attribute of the slopes: a ``ParamAttr``, an initializer or a name. Default: None.
        data_format: Where the channels are: ``'NC'``, ``'NCL'``, ``'NCHW'``, ``'NCDHW'`` on the second axis, ``'NLC'``,
            ``'NHWC'``, ``'NDHWC'`` on the last one. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape; at least two axes with a slope for each channel
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.PReLU(init=0.5)(bireme.to_tensor([-2.0, 3.0])).tolist()
        [-1.0, 3.0]
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Attr = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self._num_parameters, self._init, self._data_format, self._name = num_parameters, init, data_format, name
        self._weight_attr = weight_attr
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(float(init)))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the rectifier.

        Args:
            x: Floating tensor.

        Returns:
            Tensor of the shape of ``x``.
        """
        return prelu(x, self._weight, data_format=self._data_format)

    def extra_repr(self) -> str:
        shown = f"num_parameters={self._num_parameters}, data_format={self._data_format}, init={self._init}"
        return f"{shown}, dtype={self._dtype}" + (f", name={self._name}" if self._name else "")


class RReLU(Layer):
    """Rectifier with random slopes: in training, negative elements are multiplied by numbers from ``[lower, upper]``.

    In evaluation the slope is ``(lower + upper) / 2``.

    Args:
        lower: Least slope, a float in ``[0, 1]``. Default: 1/8.
        upper: Greatest slope, a float in ``[lower, 1]``. Default: 1/3.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.RReLU(0.25, 0.75).eval()(bireme.to_tensor([-2.0, 3.0])).tolist()
        [-1.0, 3.0]
    """

    def __init__(self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, name: str | None = None):
        super().__init__()
        self._lower, self._upper, self._name = lower, upper, name

    def forward(self, x: Tensor) -> Tensor:
        """Apply the rectifier.

        Args:
            x: Floating tensor of any shape.

        Returns:
            Tensor of the shape of ``x``.
        """
        return rrelu(x, self._lower, self._upper, self.training)

    def extra_repr(self) -> str:
        shown = f"lower={self._lower}, upper={self._upper}, training={self.training}, dtype={self._dtype}"
        return shown + (f", name={self._name}" if self._name else "")
