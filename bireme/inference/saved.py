"""Saved models by their paths, whatever their format: with or without an ending, or a folder that holds one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.inference import loading

PROGRAMS = (".json", ".pdmodel", ".onnx")
WEIGHTS = (".pdiparams", ".safetensors")
LEGACY = "__model__"

Sketch = tuple[np.dtype, list[int]]  # dtype, and sizes with -1 for those that are open


def program_of(path: str | os.PathLike) -> str:
    """The file of a model's program, or the path that a reader adds an ending to; a folder of fluid's stays one."""
    if not os.fspath(path):
        raise errors.bad("model", "a path", "")
    given = Path(path)
    if given.is_dir():
        if (given / LEGACY).exists():
            return os.fspath(given)
        found = [p for p in sorted(given.iterdir()) if p.suffix in PROGRAMS]
        if len(found) != 1 and is_language_model(given):
            message = f"folder {given} holds a language model"
            raise errors.failure(message, hint="bireme generate and bireme serve read it", kind=ValueError)
        if len(found) != 1:
            which = ", ".join(p.name for p in found) or "none"
            below = sorted(p.name for p in given.iterdir() if p.is_dir())
            hint = (
                f"it has folders {', '.join(below[:5])}{', ...' if below[5:] else ''}: name one of them"
                if below
                else ""
            )
            kinds = f"one program ({', '.join(PROGRAMS)} or {LEGACY})"
            raise errors.bad(f"folder {given}", kinds, described=which, hint=hint)
        return os.fspath(found[0])
    if given.suffix in WEIGHTS:
        given = given.with_suffix("")
    if not given.is_file():
        named = [given.with_name(given.name + ending) for ending in PROGRAMS]
        found = [p for p in named if p.is_file()]
        if not found:
            message = f"there is no model {given}: neither a folder nor {', '.join(p.name for p in named)}"
            raise errors.failure(message, kind=FileNotFoundError)
        return os.fspath(found[0])
    return os.fspath(given)


def numbered(path: str | os.PathLike) -> list[Path]:
    """The folders of a folder that have numbers for names, which are versions of a model, the smallest first."""
    try:
        found = [p for p in Path(path).iterdir() if p.name.isdecimal() and p.is_dir()]
    except OSError:  # it is no folder, or cannot be looked at, which who reads it tells
        return []
    return sorted(found, key=lambda p: int(p.name))


def is_language_model(path: str | os.PathLike) -> bool:
    """Whether a path is a folder of Hugging Face's layout."""
    folder = Path(path)
    weights = any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "pytorch_model*.bin", "tokenizer.json"))
    return weights and os.path.isfile(folder / "config.json")  # False where it may not be looked at


def model_of(path: str | os.PathLike) -> Model:
    """The graph of a saved model, in evaluation."""
    return loading.read(program_of(path))


def sketches(model: Model) -> tuple[dict[str, Sketch], dict[str, Sketch]]:
    """What the inputs and outputs of a graph are like, by name."""
    inputs = {name: _sketch(x) for name, x in zip(model.input_names, model.inputs, strict=True)}
    return inputs, {name: _sketch(x) for name, x in zip(model.output_names, model.outputs, strict=True)}


def _sketch(x: Any) -> Sketch:
    return np.dtype(x.dtype.np), [n if isinstance(n, int) and n >= 0 else -1 for n in x.shape]
