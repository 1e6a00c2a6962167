"""The public calls: joining the processes that call each other, calling, and leaving."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.processes import connection
from bireme.distributed import world
from bireme.distributed.rpc.agent import Agent, Reply, WorkerInfo
from bireme.distributed.rpc.values import name_of

__all__ = [
    "WorkerInfo", "get_all_worker_infos", "get_current_worker_info", "get_worker_info", "init_rpc", "rpc_async",
    "rpc_sync", "shutdown",
]  # fmt: skip


class _State:
    agent: Agent | None = None
    served: Any = None
    own: connection.Service | None = None  # one that was started for these calls alone


def _agent(where: str) -> Agent:
    if _State.agent is None:
        raise errors.bad(f"{where}()", "a call of init_rpc() before", described="none", kind=RuntimeError)
    return _State.agent


def init_rpc(
    name: str, rank: int | None = None, world_size: int | None = None, master_endpoint: str | None = None
) -> None:
    """Join the processes that call functions of each other, and wait until all are there.

    Calls are taken from processes that know the job's secret alone: the launcher, or else the first process, makes it.

    Args:
        name: Name of this process, different from all others.
        rank: Its rank. Default: None, ``PADDLE_TRAINER_ID``.
        world_size: Number of processes. Default: None, ``PADDLE_TRAINERS_NUM``.
        master_endpoint: Address at which the first process waits for the others. Default: None, ``PADDLE_MASTER``.

    Raises:
        RuntimeError: If it was called before.
        ValueError: If two processes have the same name.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1, master_endpoint="127.0.0.1:8001")
        >>> bireme.distributed.rpc.rpc_sync("worker0", bireme.add, args=(bireme.ones([2]), 1)).tolist()
        [2.0, 2.0]
        >>> bireme.distributed.rpc.shutdown()
    """
    if not isinstance(name, str) or not name:
        raise errors.bad("init_rpc(name)", "a name", name, kind=errors.ArgumentTypeError)
    if _State.agent is not None:
        raise errors.bad("init_rpc()", "one call before shutdown()", described="a second one", kind=RuntimeError)
    rank = world.rank() if rank is None else rank
    size = world.size() if world_size is None else world_size
    errors.check_integer("init_rpc(rank)", rank)
    errors.check_integer("init_rpc(world_size)", size)
    if not 0 <= rank < size:
        raise errors.bad("init_rpc(rank)", f"a rank below world_size={size}", rank)
    service, host = _service(rank, size, master_endpoint)
    _State.agent = Agent(name, rank, size, service, host, _secret(rank, service))


def _service(rank: int, size: int, address: str | None) -> tuple[connection.Service | None, str]:
    """How the processes find each other, and the address at which this one is called."""
    if size == 1:
        return None, "127.0.0.1"
    if size == world.size() and address in (None, os.environ.get("BIREME_COORDINATOR")):
        world.connect()
        linked = connection.current()
        assert linked is not None, "several processes are connected"
        return linked, world.host(os.environ.get("PADDLE_MASTER", "127.0.0.1:0"))
    address = address or os.environ.get("PADDLE_MASTER", "")
    if ":" not in address:
        raise errors.bad(
            "init_rpc(master_endpoint)", "the address of the first process, as 127.0.0.1:6170", address or None
        )
    _State.served = connection.serve(address, size) if rank == 0 else None
    _State.own = connection.Service(address, rank, timeout=600)
    _State.own.join()
    return _State.own, world.host(address)


def _secret(rank: int, service: connection.Service | None) -> bytes:
    """What a process has to know to be listened to."""
    given = os.environ.get(world.SECRET)
    if given is not None or service is None:
        return (given or secrets.token_hex(32)).encode()
    if rank == 0:
        service.tell("rpc/secret/0", secrets.token_hex(32))
    if not service.meet("rpc/secret", 600.0):
        raise errors.failure("init_rpc(): expected all processes within 600 s, got only some of them")
    return service.told("rpc/secret/")[0].encode()


def rpc_sync(
    to: str,
    fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = -1,
) -> Any:
    """Call a function in another process, and wait for its result.

    The other process finds the function by its module and name, so it has to stand at the top level of a module that
    both can import, or of the program. Arguments and results are tensors, arrays, numbers, str, bytes, and dicts,
    lists, tuples and sets of them: nothing that would have to run code to be received.

    Args:
        to: Name of the process.
        fn: The function.
        args: Its arguments. Default: None, none.
        kwargs: Its keyword arguments. Default: None, none.
        timeout: Seconds to wait at most; not above 0 for no limit. Default: -1.

    Returns:
        What the function returned.

    Raises:
        ValueError: If there is no such process, or the other could not find the function.
        ProcessLostError: If the other process is gone.
        TimeoutError: If the time is over.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> bireme.distributed.rpc.rpc_sync("worker0", max, args=(2, 3))
        3
        >>> bireme.distributed.rpc.shutdown()
    """
    return _called("rpc_sync", to, fn, args, kwargs, timeout).wait()


def rpc_async(
    to: str,
    fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = -1,
) -> Reply:
    """Call a function in another process without waiting.

    Args:
        to: Name of the process.
        fn: The function; see ``rpc_sync``.
        args: Its arguments. Default: None, none.
        kwargs: Its keyword arguments. Default: None, none.
        timeout: Seconds that ``wait`` waits at most; not above 0 for no limit. Default: -1.

    Returns:
        An object whose ``wait()`` returns what the function returned, or raises what it raised.

    Raises:
        ValueError: If there is no such process, or the other could not find the function.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> replies = [bireme.distributed.rpc.rpc_async("worker0", pow, args=(2, i)) for i in range(3)]
        >>> [reply.wait() for reply in replies]
        [1, 2, 4]
        >>> bireme.distributed.rpc.shutdown()
    """
    return _called("rpc_async", to, fn, args, kwargs, timeout)


def _called(where: str, to: str, fn: Callable, args: Any, kwargs: Any, timeout: float) -> Reply:
    agent = _agent(where)
    errors.check_number(f"{where}(timeout)", timeout)
    return agent.call(where, to, name_of(f"{where}(fn)", fn), list(args or ()), dict(kwargs or {}), float(timeout))


def shutdown() -> None:
    """Wait until all processes have come to this call, answering their calls meanwhile, and leave.

    Raises:
        RuntimeError: If ``init_rpc`` was not called.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> bireme.distributed.rpc.shutdown()
    """
    agent = _agent("shutdown")
    _State.agent = None
    agent.finish()
    if _State.own is not None:
        service, _State.own = _State.own, None
        service.ended(agent.info.rank, "ended")
        if _State.served is not None:
            service.outlast(agent.size, 60.0)
        service.leave()
        _State.served = None


def get_worker_info(name: str) -> WorkerInfo:
    """Return what is known of a process.

    Args:
        name: Its name.

    Returns:
        Its name, rank, address and port.

    Raises:
        ValueError: If there is no such process.
        RuntimeError: If ``init_rpc`` was not called.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> bireme.distributed.rpc.get_worker_info("worker0").ip
        '127.0.0.1'
        >>> bireme.distributed.rpc.shutdown()
    """
    infos = _agent("get_worker_info").infos
    if name not in infos:
        raise errors.bad("get_worker_info(name)", f"one of the workers {', '.join(infos)}", name)
    return infos[name]


def get_all_worker_infos() -> list[WorkerInfo]:
    """Return what is known of all processes.

    Returns:
        A list in the order of ranks.

    Raises:
        RuntimeError: If ``init_rpc`` was not called.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> [info.name for info in bireme.distributed.rpc.get_all_worker_infos()]
        ['worker0']
        >>> bireme.distributed.rpc.shutdown()
    """
    return list(_agent("get_all_worker_infos").infos.values())


def get_current_worker_info() -> WorkerInfo:
    """Return what others know of this process.

    Returns:
        Its name, rank, address and port.

    Raises:
        RuntimeError: If ``init_rpc`` was not called.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> bireme.distributed.rpc.get_current_worker_info().name
        'worker0'
        >>> bireme.distributed.rpc.shutdown()
    """
    return _agent("get_current_worker_info").info
