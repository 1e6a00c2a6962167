"""Initializers as functions that fill a tensor inplace."""

from __future__ import annotations

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.nn import initializer as initial
from bireme.nn.initializer import calculate_gain
from bireme.ops import eye

__all__ = [
    "kaiming_uniform_",
    "kaiming_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "uniform_",
    "normal_",
    "trunc_normal_",
    "constant_",
    "ones_",
    "zeros_",
    "dirac_",
    "eye_",
    "orthogonal_",
    "calculate_gain",
]


@no_grad()
def _fill(where: str, tensor: Tensor, init: initial.Initializer) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise errors.bad(f"{where}(tensor)", "a Tensor", tensor, kind=errors.NotATensorError)
    init(tensor)
    return tensor


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fill a tensor inplace as ``bireme.nn.initializer.KaimingUniform`` does.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        a: Slope of ``'leaky_relu'`` for negative inputs. Default: 0.
        mode: ``'fan_in'`` keeps the variance of activations, ``'fan_out'`` that of gradients. Default: ``'fan_in'``.
        nonlinearity: Name of the function after the layer; see ``calculate_gain``. Default: ``'leaky_relu'``.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bool((bireme.nn.init.kaiming_uniform_(bireme.zeros([6, 2])).abs() <= 1.0).all())
        True
    """
    return _fill("kaiming_uniform_", tensor, initial.KaimingUniform(None, a, nonlinearity, mode))


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fill a tensor inplace as ``bireme.nn.initializer.KaimingNormal`` does.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        a: Slope of ``'leaky_relu'`` for negative inputs. Default: 0.
        mode: ``'fan_in'`` keeps the variance of activations, ``'fan_out'`` that of gradients. Default: ``'fan_in'``.
        nonlinearity: Name of the function after the layer; see ``calculate_gain``. Default: ``'leaky_relu'``.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.kaiming_normal_(bireme.zeros([6, 2])).shape
        [6, 2]
    """
    return _fill("kaiming_normal_", tensor, initial.KaimingNormal(None, a, nonlinearity, mode))


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, fan_in: float | None = None, fan_out: float | None = None
) -> Tensor:
    """Fill a tensor inplace as ``bireme.nn.initializer.XavierUniform`` does.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        gain: Factor of the whole. Default: 1.0.
        fan_in: Number of inputs of a unit. Default: None, from the shape.
        fan_out: Number of outputs of a unit. Default: None, from the shape.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bool((bireme.nn.init.xavier_uniform_(bireme.zeros([3, 3])).abs() <= 1.0).all())
        True
    """
    return _fill("xavier_uniform_", tensor, initial.XavierUniform(fan_in, fan_out, gain))


def xavier_normal_(
    tensor: Tensor, gain: float = 1.0, fan_in: float | None = None, fan_out: float | None = None
) -> Tensor:
    """Fill a tensor inplace as ``bireme.nn.initializer.XavierNormal`` does.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        gain: Factor of the whole. Default: 1.0.
        fan_in: Number of inputs of a unit. Default: None, from the shape.
        fan_out: Number of outputs of a unit. Default: None, from the shape.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.xavier_normal_(bireme.zeros([3, 3])).shape
        [3, 3]
    """
    return _fill("xavier_normal_", tensor, initial.XavierNormal(fan_in, fan_out, gain))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill a tensor inplace from a uniform distribution over ``[a, b)``.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        a: Lower bound. Default: 0.0.
        b: Upper bound. Default: 1.0.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bool((bireme.nn.init.uniform_(bireme.zeros([9]), 2.0, 3.0) >= 2.0).all())
        True
    """
    return _fill("uniform_", tensor, initial.Uniform(a, b))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill a tensor inplace from a normal distribution.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        mean: Mean of the distribution. Default: 0.0.
        std: Standard deviation, non-negative. Default: 1.0.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.normal_(bireme.zeros([2]), 5.0, 0.0).tolist()
        [5.0, 5.0]
    """
    return _fill("normal_", tensor, initial.Normal(mean, std))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Fill a tensor inplace from a normal distribution that is truncated to ``[a, b]``.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        mean: Mean of the distribution before truncation. Default: 0.0.
        std: Its standard deviation, non-negative. Default: 1.0.
        a: Lower bound of the values. Default: -2.0.
        b: Upper bound of the values. Default: 2.0.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bool((bireme.nn.init.trunc_normal_(bireme.zeros([99]), a=-0.5, b=0.5).abs() <= 0.5).all())
        True
    """
    return _fill("trunc_normal_", tensor, initial.TruncatedNormal(mean, std, a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor inplace with one number.

    Args:
        tensor: The tensor to fill, which is changed inplace.
        val: The number.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.constant_(bireme.zeros([2]), 3.0).tolist()
        [3.0, 3.0]
    """
    return _fill("constant_", tensor, initial.Constant(val))


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor inplace with ones.

    Args:
        tensor: The tensor to fill, which is changed inplace.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.ones_(bireme.zeros([2])).tolist()
        [1.0, 1.0]
    """
    return _fill("ones_", tensor, initial.Constant(1.0))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor inplace with zeros.

    Args:
        tensor: The tensor to fill, which is changed inplace.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.zeros_(bireme.ones([2])).tolist()
        [0.0, 0.0]
    """
    return _fill("zeros_", tensor, initial.Constant(0.0))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a kernel inplace as ``bireme.nn.initializer.Dirac`` does.

    Args:
        tensor: The kernel to fill, with three to five axes, which is changed inplace.
        groups: Number of groups of output channels. Default: 1.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.dirac_(bireme.zeros([1, 1, 3])).tolist()
        [[[0.0, 1.0, 0.0]]]
    """
    return _fill("dirac_", tensor, initial.Dirac(groups))


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix inplace with ones on the diagonal and zeros elsewhere.

    Args:
        tensor: The matrix to fill, which is changed inplace.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.eye_(bireme.zeros([2, 3])).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if not isinstance(tensor, Tensor) or tensor.ndim != 2:
        raise errors.bad("eye_(tensor)", "a matrix", tensor, kind=errors.ArgumentError)
    return _fill("eye_", tensor, initial.Assign(eye(*tensor.shape)))


def orthogonal_(tensor: Tensor, gain: float = 1) -> Tensor:
    """Fill a tensor inplace as ``bireme.nn.initializer.Orthogonal`` does.

    Args:
        tensor: The tensor to fill, with two axes or more, which is changed inplace.
        gain: Length of the rows or columns. Default: 1.

    Returns:
        ``tensor`` itself.

    Examples:
        >>> bireme.nn.init.orthogonal_(bireme.zeros([1, 1]), 2.0).abs().tolist()
        [[2.0]]
    """
    return _fill("orthogonal_", tensor, initial.Orthogonal(gain))
