"""Rows of the fused layers of `bireme.incubate.nn`, against the formulas of their functions."""

import numpy as np

from tests.table.fused.attention import _attention, _feed
from tests.table.fused.kv_cache import _transformer
from tests.table.fused.norm import _norm
from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow

_rng = np.random.default_rng(0)
_lower = np.tril(np.ones((3, 3), bool))
EPSILON = 1e-5
# the true gradient of the keys' bias is 0, and what rounding makes of it cannot be compared: no bias of queries, keys
# and values here
NO_DROP = {"dropout_rate": 0.0, "attn_dropout_rate": 0.0}


def _x(*shape):
    return _rng.standard_normal(shape)


def _attend(x, key=None, value=None, attn_mask=None, name="", pre=False, **p):
    p = {k.removeprefix(name): v for k, v in p.items() if k.startswith(name)}
    return _attention(x, p.pop("qkv_weight"), p.pop("linear_weight"), pre, attn_mask=attn_mask, training=False, **p)


def _forward(x, name="_", pre=False, **p):
    p = {k.removeprefix(name): v for k, v in p.items() if k.startswith(name)}
    return _feed(x, p.pop("linear1_weight"), p.pop("linear2_weight"), pre_layer_norm=pre, training=False, **p)


def _whole(x, mask=None, **p):
    """Parameters come in the order in which they were made: no biases here."""
    ln, qkv, out, ffn_ln, w1, w2 = [[v] for v in p.values()]
    return _transformer(x, ln, None, qkv, None, out, None, ffn_ln, None, w1, None, w2, None, attn_mask=mask)


ATTENTION = {"qkv_weight": (3, 2, 2, 4), "linear_weight": (4, 4), "linear_bias": (4,)}
FEED = {"_linear1_weight": (4, 6), "_linear1_bias": (6,), "_linear2_weight": (6, 4), "_linear2_bias": (4,)}
LAYERS = [
    LayerRow(
        "FusedLinear", call(4, 3, transpose_weight=True), [(2, 4), (0, 4)], {"weight": (3, 4), "bias": (3,)},
        lambda x, weight, bias: x @ weight.T + bias,
    ),
    LayerRow(
        "FusedDropoutAdd", call(0.3), [call(_x(2, 3), _x(2, 3))], {}, lambda x, y: x + y, modes=("eval",),
        bad=[Bad(call(np.ones(2), np.ones(3)), "expected")],
    ),
    LayerRow(
        "FusedBiasDropoutResidualLayerNorm", call(4, 0.0), [call(_x(2, 4), _x(2, 4))], {"linear_bias": (4,), "ln_scale": (4,), "ln_bias": (4,)},
        lambda x, residual, linear_bias, ln_scale, ln_bias: _norm(x + linear_bias + residual, ln_scale, ln_bias, EPSILON, (-1,)),
        bad=[Bad(call(np.ones((2, 4)), np.ones(4)), "(residual): expected shape [2, 4]")],
        bad_init=[Bad(call(0), "FusedBiasDropoutResidualLayerNorm(embed_dim): expected a positive integer", AssertionError)],
    ),
    LayerRow(
        "FusedMultiHeadAttention", call(4, 2, **NO_DROP, qkv_bias_attr=False), [call(_x(2, 3, 4), attn_mask=_lower), (0, 3, 4)],
        {**ATTENTION, "ln_scale": (4,), "ln_bias": (4,)}, lambda x, attn_mask=None, **p: _attend(x, attn_mask=attn_mask, **p),
        bad=[Bad(call(np.ones((3, 4))), "(x): expected shape [batch, length, width], got shape [3, 4]"),
             Bad(call(np.ones((1, 3, 4)), np.ones((1, 3, 4))), "FusedMultiHeadAttention(key): expected None", AssertionError)],
        bad_init=[Bad(call(5, 2), "FusedMultiHeadAttention(embed_dim): expected a multiple of num_heads", AssertionError),
                  Bad(call(4, 2, need_weights=True), "FusedMultiHeadAttention(need_weights): expected False", AssertionError),
                  Bad(call(4, 2, nranks=2), "FusedMultiHeadAttention(nranks, ring_id): expected 1 and -1")],
    ),
    LayerRow(
        "FusedFeedForward", call(4, 6, 0.0, normalize_before=True), [(2, 3, 4)], {**FEED, "_ln1_scale": (4,), "_ln1_bias": (4,)},
        lambda x, **p: _forward(x, pre=True, **p),
        bad_init=[Bad(call(0, 6), "FusedFeedForward(d_model): expected a positive integer", AssertionError)],
    ),
    LayerRow(
        "FusedMultiTransformer", call(4, 2, 6, num_layers=1), [(1, 2, 4), call(_x(1, 2, 4), _x(1, 1, 2, 2))], None, _whole,
        skip={"state dict": "its keys are the names of the parameters, which another layer has not"},
        bad=[Bad(call(np.ones((2, 4))), "(x): expected shape [batch, length, width], got shape [2, 4]")],
        bad_init=[Bad(call(4, 2, 6), "FusedMultiTransformer(num_layers): expected a positive integer, or a list as qkv_weight_attrs", AssertionError),
                  Bad(call(4, 2, 6, num_layers=2, ln_bias_attrs=[None]), "FusedMultiTransformer(ln_biases): expected one attribute, or a list of 2")],
    ),
    LayerRow(
        "FusedTransformerEncoderLayer", call(4, 2, 6, 0.0, bias_attr=[False, None]), [call(_x(2, 3, 4), _lower)],
        {"fused_attn.qkv_weight": (3, 2, 2, 4), "fused_attn.linear_weight": (4, 4), "fused_attn.ln_scale": (4,),
         **{f"ffn.{k}": v for k, v in FEED.items()}, "ffn._ln2_scale": (4,), "ffn._ln2_bias": (4,)},
        lambda x, mask, **p: _forward(_attend(x, attn_mask=mask, name="fused_attn_", **p), name="ffn__", **p),
        bad_init=[Bad(call(4, 2, 6, weight_attr=[None] * 3), "FusedTransformerEncoderLayer(weight_attr): expected one attribute, or a list of 2")],
    ),
]  # fmt: skip
