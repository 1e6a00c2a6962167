"""Attention under the names of Paddle's flash kernels: packed, of several lengths, and with masks by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Attr, Extra, Tensor, composite
from bireme.ops.creation.tensors import arange, full
from bireme.ops.manipulation.join import stack
from bireme.ops.math.clip import clip, minimum
from bireme.ops.nn.attention import attention, attention_rows, attention_weights, check_rate, check_shapes
from bireme.ops.random.generators import randint

EVER = 2**31 - 1  # a row that no sequence has


def _seed(fixed: Tensor | None, rate: float, training: bool, where: str) -> Tensor | None:
    """Two integers that choose what is dropped; None where nothing is."""
    check_rate(f"{where}(dropout)", rate)
    if not (rate and training):
        return None
    if fixed is not None and fixed.shape != [2]:
        raise errors.bad(f"{where}(fixed_seed_offset)", "two integers", described=f"shape {fixed.shape}", kind=errors.ShapeError)
    return randint(0, 2**31, [2], "int64") if fixed is None else fixed


@composite(public="nn.functional.flash_attention.flash_attention")
def flash_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False,
                    return_softmax: bool = False, *, fixed_seed_offset: Tensor | None = None, rng_name: str = "",
                    training: bool = True, name: Extra[str] = None,
                    softmax_scale: Any = None) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention, and its weights if asked for: ``softmax(query @ key.T * scale) @ value`` for each head.

    It differs from ``scaled_dot_product_attention`` in what it returns, and in that a causal mask is aligned to the
    end: the last query attends to all keys.

    Args:
        query: Queries of shape ``[N, Lq, H, D]``, of a floating-point dtype.
        key: Keys of shape ``[N, Lk, Hk, D]``; ``H`` must be a multiple of ``Hk``.
        value: Values of shape ``[N, Lk, Hk, Dv]``.
        dropout: Probability in ``[0, 1]`` of dropping a weight in training. Default: 0.0.
        causal: Whether a query attends only to keys up to its own position. Default: False.
        return_softmax: Whether to return the weights too, before dropout. Default: False.
        fixed_seed_offset: Two integers that decide what is dropped; ``None`` draws them. Default: None.
        rng_name: Not used. Default: ``''``.
        training: Whether dropout applies. Default: True.
        name: Not used; kept for Paddle's signature.
        softmax_scale: Factor of the scores; ``None`` means ``1 / sqrt(D)``. Default: None.

    Returns:
        Pair of a tensor of shape ``[N, Lq, H, Dv]`` and the weights of shape ``[N, H, Lq, Lk]``, or ``None`` in their
        place.

    Examples:
        >>> q, v = bireme.ones([1, 2, 1, 1]), bireme.to_tensor([1.0, 3.0]).reshape([1, 2, 1, 1])
        >>> out, weights = bireme.nn.functional.flash_attention.flash_attention(q, q, v, return_softmax=True)
        >>> out.flatten().tolist(), weights.flatten().tolist()
        ([2.0, 2.0], [0.5, 0.5, 0.5, 0.5])
    """
    check_shapes("flash_attention", query, key, value)
    seed = _seed(fixed_seed_offset, dropout, training, "flash_attention")
    shift = key.shape[1] - query.shape[1]
    if seed is None and softmax_scale is None and not (causal and shift):
        out = attention(query, key, value, None, causal)
    else:
        out = attention_rows(query, key, value, None, None, seed, float(dropout), shift if causal else None, softmax_scale)[0]
    return out, attention_weights(query, key, None, causal, shift, softmax_scale) if return_softmax else None


