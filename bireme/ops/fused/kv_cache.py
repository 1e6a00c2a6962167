"""Attention step by step: a cache of keys and values, written where each sequence has come to."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.tensor.grad_mode import GradMode
from bireme.ops.creation.tensors import arange, zeros
from bireme.ops.fused.attention import attend_valid, lengths_of
from bireme.ops.fused.matmul import dequantised, quantised
from bireme.ops.fused.rotary import turned
from bireme.ops.manipulation.join import concat

# ---------------------------------------------------------------- one cache for each sequence


def _places(start, n, steps):
    """For each step of a cache which of n new rows it gets, [batch, 1, steps, 1], and whether it gets one."""
    row = (jnp.arange(steps).astype(np.int32)[None] - start.reshape(-1, 1).astype(np.int32))[:, None, :, None]
    return jnp.clip(row, 0, n - 1), (row >= 0) & (row < n)


@op(internal=True, dtypes=FLOAT, numpy=True)
def write_steps(cache: Tensor, keys: Tensor, values: Tensor, start: Tensor) -> Tensor:
    """A cache [2, batch, heads, steps, width] with keys and values [batch, heads, n, width] written from a step on."""
    n, steps = keys.shape[2], cache.shape[3]
    if not n:
        return cache
    row, new = _places(start, n, steps)
    written = [
        jnp.where(new, jnp.take_along_axis(t.astype(cache.dtype), row, axis=2), cache[i])
        for i, t in enumerate((keys, values))
    ]
    return jnp.stack(written)


@write_steps.grad(numpy=True)
def _(g, start, sigs):
    n, steps = sigs[1].shape[2], g.shape[3]
    if not n or not steps:
        return g, *[jnp.zeros(s.shape, s.dtype.np) for s in sigs[1:3]], None
    _, new = _places(start, n, steps)
    at = (jnp.arange(n).astype(np.int32)[None] + start.reshape(-1, 1).astype(np.int32))[:, None, :, None]
    rows = [jnp.take_along_axis(t, jnp.clip(at, 0, steps - 1), axis=2) for t in (g[0], g[1])]
    kept = [
        jnp.where((at >= 0) & (at < steps), t, jnp.zeros((), g.dtype)).astype(s.dtype.np)
        for t, s in zip(rows, sigs[1:3])
    ]
    return jnp.where(new, jnp.zeros((), g.dtype), g), *kept, None


write_steps.infer(lambda cache: cache)


@write_steps.check
def _(cache, keys, values):
    batch, heads, _, width = keys.shape if keys.ndim == 4 else (0, 0, 0, 0)
    if cache.ndim != 5 or keys.shape != values.shape or cache.shape[:3] + cache.shape[4:] != (2, batch, heads, width):
        raise errors.bad(
            "write_steps(cache)",
            "shape [2, batch, heads, steps, width] for keys and values of shape [batch, heads, n, width]",
            described=f"shapes {list(cache.shape)}, {list(keys.shape)} and {list(values.shape)}",
            kind=errors.ShapeError,
        )


@op(internal=True, dtypes=FLOAT, upcast="grad")
def beam_cache(cache: Tensor, offsets: Tensor, start: Tensor) -> Tensor:
    """The cache that each beam sees: at every step that of the beam it came from, and its own at the last."""
    _, b, _, steps, _ = cache.shape
    beams = offsets.shape[1]
    own, step = jnp.arange(b)[:, None], jnp.arange(steps)[None]
    source = (own // beams) * beams + offsets.reshape(-1, offsets.shape[-1])[:, :steps]
    source = jnp.where(step == start.reshape(-1, 1), own, source)
    return jnp.transpose(cache[:, source, :, step], (2, 0, 3, 1, 4))


beam_cache.infer(lambda cache: cache)


def table_at(where: str, embs: Tensor, steps: Tensor | None, batch: int, width: int) -> list[Tensor]:
    """Cosines and sines [batch, 1, n, width] of a rotary table [2, batch, ..., n, width], all or at given steps."""
    if embs.ndim < 3 or embs.shape[0] != 2 or embs.shape[1] not in (1, batch) or embs.shape[-1] != width:
        raise errors.bad(
            where,
            f"shape [2, {batch}, ..., {width}], cosines and sines",
            described=f"shape {embs.shape}",
            kind=errors.ShapeError,
        )
    table = embs.reshape([2, embs.shape[1], -1, width])
    if steps is None or table.shape[2] == 1:
        return [t.unsqueeze(1) for t in table.unbind(0)]
    wide = table if table.shape[1] == batch else table.expand([2, batch, table.shape[2], width])
    at = steps.reshape([1, batch, 1, 1]).astype("int64").expand([2, batch, 1, width])
    return [t.unsqueeze(1) for t in wide.take_along_axis(at, 2).unbind(0)]


def padded(mask: Tensor, length: int) -> Tensor:
    """A mask as long as the cache: what is past its end is left out elsewhere."""
    n = mask.shape[-1]
    return mask[..., :length] if n >= length else concat([mask, zeros([*mask.shape[:-1], length - n], mask.dtype)], -1)


@composite(name_arg=False)
def masked_multihead_attention(x: Tensor, cache_kv: Tensor | None = None, bias: Tensor | None = None,
                               src_mask: Tensor | None = None, cum_offsets: Tensor | None = None,
                               sequence_lengths: Tensor | None = None, rotary_tensor: Tensor | None = None,
                               beam_cache_offset: Tensor | None = None, qkv_out_scale: Tensor | None = None,
                               out_shift: Tensor | None = None, out_smooth: Tensor | None = None, seq_len: int = 1,
                               rotary_emb_dims: int = 0, use_neox_rotary_style: bool = False,
                               compute_dtype: str = "default", out_scale: float = -1, quant_round_type: int = 1,
                               quant_max_bound: float = 127.0,
                               quant_min_bound: float = -127.0) -> tuple[Tensor, ...]:  # fmt: skip
    """One step of generation: the query of each sequence attends to its cache, which gets the new key and value.

    The index of the step is ``sequence_lengths``, or the last one that ``src_mask`` covers. There is no gradient.

    Args:
        x: Query, key and value of each sequence, of shape ``[N, (H + 2 * Hk) * D]``.
        cache_kv: Keys and values of shape ``[2, N, Hk, steps, D]``; it is changed. It must be given. Default: None.
        bias: Bias of ``x``, one element for each column. Default: None.
        src_mask: Tensor of shape ``[N, 1, 1, length]`` that is added to the scores. Default: None.
        cum_offsets: Not used. Default: None.
        sequence_lengths: Index of the step of each sequence, ``N`` integers. Default: None.
        rotary_tensor: Cosines and sines of the rotary embedding, of shape ``[2, N or 1, ..., D]``. Default: None.
        beam_cache_offset: For beam search, the beam that each step came from, ``[batch, beams, steps]``. Default: None.
        qkv_out_scale: Factors by which integers in ``x`` are dequantized, one for each column. Default: None.
        out_shift: Tensor that is added to the result, one element for each column. Default: None.
        out_smooth: Tensor that the result is multiplied by, one element for each column. Default: None.
        seq_len: Not used. Default: 1.
        rotary_emb_dims: 0 leaves the rotary embedding out. Default: 0.
        use_neox_rotary_style: Whether pairs of the rotary embedding are elements of both halves, else adjacent ones.
            Default: False.
        compute_dtype: Data type that integers are dequantized to: ``'default'`` or ``'fp32'`` for float32, ``'fp16'``
            or ``'bf16'``. Default: ``'default'``.
        out_scale: If positive, the result is quantized: multiplied by ``quant_max_bound * out_scale``, rounded,
            limited. Default: -1.
        quant_round_type: 0 rounds ties to even, anything else away from 0. Default: 1.
        quant_max_bound: Upper limit of quantized numbers. Default: 127.0.
        quant_min_bound: Lower limit of quantized numbers. Default: -127.0.

    Returns:
        Pair of the result, of shape ``[N, H * D]``, and ``cache_kv``; with ``beam_cache_offset`` also that.

    Examples:
        >>> x, cache = bireme.to_tensor([[1.0, 1.0, 5.0]]), bireme.zeros([2, 1, 1, 4, 1])
        >>> mask = bireme.zeros([1, 1, 1, 1])
        >>> out, cache = bireme.incubate.nn.functional.masked_multihead_attention(x, cache, src_mask=mask)
        >>> out.tolist(), cache[1].flatten().tolist()
        ([[5.0]], [5.0, 0.0, 0.0, 0.0])
    """
    finish = (out_shift, out_smooth, out_scale, quant_round_type, quant_max_bound, quant_min_bound)
    rotary = rotary_tensor if rotary_emb_dims > 0 else None
    with GradMode(False):  # a step of generation: its caches have no history
        return _step(
            x,
            cache_kv,
            bias,
            src_mask,
            sequence_lengths,
            rotary,
            beam_cache_offset,
            qkv_out_scale,
            not use_neox_rotary_style,
            compute_dtype,
            finish,
        )


def _step(
    x: Tensor,
    cache_kv: Tensor | None,
    bias: Tensor | None,
    src_mask: Tensor | None,
    sequence_lengths: Tensor | None,
    rotary: Tensor | None,
    beams: Tensor | None,
    scale: Tensor | None,
    adjacent: bool,
    compute_dtype: str,
    finish: tuple,
) -> tuple:
    name = "masked_multihead_attention"
    if cache_kv is None or cache_kv.ndim != 5 or cache_kv.shape[0] != 2:
        raise errors.bad(f"{name}(cache_kv)", "shape [2, batch, heads, steps, width]", cache_kv)
    _, batch, shared, steps, width = cache_kv.shape
    if (
        x.ndim != 2
        or x.shape[0] != batch
        or x.shape[1] % width
        or (x.shape[1] // width - 2 * shared) % shared
        or x.shape[1] // width <= 2 * shared
    ):
        raise errors.bad(
            f"{name}(x)",
            f"shape [{batch}, (heads + 2 * {shared}) * {width}], as the cache has it",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    heads = x.shape[1] // width - 2 * shared
    qkv = dequantised(name, x, None if scale is None else scale.reshape([-1]), compute_dtype)
    qkv = qkv if bias is None else qkv + bias.reshape([-1]).astype(qkv.dtype)
    qkv = qkv.reshape([batch, heads + 2 * shared, 1, width])
    query, key, value = qkv[:, :heads], qkv[:, heads : heads + shared], qkv[:, heads + shared :]
    at = _steps(name, sequence_lengths, src_mask, batch)
    if rotary is not None:
        cos, sin = table_at(f"{name}(rotary_tensor)", rotary, at, batch, width)
        query, key = [turned(t, cos, sin, adjacent) for t in (query, key)]
    new = write_steps(cache_kv, key, value, at)
    cache_kv._assign_value(new)
    seen = new if beams is None else beam_cache(new, beams, at)
    valid = arange(steps, dtype="int32").reshape([1, 1, 1, steps]) <= at.reshape([batch, 1, 1, 1]).astype("int32")
    mask = None if src_mask is None else padded(src_mask, steps)
    out = attend_valid(query, *[t.astype(query.dtype) for t in seen.unbind(0)], mask, valid, width**-0.5).reshape(
        [batch, heads * width]
    )
    out = finished(out, *finish)
    return (out, cache_kv) if beams is None else (out, cache_kv, beams)


def _steps(name: str, sequence_lengths: Tensor | None, src_mask: Tensor | None, batch: int) -> Tensor:
    if src_mask is not None and (src_mask.ndim != 4 or src_mask.shape[0] not in (1, batch) or src_mask.shape[2] != 1):
        raise errors.bad(
            f"{name}(src_mask)",
            f"shape [{batch}, 1, 1, length]",
            described=f"shape {src_mask.shape}",
            kind=errors.ShapeError,
        )
    if sequence_lengths is not None:
        return lengths_of(f"{name}(sequence_lengths)", sequence_lengths, batch)
    if src_mask is None:
        raise errors.bad(f"{name}(src_mask)", "src_mask or sequence_lengths, to know the position of the step", None)
    return zeros([batch], "int32") + (src_mask.shape[-1] - 1)


def finished(
    out: Tensor, shift: Tensor | None, smooth: Tensor | None, scale: float, round_type: int, most: float, least: float
) -> Tensor:
    """Shifted, smoothed and quantised, as far as asked."""
    if shift is not None:
        out = out + shift.reshape([-1]).astype(out.dtype)
    if smooth is not None:
        out = out * smooth.reshape([-1]).astype(out.dtype)
    return quantised(out, scale, round_type, most, least)
