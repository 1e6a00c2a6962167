"""What tensor parallel layers are made of: collectives that gradients pass through. Among one process they are the
identity, the lookup of a table that is there whole, and cross entropy over all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.autograd.py_layer import PyLayer
from bireme.core.base import errors
from bireme.core.processes.collectives import Call, described
from bireme.core.tensor.tensor import Tensor
from bireme.defaults import in_dynamic_mode
from bireme.distributed import world
from bireme.distributed.communication.group import Group, check_tensor, member
from bireme.distributed.communication.reduce_op import NAMES, ReduceOp, check_op
from bireme.nn.common import Embedding, Linear
from bireme.ops import (
    embedding,
    exp,
    log,
    logical_and,
    softmax_with_cross_entropy,
    sum,
    take_along_axis,
    to_tensor,
    unsqueeze,
    where,
    zeros_like,
)

__all__ = ["split"]


def _among(name: str, tensor: Tensor, group: Group | None) -> Group | None:
    """The group that a tensor is exchanged with, None where nobody else is in it."""
    check_tensor(f"{name}(tensor)", tensor)
    if group is None and world.size() == 1:
        return None
    found = member(name, group)
    return found if found.nranks > 1 else None


def reduced(name: str, x: Tensor, group: Group, op: str = "SUM") -> Tensor:
    """The reduction of all processes' tensors."""
    call = Call(name, described(x), op)
    return to_tensor(group.channel.all_reduce(call, call.read(x), op))


def joined(name: str, x: Tensor, group: Group, axis: int) -> Tensor:
    """The tensors of all processes, one after the other along an axis."""
    call = Call(name, described(x))
    return to_tensor(np.concatenate(group.channel.gather(call, call.read(x)), axis))


def own_part(name: str, x: Tensor, group: Group, axis: int) -> Tensor:
    """This process' part of a tensor along an axis."""
    size, rest = divmod(x.shape[axis], group.nranks)
    if rest:
        expected = f"a size along axis {axis} that {group.nranks} processes divide"
        raise errors.bad(f"{name}(tensor)", expected, described=f"shape {x.shape}", kind=errors.ShapeError)
    index = [slice(None)] * x.ndim
    index[axis] = slice(group.rank * size, (group.rank + 1) * size)
    return x[tuple(index)]


