"""Attention with caches in blocks: packed sequences, each with a table of the blocks that hold its steps."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.precision import widen
from bireme.ops.fused.kv_cache import finished
from bireme.ops.fused.matmul import dequantised
from bireme.ops.manipulation.join import concat, stack
from bireme.ops.reduction.reductions import max as largest


@composite(name_arg=False)
def blha_get_max_len(seq_lens_encoder: Tensor, seq_lens_decoder: Tensor, batch_size: Tensor) -> tuple[Tensor, Tensor]:
    """Greatest lengths of a batch, which ``block_multihead_attention`` takes.

    Args:
        seq_lens_encoder: Length of the prompt of each sequence, integers.
        seq_lens_decoder: Number of steps so far of each sequence, integers.
        batch_size: Not used.

    Returns:
        Pair of the greatest length of a prompt and the greatest number of steps, int32 of shape ``[1]``.

    Examples:
        >>> a, b = bireme.to_tensor([2, 5], dtype="int32"), bireme.to_tensor([7, 0], dtype="int32")
        >>> [t.tolist() for t in bireme.incubate.nn.functional.blha_get_max_len(a, b, bireme.ones([2]))]
        [[5], [7]]
    """
    for name, t in (("seq_lens_encoder", seq_lens_encoder), ("seq_lens_decoder", seq_lens_decoder)):
        if t.dtype.kind != "i" or not t._value.sig.size:
            raise errors.bad(
                f"blha_get_max_len({name})",
                "an integer tensor, one element per sequence",
                t,
                kind=errors.for_integer(t),
            )
    return tuple([largest(t).reshape([1]).astype("int32") for t in (seq_lens_encoder, seq_lens_decoder)])


def _turn(x, cos, sin, halves):
    n = x.shape[-1] // 2
    if halves:
        partner = jnp.concatenate([-x[..., n:], x[..., :n]], axis=-1)
    else:
        partner = jnp.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return x * cos + partner * sin


def _written(cache, rows, scale, tables, sequence, position, most, least, away):
    """A cache [blocks, heads, steps, width] with a row [heads, width] for each token, at the block of its table."""
    places = cache.shape[2]
    block = tables[sequence, jnp.clip(position // places, 0, tables.shape[1] - 1)]
    lost = (position >= tables.shape[1] * places) | (block < 0)
    if scale is not None:  # bytes around 128
        q = rows * scale.reshape(-1, 1) * np.float32(most)
        q = jnp.sign(q) * jnp.floor(jnp.abs(q) + np.float32(0.5)) if away else jnp.round(q)
        rows = jnp.clip(q, least, most) + 128
    return cache.at[jnp.where(lost, cache.shape[0], block), :, position % places].set(
        rows.astype(cache.dtype), mode="drop"
    )


def _whole(cache, scale, tables, kind):
    """The steps of each sequence in one piece, [batch, heads, steps, width]."""
    found = jnp.moveaxis(cache[jnp.clip(tables, 0, cache.shape[0] - 1)], 2, 1)
    found = found.reshape(tables.shape[0], cache.shape[1], tables.shape[1] * cache.shape[2], cache.shape[3]).astype(
        kind
    )
    return found if scale is None else (found - 128) * scale.reshape(-1, 1, 1).astype(kind)


@op(internal=True, differentiable=False)
def block_attention(
    qkv: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    encoder: Tensor,
    decoder: Tensor,
    starts: Tensor,
    tables: Tensor,
    pre_key: Tensor | None,
    pre_value: Tensor | None,
    scales: list[Tensor],
    rope: Tensor | None,
    mask: Tensor | None,
    tgt_mask: Tensor | None,
    most: int,
    halves: bool,
    limits: tuple,
) -> list[Tensor]:
    """Results of tokens [tokens, heads, width] and the two caches after them; use `block_multihead_attention`."""
    shared, width = key_cache.shape[1], key_cache.shape[3]
    tokens, heads, batch = qkv.shape[0], qkv.shape[1] - 2 * shared, tables.shape[0]
    before = 0 if pre_key is None else pre_key.shape[2]
    starts, encoder, decoder = [t.reshape(-1).astype(np.int32) for t in (starts, encoder, decoder)]
    token = jnp.arange(tokens, dtype=np.int32)
    sequence = jnp.clip(jnp.searchsorted(starts, token, side="right").astype(np.int32) - 1, 0, batch - 1)
    place = token - starts[sequence]
    position = decoder[sequence] + place
    wide = widen(qkv)
    query, key, value = wide[:, :heads], wide[:, heads : heads + shared], wide[:, heads + shared :]
    if rope is not None:
        at = rope[:, jnp.clip(sequence, 0, rope.shape[1] - 1), jnp.clip(position, 0, rope.shape[2] - 1)][
            :, :, None
        ].astype(wide.dtype)
        query, key = [_turn(t, at[0], at[1], halves) for t in (query, key)]
    prompt = (encoder > 0)[sequence]
    position = position + jnp.where(prompt, before, 0)  # what comes before a prompt takes its first steps
    quant, dequant = (scales[:2], scales[2:]) if scales else ([None] * 2, [None] * 2)
    caches = []
    for cache, rows, pre, scale in ((key_cache, key, pre_key, quant[0]), (value_cache, value, pre_value, quant[1])):
        if pre is not None:
            owner = jnp.repeat(jnp.arange(batch, dtype=np.int32), before)
            spot = jnp.where(
                (encoder > 0)[owner],
                jnp.tile(jnp.arange(before, dtype=np.int32), batch),
                tables.shape[1] * cache.shape[2],
            )
            flat = jnp.moveaxis(pre, 1, 2).reshape(batch * before, shared, width).astype(wide.dtype)
            cache = _written(cache, flat, scale, tables, owner, spot, *limits)
        caches.append(_written(cache, rows, scale, tables, sequence, position, *limits))
    keys, values = [_whole(c, s, tables, wide.dtype) for c, s in zip(caches, dequant)]
    steps = keys.shape[2]
    laid = jnp.zeros((batch, most, heads, width), wide.dtype).at[sequence, place].set(query, mode="drop")
    laid = jnp.moveaxis(laid, 2, 1).reshape(batch, shared, heads // shared, most, width)
    s = jnp.einsum("bhgqd,bhkd->bhgqk", laid, keys) * np.asarray(width**-0.5, wide.dtype)
    row, column = jnp.arange(most, dtype=np.int32)[None, :, None], jnp.arange(steps, dtype=np.int32)[None, None]
    first = (encoder > 0).reshape(-1, 1, 1)
    length, past = encoder.reshape(-1, 1, 1), decoder.reshape(-1, 1, 1)
    causal = column <= past + row + jnp.where(first, before, 0)
    valid = causal if mask is None else jnp.where(first, column < length + before, causal)
    for given, where in ((mask, first), (tgt_mask, ~first)):
        if given is not None:
            rows = given[:, :, : min(most, given.shape[2]), :steps].astype(wide.dtype)
            short = most - rows.shape[2] if rows.shape[2] > 1 else 0
            rows = jnp.pad(rows, ((0, 0), (0, 0), (0, short), (0, steps - rows.shape[3])))
            s = s + jnp.where(where[:, None], rows, 0).astype(wide.dtype)[:, :, None]
    kept = valid[:, None, None]
    s = jnp.where(kept, s, np.asarray(-np.inf, s.dtype))
    top = jnp.max(s, axis=-1, keepdims=True, initial=np.finfo(s.dtype).min)
    e = jnp.where(kept, jnp.exp(s - top), jnp.zeros_like(s))
    total = jnp.sum(e, axis=-1, keepdims=True)
    out = jnp.einsum("bhgqk,bhkd->bhgqd", e / jnp.where(total == 0, jnp.ones_like(total), total), values)
    out = jnp.moveaxis(out.reshape(batch, heads, most, width), 1, 2)[sequence, jnp.clip(place, 0, max(most - 1, 0))]
    return [out.reshape(tokens, heads * width).astype(qkv.dtype), *caches]


@block_attention.infer
def _(qkv, key_cache, value_cache):
    return [
        sig_of((qkv.shape[0], (qkv.shape[1] - 2 * key_cache.shape[1]) * key_cache.shape[3]), qkv.dtype),
        key_cache,
        value_cache,
    ]


NAME = "block_multihead_attention"


def _rope(table: Tensor | None, batch: int, width: int, halves: bool) -> Tensor | None:
    """A rotary table [2, batch, steps, 1, width or half of it] in full width, as [2, batch, steps, width]."""
    if table is None:
        return None
    if (
        table.ndim != 5
        or table.shape[0] != 2
        or table.shape[1] not in (1, batch)
        or table.shape[3] != 1
        or table.shape[4] not in (width, width // 2)
    ):
        raise errors.bad(
            f"{NAME}(rope_emb)",
            f"shape [2, {batch}, steps, 1, {width // 2}]",
            described=f"shape {table.shape}",
            kind=errors.ShapeError,
        )
    dims = [2, table.shape[1], table.shape[2]]
    flat = table.reshape([*dims, table.shape[4]])
    if table.shape[4] == width:
        return flat
    return concat([flat, flat], -1) if halves else stack([flat, flat], -1).reshape([*dims, width])


def _check(
    qkv: Tensor, key_cache: Tensor, value_cache: Tensor, tables: Tensor, block_size: int, **lengths: Tensor
) -> None:
    if key_cache.ndim != 4 or key_cache.shape != value_cache.shape or key_cache.shape[2] != block_size:
        got = f"shapes {key_cache.shape} and {value_cache.shape}"
        raise errors.bad(
            f"{NAME}(key_cache, value_cache)",
            f"two tensors of equal shape [blocks, heads, {block_size}, width]",
            described=got,
        )
    _, shared, _, width = key_cache.shape
    columns = qkv.shape[1] if qkv.ndim == 2 else 0
    if not width or columns % width or columns // width <= 2 * shared or (columns // width) % shared:
        raise errors.bad(
            f"{NAME}(qkv)",
            f"shape [tokens, (heads + 2 * {shared}) * {width}], as the caches have it",
            described=f"shape {qkv.shape}",
            kind=errors.ShapeError,
        )
    if tables.ndim != 2 or tables.dtype.kind != "i" or not tables.shape[1]:
        raise errors.bad(
            f"{NAME}(block_tables)",
            "an integer tensor of shape [batch, blocks of a sequence]",
            tables,
            kind=errors.for_integer(tables),
        )
    for name, t in lengths.items():
        wanted = tables.shape[0] + (name == "cu_seqlens_q")
        if t.dtype.kind != "i" or t._value.sig.size != wanted:
            raise errors.bad(f"{NAME}({name})", f"{wanted} integers", t)


@composite(name_arg=False)
def block_multihead_attention(qkv: Tensor, key_cache: Tensor, value_cache: Tensor, seq_lens_encoder: Tensor,
                              seq_lens_decoder: Tensor, seq_lens_this_time: Tensor, padding_offsets: Tensor,
                              cum_offsets: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, block_tables: Tensor,
                              pre_key_cache: Tensor | None = None, pre_value_cache: Tensor | None = None,
                              cache_k_quant_scales: Tensor | None = None, cache_v_quant_scales: Tensor | None = None,
                              cache_k_dequant_scales: Tensor | None = None,
                              cache_v_dequant_scales: Tensor | None = None, qkv_out_scale: Tensor | None = None,
                              qkv_bias: Tensor | None = None, out_shift: Tensor | None = None,
                              out_smooth: Tensor | None = None, max_enc_len_this_time: Tensor | None = None,
                              max_dec_len_this_time: Tensor | None = None, rope_emb: Tensor | None = None,
                              mask: Tensor | None = None, tgt_mask: Tensor | None = None, max_seq_len: int = -1,
                              block_size: int = 64, use_neox_style: bool = False,
                              use_dynamic_cachekv_quant: bool = False, quant_round_type: int = 1,
                              quant_max_bound: float = 127.0, quant_min_bound: float = -127.0, out_scale: float = -1,
                              compute_dtype: str = "default",
                              rope_theta: float = 10000.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Attention with paged caches: prompts and single steps of many sequences in one call.

    Tokens of all sequences follow each other without padding. The caches are divided into blocks, and ``block_tables``
    says which blocks hold the steps of a sequence; the keys and values of the new tokens are written into them, in
    place. A token of a prompt sees the tokens before it, or what ``mask`` allows; a step sees all steps of its
    sequence.

    Args:
        qkv: Queries, keys and values of shape ``[tokens, (H + 2 * Hk) * D]``.
        key_cache: Keys of shape ``[blocks, Hk, block_size, D]``; it is changed.
        value_cache: Values of the same shape; it is changed.
        seq_lens_encoder: Length of the prompt of each sequence, 0 for one that makes a single step.
        seq_lens_decoder: Number of steps so far of each sequence.
        seq_lens_this_time: Not used: the numbers of tokens follow from ``cu_seqlens_q``.
        padding_offsets: Not used.
        cum_offsets: Not used.
        cu_seqlens_q: Integers of shape ``[sequences + 1]``: where the tokens of each sequence begin.
        cu_seqlens_k: Not used.
        block_tables: Integers of shape ``[sequences, blocks of a sequence]``: the blocks of each sequence; negative
            ones are none.
        pre_key_cache: Keys before each prompt, ``[sequences, Hk, length, D]``. Default: None.
        pre_value_cache: Values before each prompt, of the same shape. Default: None.
        cache_k_quant_scales: Factors by which keys are quantized, one for each of the ``Hk`` heads; all four scales or
            none. Default: None.
        cache_v_quant_scales: Factors by which values are quantized. Default: None.
        cache_k_dequant_scales: Factors by which keys are dequantized. Default: None.
        cache_v_dequant_scales: Factors by which values are dequantized. Default: None.
        qkv_out_scale: Factors by which integers in ``qkv`` are dequantized, one for each column. Default: None.
        qkv_bias: Bias of ``qkv``, one element for each column. Default: None.
        out_shift: Tensor that is added to the result, one element for each column. Default: None.
        out_smooth: Tensor that the result is multiplied by, one element for each column. Default: None.
        max_enc_len_this_time: Not used. Default: None.
        max_dec_len_this_time: Not used. Default: None.
        rope_emb: Cosines and sines of the rotary embedding, ``[2, sequences or 1, steps, 1, D / 2 or D]``.
            Default: None.
        mask: Tensor of shape ``[sequences, 1, queries, keys]`` that is added to the scores of prompts and takes the
            place of the causal mask. Default: None.
        tgt_mask: Tensor of shape ``[sequences, 1, queries, keys]`` that is added to the scores of steps. Default: None.
        max_seq_len: Greatest number of tokens of a sequence in this call; -1 means no limit. Default: -1.
        block_size: Number of steps in a block. Default: 64.
        use_neox_style: Whether pairs of the rotary embedding are elements of both halves, else adjacent ones.
            Default: False.
        use_dynamic_cachekv_quant: Must be ``False``. Default: False.
        quant_round_type: 0 rounds ties to even, anything else away from 0. Default: 1.
        quant_max_bound: Upper limit of quantized numbers. Default: 127.0.
        quant_min_bound: Lower limit of quantized numbers. Default: -127.0.
        out_scale: If positive, the result is quantized: multiplied by ``quant_max_bound * out_scale``, rounded,
            limited. Default: -1.
        compute_dtype: Data type that integers are dequantized to: ``'default'`` or ``'fp32'`` for float32, ``'fp16'``
            or ``'bf16'``. Default: ``'default'``.
        rope_theta: Not used: the angles are in ``rope_emb``. Default: 10000.0.

    Returns:
        Tuple of the result, of shape ``[tokens, H * D]``; ``qkv``; ``key_cache``; ``value_cache``.

    Examples:
        >>> F = bireme.incubate.nn.functional
        >>> n, cache = bireme.to_tensor([1], dtype="int32"), bireme.zeros([1, 1, 2, 1])
        >>> cu, table = bireme.to_tensor([0, 1], dtype="int32"), bireme.to_tensor([[0]], dtype="int32")
        >>> rest = n, n * 0, n, n, n, cu, cu, table
        >>> x, values = bireme.ones([1, 3]), cache.clone()
        >>> out, _, keys, _ = F.block_multihead_attention(x, cache, values, *rest, block_size=2)
        >>> out.tolist(), keys.flatten().tolist()
        ([[1.0]], [1.0, 0.0])
    """
    if use_dynamic_cachekv_quant:
        raise errors.bad(f"{NAME}(use_dynamic_cachekv_quant)", "False, since scales of the caches are given", True)
    _check(
        qkv,
        key_cache,
        value_cache,
        block_tables,
        block_size,
        seq_lens_encoder=seq_lens_encoder,
        seq_lens_decoder=seq_lens_decoder,
        cu_seqlens_q=cu_seqlens_q,
    )
    batch, shared, width = block_tables.shape[0], key_cache.shape[1], key_cache.shape[3]
    scales = [cache_k_quant_scales, cache_v_quant_scales, cache_k_dequant_scales, cache_v_dequant_scales]
    given = [t for t in scales if t is not None]
    if given and (len(given) != 4 or any(t.size != shared for t in given)):
        raise errors.bad(
            f"{NAME}(cache_k_quant_scales)",
            f"four scales of {shared} heads, or none",
            described=f"{len(given)} of them",
        )
    if (pre_key_cache is None) != (pre_value_cache is None):
        raise errors.bad(
            f"{NAME}(pre_value_cache)", "both pre_key_cache and pre_value_cache, or neither", described="one of them"
        )
    for which, t in (("pre_key_cache", pre_key_cache), ("pre_value_cache", pre_value_cache)):
        if t is not None and (t.ndim != 4 or [*t.shape[:2], t.shape[3]] != [batch, shared, width]):
            raise errors.bad(
                f"{NAME}({which})",
                f"shape [{batch}, {shared}, length, {width}]",
                described=f"shape {t.shape}",
                kind=errors.ShapeError,
            )
    for which, t in (("mask", mask), ("tgt_mask", tgt_mask)):
        if t is not None and (t.ndim != 4 or t.shape[0] != batch or t.shape[1] != 1):
            raise errors.bad(
                f"{NAME}({which})",
                f"shape [{batch}, 1, queries, keys]",
                described=f"shape {t.shape}",
                kind=errors.ShapeError,
            )
    rows = dequantised(NAME, qkv, None if qkv_out_scale is None else qkv_out_scale.reshape([-1]), compute_dtype)
    rows = rows if qkv_bias is None else rows + qkv_bias.reshape([-1]).astype(rows.dtype)
    tokens = qkv.shape[0]
    out, keys, values = block_attention(
        rows.reshape([tokens, qkv.shape[1] // width, width]),
        key_cache,
        value_cache,
        seq_lens_encoder,
        seq_lens_decoder,
        cu_seqlens_q,
        block_tables,
        pre_key_cache,
        pre_value_cache,
        given,
        _rope(rope_emb, batch, width, use_neox_style),
        mask,
        tgt_mask,
        min(tokens, max_seq_len) if max_seq_len > 0 else tokens,
        use_neox_style,
        (quant_max_bound, quant_min_bound, quant_round_type != 0),
    )
    key_cache._assign_value(keys)
    value_cache._assign_value(values)
    return (
        finished(out, out_shift, out_smooth, out_scale, quant_round_type, quant_max_bound, quant_min_bound),
        qkv,
        key_cache,
        value_cache,
    )
