"""reduce: the reduction of all processes' tensors for one of them, and the reductions by name."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication import stream
from bireme.distributed.communication.group import Group, Task
from bireme.distributed.communication.reduce_op import ReduceOp, get_reduce_op

__all__ = ["ReduceOp", "reduce"]

_get_reduce_op = get_reduce_op  # the name by which programs import it


def reduce(
    tensor: Tensor, dst: int, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Replace a tensor in one process by the reduction of all processes' tensors.

    Args:
        tensor: The tensor, written in place in the process that gets the result.
        dst: Rank of that process.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.distributed.reduce(x, dst=0).is_completed(), x.tolist()
        (True, [1.0, 2.0])
    """
    return stream.reduce(tensor, dst, op, group, sync_op)
