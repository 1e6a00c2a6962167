"""Attention with several heads, and the encoders and decoders that are built of it."""

from __future__ import annotations

import copy
import math
import numbers
from typing import Any, NamedTuple

from bireme.core import errors
from bireme.core.tensor import Tensor
from bireme.nn import functional
from bireme.nn.common import Dropout, Linear, must_be_probability
from bireme.nn.container import LayerList
from bireme.nn.layer import Layer
from bireme.nn.norm import LayerNorm
from bireme.nn.parameter import attr_of
from bireme.ops import concat, dropout, full, matmul, reshape, scaled_dot_product_attention, transpose, triu, zeros
from bireme.ops.nn_attention import attention_weights


class Cache(NamedTuple):
    """Keys and values of the steps so far, [batch, heads, length, width]: each call adds its own."""

    k: Tensor
    v: Tensor


class StaticCache(NamedTuple):
    """Keys and values that stay, [batch, heads, length, width]: those of a memory that is attended to at every step."""

    k: Tensor
    v: Tensor


def _positive(where: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if size <= 0:
            raise errors.bad(f"{where}({name})", "a number above 0", size, kind=errors.Unfit)


def _attributes(where: str, attr: Any, count: int) -> list[Any]:
    """One attribute for each part of a layer: a list has them one by one, anything else holds for all, its name with a number."""
    if isinstance(attr, (list, tuple)):
        if len(attr) != count:
            raise errors.bad(where, f"one attribute, or a list of {count}", f"{len(attr)} of them", kind=errors.Unfit)
        return list(attr)
    found = attr_of(attr, where)
    if found is None or found.name is None:
        return [attr] * count
    made = [copy.copy(found) for _ in range(count)]
    for i, part in enumerate(made):
        part.name = f"{found.name}_{i}"
    return made


def _convert_param_attr_to_list(param_attr: Any, n: int) -> list[Any]:
    """One ParamAttr, or False, for each of `n` parts; layers of programs ask for it."""
    return [attr_of(a, "param_attr") or False for a in _attributes("param_attr", param_attr, n)]


def _convert_attention_mask(attn_mask: Tensor | None, dtype: Any) -> Tensor | None:
    """A mask to be added to scores of `dtype`: 0 where bool or an integer keeps, floats as they are; layers of programs ask for it."""
    if attn_mask is None or attn_mask.dtype.is_inexact:
        return attn_mask if attn_mask is None else attn_mask.astype(dtype)
    # as in Paddle, so large a number that it leaves no weight, but where nothing is kept: there all weigh alike
    kept = attn_mask if attn_mask.dtype.name == "bool" else attn_mask.astype("bool")
    return (kept.astype(dtype) - 1.0) * 1e9


def _activation(where: str, name: str) -> Any:
    function = getattr(functional, name, None) if isinstance(name, str) else None
    if function is None:
        kind = AttributeError if isinstance(name, str) else TypeError
        raise errors.bad(f"{where}(activation)", "the name of a function in bireme.nn.functional", name, kind=kind)
    return function


def _swap(x: Tensor) -> Tensor:
    """[batch, length, heads, width] from [batch, heads, length, width], or the other way round."""
    return transpose(x, [0, 2, 1, 3])


def _lengths(x: Tensor) -> list[int]:
    """Batch and length for `reshape`, where 0 keeps an axis, unless there are no elements: then it means 0."""
    return x.shape[:2] if 0 in x.shape else [0, 0]


def _keeps(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The mask as the scores take it: bool keeps where it is true, so do integers where they are not 0, floats are added."""
    if mask is None:
        return None
    scores = [query.shape[0], query.shape[2], query.shape[1], key.shape[1]]
    shape = [1] * (4 - len(mask.shape)) + list(mask.shape)
    if len(shape) != 4 or any(m not in (1, s) for m, s in zip(shape, scores, strict=True)):
        raise errors.bad("MultiHeadAttention(attn_mask)", f"a shape that can be broadcast to {scores}", f"shape {mask.shape}")
    return mask if mask.dtype.is_inexact else _convert_attention_mask(mask, "float32")


class MultiHeadAttention(Layer):
    """Attention by `num_heads` heads side by side, between linear maps of queries, keys, values and the result.

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
        weight_attr: Any = None,
        bias_attr: Any = None,
    ):
        super().__init__()
        _positive("MultiHeadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise errors.bad("MultiHeadAttention(embed_dim)", f"a multiple of num_heads, which is {num_heads}", embed_dim, kind=errors.Unfit)
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
        """`x` mapped and divided among the heads: [batch, length, heads, width]."""
        if not isinstance(x, Tensor):
            raise errors.bad(f"MultiHeadAttention({name})", "a Tensor", x, kind=TypeError)
        if len(x.shape) != 3 or x.shape[2] != width:
            raise errors.bad(f"MultiHeadAttention({name})", f"shape [batch, length, {width}]", f"shape {x.shape}")
        return reshape(projection(x), [*_lengths(x), self.num_heads, self.head_dim])

    def _keys_and_values(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self._heads("key", key, self.k_proj, self.kdim), self._heads("value", value, self.v_proj, self.vdim)

    def _attended(self, query: Tensor, key: Tensor, value: Tensor, cache: Cache | StaticCache | None) -> tuple[Any, ...]:
        """Queries, keys and values, those of the cache with them, [batch, length, heads, width]; and the cache for the next step."""
        q = self._heads("query", query, self.q_proj, self.embed_dim)
        if isinstance(cache, StaticCache):
            return q, _swap(cache.k), _swap(cache.v), cache
        k, v = self._keys_and_values(key, value)
        if cache is None:
            return q, k, v, None
        cache = Cache(concat([cache[0], _swap(k)], 2), concat([cache[1], _swap(v)], 2))
        return q, _swap(cache.k), _swap(cache.v), cache

    def _prepare_qkv(self, query: Tensor, key: Tensor, value: Tensor, cache: Cache | StaticCache | None = None) -> tuple[Any, ...]:
        """Queries, keys and values, [batch, heads, length, width], and the cache if there is one: classes of programs build on it."""
        q = _swap(self._heads("query", query, self.q_proj, self.embed_dim))
        k, v = cache if isinstance(cache, StaticCache) else self.compute_kv(key, value)
        if cache is None:
            return q, k, v
        if not isinstance(cache, StaticCache):
            k, v = concat([cache[0], k], 2), concat([cache[1], v], 2)
            cache = Cache(k, v)
        return q, k, v, cache

    def _prepared(self, query: Tensor, key: Tensor, value: Tensor, cache: Cache | StaticCache | None) -> tuple[Any, ...]:
        """What `_attended` gives, by way of `_prepare_qkv` and `compute_kv` where a program has others of its own."""
        if tuple(getattr(f, "__func__", None) for f in (self._prepare_qkv, self.compute_kv)) == _OWN:
            return self._attended(query, key, value, cache)
        q, k, v, *rest = self._prepare_qkv(query, key, value, cache)
        return _swap(q), _swap(k), _swap(v), rest[0] if rest else None

    def compute_kv(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values after their linear maps, [batch, heads, length, width].

        >>> x = bireme.ones([1, 3, 4])
        >>> [t.shape for t in bireme.nn.MultiHeadAttention(4, 2).compute_kv(x, x)]
        [[1, 2, 3, 2], [1, 2, 3, 2]]
        """
        k, v = self._keys_and_values(key, value)
        return _swap(k), _swap(v)

    def gen_cache(self, key: Tensor, value: Tensor | None = None, type: type = Cache) -> Cache | StaticCache:
        """A cache to begin with: of no steps, of given keys and values, or of those of a memory (`type=StaticCache`).

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
    ) -> Any:
        q, k, v, cache = self._prepared(query, query if key is None else key, query if value is None else value, cache)
        if k.shape[:2] != v.shape[:2] or k.shape[0] != q.shape[0]:
            got = f"lengths {k.shape[1]} and {v.shape[1]}, batches of {q.shape[0]}, {k.shape[0]} and {v.shape[0]}"
            raise errors.bad("MultiHeadAttention(key, value)", "keys and values of one length, and one batch for all", got)
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


class _Block(Layer):
    """What the layers of encoders and decoders share: the parts after attention, and how parts are joined."""

    def _parts(self, config: dict[str, Any], attentions: tuple[str, ...]) -> None:
        where = type(self).__name__
        d_model, nhead, width = config["d_model"], config["nhead"], config["dim_feedforward"]
        _positive(where, d_model=d_model, nhead=nhead, dim_feedforward=width)
        self._config, self.normalize_before = config, config["normalize_before"]
        p, eps = config["dropout"], config["layer_norm_eps"]
        attn_p, act_p = (p if config[name] is None else config[name] for name in ("attn_dropout", "act_dropout"))
        weights, biases = (_attributes(f"{where}({n})", config[n], len(attentions) + 1) for n in ("weight_attr", "bias_attr"))
        for name, weight, bias in zip(attentions, weights, biases, strict=False):
            setattr(self, name, MultiHeadAttention(d_model, nhead, attn_p, weight_attr=weight, bias_attr=bias))
        self.linear1 = Linear(d_model, width, weights[-1], biases[-1])
        self.dropout = Dropout(act_p)
        self.linear2 = Linear(width, d_model, weights[-1], biases[-1])
        for i in range(len(attentions) + 1):
            setattr(self, f"norm{i + 1}", LayerNorm(d_model, eps))
        for i in range(len(attentions) + 1):
            setattr(self, f"dropout{i + 1}", Dropout(p))
        self.activation = _activation(where, config["activation"])

    def _before(self, x: Tensor, norm: Layer) -> Tensor:
        return norm(x) if self.normalize_before else x

    def _after(self, x: Tensor, made: Tensor, drop: Layer, norm: Layer) -> Tensor:
        x = x + drop(made)
        return x if self.normalize_before else norm(x)

    def _feed(self, x: Tensor, drop: Layer, norm: Layer) -> Tensor:
        made = self.linear2(self.dropout(self.activation(self.linear1(self._before(x, norm)))))
        return self._after(x, made, drop, norm)


class TransformerEncoderLayer(_Block):
    """Attention of a sequence to itself and two linear maps of each of its places, each added to what it is given.

    >>> ones = bireme.nn.initializer.Constant(1.0)
    >>> layer = bireme.nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, weight_attr=ones, layer_norm_eps=0.0)
    >>> layer(bireme.to_tensor([[[1.0, 3.0]]])).tolist()
    [[[-1.0, 1.0]]]
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        layer_norm_eps: float = 1e-05,
    ):
        config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__()
        self._parts(config, ("self_attn",))

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: Cache | None = None) -> Any:
        x = self._before(src, self.norm1)
        made = self.self_attn(x, x, x, src_mask, cache)
        made, cache = (made, None) if cache is None else made
        out = self._feed(self._after(src, made, self.dropout1, self.norm1), self.dropout2, self.norm2)
        return out if cache is None else (out, cache)

    def gen_cache(self, src: Tensor) -> Cache:
        """The cache of a sequence of which nothing has been seen.

        >>> bireme.nn.TransformerEncoderLayer(4, 2, 8).gen_cache(bireme.ones([1, 3, 4])).k.shape
        [1, 2, 0, 2]
        """
        return self.self_attn.gen_cache(src, type=Cache)


class TransformerDecoderLayer(_Block):
    """An encoder layer that, between its two parts, also attends to a memory.

    >>> ones = bireme.nn.initializer.Constant(1.0)
    >>> layer = bireme.nn.TransformerDecoderLayer(2, 1, 4, dropout=0.0, weight_attr=ones, layer_norm_eps=0.0)
    >>> layer(bireme.to_tensor([[[1.0, 3.0]]]), bireme.ones([1, 5, 2])).tolist()
    [[[-1.0, 1.0]]]
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        layer_norm_eps: float = 1e-05,
    ):
        config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__()
        self._parts(config, ("self_attn", "cross_attn"))

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: tuple[Cache, StaticCache] | None = None,
    ) -> Any:
        if memory is None:  # None is the query itself to the attention
            raise errors.bad("TransformerDecoderLayer(memory)", "a Tensor", memory, kind=TypeError)
        own, fixed = (None, None) if cache is None else cache
        x = self._before(tgt, self.norm1)
        made = self.self_attn(x, x, x, tgt_mask, own)
        made, own = (made, None) if cache is None else made
        tgt = self._after(tgt, made, self.dropout1, self.norm1)
        made = self.cross_attn(self._before(tgt, self.norm2), memory, memory, memory_mask, fixed)
        made, fixed = (made, None) if cache is None else made
        tgt = self._after(tgt, made, self.dropout2, self.norm2)
        out = self._feed(tgt, self.dropout3, self.norm3)
        return out if cache is None else (out, (own, fixed))

    def gen_cache(self, memory: Tensor) -> tuple[Cache, StaticCache]:
        """The cache of a sequence of which nothing has been seen, and the one of the memory.

        >>> own, fixed = bireme.nn.TransformerDecoderLayer(4, 2, 8).gen_cache(bireme.ones([1, 3, 4]))
        >>> own.k.shape, fixed.k.shape
        ([1, 2, 0, 2], [1, 2, 3, 2])
        """
        return self.self_attn.gen_cache(memory, type=Cache), self.cross_attn.gen_cache(memory, memory, type=StaticCache)


class _Stack(Layer):
    """Layers made like the first one, with numbers of their own, and perhaps a normalisation after them."""

    def __init__(self, first: Layer, num_layers: int, norm: Layer | None):
        super().__init__()
        name = type(self).__name__
        if not isinstance(first, Layer):
            raise errors.bad(f"{name}({name[11:].lower()}_layer)", "a layer", first, kind=errors.NotTensor)
        if not isinstance(num_layers, numbers.Integral) or num_layers < 0:
            raise errors.bad(f"{name}(num_layers)", "an integer of 0 or more", num_layers)
        others = (type(first)(**first._config) for _ in range(num_layers - 1))
        self.layers = LayerList([first, *others][:num_layers])
        self.num_layers, self.norm = num_layers, norm

    def _run(self, x: Tensor, cache: Any, *rest: Any) -> Any:
        kept = []
        for i, layer in enumerate(self.layers):
            x = layer(x, *rest, cache=None if cache is None else cache[i])
            if cache is not None:
                x, new = x
                kept.append(new)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, kept)


