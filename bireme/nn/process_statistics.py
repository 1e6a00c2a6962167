"""Batch normalization with the statistics of all processes that train together, for SyncBatchNorm."""

from __future__ import annotations

from typing import Any

from bireme.autograd.py_layer import PyLayer
from bireme.core.processes import connection
from bireme.core.processes.collectives import Call, Channel, described
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import cast, concat, full, reshape, rsqrt, sum, to_tensor


class _State:
    channel: Channel | None = None


def several() -> bool:
    """Whether this process is connected with others."""
    return connection.current() is not None


def _summed(x: Tensor) -> Tensor:
    """The sum of a tensor over all processes."""
    if _State.channel is None:
        linked = connection.current()
        assert linked is not None, "asked for by `several`"
        _State.channel = Channel(linked, range(linked.size), -1)
    call = Call("SyncBatchNorm", described(x))
    return to_tensor(_State.channel.all_reduce(call, call.read(x), "SUM"))


class _ProcessSum(PyLayer):
    """The sum over all processes. What each has added to it gets the gradients of all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _summed(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return _summed(g)


def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Any, bias: Any, momentum: float, epsilon: float, last: bool
) -> Tensor:
    """Normalize a batch by the statistics of all processes' batches, and update the running ones.

    Channels are the last axis, or the second. The variance takes a second sum: the difference of two large numbers would
    lose it.
    """
    axis = x.ndim - 1 if last else 1
    axes = [i for i in range(x.ndim) if i != axis]
    shape = [x.shape[i] if i == axis else 1 for i in range(x.ndim)]
    y = cast(x, "float32")
    count = full([1], float(x.size // x.shape[axis]))
    total = _ProcessSum.apply(concat([sum(y, axes), count]))
    batch_mean = total[:-1] / total[-1]
    centered = y - reshape(batch_mean, shape)
    batch_variance = _ProcessSum.apply(sum(centered * centered, axes)) / total[-1].detach()
    with no_grad():
        for running, new in ((mean, batch_mean), (variance, batch_variance)):
            running.set_value(running * momentum + cast(new.detach(), running.dtype) * (1 - momentum))
    scaled = centered * reshape(rsqrt(batch_variance + epsilon) * weight, shape) + reshape(bias, shape)
    return cast(scaled, x.dtype)
