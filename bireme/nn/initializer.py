"""Initial values of parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import clip, erfinv, expand, full, qr, randn, sign, to_tensor, uniform

__all__ = [
    "Constant", "Normal", "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform", "KaimingNormal",
    "KaimingUniform", "Assign", "Bilinear", "Dirac", "Orthogonal", "calculate_gain", "set_global_initializer",
]  # fmt: skip

_SQRT2 = math.sqrt(2.0)


class Initializer:
    """Makes initial values. A subclass writes `sample`, or `__call__` or `forward` if it fills the parameter itself."""

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        """New values of this shape and type."""
        raise NotImplementedError(f"{type(self).__name__}: not written")

    def forward(self, var: Tensor, block: Any = None) -> Any:
        """Fill `var`; `block` is there for Paddle's sake."""
        var._assign_value(self.sample(var.shape, var.dtype))

    def __call__(self, param: Tensor, block: Any = None) -> Any:
        return self.forward(param, block)

    def _compute_fans(self, var: Tensor) -> tuple[float, float]:
        # under Paddle's name, as the next: initializers of one's own, which write `forward`, call them
        return _fans(var.shape)

    def _check_block(self, block: Any) -> Any:
        return block

    def only_samples(self) -> bool:
        """Whether `sample` says all there is, so that a parameter can be made from it without being filled twice."""
        cls = type(self)
        return cls.__call__ is Initializer.__call__ and cls.forward is Initializer.forward


class Constant(Initializer):
    """One number everywhere.

    >>> bireme.nn.Linear(1, 2, weight_attr=bireme.nn.initializer.Constant(3.0)).weight.tolist()
    [[3.0, 3.0]]
    """

    def __init__(self, value: float = 0.0):
        self._fill = _number(self, "value", value)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        return full(shape, self._fill, dtype)


class Assign(Initializer):
    """Given numbers: a list, an array or a Tensor. They broadcast to the parameter's shape, or else the parameter has theirs.

    >>> bireme.nn.Linear(2, 1, weight_attr=bireme.nn.initializer.Assign([[1.0], [2.0]])).weight.tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, value: Any, name: str | None = None):
        if not isinstance(value, (list, tuple, np.ndarray, Tensor)):
            raise errors.bad("Assign(value)", "a list, an array or a Tensor", value, kind=errors.Alien)
        self._given = value

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        given = to_tensor(self._given, dtype=dtype)
        if given.shape == list(shape):
            return given
        if len(given.shape) > len(shape) or any(n not in (1, m) for n, m in zip(given.shape[::-1], shape[::-1])):
            return given  # as in Paddle, the parameter is what it was given: models declare [768] and assign [768, 512]
        return expand(given, shape)


class Normal(Initializer):
    """Normal distribution.

    >>> bireme.nn.initializer.Normal(5.0, 0.0).sample([2], "float32").tolist()
    [5.0, 5.0]
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None):
        self._mean, self._std = _number(self, "mean", mean), _deviation(self, std)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        return _normal(shape, dtype, self._mean, self._std)


class TruncatedNormal(Initializer):
    """Normal distribution of which only the part between `a` and `b` is drawn from.

    >>> bool((bireme.nn.initializer.TruncatedNormal(a=-1.0, b=0.5).sample([100], "float32") <= 0.5).all())
    True
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, name: str | None = None):
        self._mean, self._std = _number(self, "mean", mean), _deviation(self, std)
        self._a, self._b = _number(self, "a", a), _number(self, "b", b)
        if self._a > self._b:
            raise errors.bad("TruncatedNormal(b)", f"at least a = {a}", b)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        kind = dtypes.of(dtype)
        if self._std == 0:
            return full(shape, min(max(self._mean, self._a), self._b), kind)
        # a float32 that rounds to 1 would be infinity after erfinv, and an outlier at the bound after clipping
        edge = 1 - 2.0**-23
        low, high = (min(max(math.erf((x - self._mean) / (self._std * _SQRT2)), -edge), edge) for x in (self._a, self._b))
        x = erfinv(uniform(shape, _wide(kind), low, high)) * (self._std * _SQRT2) + self._mean
        return clip(x, self._a, self._b).astype(kind)


class Uniform(Initializer):
    """Uniform distribution over [low, high).

    >>> bool((bireme.nn.initializer.Uniform(2.0, 3.0).sample([100], "float32") >= 2.0).all())
    True
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None):
        self._low, self._high = _number(self, "low", low), _number(self, "high", high)
        if self._high < self._low:
            raise errors.bad("Uniform(high)", f"at least low = {low}", high, kind=errors.Unfit)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        return _uniform(shape, dtype, self._low, self._high)


