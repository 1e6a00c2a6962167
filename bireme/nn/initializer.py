"""Initial values of parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions, guarded
from bireme.core.base.dtype import DType
from bireme.core.tensor.tensor import Tensor
from bireme.ops import clip, erfinv, expand, full, qr, randn, sign, to_tensor, uniform

__all__ = [
    "Constant", "Normal", "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform", "KaimingNormal",
    "KaimingUniform", "Assign", "Bilinear", "Dirac", "Orthogonal", "calculate_gain", "set_global_initializer",
]  # fmt: skip

_SQRT2 = math.sqrt(2.0)


class Initializer(Guarded):
    """Base of initializers: objects that fill a parameter with its initial values.

    A subclass defines ``sample``; or ``forward`` or ``__call__`` if it fills the parameter itself.
    """

    def __init__(self) -> None:
        pass

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        """Draw new values.

        Args:
            shape: Shape of the result.
            dtype: Data type of the result.

        Returns:
            Tensor of this shape and data type.
        """
        raise errors.missing_method(self, "sample")

    def forward(self, var: Tensor, block: Any = None) -> Any:
        """Fill a parameter inplace.

        Args:
            var: The parameter.
            block: Accepted for compatibility and not used. Default: None.

        Returns:
            None here; a subclass may return something else.
        """
        var._assign_value(self.sample(var.shape, var.dtype))

    @guarded
    def __call__(self, param: Tensor, block: Any = None) -> Any:
        return self.forward(param, block)

    def _compute_fans(self, var: Tensor) -> tuple[float, float]:
        # under Paddle's name, as the next: initializers of users, which define `forward`, call them
        return _fans(var.shape)

    def _check_block(self, block: Any) -> Any:
        return block

    def only_samples(self) -> bool:
        """Whether ``sample`` is all there is, so that a parameter can be created from it without being filled twice."""
        cls = type(self)
        return cls.__call__ is Initializer.__call__ and cls.forward is Initializer.forward


class Constant(Initializer):
    """Fills a parameter with one number.

    Args:
        value: The number. Default: 0.0.

    Examples:
        >>> bireme.nn.Linear(1, 2, weight_attr=bireme.nn.initializer.Constant(3.0)).weight.tolist()
        [[3.0, 3.0]]
    """

    def __init__(self, value: float = 0.0):
        self._fill = _number(self, "value", value)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        return full(shape, self._fill, dtype)


class Assign(Initializer):
    """Fills a parameter with given numbers.

    Args:
        value: The numbers, which broadcast to the shape of the parameter. If they do not, the parameter takes their
            shape.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> bireme.nn.Linear(2, 1, weight_attr=bireme.nn.initializer.Assign([[1.0], [2.0]])).weight.tolist()
        [[1.0], [2.0]]
    """

    def __init__(self, value: Sequence[Any] | np.ndarray | Tensor, name: str | None = None):
        if not isinstance(value, (list, tuple, np.ndarray, Tensor)):
            raise errors.bad("Assign(value)", "a list, an array or a Tensor", value, kind=errors.ArgumentTypeError)
        self._given = value

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        given = to_tensor(self._given, dtype=dtype)
        if given.shape == list(shape):
            return given
        if len(given.shape) > len(shape) or any(n not in (1, m) for n, m in zip(given.shape[::-1], shape[::-1])):
            return given  # as in Paddle, the parameter is what it was given: models declare [768] and assign [768, 512]
        return expand(given, shape)


class Normal(Initializer):
    """Draws from a normal distribution.

    Args:
        mean: Mean of the distribution. Default: 0.0.
        std: Standard deviation, non-negative. Default: 1.0.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> bireme.nn.initializer.Normal(5.0, 0.0).sample([2], "float32").tolist()
        [5.0, 5.0]
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None):
        self._mean, self._std = _number(self, "mean", mean), _deviation(self, std)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        return _normal(shape, dtype, self._mean, self._std)


