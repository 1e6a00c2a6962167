"""Normalization layers, except batch normalization."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, DTypeLike, must_be_positive
from bireme.nn.initializer import Constant, Normal
from bireme.nn.layer import Layer
from bireme.ops import group_norm, instance_norm, layer_norm, local_response_norm, spectral_norm_of


def must_not_be_negative(where: str, number: Any) -> None:
    if isinstance(number, numbers.Real) and not number >= 0:
        raise errors.bad(where, "a non-negative number", number, kind=errors.for_number(number))


class LayerNorm(Layer):
    """Layer normalization: zero mean and unit variance over the last axes of each sample.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias``. Weight and bias are stored flat, with
    ``prod(normalized_shape)`` elements.

    Args:
        normalized_shape: Sizes of the last axes to normalize over, or one integer for the last axis alone.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale; ``False`` leaves it out. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` leaves it out. Default: None, zeros.
        name: Not used; kept for Paddle's signature.

    Shape:
        - input: ``[..., *normalized_shape]``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.LayerNorm(2, epsilon=0.0)(bireme.to_tensor([[1.0, 3.0]])).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int] | Tensor | np.ndarray,
        epsilon: float = 1e-05,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        name: str | None = None,
    ):
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = [normalized_shape]
        if isinstance(normalized_shape, (Tensor, np.ndarray)) and normalized_shape.ndim == 1:
            normalized_shape = normalized_shape.tolist()
        if not isinstance(normalized_shape, (list, tuple)):
            raise errors.bad(
                "LayerNorm(normalized_shape)",
                "an integer or a list of integers",
                normalized_shape,
                kind=errors.ArgumentTypeError,
            )
        if not normalized_shape:
            raise errors.bad(
                "LayerNorm(normalized_shape)", "at least one size", normalized_shape, kind=errors.ArgumentTypeError
            )
        must_not_be_negative("LayerNorm(epsilon)", epsilon)
        self._normalized_shape, self._epsilon = list(normalized_shape), epsilon
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        count = [math.prod(self._normalized_shape)]  # flat, as state dicts have them
        self.weight = self.create_parameter(count, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(count, bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the input.

        Args:
            input: Tensor of shape ``[..., *normalized_shape]``.

        Returns:
            Tensor of the shape of ``input``.
        """
        return layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(Layer):
    """Group normalization: zero mean and unit variance over each group of channels of each sample.

    Args:
        num_groups: Number of groups.
        num_channels: Number of channels; a multiple of ``num_groups``.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale ``[num_channels]``; ``False`` keeps it at one. Default: None, ones.
        bias_attr: Attribute of the shift ``[num_channels]``; ``False`` keeps it at zero. Default: None, zeros.
        data_format: ``'NCL'``, ``'NCHW'`` or ``'NCDHW'`` with channels first, ``'NLC'``, ``'NHWC'`` or ``'NDHWC'`` with
            channels last. Default: ``'NCHW'``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - input: ``[N, C, ...]``, or ``[N, ..., C]`` with channels last
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.GroupNorm(1, 2, epsilon=0.0)(bireme.to_tensor([[1.0, 3.0]])).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        if data_format not in ("NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC"):
            raise errors.bad("GroupNorm(data_format)", "'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC' or 'NDHWC'", data_format)
        must_be_positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise errors.bad("GroupNorm(num_channels)", f"a multiple of num_groups = {num_groups}", num_channels)
        must_not_be_negative("GroupNorm(epsilon)", epsilon)
        self._num_groups = num_groups
        self._num_channels = num_channels
        self._epsilon = epsilon
        self._data_format = data_format
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        # False keeps the parameter at its initial value, unlike elsewhere: state dicts have it
        self.weight = self.create_parameter([num_channels], weight_attr or None, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr or None, is_bias=True)
        for held, attr in ((self.weight, weight_attr), (self.bias, bias_attr)):
            if attr is False:
                held.stop_gradient = True

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the input.

        Args:
            input: Tensor in ``data_format``.

        Returns:
            Tensor of the shape of ``input``.
        """
        return group_norm(input, self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)

    def extra_repr(self) -> str:
        return f"num_groups={self._num_groups}, num_channels={self._num_channels}, epsilon={self._epsilon}"


class _InstanceNormBase(Layer):
    _axes: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        if (weight_attr is False) != (bias_attr is False):
            where = f"{type(self).__name__}(weight_attr, bias_attr)"
            raise errors.bad(where, "both False or neither", [weight_attr, bias_attr], kind=errors.ArgumentError)
        must_not_be_negative(f"{type(self).__name__}(epsilon)", epsilon)
        self._num_features = num_features
        self._epsilon = epsilon
        self._momentum = momentum
        self._data_format = data_format
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def _check_input_dim(self, input: Tensor) -> None:
        # under Paddle's name: programs derive from these layers and write their own check
        if input.ndim not in self._axes:
            expected = " or ".join([f"{n}-D" for n in self._axes])
            raise errors.bad(
                f"{type(self).__name__}(input)",
                f"a {expected} tensor",
                described=f"shape {input.shape}",
                kind=errors.ShapeError,
            )

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the input.

        Args:
            input: Tensor of shape ``[N, num_features, ...]``.

        Returns:
            Tensor of the shape of ``input``.
        """
        self._check_input_dim(input)
        return instance_norm(
            input, None, None, self.scale, self.bias, True, self._momentum, self._epsilon, self._data_format
        )

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


class InstanceNorm1D(_InstanceNormBase):
    """Instance normalization of sequences: zero mean and unit variance over each channel of each sample.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias`` with the statistics of each channel of each sample, in
    training and in evaluation.

    Args:
        num_features: Number of channels.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        momentum: Accepted for compatibility; there are no running statistics. Default: 0.9.
        weight_attr: Attribute of the scale ``[num_features]``; ``False`` leaves it out, then ``bias_attr`` must be
            ``False`` too. Default: None, ones.
        bias_attr: Attribute of the shift ``[num_features]``; ``False`` leaves it out. Default: None, zeros.
        data_format: Accepted for compatibility: the channels are the second axis, whatever it says. Default: ``'NCL'``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - input: ``[N, C, L]`` or ``[N, C]``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.InstanceNorm1D(1, epsilon=0.0)(bireme.to_tensor([[[1.0, 3.0]]])).tolist()
        [[[-1.0, 1.0]]]
    """

    _axes = (2, 3)

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCL",
        name: str | None = None,
    ):
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format, name)


class InstanceNorm2D(_InstanceNormBase):
    """Instance normalization of images: zero mean and unit variance over each channel of each sample.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias`` with the statistics of each channel of each sample, in
    training and in evaluation.

    Args:
        num_features: Number of channels.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        momentum: Accepted for compatibility; there are no running statistics. Default: 0.9.
        weight_attr: Attribute of the scale ``[num_features]``; ``False`` leaves it out, then ``bias_attr`` must be
            ``False`` too. Default: None, ones.
        bias_attr: Attribute of the shift ``[num_features]``; ``False`` leaves it out. Default: None, zeros.
        data_format: Accepted for compatibility: the channels are the second axis, whatever it says. Default:
            ``'NCHW'``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - input: ``[N, C, H, W]``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.InstanceNorm2D(1, epsilon=0.0)(bireme.to_tensor([[[[1.0, 3.0]]]])).tolist()
        [[[[-1.0, 1.0]]]]
    """

    _axes = (4,)


class InstanceNorm3D(_InstanceNormBase):
    """Instance normalization of volumes: zero mean and unit variance over each channel of each sample.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias`` with the statistics of each channel of each sample, in
    training and in evaluation.

    Args:
        num_features: Number of channels.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        momentum: Accepted for compatibility; there are no running statistics. Default: 0.9.
        weight_attr: Attribute of the scale ``[num_features]``; ``False`` leaves it out, then ``bias_attr`` must be
            ``False`` too. Default: None, ones.
        bias_attr: Attribute of the shift ``[num_features]``; ``False`` leaves it out. Default: None, zeros.
        data_format: Accepted for compatibility: the channels are the second axis, whatever it says. Default:
            ``'NCDHW'``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - input: ``[N, C, D, H, W]``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.InstanceNorm3D(1, epsilon=0.0)(bireme.to_tensor([[[[[1.0, 3.0]]]]])).tolist()
        [[[[[-1.0, 1.0]]]]]
    """

    _axes = (5,)

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCDHW",
        name: str | None = None,
    ):
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format, name)


class LocalResponseNorm(Layer):
    """Local response normalization over neighboring channels: ``x / (k + alpha * mean(x ** 2)) ** beta``.

    The mean is over ``size`` channels around each element; channels beyond the first and the last count as 0.

    Args:
        size: Number of channels, at least 1.
        alpha: Factor of the mean square. Default: 1e-4.
        beta: Exponent. Default: 0.75.
        k: Constant in the denominator. Default: 1.0.
        data_format: ``'NCL'``, ``'NCHW'`` or ``'NCDHW'`` with channels first, ``'NLC'``, ``'NHWC'`` or ``'NDHWC'`` with
            channels last. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: three axes or more, in ``data_format``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.LocalResponseNorm(1, alpha=3.0, beta=0.5)(bireme.ones([1, 1, 1])).tolist()
        [[[0.5]]]
    """

    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self.size, self.alpha, self.beta, self.k, self.data_format, self.name = size, alpha, beta, k, data_format, name

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the input.

        Args:
            input: Tensor in ``data_format``.

        Returns:
            Tensor of the shape of ``input``.
        """
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k, self.data_format)

    def extra_repr(self) -> str:
        layout = "" if self.data_format == "NCHW" else f", data_format={self.data_format}"
        name = "" if self.name is None else f", name={self.name}"
        return f"size={self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}{layout}{name}"


class SpectralNorm(Layer):
    """Spectral normalization of a weight: divides it by its largest singular value.

    The singular value is estimated by power iteration, which starts in each call from the same two vectors, the
    untrained parameters ``weight_u`` and ``weight_v``. To normalize the weight of a layer, use
    ``bireme.nn.utils.spectral_norm``.

    Args:
        weight_shape: Shape of the weight.
        dim: Axis that is the rows of the matrix, 0 or 1; all others are its columns. Default: 0.
        power_iters: Number of power iterations. Default: 1.
        eps: Added to the norms of the vectors. Default: 1e-12.
        dtype: Data type of the vectors. Default: ``'float32'``.

    Shape:
        - x: ``weight_shape``
        - output: ``weight_shape``

    Examples:
        >>> layer = bireme.nn.SpectralNorm([1, 2], power_iters=3)
        >>> [[round(w, 4) for w in row] for row in layer(bireme.to_tensor([[3.0, 4.0]])).tolist()]
        [[0.6, 0.8]]
    """

    def __init__(
        self,
        weight_shape: Sequence[int],
        dim: int = 0,
        power_iters: int = 1,
        eps: float = 1e-12,
        dtype: DTypeLike = "float32",
    ):
        super().__init__()
        self._weight_shape = list(weight_shape)
        self._dim = dim
        self._power_iters = power_iters
        self._eps = eps
        self._dtype = dtype
        total = math.prod(self._weight_shape)
        if total <= 0:
            raise errors.bad(
                "SpectralNorm(weight_shape)", "no axis of size 0", self._weight_shape, kind=errors.ArgumentError
            )
        must_not_be_negative("SpectralNorm(power_iters)", power_iters)
        must_not_be_negative("SpectralNorm(eps)", eps)
        if dim not in (0, 1) or dim >= len(self._weight_shape):
            raise errors.bad(
                "SpectralNorm(dim)",
                f"0 or 1, an axis in [0, {len(self._weight_shape) - 1}]",
                dim,
                kind=errors.ArgumentError,
            )
        rows = self._weight_shape[dim]
        for name, count in (("weight_u", rows), ("weight_v", total // rows)):
            held = self.create_parameter([count], None, dtype, default_initializer=Normal(0.0, 1.0))
            held.stop_gradient = True
            setattr(self, name, held)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize a weight.

        Args:
            x: The weight, of shape ``weight_shape``.

        Returns:
            The weight divided by its largest singular value.
        """
        if not isinstance(x, Tensor):
            raise errors.bad("SpectralNorm(x)", "a Tensor", x, kind=errors.NotATensorError)
        if x.shape != self._weight_shape:
            raise errors.bad(
                "SpectralNorm(x)", f"shape {self._weight_shape}", described=f"shape {x.shape}", kind=errors.ShapeError
            )
        return spectral_norm_of(x, self.weight_u, self.weight_v, self._eps, self._dim, self._power_iters)
