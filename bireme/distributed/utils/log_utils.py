"""A logger with time, level and place in each line."""

from __future__ import annotations

import logging

__all__ = ["get_logger"]


def get_logger(log_level: int | str, name: str = "root") -> logging.Logger:
    """Return a logger that writes to the error stream.

    Args:
        log_level: Its level.
        name: Its name. Default: ``'root'``.

    Returns:
        The logger; a second call with the same name returns the same one.

    Examples:
        >>> logger = bireme.distributed.utils.log_utils.get_logger("INFO", "example")
        >>> logger.level, len(logger.handlers)
        (20, 1)
    """
    logger = logging.getLogger(name)
    logger.setLevel(log_level)
    logger.propagate = False
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(filename)s:%(lineno)d] %(message)s"))
        logger.addHandler(handler)
    return logger