def _unpack(where: str, qkv: Tensor, ndim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of [..., groups + 2, heads of keys, width]."""
    if qkv.ndim != ndim or qkv.shape[-3] < 3:
        names = "batch, sequence" if ndim == 5 else "tokens"
        raise errors.bad(
            f"{where}(qkv)", f"shape [{names}, heads / key heads + 2, key heads, width]", described=f"shape {qkv.shape}", kind=errors.ShapeError
        )
    groups, shared, width = qkv.shape[-3:]
    lead = qkv.shape[:-3]
    return qkv[..., : groups - 2, :, :].reshape([*lead, (groups - 2) * shared, width]), qkv[..., -2, :, :], qkv[..., -1, :, :]


@composite()
def flash_attn_qkvpacked(qkv: Tensor, dropout: float = 0.0, causal: bool = False, return_softmax: bool = False, *,
                         fixed_seed_offset: Tensor | None = None, rng_name: str = "", training: bool = True,
                         name: Extra[str] = None) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention on queries, keys and values that are packed in one tensor.

    Args:
        qkv: Tensor of shape ``[N, L, H / Hk + 2, Hk, D]``: groups of queries along axis 2, then the keys, then the
            values.
        dropout: Probability in ``[0, 1]`` of dropping a weight in training. Default: 0.0.
        causal: Whether a query attends only to keys up to its own position. Default: False.
        return_softmax: Whether to return the weights too, before dropout. Default: False.
        fixed_seed_offset: Two integers that decide what is dropped; ``None`` draws them. Default: None.
        rng_name: Not used. Default: ``''``.
        training: Whether dropout applies. Default: True.
        name: Not used; kept for Paddle's signature.

    Returns:
        Pair of a tensor of shape ``[N, L, H, D]`` and the weights of shape ``[N, H, L, L]``, or ``None`` in their
        place.

    Examples:
        >>> qkv = bireme.to_tensor([1.0, 1.0, 2.0, 1.0, 1.0, 4.0]).reshape([1, 2, 3, 1, 1])
        >>> bireme.nn.functional.flash_attn_qkvpacked(qkv)[0].flatten().tolist()
        [3.0, 3.0]
    """
    query, key, value = _unpack("flash_attn_qkvpacked", qkv, 5)
    return flash_attention(query, key, value, dropout, causal, return_softmax, fixed_seed_offset=fixed_seed_offset, training=training)


# ---------------------------------------------------------------- several lengths in one tensor


def _integers(where: str, x: Any) -> None:
    if x.dtype.kind != "i" or x.ndim != 1:
        raise errors.bad(where, "a 1-D integer tensor", x)


class Lengths:
    """Where the sequences of a packed tensor lie: [tokens, ...] to [sequences, longest, ...] and back."""

    def __init__(self, cumulative: Tensor, longest: int, total: int, used: Tensor | None, padded: bool):
        self.starts = arange(0, cumulative.shape[0] - 1, dtype=cumulative.dtype) * longest if padded else cumulative[:-1]
        self.lengths = cumulative[1:] - cumulative[:-1] if used is None else used.astype(cumulative.dtype)
        self.longest, self.total = longest, total

    def spread(self, x: Tensor) -> Tensor:
        if not self.total:  # the sum over no tokens: zeros that have a gradient
            return x.sum(0, keepdim=True).unsqueeze(0).expand([self.starts.shape[0], self.longest, *x.shape[1:]])
        places = self.starts.unsqueeze(1) + arange(0, self.longest, dtype=self.starts.dtype)
        return x[clip(places, 0, self.total - 1)]

    def gathered(self, x: Tensor) -> Tensor:
        """Back to tokens; those of no sequence are zero."""
        token = arange(0, self.total, dtype=self.starts.dtype).unsqueeze(1)
        inside = (token >= self.starts) & (token < self.starts + self.lengths)
        found = inside.any(1)
        sequence = inside.astype("int64").argmax(1)
        place = clip(token.squeeze(1) - self.starts[sequence], 0, self.longest - 1)
        out = x[sequence, place]
        return out * found.astype(out.dtype).reshape([-1, *[1] * (out.ndim - 1)])


def _varlen(where: str, query: Tensor, key: Tensor, value: Tensor, cu_q: Tensor, cu_k: Tensor, max_q: Any, max_k: Any, scale: Any,
            causal: bool, window: Any = (-1, -1), softcap: float = 0.0, seed: Tensor | None = None, rate: float = 0.0, padded: bool = False,
            used: tuple = (None, None), weights: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Attention inside each of the sequences that lie one after another in [tokens, heads, width]."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 3:
            raise errors.bad(f"{where}({name})", "shape [tokens, heads, width]", described=f"shape {x.shape}", kind=errors.ShapeError)
    for name, x in (("cu_seqlens_q", cu_q), ("cu_seqlens_k", cu_k)):
        _integers(f"{where}({name})", x)
    if cu_q.shape != cu_k.shape or not cu_q.shape[0]:
        raise errors.bad(
            f"{where}(cu_seqlens_k)",
            f"as many elements as cu_seqlens_q, {cu_q.shape[0]}, and at least one",
            cu_k.shape[0],
        )
    max_q, max_k = int(max_q), int(max_k)
    if max_q < 1 or max_k < 1:
        raise errors.bad(f"{where}(max_seqlen_q, max_seqlen_k)", "positive lengths", [max_q, max_k])
    rows = Lengths(cu_q, max_q, query.shape[0], used[0], padded)
    columns = Lengths(cu_k, max_k, key.shape[0], used[1], padded)
    # row r of a sequence stands at key r + offset: the last query at the last key
    offset = (columns.lengths - rows.lengths).unsqueeze(1)
    column = arange(0, max_k, dtype=cu_k.dtype).unsqueeze(0)
    left, right = window[0], 0 if causal else window[1]
    none = full([1, 1], 0, cu_k.dtype)
    first = clip(column - offset - right, 0, max_q) if right >= 0 else none
    last = clip(column - offset + left + 1, 0, EVER) if left >= 0 else none + EVER
    last = minimum(last, rows.lengths.unsqueeze(1))
    first = (column < columns.lengths.unsqueeze(1)).where(first, none + EVER)
    shape = [cu_k.shape[0] - 1, max_k]
    bounds = stack([last.expand(shape), (none + EVER).expand(shape), none.expand(shape), first.expand(shape)], -1).astype("int32").unsqueeze(1)
    q, k, v = rows.spread(query), columns.spread(key), columns.spread(value)
    out, lse = attention_rows(q, k, v, None, bounds, seed, float(rate), None, scale, softcap)
    # the weights themselves are those of identity matrices as values, one column for each key
    probs = None
    if weights:
        eye = (column.unsqueeze(-1) == column.unsqueeze(1)).astype(v.dtype).unsqueeze(2).expand([k.shape[0], max_k, k.shape[2], max_k])
        probs = attention_rows(q, k, eye, None, bounds, None, 0.0, None, scale, softcap)[0].transpose([0, 2, 1, 3])
    return rows.gathered(out), rows.gathered(lse.transpose([0, 2, 1])).transpose([1, 0]), probs


@composite(public="nn.functional.flash_attention.flash_attn_unpadded")
def flash_attn_unpadded(query: Tensor, key: Tensor, value: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                        max_seqlen_q: Attr[int | Tensor], max_seqlen_k: Attr[int | Tensor], scale: float,
                        dropout: float = 0.0, causal: bool = False, return_softmax: bool = False,
                        fixed_seed_offset: Tensor | None = None, rng_name: str = "", training: bool = True,
                        name: Extra[str] = None) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention within each of several sequences that are packed one after another, without padding.

    Args:
        query: Queries of shape ``[tokens, H, D]``: all sequences one after another.
        key: Keys of shape ``[tokens of keys, Hk, D]``; ``H`` must be a multiple of ``Hk``.
        value: Values of shape ``[tokens of keys, Hk, Dv]``.
        cu_seqlens_q: Integers of shape ``[sequences + 1]``: sequence ``i`` has the queries ``cu_seqlens_q[i]`` to
            ``cu_seqlens_q[i + 1] - 1``.
        cu_seqlens_k: The same of keys and values.
        max_seqlen_q: Length of the longest sequence of queries.
        max_seqlen_k: Length of the longest sequence of keys.
        scale: Factor of the scores, usually ``1 / sqrt(D)``.
        dropout: Probability in ``[0, 1]`` of dropping a weight in training. Default: 0.0.
        causal: Whether a query attends only to keys up to its own position; the last query is at the last key.
            Default: False.
        return_softmax: Whether to return the weights too, before dropout. Default: False.
        fixed_seed_offset: Two integers that decide what is dropped; ``None`` draws them. Default: None.
        rng_name: Not used. Default: ``''``.
        training: Whether dropout applies. Default: True.
        name: Not used; kept for Paddle's signature.

    Returns:
        Pair of a tensor of shape ``[tokens, H, Dv]`` and the weights of shape
        ``[sequences, H, max_seqlen_q, max_seqlen_k]``, or ``None`` in their place.

    Examples:
        >>> q, cu = bireme.to_tensor([1.0, 2.0, 2.0]).reshape([3, 1, 1]), bireme.to_tensor([0, 1, 3])
        >>> bireme.nn.functional.flash_attention.flash_attn_unpadded(q, q, q, cu, cu, 2, 2, 0.5)[0].flatten().tolist()
        [1.0, 2.0, 2.0]
    """
    where = "flash_attn_unpadded"
    seed = _seed(fixed_seed_offset, dropout, training, where)
    out, _, probs = _varlen(where, query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, scale, causal, seed=seed, rate=dropout,
                            weights=return_softmax)  # fmt: skip
    return out, probs


@composite()
def flash_attn_varlen_qkvpacked(qkv: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                                max_seqlen_q: Attr[int | Tensor], max_seqlen_k: Attr[int | Tensor], scale: float,
                                dropout: float = 0.0, causal: bool = False, return_softmax: bool = False,
                                fixed_seed_offset: Tensor | None = None, rng_name: str = "", varlen_padded: bool = True,
                                training: bool = True,
                                name: Extra[str] = None) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention within each of several sequences, with queries, keys and values packed in one tensor.

    Args:
        qkv: Tensor of shape ``[tokens, H / Hk + 2, Hk, D]``: groups of queries along axis 1, then the keys, then the
            values.
        cu_seqlens_q: Integers of shape ``[sequences + 1]``: sequence ``i`` has the queries ``cu_seqlens_q[i]`` to
            ``cu_seqlens_q[i + 1] - 1``.
        cu_seqlens_k: The same of keys and values.
        max_seqlen_q: Length of the longest sequence of queries.
        max_seqlen_k: Length of the longest sequence of keys.
        scale: Factor of the scores, usually ``1 / sqrt(D)``.
        dropout: Probability in ``[0, 1]`` of dropping a weight in training. Default: 0.0.
        causal: Whether a query attends only to keys up to its own position. Default: False.
        return_softmax: Whether to return the weights too, before dropout. Default: False.
        fixed_seed_offset: Two integers that decide what is dropped; ``None`` draws them. Default: None.
        rng_name: Not used. Default: ``''``.
        varlen_padded: Whether each sequence begins at a multiple of the longest one's length, with padding behind it,
            for which the result is 0; ``False`` means they follow each other directly. Default: True.
        training: Whether dropout applies. Default: True.
        name: Not used; kept for Paddle's signature.

    Returns:
        Pair of a tensor of shape ``[tokens, H, D]`` and the weights of shape
        ``[sequences, H, max_seqlen_q, max_seqlen_k]``, or ``None`` in their place.

    Examples:
        >>> qkv, cu = bireme.ones([4, 3, 1, 4]), bireme.to_tensor([0, 1, 3])
        >>> bireme.nn.functional.flash_attn_varlen_qkvpacked(qkv, cu, cu, 2, 2, 0.5)[0].tolist()
        [[[1.0, 1.0, 1.0, 1.0]], [[0.0, 0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0, 1.0]]]
    """
    where = "flash_attn_varlen_qkvpacked"
    seed = _seed(fixed_seed_offset, dropout, training, where)
    query, key, value = _unpack(where, qkv, 4)
    out, _, probs = _varlen(where, query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, scale, causal, seed=seed, rate=dropout,
                            padded=varlen_padded, weights=return_softmax)  # fmt: skip
    return out, probs


@composite(name_arg=False)
def flash_attention_v3_varlen(query: Tensor, key: Tensor, value: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                              max_seqlen_q: Attr[int | Tensor], max_seqlen_k: Attr[int | Tensor],
                              seqused_q: Tensor | None = None, seqused_k: Tensor | None = None,
                              softmax_scale: Attr[float] = None, causal: bool = False, qv: Attr[Tensor] = None,
                              q_descale: Tensor | None = None, k_descale: Tensor | None = None,
                              v_descale: Tensor | None = None, window_size: Attr[Sequence[int]] = (-1, -1),
                              softcap: float = 0.0, num_splits: int = 1, pack_gqa: Attr[bool] = None,
                              sm_margin: int = 0) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention within each of several packed sequences, with a window and a soft limit of the scores.

    Args:
        query: Queries of shape ``[tokens, H, D]``: all sequences one after another.
        key: Keys of shape ``[tokens of keys, Hk, D]``; ``H`` must be a multiple of ``Hk``.
        value: Values of shape ``[tokens of keys, Hk, Dv]``.
        cu_seqlens_q: Integers of shape ``[sequences + 1]``: sequence ``i`` has the queries ``cu_seqlens_q[i]`` to
            ``cu_seqlens_q[i + 1] - 1``.
        cu_seqlens_k: The same of keys and values.
        max_seqlen_q: Length of the longest sequence of queries.
        max_seqlen_k: Length of the longest sequence of keys.
        seqused_q: Number of queries of each sequence that are used; ``None`` means all. Default: None.
        seqused_k: Number of keys of each sequence that are used; ``None`` means all. Default: None.
        softmax_scale: Factor of the scores; ``None`` means ``1 / sqrt(D)``. Default: None.
        causal: Whether a query attends only to keys up to its own position; the last query is at the last key.
            Default: False.
        qv: Must be ``None``. Default: None.
        q_descale: Factor of the queries: the first element is used. Default: None.
        k_descale: Factor of the keys: the first element is used. Default: None.
        v_descale: Factor of the values: the first element is used. Default: None.
        window_size: Number of keys that a query sees to the left and to the right of its own position; -1 means no
            limit. Default: (-1, -1).
        softcap: If not 0, scores ``s`` become ``softcap * tanh(s / softcap)``. Default: 0.0.
        num_splits: Not used. Default: 1.
        pack_gqa: Not used. Default: None.
        sm_margin: Not used. Default: 0.

    Returns:
        Pair of a tensor of shape ``[tokens, H, Dv]`` and the logarithms of the softmax's denominators, of shape
        ``[H, tokens]``.

    Examples:
        >>> q, cu = bireme.zeros([3, 1, 4]), bireme.to_tensor([0, 1, 3])
        >>> out, lse = bireme.nn.functional.flash_attention_v3_varlen(q, q, q, cu, cu, 2, 2, causal=True)
        >>> out.shape, [round(x, 4) for x in lse.flatten().tolist()]
        ([3, 1, 4], [0.0, 0.0, 0.6931])
    """
    where = "flash_attention_v3_varlen"
    if qv is not None:
        raise errors.bad(f"{where}(qv)", "None", qv, kind=errors.ArgumentError)
    scaled = [(x if s is None else x * s.reshape([-1])[0]).astype(x.dtype) for x, s in ((query, q_descale), (key, k_descale), (value, v_descale))]
    return _varlen(where, *scaled, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal, window_size, softcap,
                   used=(seqused_q, seqused_k))[:2]  # fmt: skip


# ---------------------------------------------------------------- masks by columns


def _window(where: str, size: Any) -> tuple[int, int]:
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(isinstance(n, int) for n in pair):
        raise errors.bad(
            f"{where}(window_size)", "an integer or a pair of integers", size, kind=errors.ArgumentTypeError
        )
    return pair


def _bounds(rows: Tensor, causal: bool) -> Tensor:
    """The two ranges of rows that do not see a column, from the one, two or four numbers given for it."""
    parts = [rows[..., i] for i in range(rows.shape[-1])]
    none, ever = parts[0] * 0, parts[0] * 0 + EVER
    if causal:
        return stack([parts[0], parts[1] if len(parts) == 2 else ever, none, none], -1)
    return stack(parts if len(parts) == 4 else [parts[0], ever, none, parts[1]], -1)


@composite()
def flashmask_attention(query: Tensor, key: Tensor, value: Tensor, startend_row_indices: Tensor | None = None, *,
                        dropout: float = 0.0, causal: bool = False, window_size: Attr[int | Sequence[int]] = None,
                        return_softmax_lse: bool = False, return_seed_offset: bool = False,
                        fixed_seed_offset: Tensor | None = None, rng_name: str = "", training: bool = True,
                        name: Extra[str] = None,
                        softmax_scale: Attr[float] = None) -> Tensor | list[Tensor]:  # fmt: skip
    """Attention with a mask that says for each key which rows of queries do not see it.

    ``startend_row_indices`` holds in its last axis, for each key:

    - causal, 1 number: rows from ``s`` on do not see it
    - causal, 2 numbers: rows from ``s`` to ``e - 1`` do not see it
    - not causal, 2 numbers: rows from ``s`` on and rows before ``u`` do not see it
    - not causal, 4 numbers: rows from ``s`` to ``e - 1`` and rows from ``t`` to ``u - 1`` do not see it

    Args:
        query: Queries of shape ``[N, Lq, H, D]``, of a floating-point dtype.
        key: Keys of shape ``[N, Lk, Hk, D]``; ``H`` must be a multiple of ``Hk``.
        value: Values of shape ``[N, Lk, Hk, Dv]``.
        startend_row_indices: int32 tensor of shape ``[N, 1 or Hk, Lk, 1, 2 or 4]``. Default: None.
        dropout: Probability in ``[0, 1]`` of dropping a weight in training. Default: 0.0.
        causal: Whether a query attends only to keys up to its own position; the last query is at the last key.
            Default: False.
        window_size: Number of keys that a query sees on each side: an integer or two; not with
            ``startend_row_indices``. Default: None.
        return_softmax_lse: Whether to return the logarithms of the softmax's denominators too, of shape ``[N, H, Lq]``.
            Default: False.
        return_seed_offset: Whether to return the two integers that decided what was dropped. Default: False.
        fixed_seed_offset: Two integers that decide what is dropped; ``None`` draws them. Default: None.
        rng_name: Not used. Default: ``''``.
        training: Whether dropout applies. Default: True.
        name: Not used; kept for Paddle's signature.
        softmax_scale: Factor of the scores; ``None`` means ``1 / sqrt(D)``. Default: None.

    Returns:
        Tensor of shape ``[N, Lq, H, Dv]``; a list that begins with it if more is asked for.

    Examples:
        >>> q = bireme.to_tensor([1.0, 3.0]).reshape([1, 2, 1, 1])
        >>> rows = bireme.to_tensor([1, 2], dtype="int32").reshape([1, 1, 2, 1])
        >>> bireme.nn.functional.flashmask_attention(q, q, q, rows, causal=True).flatten().tolist()
        [1.0, 3.0]
    """
    where = "flashmask_attention"
    check_shapes(where, query, key, value)
    rows, shift = startend_row_indices, key.shape[1] - query.shape[1]
    if window_size is not None:
        if rows is not None:
            raise errors.bad(
                f"{where}(window_size)",
                "None, since startend_row_indices is given",
                window_size,
                kind=errors.ArgumentError,
            )
        left, right = _window(where, window_size)
        column = (arange(0, key.shape[1], dtype="int32") - shift).reshape([1, 1, -1]).expand([query.shape[0], 1, key.shape[1]])
        parts = [clip(column + left + 1, 0, EVER)] + ([] if causal else [clip(column - right, 0, EVER)])
        rows = stack(parts, -1)
    if rows is not None:
        _check_rows(where, rows, key, causal)
        rows = _bounds(rows, causal)
    seed = _seed(fixed_seed_offset, dropout, training, where)
    out, lse = attention_rows(query, key, value, None, rows, seed, float(dropout), shift if causal else None, softmax_scale)
    if not (return_softmax_lse or return_seed_offset):
        return out
    offset = full([2], 0, "int64") if seed is None else seed.astype("int64")
    return [out, *([lse] if return_softmax_lse else []), *([offset] if return_seed_offset else [])]


def _check_rows(where: str, rows: Tensor, key: Tensor, causal: bool) -> None:
    name = f"{where}(startend_row_indices)"
    if rows.dtype is not dtypes.int32:
        raise errors.bad(name, "int32", described=rows.dtype.name, kind=errors.ArgumentError)
    if rows.ndim != 4 or rows.shape[0] != key.shape[0] or rows.shape[1] not in (1, key.shape[2]) or rows.shape[2] != key.shape[1]:
        expected = f"shape [{key.shape[0]}, 1 or {key.shape[2]}, {key.shape[1]}, 1, 2 or 4]"
        raise errors.bad(name, expected, described=f"shape {rows.shape}", kind=errors.ShapeError)
    allowed = (1, 2) if causal else (2, 4)
    if rows.shape[3] not in allowed:
        raise errors.bad(name, f"a last dimension of {allowed[0]} or {allowed[1]} with causal={causal}", rows.shape[3])
