"""A whole transformer as one layer."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import initializer
from bireme.nn.layer import Layer
from bireme.ops import fused_multi_transformer


class FusedMultiTransformer(Layer):
    """Layers of self-attention and feed-forward blocks with caches for generation; biases are there where their attributes are given.

    Its state dict has the parameters under their own names, as in Paddle.

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
        ln_scale_attrs: Any = None,
        ln_bias_attrs: Any = None,
        qkv_weight_attrs: Any = None,
        qkv_bias_attrs: Any = None,
        linear_weight_attrs: Any = None,
        linear_bias_attrs: Any = None,
        ffn_ln_scale_attrs: Any = None,
        ffn_ln_bias_attrs: Any = None,
        ffn1_weight_attrs: Any = None,
        ffn1_bias_attrs: Any = None,
        ffn2_weight_attrs: Any = None,
        ffn2_bias_attrs: Any = None,
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
                raise errors.bad(f"{where}({which})", "a number above 0", size, kind=AssertionError)
        if embed_dim % num_heads:
            raise errors.bad(f"{where}(embed_dim)", f"a multiple of num_heads, which is {num_heads}", embed_dim, kind=AssertionError)
        if nranks != 1 or ring_id != -1:
            raise errors.bad(f"{where}(nranks, ring_id)", "1 and -1: the weights are whole", f"{nranks} and {ring_id}")
        count = len(qkv_weight_attrs) if isinstance(qkv_weight_attrs, (list, tuple)) else num_layers
        if count <= 0:
            raise errors.bad(f"{where}(num_layers)", "a number above 0, or a list of qkv_weight_attrs", num_layers, kind=AssertionError)
        head = embed_dim // num_heads
        shared = [num_heads + 2 * gqa_group_size] if gqa_group_size > 0 else [3, num_heads]
        wide = dim_feedforward * (2 if activation.endswith("glu") else 1)
        one = initializer.Constant(1.0)
        self.embed_dim, self.num_heads, self.head_dim, self.name = embed_dim, num_heads, head, name
        self.dropout_rate, self.activation, self.normalize_before = dropout_rate, activation, normalize_before
        self._epsilon, self._residual_alpha, self._trans_qkvw, self._norm_type = epsilon, residual_alpha, trans_qkvw, norm_type
        self._use_neox_rotary_style, self._gqa_group_size = use_neox_rotary_style, gqa_group_size
        kinds = (
            ("ln_scales", [embed_dim], ln_scale_attrs, one), ("ln_biases", [embed_dim], ln_bias_attrs, None),
            ("qkv_weights", [*shared, head, embed_dim] if trans_qkvw else [embed_dim, *shared, head], qkv_weight_attrs, None),
            ("qkv_biases", [*shared, head], qkv_bias_attrs, None), ("linear_weights", [num_heads * head, embed_dim], linear_weight_attrs, None),
            ("linear_biases", [embed_dim], linear_bias_attrs, None), ("ffn_ln_scales", [embed_dim], ffn_ln_scale_attrs, one),
            ("ffn_ln_biases", [embed_dim], ffn_ln_bias_attrs, None), ("ffn1_weights", [embed_dim, wide], ffn1_weight_attrs, None),
            ("ffn1_biases", [wide], ffn1_bias_attrs, None), ("ffn2_weights", [dim_feedforward, embed_dim], ffn2_weight_attrs, None),
            ("ffn2_biases", [embed_dim], ffn2_bias_attrs, None),
        )  # fmt: skip
        made: dict[str, list[Any]] = {kind[0]: [] for kind in kinds}
        for i in range(count):
            for which, shape, attrs, first in kinds:
                made[which].append(self._part(f"{where}({which})", shape, attrs, i, count, which.endswith("biases"), first))
        for which, parts in made.items():
            setattr(self, which, parts if any(p is not None for p in parts) else None)

    def _part(self, where: str, shape: list[int], attrs: Any, i: int, count: int, is_bias: bool, first: Any) -> Any:
        """The parameter of a layer, kept under its own name."""
        if isinstance(attrs, (list, tuple)) and len(attrs) != count:
            raise errors.bad(where, f"one attribute, or a list of {count}", f"{len(attrs)} of them")
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
        caches: Any = None,
        pre_caches: Any = None,
        rotary_embs: Tensor | None = None,
        rotary_emb_dims: int = 0,
        beam_offset: Tensor | None = None,
        seq_lens: Tensor | None = None,
        time_step: Tensor | None = None,
    ) -> Any:
        return fused_multi_transformer(
            src, self.ln_scales, self.ln_biases, self.qkv_weights, self.qkv_biases, self.linear_weights, self.linear_biases, self.ffn_ln_scales,
            self.ffn_ln_biases, self.ffn1_weights, self.ffn1_biases, self.ffn2_weights, self.ffn2_biases, self.normalize_before, self._epsilon,
            self._residual_alpha, caches, beam_offset, pre_caches, seq_lens, rotary_embs, time_step, attn_mask, self.dropout_rate,
            rotary_emb_dims, self.activation, self.training, "upscale_in_train", self._trans_qkvw, -1, self._norm_type,
            self._use_neox_rotary_style, self._gqa_group_size,
        )  # fmt: skip
