"""A folder of a language model with its matrices as integers, written from one with numbers."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.files import save
from bireme.llm import configuration, packed
from bireme.llm.model import found
from bireme.llm.quantized import KINDS, integers, rows_of
from bireme.llm.weights import ONE, Weights, json_of, plan
from bireme.ops import to_tensor

WHERE = "quantize"
KEPT = (".json", ".jinja", ".txt", ".model", ".md")  # beside the weights: tokenizer, templates, licences
TEMPLATES = "additional_chat_templates"


def quantize(folder: str | os.PathLike, out: str | os.PathLike, kind: str = "int8") -> int:
    """Write a folder of a language model whose matrices are integers, which ``load`` reads.

    The matrices of the blocks become integers with a scale for each output, with 4 bits for each group of 64 inputs where that is a
    factor; embeddings, norms, biases and the last map stay as they are. ``load`` of the folder gives the same numbers as ``load`` of
    the original with ``quantize=``. The files are those of the library compressed-tensors, so that other runtimes read them as well,
    but for GPT-2.

    Args:
        folder: Folder as ``load`` takes it, with weights in floating point.
        out: Folder to be written, which may not be there yet, or is empty.
        kind: ``'int8'`` or ``'int4'``. Default: ``'int8'``.

    Returns:
        How many matrices became integers.

    Raises:
        ValueError: If the folder is not one that ``load`` reads, has integers already, or if ``out`` holds something.

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
        ...     bireme.llm.quantize(folder, f"{folder}/int8"), bireme.llm.load(f"{folder}/int8").network.blocks[0].attention.inputs.weight.dtype.name
        (4, 'int8')
    """
    source, target = os.fspath(folder), Path(out)
    if kind not in KINDS:
        raise errors.bad(f"{WHERE}(kind)", f"one of {', '.join(map(repr, KINDS))}", kind)
    config, weights = found(source, f"{WHERE}(folder)")
    if weights.kind is not None:
        raise errors.failure(f"{source} has integers already, so nothing can be quantized", kind=ValueError)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise errors.bad(f"{WHERE}(out)", "a folder that is not there yet, or is empty", described=os.fspath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    # beside its place until it is whole: what ends on the way leaves no folder that looks like a model
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as made:
        arrays, groups, count = _arrays(config, weights, kind)
        save(arrays, os.path.join(made, ONE))
        _copy_others(Path(source), Path(made))
        told = json_of(source, "config.json") | {"quantization_config": packed.settings(groups, kind)}
        Path(made, "config.json").write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        whole = Path(made, "whole")
        whole.mkdir()
        for path in [p for p in Path(made).iterdir() if p != whole]:
            path.rename(whole / path.name)
        if target.exists():
            target.rmdir()
        whole.rename(target)
    return count


def _arrays(
    config: configuration.Configuration, weights: Weights, kind: str
) -> tuple[dict[str, Any], dict[str, int], int]:
    """What is written by name, groups of maps by the ends of their names, and how many maps have integers."""
    arrays: dict[str, Any] = {}
    groups: dict[str, int] = {}
    count = 0
    for name, parts in plan(config, weights):
        matrix = name.startswith("blocks.") and len(parts[0][1]) == 2
        for each, shape, turn in parts:
            found = weights.get(each, shape)
            if not matrix:
                arrays[each] = found
                continue
            wide = np.asarray(found).astype(np.float32)
            q, scale = integers(to_tensor(wide.T if turn else wide), kind)
            rows, scales = rows_of(q.numpy(), scale.numpy(), kind)
            arrays[each + packed.PACKED] = packed.words(rows, kind)
            arrays[each + packed.SCALE] = np.ascontiguousarray(scales)
            arrays[each + packed.SHAPE] = np.array(rows.shape, np.int64)
            end = each.removesuffix(".weight").rpartition(f"{name.split('.')[1]}.")[2]
            groups[end] = -1 if scales.shape[1] == 1 else rows.shape[1] // scales.shape[1]
            count += 1
    return arrays, groups, count


def _copy_others(source: Path, target: Path) -> None:
    for path in sorted(source.iterdir()):
        licence = path.name.upper().startswith(("LICENSE", "LICENCE", "NOTICE"))
        weights = path.name.endswith(".index.json") or path.name == "config.json"
        if path.is_file() and not weights and (licence or path.suffix in KEPT):
            shutil.copyfile(path, target / path.name)
    if (source / TEMPLATES).is_dir():
        shutil.copytree(source / TEMPLATES, target / TEMPLATES)
