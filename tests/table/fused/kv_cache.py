"""Rows of attention with caches and of whole transformers: step by step, sequence by sequence, token by token."""

import numpy as np

from tests.table.fused.attention import PARTS, ROUNDED, part, softmax
from tests.table.fused.matmul import _gelu, _silu, divided
from tests.table.fused.norm import _norm, _rms_of, _turned
from tests.table.harness import Bad, Row, call, still


def _write(cache, keys, values, start):
    out = cache.copy()
    for b, s in enumerate(start.ravel()):
        for n in range(keys.shape[2]):
            if s + n < cache.shape[3]:
                out[0, b, :, s + n], out[1, b, :, s + n] = keys[b, :, n], values[b, :, n]
    return out


def _beam(cache, offsets, start):
    out, beams = cache.copy(), offsets.shape[1]
    for b in range(cache.shape[1]):
        for t in range(cache.shape[3]):
            if t != start.ravel()[b]:
                out[:, b, :, t] = cache[:, b // beams * beams + offsets[b // beams, b % beams, t], :, t]
    return out


def _step(x, cache_kv, bias=None, src_mask=None, sequence_lengths=None, rotary_tensor=None, beam_cache_offset=None, out_shift=None,
          out_smooth=None, rotary_emb_dims=0, use_neox_rotary_style=False):  # fmt: skip
    batch, shared, d = [cache_kv.shape[i] for i in (1, 2, 4)]
    qkv = (x + (0 if bias is None else bias.ravel())).reshape(batch, x.shape[1] // d, d)
    heads = qkv.shape[1] - 2 * shared
    q, k, v = qkv[:, :heads], qkv[:, heads : heads + shared], qkv[:, heads + shared :]
    at = np.full(batch, src_mask.shape[-1] - 1) if sequence_lengths is None else sequence_lengths.ravel()
    if rotary_emb_dims:
        table = rotary_tensor.reshape(2, batch, -1, d)
        table = np.stack([table[:, b, at[b] if table.shape[2] > 1 else 0] for b in range(batch)], 1)
        q, k = [_turned(t, table[0][:, None], table[1][:, None], not use_neox_rotary_style) for t in (q, k)]
    cache = _write(cache_kv, k[:, :, None], v[:, :, None], at)
    seen = cache if beam_cache_offset is None else _beam(cache, beam_cache_offset, at)
    out = np.zeros((batch, heads, d))
    for b in range(batch):
        for h in range(heads):
            g = h // (heads // shared)
            n = at[b] + 1
            s = seen[0, b, g, :n] @ q[b, h] / np.sqrt(d)
            s = s if src_mask is None else s + src_mask[b, 0, 0, :n]
            out[b, h] = softmax(s) @ seen[1, b, g, :n]
    out = (out.reshape(batch, heads * d) + (0 if out_shift is None else out_shift)) * (
        1 if out_smooth is None else out_smooth
    )
    return [out, cache] if beam_cache_offset is None else [out, cache, beam_cache_offset]


# ---------------------------------------------------------------- blocks


def _blocks(
    qkv,
    key_cache,
    value_cache,
    encoder,
    decoder,
    starts,
    tables,
    pre_key,
    pre_value,
    rope=None,
    mask=None,
    tgt_mask=None,
    halves=False,
):
    """Token by token: its key and value are written, then it attends to the places of its sequence that it may see."""
    keys, values = key_cache.copy(), value_cache.copy()
    shared, places, d = key_cache.shape[1:]
    heads = qkv.shape[1] - 2 * shared
    pre = 0 if pre_key is None else pre_key.shape[2]
    out = np.zeros((qkv.shape[0], heads, d))

    def spot(b, p):
        return tables[b, p // places], slice(None), p % places

    for b in range(tables.shape[0]):
        prompt, done = encoder.ravel()[b], decoder.ravel()[b]
        tokens = list(range(starts.ravel()[b], starts.ravel()[b + 1]))
        shift = pre if prompt else 0
        for p in range(shift):
            keys[spot(b, p)], values[spot(b, p)] = pre_key[b, :, p], pre_value[b, :, p]
        turned = {}
        for i, t in enumerate(tokens):
            row = qkv[t]
            if rope is not None:
                cos, sin = rope[:, b, done + i]
                row = np.concatenate([_turned(row[: heads + shared], cos, sin, not halves), row[heads + shared :]])
            turned[t] = row[:heads]
            keys[spot(b, done + i + shift)] = row[heads : heads + shared]
            values[spot(b, done + i + shift)] = row[heads + shared :]
        for i, t in enumerate(tokens):
            n = len(tokens) + shift if prompt and mask is not None else done + i + shift + 1
            at = [spot(b, p) for p in range(n)]
            for h in range(heads):
                g = h // (heads // shared)
                s = np.array([keys[p][g] @ turned[t][h] for p in at]) / np.sqrt(d)
                given = (
                    mask[b, 0, i]
                    if prompt and mask is not None
                    else tgt_mask[b, 0, 0]
                    if not prompt and tgt_mask is not None
                    else np.zeros(n)
                )
                s = s + given[:n]
                out[t, h] = softmax(s) @ np.array([values[p][g] for p in at])
    return [out.reshape(len(out), heads * d), keys, values]


def _block_op(
    qkv,
    key_cache,
    value_cache,
    encoder,
    decoder,
    starts,
    tables,
    pre_key,
    pre_value,
    scales,
    rope,
    mask,
    tgt_mask,
    most,
    halves,
    limits,
):
    return _blocks(
        qkv, key_cache, value_cache, encoder, decoder, starts, tables, pre_key, pre_value, rope, mask, tgt_mask, halves
    )


def _block_call(qkv, key_cache, value_cache, encoder, decoder, now, offsets, cum, starts, starts_k, tables, pre_key_cache=None,
                pre_value_cache=None, qkv_bias=None, rope_emb=None, mask=None, tgt_mask=None, max_seq_len=-1, block_size=64,
                use_neox_style=False):  # fmt: skip
    d = key_cache.shape[-1]
    rows = (qkv + (0 if qkv_bias is None else qkv_bias)).reshape(len(qkv), qkv.shape[1] // d, d)
    if rope_emb is not None:
        rope_emb = rope_emb[:, :, :, 0]
        rope_emb = np.concatenate([rope_emb, rope_emb], -1) if use_neox_style else np.repeat(rope_emb, 2, -1)
    found = _blocks(rows, key_cache, value_cache, encoder, decoder, starts, tables, pre_key_cache, pre_value_cache, rope_emb, mask, tgt_mask,
                    use_neox_style)  # fmt: skip
    return [found[0], qkv, *found[1:]]


def i32(*numbers):
    return np.array(numbers, np.int32)


TABLES = i32([3, 1], [0, 4], [5, 2])
# two prompts of 3 and 1 tokens, and one step of a sequence that has 2
MIXED = (i32([3], [1], [0]), i32([0], [0], [2]), i32([0], [3], [4], [5]))
CACHES = (still(part(6, 1, 2, 4)), still(part(6, 1, 2, 4, seed=1)))
FULL = (MIXED[0], MIXED[1], i32(3, 1, 1), i32(0, 0, 0, 2, 4), i32(0, 0, 2), MIXED[2], MIXED[2], TABLES)
LIMITS = (127.0, -127.0, True)


# ---------------------------------------------------------------- transformers


def _transformer(x, ln_s, ln_b, qkv_w, qkv_b, out_w, out_b, ffn_s, ffn_lb, w1, b1, w2, b2, pre_layer_norm=True, epsilon=1e-5, residual_alpha=1.0,
                 cache_kvs=None, pre_caches=None, seq_lens=None, rotary_embs=None, time_step=None, attn_mask=None, rotary_emb_dims=0,
                 activation="gelu", trans_qkvw=True, norm_type="layernorm", use_neox_rotary_style=False, gqa_group_size=-1):  # fmt: skip
    batch, n, _ = x.shape
    caches = []

    def plus(t, bias):
        return t if bias is None else t + bias[i]

    def norm(t, scale, bias):
        bias = None if bias is None else bias[i]
        return (
            _norm(t, scale[i], bias, epsilon, (-1,))
            if norm_type == "layernorm"
            else _rms_of(t, scale[i], bias, epsilon, (2,))
        )

    for i, w in enumerate(qkv_w):
        h = norm(x, ln_s, ln_b) if pre_layer_norm else x
        w = w if trans_qkvw else np.moveaxis(w, 0, -1)
        d = w.shape[-2]
        flat = w.reshape(-1, d, w.shape[-1])
        qkv = np.einsum("bse,hde->bhsd", h, flat)
        if qkv_b is not None:
            qkv = qkv + qkv_b[i].reshape(-1, 1, d)
        shared = gqa_group_size if gqa_group_size > 0 else len(flat) // 3
        heads = len(flat) - 2 * shared
        q, k, v = qkv[:, :heads], qkv[:, heads : heads + shared], qkv[:, heads + shared :]
        at = (
            np.zeros(batch, int)
            if time_step is None
            else np.full(batch, time_step.item())
            if seq_lens is None
            else seq_lens
        )
        if rotary_emb_dims:
            table = rotary_embs.reshape(2, batch, -1, d)
            table = table if time_step is None else np.stack([table[:, b, [at[b]]] for b in range(batch)], 1)
            q, k = [_turned(t, table[0][:, None], table[1][:, None], not use_neox_rotary_style) for t in (q, k)]
        if pre_caches is not None:
            k, v = [np.concatenate([p, t], 2) for p, t in zip(pre_caches[i], (k, v), strict=True)]
        if cache_kvs is not None:
            caches.append(_write(cache_kvs[i], k, v, at))
        if time_step is not None:
            k, v = caches[-1]
        out = np.zeros((batch, n, heads, d))
        for b, s, j in np.ndindex(batch, n, heads):
            end = (
                at[b] + 1 if time_step is not None else k.shape[2] if seq_lens is None else seq_lens[b] + k.shape[2] - n
            )
            score = k[b, j // (heads // shared), :end] @ q[b, j, s] / np.sqrt(d)
            score = score if attn_mask is None else score + attn_mask[b, 0, s, :end]
            out[b, s, j] = softmax(score) @ v[b, j // (heads // shared), :end]
        x = residual_alpha * x + plus(out.reshape(batch, n, heads * d) @ out_w[i], out_b)
        x = x if pre_layer_norm else norm(x, ln_s, ln_b)
        h = norm(x, ffn_s, ffn_lb) if pre_layer_norm else x
        h = plus(h @ w1[i], b1)
        if activation == "swiglu":
            h = _silu(h[..., : h.shape[-1] // 2]) * h[..., h.shape[-1] // 2 :]
        else:
            h = _gelu(h) if activation == "gelu" else np.maximum(h, 0)
        x = residual_alpha * x + plus(h @ w2[i], b2)
        x = x if pre_layer_norm else norm(x, ffn_s, ffn_lb)
    return x if cache_kvs is None else [x, *caches]


def weights(layers=1, qkv=(3, 2, 2, 4), wide=6, biases=True, held=still):
    """Lists of weights for width 4; of biases too, or None. All of them are differentiated in one sample alone: it
    takes long to compile.
    """

    def all_of(k, *shape):
        return [held(part(*shape, seed=10 * i + k)) for i in range(layers)]

    heads = qkv[:-1] if qkv[-1] == 4 else qkv[1:]
    shapes = [(4,), (4,), qkv, heads, (4, 4), (4,), (4,), (4,), (4, wide), (wide,), (6, 4), (4,)]
    return [all_of(k, *s) if biases or k not in (1, 3, 5, 7, 9, 11) else None for k, s in enumerate(shapes)]


STEP = np.array([2], np.int32)
MT = "fused_multi_transformer"
TABLE, EXTRA = divided(
    [
        Row(
            "write_steps",
            [
                call(part(2, 2, 1, 4, 3), part(2, 1, 2, 3, seed=1), part(2, 1, 2, 3, seed=2), i32(0, 3)),
                call(part(2, 2, 1, 0, 3), np.zeros((2, 1, 0, 3)), np.zeros((2, 1, 0, 3)), i32(0, 0)),
            ],
            _write,
            skip={"0-d": PARTS},
            slow=True,
        ),
        Row(
            "beam_cache",
            [
                call(part(2, 4, 1, 3, 2), i32([[1, 0, 1], [0, 1, 0]], [[1, 1, 1], [0, 0, 0]]), i32(2, 2, 1, 1)),
                call(part(2, 2, 0, 3, 2), i32([[1, 0, 1], [0, 1, 0]]), i32(0, 0)),
            ],
            _beam,
            skip={"0-d": PARTS},
            slow=True,
        ),
        Row(
            "masked_multihead_attention",
            [
                call(part(2, 16), still(part(2, 2, 1, 4, 4)), sequence_lengths=i32([0], [2])),
                call(
                    part(2, 12),
                    still(part(2, 2, 1, 4, 4)),
                    part(3, 1, 4),
                    part(2, 1, 1, 3, seed=2),
                    out_shift=part(4),
                    out_smooth=part(4, seed=3),
                ),
                call(
                    part(2, 12),
                    still(part(2, 2, 1, 4, 4)),
                    sequence_lengths=i32(1, 3),
                    rotary_tensor=still(part(2, 2, 1, 5, 4)),
                    rotary_emb_dims=1,
                ),
                call(
                    part(2, 12),
                    still(part(2, 2, 1, 4, 4)),
                    sequence_lengths=i32(1, 3),
                    rotary_tensor=still(part(2, 2, 1, 1, 4)),
                    rotary_emb_dims=1,
                    use_neox_rotary_style=True,
                ),
                call(np.zeros((0, 12)), still(np.zeros((2, 0, 1, 4, 4))), sequence_lengths=np.zeros((0, 1), np.int32)),
            ],
            _step,
            skip={"0-d": PARTS},
            loose=ROUNDED,
            grad=0,
            bad=[
                Bad(
                    call(part(2, 12)),
                    "masked_multihead_attention(cache_kv): expected shape [2, batch, heads, steps, width]",
                ),
                Bad(
                    call(part(2, 9), part(2, 2, 1, 4, 4)),
                    "masked_multihead_attention(x): expected shape [2, (heads + 2 * 1) * 4]",
                ),
                Bad(
                    call(part(2, 12), part(2, 2, 1, 4, 4)),
                    "masked_multihead_attention(src_mask): expected src_mask or sequence_lengths, to know the position of the step",
                ),
                Bad(
                    call(part(2, 12), part(2, 2, 1, 4, 4), src_mask=part(3, 1, 1, 2)),
                    "masked_multihead_attention(src_mask): expected shape [2, 1, 1,",
                ),
            ],
        ),
        Row(
            "blha_get_max_len",
            [call(i32(2, 5), i32(7, 0), i32(2)), call(i32([2], [5]), i32([1], [0]), np.zeros(0, np.int32))],
            lambda a, b, n: [np.array([a.max()], np.int32), np.array([b.max()], np.int32)],
            dtypes=frozenset(),
            out="int32",
            grad=0,
            skip={"0-d": PARTS},
            bad=[
                Bad(
                    call(np.zeros(0, np.int32), i32(1), i32(1)),
                    "blha_get_max_len(seq_lens_encoder): expected an integer tensor",
                )
            ],
        ),
        Row(
            "block_attention",
            [
                call(part(5, 4, 4), *CACHES, *MIXED, TABLES, None, None, [], None, None, None, 3, False, LIMITS),
                call(
                    part(5, 3, 4),
                    *CACHES,
                    *MIXED,
                    TABLES,
                    None,
                    None,
                    [],
                    still(part(2, 3, 6, 4)),
                    still(part(3, 1, 3, 3)),
                    still(part(3, 1, 1, 4)),
                    5,
                    True,
                    LIMITS,
                ),
                call(
                    part(3, 3, 4),
                    *CACHES,
                    i32(2, 1, 0),
                    i32(0, 0, 0),
                    i32(0, 2, 3, 3),
                    TABLES,
                    still(part(3, 1, 1, 4)),
                    still(part(3, 1, 1, 4, seed=1)),
                    [],
                    None,
                    None,
                    None,
                    3,
                    False,
                    LIMITS,
                ),
                call(
                    np.zeros((0, 3, 4)),
                    *CACHES,
                    i32(0, 0, 0),
                    i32(0, 0, 0),
                    i32(0, 0, 0, 0),
                    TABLES,
                    None,
                    None,
                    [],
                    None,
                    None,
                    None,
                    1,
                    False,
                    LIMITS,
                ),
            ],
            _block_op,
            dtypes=frozenset(),
            grad=0,
            skip={"0-d": PARTS},
        ),
        Row(
            "block_multihead_attention",
            [
                call(still(part(5, 16)), *CACHES, *FULL, max_seq_len=3, block_size=2),
                call(
                    still(part(5, 12)),
                    *CACHES,
                    *FULL,
                    qkv_bias=part(12),
                    rope_emb=still(part(2, 3, 6, 1, 2)),
                    block_size=2,
                ),
                call(
                    part(5, 12),
                    *CACHES,
                    *FULL,
                    rope_emb=still(part(2, 3, 6, 1, 2)),
                    mask=still(part(3, 1, 3, 3)),
                    use_neox_style=True,
                    block_size=2,
                ),
                call(
                    np.zeros((0, 12)),
                    *CACHES,
                    i32(0),
                    i32(0),
                    i32(0),
                    i32(0),
                    i32(0),
                    i32(0, 0),
                    i32(0, 0),
                    TABLES[:1],
                    block_size=2,
                ),
            ],
            _block_call,
            dtypes=frozenset(),
            grad=0,
            skip={"0-d": PARTS},
            bad=[
                Bad(
                    call(part(5, 16), *CACHES, *FULL),
                    "block_multihead_attention(key_cache, value_cache): expected two tensors of equal shape [blocks, heads, 64, width]",
                ),
                Bad(
                    call(part(5, 15), *CACHES, *FULL, block_size=2),
                    "block_multihead_attention(qkv): expected shape [tokens, (heads + 2 * 1) * 4]",
                ),
                Bad(
                    call(part(5, 12), *CACHES, *FULL, block_size=2, use_dynamic_cachekv_quant=True),
                    "block_multihead_attention(use_dynamic_cachekv_quant): expected",
                ),
            ],
        ),
        Row(
            MT,
            [
                call(part(1, 2, 4), *weights(held=np.asarray), attn_mask=part(1, 1, 2, 2)),
                call(
                    part(1, 2, 4),
                    *weights(2, (4, 2, 4), 12, False),
                    norm_type="rmsnorm",
                    activation="swiglu",
                    gqa_group_size=1,
                    residual_alpha=0.5,
                ),
                call(
                    part(2, 3, 4),
                    *weights(qkv=(4, 3, 2, 2)),
                    False,
                    seq_lens=i32(2, 3),
                    rotary_emb_dims=1,
                    rotary_embs=still(part(2, 2, 1, 3, 2)),
                    activation="relu",
                    trans_qkvw=False,
                ),
                call(
                    part(2, 1, 4),
                    *weights(),
                    cache_kvs=[still(part(2, 2, 2, 5, 2))],
                    time_step=STEP,
                    attn_mask=still(part(2, 1, 1, 3)),
                ),
                call(
                    part(2, 1, 4),
                    *weights(),
                    cache_kvs=[still(part(2, 2, 2, 5, 2))],
                    time_step=STEP,
                    seq_lens=i32(1, 2),
                    rotary_emb_dims=1,
                    rotary_embs=still(part(2, 2, 1, 6, 2)),
                    use_neox_rotary_style=True,
                ),
                call(
                    part(1, 2, 4),
                    *weights(),
                    pre_caches=[still(part(2, 1, 2, 1, 2))],
                    cache_kvs=[still(part(2, 1, 2, 5, 2))],
                ),
                call(np.zeros((0, 2, 4)), *weights()),
            ],
            _transformer,
            skip={"0-d": PARTS},
            loose=ROUNDED,
            slow=True,
            bad=[
                Bad(call(part(2, 4), *weights()), f"{MT}(x): expected shape [batch, length, width]"),
                Bad(
                    call(part(1, 2, 4), *weights(), norm_type="x"),
                    f"{MT}(norm_type): expected 'layernorm' or 'rmsnorm'",
                ),
                Bad(
                    call(part(1, 2, 4), *weights()[:-1], [part(4)] * 2),
                    f"{MT}(ffn2_biases): expected a list of 1 Tensors",
                    TypeError,
                ),
                Bad(
                    call(part(1, 2, 4), *weights(qkv=(3, 2, 2, 5))),
                    f"{MT}(qkv_weights): expected shape [3, heads, head width, 4]",
                ),
                Bad(
                    call(part(1, 1, 4), *weights(), time_step=STEP), f"{MT}(cache_kvs): expected a cache for each layer"
                ),
            ],
        ),
    ],
    keep=1,
)
