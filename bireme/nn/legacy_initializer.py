"""Initializers under the names that Paddle had before, some of which take a seed of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import random_state as streams
from bireme.core.base.dtype import DType
from bireme.core.tensor.tensor import Tensor
from bireme.nn.initializer import (
    Assign,
    Constant,
    KaimingNormal,
    KaimingUniform,
    Normal,
    TruncatedNormal,
    Uniform,
    XavierNormal,
    XavierUniform,
)


class ConstantInitializer(Constant):
    """Fills a parameter with one number.

    Args:
        value: The number. Default: 0.0.
        force_cpu: Accepted for compatibility and not used. Default: False.

    Examples:
        >>> from bireme.nn import legacy_initializer
        >>> legacy_initializer.ConstantInitializer(2.0).sample([2], "float32").tolist()
        [2.0, 2.0]
    """

    def __init__(self, value: float = 0.0, force_cpu: bool = False):
        super().__init__(value)


class NumpyArrayInitializer(Assign):
    """Fills a parameter with the numbers of an array.

    Args:
        value: The numbers.

    Examples:
        >>> from bireme.nn import legacy_initializer
        >>> legacy_initializer.NumpyArrayInitializer([1.0, 1.0]).sample([2], "float32").tolist()
        [1.0, 1.0]
    """

    def __init__(self, value: Sequence[Any] | np.ndarray | Tensor):
        super().__init__(value)


class UniformInitializer(Uniform):
    """Draws from a uniform distribution over ``[low, high)``.

    Args:
        low: Lower bound. Default: -1.0.
        high: Upper bound. Default: 1.0.
        seed: Seed of the values, which are then the same in every call. Default: 0, from the global generator.
        diag_num: Number of elements that are ``diag_val`` instead. Default: 0.
        diag_step: One less than the distance of two of them in the flattened parameter. Default: 0.
        diag_val: Value of these elements. Default: 1.0.

    Examples:
        >>> from bireme.nn import legacy_initializer
        >>> initial = legacy_initializer.UniformInitializer(diag_num=2, diag_step=2, diag_val=9.0)
        >>> initial.sample([2, 2], "float32").diagonal().tolist()
        [9.0, 9.0]
    """

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ):
        super().__init__(low, high)
        self._seed, self._diagonal = seed, (diag_num, diag_step, diag_val)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        with streams.seeded(self._seed):
            made = super().sample(shape, dtype)
        count, step, value = self._diagonal
        at = [i * (step + 1) for i in range(count) if i * (step + 1) < made.size]
        if not at:
            return made
        flat = made.flatten()
        flat[at] = value
        return flat.reshape(shape)


class NormalInitializer(Normal):
    """Draws from a normal distribution.

    Args:
        loc: Mean of the distribution. Default: 0.0.
        scale: Standard deviation, non-negative. Default: 1.0.
        seed: Seed of the values, which are then the same in every call. Default: 0, from the global generator.

    Examples:
        >>> from bireme.nn import legacy_initializer
        >>> initial = legacy_initializer.NormalInitializer(seed=7)
        >>> bool((initial.sample([3], "float32") == initial.sample([3], "float32")).all())
        True
    """

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0):
        super().__init__(loc, scale)
        self._seed = seed

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        with streams.seeded(self._seed):
            return super().sample(shape, dtype)


class TruncatedNormalInitializer(TruncatedNormal):
    """Draws from a normal distribution that is truncated to an interval.

    Args:
        loc: Mean of the distribution before truncation. Default: 0.0.
        scale: Its standard deviation, non-negative. Default: 1.0.
        seed: Seed of the values, which are then the same in every call. Default: 0, from the global generator.
        a: Lower bound of the values. Default: -2.0.
        b: Upper bound of the values. Default: 2.0.

    Examples:
        >>> from bireme.nn import legacy_initializer
        >>> bool((legacy_initializer.TruncatedNormalInitializer(a=-1.0, b=0.5).sample([100], "float32") <= 0.5).all())
        True
    """

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0, a: float = -2.0, b: float = 2.0):
        super().__init__(loc, scale, a, b)
        self._seed = seed

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        with streams.seeded(self._seed):
            return super().sample(shape, dtype)


class XavierInitializer(XavierUniform):
    """``XavierUniform``, or ``XavierNormal``.

    Args:
        uniform: ``False`` for the normal distribution. Default: True.
        fan_in: Number of inputs of a unit. Default: None, from the shape.
        fan_out: Number of outputs of a unit. Default: None, from the shape.
        seed: Seed of the values, which are then the same in every call. Default: 0, from the global generator.
        gain: Factor of the whole. Default: 1.0.

    Examples:
        >>> from bireme.nn import legacy_initializer
        >>> legacy_initializer.XavierInitializer(uniform=False).sample([3, 2], "float32").shape
        [3, 2]
    """

    def __init__(
        self,
        uniform: bool = True,
        fan_in: float | None = None,
        fan_out: float | None = None,
        seed: int = 0,
        gain: float = 1.0,
    ):
        super().__init__(fan_in, fan_out, gain)
        self._seed, self._kind = seed, (XavierUniform if uniform else XavierNormal)(fan_in, fan_out, gain)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        with streams.seeded(self._seed):
            return self._kind.sample(shape, dtype)


class MSRAInitializer(KaimingUniform):
    """``KaimingUniform``, or ``KaimingNormal``.

    Args:
        uniform: ``False`` for the normal distribution. Default: True.
        fan_in: Number of inputs of a unit. Default: None, from the shape.
        seed: Seed of the values, which are then the same in every call. Default: 0, from the global generator.
        negative_slope: Slope for negative inputs, for ``'leaky_relu'``. Default: 0.
        nonlinearity: Name of the function after the layer; see ``calculate_gain``. Default: ``'relu'``.
        mode: ``'fan_in'`` keeps the variance of activations, ``'fan_out'`` that of gradients. Default: ``'fan_in'``.

    Examples:
        >>> from bireme.nn import legacy_initializer
        >>> legacy_initializer.MSRAInitializer(uniform=False).sample([3, 2], "float32").shape
        [3, 2]
    """

    def __init__(
        self,
        uniform: bool = True,
        fan_in: float | None = None,
        seed: int = 0,
        negative_slope: float = 0,
        nonlinearity: str = "relu",
        mode: str = "fan_in",
    ):
        super().__init__(fan_in, negative_slope, nonlinearity, mode)
        self._seed = seed
        self._kind = (KaimingUniform if uniform else KaimingNormal)(fan_in, negative_slope, nonlinearity, mode)

    def sample(self, shape: Sequence[int], dtype: DType | str) -> Tensor:
        with streams.seeded(self._seed):
            return self._kind.sample(shape, dtype)
