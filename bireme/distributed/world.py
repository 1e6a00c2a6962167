"""The world as the environment describes it: how many processes there are, which one this is, and that more than one
is not there yet.
"""

from __future__ import annotations

import os

from bireme.core.base import errors


class ParallelMode:
    """Ways to divide the training of a model among processes.

    Examples:
        >>> bireme.distributed.ParallelMode.DATA_PARALLEL, bireme.distributed.ParallelMode.TENSOR_PARALLEL
        (0, 1)
    """

    DATA_PARALLEL = 0
    TENSOR_PARALLEL = 1
    PIPELINE_PARALLEL = 2
    SHARDING_PARALLEL = 3
    SEGMENT_PARALLEL = 4


def size() -> int:
    """The number of processes that were started together."""
    return _integer("PADDLE_TRAINERS_NUM", 1)


def rank() -> int:
    """The index of this process among them."""
    return _integer("PADDLE_TRAINER_ID", 0)


def _integer(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        raise errors.bad(f"environment variable {name}", "a non-negative integer", text)
    return int(text)


def only_one(where: str, count: int, what: str = "process", got: str = "") -> None:
    """Raise an error unless the count of processes, stages or parts is one."""
    if count != 1:
        raise errors.bad(
            where,
            f"one {what}, since training on several processes is not there yet",
            described=got or str(count),
            kind=NotImplementedError,
        )


def alone(where: str) -> None:
    """Raise an error if this process was started together with others."""
    only_one(where, size(), got=f"PADDLE_TRAINERS_NUM={size()}")


def environment() -> dict[str, str]:
    """The environment variables by which a process of a world of one knows its place."""
    return {
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_GLOBAL_SIZE": "1",
        "PADDLE_LOCAL_SIZE": "1",
        "PADDLE_GLOBAL_RANK": "0",
        "PADDLE_LOCAL_RANK": "0",
        "PADDLE_RANK_IN_NODE": "0",
        "PADDLE_NNODES": "1",
        "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:6170",
        "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:6170",
    }
