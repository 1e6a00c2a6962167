"""ProcessMesh: processes as an array with named axes. A mesh of one process is there; larger ones are not yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed import world
from bireme.distributed.communication.group import Group, member

__all__ = ["ProcessMesh", "get_mesh", "set_mesh"]

_held: list[ProcessMesh] = []


class ProcessMesh:
    """Processes as an array with named axes.

    Args:
        mesh: Ranks of the processes, a list or an array. Default: None, ``shape`` and ``process_ids`` say it.
        dim_names: Names of the axes. Default: None, ``d0``, ``d1`` and so on.
        shape: Shape of the mesh. Default: None.
        process_ids: Ranks of the processes in one list. Default: None.

    Raises:
        NotImplementedError: If there is more than one process.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([[0]], dim_names=["dp", "mp"])
        >>> mesh.shape, mesh.get_dim_size("mp")
        ([1, 1], 1)
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
        names = [f"d{i}" for i in range(self._mesh.ndim)] if dim_names is None else list(dim_names)
        if len(names) != self._mesh.ndim or len(set(names)) != len(names):
            raise errors.bad("ProcessMesh(dim_names)", f"{self._mesh.ndim} different names, one per axis", dim_names)
        world.only_one("ProcessMesh(mesh)", self._mesh.size)
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

    def _axis(self, name: str, where: str) -> int:
        if name not in self._dim_names:
            raise errors.bad(f"ProcessMesh.{where}", f"one of {', '.join(self._dim_names)}", name)
        return self._dim_names.index(name)

    def get_dim_size(self, dim: str) -> int:
        """Return the size of an axis.

        Args:
            dim: Its name.

        Returns:
            The size.
        """
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
            The mesh.
        """
        self._axis(dim_name, "get_submesh_with_dim(dim_name)")
        return ProcessMesh(self._mesh.reshape(-1), [dim_name])

    def get_group(self, dim_name: str | None = None) -> Group:
        """Return the group of processes along an axis.

        Args:
            dim_name: Name of the axis. Default: None, the only one.

        Returns:
            The group.
        """
        if dim_name is not None:
            self._axis(dim_name, "get_group(dim_name)")
        return member("ProcessMesh.get_group", None)

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


def check_mesh(where: str, mesh: object) -> None:
    """Raise an error unless it is a mesh."""
    if not isinstance(mesh, ProcessMesh):
        raise errors.bad(where, "a ProcessMesh", mesh, kind=errors.ArgumentTypeError)


def get_mesh() -> ProcessMesh | None:
    """Return the mesh that ``set_mesh`` was given.

    Returns:
        The mesh, None if there is none.

    Examples:
        >>> bireme.distributed.set_mesh(bireme.distributed.ProcessMesh([0]))
        >>> bireme.distributed.get_mesh().shape
        [1]
    """
    return _held[0] if _held else None


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
