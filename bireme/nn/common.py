"""Layers that most networks have: linear and bilinear maps, embedding, dropout, flatten and unflatten, identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.keywords import renamed
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, DeviceLike, DTypeLike, must_be_positive
from bireme.nn.layer import Layer
from bireme.ops import (
    alpha_dropout,
    bilinear,
    dropout,
    dropout2d,
    dropout3d,
    embedding,
    feature_alpha_dropout,
    flatten,
    linear,
    to_tensor,
    unflatten,
    where,
)  # fmt: skip


class Linear(Layer):
    """Affine map of the last axis: ``input @ weight + bias``.

    The weight has shape ``[in_features, out_features]``, the transpose of PyTorch's.

    Args:
        in_features: Size of the last axis of the input.
        out_features: Size of the last axis of the output.
        weight_attr: Attribute of the weight: a ``ParamAttr``, an initializer or a name; not ``False``. Default: None,
            Xavier uniform.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: ``[..., in_features]``
        - output: ``[..., out_features]``

    Examples:
        >>> layer = bireme.nn.Linear(2, 1, weight_attr=bireme.nn.initializer.Constant(0.5))
        >>> layer(bireme.to_tensor([[2.0, 4.0]])).tolist()
        [[3.0]]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        name: str | None = None,
    ):
        super().__init__()
        if weight_attr is False:
            raise errors.bad(
                "Linear(weight_attr)",
                "a ParamAttr or None, since the weight is required",
                False,
                kind=errors.MissingAttributeError,
            )
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.name = name
        self._dtype = self.weight.dtype.name

    def forward(self, input: Tensor) -> Tensor:
        """Compute ``input @ weight + bias``.

        Args:
            input: Tensor of shape ``[..., in_features]``.

        Returns:
            Tensor of shape ``[..., out_features]``.
        """
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        # the sizes are no attributes, as in Paddle: programs define properties of these names on the class
        return f"in_features={self.weight.shape[0]}, out_features={self.weight.shape[1]}, dtype={self._dtype}{name}"


