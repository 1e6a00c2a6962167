"""Saved models by their paths, whatever their format: with or without an ending, or a folder that holds one."""

from __future__ import annotations

import os
from pathlib import Path

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.jit.saving import TranslatedLayer, load

ENDINGS = (".json", ".pdmodel", ".pdiparams", ".safetensors")


def saved_model(path: str | os.PathLike) -> tuple[TranslatedLayer, Model]:
    """A layer in evaluation, and the graph of its `forward`."""
    layer = _loaded(Path(path))
    layer.eval()
    return layer, layer._models["forward"]


def _loaded(path: Path) -> TranslatedLayer:
    if not path.is_dir():
        return load(os.fspath(path.with_suffix("") if path.suffix in ENDINGS else path))
    if (path / "__model__").exists():
        return load(os.fspath(path), model_filename="__model__")
    found = sorted({p.with_suffix("") for p in path.iterdir() if p.suffix in ENDINGS[:2]})
    if len(found) != 1:
        which = "none" if not found else ", ".join(p.name for p in found)
        raise errors.bad("load(path)", f"a folder with one model, {path} has", described=which)
    return load(os.fspath(found[0]))
