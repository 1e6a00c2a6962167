"""Frequencies of rotary embeddings, plain or stretched to longer texts than a model was trained on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme.llm.configuration import Configuration


def frequencies(config: Configuration, length: int) -> tuple[np.ndarray, float]:
    """Radians per position of each pair of a head, and what cosines and sines are multiplied by, for texts of a length;
    it matters to ``'dynamic'`` alone.
    """
    assert config.rope is not None
    rope, width = config.rope, config.head_width
    base = rope["rope_theta"]
    if rope["rope_type"] == "dynamic":
        longer = max(length, config.positions) / config.positions
        base *= (rope["factor"] * longer - (rope["factor"] - 1)) ** (width / max(width - 2, 1))
    plain = 1 / base ** (np.arange(0, width, 2) / width)
    if rope["rope_type"] == "linear":
        return (plain / rope["factor"]).astype(np.float32), 1.0
    if rope["rope_type"] == "llama3":
        return _llama3(plain, rope).astype(np.float32), 1.0
    if rope["rope_type"] == "yarn":
        return _yarn(plain, rope, width, config.positions).astype(np.float32), _temper(rope)
    return plain.astype(np.float32), 1.0


def _llama3(plain: np.ndarray, rope: dict[str, Any]) -> np.ndarray:
    """Slow frequencies are divided, fast ones kept, and those between go from one to the other."""
    turns = rope["original_max_position_embeddings"] * plain / (2 * math.pi)  # within the texts of the training
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = np.clip((turns - low) / max(high - low, 1e-9), 0, 1)
    return plain / rope["factor"] * (1 - kept) + plain * kept


def _yarn(plain: np.ndarray, rope: dict[str, Any], width: int, positions: int) -> np.ndarray:
    """As above, by the number of the pair between those that turn `beta_fast` and `beta_slow` times."""
    trained = rope.get("original_max_position_embeddings", positions)

    def pair(turns: float) -> float:
        return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

    first: float = max(math.floor(pair(rope.get("beta_fast") or 32)), 0)
    last: float = min(math.ceil(pair(rope.get("beta_slow") or 1)), width - 1)
    last = first + 0.001 if first == last else last
    divided = np.clip((np.arange(width // 2) - first) / (last - first), 0, 1)
    return plain / rope["factor"] * divided + plain * (1 - divided)


def _temper(rope: dict[str, Any]) -> float:
    def scale(by: float) -> float:
        return 0.1 * by * math.log(rope["factor"]) + 1 if rope["factor"] > 1 else 1.0

    if rope.get("attention_factor") is not None:
        return rope["attention_factor"]
    one, all_of = rope.get("mscale"), rope.get("mscale_all_dim")
    return scale(one) / scale(all_of) if one and all_of else scale(1)
