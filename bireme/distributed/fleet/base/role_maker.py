"""Role makers: which part a process plays, a worker's or a parameter server's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.later import Later
from bireme.distributed import world
from bireme.distributed.communication.group import barrier
from bireme.distributed.communication.objects import all_gather_object

__all__ = ["PaddleCloudRoleMaker", "Role", "UserDefinedRoleMaker"]

values = Later("bireme.distributed.rpc.values")
REDUCE: dict[str, Any] = {"sum": np.sum, "min": np.min, "max": np.max}


class Role:
    """Parts that a process can play.

    Examples:
        >>> bireme.distributed.fleet.Role.WORKER, bireme.distributed.fleet.Role.SERVER
        (1, 2)
    """

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4
    COORDINATOR = 5


class PaddleCloudRoleMaker:
    """What the environment says about this process.

    With parameter servers, which are there if ``is_collective`` is False and ``PADDLE_PSERVERS_IP_PORT_LIST`` has their
    addresses, ``TRAINING_ROLE`` is ``TRAINER`` or ``PSERVER``, ``PADDLE_TRAINERS_NUM`` the number of workers,
    ``PADDLE_TRAINER_ID`` the rank of a worker, and ``POD_IP`` and ``PADDLE_PORT`` the address of a server.

    Args:
        is_collective: Whether processes train together without parameter servers. Default: False.
        **kwargs: Not used.

    Raises:
        ValueError: If the environment describes no part.

    Examples:
        >>> bireme.distributed.fleet.PaddleCloudRoleMaker(is_collective=True).to_string()
        "role: 1, current_id: 0, worker_endpoints: ['127.0.0.1:6170'], server_endpoints: []"
    """

    _server_endpoints: list[str]
    _gather: Callable[[bytes], list[bytes]] | None = None  # of workers that have parameter servers, once they joined

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        self._is_collective, self._kwargs = is_collective, kwargs
        listed = "" if is_collective else os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST", "")
        self._server_endpoints = listed.split(",") if listed else []
        addresses = os.environ.get("PADDLE_TRAINER_ENDPOINTS") or "127.0.0.1:6170"
        self._worker_endpoints = addresses.split(",")
        self._workers = world.size()
        known = {"TRAINER": Role.WORKER, "WORKER": Role.WORKER, "PSERVER": Role.SERVER}
        role = os.environ.get("TRAINING_ROLE", "TRAINER")
        if role not in known:
            raise errors.bad("environment variable TRAINING_ROLE", "TRAINER or PSERVER", role)
        if known[role] == Role.SERVER and not self._server_endpoints:
            raise errors.bad(
                "environment variable PADDLE_PSERVERS_IP_PORT_LIST", "the addresses of the servers, as 127.0.0.1:6170",
                listed or None, hint="and fleet.init(is_collective=False)",
            )  # fmt: skip
        self._role = known[role]
        self._current_id = self._own_index() if self._role == Role.SERVER else world.rank()
        self._check()

    def _own_index(self) -> int:
        own = f"{os.environ.get('POD_IP', '127.0.0.1')}:{os.environ.get('PADDLE_PORT', '')}"
        if own not in self._server_endpoints:
            expected = f"one of the servers' addresses {', '.join(self._server_endpoints)}"
            raise errors.bad("environment variables POD_IP and PADDLE_PORT", expected, own)
        return self._server_endpoints.index(own)

    def _check(self) -> None:
        """What every part needs: addresses of servers, and a rank among those that play it."""
        where = type(self).__name__
        for address in self._server_endpoints:
            host, _, port = str(address).rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) < 65536:
                raise errors.bad(f"{where}(server_endpoints)", "addresses, as 127.0.0.1:6170", address)
        count = len(self._server_endpoints) if self._is_server() else self._workers
        if not 0 <= self._current_id < count:
            what = "servers" if self._is_server() else "workers"
            raise errors.bad(f"{where}(current_id)", f"a rank below {count}, the number of {what}", self._current_id)

    def to_string(self) -> str:
        """Return role, rank and addresses in words."""
        return (
            f"role: {self._role}, current_id: {self._current_id}, worker_endpoints: {self._worker_endpoints}, "
            f"server_endpoints: {self._server_endpoints}"
        )

    def _worker_index(self) -> int:
        return self._current_id

    def _worker_num(self) -> int:
        return self._workers

    def _is_worker(self) -> bool:
        return self._role == Role.WORKER

    def _is_server(self) -> bool:
        return self._role == Role.SERVER

    def _is_first_worker(self) -> bool:
        return self._is_worker() and self._current_id == 0

    def _is_non_distributed(self) -> bool:
        return self._workers == 1 and not self._server_endpoints

    def _node_num(self) -> int:
        return len({address.rpartition(":")[0] for address in self._worker_endpoints})

    def _server_num(self) -> int:
        return len(self._server_endpoints)

    def _server_index(self) -> int:
        return self._current_id if self._is_server() else 0

    def _get_trainer_endpoints(self) -> list[str]:
        return self._worker_endpoints

    def _get_pserver_endpoints(self) -> list[str]:
        return self._server_endpoints

    def _barrier(self, comm_world: str = "worker") -> None:
        """Wait for all processes."""
        if self._server_endpoints:
            self._all_gather(0, comm_world)
        elif self._workers > 1:
            barrier()

    def _all_gather(self, input: Any, comm_world: str = "worker") -> list:
        if self._server_endpoints:
            if comm_world != "worker":
                raise errors.bad("comm_world", "'worker', since servers only answer workers", comm_world)
            if self._gather is None:
                raise errors.bad(
                    "fleet.util", "a call of fleet.init_worker() before", described="none", kind=RuntimeError
                )
            return [values.decode(data) for data in self._gather(values.encode("fleet.util", input))]
        if self._workers == 1:
            return [input]
        found: list = []
        all_gather_object(found, input)
        return found

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        if self._workers == 1 and not self._server_endpoints:
            return input
        return REDUCE[mode](np.stack(self._all_gather(np.asarray(input), comm_world)), axis=0)


class UserDefinedRoleMaker(PaddleCloudRoleMaker):
    """What the program says about this process.

    Args:
        is_collective: Whether processes train together without parameter servers. Default: False.
        init_gloo: Not used. Default: False.
        **kwargs: ``current_id``, ``role``, ``worker_num``, ``worker_endpoints``, ``server_endpoints``.

    Raises:
        ValueError: If there is no such rank.

    Examples:
        >>> bireme.distributed.fleet.UserDefinedRoleMaker(current_id=0, worker_endpoints=["127.0.0.1:1"]).to_string()
        "role: 1, current_id: 0, worker_endpoints: ['127.0.0.1:1'], server_endpoints: []"
    """

    def __init__(self, is_collective: bool = False, init_gloo: bool = False, **kwargs: Any) -> None:
        self._is_collective, self._kwargs = is_collective, kwargs
        self._role, self._current_id = kwargs.get("role", Role.WORKER), kwargs.get("current_id", 0)
        self._worker_endpoints = list(kwargs.get("worker_endpoints") or ["127.0.0.1:6170"])
        self._server_endpoints = list(kwargs.get("server_endpoints") or [])
        self._workers = kwargs.get("worker_num") or len(self._worker_endpoints)
        if self._role not in (Role.WORKER, Role.SERVER):
            raise errors.bad("UserDefinedRoleMaker(role)", "Role.WORKER or Role.SERVER", self._role)
        if self._is_server() and not self._server_endpoints:
            raise errors.bad("UserDefinedRoleMaker(server_endpoints)", "the addresses of the servers", None)
        self._check()
