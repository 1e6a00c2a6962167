"""A meeting point of processes on CPU, beside the groups: parameter servers' programs wait for each other by it."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.processes import connection

__all__ = ["gloo_barrier", "gloo_init_parallel_env", "gloo_release"]

PATIENCE = 600.0  # seconds


class _State:
    size = 0  # 0: not set up
    rank = meetings = 0
    service: connection.Service | None = None  # a process alone has none
    served: Any = None


def gloo_init_parallel_env(rank_id: int, rank_num: int, server_endpoint: str) -> None:
    """Set up processes that wait for each other, and wait until all are there.

    Args:
        rank_id: Rank of this process.
        rank_num: Number of processes.
        server_endpoint: Address at which the first process waits for the others, as ``127.0.0.1:6170``.

    Raises:
        ValueError: If there is no such rank, or it is no address.
        RuntimeError: If it was called before.

    Examples:
        >>> bireme.distributed.gloo_init_parallel_env(0, 1, "127.0.0.1:6170")
        >>> bireme.distributed.gloo_barrier()
        >>> bireme.distributed.gloo_release()
    """
    where = "gloo_init_parallel_env"
    errors.check_integer(f"{where}(rank_id)", rank_id)
    errors.check_integer(f"{where}(rank_num)", rank_num)
    if not 0 <= rank_id < rank_num:
        raise errors.bad(f"{where}(rank_id)", f"a rank below rank_num={rank_num}", rank_id)
    if not isinstance(server_endpoint, str) or not server_endpoint.rpartition(":")[2].isdigit():
        raise errors.bad(f"{where}(server_endpoint)", "an address, as 127.0.0.1:6170", server_endpoint)
    if _State.size:
        raise errors.bad(f"{where}()", "one call before gloo_release()", described="a second one", kind=RuntimeError)
    if rank_num > 1:
        _State.served = connection.serve(server_endpoint, rank_num) if rank_id == 0 else None
        _State.service = connection.Service(server_endpoint, rank_id, timeout=int(PATIENCE))
        _State.service.join()
    _State.rank, _State.size, _State.meetings = rank_id, rank_num, 0


def _check(where: str) -> None:
    if not _State.size:
        expected = "a call of gloo_init_parallel_env() before"
        raise errors.bad(f"{where}()", expected, described="none", kind=RuntimeError)


def gloo_barrier() -> None:
    """Wait until all processes of ``gloo_init_parallel_env`` have reached this call.

    Raises:
        RuntimeError: If it was not called, or some have not come within ten minutes.

    Examples:
        >>> bireme.distributed.gloo_init_parallel_env(0, 1, "127.0.0.1:6170")
        >>> bireme.distributed.gloo_barrier()
        >>> bireme.distributed.gloo_release()
    """
    _check("gloo_barrier")
    _State.meetings += 1
    if _State.service is not None and not _State.service.meet(f"gloo {_State.meetings}", PATIENCE):
        raise errors.failure(
            f"gloo_barrier(): rank {_State.rank} expected {_State.size} processes within {PATIENCE:.0f} s, got only some"
        )


def gloo_release() -> None:
    """Leave the processes of ``gloo_init_parallel_env``.

    Raises:
        RuntimeError: If it was not called.

    Examples:
        >>> bireme.distributed.gloo_init_parallel_env(0, 1, "127.0.0.1:6170")
        >>> bireme.distributed.gloo_release()
    """
    _check("gloo_release")
    service, size, _State.service, _State.size = _State.service, _State.size, None, 0
    if service is not None:
        service.ended(_State.rank, "released")
        if _State.served is not None:
            service.outlast(size, 60.0)  # the process that all others ask goes last
        service.leave()
    _State.served = None


guard_functions(globals())
