"""Batch normalization, with running statistics."""

from __future__ import annotations

import numbers
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional, process_statistics
from bireme.nn.arguments import Attr, DTypeLike
from bireme.nn.initializer import Constant
from bireme.nn.layer import Layer
from bireme.nn.norm import must_not_be_negative
from bireme.ops import batch_norm
from bireme.param_attr import ParamAttr


class _BatchNormBase(Layer):
    """What the batch normalizations share; the running statistics are parameters that are not trained.

    The two checks are methods under Paddle's names: programs derive from these layers and write their own.
    """

    _axes: tuple[int, ...] = ()
    _formats: tuple[str, ...] = ()

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ):
        super().__init__()
        _fitting(type(self).__name__, momentum, epsilon)
        self._num_features, self._momentum, self._epsilon = num_features, momentum, epsilon
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self._data_format, self._use_global_stats, self._name = data_format, use_global_stats, name
        self._in_place = self._fuse_with_relu = False
        self._check_data_format(data_format)
        self.weight = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)
        names = [None, None] if name is None else [f"{name}_mean", f"{name}_variance"]
        self._mean, self._variance = [
            _statistic(self, num_features, start, name=n) for start, n in zip((0.0, 1.0), names)
        ]

    def _check_data_format(self, input: str) -> None:
        if self._formats and input not in self._formats:
            raise errors.bad(
                f"{type(self).__name__}(data_format)", f"one of {', '.join(map(repr, self._formats))}", input
            )

    def _check_input_dim(self, input: Tensor) -> None:
        if self._axes and input.ndim not in self._axes:
            expected = " or ".join([f"{n}-D" for n in self._axes])
            raise errors.bad(
                f"{type(self).__name__}(input)",
                f"a {expected} tensor",
                described=f"shape {input.shape}",
                kind=errors.ShapeError,
            )

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the input; in training also update the running statistics.

        Args:
            input: Tensor in ``data_format``, with ``num_features`` channels.

        Returns:
            Tensor of the shape of ``input``.
        """
        self._check_input_dim(input)
        return batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            self._momentum,
            self._epsilon,
            self._data_format,
            self._use_global_stats,
        )

    def extra_repr(self) -> str:
        layout = "" if self._data_format == "NCHW" else f", data_format={self._data_format}"
        name = "" if self._name is None else f", name={self._name}"
        return f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}{layout}{name}"


def _fitting(where: str, momentum: Any, epsilon: Any) -> None:
    if isinstance(momentum, numbers.Real) and not 0 <= momentum <= 1:
        raise errors.bad(f"{where}(momentum)", "a number in [0, 1]", momentum, kind=errors.for_number(momentum))
    must_not_be_negative(f"{where}(epsilon)", epsilon)


def _statistic(layer: Layer, count: int, start: float, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    attr = ParamAttr(name=name, initializer=Constant(start), trainable=False)
    held = layer.create_parameter([count], attr, dtype)
    held.stop_gradient = True
    return held


class BatchNorm1D(_BatchNormBase):
    """Batch normalization of vectors or sequences: zero mean and unit variance of each channel over the batch.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias``. In training the statistics are those of the batch,
    and the running ones become ``momentum * running + (1 - momentum) * batch``, with the biased variance; in evaluation
    the running ones are used. A batch with one element for each channel is returned as it is in training.

    Args:
        num_features: Number of channels.
        momentum: Weight of the old running statistics, in ``[0, 1]``: 1 minus that of PyTorch. Default: 0.9.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale; ``False`` leaves it out. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` leaves it out. Default: None, zeros.
        data_format: ``'NC'`` or ``'NCL'`` with channels second, ``'NLC'`` with channels last; ``'NCHW'`` and ``'NHWC'``
            mean the same. Default: ``'NCL'``.
        use_global_stats: Use the running statistics, or those of the batch, always. Default: None, by the layer's mode.
        name: Prefix of the names of the running statistics, ``{name}_mean`` and ``{name}_variance``, also shown in the
            ``repr``. Default: None, generated names.

    Shape:
        - input: ``[N, C]`` or ``[N, C, L]``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.BatchNorm1D(1, epsilon=0.0)(bireme.to_tensor([[1.0], [3.0]])).tolist()
        [[-1.0], [1.0]]
    """

    _axes, _formats = (2, 3), ("NC", "NCL", "NLC", "NCHW", "NHWC")

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCL",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class BatchNorm2D(_BatchNormBase):
    """Batch normalization of images: zero mean and unit variance of each channel over the batch.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias``. In training the statistics are those of the batch,
    and the running ones become ``momentum * running + (1 - momentum) * batch``, with the biased variance; in evaluation
    the running ones are used. A batch with one element for each channel is returned as it is in training.

    Args:
        num_features: Number of channels.
        momentum: Weight of the old running statistics, in ``[0, 1]``: 1 minus that of PyTorch. Default: 0.9.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale; ``False`` leaves it out. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` leaves it out. Default: None, zeros.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        use_global_stats: Use the running statistics, or those of the batch, always. Default: None, by the layer's mode.
        name: Prefix of the names of the running statistics, ``{name}_mean`` and ``{name}_variance``, also shown in the
            ``repr``. Default: None, generated names.

    Shape:
        - input: ``[N, C, H, W]``
        - output: the shape of ``input``

    Examples:
        >>> layer = bireme.nn.BatchNorm2D(1, epsilon=0.0)
        >>> layer(bireme.to_tensor([[[[1.0, 3.0]]]])).tolist()
        [[[[-1.0, 1.0]]]]
        >>> [round(x, 4) for x in layer._mean.tolist()]
        [0.2]
    """

    _axes, _formats = (4,), ("NCHW", "NHWC")


class BatchNorm3D(_BatchNormBase):
    """Batch normalization of volumes: zero mean and unit variance of each channel over the batch.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias``. In training the statistics are those of the batch,
    and the running ones become ``momentum * running + (1 - momentum) * batch``, with the biased variance; in evaluation
    the running ones are used. A batch with one element for each channel is returned as it is in training.

    Args:
        num_features: Number of channels.
        momentum: Weight of the old running statistics, in ``[0, 1]``: 1 minus that of PyTorch. Default: 0.9.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale; ``False`` leaves it out. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` leaves it out. Default: None, zeros.
        data_format: ``'NCDHW'`` or ``'NDHWC'``; ``'NCHW'`` and ``'NHWC'`` mean the same. Default: ``'NCDHW'``.
        use_global_stats: Use the running statistics, or those of the batch, always. Default: None, by the layer's mode.
        name: Prefix of the names of the running statistics, ``{name}_mean`` and ``{name}_variance``, also shown in the
            ``repr``. Default: None, generated names.

    Shape:
        - input: ``[N, C, D, H, W]``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.BatchNorm3D(1, epsilon=0.0)(bireme.to_tensor([[[[[1.0, 3.0]]]]])).tolist()
        [[[[[-1.0, 1.0]]]]]
    """

    _axes, _formats = (5,), ("NCDHW", "NDHWC", "NCHW", "NHWC")

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCDHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class SyncBatchNorm(_BatchNormBase):
    """Batch normalization over the batches of all processes that train together, for inputs with any number of axes.

    In one process this is the same as ``BatchNorm2D``; so it is in evaluation.

    Args:
        num_features: Number of channels.
        momentum: Weight of the old running statistics, in ``[0, 1]``. Default: 0.9.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale; ``False`` keeps it at one. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` keeps it at zero. Default: None, zeros.
        data_format: ``'NC'``, ``'NCL'``, ``'NCHW'`` or ``'NCDHW'`` with channels second, ``'NLC'``, ``'NHWC'`` or
            ``'NDHWC'`` with channels last. Default: ``'NCHW'``.
        name: Prefix of the names of the running statistics, ``{name}_mean`` and ``{name}_variance``, also shown in the
            ``repr``. Default: None, generated names.

    Shape:
        - x: ``[N, C, ...]``, or ``[N, ..., C]`` with channels last
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.SyncBatchNorm(1, epsilon=0.0)(bireme.to_tensor([[1.0], [3.0]])).tolist()
        [[-1.0], [1.0]]
    """

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, None, name)
        # unlike the others it keeps what attributes leave out as constants: checkpoints have their keys
        for attr, what, start in ((weight_attr, "weight", 1.0), (bias_attr, "bias", 0.0)):
            if attr is False:
                still = ParamAttr(initializer=Constant(start), trainable=False)
                setattr(self, what, self.create_parameter([num_features], still, is_bias=what == "bias"))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the input; in training also update the running statistics.

        Args:
            x: Tensor in ``data_format``, with ``num_features`` channels.

        Returns:
            Tensor of the shape of ``x``.
        """
        if not (self.training and process_statistics.several()):
            return super().forward(x)
        return process_statistics.batch_norm(
            x,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self._momentum,
            self._epsilon,
            self._data_format.endswith("C") and self._data_format != "NC",
        )

    @classmethod
    def convert_sync_batchnorm(cls, layer: Layer) -> Layer:
        """Replace every batch normalization in a layer by one of this class, which takes over its parameters.

        Args:
            layer: A batch normalization, or a layer that holds some, which is changed inplace.

        Returns:
            ``layer``, or its replacement if it is a batch normalization itself.

        Examples:
            >>> net = bireme.nn.Sequential(bireme.nn.BatchNorm2D(2))
            >>> type(bireme.nn.SyncBatchNorm.convert_sync_batchnorm(net)[0]).__name__
            'SyncBatchNorm'
        """
        made = layer
        if isinstance(layer, _BatchNormBase) and not isinstance(layer, SyncBatchNorm):
            # its own parameters are dropped at once: names that attributes give may not occur twice
            attrs = [False if attr is False else None for attr in (layer._weight_attr, layer._bias_attr)]
            made = cls(layer._num_features, layer._momentum, layer._epsilon, *attrs, layer._data_format, layer._name)
            made._weight_attr, made._bias_attr = layer._weight_attr, layer._bias_attr
            made.weight = made.weight if layer.weight is None else layer.weight
            made.bias = made.bias if layer.bias is None else layer.bias
            made._mean, made._variance = layer._mean, layer._variance
            made._use_global_stats, made.training = layer._use_global_stats, layer.training
        for name, part in layer.named_children():
            made.add_sublayer(name, cls.convert_sync_batchnorm(part))
        return made