class XavierUniform(Initializer):
    """Uniform over ±gain·sqrt(6 / (fan_in + fan_out)): keeps the variance of signals and of gradients alike.

    >>> bool((bireme.nn.initializer.XavierUniform().sample([3, 3], "float32").abs() <= 1.0).all())
    True
    """

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, gain: float = 1.0, name: str | None = None):
        self._fan_in, self._fan_out = _fan(self, "fan_in", fan_in), _fan(self, "fan_out", fan_out)
        self._gain = gain

    def _std_for(self, shape: list[int]) -> float:
        fan_in, fan_out = _fans(shape)
        fan_in = fan_in if self._fan_in is None else self._fan_in
        fan_out = fan_out if self._fan_out is None else self._fan_out
        total = fan_in + fan_out
        return self._gain * math.sqrt(2.0 / total) if total else 0.0

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        bound = math.sqrt(3.0) * self._std_for(shape)
        return _uniform(shape, dtype, -bound, bound)


class XavierNormal(XavierUniform):
    """Normal with deviation gain·sqrt(2 / (fan_in + fan_out)).

    >>> bireme.nn.initializer.XavierNormal().sample([3, 2], "float32").shape
    [3, 2]
    """

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        return _normal(shape, dtype, 0.0, self._std_for(shape))


