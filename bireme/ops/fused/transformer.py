"""A whole transformer in one call, for prompts and for one step after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.declare.op import Attr, Tensor, composite
from bireme.ops.creation.tensors import arange, zeros
from bireme.ops.fused.attention import attend_valid, check_mask, lengths_of, one_process
from bireme.ops.fused.kv_cache import padded, table_at, write_steps
from bireme.ops.fused.matmul import activation_of, floating
from bireme.ops.fused.norm import dropped, normed, rms_norm_of
from bireme.ops.fused.rotary import turned
from bireme.ops.linalg.matmul import matmul
from bireme.ops.manipulation.join import concat

NAME = "fused_multi_transformer"


def _parts(count: int, **lists: Any) -> dict[str, list[Any]]:
    """For each kind of weight one of every layer; None stands for none at all."""
    found = {}
    for name, given in lists.items():
        if given is None:
            found[name] = [None] * count
            continue
        if not isinstance(given, (list, tuple)) or len(given) != count:
            raise errors.bad(f"{NAME}({name})", f"a list of {count} Tensors, one for each layer", given, kind=errors.ArgumentTypeError)
        found[name] = list(given)
    return found


class _Step:
    """What is the same for all layers of one call."""

    def __init__(self, x: Tensor, time_step: Tensor | None, seq_lens: Tensor | None, attn_mask: Tensor | None, rotary: Tensor | None):
        self.batch, self.length = x.shape[:2]
        self.attn_mask, self.rotary = attn_mask, rotary
        self.lens = None if seq_lens is None else lengths_of(f"{NAME}(seq_lens)", seq_lens, self.batch).astype("int32")
        self.decodes = time_step is not None
        if time_step is not None:
            if time_step.size != 1 or self.length != 1:
                raise errors.bad(
                    f"{NAME}(time_step)",
                    "one element, for a single step per sequence",
                    described=f"shape {time_step.shape} for x of {x.shape}",
                    kind=errors.ArgumentTypeError,
                )
            self.at = self.lens if self.lens is not None else zeros([self.batch], "int32") + time_step.reshape([]).astype("int32")
        else:
            self.at = zeros([self.batch], "int32")

    def attend(self, query: Tensor, key: Tensor, value: Tensor, cache: Tensor | None, pre: Tensor | None) -> Tensor:
        """Attention of [batch, heads, length, width] to itself and what is before it; the cache gets the new steps."""
        start = self.at
        if cache is not None:
            if cache.ndim != 5 or [*cache.shape[:3], cache.shape[4]] != [2, self.batch, key.shape[1], key.shape[3]]:
                wanted = f"shape [2, {self.batch}, {key.shape[1]}, steps, {key.shape[3]}]"
                raise errors.bad(f"{NAME}(cache_kvs)", wanted, described=f"shape {cache.shape}", kind=errors.ShapeError)
        if pre is not None:
            key, value = [concat([p, t], 2) for p, t in zip(pre.unbind(0), (key, value))]
        if cache is not None:
            new = write_steps(cache, key, value, start)
            cache._assign_value(new)
        if self.decodes:
            if cache is None:
                raise errors.bad(f"{NAME}(cache_kvs)", "a cache for each layer, since time_step is given", None)
            key, value = new.unbind(0)
        n, m = query.shape[2], key.shape[2]
        columns = arange(m, dtype="int32").reshape([1, 1, 1, m])
        last = start if self.decodes else (zeros([self.batch], "int32") + (m - 1) if self.lens is None else self.lens + (m - n - 1))
        valid = (columns <= last.reshape([self.batch, 1, 1, 1])).expand([self.batch, 1, n, m])
        mask = padded(self.attn_mask, m) if self.attn_mask is not None and self.decodes else self.attn_mask
        check_mask(f"{NAME}(attn_mask)", mask, (*query.shape[:3], m))
        return attend_valid(query, key, value, mask, valid, query.shape[3] ** -0.5)


def _heads(x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool, shared: int) -> list[Tensor]:
    """Queries, keys and values [batch, heads, length, width]."""
    width = x.shape[2]
    dims = weight.shape[:-1] if transposed else weight.shape[1:]
    if (weight.shape[-1] if transposed else weight.shape[0]) != width or len(dims) != (2 if shared > 0 else 3):
        wanted = ["heads + 2 * gqa_group_size" if shared > 0 else "3, heads", "head width"]
        full = [*wanted, str(width)] if transposed else [str(width), *wanted]
        raise errors.bad(f"{NAME}(qkv_weights)", f"shape [{', '.join(full)}]", described=f"shape {weight.shape}", kind=errors.ShapeError)
    total = dims[0] if shared > 0 else 3 * dims[1]
    kept = shared if shared > 0 else dims[1]
    flat = matmul(x, weight.reshape([total * dims[-1], width]), False, True) if transposed else matmul(x, weight.reshape([width, total * dims[-1]]))
    flat = flat if bias is None else flat + bias.reshape([-1])
    out = flat.reshape([x.shape[0], x.shape[1], total, dims[-1]]).transpose([0, 2, 1, 3])
    return [out[:, : total - 2 * kept], out[:, total - 2 * kept : total - kept], out[:, total - kept :]]


@composite()
def fused_multi_transformer(x: Tensor, ln_scales: Attr[Sequence[Tensor]], ln_biases: Attr[Sequence[Tensor]],
                            qkv_weights: Attr[Sequence[Tensor]], qkv_biases: Attr[Sequence[Tensor]],
                            linear_weights: Attr[Sequence[Tensor]], linear_biases: Attr[Sequence[Tensor]],
                            ffn_ln_scales: Attr[Sequence[Tensor]], ffn_ln_biases: Attr[Sequence[Tensor]],
                            ffn1_weights: Attr[Sequence[Tensor]], ffn1_biases: Attr[Sequence[Tensor]],
                            ffn2_weights: Attr[Sequence[Tensor]], ffn2_biases: Attr[Sequence[Tensor]],
                            pre_layer_norm: bool = True, epsilon: float = 1e-05, residual_alpha: float = 1.0,
                            cache_kvs: Attr[Sequence[Tensor]] = None, beam_offset: Tensor | None = None,
                            pre_caches: Attr[Sequence[Tensor]] = None, seq_lens: Tensor | None = None,
                            rotary_embs: Tensor | None = None, time_step: Tensor | None = None,
                            attn_mask: Tensor | None = None, dropout_rate: float = 0.0, rotary_emb_dims: int = 0,
                            activation: str = "gelu", training: bool = False, mode: str = "upscale_in_train",
                            trans_qkvw: bool = True, ring_id: int = -1, norm_type: str = "layernorm",
                            use_neox_rotary_style: bool = False,
                            gqa_group_size: int = -1) -> Tensor | tuple[Tensor, list[Tensor]]:  # fmt: skip
    """Whole transformer of self-attention and feed-forward blocks, for prompts and for one step after another.

    Each list has one tensor for each layer, and ``None`` in place of a list means none at all. With ``cache_kvs`` the
    keys and values of a prompt are kept, and with ``time_step`` those of one step more are written at its index.

    Args:
        x: Tensor of shape ``[N, L, D]``, of a floating-point dtype; ``L`` is 1 with ``time_step``.
        ln_scales: Scales of the normalizations of attention, ``[D]``.
        ln_biases: Shifts of the normalizations of attention, ``[D]``.
        qkv_weights: Weights of queries, keys and values: ``[3, H, D / H, D]``, or ``[H + 2 * Hk, D / H, D]`` with
            ``gqa_group_size``; with ``D`` first if not ``trans_qkvw``.
        qkv_biases: Bias of queries, keys and values.
        linear_weights: Weights of the output projections, ``[D, D]``.
        linear_biases: Biases of the output projections, ``[D]``.
        ffn_ln_scales: Scales of the normalizations of the feed-forward blocks, ``[D]``.
        ffn_ln_biases: Shifts of the normalizations of the feed-forward blocks, ``[D]``.
        ffn1_weights: Weights of the first maps of the feed-forward blocks, ``[D, F]``.
        ffn1_biases: Biases of these maps, ``[F]``.
        ffn2_weights: Weights of the second maps, ``[F, D]``.
        ffn2_biases: Biases of these maps, ``[D]``.
        pre_layer_norm: Whether to normalize the input of each block rather than its result. Default: True.
        epsilon: Number added to variances, or to mean squares. Default: 1e-05.
        residual_alpha: Factor of the residual. Default: 1.0.
        cache_kvs: Caches of shape ``[2, N, H, steps, D / H]``; they are changed. Default: None.
        beam_offset: Must be ``None``. Default: None.
        pre_caches: Keys and values before a prompt, ``[2, N, H, length, D / H]``. Default: None.
        seq_lens: Length of each sequence, ``N`` integers; with ``time_step`` the index of its step. Default: None.
        rotary_embs: Cosines and sines of the rotary embedding, ``[2, N or 1, ..., positions, D / H]``. Default: None.
        time_step: Index of the step, a tensor of one element; ``None`` means a prompt. Default: None.
        attn_mask: Tensor that broadcasts to ``[N, H, L, keys]`` and is added to the scores. Default: None.
        dropout_rate: Probability of dropping an element. Default: 0.0.
        rotary_emb_dims: 1 uses the rotary embedding, 0 leaves it out. Default: 0.
        activation: ``'gelu'``, ``'relu'`` or another activation that ``fused_bias_act`` has. Default: ``'gelu'``.
        training: Whether to drop. Default: False.
        mode: ``'upscale_in_train'`` multiplies what is kept by ``1 / (1 - p)`` in training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` outside of training instead. Default: ``'upscale_in_train'``.
        trans_qkvw: Whether ``qkv_weights`` have ``D`` as their last axis. Default: True.
        ring_id: Must be -1: the weights are whole, in one process. Default: -1.
        norm_type: ``'layernorm'`` or ``'rmsnorm'``. Default: ``'layernorm'``.
        use_neox_rotary_style: Whether pairs of the rotary embedding are elements of both halves, else adjacent ones.
            Default: False.
        gqa_group_size: Number of heads ``Hk`` of keys and values, if positive; otherwise as many as of queries.
            Default: -1.

    Returns:
        Tensor of the shape of ``x``; with ``cache_kvs`` a pair of this and the list of caches.

    Examples:
        >>> one, w = bireme.ones([2]), bireme.ones([2, 2])
        >>> attention = one, one * 0, bireme.ones([3, 1, 2, 2]), None, w, None
        >>> lists = [[t] for t in (*attention, one, one * 0, w, None, w, None)]
        >>> bireme.incubate.nn.functional.fused_multi_transformer(bireme.to_tensor([[[1.0, 1.0]]]), *lists).tolist()
        [[[1.0, 1.0]]]
    """
    one_process(NAME, ring_id)
    floating(f"{NAME}(x)", x)
    if x.ndim != 3:
        raise errors.bad(f"{NAME}(x)", "shape [batch, length, width]", described=f"shape {x.shape}", kind=errors.ShapeError)
    if norm_type not in ("layernorm", "rmsnorm"):
        raise errors.bad(f"{NAME}(norm_type)", "'layernorm' or 'rmsnorm'", norm_type)
    if rotary_emb_dims not in (0, 1):
        raise errors.bad(f"{NAME}(rotary_emb_dims)", "0 or 1", rotary_emb_dims)
    if beam_offset is not None:
        raise errors.bad(f"{NAME}(beam_offset)", "None, since every sequence has its own cache", beam_offset)
    act = activation_of(f"{NAME}(activation)", activation)
    count = len(qkv_weights) if isinstance(qkv_weights, (list, tuple)) else 0
    parts = _parts(count, ln_scales=ln_scales, ln_biases=ln_biases, qkv_weights=qkv_weights, qkv_biases=qkv_biases, linear_weights=linear_weights,
                   linear_biases=linear_biases, ffn_ln_scales=ffn_ln_scales, ffn_ln_biases=ffn_ln_biases, ffn1_weights=ffn1_weights,
                   ffn1_biases=ffn1_biases, ffn2_weights=ffn2_weights, ffn2_biases=ffn2_biases, cache_kvs=cache_kvs,
                   pre_caches=pre_caches)  # fmt: skip
    step = _Step(x, time_step, seq_lens, attn_mask, rotary_embs if rotary_emb_dims else None)

    def norm(t: Tensor, scale: Tensor, bias: Tensor | None, which: str) -> Tensor:
        if norm_type == "rmsnorm":
            return rms_norm_of(t, scale, bias, epsilon, (2,))
        return normed(NAME, t, scale, bias, epsilon, f"{which}_scales", f"{which}_biases")

    def drop(t: Tensor) -> Tensor:
        return dropped(NAME, "dropout_rate", t, dropout_rate, training, mode)

    def joined(residual: Tensor, t: Tensor, bias: Tensor | None) -> Tensor:
        return (residual if residual_alpha == 1 else residual * residual_alpha) + drop(t if bias is None else t + bias)

    for i in range(count):
        p = {name: given[i] for name, given in parts.items()}
        out = norm(x, p["ln_scales"], p["ln_biases"], "ln") if pre_layer_norm else x
        query, key, value = _heads(out, p["qkv_weights"], p["qkv_biases"], trans_qkvw, gqa_group_size)
        if step.rotary is not None:
            tables = table_at(f"{NAME}(rotary_embs)", step.rotary, step.at if step.decodes else None, step.batch, query.shape[3])
            if tables[0].shape[2] != step.length:
                raise errors.bad(
                    f"{NAME}(rotary_embs)", f"{step.length} positions, as x has", described=f"shape {step.rotary.shape}", kind=errors.ShapeError
                )
            query, key = [turned(t, *tables, not use_neox_rotary_style) for t in (query, key)]
        out = step.attend(query, key, value, p["cache_kvs"], p["pre_caches"])
        out = matmul(out.transpose([0, 2, 1, 3]).reshape([step.batch, step.length, query.shape[1] * query.shape[3]]), p["linear_weights"])
        x = joined(x, out, p["linear_biases"])
        x = x if pre_layer_norm else norm(x, p["ln_scales"], p["ln_biases"], "ln")
        out = norm(x, p["ffn_ln_scales"], p["ffn_ln_biases"], "ffn_ln") if pre_layer_norm else x
        out = matmul(out, p["ffn1_weights"])
        out = matmul(drop(act(out if p["ffn1_biases"] is None else out + p["ffn1_biases"])), p["ffn2_weights"])
        x = joined(x, out, p["ffn2_biases"])
        x = x if pre_layer_norm else norm(x, p["ffn_ln_scales"], p["ffn_ln_biases"], "ffn_ln")
    return x if cache_kvs is None else (x, list(cache_kvs))
