"""Language models of Hugging Face folders: configuration, weights, tokenizer and chat template, all of them checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.llm import configuration
from bireme.llm.configuration import Configuration
from bireme.llm.network import Network
from bireme.llm.packed import kind_of
from bireme.llm.quantized import KINDS
from bireme.llm.template import ChatTemplate
from bireme.llm.tokenizer import Tokenizer
from bireme.llm.weights import WHERE, Weights, check, fill, json_of, plan, text_of
from bireme.nn.parameter import LazyGuard

MOST_TOKENIZER = 256 * 2**20  # bytes
MOST_TEMPLATE = 2**20


@dataclass(frozen=True)
class LanguageModel:
    """A causal language model with all that belongs to it.

    Args:
        config: Its configuration.
        network: The network, a ``bireme.nn.Layer`` from tokens ``[N, L]`` to logits ``[N, L, vocabulary]``.
        tokenizer: Text to tokens and back, or None.
        chat_template: Messages to text, or None.

    Examples:
        >>> config = bireme.llm.Configuration(architecture="llama", vocabulary=64, width=32, layers=1, heads=4, inner=48)
        >>> bireme.llm.LanguageModel(config, bireme.llm.Network(config)).tokenizer is None
        True
    """

    config: Configuration
    network: Network
    tokenizer: Tokenizer | None = None
    chat_template: ChatTemplate | None = None


def load(folder: str | os.PathLike, dtype: Any = None, quantize: str | None = None) -> LanguageModel:
    """Load a language model from a folder as Hugging Face's libraries write it.

    It has config.json and weights in safetensors files; tokenizer.json, tokenizer_config.json and chat_template.jinja
    are read if they are there. Nothing in it is executed but the chat template, in a sandbox, when it is used.

    Args:
        folder: The folder.
        dtype: Data type of the weights: ``'float32'``, ``'bfloat16'`` or ``'float16'``. Default: None, float32 on a CPU,
            that of the files elsewhere.
        quantize: ``'int8'`` or ``'int4'`` keeps the matrices of the blocks as integers. Default: None, as they are in the files:
            numbers, or what ``quantize`` has written.

    Returns:
        The model.

    Raises:
        ValueError: If something in the folder is missing, of another shape, or not supported.

    Examples:
        >>> import json, pathlib, tempfile
        >>> shapes = {"wte.weight": [8, 4], "wpe.weight": [16, 4], "ln_f.weight": [4], "ln_f.bias": [4]}
        >>> for name, shape in {"ln_1": [4], "ln_2": [4], "attn.c_attn": [4, 12], "attn.c_proj": [4, 4],
        ...                     "mlp.c_fc": [4, 16], "mlp.c_proj": [16, 4]}.items():
        ...     shapes |= {f"h.0.{name}.weight": shape, f"h.0.{name}.bias": shape[-1:]}
        >>> sizes = {"vocab_size": 8, "n_embd": 4, "n_layer": 1, "n_head": 2, "n_positions": 16}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))
        ...     bireme.save({n: bireme.ones(s) for n, s in shapes.items()}, f"{folder}/model.safetensors")
        ...     bireme.llm.load(folder).network(bireme.to_tensor([[1, 2, 3]])).shape
        [1, 3, 8]
    """
    if quantize is not None and quantize not in KINDS:
        raise errors.bad("load(quantize)", f"None or one of {', '.join(map(repr, KINDS))}", quantize)
    where = os.fspath(folder)
    config, weights = found(where)
    if quantize is not None and weights.kind not in (None, quantize):
        expected = f"None or {weights.kind!r}, as the folder has {weights.kind} already"
        raise errors.bad("load(quantize)", expected, quantize)
    with LazyGuard():
        network = Network(config)
    fill(network, weights, _dtype(dtype, config, weights), quantize)
    network.eval()
    return LanguageModel(config, network, *_text(where))


def found(folder: str, where: str = WHERE) -> tuple[Configuration, Weights]:
    """The configuration and the weights of a folder, whose names and shapes are right; `where` is told of one that is none."""
    if not os.path.isdir(folder):
        raise errors.bad(where, "a folder", described=f"{folder!r}, which is none")
    given = json_of(folder, "config.json")
    if given is None:
        raise errors.bad(where, "config.json in the folder", described=f"none in {folder!r}")
    config = configuration.read(given, json_of(folder, "generation_config.json"))
    weights = Weights(folder, kind_of(given))
    check(config, weights)
    return config, weights


def sketch(folder: str | os.PathLike) -> dict[str, Any]:
    """What a folder's model is like, without loading it: its sizes, dtypes, and what belongs to it."""
    where = os.fspath(folder)
    config, weights = found(where)
    names = ("architecture", "vocabulary", "width", "layers", "heads", "shared_heads", "positions", "parameters")
    told = {name: getattr(config, name) for name in names}
    tokenizer, template = _text(where)
    told["bytes"] = sum(entry.stat().st_size for entry in os.scandir(where) if entry.name.endswith(".safetensors"))
    told["weights"] = str(weights.dtype(next(iter(plan(config, weights)))[1][0][0]))
    if weights.kind is not None:
        told["weights"] += f", matrices {weights.kind}"
    return told | {"tokenizer": tokenizer is not None, "chat_template": template is not None}


def _dtype(dtype: Any, config: Configuration, weights: Weights) -> np.dtype:
    if dtype is None:
        first = next(iter(plan(config, weights)))[1][0][0]
        return np.dtype(np.float32) if devices.current().is_cpu else weights.dtype(first)
    found = dtypes.of(dtype, "load(dtype)")
    if not found.is_floating or found.np.itemsize < 2:
        raise errors.bad("load(dtype)", "float32, bfloat16 or float16", dtype)
    return found.np


def _text(folder: str) -> tuple[Tokenizer | None, ChatTemplate | None]:
    text = text_of(folder, "tokenizer.json", MOST_TOKENIZER)
    settings = json_of(folder, "tokenizer_config.json") or {}
    if not isinstance(settings, dict):
        raise errors.bad(WHERE, "a JSON object in tokenizer_config.json", settings)
    template = text_of(folder, "chat_template.jinja", MOST_TEMPLATE) or settings.get("chat_template")
    tool_use = text_of(folder, "additional_chat_templates/tool_use.jinja", MOST_TEMPLATE)
    if isinstance(template, list):  # several by name
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template, tool_use = named.get("default"), tool_use or named.get("tool_use")
    if not all(one is None or isinstance(one, str) for one in (template, tool_use)):
        raise errors.bad(WHERE, "a str as chat_template", template if tool_use is None else tool_use)
    tokens = {name: _token(settings.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    known = {k: t for k, t in tokens.items() if t is not None}
    made = ChatTemplate(template, known, tool_use or None) if template else None
    return (None if text is None else Tokenizer(text)), made


def _token(given: Any) -> str | None:
    found = given.get("content") if isinstance(given, dict) else given
    return found if isinstance(found, str) else None
