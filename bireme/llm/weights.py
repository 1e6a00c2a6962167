"""Weights of a network from the safetensors files of a Hugging Face folder: found by name, checked, laid out as ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.parameter import Parameter
from bireme.files import load as load_file
from bireme.llm import packed
from bireme.llm.configuration import Configuration
from bireme.llm.quantized import KINDS, QuantizedLinear, integers, of_rows
from bireme.nn.common import Linear
from bireme.ops import to_tensor

WHERE = "load(folder)"
ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
MOST_FILES = 4096
MOST_JSON = 64 * 2**20  # bytes


def json_of(folder: str, name: str, most: int = MOST_JSON) -> Any:
    """What a JSON file of the folder holds; None where there is none."""
    text = text_of(folder, name, most)
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise errors.bad(WHERE, f"JSON in {name}", described="something else") from None


def text_of(folder: str, name: str, most: int) -> str | None:
    """The text of a file of the folder; None where there is none."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    size = os.path.getsize(path)
    if size > most:
        raise errors.bad(WHERE, f"a {name} of at most {most} bytes", size)
    with open(path, "rb") as file:
        data = file.read(most + 1)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise errors.bad(WHERE, f"UTF-8 in {name}", described="other bytes") from None


class Weights:
    """Arrays of a folder by name; files are opened when something in them is asked for, and read when it is used.

    Args:
        folder: The folder.
        kind: What the integers are that may stand for weights, one of `quantized.KINDS`; None: there are none.
    """

    def __init__(self, folder: str, kind: str | None = None):
        self._folder, self.kind = folder, kind
        self._open: dict[str, dict[str, np.ndarray]] = {}
        index = json_of(folder, INDEX)
        if index is None:
            if not os.path.isfile(os.path.join(folder, ONE)):
                pickles = any(name.endswith(".bin") for name in os.listdir(folder))
                hint = (
                    "transformers' save_pretrained writes it; a .bin is a program of whoever made it"
                    if pickles
                    else None
                )
                raise errors.bad(
                    WHERE, f"{ONE} or {INDEX} in the folder", described=f"neither in {folder!r}", hint=hint
                )
            self._files = dict.fromkeys(self._arrays(ONE), ONE)
        else:
            self._files = _index(index)

    def _arrays(self, file: str) -> dict[str, np.ndarray]:
        if file not in self._open:
            path = os.path.join(self._folder, file)
            if not os.path.isfile(path):
                raise errors.bad(WHERE, f"the file {file} that {INDEX} names", described="none")
            self._open[file] = load_file(path, return_numpy=True, safetensors=True, mmap=True)
        return self._open[file]

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def dtype(self, name: str) -> Any:
        """The dtype of an array."""
        return self._array(name).dtype

    def _array(self, name: str) -> np.ndarray:
        if name not in self._files:
            raise errors.bad(WHERE, f"the tensor {name}", described="none of that name")
        found = self._arrays(self._files[name])
        if name not in found:
            raise errors.bad(WHERE, f"the tensor {name} in {self._files[name]}", described="none of that name")
        return found[name]

    def get(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array that has to have a shape."""
        found = self._array(name)
        if found.shape != shape:
            raise errors.bad(
                WHERE, f"shape {list(shape)} of {name}", described=f"shape {list(found.shape)}", kind=errors.ShapeError
            )
        if found.dtype.kind not in "fV" or found.dtype.itemsize not in (2, 4, 8):
            raise errors.bad(WHERE, f"{name} in floating point of 16 to 64 bits", described=str(found.dtype))
        return found

    def is_packed(self, name: str) -> bool:
        """Whether a weight stands in the files as integers."""
        return self.kind is not None and name + packed.PACKED in self

    def integers(self, name: str, outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray]:
        """Words of integers of a weight, `packed.rows` being their way back, and scales [outputs, groups]."""
        assert self.kind is not None
        found, scale = self._array(name + packed.PACKED), self._array(name + packed.SCALE)
        wide = -(-inputs * KINDS[self.kind] // packed.WORD)
        if found.dtype != np.int32 or found.shape != (outputs, wide):
            got = f"{found.dtype} of shape {list(found.shape)}"
            expected = f"int32 of shape {[outputs, wide]} in {name}{packed.PACKED}"
            raise errors.bad(WHERE, expected, described=got, kind=errors.ShapeError)
        groups = scale.shape[1] if scale.ndim == 2 else 0
        if scale.shape != (outputs, groups) or not groups or inputs % groups or scale.dtype.kind not in "fV":
            got = f"{scale.dtype} of shape {list(scale.shape)}"
            expected = f"floating point of shape [{outputs}, a factor of {inputs}] in {name}{packed.SCALE}"
            raise errors.bad(WHERE, expected, described=got, kind=errors.ShapeError)
        return found, scale


def _index(index: Any) -> dict[str, str]:
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not all(isinstance(f, str) for f in files.values()):
        raise errors.bad(WHERE, f"a weight_map of names to files in {INDEX}", described="something else")
    if len(set(files.values())) > MOST_FILES:
        raise errors.bad(WHERE, f"at most {MOST_FILES} files in {INDEX}", len(set(files.values())))
    for file in set(files.values()):
        plain = os.path.basename(file) == file and "\\" not in file and "\0" not in file
        if not plain or not file.endswith(".safetensors"):
            raise errors.bad(WHERE, f"names of safetensors files of the folder itself in {INDEX}", file)
    return files


# what a parameter is made of: arrays of these names and shapes, transposed or not, side by side
Parts = list[tuple[str, tuple[int, ...], bool]]


def plan(config: Configuration, weights: Weights) -> Iterator[tuple[str, Parts]]:
    """Each parameter of the network and what it is made of."""
    return _gpt2(config, weights) if config.architecture == "gpt2" else _llama(config)


def _gpt2(config: Configuration, weights: Weights) -> Iterator[tuple[str, Parts]]:
    start = "transformer." if "transformer.wte.weight" in weights else ""
    width, inner = config.width, config.inner
    yield "embedding.weight", [(f"{start}wte.weight", (config.vocabulary, width), False)]
    yield "positions.weight", [(f"{start}wpe.weight", (config.positions, width), False)]
    linears = {
        "attention.inputs": ("attn.c_attn", width, 3 * width),
        "attention.output": ("attn.c_proj", width, width),
        "perceptron.inputs": ("mlp.c_fc", width, inner),
        "perceptron.output": ("mlp.c_proj", inner, width),
    }
    norms = {"before_attention": "ln_1", "before_perceptron": "ln_2"}
    for i in range(config.layers):
        for ours, theirs in norms.items():
            for part in ("weight", "bias"):
                yield f"blocks.{i}.{ours}.{part}", [(f"{start}h.{i}.{theirs}.{part}", (width,), False)]
        for ours, (theirs, rows, columns) in linears.items():
            yield f"blocks.{i}.{ours}.weight", [(f"{start}h.{i}.{theirs}.weight", (rows, columns), False)]
            yield f"blocks.{i}.{ours}.bias", [(f"{start}h.{i}.{theirs}.bias", (columns,), False)]
    for part in ("weight", "bias"):
        yield f"norm.{part}", [(f"{start}ln_f.{part}", (width,), False)]
    if not config.tied:
        yield "head.weight", [("lm_head.weight", (config.vocabulary, width), True)]


def _llama(config: Configuration) -> Iterator[tuple[str, Parts]]:
    width, inner = config.width, config.inner
    own, shared = config.heads * config.head_width, config.shared_heads * config.head_width
    yield "embedding.weight", [("model.embed_tokens.weight", (config.vocabulary, width), False)]
    linears = {
        "attention.inputs": (
            {"self_attn.q_proj": own, "self_attn.k_proj": shared, "self_attn.v_proj": shared},
            width,
            config.attention_bias,
        ),
        "attention.output": ({"self_attn.o_proj": width}, own, config.output_bias),
        "perceptron.inputs": ({"mlp.gate_proj": inner, "mlp.up_proj": inner}, width, config.mlp_bias),
        "perceptron.output": ({"mlp.down_proj": width}, inner, config.mlp_bias),
    }
    norms = {"before_attention": "input_layernorm", "before_perceptron": "post_attention_layernorm"}
    for i in range(config.layers):
        start = f"model.layers.{i}"
        for ours, theirs in norms.items():
            yield f"blocks.{i}.{ours}.weight", [(f"{start}.{theirs}.weight", (width,), False)]
        for name, (parts, rows, bias) in linears.items():
            found: Parts = [(f"{start}.{part}.weight", (columns, rows), True) for part, columns in parts.items()]
            yield f"blocks.{i}.{name}.weight", found
            if bias:
                biases: Parts = [(f"{start}.{part}.bias", (columns,), False) for part, columns in parts.items()]
                yield f"blocks.{i}.{name}.bias", biases
    yield "norm.weight", [("model.norm.weight", (width,), False)]
    if not config.tied:
        yield "head.weight", [("lm_head.weight", (config.vocabulary, width), True)]


def check(config: Configuration, weights: Weights) -> None:
    """Look at names and shapes of all weights, before anything large is made."""
    for name, parts in plan(config, weights):
        if _are_packed(name, parts, weights):
            for each, shape, turn in parts:
                weights.integers(each, *(shape if turn else shape[::-1]))
        else:
            for each, shape, _ in parts:
                weights.get(each, shape)


def _are_packed(name: str, parts: Parts, weights: Weights) -> bool:
    found = [weights.is_packed(each) for each, _, _ in parts]
    matrix = name.startswith("blocks.") and len(parts[0][1]) == 2
    if any(found) and not (matrix and all(found)):
        some = ", ".join(each for (each, _, _), there in zip(parts, found, strict=True) if there)
        raise errors.bad(WHERE, "all matrices of a block as integers, and no others", described=f"{some} as such")
    return all(found)


def fill(network: Any, weights: Weights, dtype: Any, quantize: str | None) -> None:
    """Give a network the weights of a folder, in a dtype; matrices of linear maps as integers, if asked for or if they are."""
    layers = dict(network.named_sublayers())
    kind = weights.kind or quantize
    for name, parts in plan(network.config, weights):
        owner, _, part = name.rpartition(".")
        above, _, last = owner.rpartition(".")
        whole = part == "weight" and isinstance(layers[owner], Linear) and owner != "head"
        made: tuple[Any, Any]
        if whole and _are_packed(name, parts, weights):
            made = _joined(parts, weights, dtype)
        else:
            array = to_tensor(joined(parts, weights, dtype))
            if quantize is None or not whole:
                setattr(layers[owner], part, Parameter(array, trainable=kind is None))
                continue
            made = integers(array, quantize)
        assert kind is not None
        layers[owner] = QuantizedLinear(made[0], made[1], None, kind)
        setattr(layers[above], last, layers[owner])


def joined(parts: Parts, weights: Weights, dtype: Any) -> np.ndarray:
    """A parameter of numbers, side by side."""
    made = [np.asarray(weights.get(each, shape)) for each, shape, _ in parts]
    made = [a.T if turn else a for a, (_, _, turn) in zip(made, parts, strict=True)]
    return np.concatenate([a.astype(dtype, copy=False) for a in made], axis=-1)


def _joined(parts: Parts, weights: Weights, dtype: Any) -> tuple[Any, Any]:
    """A parameter of integers, one under another."""
    kind, found = weights.kind, []
    assert kind is not None
    for each, shape, turn in parts:
        outputs, inputs = shape if turn else shape[::-1]
        words, scale = weights.integers(each, outputs, inputs)
        found.append((packed.rows(words, inputs, kind), np.asarray(scale, np.float32)))
    if len({scale.shape[1] for _, scale in found}) > 1:
        raise errors.bad(
            WHERE, f"as many groups in each of {', '.join(each for each, _, _ in parts)}", described="others"
        )
    rows, scales = (np.concatenate(each) for each in zip(*found, strict=True))
    if len(rows) % 2 and kind == "int4":
        raise errors.bad(WHERE, f"an even number of outputs of {parts[0][0]} with 4 bits", len(rows))
    return of_rows(rows, scales, kind, dtype)
