"""A whole transformer as one layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import initializer
from bireme.nn.arguments import Attr
from bireme.nn.layer import Layer
from bireme.ops import fused_multi_transformer


class FusedMultiTransformer(Layer):
    """Stack of transformer layers in one layer, with caches for generation step by step.

    Each layer has self-attention and a feed-forward network. Biases exist only where their attributes are given. The
    state dict holds the parameters under their own names, as in Paddle. Each ``*_attrs`` argument is one attribute for
    all layers or a list with one for each.

    Args:
        embed_dim: Size of the last axis of input and output.
        num_heads: Number of heads; it must divide ``embed_dim``.
        dim_feedforward: Size of the hidden layer of the feed-forward networks.
        dropout_rate: Probability of dropout, in training. Default: 0.0.
        activation: ``'gelu'``, ``'relu'``, ``'silu'``, ``'swish'``, ``'sigmoid'``, ``'tanh'`` or ``'none'``, or the
            gated ``'geglu'`` and ``'swiglu'``, for which the first weight has twice as many columns. Default:
            ``'gelu'``.
        normalize_before: Normalize the input of each part instead of the sum after it. Default: True.
        ln_scale_attrs: Attributes of the scales of the normalization of attention. Default: None, ones.
        ln_bias_attrs: Attributes of its shifts. Default: None, there are none.
        qkv_weight_attrs: Attributes of the weights of queries, keys and values; a list determines the number of layers.
            Default: None, Xavier uniform.
        qkv_bias_attrs: Attributes of their biases. Default: None, there are none.
        linear_weight_attrs: Attributes of the weights of the output projection. Default: None, Xavier uniform.
        linear_bias_attrs: Attributes of its biases. Default: None, there are none.
        ffn_ln_scale_attrs: Attributes of the scales of the normalization of the feed-forward network. Default: None,
            ones.
        ffn_ln_bias_attrs: Attributes of its shifts. Default: None, there are none.
        ffn1_weight_attrs: Attributes of the first weights of the feed-forward network. Default: None, Xavier uniform.
        ffn1_bias_attrs: Attributes of the first biases. Default: None, there are none.
        ffn2_weight_attrs: Attributes of the second weights. Default: None, Xavier uniform.
        ffn2_bias_attrs: Attributes of the second biases. Default: None, there are none.
        epsilon: Number added to the variance in normalization. Default: 1e-5.
        residual_alpha: Factor of the residual. Default: 1.0.
        num_layers: Number of layers, unless ``qkv_weight_attrs`` is a list. Default: -1.
        nranks: Must be 1: weights are not split over processes. Default: 1.
        trans_qkvw: Store the weight of queries, keys and values as ``[3, num_heads, head_dim, embed_dim]``; ``False``
            as ``[embed_dim, 3, num_heads, head_dim]``. Default: True.
        ring_id: Must be -1: there is no communication between processes. Default: -1.
        norm_type: ``'layernorm'`` or ``'rmsnorm'``. Default: ``'layernorm'``.
        use_neox_rotary_style: Rotary embedding rotates pairs of elements of both halves, instead of adjacent ones.
            Default: False.
        gqa_group_size: Number of heads of keys and values, fewer than ``num_heads`` for grouped-query attention.
            Default: -1, as many.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - src: ``[N, L, embed_dim]``
        - output: ``[N, L, embed_dim]``

    Examples:
        >>> layer = bireme.incubate.nn.FusedMultiTransformer(4, 2, 8, num_layers=2)
        >>> layer(bireme.ones([1, 3, 4])).shape
        [1, 3, 4]
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dim_feedforward: int,
        dropout_rate: float = 0.0,
        activation: str = "gelu",
        normalize_before: bool = True,
        ln_scale_attrs: Attr | Sequence[Attr] = None,
        ln_bias_attrs: Attr | Sequence[Attr] = None,
        qkv_weight_attrs: Attr | Sequence[Attr] = None,
        qkv_bias_attrs: Attr | Sequence[Attr] = None,
        linear_weight_attrs: Attr | Sequence[Attr] = None,
        linear_bias_attrs: Attr | Sequence[Attr] = None,
        ffn_ln_scale_attrs: Attr | Sequence[Attr] = None,
        ffn_ln_bias_attrs: Attr | Sequence[Attr] = None,
        ffn1_weight_attrs: Attr | Sequence[Attr] = None,
        ffn1_bias_attrs: Attr | Sequence[Attr] = None,
        ffn2_weight_attrs: Attr | Sequence[Attr] = None,
        ffn2_bias_attrs: Attr | Sequence[Attr] = None,
        epsilon: float = 1e-05,
        residual_alpha: float = 1.0,
        num_layers: int = -1,
        nranks: int = 1,
        trans_qkvw: bool = True,
        ring_id: int = -1,
        norm_type: str = "layernorm",
        use_neox_rotary_style: bool = False,
        gqa_group_size: int = -1,
        name: str | None = None,
    ):
        super().__init__()
        where = "FusedMultiTransformer"
        for which, size in (("embed_dim", embed_dim), ("num_heads", num_heads), ("dim_feedforward", dim_feedforward)):
            if size <= 0:
                raise errors.bad(f"{where}({which})", "a positive integer", size, kind=AssertionError)
        if embed_dim % num_heads:
            raise errors.bad(
                f"{where}(embed_dim)", f"a multiple of num_heads, which is {num_heads}", embed_dim, kind=AssertionError
            )
        if nranks != 1 or ring_id != -1:
            raise errors.bad(
                f"{where}(nranks, ring_id)",
                "1 and -1, since the weights are not sharded",
                described=f"{nranks} and {ring_id}",
            )
        count = len(qkv_weight_attrs) if isinstance(qkv_weight_attrs, (list, tuple)) else num_layers
        if count <= 0:
            raise errors.bad(
                f"{where}(num_layers)",
                "a positive integer, or a list as qkv_weight_attrs",
                num_layers,
                kind=AssertionError,
            )
        head = embed_dim // num_heads
        shared = [num_heads + 2 * gqa_group_size] if gqa_group_size > 0 else [3, num_heads]
        wide = dim_feedforward * (2 if activation.endswith("glu") else 1)
        one = initializer.Constant(1.0)
        self.embed_dim, self.num_heads, self.head_dim, self.name = embed_dim, num_heads, head, name
        self.dropout_rate, self.activation, self.normalize_before = dropout_rate, activation, normalize_before
        self._epsilon = epsilon
        self._residual_alpha = residual_alpha
        self._trans_qkvw = trans_qkvw
        self._norm_type = norm_type
        self._use_neox_rotary_style, self._gqa_group_size = use_neox_rotary_style, gqa_group_size
        kinds = (
            ("ln_scales", [embed_dim], ln_scale_attrs, one),
            ("ln_biases", [embed_dim], ln_bias_attrs, None),
            (
                "qkv_weights",
                [*shared, head, embed_dim] if trans_qkvw else [embed_dim, *shared, head],
                qkv_weight_attrs,
                None,
            ),
            ("qkv_biases", [*shared, head], qkv_bias_attrs, None),
            ("linear_weights", [num_heads * head, embed_dim], linear_weight_attrs, None),
            ("linear_biases", [embed_dim], linear_bias_attrs, None),
            ("ffn_ln_scales", [embed_dim], ffn_ln_scale_attrs, one),
            ("ffn_ln_biases", [embed_dim], ffn_ln_bias_attrs, None),
            ("ffn1_weights", [embed_dim, wide], ffn1_weight_attrs, None),
            ("ffn1_biases", [wide], ffn1_bias_attrs, None),
            ("ffn2_weights", [dim_feedforward, embed_dim], ffn2_weight_attrs, None),
            ("ffn2_biases", [embed_dim], ffn2_bias_attrs, None),
        )
        made: dict[str, list[Any]] = {kind[0]: [] for kind in kinds}
        for i in range(count):
            for which, shape, attrs, first in kinds:
                made[which].append(
                    self._part(f"{where}({which})", shape, attrs, i, count, which.endswith("biases"), first)
                )
        for which, parts in made.items():
            setattr(self, which, parts if any(p is not None for p in parts) else None)

    def _part(self, where: str, shape: list[int], attrs: Any, i: int, count: int, is_bias: bool, first: Any) -> Any:
        """Create the parameter of one layer, registered under its own name."""
        if isinstance(attrs, (list, tuple)) and len(attrs) != count:
            raise errors.bad(where, f"one attribute, or a list of {count}", described=f"{len(attrs)} of them")
        attr = attrs[i] if isinstance(attrs, (list, tuple)) else attrs
        if is_bias and attr in (None, False):
            return None
        p = self.create_parameter(shape, attr, is_bias=is_bias, default_initializer=first)
        if p is not None:
            self._parameters[p.name] = p
        return p

    def forward(
        self,
        src: Tensor,
        attn_mask: Tensor | None = None,
        caches: list[Tensor] | None = None,
        pre_caches: list[Tensor] | None = None,
        rotary_embs: Tensor | None = None,
        rotary_emb_dims: int = 0,
        beam_offset: Tensor | None = None,
        seq_lens: Tensor | None = None,
        time_step: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Run all layers over a prompt, or over one time step.

        Args:
            src: Tensor of shape ``[N, L, embed_dim]``; ``L`` is 1 with ``time_step``.
            attn_mask: Tensor that broadcasts to ``[N, num_heads, L, S]`` and is added to the scores. Default: None.
            caches: List with a tensor ``[2, N, num_heads, steps, head_dim]`` for each layer, to which keys and values
                are written inplace. Default: None.
            pre_caches: List with a tensor ``[2, N, num_heads, prefix, head_dim]`` for each layer, keys and values that
                come before. Default: None.
            rotary_embs: Cosines and sines of the rotary embedding, ``[2, N, ..., L, head_dim]``. Default: None.
            rotary_emb_dims: 1 applies the rotary embedding, 0 does not. Default: 0.
            beam_offset: Must be None: every sequence has its own cache. Default: None.
            seq_lens: Number of time steps of each sequence, integers ``[N]``. Default: None, all.
            time_step: Number of time steps in the caches, one integer; decodes one more. Default: None, a prompt.

        Returns:
            Tensor of shape ``[N, L, embed_dim]``; with ``caches`` a tuple of it and the list of caches.
        """
        return fused_multi_transformer(
            src,
            self.ln_scales,
            self.ln_biases,
            self.qkv_weights,
            self.qkv_biases,
            self.linear_weights,
            self.linear_biases,
            self.ffn_ln_scales,
            self.ffn_ln_biases,
            self.ffn1_weights,
            self.ffn1_biases,
            self.ffn2_weights,
            self.ffn2_biases,
            self.normalize_before,
            self._epsilon,
            self._residual_alpha,
            caches,
            beam_offset,
            pre_caches,
            seq_lens,
            rotary_embs,
            time_step,
            attn_mask,
            self.dropout_rate,
            rotary_emb_dims,
            self.activation,
            self.training,
            "upscale_in_train",
            self._trans_qkvw,
            -1,
            self._norm_type,
            self._use_neox_rotary_style,
            self._gqa_group_size,
        )
