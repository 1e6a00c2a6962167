"""Rows of attention with several heads, and of encoders and decoders built of it."""

import numpy as np

import bireme
from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow

HEADS = 2
_rng = np.random.default_rng(0)


def _linear(p, x, name):
    return x @ p[f"{name}_weight"] + p.get(f"{name}_bias", 0)


def _attend(p, query, key, value, mask, name):
    """Outputs and weights of attention, head by head."""
    q, k, v = (_linear(p, x, f"{name}{n}_proj") for n, x in (("q", query), ("k", key), ("v", value)))
    width = q.shape[-1] // HEADS
    outs, weights = [], []
    for i in range(HEADS):
        part = slice(i * width, (i + 1) * width)
        s = np.einsum("bqd,bkd->bqk", q[..., part], k[..., part]) / np.sqrt(width)
        if mask is not None:
            s = s + mask if mask.dtype.kind == "f" else np.where(mask, s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        weights.append(e / e.sum(-1, keepdims=True))
        outs.append(weights[-1] @ v[..., part])
    return _linear(p, np.concatenate(outs, -1), f"{name}out_proj"), np.stack(weights, 1)


def _norm(p, x, name):
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5))
    return y * p[f"{name}_weight"] + p[f"{name}_bias"]


def _feed(p, x, name):
    return _linear(p, np.maximum(_linear(p, x, f"{name}linear1"), 0), f"{name}linear2")


def _encode(p, x, mask=None, name=""):
    x = _norm(p, x + _attend(p, x, x, x, mask, f"{name}self_attn_")[0], f"{name}norm1")
    return _norm(p, x + _feed(p, x, name), f"{name}norm2")


def _decode(p, x, memory, mask=None, name=""):
    x = _norm(p, x + _attend(p, x, x, x, mask, f"{name}self_attn_")[0], f"{name}norm1")
    x = _norm(p, x + _attend(p, x, memory, memory, None, f"{name}cross_attn_")[0], f"{name}norm2")
    return _norm(p, x + _feed(p, x, name), f"{name}norm3")


def _encode_first(p, x, mask=None):
    """The layer that normalises before its parts."""
    y = _norm(p, x, "norm1")
    x = x + _attend(p, y, y, y, mask, "self_attn_")[0]
    return x + _feed(p, _norm(p, x, "norm2"), "")


def _attention(query, key, value, mask=None, **p):
    return _attend(p, query, key, value, mask, "")


def _transformer(src, tgt, **p):
    memory = _norm(p, _encode(p, src, name="encoder_layers_0_"), "encoder_norm")
    return _norm(p, _decode(p, tgt, memory, name="decoder_layers_0_"), "decoder_norm")


def _shapes(name, rows, columns):
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (columns,)}


def _attention_shapes(name, kdim=4, vdim=4):
    return {f"{name}{n}_proj.weight": (rows, 4) for n, rows in (("q", 4), ("k", kdim), ("v", vdim), ("out", 4))}


def _block_shapes(attentions, norms):
    made = {k: v for name in attentions for k, v in _attention_shapes(f"{name}.").items()}
    made |= _shapes("linear1", 4, 6) | _shapes("linear2", 6, 4)
    return made | {f"norm{i + 1}.{n}": (4,) for i in range(norms) for n in ("weight", "bias")}


def _encoder():
    return bireme.nn.TransformerEncoder(
        bireme.nn.TransformerEncoderLayer(4, 2, 6, bias_attr=[False, None]), 1, bireme.nn.LayerNorm(4)
    )


def _decoder():
    return bireme.nn.TransformerDecoder(
        bireme.nn.TransformerDecoderLayer(4, 2, 6, 0.0, bias_attr=[False, False, None]), 1, bireme.nn.LayerNorm(4)
    )


def _x(*shape):
    return _rng.standard_normal(shape)


