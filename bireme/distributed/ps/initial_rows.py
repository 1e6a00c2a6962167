"""Initial rows of tables: numbers that follow from the id alone, whichever server makes the row, and when."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed.ps.id_index import mixed
from bireme.nn import initializer

SEED_MASK = 0xFFFFFFFFFFFFFFFF
NUMBERS = {"constant": {"value"}, "uniform": {"low", "high"}, "normal": {"mean", "std", "low", "high"}}


def _fractions(ids: np.ndarray, width: int, seed: int) -> np.ndarray:
    """Numbers in (0, 1), one for each place of each row."""
    keys = mixed(ids ^ np.uint64(seed & SEED_MASK), 1)
    drawn = mixed(keys[:, None] + np.arange(width, dtype=np.uint64)[None] * np.uint64(0x9E3779B97F4A7C15), 2)
    return ((drawn >> np.uint64(40)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24)


def initial_rows(config: dict[str, Any], ids: np.ndarray, width: int) -> np.ndarray:
    """The first values of rows, float32."""
    kind = config["kind"]
    if kind == "constant":
        return np.full((ids.size, width), config["value"], np.float32)
    if kind == "uniform":
        low, high = config["low"], config["high"]
        return _fractions(ids, width, config["seed"]) * np.float32(high - low) + np.float32(low)
    radius = np.sqrt(-2 * np.log(_fractions(ids, width, config["seed"])))
    drawn = radius * np.cos(np.float32(2 * math.pi) * _fractions(ids, width, config["seed"] ^ 0x5DEECE66D))
    return np.clip(config["mean"] + config["std"] * drawn, config["low"], config["high"]).astype(np.float32)


def checked(config: Any) -> dict[str, Any]:
    """A description of initial rows, if it is one."""
    kind = str(config.get("kind")) if isinstance(config, dict) else ""
    fits = kind in NUMBERS and set(config) == NUMBERS[kind] | {"kind", "seed"} and type(config["seed"]) is int
    if not fits or not all(type(config[name]) is float for name in NUMBERS[kind]):
        raise errors.bad("table(initial)", f"one of {', '.join(NUMBERS)} with its numbers", described=str(config)[:200])
    return config


def described(where: str, given: Any, shape: list[int], seed: int) -> dict[str, Any]:
    """An initializer in words that another process understands; None is the default of weights."""
    given = initializer.XavierUniform() if given is None else given
    if type(given) is initializer.Constant:
        return {"kind": "constant", "value": float(given._fill), "seed": seed}
    if type(given) is initializer.Uniform:
        return {"kind": "uniform", "low": float(given._low), "high": float(given._high), "seed": seed}
    if type(given) is initializer.XavierUniform:
        bound = math.sqrt(3.0) * given._std_for(shape)
        return {"kind": "uniform", "low": -bound, "high": bound, "seed": seed}
    normal = {"kind": "normal", "mean": 0.0, "low": -math.inf, "high": math.inf, "seed": seed}
    if type(given) is initializer.XavierNormal:
        return {**normal, "std": float(given._std_for(shape))}
    if type(given) is initializer.Normal:
        return {**normal, "mean": float(given._mean), "std": float(given._std)}
    raise errors.bad(
        where, "Constant, Uniform, Normal, XavierUniform or XavierNormal, which servers can draw row by row",
        described=type(given).__name__,
    )  # fmt: skip
