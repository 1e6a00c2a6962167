"""Blocks of transformers under the names of Paddle's fused kernels, and attention to sequences of different lengths."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.precision import widen
from bireme.ops.creation.tensors import arange
from bireme.ops.fused.matmul import activation_of, floating
from bireme.ops.fused.norm import dropped, normed
from bireme.ops.linalg.matmul import matmul
from bireme.ops.manipulation.join import concat, stack
from bireme.ops.nn.attention import attention, attention_weights

# ---------------------------------------------------------------- attention to valid keys


@op(internal=True, dtypes=FLOAT, promote="query key value", amp="low")
def attend_valid(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, valid: Tensor, scale: Tensor | float
) -> Tensor:
    """Attention on [batch, heads, length, width] to valid keys alone, 0 where none is; heads of keys may be shared."""
    b, h, n, d = query.shape
    shared = key.shape[1]
    groups = h // shared if shared else 1

    def grouped(t):
        """Scores by shared head and group, whether the mask has heads or not."""
        return t[:, :, None] if t.shape[1] == 1 else t.reshape(t.shape[0], shared, groups, *t.shape[2:])

    q = widen(query).reshape(b, shared, groups, n, d)
    s = jnp.einsum("bhgqd,bhkd->bhgqk", q, widen(key)) * scale.astype(q.dtype)
    if mask is not None:
        s = s + grouped(mask.astype(s.dtype))
    kept = grouped(valid)
    s = jnp.where(kept, s, jnp.asarray(-np.inf, s.dtype))
    top = jnp.max(s, axis=-1, keepdims=True, initial=-np.inf)
    e = jnp.where(kept, jnp.exp(s - jnp.where(top == -np.inf, jnp.zeros_like(top), top)), jnp.zeros_like(s))
    total = jnp.sum(e, axis=-1, keepdims=True)
    out = jnp.einsum("bhgqk,bhkd->bhgqd", e / jnp.where(total == 0, jnp.ones_like(total), total), widen(value))
    return out.reshape(b, h, n, value.shape[-1]).astype(query.dtype)


attend_valid.infer(lambda query, value: sig_of((*query.shape[:3], value.shape[3]), query.dtype))


def check_heads(where: str, query: Any, key: Any, value: Any) -> None:
    """Queries, keys and values [batch, heads, length, width] that fit each other."""
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.ndim != 4:
            raise errors.bad(
                f"{where}({name})",
                "shape [batch, heads, length, width]",
                described=f"shape {list(t.shape)}",
                kind=errors.ShapeError,
            )
    if key.shape[:3] != value.shape[:3] or key.shape[0] != query.shape[0] or key.shape[3] != query.shape[3]:
        got = f"shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        raise errors.bad(f"{where}(key, value)", "keys and values of equal length that match the query", described=got)
    if not key.shape[1] or query.shape[1] % key.shape[1]:
        raise errors.bad(
            f"{where}(key)",
            f"a number of heads that divides the query's {query.shape[1]}",
            key.shape[1],
            kind=errors.for_number(key.shape[1]),
        )


def check_mask(where: str, mask: Any, full: tuple) -> None:
    if mask is not None and (mask.ndim != 4 or any(m not in (1, n) for m, n in zip(mask.shape, full, strict=True))):
        raise errors.bad(
            where,
            f"a mask that broadcasts to {list(full)}",
            described=f"shape {list(mask.shape)}",
            kind=errors.ShapeError,
        )


@attend_valid.check
def _(query, key, value, mask, valid):
    check_heads("attend_valid", query, key, value)
    for name, t in (("mask", mask), ("valid", valid)):
        check_mask(f"attend_valid({name})", t, (*query.shape[:3], key.shape[2]))


def lengths_of(where: str, t: Tensor, batch: int) -> Tensor:
    """A length for each sequence, as [batch]."""
    if t.dtype.kind != "i" or t._value.sig.size != batch:
        raise errors.bad(where, f"{batch} integers, one for each sequence", t)
    return t if t.ndim == 1 else t.reshape([batch])


@composite(plain=True, name_arg=False)
def variable_length_memory_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_lens: Tensor,
    kv_seq_lens: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    pre_cache_length: int = 0,
) -> Tensor:
    """Attention on a batch of sequences of different lengths, padded to one length.

    Args:
        query: Queries of shape ``[N, H, Lq, D]``, of a floating-point dtype.
        key: Keys of shape ``[N, Hk, Lk, D]``; ``H`` must be a multiple of ``Hk``.
        value: Values of shape ``[N, Hk, Lk, Dv]``.
        seq_lens: Number of queries of each sequence, ``N`` integers; what is behind them gives 0.
        kv_seq_lens: Number of keys of each sequence, ``N`` integers; those behind them are not seen.
        mask: Tensor that broadcasts to ``[N, H, Lq, Lk]`` and is added to the scores. Default: None.
        scale: Factor of the scores; ``None`` means ``1 / sqrt(D)``. Default: None.
        causal: Whether query ``i`` sees the keys 0 to ``i + pre_cache_length`` only. Default: False.
        pre_cache_length: Number of keys that come before the first query's own. Default: 0.

    Returns:
        Tensor of shape ``[N, H, Lq, Dv]`` and the dtype of ``query``.

    Examples:
        >>> q, n = bireme.ones([1, 1, 2, 2]), bireme.to_tensor([1])
        >>> bireme.incubate.nn.functional.variable_length_memory_efficient_attention(q, q, q, n, n).tolist()
        [[[[1.0, 1.0], [0.0, 0.0]]]]
    """
    where = "variable_length_memory_efficient_attention"
    check_heads(where, query, key, value)
    batch, heads, n, width = query.shape
    rows, columns = arange(n, dtype="int32"), arange(key.shape[2], dtype="int32")
    valid = rows.reshape([1, 1, n, 1]) < lengths_of(f"{where}(seq_lens)", seq_lens, batch).reshape(
        [batch, 1, 1, 1]
    ).astype("int32")
    kept = lengths_of(f"{where}(kv_seq_lens)", kv_seq_lens, batch).reshape([batch, 1, 1, 1]).astype("int32")
    valid = valid & (columns.reshape([1, 1, 1, -1]) < kept)
    if causal:
        valid = valid & (columns.reshape([1, 1, 1, -1]) <= rows.reshape([1, 1, n, 1]) + pre_cache_length)
    check_mask(f"{where}(mask)", mask, (batch, heads, n, key.shape[2]))
    return attend_valid(query, key, value, mask, valid, width**-0.5 if scale is None else scale)


# ---------------------------------------------------------------- blocks


def one_process(name: str, ring_id: int) -> None:
    if ring_id != -1:
        raise errors.bad(f"{name}(ring_id)", "-1, since the weights are not sharded", ring_id)


def keeping(mask: Tensor | None) -> Tensor | None:
    """A mask as scores take it: bool keeps where it is true, so do integers where they are not 0, floats are added."""
    return mask if mask is None or mask.dtype.is_inexact or mask.dtype.name == "bool" else mask.astype("bool")


def _project(name: str, x: Tensor, weight: Tensor, bias: Tensor | None, heads: int, transposed: bool) -> list[Tensor]:
    """Queries, keys and values [batch, length, heads, width] of `x`."""
    width = x.shape[2]
    if transposed:
        if heads <= 0 or width % heads:
            raise errors.bad(
                f"{name}(num_heads)",
                f"a number that divides the width {width}, as transpose_qkv_wb is True",
                heads,
                kind=errors.for_number(heads),
            )
        wanted, head = [width, 3 * width], width // heads
    else:
        fits = weight.ndim == 4
        heads, head = (weight.shape[1], weight.shape[2]) if fits else (0, 0)
        wanted = [3, heads, head, width] if fits else ["3", "heads", "head width", width]  # type: ignore[list-item]  # words for the message
    if weight.shape != wanted:
        raise errors.bad(
            f"{name}(qkv_weight)",
            f"shape [{', '.join(map(str, wanted))}]",
            described=f"shape {weight.shape}",
            kind=errors.ShapeError,
        )
    out = matmul(x, weight) if transposed else matmul(x, weight.reshape([3 * heads * head, width]), False, True)
    if bias is not None:
        if bias.size != 3 * heads * head:
            raise errors.bad(f"{name}(qkv_bias)", f"{3 * heads * head} elements", bias)
        out = out + bias.reshape([-1])
    return out.reshape([x.shape[0], x.shape[1], 3, heads, head]).unbind(2)


@composite(plain=True)
def fused_multi_head_attention(x: Tensor, qkv_weight: Tensor, linear_weight: Tensor, pre_layer_norm: bool = False,
                               pre_ln_scale: Tensor | None = None, pre_ln_bias: Tensor | None = None,
                               ln_scale: Tensor | None = None, ln_bias: Tensor | None = None,
                               pre_ln_epsilon: float = 1e-05, qkv_bias: Tensor | None = None,
                               linear_bias: Tensor | None = None, cache_kv: Tensor | None = None,
                               attn_mask: Tensor | None = None, dropout_rate: float = 0.5,
                               attn_dropout_rate: float = 0.5, ln_epsilon: float = 1e-05, training: bool = True,
                               mode: str = "upscale_in_train", ring_id: int = -1, add_residual: bool = True,
                               num_heads: int = -1,
                               transpose_qkv_wb: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Block of self-attention: projections, attention, dropout, residual, and layer normalization before or after it.

    Args:
        x: Tensor of shape ``[N, L, D]``, of a floating-point dtype.
        qkv_weight: Weights of queries, keys and values: ``[3, H, D / H, D]``, or ``[D, 3 * D]`` with
            ``transpose_qkv_wb``.
        linear_weight: Weight of the output projection, ``[D, D]``.
        pre_layer_norm: Whether to normalize the input rather than the result. Default: False.
        pre_ln_scale: Scales of the normalization of the input, ``[D]``; ``None`` means 1. Default: None.
        pre_ln_bias: Shifts of the normalization of the input, ``[D]``; ``None`` means 0. Default: None.
        ln_scale: Scales of the normalization of the result, ``[D]``; ``None`` means 1. Default: None.
        ln_bias: Shifts of the normalization of the result, ``[D]``; ``None`` means 0. Default: None.
        pre_ln_epsilon: Number added to the variance of the input. Default: 1e-05.
        qkv_bias: Bias of queries, keys and values, ``3 * D`` elements. Default: None.
        linear_bias: Bias of the output projection, ``[D]``. Default: None.
        cache_kv: Keys and values of the steps so far, ``[2, N, H, steps, D / H]``; they are extended by those of ``x``.
            Default: None.
        attn_mask: Mask that broadcasts to ``[N, H, L, keys]``: a bool or integer one is true where attention is
            allowed, a floating-point one is added to the scores. Default: None.
        dropout_rate: Probability of dropping an element of the output projection. Default: 0.5.
        attn_dropout_rate: Probability of dropping a weight of the attention. Default: 0.5.
        ln_epsilon: Number added to the variance of the result. Default: 1e-05.
        training: Whether to drop. Default: True.
        mode: ``'upscale_in_train'`` multiplies what is kept by ``1 / (1 - p)`` in training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` outside of training instead. Default: ``'upscale_in_train'``.
        ring_id: Must be -1: the weights are whole, in one process. Default: -1.
        add_residual: Whether to add ``x`` to the output projection. Default: True.
        num_heads: Number of heads ``H``; needed with ``transpose_qkv_wb``. Default: -1.
        transpose_qkv_wb: Whether ``qkv_weight`` has shape ``[D, 3 * D]``. Default: False.

    Returns:
        Tensor of the shape of ``x``; with ``cache_kv`` a pair of this and the extended cache.

    Examples:
        >>> x, qkv, out = bireme.ones([1, 2, 2]), bireme.ones([3, 1, 2, 2]), bireme.ones([2, 2])
        >>> bireme.incubate.nn.functional.fused_multi_head_attention(x, qkv, out, True, training=False).tolist()
        [[[1.0, 1.0], [1.0, 1.0]]]
    """
    name = "fused_multi_head_attention"
    one_process(name, ring_id)
    floating(f"{name}(x)", x)
    if x.ndim != 3:
        raise errors.bad(
            f"{name}(x)", "shape [batch, length, width]", described=f"shape {x.shape}", kind=errors.ShapeError
        )
    out = (
        normed(name, x, pre_ln_scale, pre_ln_bias, pre_ln_epsilon, "pre_ln_scale", "pre_ln_bias")
        if pre_layer_norm
        else x
    )
    query, key, value = _project(name, out, qkv_weight, qkv_bias, num_heads, transpose_qkv_wb)
    if cache_kv is not None:
        heads, head = query.shape[2:]
        if cache_kv.ndim != 5 or [*cache_kv.shape[:3], cache_kv.shape[4]] != [2, x.shape[0], heads, head]:
            raise errors.bad(
                f"{name}(cache_kv)",
                f"shape [2, {x.shape[0]}, {heads}, steps, {head}]",
                described=f"shape {cache_kv.shape}",
                kind=errors.ShapeError,
            )
        cache_kv = concat([cache_kv, stack([key, value]).transpose([0, 1, 3, 2, 4])], 3)
        key, value = cache_kv.transpose([0, 1, 3, 2, 4]).unbind(0)
    attn_mask = keeping(attn_mask)
    if attn_dropout_rate and (training or mode == "downscale_in_infer"):
        weights = dropped(
            name,
            "attn_dropout_rate",
            attention_weights(query, key, attn_mask, False),
            attn_dropout_rate,
            training,
            mode,
        )
        out = (weights @ value.transpose([0, 2, 1, 3])).transpose([0, 2, 1, 3])
    else:
        out = attention(query, key, value, attn_mask, False)
    out = matmul(out.reshape([x.shape[0], x.shape[1], query.shape[2] * query.shape[3]]), linear_weight)
    out = dropped(name, "dropout_rate", out if linear_bias is None else out + linear_bias, dropout_rate, training, mode)
    out = x + out if add_residual else out
    if not pre_layer_norm:
        out = normed(name, out, ln_scale, ln_bias, ln_epsilon, "ln_scale", "ln_bias")
    return out if cache_kv is None else (out, cache_kv)