_lower = np.tril(np.ones((3, 3), bool))
# the true gradient of the keys' bias is 0, and what rounding makes of it cannot be compared: no biases in attention
# here
WIDTH = "MultiHeadAttention(query): expected shape [batch, length, 4], got shape [2, 3, 5]"
LAYERS = [
    LayerRow("MultiHeadAttention", call(4, 2, kdim=3, vdim=5, need_weights=True, bias_attr=False),
        [call(_x(2, 3, 4), _x(2, 3, 3), _x(2, 3, 5), _lower), call(_x(1, 3, 4), _x(1, 2, 3), _x(1, 2, 5), _x(3, 2)),
         call(_x(0, 3, 4), _x(0, 2, 3), _x(0, 2, 5))],
        _attention_shapes("", 3, 5), _attention,
        bad=[Bad(call(np.ones((2, 3, 5))), WIDTH), Bad(call(np.ones((3, 4))), "expected shape [batch, length, 4], got shape [3, 4]"),
             Bad(call(np.ones((1, 2, 4)), np.ones((1, 3, 3)), np.ones((1, 3, 5)), np.ones((2, 2))),
                 "expected a shape that can be broadcast to [1, 2, 2, 3]"),
             Bad(call(np.ones((1, 2, 4)), np.ones((1, 3, 3)), np.ones((1, 2, 5))),
                 "MultiHeadAttention(key, value): expected keys and values of equal length, and equal batch sizes, got lengths 3 and 2")],
        bad_init=[Bad(call(5, 2), "expected a multiple of num_heads, which is 2, got 5"), Bad(call(0, 2), "MultiHeadAttention(embed_dim)"),
                  Bad(call(4, 0), "MultiHeadAttention(num_heads)")]),
    LayerRow("TransformerEncoderLayer", call(4, 2, 6, dropout=0.0, normalize_before=True, bias_attr=[False, None]),
        [(2, 3, 4), call(_x(1, 3, 4), _lower)], _block_shapes(["self_attn"], 2), lambda x, mask=None, **p: _encode_first(p, x, mask),
        bad=[Bad(call(np.ones((3, 4))), "got shape [3, 4]")],
        bad_init=[Bad(call(4, 2, 0), "TransformerEncoderLayer(dim_feedforward)"),
                  Bad(call(4, 2, 6, activation="nothing"), "the name of a function in bireme.nn.functional", AttributeError),
                  Bad(call(4, 2, 6, bias_attr=[False] * 3), "(bias_attr): expected one attribute, or a list of 2, got 3 of them")]),
    LayerRow("TransformerEncoder", make=_encoder, inputs=[(1, 2, 4)], params=None,
        ref=lambda x, **p: _norm(p, _encode(p, x, name="layers_0_"), "norm"),
        modes=("eval",)),
    LayerRow("TransformerDecoderLayer", call(4, 2, 6, dropout=0.0, bias_attr=[False, False, None]), [call(_x(2, 3, 4), _x(2, 2, 4), _lower)],
        _block_shapes(["self_attn", "cross_attn"], 3), lambda x, memory, mask=None, **p: _decode(p, x, memory, mask),
        bad=[Bad(call(np.ones((1, 2, 4)), np.ones((1, 2, 3))), "(key): expected shape [batch, length, 4], got shape [1, 2, 3]")],
        bad_init=[Bad(call(4, 2, 6, weight_attr=[None] * 2), "(weight_attr): expected one attribute, or a list of 3")]),
    LayerRow("TransformerDecoder", inputs=[call(_x(1, 2, 4), _x(1, 3, 4))], params=None, make=_decoder,
        ref=lambda x, m, **p: _norm(p, _decode(p, x, m, name="layers_0_"), "norm")),
    LayerRow("Transformer", call(4, 2, 1, 1, 6, 0.0, bias_attr=[False, None]), [call(_x(1, 3, 4), _x(1, 2, 4))], None, _transformer,
        bad_init=[Bad(call(4, 2, 1, 1, 6, bias_attr=[False] * 4), "(bias_attr): expected one attribute, or a list of 1 to 3, got 4")]),
]  # fmt: skip
