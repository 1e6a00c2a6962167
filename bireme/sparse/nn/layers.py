"""Layers of sparse tensors: activations, normalization and pooling."""

from __future__ import annotations

from bireme import nn
from bireme.core.base import errors
from bireme.nn.arguments import Attr, Padding, Sizes
from bireme.ops import batch_norm
from bireme.sparse.creation import sparse
from bireme.sparse.nn import functional as F
from bireme.sparse.tensor import SparseCooTensor, SparseTensor


class _Named(nn.Layer):
    def __init__(self, name: str | None = None):
        super().__init__()
        self._name = name

    def extra_repr(self) -> str:
        """Say the name, if there is one."""
        return f"name={self._name}" if self._name else ""


class ReLU(_Named):
    """Rectified linear unit of the stored values.

    Args:
        name: Shown in the ``repr``. Default: None.

    Shape:
        - x: sparse tensor of any shape
        - output: the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [-2.0, 3.0], [4])
        >>> bireme.sparse.nn.ReLU()(x).values().tolist()
        [0.0, 3.0]
    """

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Apply the function.

        Args:
            x: Sparse tensor.

        Returns:
            Sparse tensor of the same pattern.
        """
        return F.relu(x)


class ReLU6(_Named):
    """Rectified linear unit up to 6 of the stored values.

    Args:
        name: Shown in the ``repr``. Default: None.

    Shape:
        - x: sparse tensor of any shape
        - output: the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [-2.0, 8.0], [4])
        >>> bireme.sparse.nn.ReLU6()(x).values().tolist()
        [0.0, 6.0]
    """

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Apply the function.

        Args:
            x: Sparse tensor.

        Returns:
            Sparse tensor of the same pattern.
        """
        return F.relu6(x)


class LeakyReLU(_Named):
    """Leaky rectified linear unit of the stored values.

    Args:
        negative_slope: Factor of negative values. Default: 0.01.
        name: Shown in the ``repr``. Default: None.

    Shape:
        - x: sparse tensor of any shape
        - output: the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [-2.0, 3.0], [4])
        >>> bireme.sparse.nn.LeakyReLU(0.5)(x).values().tolist()
        [-1.0, 3.0]
    """

    def __init__(self, negative_slope: float = 0.01, name: str | None = None):
        super().__init__(name)
        errors.check_number("LeakyReLU(negative_slope)", negative_slope)
        self._negative_slope = negative_slope

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Apply the function.

        Args:
            x: Sparse tensor.

        Returns:
            Sparse tensor of the same pattern.
        """
        return F.leaky_relu(x, self._negative_slope)


class Softmax(_Named):
    """Softmax along an axis over the stored values, see ``functional.softmax``.

    Args:
        axis: Axis along which the values sum to 1; the last one for a CSR tensor. Default: -1.
        name: Shown in the ``repr``. Default: None.

    Shape:
        - x: sparse tensor of any shape
        - output: the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_csr_tensor([0, 2, 3], [0, 1, 1], [1.0, 1.0, 5.0], [2, 3])
        >>> bireme.sparse.nn.Softmax()(x).values().tolist()
        [0.5, 0.5, 1.0]
    """

    def __init__(self, axis: int = -1, name: str | None = None):
        super().__init__(name)
        self._axis = axis

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Apply the function.

        Args:
            x: Sparse tensor.

        Returns:
            Sparse tensor of the same pattern.
        """
        return F.softmax(x, self._axis)


