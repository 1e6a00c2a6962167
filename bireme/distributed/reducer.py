"""The exchange of gradients in data parallel training: after a backward pass, in buckets, the mean of all processes'."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bireme.core.processes.collectives import Call, described
from bireme.core.tensor.backward import final_hooks
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor, wrap_own
from bireme.distributed.communication.group import Group
from bireme.ops.creation.tensors import to_tensor, zeros
from bireme.ops.manipulation.join import concat
from bireme.ops.manipulation.reshape import reshape

MEGABYTE = 1 << 20


def buckets(tensors: Sequence[Tensor], limits: Sequence[float]) -> list[list[Tensor]]:
    """Tensors in their order, by dtype, so that each bucket is just above its limit in bytes; the last limit repeats."""
    found: list[list[Tensor]] = []
    for dtype in dict.fromkeys(t.dtype for t in tensors):
        size, bucket = 0, []
        for t in (t for t in tensors if t.dtype == dtype):
            bucket.append(t)
            size += t.size * dtype.np.itemsize
            if size >= limits[min(len(found), len(limits) - 1)]:
                found.append(bucket)
                size, bucket = 0, []
        if bucket:
            found.append(bucket)
    return found


def is_expert(p: Tensor) -> bool:
    """Whether a parameter belongs to an expert that this process has for others, which send it their tokens."""
    return getattr(p, "expert", False)


def shared(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Those parameters of which all processes have copies, whose gradients are exchanged."""
    return [p for p in parameters if not getattr(p, "no_sync", False) and not is_expert(p)]


def scale_experts(parameters: Sequence[Tensor], scale: float) -> None:
    """Multiply the gradients of experts: tokens of all processes have added to them, so the sum is there already."""
    with no_grad():
        for p in parameters:
            if is_expert(p) and p.grad is not None:
                p.grad = p.grad * scale


def average_experts(parameters: Sequence[Tensor], count: int) -> None:
    """Let the gradients of experts be those of the mean of all processes' losses, pass by pass."""
    for p in parameters:
        if is_expert(p):
            p.register_hook(lambda g: g * (1 / count))


def pieces(flat: Tensor, like: Sequence[Tensor]) -> Iterator[Tensor]:
    """The parts of a flat tensor in the shapes of others."""
    start = 0
    for t in like:
        yield reshape(flat[start : start + t.size], t.shape)
        start += t.size


def broadcast_all(tensors: Sequence[Tensor], group: Group, source: int, what: str) -> None:
    """Give all processes of a group the tensors of one of them, given by its index in the group."""
    with no_grad():
        for bucket in buckets(tensors, [25 * MEGABYTE]):
            flat = concat([reshape(t.detach(), [-1]) for t in bucket])
            call = Call(what, described(flat))
            found = group.channel.broadcast(call, call.read(flat), source)
            if group.rank != source:
                for t, piece in zip(bucket, pieces(wrap_own(found), bucket)):
                    t.set_value(piece)


class Reducer:
    """What exchanges the gradients of some parameters whenever a backward pass has reached one of them.

    All processes exchange all buckets, in one order, whatever each of them has reached: a gradient that is missing
    counts as zeros. `expected` says whether backward passes are to be followed by an exchange.
    """

    def __init__(self, parameters: Sequence[Tensor], group: Group, sizes: Sequence[float]):
        self.group, self.expected, self._due = group, False, False
        # last parameters first: their gradients come first
        self.buckets = buckets(shared(list(reversed(parameters))), [size * MEGABYTE for size in sizes])
        average_experts(parameters, group.nranks)
        self._reached: set[int] = set()
        for parameter in parameters:
            parameter._register_backward_hook(functools.partial(self._reach, id(parameter)))

    def _reach(self, parameter: int) -> None:
        if self.expected:
            self._reached.add(parameter)
            if not self._due:
                self._due = True
                final_hooks.append(self.reduce)

    def reduce(self) -> None:
        """Replace the gradients by the mean of all processes'."""
        self._due, reached = False, self._reached
        self._reached = set()
        with no_grad():
            for bucket in self.buckets:
                _exchange(bucket, self.group, lambda p: id(p) in reached, 1 / self.group.nranks)


def exchange_gradients(parameters: Sequence[Tensor], group: Group, most: float, scale: float) -> None:
    """Replace gradients by their sum over a group, multiplied by a number, in buckets of at most so many bytes."""
    with no_grad():
        for bucket in buckets(shared(parameters), [most]):
            _exchange(bucket, group, lambda p: p.grad is not None, scale)
    scale_experts(parameters, scale)


def add_experts(parameters: Sequence[Tensor], group: Group, most: float) -> None:
    """Add up the gradients of experts that the processes of a group have copies of."""
    with no_grad():
        for bucket in buckets([p for p in parameters if is_expert(p)], [most]):
            _exchange(bucket, group, lambda p: p.grad is not None, 1.0)


def _exchange(bucket: list[Tensor], group: Group, reached: Callable[[Tensor], bool], scale: float) -> None:
    grads = [p.grad for p in bucket]
    # scaled before they are added, so that the sum of half-precision numbers does not overflow
    sums = [zeros([p.size], p.dtype) if g is None else reshape(g, [-1]) * scale for p, g in zip(bucket, grads)]
    used = np.array([reached(p) for p in bucket], bucket[0].dtype.np)
    flat = concat([*sums, to_tensor(used)])
    call = Call("the exchange of gradients", described(flat))
    total = group.channel.all_reduce(call, call.read(flat), "SUM")
    anywhere = total[-len(bucket) :] > 0
    for p, g, piece, was_used in zip(bucket, grads, pieces(wrap_own(total), bucket), anywhere):
        if g is not None or was_used:  # what nobody has used stays without a gradient
            p.grad = piece
