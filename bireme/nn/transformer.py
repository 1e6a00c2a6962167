"""Transformer encoders and decoders."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional
from bireme.nn.arguments import Attr, must_be_positive
from bireme.nn.attention import Cache, MultiHeadAttention, StaticCache
from bireme.nn.attention import _convert_attention_mask as _convert_attention_mask  # programs ask for it here
from bireme.nn.common import Dropout, Linear
from bireme.nn.container import LayerList
from bireme.nn.layer import Layer
from bireme.nn.norm import LayerNorm
from bireme.nn.parameter import attr_of
from bireme.ops import full, triu


def _attributes(where: str, attr: Any, count: int) -> list[Any]:
    """One attribute for each part: a list has them one by one, anything else holds for all, its name numbered."""
    if isinstance(attr, (list, tuple)):
        if len(attr) != count:
            raise errors.bad(
                where,
                f"one attribute, or a list of {count}",
                described=f"{len(attr)} of them",
                kind=errors.ArgumentError,
            )
        return list(attr)
    found = attr_of(attr, where)
    if found is None or found.name is None:
        return [attr] * count
    made = [copy.copy(found) for _ in range(count)]
    for i, part in enumerate(made):
        part.name = f"{found.name}_{i}"
    return made


def _convert_param_attr_to_list(param_attr: Any, n: int) -> list[Any]:
    """One ParamAttr, or False, for each of ``n`` parts; programs call it."""
    return [attr_of(a, "param_attr") or False for a in _attributes("param_attr", param_attr, n)]


def _activation(where: str, name: str) -> Any:
    function = getattr(functional, name, None) if isinstance(name, str) else None
    if function is None:
        kind = AttributeError if isinstance(name, str) else TypeError
        raise errors.bad(f"{where}(activation)", "the name of a function in bireme.nn.functional", name, kind=kind)
    return function


class _Block(Layer):
    """What encoder and decoder layers share: the parts after attention, and how parts are joined."""

    def _parts(self, config: dict[str, Any], attentions: tuple[str, ...]) -> None:
        where = type(self).__name__
        d_model, nhead, width = config["d_model"], config["nhead"], config["dim_feedforward"]
        must_be_positive(where, d_model=d_model, nhead=nhead, dim_feedforward=width)
        if d_model % nhead:
            raise errors.bad(f"{where}(d_model)", f"a multiple of nhead, which is {nhead}", d_model)
        self._config, self.normalize_before = config, config["normalize_before"]
        p, eps = config["dropout"], config["layer_norm_eps"]
        attn_p, act_p = (p if config[name] is None else config[name] for name in ("attn_dropout", "act_dropout"))
        weights, biases = (
            _attributes(f"{where}({n})", config[n], len(attentions) + 1) for n in ("weight_attr", "bias_attr")
        )
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
    """Transformer encoder layer: self-attention and a feed-forward network, each with a residual connection.

    Args:
        d_model: Size of the last axis of input and output.
        nhead: Number of heads; it must divide ``d_model``.
        dim_feedforward: Size of the hidden layer of the feed-forward network.
        dropout: Probability of dropout after each part, in training. Default: 0.1.
        activation: Name of a function in ``bireme.nn.functional``. Default: ``'relu'``.
        attn_dropout: Probability of dropout of the attention weights. Default: None, ``dropout``.
        act_dropout: Probability of dropout after the activation. Default: None, ``dropout``.
        normalize_before: Apply layer normalization to the input of each part instead of to the sum after it. Default:
            False.
        weight_attr: Attribute of the weights; a list of two has one for the attention and one for the feed-forward
            network. Default: None, Xavier uniform.
        bias_attr: Attribute of the biases, likewise; ``False`` leaves them out. Default: None, zeros.
        layer_norm_eps: ``epsilon`` of the layer normalizations. Default: 1e-5.

    Shape:
        - src: ``[N, L, d_model]``
        - output: ``[N, L, d_model]``

    Examples:
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
        weight_attr: Attr | Sequence[Attr] = None,
        bias_attr: Attr | Sequence[Attr] = None,
        layer_norm_eps: float = 1e-05,
    ):
        config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__()
        self._parts(config, ("self_attn",))

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor | tuple[Any, ...]:
        """Encode a sequence.

        Args:
            src: Tensor of shape ``[N, L, d_model]``.
            src_mask: Tensor that broadcasts to ``[N, nhead, L, L]``. Bool keeps where it is true, integers where they
                are not 0, floats are added to the scores. Default: None, no mask.
            cache: Cache of the time steps before, from ``gen_cache``. Default: None.

        Returns:
            Tensor of shape ``[N, L, d_model]``; with a cache a tuple of it and the cache for the next call.
        """
        x = self._before(src, self.norm1)
        made = self.self_attn(x, x, x, src_mask, cache)
        made, cache = (made, None) if cache is None else made
        out = self._feed(self._after(src, made, self.dropout1, self.norm1), self.dropout2, self.norm2)
        return out if cache is None else (out, cache)

    def gen_cache(self, src: Tensor) -> Cache:
        """Create an empty cache for self-attention step by step.

        Args:
            src: Tensor whose first axis is the batch.

        Returns:
            A ``MultiHeadAttention.Cache``.

        Examples:
            >>> bireme.nn.TransformerEncoderLayer(4, 2, 8).gen_cache(bireme.ones([1, 3, 4])).k.shape
            [1, 2, 0, 2]
        """
        return self.self_attn.gen_cache(src, type=Cache)


