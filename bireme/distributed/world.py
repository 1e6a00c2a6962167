"""The world as the environment describes it: how many processes there are, which one this is, and where they meet."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.processes import connection
from bireme.core.processes.server import Server
from bireme.distributed import engines

SECRET = "BIREME_JOB_SECRET"  # what the processes of a job know and nobody else, from whoever started them


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


def connect() -> None:
    """Connect this process with the others that were started together; a process alone has none."""
    engines.adopt()
    if size() == 1 or connection.current() is not None:
        return
    if rank() >= size():
        raise errors.bad("environment variable PADDLE_TRAINER_ID", f"a rank below PADDLE_TRAINERS_NUM={size()}", rank())
    address = os.environ.get("BIREME_COORDINATOR")
    served = None
    if address is None:  # no launcher of ours: the first process is the one that all can find
        address = os.environ.get("PADDLE_MASTER") or os.environ.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")[0]
        if ":" not in address:
            raise errors.bad(
                "environment variable PADDLE_MASTER",
                f"the address of the first of {size()} processes, as 127.0.0.1:6170",
                described="none",
                hint="start the processes by python -m bireme.distributed.launch, or set PADDLE_MASTER for all of them",
            )
        served = Server(address, size()) if rank() == 0 else None
    connection.connect(rank(), size(), address, host(address), served)


def host(address: str) -> str:
    """The name under which others reach this process."""
    own = os.environ.get("PADDLE_CURRENT_ENDPOINT", "").rpartition(":")[0]
    return own or ("127.0.0.1" if address.startswith(("127.", "localhost")) else socket.gethostname())


def free_ports(count: int, at: str = "127.0.0.1") -> list[int]:
    """Ports that nobody uses now, and that the system gives to nobody else for a minute."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            # a port on which a connection has ended is given to no one who asks for any, but servers that set this too may
            # listen there; without that, jobs that start together may get the same one, and gRPC lets both listen
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((at, 0))
            one.listen(1)
            with socket.create_connection(one.getsockname()):
                one.accept()[0].close()
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def only_one(where: str, count: int, what: str = "process", got: str = "") -> None:
    """Raise an error unless the count of processes, stages or parts is one."""
    if count != 1:
        raise errors.bad(
            where,
            f"one {what}, since this is not there for several processes yet",
            described=got or str(count),
            kind=NotImplementedError,
        )


def environment(
    rank: int = 0, endpoints: Sequence[str] = ("127.0.0.1:6170",), local_rank: int = 0, local_size: int = 1,
    nodes: int = 1, **more: Any,
) -> dict[str, str]:  # fmt: skip
    """The environment variables by which a process knows its place among all, whose addresses are `endpoints`."""
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_GLOBAL_SIZE": str(len(endpoints)),
        "PADDLE_LOCAL_SIZE": str(local_size),
        "PADDLE_GLOBAL_RANK": str(rank),
        "PADDLE_LOCAL_RANK": str(local_rank),
        "PADDLE_RANK_IN_NODE": str(local_rank),
        "PADDLE_NNODES": str(nodes),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        **more,
    }