class Embedding(Layer):
    """Lookup table: rows of a matrix, selected by integer indices.

    Args:
        num_embeddings: Number of rows of the table.
        embedding_dim: Size of each row.
        padding_idx: Row for padding: it starts at zero, reads as zeros and gets no gradient. Negative values count from
            the end. Default: None, no such row.
        max_norm: Before each lookup the rows that are read are scaled down in the table to a norm of at most this.
            Default: None, rows stay as they are.
        norm_type: Order of that norm. Default: 2.0.
        scale_grad_by_freq: Divide the gradient of a row by how often it was read in the batch; not with ``sparse``.
            Default: False.
        sparse: Let ``Adam`` and ``AdamW`` with ``lazy_mode`` update only the rows that were read. The numbers of
            ``weight.grad`` are those of the whole table either way. Default: False.
        _weight: The table itself, of shape ``[num_embeddings, embedding_dim]``, instead of a new one. Default: None.
        _freeze: Do not train the table. Default: False.
        device: Device of the table, such as ``'cpu'`` or ``'gpu:0'``. Default: None, the current device.
        dtype: Data type of the table. Default: None, the default data type.
        weight_attr: Attribute of the table: a ``ParamAttr``, an initializer or a name. Default: None, Xavier uniform.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape, integers in ``[0, num_embeddings)``
        - output: the shape of ``x`` followed by ``embedding_dim``

    Examples:
        >>> table = bireme.nn.initializer.Assign([[1.0, 2.0], [3.0, 4.0]])
        >>> layer = bireme.nn.Embedding(2, 2, weight_attr=table)
        >>> layer(bireme.to_tensor([1, 0])).tolist()
        [[3.0, 4.0], [1.0, 2.0]]
        >>> bireme.nn.Embedding(4, 3, padding_idx=0)(bireme.to_tensor([0])).tolist()
        [[0.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        *,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike | None = None,
        dtype: DTypeLike | None = None,
        weight_attr: Attr = None,
        name: str | None = None,
    ):
        super().__init__()
        must_be_positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise errors.bad(
                "Embedding(padding_idx)", f"an index in [{-num_embeddings}, {num_embeddings - 1}]", padding_idx
            )
        self._num_embeddings, self._embedding_dim, self._padding_idx = num_embeddings, embedding_dim, padding_idx
        self._max_norm, self._norm_type, self._weight_attr = max_norm, norm_type, weight_attr
        self._scale_grad_by_freq, self._sparse, self._name = scale_grad_by_freq, sparse, name
        self._size, self._device = [num_embeddings, embedding_dim], device
        self._is_distributed = self._remote_prefetch = False
        if _weight is None:
            self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr, dtype, device=device)
            if _freeze and self.weight is not None:
                self.weight.stop_gradient = True
        else:
            if _weight.shape != [num_embeddings, embedding_dim]:
                expected = f"shape {[num_embeddings, embedding_dim]}"
                raise errors.bad(
                    "Embedding(_weight)", expected, described=f"shape {_weight.shape}", kind=errors.ShapeError
                )
            self.weight = _weight if isinstance(_weight, Parameter) else Parameter(_weight)
            self.weight.stop_gradient = _freeze
        if sparse and self.weight is not None:
            self.weight._read_by_rows = True  # optimizers with a lazy mode ask for it
        if padding_idx is not None and _weight is None and self.weight is not None:
            padding = np.arange(num_embeddings) == padding_idx % num_embeddings
            self.weight._assign_value(where(to_tensor(padding[:, None]), 0.0, self.weight.detach()))

    @property
    def padding_idx(self) -> int | None:
        """Index of the row for padding, or None."""
        return self._padding_idx

    @padding_idx.setter
    def padding_idx(self, row: int | None) -> None:
        self._padding_idx = row

    @renamed(x="input")
    def forward(self, x: Tensor) -> Tensor:
        """Look up the rows of the table.

        Args:
            x: Integer tensor of any shape with indices in ``[0, num_embeddings)``; ``input`` is another keyword for it.

        Returns:
            Tensor of the shape of ``x`` followed by ``embedding_dim``.
        """
        return embedding(
            x, self.weight, self._padding_idx, self._max_norm, self._norm_type, self._sparse, self._scale_grad_by_freq
        )

    def extra_repr(self) -> str:
        padding = "" if self._padding_idx is None else f", padding_idx={self._padding_idx}"
        name = f", name={self._name}" if self._name else ""
        table = f"{self._num_embeddings}, {self._embedding_dim}{padding}"
        return f"{table}, sparse={self._sparse}, scale_grad_by_freq={self._scale_grad_by_freq}{name}"


def must_be_probability(where: str, p: Any) -> None:
    if not isinstance(p, (int, float, np.number, Tensor)):
        raise errors.bad(where, "a probability in [0, 1]", p, kind=errors.ArgumentTypeError)
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise errors.bad(where, "a probability in [0, 1]", p)


class Dropout(Layer):
    """Sets elements to zero with probability ``p`` while training.

    In evaluation (``layer.eval()``) nothing is dropped; see ``mode`` for the scaling that keeps the expected value.

    Args:
        p: Probability of an element to be set to zero, in ``[0, 1]``. Default: 0.5.
        axis: Axes along which elements are dropped independently; along all other axes they are dropped together.
            Default: None, every element independently.
        mode: ``'upscale_in_train'`` divides what is kept by ``1 - p`` while training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` in evaluation instead. Default: ``'upscale_in_train'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: any shape
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.Dropout(1.0)(bireme.to_tensor([1.0, 2.0])).tolist()
        [0.0, 0.0]
        >>> bireme.nn.Dropout(0.5).eval()(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """

    def __init__(
        self,
        p: float = 0.5,
        axis: int | Sequence[int] | None = None,
        mode: str = "upscale_in_train",
        name: str | None = None,
    ):
        super().__init__()
        must_be_probability("Dropout(p)", p)
        if mode not in ("upscale_in_train", "downscale_in_infer"):
            raise errors.bad("Dropout(mode)", "'upscale_in_train' or 'downscale_in_infer'", mode)
        self.p, self.axis, self.mode, self.name = p, axis, mode, name

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout.

        Args:
            input: Tensor of any shape.

        Returns:
            Tensor of the shape of ``input``; in evaluation with ``'upscale_in_train'`` it is ``input`` itself.
        """
        return dropout(input, p=self.p, axis=self.axis, training=self.training, mode=self.mode)

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        return f"p={self.p}, axis={self.axis}, mode={self.mode}{name}"


class _ChannelDropout(Layer):
    def __init__(self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        must_be_probability(f"{type(self).__name__}(p)", p)
        self.p, self.data_format, self.name = p, data_format, name

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        return f"p={self.p}, data_format={self.data_format}{name}"


class Dropout2D(_ChannelDropout):
    """Sets whole channels of images to zero with probability ``p`` while training; the others are divided by ``1 - p``.

    Args:
        p: Probability of a channel to be set to zero, in ``[0, 1]``. Default: 0.5.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: ``[N, C, H, W]``, or ``[N, H, W, C]`` for ``'NHWC'``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.Dropout2D(1.0)(bireme.ones([1, 1, 1, 2])).tolist()
        [[[[0.0, 0.0]]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Drop channels of images.

        Args:
            input: Tensor with four axes, in ``data_format``.

        Returns:
            Tensor of the shape of ``input``.
        """
        return dropout2d(input, self.p, self.training, self.data_format)


class Dropout3D(_ChannelDropout):
    """Sets whole channels of volumes to zero with probability ``p`` while training; others are divided by ``1 - p``.

    Args:
        p: Probability of a channel to be set to zero, in ``[0, 1]``. Default: 0.5.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: ``[N, C, D, H, W]``, or ``[N, D, H, W, C]`` for ``'NDHWC'``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.Dropout3D(1.0)(bireme.ones([1, 1, 1, 1, 2])).tolist()
        [[[[[0.0, 0.0]]]]]
    """

    def __init__(self, p: float = 0.5, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(p, data_format, name)

    def forward(self, input: Tensor) -> Tensor:
        """Drop channels of volumes.

        Args:
            input: Tensor with five axes, in ``data_format``.

        Returns:
            Tensor of the shape of ``input``.
        """
        return dropout3d(input, self.p, self.training, self.data_format)


class AlphaDropout(Layer):
    """Dropout for self-normalizing networks: dropped elements take the limit of ``SELU`` at minus infinity.

    All elements are then scaled and shifted so that mean and variance stay as they are. In evaluation nothing changes.

    Args:
        p: Probability of an element to be dropped, in ``[0, 1]``; with 1 the result is zero. Default: 0.5.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: any shape
        - output: the shape of ``input``

    Examples:
        >>> layer = bireme.nn.AlphaDropout(0.5)
        >>> layer(bireme.to_tensor([1.0, 2.0, 3.0])).shape
        [3]
        >>> layer.eval()(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """

    def __init__(self, p: float = 0.5, name: str | None = None):
        super().__init__()
        must_be_probability(f"{type(self).__name__}(p)", p)
        self.p, self.name = p, name

    def forward(self, input: Tensor) -> Tensor:
        """Apply alpha dropout.

        Args:
            input: Floating tensor of any shape.

        Returns:
            Tensor of the shape of ``input``.
        """
        return alpha_dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}" + (f", name={self.name}" if self.name else "")


class FeatureAlphaDropout(AlphaDropout):
    """``AlphaDropout`` for whole channels, which are the second axis.

    Args:
        p: Probability of a channel to be dropped, in ``[0, 1]``; with 1 the result is zero. Default: 0.5.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: ``[N, C, ...]``
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.FeatureAlphaDropout(0.5).eval()(bireme.to_tensor([[1.0, 2.0]])).tolist()
        [[1.0, 2.0]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply alpha dropout to whole channels.

        Args:
            input: Floating tensor of shape ``[N, C, ...]``.

        Returns:
            Tensor of the shape of ``input``.
        """
        return feature_alpha_dropout(input, self.p, self.training)


class Bilinear(Layer):
    """Bilinear map of two inputs: ``output[n, k] = x1[n] @ weight[k] @ x2[n] + bias[k]``.

    The weight has shape ``[out_features, in1_features, in2_features]``, the bias ``[1, out_features]``.

    Args:
        in1_features: Size of the last axis of ``x1``.
        in2_features: Size of the last axis of ``x2``.
        out_features: Size of the last axis of the output.
        weight_attr: Attribute of the weight: a ``ParamAttr``, an initializer or a name. Default: None, Xavier uniform.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x1: ``[N, in1_features]``
        - x2: ``[N, in2_features]``
        - output: ``[N, out_features]``

    Examples:
        >>> layer = bireme.nn.Bilinear(1, 1, 1, weight_attr=bireme.nn.initializer.Constant(0.5))
        >>> layer(bireme.to_tensor([[2.0]]), bireme.to_tensor([[3.0]])).tolist()
        [[3.0]]
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        name: str | None = None,
    ):
        super().__init__()
        self._in1_features = in1_features
        self._in2_features = in2_features
        self._out_features = out_features
        self._name = name
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)
        self._dtype = self._dtype if self.weight is None else self.weight.dtype.name

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compute the bilinear map.

        Args:
            x1: Tensor of shape ``[N, in1_features]``.
            x2: Tensor of shape ``[N, in2_features]``.

        Returns:
            Tensor of shape ``[N, out_features]``.
        """
        return bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        name = f", name={self._name}" if self._name else ""
        sizes = (
            f"in1_features={self._in1_features}, in2_features={self._in2_features}, out_features={self._out_features}"
        )
        return f"{sizes}, dtype={self._dtype}{name}"


class Unflatten(Layer):
    """Splits one axis into several.

    Args:
        axis: The axis to split; negative values count from the end.
        shape: Sizes of the new axes; one of them may be -1 and follows from the others.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: any shape with an ``axis`` of the product of ``shape``
        - output: the same with ``shape`` in place of that axis

    Examples:
        >>> bireme.nn.Unflatten(1, [2, -1])(bireme.zeros([3, 4])).shape
        [3, 2, 2]
    """

    def __init__(self, axis: int, shape: Sequence[int] | Tensor, name: str | None = None):
        super().__init__()
        self.axis, self.shape, self.name = axis, shape, name

    def forward(self, input: Tensor) -> Tensor:
        """Split the axis.

        Args:
            input: Tensor whose size along ``axis`` is the product of ``shape``.

        Returns:
            Tensor with the axes ``shape`` in place of ``axis``; it shares storage with ``input``.
        """
        return unflatten(input, axis=self.axis, shape=self.shape)

    def extra_repr(self) -> str:
        return f"axis={self.axis}, shape={self.shape}" + (f", name={self.name}" if self.name else "")


class Flatten(Layer):
    """Joins a range of axes into one.

    Args:
        start_axis: First axis to join. Default: 1, the batch stays.
        stop_axis: Last axis to join, inclusive. Default: -1, the last one.

    Shape:
        - input: any shape
        - output: the same with one axis in place of those from ``start_axis`` to ``stop_axis``

    Examples:
        >>> bireme.nn.Flatten()(bireme.zeros([2, 3, 4])).shape
        [2, 12]
    """

    def __init__(self, start_axis: int = 1, stop_axis: int = -1):
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Tensor) -> Tensor:
        """Join the axes.

        Args:
            input: Tensor of any shape.

        Returns:
            Tensor with the axes joined; it shares storage with ``input``.
        """
        return flatten(input, start_axis=self.start_axis, stop_axis=self.stop_axis)


class Identity(Layer):
    """Returns its input; a placeholder for another layer.

    Args:
        *args: Ignored, so that the arguments of the other layer may stay.
        **kwargs: Ignored.

    Shape:
        - input: any shape
        - output: the shape of ``input``

    Examples:
        >>> bireme.nn.Identity(54, unused=True)(bireme.to_tensor([1.0])).tolist()
        [1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input.

        Args:
            input: Anything.

        Returns:
            ``input`` itself.
        """
        return input
