"""Automatic tuning: XLA does it for kernels and layouts, so the settings are checked and have no effect."""

from __future__ import annotations

import json
from typing import Any

from bireme.core.base import errors

__all__ = ["set_config"]

KINDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "kernel": {"enable": bool, "tuning_range": (list, tuple)},
    "layout": {"enable": bool},
    "dataloader": {"enable": bool, "tuning_steps": int},
}


def set_config(config: dict[str, Any] | str | None = None) -> None:
    """Set what is tuned automatically; the settings are checked and have no effect.

    XLA measures kernels when it compiles and chooses layouts itself, and the number of workers of a ``DataLoader`` is
    what it is set to.

    Args:
        config: Dict with the keys ``kernel``, ``layout`` and ``dataloader``, each a dict of settings, or the path of a
            JSON file with it. Default: None, everything.

    Examples:
        >>> bireme.incubate.autotune.set_config({"kernel": {"enable": True, "tuning_range": [1, 3]}})
    """
    if config is None:
        return
    if isinstance(config, str):
        try:
            with open(config, encoding="utf-8") as file:
                config = json.load(file)
        except (OSError, ValueError) as e:
            errors.warn(f"set_config(config): expected a JSON file, got {e}")
            return
    if not isinstance(config, dict):
        raise errors.bad(
            "set_config(config)", "a dict, the path of a JSON file, or None", config, kind=errors.ArgumentTypeError
        )
    for part, settings in config.items():
        if part not in KINDS:
            raise errors.bad("set_config(config)", f"keys among {', '.join(map(repr, KINDS))}", part)
        for name, value in settings.items():
            kind = KINDS[part].get(name)
            if kind is None or not isinstance(value, kind):
                errors.warn(f"set_config(config): {part}.{name} is left alone, got {errors.show(value)}")
