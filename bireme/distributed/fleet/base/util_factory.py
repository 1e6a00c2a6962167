"""UtilBase: small collectives on Python values, and who reads which file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed.fleet.base.role_maker import PaddleCloudRoleMaker

__all__ = ["UtilBase"]


class UtilBase:
    """Small collectives on Python values; ``fleet.util`` is one.

    Examples:
        >>> bireme.distributed.fleet.util.all_gather(3), bireme.distributed.fleet.util.get_file_shard(["a", "b"])
        ([3], ['a', 'b'])
    """

    def __init__(self) -> None:
        self._role: PaddleCloudRoleMaker | None = None

    def _set_role_maker(self, role_maker: PaddleCloudRoleMaker) -> None:
        self._role = role_maker

    @property
    def role_maker(self) -> PaddleCloudRoleMaker:
        """What is known about this process: what ``fleet.init`` was given, else what the environment says."""
        return PaddleCloudRoleMaker(True) if self._role is None else self._role

    def _check(self, where: str, comm_world: Any) -> None:
        if comm_world not in ("worker", "server", "all"):
            raise errors.bad(f"{where}(comm_world)", "'worker', 'server' or 'all'", comm_world)

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> np.ndarray:
        """Return the reduction of all processes' arrays.

        Args:
            input: An array or a list of numbers.
            mode: ``'sum'``, ``'min'`` or ``'max'``. Default: ``'sum'``.
            comm_world: ``'worker'``, ``'server'`` or ``'all'``. Default: ``'worker'``.

        Returns:
            The array.
        """
        self._check("all_reduce", comm_world)
        if mode not in ("sum", "min", "max"):
            raise errors.bad("all_reduce(mode)", "'sum', 'min' or 'max'", mode)
        return np.array(self.role_maker._all_reduce(np.array(input), mode, comm_world))

    def all_gather(self, input: Any, comm_world: str = "worker") -> list:
        """Return the values of all processes.

        Args:
            input: A number.
            comm_world: ``'worker'``, ``'server'`` or ``'all'``. Default: ``'worker'``.

        Returns:
            A list of one value per process.
        """
        self._check("all_gather", comm_world)
        return self.role_maker._all_gather(input, comm_world)

    def barrier(self, comm_world: str = "worker") -> None:
        """Wait for all processes; one does not wait.

        Args:
            comm_world: ``'worker'``, ``'server'`` or ``'all'``. Default: ``'worker'``.
        """
        self._check("barrier", comm_world)
        self.role_maker._barrier(comm_world)

    def get_file_shard(self, files: Sequence[str]) -> list[str]:
        """Return the files that this process reads: consecutive ones, the first processes one more where it does not
        divide evenly.

        Args:
            files: Names of all files.

        Returns:
            Names of this process' files.
        """
        if not isinstance(files, list):
            raise errors.bad("get_file_shard(files)", "a list of files", files, kind=errors.ArgumentTypeError)
        role = self.role_maker
        size, more = divmod(len(files), role._worker_num())
        index = role._worker_index()
        start = index * size + min(index, more)
        return files[start : start + size + (index < more)]

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Print a message in one process.

        Args:
            message: The message.
            rank_id: Rank of the process.
        """
        if self.role_maker._worker_index() == rank_id:
            sys.stdout.write(f"{message}\n")
