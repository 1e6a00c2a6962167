"""ProcessMesh: processes, or the devices of one process, as an array with named axes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import device, errors
from bireme.core.base.mesh import Devices
from bireme.core.processes import connection
from bireme.core.processes.collectives import Channel
from bireme.core.record import agreement, flush
from bireme.core.xla_exec import virtual
from bireme.distributed import world
from bireme.distributed.collective import new_group
from bireme.distributed.communication.group import Group, member, start

__all__ = ["ProcessMesh", "get_mesh", "set_mesh"]

_held: list[ProcessMesh] = []
_entered: list[ProcessMesh] = []


class ProcessMesh:
    """Processes as an array with named axes. A process alone may have several devices, which stand for processes then.

    Args:
        mesh: Ranks of the processes, a list or an array. Default: None, ``shape`` and ``process_ids`` say it.
        dim_names: Names of the axes. Default: None, ``d0``, ``d1`` and so on.
        shape: Shape of the mesh. Default: None.
        process_ids: Ranks of the processes in one list. Default: None.

    Raises:
        ValueError: If a rank is negative or comes twice, or the names do not fit.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([[0, 1, 2], [3, 4, 5]], dim_names=["dp", "mp"])
        >>> mesh.shape, mesh.get_dim_size("mp"), mesh[0].process_ids
        ([2, 3], 3, [0, 1, 2])
    """

    def __init__(
        self,
        mesh: Any = None,
        dim_names: Sequence[str] | None = None,
        shape: Sequence[int] | None = None,
        process_ids: Sequence[int] | None = None,
    ) -> None:
        if mesh is None:
            if shape is None or process_ids is None:
                raise errors.bad("ProcessMesh()", "mesh, or shape and process_ids", described="neither")
            mesh = np.array(process_ids).reshape(shape)
        if not isinstance(mesh, (list, np.ndarray)):
            raise errors.bad("ProcessMesh(mesh)", "a list or an array of ranks", mesh, kind=errors.ArgumentTypeError)
        self._mesh = np.array(mesh)
        if self._mesh.dtype.kind not in "iu" or (self._mesh < 0).any():
            raise errors.bad("ProcessMesh(mesh)", "non-negative integers", mesh)
        if len(np.unique(self._mesh)) != self._mesh.size or not self._mesh.size or not self._mesh.ndim:
            raise errors.bad("ProcessMesh(mesh)", "an array of different ranks", mesh)
        names = [f"d{i}" for i in range(self._mesh.ndim)] if dim_names is None else list(dim_names)
        if len(names) != self._mesh.ndim or len(set(names)) != len(names):
            raise errors.bad("ProcessMesh(dim_names)", f"{self._mesh.ndim} different names, one per axis", dim_names)
        if not all(isinstance(name, str) for name in names):
            raise errors.bad("ProcessMesh(dim_names)", "names as str", dim_names)
        self._dim_names = names

    @property
    def shape(self) -> list[int]:
        """Shape of the mesh."""
        return list(self._mesh.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._mesh.ndim

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._mesh.size

    @property
    def mesh(self) -> np.ndarray:
        """Ranks as an array."""
        return self._mesh

    @property
    def process_ids(self) -> list[int]:
        """Ranks in one list."""
        return self._mesh.ravel().tolist()

    @property
    def dim_names(self) -> list[str]:
        """Names of the axes."""
        return self._dim_names

    @property
    def unique_id(self) -> int:
        """Number that meshes of the same shape and ranks share."""
        return _ids.setdefault((tuple(self.shape), tuple(self.process_ids)), len(_ids) + 1)

    def empty(self) -> bool:
        """Return whether it has no process."""
        return self.size == 0

    def dim_size(self, dim: str | int) -> int:
        """Return the size of an axis.

        Args:
            dim: Its name or index.

        Returns:
            The size.
        """
        return self._mesh.shape[dim] if isinstance(dim, int) else self.get_dim_size(dim)

    def _axis(self, name: str, where: str) -> int:
        if name not in self._dim_names:
            raise errors.bad(f"ProcessMesh.{where}", f"one of {', '.join(self._dim_names)}", name)
        return self._dim_names.index(name)

    def get_dim_size(self, dim: str | int) -> int:
        """Return the size of an axis.

        Args:
            dim: Its name or index.

        Returns:
            The size.
        """
        if isinstance(dim, int):
            return self._mesh.shape[dim]
        return self._mesh.shape[self._axis(dim, "get_dim_size(dim)")]

    def get_rank_by_dim_and_process_id(self, dim: str, process_id: int) -> int:
        """Return the index of a process along an axis.

        Args:
            dim: Name of the axis.
            process_id: Rank of the process.

        Returns:
            The index, -1 if the process is not in the mesh.
        """
        axis = self._axis(dim, "get_rank_by_dim_and_process_id(dim)")
        found = np.argwhere(self._mesh == process_id)
        return int(found[0][axis]) if len(found) else -1

    def get_mesh_with_dim(self, dim_name: str, index: int | None = None) -> ProcessMesh:
        """Return the mesh with one axis first, or one of the meshes along it.

        Args:
            dim_name: Name of the axis.
            index: Index along it. Default: None, all.

        Returns:
            The mesh.
        """
        axis = self._axis(dim_name, "get_mesh_with_dim(dim_name)")
        names = [dim_name, *self._dim_names[:axis], *self._dim_names[axis + 1 :]]
        moved = np.moveaxis(self._mesh, axis, 0)
        if index is None:
            return ProcessMesh(moved, names)
        return ProcessMesh(moved[index], names[1:]) if len(names) > 1 else ProcessMesh(moved[index : index + 1], names)

    def get_submesh_with_dim(self, dim_name: str) -> ProcessMesh:
        """Return the mesh along one axis that this process is in.

        Args:
            dim_name: Name of the axis.

        Returns:
            The mesh. A process alone that has all devices gets the first one.
        """
        return ProcessMesh(self._along(self._axis(dim_name, "get_submesh_with_dim(dim_name)")), [dim_name])

    def _along(self, axis: int) -> np.ndarray:
        """The ranks along an axis that this process is among."""
        rows = np.moveaxis(self._mesh, axis, -1).reshape(-1, self._mesh.shape[axis])
        mine = [row for row in rows if world.rank() in row]
        return mine[0] if mine else rows[0]

    def get_group(self, dim_name: str | None = None) -> Group:
        """Return the group of processes along an axis; a collective of all processes, which make it together.

        Args:
            dim_name: Name of the axis. Default: None, the only one.

        Returns:
            The group.
        """
        if dim_name is None and self.ndim > 1:
            raise errors.bad("ProcessMesh.get_group(dim_name)", "the name of an axis, since there are several", None)
        axis = 0 if dim_name is None else self._axis(dim_name, "get_group(dim_name)")
        if world.size() == 1:
            return member("ProcessMesh.get_group", None)
        key = (tuple(self.shape), tuple(self.process_ids), axis)
        if key not in _groups:
            start()
            rows = np.moveaxis(self._mesh, axis, -1).reshape(-1, self._mesh.shape[axis])
            made = [new_group(row.tolist()) for row in rows]  # all processes make all groups, in one order
            _groups[key] = made[[world.rank() in row for row in rows].index(True)]
        return _groups[key]

    def _devices(self, where: str) -> Devices:
        """The devices that it stands for: of all processes, or those of a process alone."""
        found = self.__dict__.get("_found")
        if found is None:
            found = self.__dict__["_found"] = _devices_of(where, self)
        return found

    def __enter__(self) -> ProcessMesh:
        _entered.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _entered.pop()

    def __deepcopy__(self, memo: dict) -> ProcessMesh:
        memo[id(self)] = self
        return self

    def contains(self, process_id: int) -> bool:
        """Return whether a process is in the mesh.

        Args:
            process_id: Its rank.

        Returns:
            True or False.
        """
        return process_id in self.process_ids

    def __getitem__(self, index: Any) -> ProcessMesh:
        found = self._mesh[index]
        if np.ndim(found) == 0:
            return ProcessMesh([int(found)], self._dim_names[-1:])
        return ProcessMesh(found, self._dim_names[-found.ndim :])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessMesh) and np.array_equal(self._mesh, other._mesh)

    def __hash__(self) -> int:
        return hash((tuple(self.shape), tuple(self.process_ids)))

    def __repr__(self) -> str:
        return f"shape {self.shape}, process_ids {self.process_ids}, dim_names {self.dim_names}"


_ids: dict[tuple, int] = {}
_groups: dict[tuple, Group] = {}
_virtual: list[int] = []
_channels: dict[tuple[int, ...], agreement.Shared] = {}


@contextlib.contextmanager
def on_virtual_devices(count: int) -> Iterator[None]:
    """Meshes that are made in the block have virtual devices: programs are compiled for them and never run."""
    _virtual.append(count)
    try:
        yield
    finally:
        _virtual.pop()


def _devices_of(where: str, mesh: ProcessMesh) -> Devices:
    kind, ranks = device.current().kind, mesh.process_ids
    if _virtual:
        there = virtual.devices(_virtual[-1])
        return Devices("cpu", ranks, [there[rank] for rank in ranks], mesh.shape, mesh.dim_names, virtual=True)
    if world.size() > 1:
        start()
        connected = connection.current()
        assert connected is not None, "several processes are connected"
        if max(ranks) >= connected.size:
            raise errors.bad(where, f"a mesh of ranks below {connected.size}", described=repr(mesh))
        if connected.rank not in ranks:
            raise errors.bad(
                where,
                f"a mesh that this process, rank {connected.rank}, is in",
                described=repr(mesh),
                hint="let the processes of a mesh alone make and use its tensors",
                kind=NotImplementedError,
            )
        channel = _channels.get(tuple(ranks))
        if channel is None:
            channel = _channels[tuple(ranks)] = agreement.Shared(connected, ranks)
            Channel.before.append(functools.partial(agreement.run_pending, channel, flush.run))
            connected.before_end.append(functools.partial(agreement.finish, channel, flush.run))
        return Devices("cpu", ranks, [connected.devices[rank] for rank in ranks], mesh.shape, mesh.dim_names, channel)
    there = device.all_of(kind)
    if max(ranks) >= len(there):
        raise errors.bad(
            where,
            f"ranks of processes that were started together, or of the {len(there)} devices of this one",
            described=repr(mesh),
            hint="start processes by python -m bireme.distributed.launch, or set "
            "XLA_FLAGS=--xla_force_host_platform_device_count=8 before the start",
        )
    return Devices(kind, ranks, [there[rank] for rank in ranks], mesh.shape, mesh.dim_names)


def check_mesh(where: str, mesh: object) -> None:
    """Raise an error unless it is a mesh."""
    if not isinstance(mesh, ProcessMesh):
        raise errors.bad(where, "a ProcessMesh", mesh, kind=errors.ArgumentTypeError)


def get_mesh() -> ProcessMesh | None:
    """Return the mesh that ``set_mesh`` was given, or that of the ``with`` block around.

    Returns:
        The mesh, None if there is none.

    Examples:
        >>> bireme.distributed.set_mesh(bireme.distributed.ProcessMesh([0]))
        >>> bireme.distributed.get_mesh().shape
        [1]
    """
    return _entered[-1] if _entered else _held[0] if _held else None


def set_mesh(mesh: ProcessMesh) -> None:
    """Set the mesh of this process.

    Args:
        mesh: The mesh.

    Examples:
        >>> bireme.distributed.set_mesh(bireme.distributed.ProcessMesh([0]))
        >>> bireme.distributed.get_mesh().process_ids
        [0]
    """
    check_mesh("set_mesh(mesh)", mesh)
    _held[:] = [mesh]
