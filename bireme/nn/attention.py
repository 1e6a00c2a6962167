"""Multi-head attention."""

from __future__ import annotations

from typing import Any, NamedTuple

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, must_be_positive
from bireme.nn.common import Linear, must_be_probability
from bireme.nn.layer import Layer
from bireme.ops import concat, dropout, matmul, reshape, scaled_dot_product_attention, transpose, zeros
from bireme.ops.nn.attention import attention_weights


class Cache(NamedTuple):
    """Keys and values of the time steps so far, for self-attention step by step; each call adds its own.

    Args:
        k: Keys, of shape ``[N, num_heads, steps, head_dim]``.
        v: Values, of the same shape.

    Examples:
        >>> bireme.nn.MultiHeadAttention(4, 2).gen_cache(bireme.ones([1, 3, 4])).k.shape
        [1, 2, 0, 2]
    """

    k: Tensor
    v: Tensor


class StaticCache(NamedTuple):
    """Keys and values of a memory, computed once for all time steps of cross-attention.

    Args:
        k: Keys, of shape ``[N, num_heads, steps, head_dim]``.
        v: Values, of the same shape.

    Examples:
        >>> layer = bireme.nn.MultiHeadAttention(4, 2)
        >>> layer.gen_cache(bireme.ones([1, 3, 4]), type=layer.StaticCache).k.shape
        [1, 2, 3, 2]
    """

    k: Tensor
    v: Tensor


def _convert_attention_mask(attn_mask: Tensor | None, dtype: Any) -> Tensor | None:
    """A mask to add to scores of ``dtype``: 0 where bool or integers keep, floats as they are; programs call it."""
    if attn_mask is None or attn_mask.dtype.is_inexact:
        return attn_mask if attn_mask is None else attn_mask.astype(dtype)
    # as in Paddle a large number, not infinity: where nothing is kept, all weights are equal
    kept = attn_mask if attn_mask.dtype.name == "bool" else attn_mask.astype("bool")
    return (kept.astype(dtype) - 1.0) * 1e9


def _swap(x: Tensor) -> Tensor:
    """Swap the axes of length and heads of ``[batch, length, heads, width]``."""
    return transpose(x, [0, 2, 1, 3])


def _lengths(x: Tensor) -> list[int]:
    """Batch and length for ``reshape``, where 0 keeps an axis, unless there are no elements: then it means 0."""
    return x.shape[:2] if 0 in x.shape else [0, 0]


