"""Placements: how a tensor lies on one axis of a mesh, divided, whole everywhere, or as parts of a sum."""

from __future__ import annotations

import enum

from bireme.core.base import errors

__all__ = ["Partial", "Placement", "ReduceType", "Replicate", "Shard"]


class ReduceType(enum.IntEnum):
    """How the values of a ``Partial`` placement become one.

    Examples:
        >>> int(bireme.distributed.ReduceType.kRedMax)
        1
    """

    kRedSum = 0
    kRedMax = 1
    kRedMin = 2
    kRedProd = 3
    kRedAvg = 4
    kRedAny = 5
    kRedAll = 6


class Placement:
    """How a tensor lies on one axis of a mesh: ``Shard``, ``Replicate`` or ``Partial``.

    Examples:
        >>> isinstance(bireme.distributed.Shard(0), bireme.distributed.Placement)
        True
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether the tensor is divided.

        Args:
            dim: Along this axis of the tensor. Default: None, along any.

        Returns:
            True or False.
        """
        return False

    def is_replicated(self) -> bool:
        """Return whether every process has the whole tensor."""
        return False

    def is_partial(self) -> bool:
        """Return whether every process has a part of a reduction."""
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(vars(self).items())))


class Shard(Placement):
    """A tensor is divided along one of its axes.

    Args:
        dim: The axis.

    Examples:
        >>> bireme.distributed.Shard(0), bireme.distributed.Shard(0).is_shard(1)
        (Shard(dim=0), False)
    """

    def __init__(self, dim: int) -> None:
        errors.check_integer("Shard(dim)", dim)
        self._dim = dim

    def get_dim(self) -> int:
        """Return the axis."""
        return self._dim

    def get_split_factor(self) -> int:
        """Return into how many blocks the axis is cut before it is divided; 1 unless it was set."""
        return self.__dict__.get("_split_factor", 1)

    def set_split_factor(self, split_factor: int) -> None:
        """Set into how many blocks the axis is cut before each of them is divided.

        Args:
            split_factor: The number of blocks.

        Raises:
            NotImplementedError: For another number than 1.
        """
        if split_factor != 1:
            raise errors.bad("Shard.set_split_factor(split_factor)", "1", split_factor, kind=NotImplementedError)

    def get_co_shard_order(self) -> int:
        """Return the order among axes of the mesh that divide the same axis of a tensor: always that of the mesh."""
        return 0

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether the tensor is divided.

        Args:
            dim: Along this axis of the tensor. Default: None, along any.

        Returns:
            True or False.
        """
        return dim is None or dim == self._dim

    def __repr__(self) -> str:
        return f"Shard(dim={self._dim})"


class Replicate(Placement):
    """Every process has the whole tensor.

    Examples:
        >>> bireme.distributed.Replicate().is_replicated()
        True
    """

    def is_replicated(self) -> bool:
        """Return whether every process has the whole tensor."""
        return True

    def __repr__(self) -> str:
        return "Replicate()"


class Partial(Placement):
    """Every process has a part, of which the tensor is the reduction.

    Args:
        reduce_type: The reduction. Default: the sum.

    Examples:
        >>> bireme.distributed.Partial(), bireme.distributed.Partial().is_partial()
        (Partial(reduce_type=SUM), True)
    """

    def __init__(self, reduce_type: ReduceType = ReduceType.kRedSum) -> None:
        if reduce_type not in list(ReduceType):
            raise errors.bad("Partial(reduce_type)", "a ReduceType", reduce_type, kind=errors.ArgumentTypeError)
        self._reduce_type = ReduceType(reduce_type)

    def reduce_type(self) -> ReduceType:
        """Return the reduction."""
        return self._reduce_type

    def is_partial(self) -> bool:
        """Return whether every process has a part of a reduction."""
        return True

    def __repr__(self) -> str:
        return f"Partial(reduce_type={self._reduce_type.name.removeprefix('kRed').upper()})"