class KaimingUniform(Initializer):
    """Uniform over ±gain·sqrt(3 / fan): keeps the variance of signals through layers with this nonlinearity.

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
        self._gain = calculate_gain(nonlinearity, negative_slope)

    def _std_for(self, shape: list[int]) -> float:
        fan_in, fan_out = _fans(shape)
        fan_in = fan_in if self._fan_in is None else self._fan_in
        return self._gain / math.sqrt((fan_in if self._mode == "fan_in" else fan_out) or 1)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        bound = math.sqrt(3.0) * self._std_for(shape)
        return _uniform(shape, dtype, -bound, bound)


class KaimingNormal(KaimingUniform):
    """Normal with deviation gain / sqrt(fan).

    >>> bireme.nn.initializer.KaimingNormal().sample([3, 2], "float32").shape
    [3, 2]
    """

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        return _normal(shape, dtype, 0.0, self._std_for(shape))


class Bilinear(Initializer):
    """Kernels of a transposed convolution that enlarges images by bilinear interpolation.

    >>> bireme.nn.initializer.Bilinear().sample([1, 1, 4, 4], "float32")[0, 0, 1].tolist()
    [0.1875, 0.5625, 0.5625, 0.1875]
    """

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        if len(shape) != 4:
            raise errors.bad("Bilinear", "a kernel of shape [out, in, height, width]", f"shape {list(shape)}")
        if shape[2] != shape[3]:
            raise errors.bad("Bilinear", "a kernel with square windows", f"shape {list(shape)}")
        kind = dtypes.of(dtype)
        if not kind.is_floating:
            raise errors.bad("Bilinear", "a floating type", kind.name, kind=errors.NoKernel)
        size = shape[3]
        half = math.ceil(size / 2.0)
        centre = (2 * half - 1 - half % 2) / (2.0 * half)
        hat = 1 - np.abs(np.arange(size) / half - centre)
        return to_tensor(np.broadcast_to(np.outer(hat, hat), shape), dtype=kind)


class Dirac(Initializer):
    """Kernels of a convolution that hands its input on: a one in the middle of the window of each channel's own, zeros elsewhere.

    >>> bireme.nn.initializer.Dirac().sample([2, 2, 3], "float32").tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """

    def __init__(self, groups: int = 1, name: str | None = None):
        if isinstance(groups, bool) or not isinstance(groups, int):
            raise errors.bad("Dirac(groups)", "an int above 0", groups, kind=errors.Alien)
        if groups <= 0:
            raise errors.bad("Dirac(groups)", "an int above 0", groups, kind=errors.Unfit)
        self._groups = groups

    def forward(self, param: Tensor, block: Any = None) -> Any:
        super().forward(param, block)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        if len(shape) not in (3, 4, 5):
            raise errors.bad("Dirac", "a kernel with 3, 4 or 5 axes", f"shape {list(shape)}", kind=errors.Unfit)
        if shape[0] % self._groups:
            raise errors.bad("Dirac", f"outputs that {self._groups} groups divide", f"shape {list(shape)}", kind=errors.Unfit)
        kernel, each = np.zeros(shape, np.float32), shape[0] // self._groups
        middle = tuple(n // 2 for n in shape[2:])
        for group in range(self._groups):
            for i in range(min(each, shape[1])):
                kernel[(group * each + i, i, *middle)] = 1
        return to_tensor(kernel, dtype=dtypes.of(dtype))


class Orthogonal(Initializer):
    """Rows that are orthogonal and of length `gain`, or columns if there are fewer of them; axes after the first count as one.

    >>> w = bireme.nn.initializer.Orthogonal().sample([2, 4], "float32")
    >>> (w @ w.T).round(decimals=3).abs().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, gain: float = 1.0, name: str | None = None):
        if gain is None:
            raise errors.bad("Orthogonal(gain)", "a number", None, kind=errors.Unfit)
        self._gain = _number(self, "gain", gain)

    def forward(self, param: Tensor, block: Any = None) -> Any:
        super().forward(param, block)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        if len(shape) < 2:
            raise errors.bad("Orthogonal", "a parameter with at least two axes", f"shape {list(shape)}", kind=errors.Unfit)
        kind = dtypes.of(dtype)
        rows, columns = shape[0], math.prod(shape[1:])
        q, r = qr(randn([max(rows, columns), min(rows, columns)], _wide(kind)))
        # with the signs of the diagonal all orthogonal matrices are equally likely
        q = q * sign(r.diagonal())
        return ((q.T if rows < columns else q).reshape(shape) * self._gain).astype(kind)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Factor by which weights before this nonlinearity are scaled; `param` is the slope of leaky_relu.

    >>> round(bireme.nn.initializer.calculate_gain("tanh"), 4)
    1.6667
    """
    if param is not None and not isinstance(param, (int, float, np.number)):
        raise errors.bad("calculate_gain(param)", "a number or None", param, kind=errors.Alien)
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + float(0.01 if param is None else param) ** 2))
    found = _GAINS.get(nonlinearity)
    if found is None:
        raise errors.bad("calculate_gain(nonlinearity)", f"one of {', '.join([*_GAINS, 'leaky_relu'])}", nonlinearity)
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
    """Initializers of all parameters made from now on, unless their ParamAttr names one; None ends it.

    >>> bireme.nn.initializer.set_global_initializer(bireme.nn.initializer.Constant(4.0))
    >>> bireme.nn.Linear(1, 1).weight.tolist()
    [[4.0]]
    >>> bireme.nn.initializer.set_global_initializer(None)
    """
    for what, given in (("weight_init", weight_init), ("bias_init", bias_init)):
        if given is not None and not callable(given):
            raise errors.bad(f"set_global_initializer({what})", "an initializer or None", given, kind=TypeError)
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


def _fans(shape: list[int]) -> tuple[float, float]:
    """Inputs and outputs of one unit: rows and columns of a matrix [in, out], or a kernel [out, in, *window]."""
    if len(shape) < 2:
        n = shape[0] if shape else 1
        return n, n
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def _fan(owner: Initializer, what: str, value: Any) -> Any:
    if isinstance(value, (int, float)) and not value >= 0:
        raise errors.bad(f"{type(owner).__name__}({what})", "a count of 0 or more", value)
    return value


def _deviation(owner: Initializer, std: Any) -> Any:
    std = _number(owner, "std", std)
    if not isinstance(std, (complex, Tensor)) and not std >= 0:
        raise errors.bad(f"{type(owner).__name__}(std)", "a number of 0 or more", std)
    return std


def _wide(dtype: Any) -> Any:
    # random numbers of 8 to 16 bits would be coarse: drawn in float32, then rounded; other types the operator refuses
    return dtypes.float32 if dtype.is_floating and dtype.itemsize < 4 else dtype


def _uniform(shape: list[int], dtype: Any, low: float, high: float) -> Tensor:
    kind = dtypes.of(dtype)
    return uniform(shape, _wide(kind), low, high).astype(kind)


def _normal(shape: list[int], dtype: Any, mean: float, std: float) -> Tensor:
    kind = dtypes.of(dtype)
    return (randn(shape, _wide(kind)) * std + mean).astype(kind)


def _number(owner: Initializer, what: str, value: Any) -> Any:
    # a Tensor is looked at when values are drawn: programs write `TruncatedNormal(layer.weight)` and call nothing, which does nothing
    if isinstance(value, np.ndarray) and not value.ndim:
        return value.item()
    if not isinstance(value, (int, float, complex, np.number, Tensor)):
        raise errors.bad(f"{type(owner).__name__}({what})", "a number", value, kind=errors.Alien)
    return value