def _keeps(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The mask as the scores take it: bool keeps where it is true, integers where they are not 0, floats are added."""
    if mask is None:
        return None
    scores = [query.shape[0], query.shape[2], query.shape[1], key.shape[1]]
    shape = [1] * (4 - len(mask.shape)) + list(mask.shape)
    if len(shape) != 4 or any(m not in (1, s) for m, s in zip(shape, scores, strict=True)):
        raise errors.bad(
            "MultiHeadAttention(attn_mask)",
            f"a shape that can be broadcast to {scores}",
            described=f"shape {mask.shape}",
            kind=errors.ShapeError,
        )
    return mask if mask.dtype.is_inexact else _convert_attention_mask(mask, "float32")


class MultiHeadAttention(Layer):
    """Multi-head attention: ``softmax(Q K^T / sqrt(head_dim)) V`` for each head, between linear projections.

    Args:
        embed_dim: Size of the last axis of queries and output.
        num_heads: Number of heads; it must divide ``embed_dim``.
        dropout: Probability of dropout of the attention weights, in training; None means 0. Default: 0.0.
        kdim: Size of the last axis of the keys. Default: None, ``embed_dim``.
        vdim: Size of the last axis of the values. Default: None, ``embed_dim``.
        need_weights: Return the attention weights as well. Default: False.
        weight_attr: Attribute of the weights of all four projections. Default: None, Xavier uniform.
        bias_attr: Attribute of their biases; ``False`` leaves them out. Default: None, zeros.

    Shape:
        - query: ``[N, L, embed_dim]``
        - key: ``[N, S, kdim]``
        - value: ``[N, S, vdim]``
        - output: ``[N, L, embed_dim]``

    Examples:
        >>> layer = bireme.nn.MultiHeadAttention(2, 1, weight_attr=bireme.nn.initializer.Constant(1.0))
        >>> layer(bireme.ones([1, 2, 2])).tolist()
        [[[4.0, 4.0], [4.0, 4.0]]]
    """

    Cache = Cache
    StaticCache = StaticCache

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
    ):
        super().__init__()
        must_be_positive("MultiHeadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise errors.bad(
                "MultiHeadAttention(embed_dim)",
                f"a multiple of num_heads, which is {num_heads}",
                embed_dim,
                kind=errors.ArgumentError,
            )
        must_be_probability("MultiHeadAttention(dropout)", dropout or 0.0)  # None: none at all
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, name: str, x: Tensor, projection: Layer, width: int) -> Tensor:
        """``x`` projected and split into heads: [batch, length, heads, width]."""
        if not isinstance(x, Tensor):
            raise errors.bad(f"MultiHeadAttention({name})", "a Tensor", x, kind=errors.NotATensorError)
        if len(x.shape) != 3 or x.shape[2] != width:
            raise errors.bad(
                f"MultiHeadAttention({name})",
                f"shape [batch, length, {width}]",
                described=f"shape {x.shape}",
                kind=errors.ShapeError,
            )
        return reshape(projection(x), [*_lengths(x), self.num_heads, self.head_dim])

    def _keys_and_values(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self._heads("key", key, self.k_proj, self.kdim), self._heads("value", value, self.v_proj, self.vdim)

    def _attended(
        self, query: Tensor, key: Tensor, value: Tensor, cache: Cache | StaticCache | None
    ) -> tuple[Any, ...]:
        """Queries, and keys and values with those of the cache, [batch, length, heads, width]; and the next cache."""
        q = self._heads("query", query, self.q_proj, self.embed_dim)
        if isinstance(cache, StaticCache):
            return q, _swap(cache.k), _swap(cache.v), cache
        k, v = self._keys_and_values(key, value)
        if cache is None:
            return q, k, v, None
        cache = Cache(concat([cache[0], _swap(k)], 2), concat([cache[1], _swap(v)], 2))
        return q, _swap(cache.k), _swap(cache.v), cache

    def _prepare_qkv(
        self, query: Tensor, key: Tensor, value: Tensor, cache: Cache | StaticCache | None = None
    ) -> tuple[Any, ...]:
        """Queries, keys and values, [batch, heads, length, width], and the cache if there is one; programs use it."""
        q = _swap(self._heads("query", query, self.q_proj, self.embed_dim))
        k, v = cache if isinstance(cache, StaticCache) else self.compute_kv(key, value)
        if cache is None:
            return q, k, v
        if not isinstance(cache, StaticCache):
            k, v = concat([cache[0], k], 2), concat([cache[1], v], 2)
            cache = Cache(k, v)
        return q, k, v, cache

    def _prepared(
        self, query: Tensor, key: Tensor, value: Tensor, cache: Cache | StaticCache | None
    ) -> tuple[Any, ...]:
        """What ``_attended`` returns, by way of ``_prepare_qkv`` and ``compute_kv`` where a program overrides them."""
        if tuple(getattr(f, "__func__", None) for f in (self._prepare_qkv, self.compute_kv)) == _OWN:
            return self._attended(query, key, value, cache)
        q, k, v, *rest = self._prepare_qkv(query, key, value, cache)
        return _swap(q), _swap(k), _swap(v), rest[0] if rest else None

    def compute_kv(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Project keys and values.

        Args:
            key: Tensor of shape ``[N, S, kdim]``.
            value: Tensor of shape ``[N, S, vdim]``.

        Returns:
            A tuple of keys and values, each of shape ``[N, num_heads, S, head_dim]``.

        Examples:
            >>> x = bireme.ones([1, 3, 4])
            >>> [t.shape for t in bireme.nn.MultiHeadAttention(4, 2).compute_kv(x, x)]
            [[1, 2, 3, 2], [1, 2, 3, 2]]
        """
        k, v = self._keys_and_values(key, value)
        return _swap(k), _swap(v)

    def gen_cache(self, key: Tensor, value: Tensor | None = None, type: type = Cache) -> Cache | StaticCache:
        """Create a cache to begin with.

        Args:
            key: For ``StaticCache`` the memory ``[N, S, kdim]``. For ``Cache`` a tensor whose first axis is the batch,
                or with ``value`` the keys themselves, ``[N, num_heads, steps, head_dim]``.
            value: For ``StaticCache`` the values of the memory, by default ``key``; for ``Cache`` the values
                themselves. Default: None.
            type: ``MultiHeadAttention.Cache`` or ``MultiHeadAttention.StaticCache``. Default: ``Cache``.

        Returns:
            A ``Cache``, empty unless ``value`` is given, or a ``StaticCache`` of the projected memory.

        Examples:
            >>> layer = bireme.nn.MultiHeadAttention(4, 2)
            >>> layer.gen_cache(bireme.ones([1, 3, 4])).k.shape
            [1, 2, 0, 2]
        """
        if type is StaticCache:
            return StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is not None:
            return Cache(key, value)
        none = zeros([key.shape[0], self.num_heads, 0, self.head_dim], key.dtype)
        return Cache(none, none)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: Cache | StaticCache | None = None,
    ) -> Tensor | tuple[Any, ...]:
        """Compute the attention of queries to keys.

        Args:
            query: Tensor of shape ``[N, L, embed_dim]``.
            key: Tensor of shape ``[N, S, kdim]``. Default: None, ``query``.
            value: Tensor of shape ``[N, S, vdim]``. Default: None, ``query``.
            attn_mask: Tensor that broadcasts to ``[N, num_heads, L, S]``. Bool keeps where it is true, integers where
                they are not 0, floats are added to the scores. Default: None, no mask.
            cache: ``Cache`` of the time steps before, or ``StaticCache`` instead of ``key`` and ``value``. Default:
                None.

        Returns:
            Tensor of shape ``[N, L, embed_dim]``; with ``need_weights`` or a cache a tuple of it, the weights
            ``[N, num_heads, L, S]`` if asked for, and the cache for the next call if there is one.
        """
        q, k, v, cache = self._prepared(query, query if key is None else key, query if value is None else value, cache)
        if k.shape[:2] != v.shape[:2] or k.shape[0] != q.shape[0]:
            got = f"lengths {k.shape[1]} and {v.shape[1]}, batches of {q.shape[0]}, {k.shape[0]} and {v.shape[0]}"
            raise errors.bad(
                "MultiHeadAttention(key, value)",
                "keys and values of equal length, and equal batch sizes",
                described=got,
            )
        mask, weights = _keeps(attn_mask, q, k), None
        if not k.shape[1]:  # nothing to attend to: no weights, and the sum over no values is 0
            weights = matmul(_swap(q), _swap(k), transpose_y=True)
            out = _swap(matmul(weights, _swap(v)))
        elif self.need_weights:
            weights = dropout(attention_weights(q, k, mask, False), self.dropout or 0.0, training=self.training)
            out = _swap(matmul(weights, _swap(v)))
        else:
            out = scaled_dot_product_attention(q, k, v, mask, self.dropout or 0.0, training=self.training)
        out = self.out_proj(reshape(out, [*_lengths(query), out.shape[2] * out.shape[3]]))
        made = [out, *([weights] if self.need_weights else []), *([cache] if cache is not None else [])]
        return made[0] if len(made) == 1 else tuple(made)


_OWN = (MultiHeadAttention._prepare_qkv, MultiHeadAttention.compute_kv)