class TransformerEncoder(_Stack):
    """`num_layers` encoder layers in a row, the first of which is the given one.

    >>> layer = bireme.nn.TransformerEncoderLayer(4, 2, 8)
    >>> bireme.nn.TransformerEncoder(layer, 2)(bireme.ones([1, 3, 4])).shape
    [1, 3, 4]
    """

    def __init__(self, encoder_layer: Layer, num_layers: int, norm: Layer | None = None):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: list | None = None) -> Any:
        return self._run(src, cache, src_mask)

    def gen_cache(self, src: Tensor) -> list[Cache]:
        """A cache for each layer.

        >>> layer = bireme.nn.TransformerEncoderLayer(4, 2, 8)
        >>> len(bireme.nn.TransformerEncoder(layer, 2).gen_cache(bireme.ones([1, 3, 4])))
        2
        """
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Stack):
    """`num_layers` decoder layers in a row, the first of which is the given one.

    >>> layer = bireme.nn.TransformerDecoderLayer(4, 2, 8)
    >>> bireme.nn.TransformerDecoder(layer, 2)(bireme.ones([1, 3, 4]), bireme.ones([1, 5, 4])).shape
    [1, 3, 4]
    """

    def __init__(self, decoder_layer: Layer, num_layers: int, norm: Layer | None = None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: list | None = None,
    ) -> Any:
        return self._run(tgt, cache, memory, tgt_mask, memory_mask)

    def gen_cache(self, memory: Tensor, do_zip: bool = False) -> list[Any]:
        """A pair of caches for each layer; with `do_zip` all the growing ones and all those of the memory.

        >>> layer = bireme.nn.TransformerDecoderLayer(4, 2, 8)
        >>> len(bireme.nn.TransformerDecoder(layer, 3).gen_cache(bireme.ones([1, 3, 4]), do_zip=True))
        2
        """
        made = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*made, strict=True)) if do_zip else made


