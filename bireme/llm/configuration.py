"""Configuration: what a network is made of, read from the config.json of a Hugging Face folder and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from bireme.core.base import errors

ARCHITECTURES = ("gpt2", "llama", "mistral", "qwen2")
ACTIVATIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
ROTATIONS = ("default", "linear", "dynamic", "llama3", "yarn")
MOST = 2**24  # of any size in a configuration
WHERE = "load(folder)"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Sizes and kinds of the parts of a causal language model.

    Args:
        architecture: ``'gpt2'``, ``'llama'``, ``'mistral'`` or ``'qwen2'``.
        vocabulary: Number of tokens.
        width: Size of a hidden state.
        layers: Number of blocks.
        heads: Heads of the queries.
        shared_heads: Heads of keys and values, a factor of ``heads``.
        head_width: Size of a head.
        inner: Size of the inner layer of a block's perceptron.
        positions: Positions that the model knows.
        epsilon: Added to the variance in normalizations.
        activation: ``'silu'``, ``'gelu'``, ``'gelu_tanh'`` or ``'relu'``.
        rope: Settings of the rotary embedding: ``rope_theta``, ``rope_type`` and what that takes; None where positions
            are learned.
        windows: For each block, how many tokens a token sees at most, itself included; 0 means all before it.
        tied: Whether the embedding is the output's weight too.
        attention_bias: Whether the projections to queries, keys and values have biases.
        output_bias: Whether the projection after attention has a bias.
        mlp_bias: Whether the perceptron's projections have biases.
        end: Tokens that end a text.
        begin: Token that begins one, or None.

    Raises:
        ValueError: If sizes do not fit together.

    Examples:
        >>> config = bireme.llm.Configuration(
        ...     architecture="llama", vocabulary=64, width=32, layers=2, heads=4, shared_heads=2, inner=48)
        >>> config.head_width, config.rope["rope_type"]
        (8, 'default')
    """

    architecture: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    shared_heads: int = 0
    head_width: int = 0
    positions: int = 2048
    epsilon: float = 1e-5
    activation: str = "silu"
    rope: dict[str, Any] | None = field(default_factory=lambda: {"rope_theta": 10000.0, "rope_type": "default"})
    windows: tuple[int, ...] = ()
    tied: bool = False
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    end: tuple[int, ...] = ()
    begin: int | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if self.architecture not in ARCHITECTURES:
            raise errors.bad("Configuration(architecture)", f"one of {', '.join(ARCHITECTURES)}", self.architecture)
        if self.architecture == "gpt2":
            put("rope", None)
        put("shared_heads", self.shared_heads or self.heads)
        for name in ("vocabulary", "width", "layers", "heads", "inner", "positions", "shared_heads"):
            given: Any = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST:
                raise errors.bad(f"Configuration({name})", f"an integer in [1, {MOST}]", given)
        if not self.head_width and self.width % self.heads:
            raise errors.bad("Configuration(heads)", f"a factor of the width {self.width}", self.heads)
        put("head_width", self.head_width or self.width // self.heads)
        if self.heads % self.shared_heads:
            raise errors.bad("Configuration(shared_heads)", f"a factor of the {self.heads} heads", self.shared_heads)
        if self.rope is not None and self.head_width % 2:
            raise errors.bad("Configuration(head_width)", "an even number, to be rotated by pairs", self.head_width)
        if self.activation not in ACTIVATIONS.values():
            raise errors.bad(
                "Configuration(activation)", f"one of {sorted(set(ACTIVATIONS.values()))}", self.activation
            )
        put("windows", tuple(self.windows) or (0,) * self.layers)
        if len(self.windows) != self.layers:
            raise errors.bad("Configuration(windows)", f"{self.layers} integers, one for each block", self.windows)
        size = self.parameters
        if size > 2**42:
            raise errors.bad("Configuration(width)", "a network of at most 2**42 numbers", described=f"{size} numbers")

    @property
    def parameters(self) -> int:
        """Numbers in the matrices of the network, about."""
        heads = (2 * self.heads + 2 * self.shared_heads) * self.head_width
        matrices = 2 if self.architecture == "gpt2" else 3
        block = self.width * (heads + matrices * self.inner)
        return self.layers * block + self.vocabulary * self.width * (1 if self.tied else 2)

    @property
    def gated(self) -> bool:
        """Whether the perceptron has a gate, as LLaMA's has."""
        return self.architecture != "gpt2"


def read(given: Any, generation: Any = None) -> Configuration:
    """The configuration that the contents of config.json mean; `generation` are those of generation_config.json."""
    if not isinstance(given, dict):
        raise errors.bad(WHERE, "a JSON object in config.json", given)
    kind = given.get("model_type")
    if kind not in ARCHITECTURES:
        raise errors.bad(WHERE, f"a model_type among {', '.join(ARCHITECTURES)} in config.json", kind)
    common = {
        "architecture": kind,
        "vocabulary": _size(given, "vocab_size"),
        "end": _ends(given, generation),
        "begin": _token(given, "bos_token_id"),
    }
    return _gpt2(given, common) if kind == "gpt2" else _llama(given, kind, common)


def _gpt2(given: dict, common: dict[str, Any]) -> Configuration:
    for name, usual in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        if given.get(name, usual) != usual:
            raise errors.bad(WHERE, f"{name} to be {usual} in config.json", given[name])
    width = _size(given, "n_embd")
    return Configuration(
        **common,
        width=width,
        layers=_size(given, "n_layer"),
        heads=_size(given, "n_head"),
        inner=_size(given, "n_inner", 4 * width),
        positions=_size(given, "n_positions", given.get("n_ctx", 1024)),
        epsilon=_number(given, "layer_norm_epsilon", 1e-5),
        activation=_activation(given, "activation_function", "gelu_new"),
        tied=_flag(given, "tie_word_embeddings", True),
        attention_bias=True,
        output_bias=True,
        mlp_bias=True,
    )


def _llama(given: dict, kind: str, common: dict[str, Any]) -> Configuration:
    layers, heads = _size(given, "num_hidden_layers"), _size(given, "num_attention_heads")
    bias = _flag(given, "attention_bias", False) if kind == "llama" else kind == "qwen2"
    return Configuration(
        **common,
        width=_size(given, "hidden_size"),
        layers=layers,
        heads=heads,
        shared_heads=_size(given, "num_key_value_heads", heads),
        head_width=_size(given, "head_dim", 0, least=0),
        inner=_size(given, "intermediate_size"),
        positions=_size(given, "max_position_embeddings", 2048),
        epsilon=_number(given, "rms_norm_eps", 1e-6),
        activation=_activation(given, "hidden_act", "silu"),
        rope=_rope(given),
        windows=_windows(given, kind, layers),
        tied=_flag(given, "tie_word_embeddings", False),
        attention_bias=bias,
        output_bias=bias and kind == "llama",
        mlp_bias=_flag(given, "mlp_bias", False) if kind == "llama" else False,
    )


def _windows(given: dict, kind: str, layers: int) -> tuple[int, ...]:
    if kind == "llama" or (kind == "qwen2" and not _flag(given, "use_sliding_window", False)):
        return (0,) * layers
    window = _size(given, "sliding_window", 0, least=0)
    types = given.get("layer_types")
    if types is None:
        first = _size(given, "max_window_layers", 28, least=0) if kind == "qwen2" else 0
        return tuple(window if i >= first else 0 for i in range(layers))
    known = {"sliding_attention": window, "full_attention": 0}
    if not isinstance(types, list) or len(types) != layers or not all(isinstance(t, str) and t in known for t in types):
        raise errors.bad(WHERE, f"layer_types with {layers} of {' and '.join(known)} in config.json", types)
    return tuple(known[t] for t in types)


NEEDS = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor",),
}
TAKES = ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "original_max_position_embeddings")


