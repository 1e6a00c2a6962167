"""Layers that most networks have: linear and bilinear maps, embedding, dropouts, flattening and its inverse, nothing at all."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.keywords import renamed
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
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
    """`x @ weight + bias` with a weight of shape [in_features, out_features].

    >>> layer = bireme.nn.Linear(2, 1, weight_attr=bireme.nn.initializer.Constant(0.5))
    >>> layer(bireme.to_tensor([[2.0, 4.0]])).tolist()
    [[3.0]]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        if weight_attr is False:
            raise errors.bad("Linear(weight_attr)", "an attribute of the weight, or None", False, kind=errors.NotTensor)
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.name = name
        self._dtype = self.weight.dtype.name

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        # the sizes are no attributes, as in Paddle: programs give the class properties of these names
        return f"in_features={self.weight.shape[0]}, out_features={self.weight.shape[1]}, dtype={self._dtype}{name}"


class Embedding(Layer):
    """Rows of a table of shape [num_embeddings, embedding_dim], looked up by integers.

    The row `padding_idx` starts at zero and gets no gradient.

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
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        for what, n in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if not isinstance(n, (int, np.integer)):
                raise errors.bad(f"Embedding({what})", "an integer above 0", n, kind=TypeError)
            if n <= 0:
                raise errors.bad(f"Embedding({what})", "an integer above 0", n)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise errors.bad("Embedding(padding_idx)", f"a row in [{-num_embeddings}, {num_embeddings - 1}]", padding_idx)
        self._num_embeddings, self._embedding_dim, self._padding_idx = num_embeddings, embedding_dim, padding_idx
        self._max_norm, self._norm_type, self._weight_attr = max_norm, norm_type, weight_attr
        self._scale_grad_by_freq, self._sparse, self._name = scale_grad_by_freq, sparse, name
        if _weight is None:
            self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr, dtype, device=device)
            if _freeze and self.weight is not None:
                self.weight.stop_gradient = True
        else:
            if _weight.shape != [num_embeddings, embedding_dim]:
                expected = f"shape {[num_embeddings, embedding_dim]}"
                raise errors.bad("Embedding(_weight)", expected, f"shape {_weight.shape}")
            self.weight = _weight if isinstance(_weight, Parameter) else Parameter(_weight)
            self.weight.stop_gradient = _freeze
        if sparse and self.weight is not None:
            self.weight._read_by_rows = True  # optimizers with a lazy mode ask for it
        if padding_idx is not None and _weight is None and self.weight is not None:
            padding = np.arange(num_embeddings) == padding_idx % num_embeddings
            self.weight._assign_value(where(to_tensor(padding[:, None]), 0.0, self.weight.detach()))

    @property
    def padding_idx(self) -> int | None:
        """The row that stands for nothing."""
        return self._padding_idx

    @padding_idx.setter
    def padding_idx(self, row: int | None) -> None:
        self._padding_idx = row

    @renamed(x="input")
    def forward(self, x: Tensor) -> Tensor:
        return embedding(x, self.weight, self._padding_idx, self._max_norm, self._norm_type, self._sparse, self._scale_grad_by_freq)

    def extra_repr(self) -> str:
        padding = "" if self._padding_idx is None else f", padding_idx={self._padding_idx}"
        name = f", name={self._name}" if self._name else ""
        table = f"{self._num_embeddings}, {self._embedding_dim}{padding}"
        return f"{table}, sparse={self._sparse}, scale_grad_by_freq={self._scale_grad_by_freq}{name}"


def must_be_probability(where: str, p: Any) -> None:
    if not isinstance(p, (int, float, np.number, Tensor)):
        raise errors.bad(where, "a probability in [0, 1]", p, kind=TypeError)
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise errors.bad(where, "a probability in [0, 1]", p)


class Dropout(Layer):
    """Sets elements to zero with probability `p` while training, and scales the others so that the mean stays.

    >>> bireme.nn.Dropout(1.0)(bireme.to_tensor([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """

    def __init__(self, p: float = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None):
        super().__init__()
        must_be_probability("Dropout(p)", p)
        if mode not in ("upscale_in_train", "downscale_in_infer"):
            raise errors.bad("Dropout(mode)", "'upscale_in_train' or 'downscale_in_infer'", mode)
        self.p, self.axis, self.mode, self.name = p, axis, mode, name

    def forward(self, input: Tensor) -> Tensor:
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
    """Sets whole channels of images to zero with probability `p` while training, and scales the others so that the mean stays.

    >>> bireme.nn.Dropout2D(1.0)(bireme.ones([1, 1, 1, 2])).tolist()
    [[[[0.0, 0.0]]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        return dropout2d(input, self.p, self.training, self.data_format)


class Dropout3D(_ChannelDropout):
    """Sets whole channels of volumes to zero with probability `p` while training, and scales the others so that the mean stays.

    >>> bireme.nn.Dropout3D(1.0)(bireme.ones([1, 1, 1, 1, 2])).tolist()
    [[[[[0.0, 0.0]]]]]
    """

    def __init__(self, p: float = 0.5, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(p, data_format, name)

    def forward(self, input: Tensor) -> Tensor:
        return dropout3d(input, self.p, self.training, self.data_format)


class AlphaDropout(Layer):
    """Sets elements to the least value of SELU with probability `p` while training, and scales all so that mean and variance stay.

    >>> bireme.nn.AlphaDropout(0.0)(bireme.to_tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, p: float = 0.5, name: str | None = None):
        super().__init__()
        must_be_probability(f"{type(self).__name__}(p)", p)
        self.p, self.name = p, name

    def forward(self, input: Tensor) -> Tensor:
        return alpha_dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}" + (f", name={self.name}" if self.name else "")


class FeatureAlphaDropout(AlphaDropout):
    """The same as `AlphaDropout` for whole channels, which are the second axis.

    >>> bireme.nn.FeatureAlphaDropout(0.0)(bireme.to_tensor([[1.0, 2.0]])).tolist()
    [[1.0, 2.0]]
    """

    def forward(self, input: Tensor) -> Tensor:
        return feature_alpha_dropout(input, self.p, self.training)


class Bilinear(Layer):
    """`x1 @ weight[k] @ x2 + bias` for each sample and each of the `out_features`.

    >>> layer = bireme.nn.Bilinear(1, 1, 1, weight_attr=bireme.nn.initializer.Constant(0.5))
    >>> layer(bireme.to_tensor([[2.0]]), bireme.to_tensor([[3.0]])).tolist()
    [[3.0]]
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        self._in1_features, self._in2_features, self._out_features, self._name = in1_features, in2_features, out_features, name
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)
        self._dtype = self._dtype if self.weight is None else self.weight.dtype.name

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        name = f", name={self._name}" if self._name else ""
        sizes = f"in1_features={self._in1_features}, in2_features={self._in2_features}, out_features={self._out_features}"
        return f"{sizes}, dtype={self._dtype}{name}"


class Unflatten(Layer):
    """Makes several axes of one; one extent of `shape` may be -1.

    >>> bireme.nn.Unflatten(1, [2, -1])(bireme.zeros([3, 4])).shape
    [3, 2, 2]
    """

    def __init__(self, axis: int, shape: Any, name: str | None = None):
        super().__init__()
        self.axis, self.shape, self.name = axis, shape, name

    def forward(self, input: Tensor) -> Tensor:
        return unflatten(input, axis=self.axis, shape=self.shape)

    def extra_repr(self) -> str:
        return f"axis={self.axis}, shape={self.shape}" + (f", name={self.name}" if self.name else "")


class Flatten(Layer):
    """Joins the axes from `start_axis` to `stop_axis` into one; the first axis stays by default.

    >>> bireme.nn.Flatten()(bireme.zeros([2, 3, 4])).shape
    [2, 12]
    """

    def __init__(self, start_axis: int = 1, stop_axis: int = -1):
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, start_axis=self.start_axis, stop_axis=self.stop_axis)


class Identity(Layer):
    """Returns its input; takes any arguments, so that it can stand in for another layer.

    >>> bireme.nn.Identity()(bireme.to_tensor([1.0])).tolist()
    [1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input