class Transformer(Layer):
    """An encoder and a decoder that attends to what the encoder makes.

    >>> model = bireme.nn.Transformer(4, 2, 1, 1, 8)
    >>> model(bireme.ones([1, 5, 4]), bireme.ones([1, 3, 4])).shape
    [1, 3, 4]
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        custom_encoder: Layer | None = None,
        custom_decoder: Layer | None = None,
    ):
        super().__init__()
        _positive("Transformer", d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        common = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before)
        weights, biases = self._shares("weight_attr", weight_attr), self._shares("bias_attr", bias_attr)
        if custom_encoder is None:
            first = TransformerEncoderLayer(*common, weights[0], biases[0])
            custom_encoder = TransformerEncoder(first, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            first = TransformerDecoderLayer(*common, weights[1], biases[1])
            custom_decoder = TransformerDecoder(first, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder
        self.d_model, self.nhead = d_model, nhead

    @staticmethod
    def _shares(name: str, attr: Any) -> tuple[Any, Any]:
        """What encoder and decoder layers get: of a list the first is for attention to itself, the last for the linear maps."""
        if not isinstance(attr, (list, tuple)):
            return attr, attr
        if not 1 <= len(attr) <= 3:
            raise errors.bad(f"Transformer({name})", "one attribute, or a list of 1 to 3", f"{len(attr)} of them", kind=errors.Unfit)
        return [attr[0], attr[-1]], [attr[0], attr[1] if len(attr) == 3 else attr[0], attr[-1]]

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int | Tensor) -> Tensor:
        """A mask to be added to scores so that no place attends to a later one.

        >>> bireme.nn.Transformer(4, 2, 1, 1, 8).generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        length = int(length)
        return triu(full([length, length], -math.inf), 1)