def reduced_part(name: str, x: Tensor, group: Group) -> Tensor:
    """This process' part, along the first axis, of the sum of all processes' tensors."""
    if not x.shape or x.shape[0] % group.nranks:
        expected = f"a first axis that {group.nranks} processes divide"
        raise errors.bad(f"{name}(input)", expected, described=f"shape {x.shape}", kind=errors.ShapeError)
    call = Call(name, described(x))
    host = call.read(x)
    rows = group.channel.exchange(call, host.reshape(group.nranks, host.shape[0] // group.nranks, *host.shape[1:]))
    return to_tensor(np.sum(rows, axis=0, dtype=host.dtype))


class Identity(PyLayer):
    """The tensor; its gradient is summed over the group."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, name: str) -> Tensor:
        ctx.group, ctx.name = group, name
        ctx.mark_not_inplace(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return reduced(f"gradient of {ctx.name}", g, ctx.group)


class AllReduce(PyLayer):
    """The reduction of all processes' tensors; the gradient stays as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, name: str, op: str) -> Tensor:
        return reduced(name, x, group, op)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


class Join(PyLayer):
    """The tensors of all processes along an axis; each gets its part of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, name: str, axis: int) -> Tensor:
        ctx.group, ctx.name, ctx.axis = group, name, axis
        return joined(name, x, group, axis)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return own_part(ctx.name, g, ctx.group, ctx.axis)


class Part(PyLayer):
    """This process' part of a tensor along an axis; the gradient is that of all parts."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, name: str, axis: int) -> Tensor:
        ctx.group, ctx.name, ctx.axis = group, name, axis
        return own_part(name, x, group, axis)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return joined(f"gradient of {ctx.name}", g, ctx.group, ctx.axis)


def _c_identity(tensor: Tensor, group: Group | None = None, skip_c_identity_dynamic: bool = False) -> Tensor:
    """The tensor; its gradient is summed over the group."""
    among = _among("_c_identity", tensor, group)
    return tensor if among is None else Identity.apply(tensor, among, "_c_identity")


def _c_concat(tensor: Tensor, group: Group | None = None) -> Tensor:
    """The tensors of all processes, one after the other along the last axis."""
    among = _among("_c_concat", tensor, group)
    return tensor if among is None else Join.apply(tensor, among, "_c_concat", tensor.ndim - 1)


def _c_split(tensor: Tensor, group: Group | None = None) -> Tensor:
    """This process' part of a tensor along the last axis."""
    among = _among("_c_split", tensor, group)
    return tensor if among is None else Part.apply(tensor, among, "_c_split", tensor.ndim - 1)


def _mp_allreduce(
    tensor: Tensor,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    use_calc_stream: bool = True,
    use_model_parallel: bool = True,
    skip_c_identity_dynamic: bool = False,
) -> Tensor:
    """The reduction of all processes' tensors."""
    check_op("_mp_allreduce(op)", op)
    among = _among("_mp_allreduce", tensor, group)
    return tensor if among is None else AllReduce.apply(tensor, among, "_mp_allreduce", NAMES[op])


def _c_lookup_table(
    table: Tensor, index: Tensor, start_index: int = 0, vocab_size: int = -1, name: str | None = None
) -> Tensor:
    """Rows of a part of a table that begins at `start_index`; zeros for those of other parts."""
    local, inside = _inside(index, start_index, table.shape[0])
    rows = embedding(local, table)
    return where(unsqueeze(inside, -1), rows, zeros_like(rows))


def _inside(index: Tensor, start: int, size: int) -> tuple[Tensor, Tensor]:
    """Indices into a part of something, 0 for those outside, and which are inside."""
    local = index - start
    inside = logical_and(local >= 0, local < size)
    return where(inside, local, zeros_like(local)), inside


def _c_softmax_with_cross_entropy(
    logits: Tensor,
    label: Tensor,
    group: Group | None = None,
    return_softmax: bool = False,
    ignore_index: int = -100,
) -> Tensor | tuple[Tensor, Tensor]:
    """Cross entropy of each sample over classes that are divided along the last axis, which is kept with size 1."""
    if len(label.shape) == len(logits.shape) - 1:
        label = unsqueeze(label, -1)
    among = _among("_c_softmax_with_cross_entropy", logits, group)
    if among is None:
        return softmax_with_cross_entropy(logits, label, ignore_index=ignore_index, return_softmax=return_softmax)
    what = "ParallelCrossEntropy"
    # shifted by the greatest logit of all parts: exp of a large one overflows, exp of a difference cannot
    shift = reduced(what, logits.detach().max(-1, keepdim=True), among, "MAX")
    shifted = logits - shift
    total = AllReduce.apply(sum(exp(shifted), -1, keepdim=True), among, what, "SUM")
    size = logits.shape[-1]
    local, inside = _inside(label, among.rank * size, size)
    picked = take_along_axis(shifted, local, -1)
    wanted = AllReduce.apply(where(inside, picked, zeros_like(picked)), among, what, "SUM")
    loss = where(label == ignore_index, zeros_like(wanted), log(total) - wanted)
    return (loss, exp(shifted) / total) if return_softmax else loss


def split(
    x: Tensor,
    size: Sequence[int],
    operation: str,
    axis: int = 0,
    num_partitions: int = 1,
    gather_out: bool = True,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Tensor:
    """Apply a linear map or a lookup whose weight is divided among processes, in a static program.

    In dynamic mode every call would make new parameters: use the layers of ``fleet.meta_parallel`` there.

    Args:
        x: The input.
        size: Shape of the whole weight, ``[in_features, out_features]`` or ``[num_embeddings, embedding_dim]``.
        operation: ``'linear'`` or ``'embedding'``.
        axis: Axis of the weight that is divided. Default: 0.
        num_partitions: Number of parts. Default: 1.
        gather_out: Give every process the whole result. Default: True.
        weight_attr: Attribute of the weight. Default: None.
        bias_attr: Attribute of the bias; ``False`` leaves it out. Default: None.
        name: Not used. Default: None.

    Returns:
        The result.

    Raises:
        ValueError: In dynamic mode.
        NotImplementedError: If there is more than one part.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
        ...     x = bireme.static.data("x", [2, 4])
        ...     print(bireme.distributed.split(x, (4, 3), "linear").shape)
        [2, 3]
        >>> bireme.disable_static()
    """
    if in_dynamic_mode():
        raise errors.bad("split()", "static mode", described="dynamic mode", hint="use fleet.meta_parallel's layers")
    if operation not in ("linear", "embedding"):
        raise errors.bad("split(operation)", "'linear' or 'embedding'", operation)
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        raise errors.bad("split(size)", "two sizes", size)
    if axis not in (0, 1):
        raise errors.bad("split(axis)", "0 or 1", axis)
    world.only_one("split(num_partitions)", num_partitions, "part")
    if operation == "embedding":
        return Embedding(size[0], size[1], weight_attr=weight_attr)(x)
    return Linear(size[0], size[1], weight_attr, bias_attr)(x)
