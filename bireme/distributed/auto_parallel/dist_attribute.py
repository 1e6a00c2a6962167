"""DistAttr: how a tensor is divided, by the names of the axes of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh

__all__ = ["DistAttr"]


class DistAttr:
    """How a tensor is divided: for each of its axes the name of an axis of a mesh, or None.

    Args:
        mesh: The mesh.
        sharding_specs: The names.

    Raises:
        ValueError: If a name is not an axis of the mesh, or comes twice.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([[0, 1], [2, 3]], dim_names=["x", "y"])
        >>> bireme.distributed.DistAttr(mesh, ["x", None]).dims_mapping
        [0, -1]
    """

    def __init__(self, mesh: ProcessMesh, sharding_specs: Sequence[str | None]) -> None:
        check_mesh("DistAttr(mesh)", mesh)
        if not isinstance(sharding_specs, (list, tuple)):
            raise errors.bad(
                "DistAttr(sharding_specs)", "a list of names", sharding_specs, kind=errors.ArgumentTypeError
            )
        named = [name for name in sharding_specs if name is not None]
        if len(set(named)) != len(named) or not set(named) <= set(mesh.dim_names):
            raise errors.bad(
                "DistAttr(sharding_specs)", f"different names among {', '.join(mesh.dim_names)}", list(sharding_specs)
            )
        self._mesh, self._specs = mesh, list(sharding_specs)
        self.batch_dim = self.chunk_id = 0
        self.dynamic_dims = [False] * len(sharding_specs)
        self.annotated: dict[str, bool] = {"dims_mapping": True, "process_mesh": True}

    @property
    def process_mesh(self) -> ProcessMesh:
        """The mesh."""
        return self._mesh

    @property
    def sharding_specs(self) -> list[str | None]:
        """For each axis of the tensor the name of an axis of the mesh, or None."""
        return list(self._specs)

    @property
    def dims_mapping(self) -> list[int]:
        """The same by index, -1 where an axis is not divided."""
        return [-1 if name is None else self._mesh.dim_names.index(name) for name in self._specs]

    @property
    def multi_dims_mapping(self) -> list[list[int]]:
        """The same as lists, empty where an axis is not divided."""
        return [[] if i < 0 else [i] for i in self.dims_mapping]

    def is_annotated(self, name: str, /) -> bool:
        """Return whether somebody has set a field.

        Args:
            name: Name of the field.

        Returns:
            True or False.
        """
        return self.annotated.get(name, False)

    def mark_annotated(self, name: str, /) -> None:
        """Note that somebody has set a field.

        Args:
            name: Name of the field.
        """
        self.annotated[name] = True

    def clear_annotated(self) -> None:
        """Forget which fields somebody has set."""
        self.annotated = {}

    def reset(self) -> None:
        """Divide nothing."""
        self._specs = [None] * len(self._specs)
        self.annotated = {}

    def verify(self, tensor: Any = None) -> bool:
        """Return whether it fits a tensor.

        Args:
            tensor: The tensor, or its shape. Default: None, any.

        Returns:
            True or False.
        """
        return tensor is None or len(getattr(tensor, "shape", tensor)) == len(self._specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistAttr) and (self._mesh, self._specs) == (other._mesh, other._specs)

    def __hash__(self) -> int:
        return hash((self._mesh, tuple(self._specs)))

    def __repr__(self) -> str:
        return f"{{process_mesh: {self._mesh}, dims_mappings: {self.dims_mapping}}}"