class TruncatedNormal(Initializer):
    """Draws from a normal distribution that is truncated to an interval.

    Args:
        mean: Mean of the distribution before truncation. Default: 0.0.
        std: Its standard deviation, non-negative. Default: 1.0.
        a: Lower bound of the values themselves. Default: -2.0.
        b: Upper bound of the values themselves. Default: 2.0.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> bool((bireme.nn.initializer.TruncatedNormal(a=-1.0, b=0.5).sample([100], "float32") <= 0.5).all())
        True
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, name: str | None = None):
        self._mean, self._std = _number(self, "mean", mean), _deviation(self, std)
        self._a, self._b = _number(self, "a", a), _number(self, "b", b)
        if self._a > self._b:
            raise errors.bad("TruncatedNormal(b)", f"at least a = {a}", b)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        kind = dtypes.of(dtype)
        if self._std == 0:
            return full(shape, min(max(self._mean, self._a), self._b), kind)
        # a float32 that rounds to 1 would be infinity after erfinv, and an outlier at the bound after clipping
        edge = 1 - 2.0**-23
        low, high = (
            min(max(math.erf((x - self._mean) / (self._std * _SQRT2)), -edge), edge) for x in (self._a, self._b)
        )
        x = erfinv(uniform(shape, _wide(kind), low, high)) * (self._std * _SQRT2) + self._mean
        return clip(x, self._a, self._b).astype(kind)


class Uniform(Initializer):
    """Draws from a uniform distribution over ``[low, high)``.

    Args:
        low: Lower bound. Default: -1.0.
        high: Upper bound. Default: 1.0.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> bool((bireme.nn.initializer.Uniform(2.0, 3.0).sample([100], "float32") >= 2.0).all())
        True
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None):
        self._low, self._high = _number(self, "low", low), _number(self, "high", high)
        if self._high < self._low:
            raise errors.bad("Uniform(high)", f"at least low = {low}", high, kind=errors.ArgumentError)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        return _uniform(shape, dtype, self._low, self._high)


class XavierUniform(Initializer):
    """Draws uniformly between ``±gain * sqrt(6 / (fan_in + fan_out))``, the initialization of Glorot and Bengio.

    It balances the variances of activations and of gradients. It is the default of weights.

    Args:
        fan_in: Number of inputs of a unit. Default: None, from the shape: the rows of a matrix ``[in, out]``, or the
            input channels times the window of a kernel ``[out, in, *window]``.
        fan_out: Number of outputs of a unit. Default: None, from the shape likewise.
        gain: Factor of the whole; see ``calculate_gain``. Default: 1.0.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> bool((bireme.nn.initializer.XavierUniform().sample([3, 3], "float32").abs() <= 1.0).all())
        True
    """

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, gain: float = 1.0, name: str | None = None
    ):
        self._fan_in, self._fan_out = _fan(self, "fan_in", fan_in), _fan(self, "fan_out", fan_out)
        self._gain = gain

    def _std_for(self, shape: Sequence[int]) -> float:
        fan_in, fan_out = _fans(shape)
        fan_in = fan_in if self._fan_in is None else self._fan_in
        fan_out = fan_out if self._fan_out is None else self._fan_out
        total = fan_in + fan_out
        return self._gain * math.sqrt(2.0 / total) if total else 0.0

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        bound = math.sqrt(3.0) * self._std_for(shape)
        return _uniform(shape, dtype, -bound, bound)


class XavierNormal(XavierUniform):
    """Draws from a normal distribution with standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Args:
        fan_in: Number of inputs of a unit. Default: None, from the shape: the rows of a matrix ``[in, out]``, or the
            input channels times the window of a kernel ``[out, in, *window]``.
        fan_out: Number of outputs of a unit. Default: None, from the shape likewise.
        gain: Factor of the whole; see ``calculate_gain``. Default: 1.0.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> bireme.nn.initializer.XavierNormal().sample([3, 2], "float32").shape
        [3, 2]
    """

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        return _normal(shape, dtype, 0.0, self._std_for(shape))


