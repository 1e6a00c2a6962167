"""Integers in the files of a folder: words of 32 bits, as the library compressed-tensors packs them, and what config.json says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.llm.quantized import KINDS

WHERE = "load(folder)"
METHOD, FORM = "compressed-tensors", "pack-quantized"
PACKED, SCALE, SHAPE = "_packed", "_scale", "_shape"  # what stands in the files instead of a weight, after its name
WORD = 32  # bits


def kind_of(given: dict) -> str | None:
    """What the weights of a folder are by its config.json: one of `KINDS`, or None for floating point."""
    found = given.get("quantization_config")
    if found is None:
        return None
    if not isinstance(found, dict) or found.get("quant_method") != METHOD or found.get("format") != FORM:
        told = {k: found.get(k) for k in ("quant_method", "format")} if isinstance(found, dict) else found
        raise _refused(f"integers of {METHOD} in the form {FORM}", told)
    groups = found.get("config_groups")
    listed = list(groups.values()) if isinstance(groups, dict) else []
    if not listed or found.get("kv_cache_scheme") is not None:
        raise _refused("config_groups, and no kv_cache_scheme", sorted(k for k, v in found.items() if v is not None))
    kinds = {_kind(group) for group in listed}
    if len(kinds) > 1:
        raise _refused("integers of one width", ", ".join(sorted(kinds)))
    return kinds.pop()


def _kind(group: Any) -> str:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict) or group.get("input_activations") or group.get("output_activations"):
        raise _refused("weights alone as integers", group)
    plain = weights.get("type", "int") == "int" and weights.get("symmetric", True) is True
    kind = next((k for k, bits in KINDS.items() if bits == weights.get("num_bits", 8)), None)
    if kind is None or not plain or weights.get("strategy") not in ("channel", "group"):
        raise _refused("symmetric integers of 8 or 4 bits with scales for each output or group", weights)
    if weights.get("actorder") in ("group", True):
        raise _refused("groups of inputs in their order", weights)
    return kind


def _refused(expected: str, got: Any) -> Exception:
    return errors.bad(
        WHERE,
        f"{expected} in the quantization_config of config.json",
        got,
        hint="load the original weights with quantize='int8' or 'int4'",
    )


def settings(groups: dict[str, int], kind: str) -> dict[str, Any]:
    """The quantization_config of a folder whose maps, by the ends of their names, have groups of so many inputs; -1: all of them."""
    made: dict[str, Any] = {}
    for size in sorted(set(groups.values())):
        named = [f"re:.*{name.replace('.', '[.]')}$" for name, each in groups.items() if each == size]
        weights = {
            "num_bits": KINDS[kind],
            "type": "int",
            "symmetric": True,
            "strategy": "channel" if size < 0 else "group",
            "group_size": None if size < 0 else size,
            "dynamic": False,
        }
        targets = named if len(set(groups.values())) > 1 else ["Linear"]
        made[f"group_{len(made)}"] = {"targets": targets, "weights": weights, "input_activations": None}
    return {
        "quant_method": METHOD,
        "format": FORM,
        "quantization_status": "compressed",
        "config_groups": made,
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
    }


def words(rows: np.ndarray, kind: str) -> np.ndarray:
    """int8 [outputs, inputs] as int32 [outputs, words]: the first of a word in its lowest bits, without signs."""
    bits, each = KINDS[kind], WORD // KINDS[kind]
    short = -rows.shape[1] % each
    plain: np.ndarray = np.pad((rows.astype(np.int16) + (1 << bits - 1)).astype(np.uint8), [(0, 0), (0, short)])
    if bits == 4:
        plain = plain[:, ::2] | plain[:, 1::2] << 4
    return np.ascontiguousarray(plain).view("<u4").astype("<i4")


def rows(packed: np.ndarray, inputs: int, kind: str) -> np.ndarray:
    """The way back."""
    plain = np.ascontiguousarray(packed).astype("<i4", copy=False).view(np.uint8)
    if KINDS[kind] == 4:
        plain = np.stack([plain & 15, plain >> 4], 2).reshape(len(plain), -1)
    return (plain[:, :inputs].astype(np.int16) - (1 << KINDS[kind] - 1)).astype(np.int8)
