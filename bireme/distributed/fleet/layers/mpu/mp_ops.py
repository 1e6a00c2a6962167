"""What tensor parallel layers are made of: collectives that gradients pass through. Among one process they are the
identity, the lookup of a table that is there whole, and cross entropy over all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.defaults import in_dynamic_mode
from bireme.distributed import world
from bireme.distributed.communication.group import Group, check_tensor, member
from bireme.distributed.communication.reduce_op import ReduceOp, check_op
from bireme.nn.common import Embedding, Linear
from bireme.ops import embedding, logical_and, softmax_with_cross_entropy, unsqueeze, where, zeros_like

__all__ = ["split"]


def _same(where: str, tensor: Tensor, group: Group | None) -> Tensor:
    check_tensor(f"{where}(tensor)", tensor)
    if group is not None:
        member(where, group)
    return tensor


def _c_identity(tensor: Tensor, group: Group | None = None, skip_c_identity_dynamic: bool = False) -> Tensor:
    """The tensor; its gradient is summed over the group."""
    return _same("_c_identity", tensor, group)


def _c_concat(tensor: Tensor, group: Group | None = None) -> Tensor:
    """The tensors of all processes, one after the other along the last axis."""
    return _same("_c_concat", tensor, group)


def _c_split(tensor: Tensor, group: Group | None = None) -> Tensor:
    """This process' part of a tensor along the last axis."""
    return _same("_c_split", tensor, group)


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
    return _same("_mp_allreduce", tensor, group)


def _c_lookup_table(
    table: Tensor, index: Tensor, start_index: int = 0, vocab_size: int = -1, name: str | None = None
) -> Tensor:
    """Rows of a part of a table that begins at `start_index`; zeros for those of other parts."""
    local = index - start_index
    inside = logical_and(local >= 0, local < table.shape[0])
    rows = embedding(where(inside, local, zeros_like(local)), table)
    return where(unsqueeze(inside, -1), rows, zeros_like(rows))


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
    return softmax_with_cross_entropy(logits, label, ignore_index=ignore_index, return_softmax=return_softmax)


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