class KaimingUniform(Initializer):
    """Draws uniformly between ``±gain * sqrt(3 / fan)``, the initialization of He et al. for rectifiers.

    Args:
        fan_in: Number of inputs of a unit. Default: None, from the shape: the rows of a matrix ``[in, out]``, or the
            input channels times the window of a kernel ``[out, in, *window]``.
        negative_slope: Slope for negative inputs, for ``'leaky_relu'``. Default: 0.0.
        nonlinearity: Name of the function after the layer; see ``calculate_gain``. Default: ``'relu'``.
        mode: ``'fan_in'`` keeps the variance of activations, ``'fan_out'`` that of gradients. Default: ``'fan_in'``.

    Examples:
        >>> bool((bireme.nn.initializer.KaimingUniform().sample([6, 2], "float32").abs() <= 1.0).all())
        True
    """

    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float | None = 0.0,
        nonlinearity: str = "relu",
        mode: str = "fan_in",
    ):
        if mode not in ("fan_in", "fan_out"):
            raise errors.bad(f"{type(self).__name__}(mode)", "'fan_in' or 'fan_out'", mode)
        self._fan_in, self._mode = _fan(self, "fan_in", fan_in), mode
        with errors.within(type(self).__name__, "nonlinearity", param="negative_slope"):
            self._gain = calculate_gain(nonlinearity, negative_slope)

    def _std_for(self, shape: Sequence[int]) -> float:
        fan_in, fan_out = _fans(shape)
        fan_in = fan_in if self._fan_in is None else self._fan_in
        return self._gain / math.sqrt((fan_in if self._mode == "fan_in" else fan_out) or 1)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        bound = math.sqrt(3.0) * self._std_for(shape)
        return _uniform(shape, dtype, -bound, bound)


class KaimingNormal(KaimingUniform):
    """Draws from a normal distribution with standard deviation ``gain / sqrt(fan)``, for layers before rectifiers.

    Args:
        fan_in: Number of inputs of a unit. Default: None, from the shape: the rows of a matrix ``[in, out]``, or the
            input channels times the window of a kernel ``[out, in, *window]``.
        negative_slope: Slope for negative inputs, for ``'leaky_relu'``. Default: 0.0.
        nonlinearity: Name of the function after the layer; see ``calculate_gain``. Default: ``'relu'``.
        mode: ``'fan_in'`` keeps the variance of activations, ``'fan_out'`` that of gradients. Default: ``'fan_in'``.

    Examples:
        >>> bireme.nn.initializer.KaimingNormal().sample([3, 2], "float32").shape
        [3, 2]
    """

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        return _normal(shape, dtype, 0.0, self._std_for(shape))


class Bilinear(Initializer):
    """Fills the kernel of a transposed convolution so that it upsamples images by bilinear interpolation.

    The kernel has shape ``[C_out, C_in, size, size]``.

    Examples:
        >>> bireme.nn.initializer.Bilinear().sample([1, 1, 4, 4], "float32")[0, 0, 1].tolist()
        [0.1875, 0.5625, 0.5625, 0.1875]
    """

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        if len(shape) != 4:
            raise errors.bad(
                "Bilinear",
                "a kernel of shape [out, in, height, width]",
                described=f"shape {list(shape)}",
                kind=errors.ShapeError,
            )
        if shape[2] != shape[3]:
            raise errors.bad("Bilinear", "a square kernel", described=f"shape {list(shape)}", kind=errors.ShapeError)
        kind = dtypes.of(dtype)
        if not kind.is_floating:
            raise errors.bad("Bilinear", "a floating-point dtype", described=kind.name, kind=errors.DtypeError)
        size = shape[3]
        half = math.ceil(size / 2.0)
        center = (2 * half - 1 - half % 2) / (2.0 * half)
        hat = 1 - np.abs(np.arange(size) / half - center)
        return to_tensor(np.broadcast_to(np.outer(hat, hat), shape), dtype=kind)


