"""ShardedWeight: a tensor as a part of a larger one, of which other processes have the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group
from bireme.distributed.fleet.base import topology

__all__ = ["ShardedStateDict", "ShardedWeight", "build_sharded_state_dict", "shard_weight"]


class ShardedWeight:
    """A tensor as a block of a larger one.

    Args:
        key: Name of the larger tensor.
        local_tensor: The block; its numbers, or some of them, in order where it is flattened.
        local_shape: Shape of the block.
        global_shape: Shape of the larger tensor.
        global_offset: Where the block begins in it, along each axis.
        is_flattened: Whether ``local_tensor`` has only some of the block's numbers, in one dimension. Default: False.
        flattened_range: Which of them, as a slice of the flattened block. Default: None, all.

    Examples:
        >>> part = bireme.distributed.ShardedWeight("w", bireme.ones([2, 3]), (2, 3), (4, 3), (2, 0))
        >>> part.key, part.global_offset
        ('w', (2, 0))
    """

    def __init__(
        self,
        key: str,
        local_tensor: Tensor,
        local_shape: Sequence[int],
        global_shape: Sequence[int],
        global_offset: Sequence[int],
        is_flattened: bool = False,
        flattened_range: slice | None = None,
    ) -> None:
        if len(local_shape) != len(global_shape) or len(global_offset) != len(global_shape):
            expected = f"an offset and a size along each of {len(global_shape)} axes"
            raise errors.bad("ShardedWeight(global_offset)", expected, list(global_offset), kind=errors.ShapeError)
        for size, whole, start in zip(local_shape, global_shape, global_offset):
            if start < 0 or start + size > whole:
                raise errors.bad(
                    "ShardedWeight(global_offset)",
                    f"a block of {list(local_shape)} inside {list(global_shape)}",
                    list(global_offset),
                    kind=errors.ShapeError,
                )
        self.key, self.local_tensor = key, local_tensor
        self.local_shape, self.global_shape = tuple(local_shape), tuple(global_shape)
        self.global_offset = tuple(global_offset)
        self.is_flattened, self.flattened_range = is_flattened, flattened_range

    def __repr__(self) -> str:
        return (
            f"ShardedWeight(key={self.key}, local_shape={self.local_shape}, global_shape={self.global_shape}, "
            f"global_offset={self.global_offset}, flattened_range={self.flattened_range})"
        )


ShardedStateDict = dict[str, ShardedWeight]


def shard_weight(key: str, weight: Tensor, axis: int, group: Group) -> ShardedWeight:
    """Tell that a tensor is this process' part of a larger one, which a group has divided along an axis.

    Args:
        key: Name of the larger tensor.
        weight: The part.
        axis: The axis.
        group: The group.

    Returns:
        The part with its place.

    Raises:
        ValueError: If the tensor has no such axis.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.shard_weight("w", bireme.ones([2, 3]), 0, group).global_shape
        (2, 3)
    """
    if not 0 <= axis < weight.ndim:
        raise errors.bad("shard_weight(axis)", f"an axis in [0, {weight.ndim - 1}]", axis)
    shape, offset = list(weight.shape), [0] * weight.ndim
    offset[axis] = group.rank * shape[axis]
    shape[axis] *= group.nranks
    return ShardedWeight(key, weight, weight.shape, shape, offset)


def build_sharded_state_dict(
    state_dict: Mapping[str, Any], shard_rules: Mapping[str, int] | None = None, prefix: str = ""
) -> ShardedStateDict:
    """Tell of each tensor of a state dict which part it is.

    Args:
        state_dict: Dict of names and tensors.
        shard_rules: Axis along which tensors are divided among the processes of the model axis, by name. Default: None,
            those that tensor parallel layers have divided.
        prefix: Prepended to all names. Default: ``''``.

    Returns:
        Dict of names and parts.

    Examples:
        >>> state = bireme.nn.Linear(2, 3).state_dict()
        >>> sorted(bireme.distributed.build_sharded_state_dict(state, prefix="head."))
        ['head.bias', 'head.weight']
    """
    rules = dict(shard_rules or {})
    return {f"{prefix}{key}": part_of(f"{prefix}{key}", x, rules.get(key)) for key, x in state_dict.items()}


def part_of(key: str, x: Any, axis: int | None = None) -> ShardedWeight:
    """What is known of a tensor: which part it is, if a layer has divided it, and else that it is whole."""
    if isinstance(x, ShardedWeight):
        return x
    if axis is None and getattr(x, "is_distributed", False):
        axis = getattr(x, "split_axis", None)
    hybrid = topology._HYBRID_PARALLEL_GROUP
    if axis is not None and hybrid is not None:
        return shard_weight(key, x, axis, hybrid.get_model_parallel_group())
    return ShardedWeight(key, x, x.shape, x.shape, [0] * x.ndim)