class TransformerDecoderLayer(_Block):
    """Transformer decoder layer: self-attention, attention to a memory and a feed-forward network, with residuals.

    Args:
        d_model: Size of the last axis of input and output.
        nhead: Number of heads; it must divide ``d_model``.
        dim_feedforward: Size of the hidden layer of the feed-forward network.
        dropout: Probability of dropout after each part, in training. Default: 0.1.
        activation: Name of a function in ``bireme.nn.functional``. Default: ``'relu'``.
        attn_dropout: Probability of dropout of the attention weights. Default: None, ``dropout``.
        act_dropout: Probability of dropout after the activation. Default: None, ``dropout``.
        normalize_before: Apply layer normalization to the input of each part instead of to the sum after it. Default:
            False.
        weight_attr: Attribute of the weights; a list of three has one each for self-attention, cross-attention and the
            feed-forward network. Default: None, Xavier uniform.
        bias_attr: Attribute of the biases, likewise; ``False`` leaves them out. Default: None, zeros.
        layer_norm_eps: ``epsilon`` of the layer normalizations. Default: 1e-5.

    Shape:
        - tgt: ``[N, L, d_model]``
        - memory: ``[N, S, d_model]``
        - output: ``[N, L, d_model]``

    Examples:
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
        weight_attr: Attr | Sequence[Attr] = None,
        bias_attr: Attr | Sequence[Attr] = None,
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
    ) -> Tensor | tuple[Any, ...]:
        """Decode a sequence.

        Args:
            tgt: Tensor of shape ``[N, L, d_model]``.
            memory: Output of the encoder, of shape ``[N, S, d_model]``.
            tgt_mask: Tensor that broadcasts to ``[N, nhead, L, L]``. Bool keeps where it is true, integers where they
                are not 0, floats are added to the scores. Default: None, no mask.
            memory_mask: Tensor that broadcasts to ``[N, nhead, L, S]``, in the same forms. Default: None, no mask.
            cache: Pair of caches from ``gen_cache``. Default: None.

        Returns:
            Tensor of shape ``[N, L, d_model]``; with a cache a tuple of it and the pair of caches for the next call.
        """
        if memory is None:  # None is the query itself to the attention
            raise errors.bad("TransformerDecoderLayer(memory)", "a Tensor", memory, kind=errors.NotATensorError)
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
        """Create the caches for decoding step by step.

        Args:
            memory: Output of the encoder, of shape ``[N, S, d_model]``.

        Returns:
            A tuple of an empty ``MultiHeadAttention.Cache`` and the ``MultiHeadAttention.StaticCache`` of the memory.

        Examples:
            >>> own, fixed = bireme.nn.TransformerDecoderLayer(4, 2, 8).gen_cache(bireme.ones([1, 3, 4]))
            >>> own.k.shape, fixed.k.shape
            ([1, 2, 0, 2], [1, 2, 3, 2])
        """
        return self.self_attn.gen_cache(memory, type=Cache), self.cross_attn.gen_cache(memory, memory, type=StaticCache)


class _Stack(Layer):
    """Layers made like the first one, with parameters of their own, and an optional normalization after them."""

    def __init__(self, first: Layer, num_layers: int, norm: Layer | None):
        super().__init__()
        name = type(self).__name__
        if not isinstance(first, Layer):
            raise errors.bad(f"{name}({name[11:].lower()}_layer)", "a layer", first, kind=errors.MissingAttributeError)
        if not isinstance(num_layers, numbers.Integral) or num_layers < 0:
            raise errors.bad(
                f"{name}(num_layers)", "a non-negative integer", num_layers, kind=errors.for_integer(num_layers)
            )
        others = (type(first)(**first._config) for _ in range(num_layers - 1))
        self.layers = LayerList([first, *others][:num_layers])
        self.num_layers, self.norm = num_layers, norm

    def _run(self, x: Tensor, cache: Any, *rest: Any) -> Tensor | tuple[Any, ...]:
        kept = []
        for i, layer in enumerate(self.layers):
            x = layer(x, *rest, cache=None if cache is None else cache[i])
            if cache is not None:
                x, new = x
                kept.append(new)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, kept)


class TransformerEncoder(_Stack):
    """Stack of encoder layers.

    Args:
        encoder_layer: The first layer; the others are made with its arguments and have parameters of their own.
        num_layers: Number of layers.
        norm: Layer that is applied to the output, such as ``LayerNorm``. Default: None.

    Shape:
        - src: ``[N, L, d_model]``
        - output: ``[N, L, d_model]``

    Examples:
        >>> layer = bireme.nn.TransformerEncoderLayer(4, 2, 8)
        >>> bireme.nn.TransformerEncoder(layer, 2)(bireme.ones([1, 3, 4])).shape
        [1, 3, 4]
    """

    def __init__(self, encoder_layer: Layer, num_layers: int, norm: Layer | None = None):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, cache: list | None = None
    ) -> Tensor | tuple[Any, ...]:
        """Encode a sequence.

        Args:
            src: Tensor of shape ``[N, L, d_model]``.
            src_mask: Tensor that broadcasts to ``[N, nhead, L, L]``. Bool keeps where it is true, integers where they
                are not 0, floats are added to the scores. Default: None, no mask.
            cache: List with the cache of each layer, from ``gen_cache``. Default: None.

        Returns:
            Tensor of shape ``[N, L, d_model]``; with a cache a tuple of it and the list for the next call.
        """
        return self._run(src, cache, src_mask)

    def gen_cache(self, src: Tensor) -> list[Cache]:
        """Create an empty cache for each layer.

        Args:
            src: Tensor whose first axis is the batch.

        Returns:
            A list of ``MultiHeadAttention.Cache``.

        Examples:
            >>> layer = bireme.nn.TransformerEncoderLayer(4, 2, 8)
            >>> len(bireme.nn.TransformerEncoder(layer, 2).gen_cache(bireme.ones([1, 3, 4])))
            2
        """
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Stack):
    """Stack of decoder layers.

    Args:
        decoder_layer: The first layer; the others are made with its arguments and have parameters of their own.
        num_layers: Number of layers.
        norm: Layer that is applied to the output, such as ``LayerNorm``. Default: None.

    Shape:
        - tgt: ``[N, L, d_model]``
        - memory: ``[N, S, d_model]``
        - output: ``[N, L, d_model]``

    Examples:
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
    ) -> Tensor | tuple[Any, ...]:
        """Decode a sequence.

        Args:
            tgt: Tensor of shape ``[N, L, d_model]``.
            memory: Output of the encoder, of shape ``[N, S, d_model]``.
            tgt_mask: Tensor that broadcasts to ``[N, nhead, L, L]``. Bool keeps where it is true, integers where they
                are not 0, floats are added to the scores. Default: None, no mask.
            memory_mask: Tensor that broadcasts to ``[N, nhead, L, S]``, in the same forms. Default: None, no mask.
            cache: List with the pair of caches of each layer, from ``gen_cache``. Default: None.

        Returns:
            Tensor of shape ``[N, L, d_model]``; with a cache a tuple of it and the list for the next call.
        """
        return self._run(tgt, cache, memory, tgt_mask, memory_mask)

    def gen_cache(self, memory: Tensor, do_zip: bool = False) -> list[Any]:
        """Create the caches of each layer.

        Args:
            memory: Output of the encoder, of shape ``[N, S, d_model]``.
            do_zip: Return one tuple of all growing caches and one of all static ones instead. Default: False.

        Returns:
            A list with a pair of caches for each layer, as ``forward`` takes it; with ``do_zip`` a list of two tuples.

        Examples:
            >>> layer = bireme.nn.TransformerDecoderLayer(4, 2, 8)
            >>> len(bireme.nn.TransformerDecoder(layer, 3).gen_cache(bireme.ones([1, 3, 4]), do_zip=True))
            2
        """
        made = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*made, strict=True)) if do_zip else made