class MaxPool3D(nn.Layer):
    """Max pooling of points in volumes, see ``functional.max_pool3d``.

    Args:
        kernel_size: Size of the windows: one integer, or one for each axis.
        stride: Step between two windows, the same. Default: None, ``kernel_size``.
        padding: What is added at both ends of each spatial axis. Default: 0.
        return_mask: Kept as an attribute; indices of the maxima are not computed. Default: False.
        ceil_mode: Count a last window that reaches beyond the end. Default: False.
        data_format: Has to be ``'NDHWC'``. Default: ``'NDHWC'``.
        name: Kept as an attribute. Default: None.

    Shape:
        - x: sparse COO tensor ``[N, D, H, W, C]``
        - output: sparse COO tensor ``[N, D_out, H_out, W_out, C]``

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 0], [0, 0], [0, 1], [0, 0]], [[2.0], [5.0]], [1, 2, 2, 2, 1])
        >>> bireme.sparse.nn.MaxPool3D(2)(x).values().tolist()
        [[5.0]]
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NDHWC",
        name: str | None = None,
    ):
        super().__init__()
        self.ksize, self.stride, self.padding = kernel_size, stride, padding
        self.return_mask, self.ceil_mode, self.data_format, self.name = return_mask, ceil_mode, data_format, name

    def forward(self, x: SparseCooTensor) -> SparseCooTensor:
        """Take the maximum of each window.

        Args:
            x: Sparse COO tensor of shape ``[N, D, H, W, C]``.

        Returns:
            Sparse COO tensor.
        """
        return F.max_pool3d(x, self.ksize, self.stride, self.padding, self.ceil_mode, self.data_format)

    def extra_repr(self) -> str:
        """Say the sizes."""
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"


def _normalized(layer: nn.BatchNorm1D | nn.SyncBatchNorm, x: SparseCooTensor) -> SparseCooTensor:
    """The stored values normalized by channel; what is not stored does not count."""
    where = f"{type(layer).__name__}(input)"
    sparse(where, x, SparseCooTensor)
    if x.dense_dim() != 1 or x._values.shape[1] != layer._num_features:
        raise errors.bad(
            where,
            f"{layer._num_features} channels that are the one dense axis",
            described=f"shape {x.shape} with {x.sparse_dim()} sparse dimensions",
            kind=errors.ShapeError,
        )
    settings = layer.training, layer._momentum, layer._epsilon, "NC", layer._use_global_stats
    return x.with_values(batch_norm(x._values, layer._mean, layer._variance, layer.weight, layer.bias, *settings))


class BatchNorm(nn.BatchNorm1D):
    """Batch normalization of the stored values by channel; what is not stored does not count.

    Args:
        num_features: Number of channels.
        momentum: Weight of the old running statistics, in ``[0, 1]``. Default: 0.9.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale; ``False`` keeps it at one. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` keeps it at zero. Default: None, zeros.
        data_format: Shown in the ``repr``; channels are the last axis. Default: ``'NDHWC'``.
        use_global_stats: Use the running statistics in training too. Default: None, only in evaluation.
        name: Prefix of the names of the running statistics. Default: None, generated names.

    Shape:
        - input: sparse COO tensor ``[N, ..., C]``, of which all axes but the channels are sparse
        - output: the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [[1.0], [3.0]], [4, 1])
        >>> bireme.sparse.nn.BatchNorm(1, epsilon=0.0)(x).values().tolist()
        [[-1.0], [1.0]]
    """

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NDHWC",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)

    def _check_data_format(self, input: str) -> None:
        """Any is taken: channels are the last axis, whatever it is called."""

    def forward(self, input: SparseCooTensor) -> SparseCooTensor:
        """Normalize the stored values; in training also update the running statistics.

        Args:
            input: Sparse COO tensor with ``num_features`` channels.

        Returns:
            Sparse COO tensor of the same pattern.
        """
        return _normalized(self, input)


class SyncBatchNorm(nn.SyncBatchNorm):
    """Batch normalization of the stored values over the batches of all devices.

    Bireme runs on one device, where this is the same as ``BatchNorm``.

    Args:
        num_features: Number of channels.
        momentum: Weight of the old running statistics, in ``[0, 1]``. Default: 0.9.
        epsilon: Non-negative number added to the variance, so that it is never 0. Default: 1e-5.
        weight_attr: Attribute of the scale; ``False`` keeps it at one. Default: None, ones.
        bias_attr: Attribute of the shift; ``False`` keeps it at zero. Default: None, zeros.
        data_format: Shown in the ``repr``; channels are the last axis. Default: ``'NCHW'``.
        name: Prefix of the names of the running statistics. Default: None, generated names.

    Shape:
        - x: sparse COO tensor ``[N, ..., C]``, of which all axes but the channels are sparse
        - output: the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [[1.0], [3.0]], [4, 1])
        >>> bireme.sparse.nn.SyncBatchNorm(1, epsilon=0.0)(x).values().tolist()
        [[-1.0], [1.0]]
    """

    def forward(self, x: SparseCooTensor) -> SparseCooTensor:
        """Normalize the stored values; in training also update the running statistics.

        Args:
            x: Sparse COO tensor with ``num_features`` channels.

        Returns:
            Sparse COO tensor of the same pattern.
        """
        return _normalized(self, x)

    @classmethod
    def convert_sync_batchnorm(cls, layer: nn.Layer) -> nn.Layer:
        """Replace every batch normalization in a layer by a synchronized one, which takes over its parameters.

        Args:
            layer: A batch normalization, or a layer that holds some, which is changed inplace. Those of sparse tensors
                become ones of this class, others ``nn.SyncBatchNorm``.

        Returns:
            ``layer``, or its replacement if it is a batch normalization itself.

        Examples:
            >>> net = bireme.nn.Sequential(bireme.sparse.nn.BatchNorm(2))
            >>> type(bireme.sparse.nn.SyncBatchNorm.convert_sync_batchnorm(net)[0]).__module__
            'bireme.sparse.nn.layers'
        """
        if isinstance(layer, BatchNorm):
            return super().convert_sync_batchnorm(layer)
        if isinstance(layer, (nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D)):
            return nn.SyncBatchNorm.convert_sync_batchnorm(layer)
        for name, part in layer.named_children():
            layer.add_sublayer(name, cls.convert_sync_batchnorm(part))
        return layer
