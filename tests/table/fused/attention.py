"""Rows of the fused blocks of transformers and of attention with lengths and caches, head by head and step by step."""

import numpy as np

from tests.table.fused.matmul import _gelu, divided
from tests.table.fused.norm import _norm
from tests.table.harness import Bad, Row, call, still
from tests.table.samples import floats

PARTS = "its operands have several axes each"
ROUNDED = (8, "products rounded between the parts")


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(query, key, value, mask, valid, scale):
    """One query at a time."""
    b, h, n, _ = query.shape
    out = np.zeros((b, h, n, value.shape[3]))
    groups = h // key.shape[1]
    scores = (b, h, n, key.shape[2])
    valid = np.broadcast_to(valid, scores)
    mask = np.zeros(scores) if mask is None else np.broadcast_to(mask, scores)
    for i in np.ndindex(b, h, n):
        keep = valid[i]
        if keep.any():
            s = key[i[0], i[1] // groups][keep] @ query[i] * scale + mask[i][keep]
            out[i] = softmax(s) @ value[i[0], i[1] // groups][keep]
    return out


def _lengths(query, key, value, seq_lens, kv_seq_lens, mask=None, scale=None, causal=False, pre_cache_length=0):
    n, m = query.shape[2], key.shape[2]
    valid = (np.arange(n)[None, :, None] < seq_lens.reshape(-1, 1, 1)) & (
        np.arange(m)[None, None] < kv_seq_lens.reshape(-1, 1, 1)
    )
    if causal:
        valid = valid & (np.arange(m)[None] <= np.arange(n)[:, None] + pre_cache_length)
    return attend(query, key, value, mask, valid[:, None], query.shape[3] ** -0.5 if scale is None else scale)


def _attention(x, qkv_weight, linear_weight, pre_layer_norm=False, pre_ln_scale=None, pre_ln_bias=None, ln_scale=None, ln_bias=None,
               pre_ln_epsilon=1e-5, qkv_bias=None, linear_bias=None, cache_kv=None, attn_mask=None, dropout_rate=0.5, attn_dropout_rate=0.5,
               ln_epsilon=1e-5, training=True, mode="upscale_in_train", add_residual=True, num_heads=-1, transpose_qkv_wb=False):  # fmt: skip
    down, attn_down = [1 - p if mode == "downscale_in_infer" else 1 for p in (dropout_rate, attn_dropout_rate)]
    h = _norm(x, pre_ln_scale, pre_ln_bias, pre_ln_epsilon, (-1,)) if pre_layer_norm else x
    if transpose_qkv_wb:
        d = x.shape[2] // num_heads
        qkv_weight = qkv_weight.T.reshape(3, num_heads, d, x.shape[2])
    q, k, v = np.einsum("bse,thde->tbhsd", h, qkv_weight) + (
        0 if qkv_bias is None else qkv_bias.reshape(3, 1, *qkv_weight.shape[1:3])[:, :, :, None]
    )
    if cache_kv is not None:
        k, v = np.concatenate([cache_kv[0], k], 2), np.concatenate([cache_kv[1], v], 2)
    s = q @ np.swapaxes(k, 2, 3) / np.sqrt(q.shape[-1])
    if attn_mask is not None:
        s = s + attn_mask if attn_mask.dtype.kind == "f" else np.where(attn_mask, s, -np.inf)
    out = np.swapaxes(softmax(s) @ v * attn_down, 1, 2).reshape(*x.shape[:2], linear_weight.shape[0]) @ linear_weight
    out = (out + (0 if linear_bias is None else linear_bias)) * down + (x if add_residual else 0)
    out = out if pre_layer_norm else _norm(out, ln_scale, ln_bias, ln_epsilon, (-1,))
    return out if cache_kv is None else [out, np.stack([k, v])]


def _feed(x, linear1_weight, linear2_weight, linear1_bias=None, linear2_bias=None, ln1_scale=None, ln1_bias=None, ln2_scale=None, ln2_bias=None,
          dropout1_rate=0.5, dropout2_rate=0.5, activation="relu", ln1_epsilon=1e-5, ln2_epsilon=1e-5, pre_layer_norm=False, training=True,
          mode="upscale_in_train", add_residual=True):  # fmt: skip
    down1, down2 = [1 - p if mode == "downscale_in_infer" else 1 for p in (dropout1_rate, dropout2_rate)]
    h = _norm(x, ln1_scale, ln1_bias, ln1_epsilon, (-1,)) if pre_layer_norm else x
    h = h @ linear1_weight + (0 if linear1_bias is None else linear1_bias)
    h = (_gelu(h) if activation == "gelu" else np.maximum(h, 0)) * down1
    h = (h @ linear2_weight + (0 if linear2_bias is None else linear2_bias)) * down2 + (x if add_residual else 0)
    return h if pre_layer_norm else _norm(h, ln2_scale, ln2_bias, ln2_epsilon, (-1,))


def part(*shape, seed=0):
    return floats(*shape, low=-1, high=1, seed=seed)


LENS = np.array([[2], [3]], np.int32)
TRIL = np.tril(np.ones((3, 3), bool))
NO_DROP = {"dropout_rate": 0.0, "attn_dropout_rate": 0.0}
WEIGHTS = (part(3, 2, 2, 4), part(4, 4, seed=1))
TABLE, EXTRA = divided(
    [
        Row(
            "attend_valid",
            [
                call(
                    part(2, 2, 2, 4),
                    part(2, 1, 3, 4, seed=1),
                    part(2, 1, 3, 2, seed=2),
                    part(2, 1, 2, 3, seed=3),
                    TRIL[None, None, :2],
                    0.5,
                ),
                call(
                    part(1, 2, 2, 4),
                    part(1, 2, 3, 4, seed=1),
                    part(1, 2, 3, 4, seed=2),
                    part(1, 2, 2, 3, seed=3),
                    TRIL[None, None, 1:],
                    0.7,
                ),
                call(
                    part(1, 1, 2, 4),
                    part(1, 1, 2, 4, seed=1),
                    part(1, 1, 2, 4, seed=2),
                    None,
                    np.array([[[[True, False], [False, False]]]]),
                    1.0,
                ),
                call(
                    np.zeros((0, 1, 2, 4)),
                    np.zeros((0, 1, 2, 4)),
                    np.zeros((0, 1, 2, 4)),
                    None,
                    np.ones((0, 1, 2, 2), bool),
                    1.0,
                ),
            ],
            attend,
            skip={"0-d": PARTS},
            loose=ROUNDED,
            slow=True,
            bad=[
                Bad(
                    call(part(1, 3, 2, 4), part(1, 2, 2, 4), part(1, 2, 2, 4), None, np.ones((1, 1, 2, 2), bool), 1.0),
                    "attend_valid(key): expected",
                )
            ],
        ),
        Row(
            "variable_length_memory_efficient_attention",
            [
                call(part(2, 2, 3, 4), part(2, 1, 4, 4, seed=1), part(2, 1, 4, 4, seed=2), LENS, LENS + 1),
                call(
                    part(2, 2, 3, 4),
                    part(2, 2, 3, 4, seed=1),
                    part(2, 2, 3, 4, seed=2),
                    LENS,
                    LENS,
                    part(2, 1, 3, 3, seed=3),
                    0.3,
                ),
                call(
                    part(1, 1, 3, 4),
                    part(1, 1, 4, 4, seed=1),
                    part(1, 1, 4, 4, seed=2),
                    LENS[1],
                    LENS[1] + 1,
                    causal=True,
                    pre_cache_length=1,
                ),
                call(np.zeros((2, 1, 0, 4)), part(2, 1, 2, 4), part(2, 1, 2, 4), LENS, LENS),
            ],
            _lengths,
            skip={"0-d": PARTS},
            loose=ROUNDED,
            slow=True,
            bad=[
                Bad(
                    call(part(2, 2, 3, 4), part(2, 1, 4, 4), part(2, 1, 4, 4), LENS[1], LENS),
                    "variable_length_memory_efficient_attention(seq_lens): expected 2 integers",
                ),
                Bad(
                    call(part(2, 2, 3, 4), part(2, 1, 4, 4), part(2, 1, 4, 4), LENS, LENS, part(2, 1, 3, 3)),
                    "variable_length_memory_efficient_attention(mask): expected a mask that broadcasts to [2, 2, 3, 4]",
                ),
            ],
        ),
        Row(
            "fused_multi_head_attention",
            [
                call(part(2, 3, 4, seed=2), *WEIGHTS, **NO_DROP),
                call(
                    part(2, 3, 4, seed=2),
                    *WEIGHTS,
                    True,
                    part(4),
                    part(4, seed=1),
                    qkv_bias=part(3, 2, 2),
                    linear_bias=part(4),
                    attn_mask=TRIL,
                    **NO_DROP,
                ),
                call(
                    part(1, 3, 4, seed=2),
                    part(4, 12),
                    WEIGHTS[1],
                    ln_scale=part(4),
                    ln_bias=part(4, seed=1),
                    qkv_bias=part(12),
                    attn_mask=TRIL.astype(np.int64),
                    num_heads=2,
                    transpose_qkv_wb=True,
                    dropout_rate=0.3,
                    training=False,
                ),
                call(
                    part(1, 3, 4, seed=2),
                    *WEIGHTS,
                    attn_mask=still(np.where(TRIL, 0, -9.0)),
                    training=False,
                    mode="downscale_in_infer",
                    add_residual=False,
                ),
                call(part(1, 1, 4, seed=2), *WEIGHTS, cache_kv=part(2, 1, 2, 3, 2), training=False),
                call(np.zeros((0, 3, 4)), *WEIGHTS, **NO_DROP),
            ],
            _attention,
            skip={"0-d": PARTS},
            slow=True,
            loose=ROUNDED,
            bad=[
                Bad(
                    call(part(3, 4), *WEIGHTS),
                    "fused_multi_head_attention(x): expected shape [batch, length, width], got shape [3, 4]",
                ),
                Bad(
                    call(part(1, 3, 5), *WEIGHTS),
                    "fused_multi_head_attention(qkv_weight): expected shape [3, 2, 2, 5], got shape [3, 2, 2, 4]",
                ),
                Bad(
                    call(part(1, 3, 4), part(4, 12), WEIGHTS[1], transpose_qkv_wb=True),
                    "fused_multi_head_attention(num_heads): expected a number",
                ),
                Bad(call(part(1, 3, 4), *WEIGHTS, mode="x"), "fused_multi_head_attention(mode): expected"),
                Bad(call(part(1, 3, 4), *WEIGHTS, ring_id=0), "fused_multi_head_attention(ring_id): expected -1"),
                Bad(
                    call(part(1, 3, 4), *WEIGHTS, cache_kv=part(2, 1, 3, 2)),
                    "fused_multi_head_attention(cache_kv): expected shape [2, 1, 2, steps, 2]",
                ),
            ],
        ),
        Row(
            "fused_feedforward",
            [
                call(part(2, 2, 4), part(4, 5, seed=1), part(5, 4, seed=2), dropout1_rate=0.0, dropout2_rate=0.0),
                call(
                    part(2, 2, 4),
                    part(4, 5, seed=1),
                    part(5, 4, seed=2),
                    part(5),
                    part(4),
                    part(4, seed=3),
                    part(4, seed=4),
                    activation="gelu",
                    pre_layer_norm=True,
                    training=False,
                ),
                call(
                    part(1, 2, 4),
                    part(4, 5, seed=1),
                    part(5, 4, seed=2),
                    ln2_scale=part(4),
                    ln2_bias=part(4, seed=1),
                    training=False,
                    mode="downscale_in_infer",
                    add_residual=False,
                    dropout2_rate=0.25,
                ),
                call(np.zeros((0, 2, 4)), part(4, 5), part(5, 4), training=False),
            ],
            _feed,
            skip={"0-d": PARTS},
            slow=True,
            loose=ROUNDED,
            bad=[
                Bad(
                    call(part(1, 2, 4), part(4, 5), part(5, 4), activation="foo"),
                    "fused_feedforward(activation): expected one of 'gelu', 'relu', 'silu', 'swish', 'sigmoid', 'tanh', 'none', 'geglu', 'swiglu'",
                ),
                Bad(
                    call(part(1, 2, 4), part(4, 5), part(5, 4), dropout1_rate=2.0),
                    "fused_feedforward(dropout1_rate): expected a probability",
                ),
                Bad(
                    call(part(1, 2, 4), part(4, 5), part(5, 4), ln2_scale=part(3), training=False),
                    "fused_feedforward(ln2_scale): expected 4 elements",
                ),
            ],
        ),
    ],
    keep=1,
)