class Transformer(Layer):
    """Transformer of "Attention Is All You Need": an encoder, and a decoder that attends to its output.

    Args:
        d_model: Size of the last axis of inputs and output. Default: 512.
        nhead: Number of heads; it must divide ``d_model``. Default: 8.
        num_encoder_layers: Number of encoder layers. Default: 6.
        num_decoder_layers: Number of decoder layers. Default: 6.
        dim_feedforward: Size of the hidden layer of the feed-forward networks. Default: 2048.
        dropout: Probability of dropout after each part, in training. Default: 0.1.
        activation: Name of a function in ``bireme.nn.functional``. Default: ``'relu'``.
        attn_dropout: Probability of dropout of the attention weights. Default: None, ``dropout``.
        act_dropout: Probability of dropout after the activation. Default: None, ``dropout``.
        normalize_before: Apply layer normalization to the input of each part instead of to the sum after it. Default:
            False.
        weight_attr: Attribute of the weights; a list of up to three has one each for self-attention, cross-attention
            and the feed-forward networks. Default: None, Xavier uniform.
        bias_attr: Attribute of the biases, likewise; ``False`` leaves them out. Default: None, zeros.
        custom_encoder: Layer to use as the encoder. Default: None.
        custom_decoder: Layer to use as the decoder. Default: None.

    Shape:
        - src: ``[N, S, d_model]``
        - tgt: ``[N, L, d_model]``
        - output: ``[N, L, d_model]``

    Examples:
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
        weight_attr: Attr | Sequence[Attr] = None,
        bias_attr: Attr | Sequence[Attr] = None,
        custom_encoder: Layer | None = None,
        custom_decoder: Layer | None = None,
    ):
        super().__init__()
        must_be_positive("Transformer", d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        common = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before)
        weights, biases = self._shares("weight_attr", weight_attr), self._shares("bias_attr", bias_attr)
        told = errors.within("Transformer", "d_model", "dropout", "activation", "attn_dropout", "act_dropout")
        if custom_encoder is None:
            with told:
                first = TransformerEncoderLayer(*common, weights[0], biases[0])
            custom_encoder = TransformerEncoder(first, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            with told:
                first = TransformerDecoderLayer(*common, weights[1], biases[1])
            custom_decoder = TransformerDecoder(first, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder
        self.d_model, self.nhead = d_model, nhead

    @staticmethod
    def _shares(name: str, attr: Any) -> tuple[Any, Any]:
        """What both kinds of layers get: of a list the first is for self-attention, the last for the feed-forward."""
        if not isinstance(attr, (list, tuple)):
            return attr, attr
        if not 1 <= len(attr) <= 3:
            raise errors.bad(
                f"Transformer({name})",
                "one attribute, or a list of 1 to 3",
                described=f"{len(attr)} of them",
                kind=errors.ArgumentError,
            )
        return [attr[0], attr[-1]], [attr[0], attr[1] if len(attr) == 3 else attr[0], attr[-1]]

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """Encode the source and decode the target.

        Args:
            src: Tensor of shape ``[N, S, d_model]``.
            tgt: Tensor of shape ``[N, L, d_model]``.
            src_mask: Tensor that broadcasts to ``[N, nhead, S, S]``. Bool keeps where it is true, integers where they
                are not 0, floats are added to the scores. Default: None, no mask.
            tgt_mask: Tensor that broadcasts to ``[N, nhead, L, L]``, in the same forms. Default: None, no mask.
            memory_mask: Tensor that broadcasts to ``[N, nhead, L, S]``, in the same forms. Default: None, no mask.

        Returns:
            Tensor of shape ``[N, L, d_model]``.
        """
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int | Tensor) -> Tensor:
        """Create a causal mask, to be added to the scores.

        Args:
            length: Length of the sequence.

        Returns:
            Tensor ``[length, length]``: minus infinity above the diagonal, else 0.

        Examples:
            >>> bireme.nn.Transformer(4, 2, 1, 1, 8).generate_square_subsequent_mask(2).tolist()
            [[0.0, -inf], [0.0, 0.0]]
        """
        length = int(length)
        return triu(full([length, length], -math.inf), 1)