class Dirac(Initializer):
    """Fills the kernel of a convolution so that it is the identity: a one at the center of the matching channel.

    Args:
        groups: Number of groups of output channels, each of which starts with the first input channel. Default: 1.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> bireme.nn.initializer.Dirac().sample([2, 2, 3], "float32").tolist()
        [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """

    def __init__(self, groups: int = 1, name: str | None = None):
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
            raise errors.bad("Dirac(groups)", "a positive integer", groups, kind=errors.for_integer(groups))
        self._groups = groups

    def forward(self, param: Tensor, block: Any = None) -> Any:
        """Fill a parameter inplace.

        Args:
            param: The parameter.
            block: Accepted for compatibility and not used. Default: None.

        Returns:
            None here; a subclass may return something else.
        """
        super().forward(param, block)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        if len(shape) not in (3, 4, 5):
            raise errors.bad(
                "Dirac", "a 3-D, 4-D or 5-D kernel", described=f"shape {list(shape)}", kind=errors.ShapeError
            )
        if shape[0] % self._groups:
            raise errors.bad(
                "Dirac",
                f"output channels divisible by groups = {self._groups}",
                described=f"shape {list(shape)}",
                kind=errors.ShapeError,
            )
        kernel, each = np.zeros(shape, np.float32), shape[0] // self._groups
        middle = tuple(n // 2 for n in shape[2:])
        for group in range(self._groups):
            for i in range(min(each, shape[1])):
                kernel[(group * each + i, i, *middle)] = 1
        return to_tensor(kernel, dtype=dtypes.of(dtype))


class Orthogonal(Initializer):
    """Fills a parameter with a random orthogonal matrix times ``gain``; axes after the first count as one.

    The rows are orthogonal, or the columns if there are fewer of them.

    Args:
        gain: Length of the rows or columns. Default: 1.0.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> w = bireme.nn.initializer.Orthogonal().sample([2, 4], "float32")
        >>> (w @ w.T).round(decimals=3).abs().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, gain: float = 1.0, name: str | None = None):
        if gain is None:
            raise errors.bad("Orthogonal(gain)", "a number", None, kind=errors.for_number(None))
        self._gain = _number(self, "gain", gain)

    def forward(self, param: Tensor, block: Any = None) -> Any:
        """Fill a parameter inplace.

        Args:
            param: The parameter.
            block: Accepted for compatibility and not used. Default: None.

        Returns:
            None here; a subclass may return something else.
        """
        super().forward(param, block)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        if len(shape) < 2:
            raise errors.bad(
                "Orthogonal",
                "a parameter with at least 2 dimensions",
                described=f"shape {list(shape)}",
                kind=errors.ShapeError,
            )
        kind = dtypes.of(dtype)
        rows, columns = shape[0], math.prod(shape[1:])
        q, r = qr(randn([max(rows, columns), min(rows, columns)], _wide(kind)))
        # with the signs of the diagonal all orthogonal matrices are equally likely
        q = q * sign(r.diagonal())
        return ((q.T if rows < columns else q).reshape(shape) * self._gain).astype(kind)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor for the initial weights of a layer that a nonlinearity follows.

    Args:
        nonlinearity: ``'sigmoid'``, ``'linear'`` or a convolution such as ``'conv2d'`` (1), ``'tanh'`` (5/3),
            ``'relu'`` (sqrt(2)), ``'selu'`` (3/4), or ``'leaky_relu'`` (``sqrt(2 / (1 + param ** 2))``).
        param: Slope of ``'leaky_relu'`` for negative inputs. Default: None, 0.01.

    Returns:
        The factor, a float.

    Examples:
        >>> round(bireme.nn.initializer.calculate_gain("tanh"), 4)
        1.6667
    """
    if param is not None and not isinstance(param, (int, float, np.number)):
        raise errors.bad("calculate_gain(param)", "a number or None", param, kind=errors.ArgumentTypeError)
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + float(0.01 if param is None else param) ** 2))
    found = _GAINS.get(nonlinearity)
    if found is None:
        raise errors.bad(
            "calculate_gain(nonlinearity)", f"one of {', '.join(map(repr, [*_GAINS, 'leaky_relu']))}", nonlinearity
        )
    return found


