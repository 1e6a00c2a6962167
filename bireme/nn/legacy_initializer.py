"""Initializers by the names that Paddle had before, some of which take a seed of their own; `paddle.nn.initializer` holds them."""

from __future__ import annotations

from typing import Any

from bireme.core.base import random_state as streams
from bireme.core.tensor.tensor import Tensor
from bireme.nn.initializer import Assign, Constant, KaimingNormal, KaimingUniform, Normal, TruncatedNormal, Uniform, XavierNormal, XavierUniform


class ConstantInitializer(Constant):
    """One number everywhere.

    >>> from bireme.nn import legacy_initializer
    >>> legacy_initializer.ConstantInitializer(2.0).sample([2], "float32").tolist()
    [2.0, 2.0]
    """

    def __init__(self, value: float = 0.0, force_cpu: bool = False):
        super().__init__(value)


class NumpyArrayInitializer(Assign):
    """The numbers of an array.

    >>> from bireme.nn import legacy_initializer
    >>> legacy_initializer.NumpyArrayInitializer([1.0, 1.0]).sample([2], "float32").tolist()
    [1.0, 1.0]
    """

    def __init__(self, value: Any):
        super().__init__(value)


class UniformInitializer(Uniform):
    """Uniform distribution over [low, high); `diag_num` elements, each `diag_step` + 1 after the one before, are `diag_val` instead.

    >>> from bireme.nn import legacy_initializer
    >>> legacy_initializer.UniformInitializer(diag_num=2, diag_step=2, diag_val=9.0).sample([2, 2], "float32").diagonal().tolist()
    [9.0, 9.0]
    """

    def __init__(
        self, low: float = -1.0, high: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0, diag_val: float = 1.0
    ):  # fmt: skip
        super().__init__(low, high)
        self._seed, self._diagonal = seed, (diag_num, diag_step, diag_val)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
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
    """Normal distribution.

    >>> from bireme.nn import legacy_initializer
    >>> initial = legacy_initializer.NormalInitializer(seed=7)
    >>> bool((initial.sample([3], "float32") == initial.sample([3], "float32")).all())
    True
    """

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0):
        super().__init__(loc, scale)
        self._seed = seed

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        with streams.seeded(self._seed):
            return super().sample(shape, dtype)


class TruncatedNormalInitializer(TruncatedNormal):
    """Normal distribution of which only the part between `a` and `b` is drawn from.

    >>> from bireme.nn import legacy_initializer
    >>> bool((legacy_initializer.TruncatedNormalInitializer(a=-1.0, b=0.5).sample([100], "float32") <= 0.5).all())
    True
    """

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0, a: float = -2.0, b: float = 2.0):
        super().__init__(loc, scale, a, b)
        self._seed = seed

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        with streams.seeded(self._seed):
            return super().sample(shape, dtype)


class XavierInitializer(XavierUniform):
    """XavierUniform, or XavierNormal if not `uniform`.

    >>> from bireme.nn import legacy_initializer
    >>> legacy_initializer.XavierInitializer(uniform=False).sample([3, 2], "float32").shape
    [3, 2]
    """

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0, gain: float = 1.0
    ):  # fmt: skip
        super().__init__(fan_in, fan_out, gain)
        self._seed, self._kind = seed, (XavierUniform if uniform else XavierNormal)(fan_in, fan_out, gain)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        with streams.seeded(self._seed):
            return self._kind.sample(shape, dtype)


class MSRAInitializer(KaimingUniform):
    """KaimingUniform, or KaimingNormal if not `uniform`.

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
        self._seed, self._kind = seed, (KaimingUniform if uniform else KaimingNormal)(fan_in, negative_slope, nonlinearity, mode)

    def sample(self, shape: list[int], dtype: Any) -> Tensor:
        with streams.seeded(self._seed):
            return self._kind.sample(shape, dtype)
