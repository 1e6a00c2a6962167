"""Role makers: which part a process plays. Workers are there; parameter servers are not yet."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed import world
from bireme.distributed.communication.group import barrier
from bireme.distributed.communication.objects import all_gather_object

__all__ = ["PaddleCloudRoleMaker", "Role", "UserDefinedRoleMaker"]

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

    Args:
        is_collective: Whether processes train together without parameter servers. Default: False.
        **kwargs: Not used.

    Raises:
        NotImplementedError: If the process is a parameter server.

    Examples:
        >>> bireme.distributed.fleet.PaddleCloudRoleMaker(is_collective=True).to_string()
        "role: 1, current_id: 0, worker_endpoints: ['127.0.0.1:6170'], server_endpoints: []"
    """

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        self._is_collective, self._kwargs = is_collective, kwargs
        self._role, self._current_id = Role.WORKER, world.rank()
        addresses = os.environ.get("PADDLE_TRAINER_ENDPOINTS") or "127.0.0.1:6170"
        self._worker_endpoints = addresses.split(",")
        self._workers = world.size()
        self._check(os.environ.get("TRAINING_ROLE", "TRAINER"))

    def _check(self, role: str) -> None:
        where = type(self).__name__
        if role not in ("TRAINER", "WORKER"):
            raise errors.bad(
                f"{where}()", "a worker, since parameter servers are not there yet", role, kind=NotImplementedError
            )

    def to_string(self) -> str:
        """Return role, rank and addresses in words."""
        return (
            f"role: {self._role}, current_id: {self._current_id}, worker_endpoints: {self._worker_endpoints}, "
            "server_endpoints: []"
        )

    def _worker_index(self) -> int:
        return self._current_id

    def _worker_num(self) -> int:
        return self._workers

    def _is_worker(self) -> bool:
        return True

    def _is_server(self) -> bool:
        return False

    def _is_first_worker(self) -> bool:
        return self._current_id == 0

    def _is_non_distributed(self) -> bool:
        return self._workers == 1

    def _node_num(self) -> int:
        return len({address.rpartition(":")[0] for address in self._worker_endpoints})

    def _server_num(self) -> int:
        return 0

    def _server_index(self) -> int:
        return 0

    def _get_trainer_endpoints(self) -> list[str]:
        return self._worker_endpoints

    def _get_pserver_endpoints(self) -> list[str]:
        return []

    def _barrier(self, comm_world: str = "worker") -> None:
        """Wait for all processes."""
        if self._workers > 1:
            barrier()

    def _all_gather(self, input: Any, comm_world: str = "worker") -> list:
        if self._workers == 1:
            return [input]
        found: list = []
        all_gather_object(found, input)
        return found

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        return input if self._workers == 1 else REDUCE[mode](np.stack(self._all_gather(np.asarray(input))), axis=0)


class UserDefinedRoleMaker(PaddleCloudRoleMaker):
    """What the program says about this process.

    Args:
        is_collective: Whether processes train together without parameter servers. Default: False.
        init_gloo: Not used. Default: False.
        **kwargs: ``current_id``, ``role``, ``worker_num``, ``worker_endpoints``, ``server_endpoints``.

    Raises:
        NotImplementedError: If the process is a parameter server.

    Examples:
        >>> bireme.distributed.fleet.UserDefinedRoleMaker(current_id=0, worker_endpoints=["127.0.0.1:1"]).to_string()
        "role: 1, current_id: 0, worker_endpoints: ['127.0.0.1:1'], server_endpoints: []"
    """

    def __init__(self, is_collective: bool = False, init_gloo: bool = False, **kwargs: Any) -> None:
        self._is_collective, self._kwargs = is_collective, kwargs
        self._role, self._current_id = kwargs.get("role", Role.WORKER), kwargs.get("current_id", 0)
        self._worker_endpoints = list(kwargs.get("worker_endpoints") or ["127.0.0.1:6170"])
        roles = {value: name for name, value in vars(Role).items() if name.isupper()}
        servers = kwargs.get("server_endpoints")
        self._workers = kwargs.get("worker_num") or len(self._worker_endpoints)
        self._check(roles.get(self._role, str(self._role)))
        if servers:
            raise errors.bad(
                "UserDefinedRoleMaker(server_endpoints)", "none, since parameter servers are not there yet", servers,
                kind=NotImplementedError,
            )  # fmt: skip
        if not 0 <= self._current_id < self._workers:
            expected = f"a rank below {self._workers}, the number of workers"
            raise errors.bad("UserDefinedRoleMaker(current_id)", expected, self._current_id)
