"""Counting and ordering of tokens by the experts that they go to. An index of -1 means none."""

from __future__ import annotations

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import check_tensor
from bireme.ops import (
    arange,
    argsort,
    clip,
    concat,
    cumsum,
    full_like,
    logical_and,
    minimum,
    reshape,
    sum,
    take_along_axis,
    unsqueeze,
    where,
)

__all__: list[str] = []


def _chosen(flat: Tensor, count: int) -> Tensor:
    """Whether each index is each number."""
    return unsqueeze(flat, -1) == arange(count, dtype=flat.dtype)


def _number_count(numbers: Tensor, upper_range: int) -> Tensor:
    """How often each number below `upper_range` occurs."""
    check_tensor("_number_count(numbers)", numbers)
    return sum(_chosen(reshape(numbers, [-1]), upper_range).astype(numbers.dtype), 0)


def _assign_pos(x: Tensor, cum_count: Tensor) -> Tensor:
    """Positions in `x` by expert, those of one expert as they come; `cum_count` is the running sum of their counts."""
    check_tensor("_assign_pos(x)", x)
    flat = reshape(x, [-1])
    last = full_like(flat, cum_count.shape[0])
    order = argsort(where(flat < 0, last, flat), stable=True)
    return order[: int(cum_count[-1])].astype(cum_count.dtype)


def _random_routing(topk_idx: Tensor, topk_value: Tensor, prob: Tensor, topk: int = 2) -> Tensor:
    """Indices without the second one of a token if twice its value is below a random number."""
    if topk != 2:
        raise errors.bad("_random_routing(topk)", "2", topk, kind=RuntimeError)
    second = where(topk_value[:, 1] * 2 < prob, full_like(topk_idx[:, 1], -1), topk_idx[:, 1])
    return concat([topk_idx[:, :1], unsqueeze(second, -1)], 1)


def _limit_by_capacity(expert_count: Tensor, capacity: Tensor, n_worker: int) -> Tensor:
    """How many of the tokens that processes send to an expert it takes: those of the first process first."""
    counts = reshape(expert_count, [n_worker, -1])
    before = cumsum(counts, 0) - counts
    room = clip(capacity.astype(counts.dtype) - before, min=0)
    return reshape(minimum(counts, room), [-1])


def _prune_gate_by_capacity(gate_idx: Tensor, expert_count: Tensor, n_expert: int, n_worker: int) -> Tensor:
    """Indices without those that an expert has no room for: the last ones."""
    flat = reshape(gate_idx, [-1])
    chosen = _chosen(flat, n_expert * n_worker).astype(expert_count.dtype)
    own = unsqueeze(clip(flat, min=0), -1)
    nth = reshape(take_along_axis(cumsum(chosen, 0), own, 1), [-1])
    room = reshape(take_along_axis(expert_count, reshape(own, [-1]), 0), [-1])
    return reshape(where(logical_and(flat >= 0, nth <= room), flat, full_like(flat, -1)), gate_idx.shape)