@composite(plain=True)
def fused_feedforward(
    x: Tensor,
    linear1_weight: Tensor,
    linear2_weight: Tensor,
    linear1_bias: Tensor | None = None,
    linear2_bias: Tensor | None = None,
    ln1_scale: Tensor | None = None,
    ln1_bias: Tensor | None = None,
    ln2_scale: Tensor | None = None,
    ln2_bias: Tensor | None = None,
    dropout1_rate: float = 0.5,
    dropout2_rate: float = 0.5,
    activation: str = "relu",
    ln1_epsilon: float = 1e-05,
    ln2_epsilon: float = 1e-05,
    pre_layer_norm: bool = False,
    training: bool = True,
    mode: str = "upscale_in_train",
    ring_id: int = -1,
    add_residual: bool = True,
) -> Tensor:
    """Feed-forward block: two linear maps and an activation, dropout, residual, and layer normalization before or after
    it.

    Args:
        x: Tensor of shape ``[..., D]``, of a floating-point dtype.
        linear1_weight: Weight of the first map, ``[D, F]``.
        linear2_weight: Weight of the second map, ``[F, D]``.
        linear1_bias: Bias of the first map, ``[F]``. Default: None.
        linear2_bias: Bias of the second map, ``[D]``. Default: None.
        ln1_scale: Scales of the normalization of the input, ``[D]``; ``None`` means 1. Default: None.
        ln1_bias: Shifts of the normalization of the input, ``[D]``; ``None`` means 0. Default: None.
        ln2_scale: Scales of the normalization of the result, ``[D]``; ``None`` means 1. Default: None.
        ln2_bias: Shifts of the normalization of the result, ``[D]``; ``None`` means 0. Default: None.
        dropout1_rate: Probability of dropping an element after the activation. Default: 0.5.
        dropout2_rate: Probability of dropping an element after the second map. Default: 0.5.
        activation: ``'relu'``, ``'gelu'`` or another activation that ``fused_bias_act`` has. Default: ``'relu'``.
        ln1_epsilon: Number added to the variance of the input. Default: 1e-05.
        ln2_epsilon: Number added to the variance of the result. Default: 1e-05.
        pre_layer_norm: Whether to normalize the input rather than the result. Default: False.
        training: Whether to drop. Default: True.
        mode: ``'upscale_in_train'`` multiplies what is kept by ``1 / (1 - p)`` in training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` outside of training instead. Default: ``'upscale_in_train'``.
        ring_id: Must be -1: the weights are whole, in one process. Default: -1.
        add_residual: Whether to add ``x`` to the second map. Default: True.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> x, w = bireme.to_tensor([[[1.0, 3.0]]]), bireme.ones([2, 2])
        >>> bireme.incubate.nn.functional.fused_feedforward(x, w, w, pre_layer_norm=True, training=False).tolist()
        [[[1.0, 3.0]]]
    """
    name = "fused_feedforward"
    one_process(name, ring_id)
    floating(f"{name}(x)", x)
    act = activation_of(f"{name}(activation)", activation)
    out = normed(name, x, ln1_scale, ln1_bias, ln1_epsilon, "ln1_scale", "ln1_bias") if pre_layer_norm else x
    out = matmul(out, linear1_weight)
    out = act(out if linear1_bias is None else out + linear1_bias)
    out = matmul(dropped(name, "dropout1_rate", out, dropout1_rate, training, mode), linear2_weight)
    out = dropped(
        name, "dropout2_rate", out if linear2_bias is None else out + linear2_bias, dropout2_rate, training, mode
    )
    out = x + out if add_residual else out
    return out if pre_layer_norm else normed(name, out, ln2_scale, ln2_bias, ln2_epsilon, "ln2_scale", "ln2_bias")
