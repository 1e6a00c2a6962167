"""Networks of causal language models: GPT-2, LLaMA, Mistral and Qwen2 are one network with other parts.

How attention finds the keys and values of earlier tokens is given from outside: within the same call, or in pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.llm.configuration import Configuration
from bireme.llm.rotation import frequencies
from bireme.nn.common import Embedding, Linear
from bireme.nn.container import LayerList
from bireme.nn.initializer import Constant, Normal
from bireme.nn.layer import Layer
from bireme.nn.norm import LayerNorm
from bireme.ops import (
    arange,
    cos,
    gelu,
    relu,
    rms_norm_of,
    scaled_dot_product_attention,
    silu,
    sin,
    to_tensor,
    turned,
)
from bireme.ops.fused import decoding

DEVIATION = 0.02  # of weights that nobody has trained yet
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, True),
    "relu": relu,
}

Rotation = tuple[Tensor, Tensor] | None  # cosines and sines [rows, tokens, 1, head width]
# (number of the block, [rows, tokens, heads of queries, keys and values, width], rotation) -> what was attended to
Attend = Callable[[int, Tensor, Rotation], Tensor]


class RootMeanSquare(Layer):
    """Division by the root of the mean square of the last axis, times a weight."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=Constant(1.0))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm_of(x, self.weight, None, self.epsilon, [x.ndim - 1])


class Projection(Linear):
    """A linear map that may have few rows: those of one decode step."""

    def forward(self, input: Tensor) -> Tensor:
        assert self.weight is not None
        made = decoding.product(input, self.weight)
        return made if self.bias is None else made + self.bias


def _weight_alone(layer: Layer) -> Tensor | None:
    """The weight of a map that is a product and nothing else; None where there is a bias, or integers."""
    return layer.weight if isinstance(layer, Projection) and layer.bias is None else None


def _linear(inputs: int, outputs: int, bias: bool) -> Linear:
    return Projection(inputs, outputs, Normal(0.0, DEVIATION), None if bias else False)


def _norm(config: Configuration) -> Layer:
    if config.architecture == "gpt2":
        return LayerNorm(config.width, config.epsilon)
    return RootMeanSquare(config.width, config.epsilon)


