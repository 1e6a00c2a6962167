"""global_scatter and global_gather: tokens to the processes of their experts, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.autograd.py_layer import PyLayer
from bireme.core.base import errors
from bireme.core.processes.collectives import Call, described
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, check_tensor, joined
from bireme.ops import to_tensor

__all__ = ["global_gather", "global_scatter"]


class _Scatter(PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Tensor, local: np.ndarray, here: np.ndarray, group: Group) -> Tensor:
        ctx.given = local, here, group
        return _scattered("global_scatter", x, local, here, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return _gathered("gradient of global_scatter", g, *ctx.given)


class _Gather(PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Tensor, local: np.ndarray, here: np.ndarray, group: Group) -> Tensor:
        ctx.given = local, here, group
        return _gathered("global_gather", x, local, here, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return _scattered("gradient of global_gather", g, *ctx.given)


def _call(name: str, x: Tensor) -> Call:
    # processes have different numbers of rows
    return Call(name, described(x[:0]))


def _scattered(name: str, x: Tensor, local: np.ndarray, here: np.ndarray, group: Group) -> Tensor:
    call = _call(name, x)
    found = group.channel.exchange_parts(call, call.read(x), local.sum(1).tolist())
    # by process and expert, as they come, to by expert and process, as the experts want them
    blocks = [np.split(rows, np.cumsum(counts)[:-1]) for rows, counts in zip(found, here)]
    return to_tensor(np.concatenate([of[i] for i in range(here.shape[1]) for of in blocks]))


def _gathered(name: str, x: Tensor, local: np.ndarray, here: np.ndarray, group: Group) -> Tensor:
    call = _call(name, x)
    blocks = np.split(call.read(x), np.cumsum(here.T.reshape(-1))[:-1])
    rows = [blocks[i * len(here) + r] for r in range(len(here)) for i in range(here.shape[1])]
    found = group.channel.exchange_parts(call, np.concatenate(rows), here.sum(1).tolist())
    return to_tensor(np.concatenate(found))


def _checked(where: str, x: Any, local_count: Any, global_count: Any, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """The two counts, by process and expert."""
    check_tensor(f"{where}(x)", x)
    found = []
    for name, count in (("local_count", local_count), ("global_count", global_count)):
        check_tensor(f"{where}({name})", count)
        if count.ndim != 1 or count.shape[0] % group.nranks or not count.shape[0]:
            expected = f"one number for each expert of {group.nranks} processes"
            raise errors.bad(f"{where}({name})", expected, count, kind=errors.ShapeError)
        found.append(count.numpy().reshape(group.nranks, -1))
    at = 0 if where == "global_scatter" else 1
    if x.ndim != 2 or found[at].sum() != x.shape[0]:
        name = ("local_count", "global_count")[at]
        expected = f"rows that {name} counts, {found[at].sum()}"
        raise errors.bad(f"{where}(x)", expected, x, kind=errors.ShapeError)
    return found[0], found[1]


def global_scatter(
    x: Tensor, local_count: Tensor, global_count: Tensor, group: Group | None = None, use_calc_stream: bool = True
) -> Tensor | None:
    """Send rows to the experts of all processes, and receive those for the experts of this one.

    Args:
        x: Rows by process and expert that they go to.
        local_count: How many rows go to each expert, by process and expert.
        global_count: How many rows come for each expert of this process, by the process that they come from.
        group: The group. Default: None, the default group.
        use_calc_stream: It has no effect. Default: True.

    Returns:
        The received rows by expert, and for each expert by process; None in a process that is no member of the group.

    Raises:
        ShapeError: If the counts do not fit the rows or the group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> count = bireme.to_tensor([1, 2])
        >>> moe_utils = bireme.distributed.utils.moe_utils
        >>> moe_utils.global_scatter(bireme.to_tensor([[1.0], [2.0], [3.0]]), count, count).tolist()
        [[1.0], [2.0], [3.0]]
    """
    among = joined("global_scatter", group)
    if among is None:
        return None
    return _Scatter.apply(x, *_checked("global_scatter", x, local_count, global_count, among), among)


def global_gather(
    x: Tensor, local_count: Tensor, global_count: Tensor, group: Group | None = None, use_calc_stream: bool = True
) -> Tensor | None:
    """Send the rows of this process' experts back to where ``global_scatter`` had them from.

    Args:
        x: Rows by expert of this process, and for each expert by process.
        local_count: How many rows come back from each expert, by process and expert.
        global_count: How many rows each expert of this process has, by the process that they go to.
        group: The group. Default: None, the default group.
        use_calc_stream: It has no effect. Default: True.

    Returns:
        The received rows by process and expert; None in a process that is no member of the group.

    Raises:
        ShapeError: If the counts do not fit the rows or the group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> count = bireme.to_tensor([1, 2])
        >>> moe_utils = bireme.distributed.utils.moe_utils
        >>> moe_utils.global_gather(bireme.to_tensor([[1.0], [2.0], [3.0]]), count, count).tolist()
        [[1.0], [2.0], [3.0]]
    """
    among = joined("global_gather", group)
    if among is None:
        return None
    return _Gather.apply(x, *_checked("global_gather", x, local_count, global_count, among), among)
