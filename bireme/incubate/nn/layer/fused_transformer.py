"""Parts of transformers as one layer each: attention, feed-forward network, both, and what joins them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.incubate.nn.layer.fused_multi_transformer import FusedMultiTransformer
from bireme.nn import initializer
from bireme.nn.arguments import Attr
from bireme.nn.layer import Layer
from bireme.ops import (
    fused_bias_dropout_residual_layer_norm,
    fused_feedforward,
    fused_multi_head_attention,
)  # fmt: skip

__all__ = [
    "FusedBiasDropoutResidualLayerNorm",
    "FusedFeedForward",
    "FusedMultiHeadAttention",
    "FusedMultiTransformer",
    "FusedTransformerEncoderLayer",
]


def _positive(where: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if size <= 0:
            raise errors.bad(f"{where}({name})", "a positive integer", size, kind=AssertionError)


def _one_process(where: str, nranks: int, ring_id: int) -> None:
    if nranks != 1 or ring_id != -1:
        raise errors.bad(
            f"{where}(nranks, ring_id)",
            "1 and -1, since the weights are not sharded",
            described=f"{nranks} and {ring_id}",
        )


def _ones(layer: Layer, size: int, attr: Any) -> Any:
    return layer.create_parameter([size], attr, default_initializer=initializer.Constant(1.0))


class FusedBiasDropoutResidualLayerNorm(Layer):
    """Bias, dropout, residual and layer normalization in one layer: ``layer_norm(residual + dropout(x + bias))``.

    Args:
        embed_dim: Size of the last axis.
        dropout_rate: Probability of dropout, in training. Default: 0.5.
        weight_attr: Attribute of the scale of the normalization. Default: None, ones.
        bias_attr: Attribute of the bias and of the shift of the normalization; ``False`` leaves both out. Default:
            None, zeros.
        epsilon: Number added to the variance. Default: 1e-5.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[..., embed_dim]``
        - residual: the shape of ``x``
        - output: the shape of ``x``

    Examples:
        >>> layer = bireme.incubate.nn.FusedBiasDropoutResidualLayerNorm(2, 0.0, epsilon=0.0)
        >>> layer(bireme.to_tensor([[1.0, 3.0]]), bireme.zeros([1, 2])).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        embed_dim: int,
        dropout_rate: float = 0.5,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        epsilon: float = 1e-05,
        name: str | None = None,
    ):
        super().__init__()
        _positive("FusedBiasDropoutResidualLayerNorm", embed_dim=embed_dim)
        self.embed_dim, self.dropout_rate, self._epsilon, self.name = embed_dim, dropout_rate, epsilon, name
        self.linear_bias = self.create_parameter([embed_dim], bias_attr, is_bias=True)
        self.ln_scale = _ones(self, embed_dim, weight_attr)
        self.ln_bias = self.create_parameter([embed_dim], bias_attr, is_bias=True)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """Compute ``layer_norm(residual + dropout(x + bias))``.

        Args:
            x: Tensor of shape ``[..., embed_dim]``.
            residual: Tensor of the same shape.

        Returns:
            Tensor of the shape of ``x``.
        """
        return fused_bias_dropout_residual_layer_norm(
            x, residual, self.linear_bias, self.ln_scale, self.ln_bias, self.dropout_rate, self._epsilon, self.training
        )

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses.

        Examples:
            >>> bireme.incubate.nn.FusedBiasDropoutResidualLayerNorm(2).extra_repr()
            'embed_dim=2, dropout_rate=0.5, epsilon=1e-05, dtype=float32'
        """
        name = f", name={self.name}" if self.name else ""
        return f"embed_dim={self.embed_dim}, dropout_rate={self.dropout_rate}, epsilon={self._epsilon}, dtype={self._dtype}{name}"


class FusedMultiHeadAttention(Layer):
    """Self-attention with projections, dropout, residual and layer normalization in one layer.

    Args:
        embed_dim: Size of the last axis of input and output.
        num_heads: Number of heads; it must divide ``embed_dim``.
        dropout_rate: Probability of dropout after the output projection, in training. Default: 0.5.
        attn_dropout_rate: Probability of dropout of the attention weights. Default: 0.5.
        kdim: Kept as an attribute; keys have the size ``embed_dim``. Default: None.
        vdim: Kept as an attribute; values have the size ``embed_dim``. Default: None.
        normalize_before: Normalize the input instead of the sum after attention. Default: False.
        need_weights: Must be False: attention weights are not returned. Default: False.
        qkv_weight_attr: Attribute of the weight of queries, keys and values. Default: None, Xavier uniform.
        qkv_bias_attr: Attribute of their bias; ``False`` leaves it out. Default: None, zeros.
        linear_weight_attr: Attribute of the weight of the output projection. Default: None, Xavier uniform.
        linear_bias_attr: Attribute of its bias; ``False`` leaves it out. Default: None, zeros.
        pre_ln_scale_attr: Attribute of the scale of the normalization with ``normalize_before``. Default: None, ones.
        pre_ln_bias_attr: Attribute of its shift. Default: None, zeros.
        ln_scale_attr: Attribute of the scale of the normalization without ``normalize_before``. Default: None, ones.
        ln_bias_attr: Attribute of its shift. Default: None, zeros.
        epsilon: Number added to the variance in normalization. Default: 1e-5.
        nranks: Must be 1: weights are not split over processes. Default: 1.
        ring_id: Must be -1: there is no communication between processes. Default: -1.
        transpose_qkv_wb: Store the weight of queries, keys and values as ``[embed_dim, 3 * embed_dim]`` instead of
            ``[3, num_heads, head_dim, embed_dim]``. Default: False.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - query: ``[N, L, embed_dim]``
        - output: ``[N, L, embed_dim]``

    Examples:
        >>> layer = bireme.incubate.nn.FusedMultiHeadAttention(4, 2).eval()
        >>> layer(bireme.ones([1, 3, 4])).shape
        [1, 3, 4]
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout_rate: float = 0.5,
        attn_dropout_rate: float = 0.5,
        kdim: int | None = None,
        vdim: int | None = None,
        normalize_before: bool = False,
        need_weights: bool = False,
        qkv_weight_attr: Attr = None,
        qkv_bias_attr: Attr = None,
        linear_weight_attr: Attr = None,
        linear_bias_attr: Attr = None,
        pre_ln_scale_attr: Attr = None,
        pre_ln_bias_attr: Attr = None,
        ln_scale_attr: Attr = None,
        ln_bias_attr: Attr = None,
        epsilon: float = 1e-05,
        nranks: int = 1,
        ring_id: int = -1,
        transpose_qkv_wb: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        where = "FusedMultiHeadAttention"
        _positive(where, embed_dim=embed_dim, num_heads=num_heads)
        _one_process(where, nranks, ring_id)
        if embed_dim % num_heads:
            raise errors.bad(
                f"{where}(embed_dim)", f"a multiple of num_heads, which is {num_heads}", embed_dim, kind=AssertionError
            )
        if need_weights:
            raise errors.bad(
                f"{where}(need_weights)",
                "False, since attention weights are not returned",
                need_weights,
                kind=AssertionError,
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim, self.need_weights, self.name = kdim, vdim, need_weights, name
        self.dropout_rate, self.attn_dropout_rate, self._epsilon = dropout_rate, attn_dropout_rate, epsilon
        self.normalize_before, self.transpose_qkv_wb = normalize_before, transpose_qkv_wb
        whole = [embed_dim, 3 * embed_dim], [3 * embed_dim]
        parts = [3, num_heads, self.head_dim, embed_dim], [3, num_heads, self.head_dim]
        weight, bias = whole if transpose_qkv_wb else parts
        self.qkv_weight = self.create_parameter(weight, qkv_weight_attr)
        self.qkv_bias = self.create_parameter(bias, qkv_bias_attr, is_bias=True)
        self.linear_weight = self.create_parameter([embed_dim, embed_dim], linear_weight_attr)
        self.linear_bias = self.create_parameter([embed_dim], linear_bias_attr, is_bias=True)
        self.pre_ln_scale = self.pre_ln_bias = self.ln_scale = self.ln_bias = None
        if normalize_before:
            self.pre_ln_scale = _ones(self, embed_dim, pre_ln_scale_attr)
            self.pre_ln_bias = self.create_parameter([embed_dim], pre_ln_bias_attr, is_bias=True)
        else:
            self.ln_scale = _ones(self, embed_dim, ln_scale_attr)
            self.ln_bias = self.create_parameter([embed_dim], ln_bias_attr, is_bias=True)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute self-attention.

        Args:
            query: Tensor of shape ``[N, L, embed_dim]``.
            key: None or ``query``: a sequence attends to itself. Default: None.
            value: None or ``query``. Default: None.
            attn_mask: Tensor that broadcasts to ``[N, num_heads, L, S]``. Bool keeps where it is true, integers where
                they are not 0, floats are added to the scores. Default: None, no mask.
            cache: Keys and values of the time steps before, ``[2, N, num_heads, steps, head_dim]``. Default: None.

        Returns:
            Tensor of shape ``[N, L, embed_dim]``; with a cache a tuple of it and the cache for the next call.
        """
        for name, t in (("key", key), ("value", value)):
            if t is not None and t is not query:
                raise errors.bad(
                    f"FusedMultiHeadAttention({name})",
                    "None, since a sequence attends to itself",
                    t,
                    kind=AssertionError,
                )
        return fused_multi_head_attention(
            query,
            self.qkv_weight,
            self.linear_weight,
            self.normalize_before,
            self.pre_ln_scale,
            self.pre_ln_bias,
            self.ln_scale,
            self.ln_bias,
            self._epsilon,
            self.qkv_bias,
            self.linear_bias,
            cache,
            attn_mask,
            self.dropout_rate,
            self.attn_dropout_rate,
            self._epsilon,
            self.training,
            num_heads=self.num_heads,
            transpose_qkv_wb=self.transpose_qkv_wb,
        )

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses.

        Examples:
            >>> bireme.incubate.nn.FusedMultiHeadAttention(4, 2).extra_repr()[:24]
            'embed_dim=4, num_heads=2'
        """
        shown = ("embed_dim", "num_heads", "dropout_rate", "attn_dropout_rate")
        rest = f"epsilon={self._epsilon}, kdim={self.kdim}, vdim={self.vdim}, normalize_before={self.normalize_before}"
        name = f", name={self.name}" if self.name else ""
        return ", ".join(
            [f"{n}={getattr(self, n)}" for n in shown]
            + [rest, f"need_weights={self.need_weights}, dtype={self._dtype}{name}"]
        )


class FusedFeedForward(Layer):
    """Feed-forward network with dropout, residual and layer normalization in one layer.

    Args:
        d_model: Size of the last axis of input and output.
        dim_feedforward: Size of the hidden layer.
        dropout_rate: Probability of dropout after the second linear map, in training. Default: 0.1.
        epsilon: Number added to the variance in normalization. Default: 1e-5.
        activation: ``'gelu'``, ``'relu'``, ``'silu'``, ``'swish'``, ``'sigmoid'``, ``'tanh'`` or ``'none'``. Default:
            ``'relu'``.
        act_dropout_rate: Probability of dropout after the activation. Default: None, ``dropout_rate``.
        normalize_before: Normalize the input instead of the sum at the end. Default: False.
        linear1_weight_attr: Attribute of the first weight. Default: None, Xavier uniform.
        linear1_bias_attr: Attribute of the first bias; ``False`` leaves it out. Default: None, zeros.
        linear2_weight_attr: Attribute of the second weight. Default: None, Xavier uniform.
        linear2_bias_attr: Attribute of the second bias; ``False`` leaves it out. Default: None, zeros.
        ln1_scale_attr: Attribute of the scale of the normalization with ``normalize_before``. Default: None, ones.
        ln1_bias_attr: Attribute of its shift. Default: None, zeros.
        ln2_scale_attr: Attribute of the scale of the normalization without ``normalize_before``. Default: None, ones.
        ln2_bias_attr: Attribute of its shift. Default: None, zeros.
        nranks: Must be 1: weights are not split over processes. Default: 1.
        ring_id: Must be -1: there is no communication between processes. Default: -1.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - src: ``[N, L, d_model]``
        - output: ``[N, L, d_model]``

    Examples:
        >>> layer = bireme.incubate.nn.FusedFeedForward(4, 8).eval()
        >>> layer(bireme.ones([1, 3, 4])).shape
        [1, 3, 4]
    """

    def __init__(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout_rate: float = 0.1,
        epsilon: float = 1e-05,
        activation: str = "relu",
        act_dropout_rate: float | None = None,
        normalize_before: bool = False,
        linear1_weight_attr: Attr = None,
        linear1_bias_attr: Attr = None,
        linear2_weight_attr: Attr = None,
        linear2_bias_attr: Attr = None,
        ln1_scale_attr: Attr = None,
        ln1_bias_attr: Attr = None,
        ln2_scale_attr: Attr = None,
        ln2_bias_attr: Attr = None,
        nranks: int = 1,
        ring_id: int = -1,
        name: str | None = None,
    ):
        super().__init__()
        _positive("FusedFeedForward", d_model=d_model, dim_feedforward=dim_feedforward)
        _one_process("FusedFeedForward", nranks, ring_id)
        self._d_model, self._dim_feedforward, self._epsilon = d_model, dim_feedforward, epsilon
        self._dropout_rate = dropout_rate
        self._act_method = activation
        self._normalize_before = normalize_before
        self.name = name
        self._act_dropout_rate = dropout_rate if act_dropout_rate is None else act_dropout_rate
        self._linear1_weight = self.create_parameter([d_model, dim_feedforward], linear1_weight_attr)
        self._linear1_bias = self.create_parameter([dim_feedforward], linear1_bias_attr, is_bias=True)
        self._linear2_weight = self.create_parameter([dim_feedforward, d_model], linear2_weight_attr)
        self._linear2_bias = self.create_parameter([d_model], linear2_bias_attr, is_bias=True)
        self._ln1_scale = self._ln1_bias = self._ln2_scale = self._ln2_bias = None
        if normalize_before:
            self._ln1_scale = _ones(self, d_model, ln1_scale_attr)
            self._ln1_bias = self.create_parameter([d_model], ln1_bias_attr, is_bias=True)
        else:
            self._ln2_scale = _ones(self, d_model, ln2_scale_attr)
            self._ln2_bias = self.create_parameter([d_model], ln2_bias_attr, is_bias=True)

    def forward(self, src: Tensor, cache: Any = None) -> Tensor:
        """Apply the network.

        Args:
            src: Tensor of shape ``[N, L, d_model]``.
            cache: Accepted for compatibility and not used. Default: None.

        Returns:
            Tensor of shape ``[N, L, d_model]``.
        """
        return fused_feedforward(
            src,
            self._linear1_weight,
            self._linear2_weight,
            self._linear1_bias,
            self._linear2_bias,
            self._ln1_scale,
            self._ln1_bias,
            self._ln2_scale,
            self._ln2_bias,
            self._act_dropout_rate,
            self._dropout_rate,
            self._act_method,
            self._epsilon,
            self._epsilon,
            self._normalize_before,
            self.training,
        )

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses.

        Examples:
            >>> bireme.incubate.nn.FusedFeedForward(4, 8).extra_repr()[:28]
            'd_model=4, dim_feedforward=8'
        """
        name = f", name={self.name}" if self.name else ""
        return (
            f"d_model={self._d_model}, dim_feedforward={self._dim_feedforward}, dropout_rate={self._dropout_rate}, epsilon={self._epsilon}, "
            f"activation={self._act_method}, act_dropout_rate={self._act_dropout_rate}, normalize_before={self._normalize_before}, "
            f"dtype={self._dtype}{name}"
        )


class FusedTransformerEncoderLayer(Layer):
    """Transformer encoder layer: ``FusedMultiHeadAttention`` followed by ``FusedFeedForward``.

    Args:
        d_model: Size of the last axis of input and output.
        nhead: Number of heads; it must divide ``d_model``.
        dim_feedforward: Size of the hidden layer of the feed-forward network.
        dropout_rate: Probability of dropout after each part, in training. Default: 0.1.
        activation: ``'gelu'``, ``'relu'``, ``'silu'``, ``'swish'``, ``'sigmoid'``, ``'tanh'`` or ``'none'``. Default:
            ``'relu'``.
        attn_dropout_rate: Probability of dropout of the attention weights. Default: None, ``dropout_rate``.
        act_dropout_rate: Probability of dropout after the activation. Default: None, ``dropout_rate``.
        normalize_before: Normalize the input of each part instead of the sum after it. Default: False.
        weight_attr: Attribute of the weights; a list of two has one for attention, its normalization included, and one
            for the feed-forward network. Default: None, Xavier uniform.
        bias_attr: Attribute of the biases, likewise. Default: None, zeros.

    Shape:
        - src: ``[N, L, d_model]``
        - output: ``[N, L, d_model]``

    Examples:
        >>> layer = bireme.incubate.nn.FusedTransformerEncoderLayer(4, 2, 8).eval()
        >>> layer(bireme.ones([1, 3, 4])).shape
        [1, 3, 4]
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout_rate: float = 0.1,
        activation: str = "relu",
        attn_dropout_rate: float | None = None,
        act_dropout_rate: float | None = None,
        normalize_before: bool = False,
        weight_attr: Attr | Sequence[Attr] = None,
        bias_attr: Attr | Sequence[Attr] = None,
    ):
        super().__init__()
        where = "FusedTransformerEncoderLayer"
        _positive(where, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        weights, biases = [
            self._pair(f"{where}({n})", attr) for n, attr in (("weight_attr", weight_attr), ("bias_attr", bias_attr))
        ]
        self.normalize_before = normalize_before
        self.fused_attn = FusedMultiHeadAttention(
            d_model,
            nhead,
            dropout_rate,
            dropout_rate if attn_dropout_rate is None else attn_dropout_rate,
            normalize_before=normalize_before,
            qkv_weight_attr=weights[0],
            qkv_bias_attr=biases[0],
            linear_weight_attr=weights[0],
            linear_bias_attr=biases[0],
            pre_ln_scale_attr=weights[0],
            pre_ln_bias_attr=biases[0],
            ln_scale_attr=weights[0],
            ln_bias_attr=biases[0],
        )
        self.ffn = FusedFeedForward(
            d_model,
            dim_feedforward,
            dropout_rate,
            activation=activation,
            act_dropout_rate=act_dropout_rate,
            normalize_before=normalize_before,
            linear1_weight_attr=weights[1],
            linear1_bias_attr=biases[1],
            linear2_weight_attr=weights[1],
            linear2_bias_attr=biases[1],
        )

    @staticmethod
    def _pair(where: str, attr: Any) -> list[Any]:
        """An attribute for attention and one for the feed-forward network."""
        if not isinstance(attr, (list, tuple)):
            return [attr, attr]
        if len(attr) != 2:
            raise errors.bad(where, "one attribute, or a list of 2", described=f"{len(attr)} of them")
        return list(attr)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, cache: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Encode a sequence.

        Args:
            src: Tensor of shape ``[N, L, d_model]``.
            src_mask: Tensor that broadcasts to ``[N, nhead, L, S]``. Bool keeps where it is true, integers where they
                are not 0, floats are added to the scores. Default: None, no mask.
            cache: Keys and values of the time steps before, ``[2, N, nhead, steps, head_dim]``. Default: None.

        Returns:
            Tensor of shape ``[N, L, d_model]``; with a cache a tuple of it and the cache for the next call.
        """
        if cache is None:
            return self.ffn(self.fused_attn(src, attn_mask=src_mask))
        out, cache = self.fused_attn(src, attn_mask=src_mask, cache=cache)
        return self.ffn(out), cache