class Attention(Layer):
    """Projections around attention; those to queries, keys and values are one."""

    def __init__(self, config: Configuration, number: int):
        super().__init__()
        self._heads, self._shared, self._width = config.heads, config.shared_heads, config.head_width
        self._number = number
        columns = (config.heads + 2 * config.shared_heads) * config.head_width
        self.inputs = _linear(config.width, columns, config.attention_bias)
        self.output = _linear(config.heads * config.head_width, config.width, config.output_bias)

    def forward(self, x: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """What was attended to, without the last projection."""
        rows, tokens = x.shape[:2]
        made = self.inputs(x).reshape([rows, tokens, self._heads + 2 * self._shared, self._width])
        return attend(self._number, made, rotation).reshape([rows, tokens, self._heads * self._width])


def parted(config: Configuration, made: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each of shape [rows, tokens, heads, width], as they are turned."""
    heads, shared = config.heads, config.shared_heads
    turns, value = made[:, :, : heads + shared], made[:, :, heads + shared :]
    if rotation is not None:
        turns = turned(turns, rotation[0], rotation[1], False)
    return turns[:, :, :heads], turns[:, :, heads:], value


class Perceptron(Layer):
    """Two projections around an activation; with a gate, the first one makes it too, before what it gates."""

    def __init__(self, config: Configuration):
        super().__init__()
        self._inner, self._gated, self._activation = config.inner, config.gated, ACTIVATIONS[config.activation]
        self.inputs = _linear(config.width, (2 if config.gated else 1) * config.inner, config.mlp_bias)
        self.output = _linear(config.inner, config.width, config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        """What the last projection is given."""
        weight = _weight_alone(self.inputs)
        if self._gated and self._activation is silu and weight is not None and decoding.applies(x, weight):
            made = decoding.gated_product(x.flatten(0, -2), weight)
            return made.reshape([*x.shape[:-1], self._inner])
        made = self.inputs(x)
        if self._gated:
            return self._activation(made[..., : self._inner]) * made[..., self._inner :]
        return self._activation(made)


class Block(Layer):
    """Attention and a perceptron, each after a normalization and added to what came in."""

    def __init__(self, config: Configuration, number: int):
        super().__init__()
        self.before_attention, self.attention = _norm(config), Attention(config, number)
        self.before_perceptron, self.perceptron = _norm(config), Perceptron(config)

    def forward(
        self, x: Tensor, normed: Tensor, rotation: Rotation, attend: Attend, after: Layer
    ) -> tuple[Tensor, Tensor]:
        """Hidden states, and those after the next normalization, `after`; `normed` is `x` after the block's first one."""
        x, normed = _added(self.attention.output, self.attention(normed, rotation, attend), x, self.before_perceptron)
        return _added(self.perceptron.output, self.perceptron(normed), x, after)


def _added(projection: Layer, made: Tensor, x: Tensor, norm: Layer) -> tuple[Tensor, Tensor]:
    """x + projection(made), and that after a normalization; in one kernel where there is one."""
    weight = _weight_alone(projection)
    if weight is not None and isinstance(norm, RootMeanSquare) and decoding.applies(made, weight):
        found = decoding.product_added(made.flatten(0, -2), weight, x.flatten(0, -2), norm.weight, norm.epsilon)
        return found[0].reshape(x.shape), found[1].reshape(x.shape)
    x = x + projection(made)
    return x, norm(x)


class Network(Layer):
    """A causal language model: tokens to logits of the next token.

    Its weights are drawn at random; ``bireme.llm.load`` reads those of a folder.

    Args:
        config: Sizes and kinds of its parts.

    Shape:
        - input: ``[N, L]``, integers
        - output: ``[N, L, vocabulary]``

    Examples:
        >>> config = bireme.llm.Configuration(
        ...     architecture="llama", vocabulary=64, width=32, layers=2, heads=4, shared_heads=2, inner=48)
        >>> network = bireme.llm.Network(config)
        >>> network(bireme.to_tensor([[3, 1, 4]])).shape
        [1, 3, 64]
    """

    def __init__(self, config: Configuration):
        super().__init__()
        if not isinstance(config, Configuration):
            raise errors.bad("Network(config)", "a Configuration", config, kind=errors.ArgumentTypeError)
        self.config = config
        start = Normal(0.0, DEVIATION)
        self.embedding = Embedding(config.vocabulary, config.width, weight_attr=start)
        self.positions = None if config.rope else Embedding(config.positions, config.width, weight_attr=start)
        self.blocks = LayerList([Block(config, i) for i in range(config.layers)])
        self.norm = _norm(config)
        self.head = None if config.tied else _linear(config.width, config.vocabulary, False)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return the logits of each next token.

        Args:
            input_ids: Tokens of shape ``[N, L]``.

        Returns:
            Tensor of shape ``[N, L, vocabulary]``.

        Raises:
            ValueError: If there are more tokens than positions that the model has learned.
        """
        return self.logits(self.states(input_ids))

    def states(self, input_ids: Tensor) -> Tensor:
        """Return the last hidden state of each token.

        Args:
            input_ids: Tokens of shape ``[N, L]``.

        Returns:
            Tensor of shape ``[N, L, width]``.

        Raises:
            ValueError: If there are more tokens than positions that the model has learned.
        """
        if input_ids.ndim != 2:
            raise errors.bad(
                "Network(input_ids)",
                "tokens of shape [N, L]",
                described=f"shape {input_ids.shape}",
                kind=errors.ShapeError,
            )
        length = input_ids.shape[1]
        if self.positions is not None and length > self.config.positions:
            raise errors.bad("Network(input_ids)", f"at most {self.config.positions} tokens", length)
        places = arange(length, dtype="int32").unsqueeze(0)
        return self.hidden(input_ids, places, self._within, length)

    def hidden(self, tokens: Tensor, places: Tensor, attend: Attend, length: int) -> Tensor:
        """Return the hidden states of tokens, from which ``logits`` makes logits.

        Args:
            tokens: Tokens of shape ``[N, L]``.
            places: Their places in their texts, of shape ``[N, L]`` or ``[1, L]``.
            attend: Function of a block's number, its queries, keys and values side by side, and the cosines and sines that
                turn them, which returns what is attended to: it knows the keys and values of earlier tokens.
            length: Tokens that texts have at most, which rotary embeddings of the kind ``'dynamic'`` follow.

        Returns:
            Tensor of shape ``[N, L, width]``.
        """
        x = self.embedding(tokens)
        rotation = None
        if self.positions is not None:
            x = x + self.positions(places)
        else:
            rotation = self._rotation(places, length)
        norms = [*[block.before_attention for block in self.blocks], self.norm]
        normed = norms[0](x)
        for block, after in zip(self.blocks, norms[1:]):
            x, normed = block(x, normed, rotation, attend, after)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states.

        Args:
            hidden: Hidden states of shape ``[..., width]``.

        Returns:
            Tensor of shape ``[..., vocabulary]``.
        """
        if self.head is not None:
            return self.head(hidden)
        assert self.embedding.weight is not None
        return decoding.product(hidden, self.embedding.weight, transpose_y=True)

    def _rotation(self, places: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of shape [rows, n, 1, head width]."""
        radians, scale = frequencies(self.config, length)
        angle = places.astype("float32").unsqueeze(-1) * to_tensor(np.concatenate([radians, radians]))
        angle = angle.unsqueeze(2)
        return (cos(angle), sin(angle)) if scale == 1 else (cos(angle) * scale, sin(angle) * scale)

    def _within(self, number: int, made: Tensor, rotation: Rotation) -> Tensor:
        """Attention among the tokens of one call."""
        query, key, value = parted(self.config, made, rotation)
        window, length = self.config.windows[number], query.shape[1]
        if not window or window >= length:
            return scaled_dot_product_attention(query, key, value, is_causal=True)
        place = np.arange(length)
        back = place[:, None] - place[None]
        return scaled_dot_product_attention(query, key, value, to_tensor((back >= 0) & (back < window)))


def bytes_of(network: Layer) -> int:
    """Bytes of a network's parameters and buffers, each of them once."""
    held: dict[int, Any] = {id(t): t for t in [*network.parameters(), *network.buffers()]}
    return sum(math.prod(t.shape) * t.dtype.np.itemsize for t in held.values())