_GAINS = {
    "sigmoid": 1.0, "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv1d_transpose": 1.0,
    "conv_transpose1d": 1.0, "conv2d_transpose": 1.0, "conv_transpose2d": 1.0, "conv3d_transpose": 1.0,
    "conv_transpose3d": 1.0, "tanh": 5.0 / 3, "relu": _SQRT2, "selu": 0.75,
}  # fmt: skip


class _Global:
    """What `set_global_initializer` set, for the whole process."""

    weight: Initializer | None = None
    bias: Initializer | None = None


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Set the initializers of all parameters created from now on, except where a ``ParamAttr`` names one.

    Args:
        weight_init: Initializer of weights; None restores the defaults of the layers.
        bias_init: Initializer of biases. Default: None, the defaults of the layers.

    Examples:
        >>> bireme.nn.initializer.set_global_initializer(bireme.nn.initializer.Constant(4.0))
        >>> bireme.nn.Linear(1, 1).weight.tolist()
        [[4.0]]
        >>> bireme.nn.initializer.set_global_initializer(None)
    """
    for what, given in (("weight_init", weight_init), ("bias_init", bias_init)):
        if given is not None and not callable(given):
            raise errors.bad(
                f"set_global_initializer({what})", "an initializer or None", given, kind=errors.ArgumentTypeError
            )
    _Global.weight, _Global.bias = weight_init, bias_init


def choose(own: Any, default: Any, is_bias: bool) -> Any:
    """The initializer of a parameter: its ParamAttr's, else the global one, else its layer's, else the general one."""
    if own is not None:
        return own
    everywhere = _Global.bias if is_bias else _Global.weight
    if everywhere is not None:
        return everywhere
    if default is not None:
        return default
    return Constant(0.0) if is_bias else XavierUniform()


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """Inputs and outputs of one unit, of a matrix ``[in, out]`` or a kernel ``[out, in, *window]``."""
    if len(shape) < 2:
        n = shape[0] if shape else 1
        return n, n
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def _fan(owner: Initializer, what: str, value: Any) -> Any:
    if value is not None:
        errors.check_number(f"{type(owner).__name__}({what})", value)
    if isinstance(value, (int, float)) and not value >= 0:
        raise errors.bad(f"{type(owner).__name__}({what})", "a non-negative number", value)
    return value


def _deviation(owner: Initializer, std: Any) -> Any:
    std = _number(owner, "std", std)
    if not isinstance(std, (complex, Tensor)) and not std >= 0:
        raise errors.bad(f"{type(owner).__name__}(std)", "a non-negative number", std, kind=errors.for_number(std))
    return std


def _wide(dtype: Any) -> Any:
    # random numbers of 8 to 16 bits would be coarse: drawn in float32, then rounded; other types the operator refuses
    return dtypes.float32 if dtype.is_floating and dtype.itemsize < 4 else dtype


def _uniform(shape: Sequence[int], dtype: Any, low: float, high: float) -> Tensor:
    kind = dtypes.of(dtype)
    return uniform(shape, _wide(kind), low, high).astype(kind)


def _normal(shape: Sequence[int], dtype: Any, mean: float, std: float) -> Tensor:
    kind = dtypes.of(dtype)
    return (randn(shape, _wide(kind)) * std + mean).astype(kind)


def _number(owner: Initializer, what: str, value: Any) -> Any:
    # a Tensor is checked when values are drawn: programs write `TruncatedNormal(layer.weight)` and never call it
    if isinstance(value, np.ndarray) and not value.ndim:
        return value.item()
    if not isinstance(value, (int, float, complex, np.number, Tensor)):
        raise errors.bad(f"{type(owner).__name__}({what})", "a number", value, kind=errors.ArgumentTypeError)
    return value


guard_functions(globals())
