"""Fleet's logger."""

from __future__ import annotations

import logging
from typing import Any

from bireme.core.base import errors

__all__ = ["get_log_level_code", "get_log_level_name", "layer_to_str", "logger", "set_log_level"]

logger = logging.getLogger("FLEET")


def set_log_level(level: int | str) -> None:
    """Set the level of the logger.

    Args:
        level: Name or number of the level.

    Examples:
        >>> from bireme.distributed.fleet.utils import log_util
        >>> log_util.set_log_level("INFO")
        >>> log_util.get_log_level_name(), log_util.get_log_level_code()
        ('INFO', 20)
    """
    if not isinstance(level, (int, str)):
        raise errors.bad("set_log_level(level)", "a name or a number", level, kind=errors.ArgumentTypeError)
    logger.setLevel(level.upper() if isinstance(level, str) else level)


def get_log_level_code() -> int:
    """Return the level of the logger as a number.

    Returns:
        The number.

    Examples:
        >>> from bireme.distributed.fleet.utils import log_util
        >>> log_util.set_log_level("WARNING")
        >>> log_util.get_log_level_code()
        30
    """
    return logger.getEffectiveLevel()


def get_log_level_name() -> str:
    """Return the level of the logger by name.

    Returns:
        The name.

    Examples:
        >>> from bireme.distributed.fleet.utils import log_util
        >>> log_util.set_log_level("ERROR")
        >>> log_util.get_log_level_name()
        'ERROR'
    """
    return logging.getLevelName(get_log_level_code())


def layer_to_str(base: str, *args: Any, **kwargs: Any) -> str:
    """Return the call of a layer's class as text.

    Args:
        base: Name of the class.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Returns:
        The text.

    Examples:
        >>> from bireme.distributed.fleet.utils import log_util
        >>> log_util.layer_to_str("Linear", 4, bias_attr=False)
        'Linear(4, bias_attr=False)'
    """
    given = [str(a) for a in args] + [f"{k}={v!s}" for k, v in kwargs.items()]
    return f"{base}({', '.join(given)})"