class BatchNorm(Layer):
    """Batch normalization of inputs with any number of axes, with an activation; an older form of ``BatchNorm2D``.

    Args:
        num_channels: Number of channels.
        act: Name of an activation in ``bireme.nn.functional``. Default: None, no activation.
        is_test: Start in evaluation mode. Default: False.
        momentum: Weight of the old running statistics, in ``[0, 1]``. Default: 0.9.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        param_attr: Attribute of the scale; ``False`` leaves it out. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` leaves it out. Default: None, zeros.
        dtype: Data type of the parameters; ``'float16'`` means ``'float32'``. Default: ``'float32'``.
        data_layout: ``'NC'``, ``'NCL'``, ``'NCHW'`` or ``'NCDHW'`` with channels second, ``'NLC'``, ``'NHWC'`` or
            ``'NDHWC'`` with channels last. Default: ``'NCHW'``.
        in_place: Accepted for compatibility and not used. Default: False.
        moving_mean_name: Name of the running mean. Default: None, a generated name.
        moving_variance_name: Name of the running variance. Default: None, a generated name.
        do_model_average_for_mean_and_var: Accepted for compatibility and not used. Default: True.
        use_global_stats: Use the running statistics in training too. Default: False.
        trainable_statistics: Use the statistics of the batch in evaluation too. Default: False.

    Shape:
        - input: ``[N, C, ...]``, or ``[N, ..., C]`` with channels last
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.BatchNorm(1, act="relu", epsilon=0.0)(bireme.to_tensor([[1.0], [3.0]])).tolist()
        [[0.0], [1.0]]
    """

    _stays_wide = True

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Attr = None,
        bias_attr: Attr = None,
        dtype: DTypeLike = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ):
        super().__init__()
        kind = "float32" if dtype == "float16" else dtype
        _fitting("BatchNorm", momentum, epsilon)
        self._act, self._momentum, self._epsilon, self._dtype = act, momentum, epsilon, kind
        self._act_fn = None if act is None else _activation(act)
        self._param_attr, self._bias_attr, self._is_test = param_attr, bias_attr, is_test
        self._in_place, self._fuse_with_relu = in_place, False
        self._data_layout = data_layout
        self._use_global_stats = use_global_stats
        self._trainable_statistics = trainable_statistics
        self.weight = self.create_parameter([num_channels], param_attr, kind, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr, kind, is_bias=True)
        self._mean = _statistic(self, num_channels, 0.0, kind, moving_mean_name)
        self._variance = _statistic(self, num_channels, 1.0, kind, moving_variance_name)
        self.training = not is_test

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the input and apply the activation; in training also update the running statistics.

        Args:
            input: Tensor in ``data_layout``, with ``num_channels`` channels.

        Returns:
            Tensor of the shape of ``input``.
        """
        # None: by `training`, which a program for tests sets to False later
        by_running = True if self._use_global_stats else False if self._trainable_statistics else None
        out = batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            self._momentum,
            self._epsilon,
            self._data_layout,
            by_running,
        )
        return out if self._act_fn is None else self._act_fn(out)


def _activation(act: Any) -> Any:
    found = getattr(functional, act, None) if isinstance(act, str) else None
    if found is None:
        raise errors.bad("BatchNorm(act)", "the name of an activation", act)
    return found