def _rope(given: dict) -> dict[str, Any]:
    found = given.get("rope_parameters") or given.get("rope_scaling") or {}
    if not isinstance(found, dict):
        raise errors.bad(WHERE, "an object as rope_parameters in config.json", found)
    kind = found.get("rope_type", found.get("type", "default"))
    if kind not in ROTATIONS:
        raise errors.bad(WHERE, f"a rope_type among {', '.join(ROTATIONS)} in config.json", kind)
    if _number(given, "partial_rotary_factor", _number(found, "partial_rotary_factor", 1.0)) != 1:
        raise errors.bad(WHERE, "whole heads to be rotated, a partial_rotary_factor of 1 in config.json", found)
    if found.get("truncate", True) is not True:
        raise errors.bad(WHERE, "truncate to be true in the rope_parameters of config.json", found["truncate"])
    made: dict[str, Any] = {
        "rope_type": kind,
        "rope_theta": _number(found, "rope_theta", _number(given, "rope_theta", 10000.0)),
    }
    for name in NEEDS[kind]:
        made[name] = _number(found, name)
    for name in TAKES:
        if found.get(name) is not None:
            made[name] = _number(found, name)
    if made["rope_theta"] <= 1 or made.get("factor", 1) < 1:
        raise errors.bad(WHERE, "a rope_theta above 1 and a factor of at least 1 in config.json", found)
    return made


def _ends(given: dict, generation: Any) -> tuple[int, ...]:
    told = generation.get("eos_token_id") if isinstance(generation, dict) else None
    found = given.get("eos_token_id") if told is None else told
    found = [] if found is None else found if isinstance(found, list) else [found]
    if len(found) > 1024 or not all(isinstance(t, int) and not isinstance(t, bool) for t in found):
        raise errors.bad(WHERE, "an integer or a list of integers as eos_token_id", found)
    return tuple(t for t in found if t >= 0)


def _token(given: dict, name: str) -> int | None:
    found = given.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _size(given: dict, name: str, default: int | None = None, least: int = 1) -> int:
    found = given.get(name)
    found = default if found is None else found
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= MOST:
        raise errors.bad(WHERE, f"{name} to be an integer in [{least}, {MOST}] in config.json", found)
    return found


def _number(given: dict, name: str, default: float | None = None) -> float:
    found = given.get(name)
    found = default if found is None else found
    if (
        isinstance(found, bool)
        or not isinstance(found, (int, float))
        or not math.isfinite(found)
        or not 0 <= found < 1e30
    ):
        raise errors.bad(WHERE, f"{name} to be a non-negative number in config.json", found)
    return float(found)


def _flag(given: dict, name: str, default: bool) -> bool:
    found = given.get(name)
    found = default if found is None else found
    if not isinstance(found, bool):
        raise errors.bad(WHERE, f"{name} to be true or false in config.json", found)
    return found


def _activation(given: dict, name: str, default: str) -> str:
    found = given.get(name, default)
    if found not in ACTIVATIONS:
        raise errors.bad(WHERE, f"{name} to be one of {', '.join(ACTIVATIONS)} in config.json", found)
    return ACTIVATIONS[found]
