"""Sequence parallel training: activations divided along the sequence, the first axis, between tensor parallel layers.
Among one process the exchanges are the identity.
"""

from __future__ import annotations

from typing import Any

from bireme.autograd.py_layer import PyLayer
from bireme.core.base import errors
from bireme.core.tensor.backward import final_hooks
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, check_tensor
from bireme.distributed.fleet.base import topology
from bireme.distributed.fleet.layers.mpu.mp_layers import ColumnParallelLinear, RowParallelLinear
from bireme.distributed.fleet.layers.mpu.mp_ops import joined, own_part, reduced_part
from bireme.distributed.reducer import MEGABYTE, exchange_gradients
from bireme.nn.layer import Layer

__all__ = [
    "AllGatherOp", "ColumnSequenceParallelLinear", "GatherOp", "ReduceScatterOp", "RowSequenceParallelLinear",
    "ScatterOp", "all_gather", "is_sequence_parallel_parameter", "mark_as_sequence_parallel_parameter",
    "reduce_scatter", "register_sequence_parallel_allreduce_hooks", "scatter",
]  # fmt: skip


def _model_group(where: str, input: Any) -> Group | None:
    """The group along the model axis, None where it has one process."""
    check_tensor(f"{where}(input)", input)
    hybrid = topology._HYBRID_PARALLEL_GROUP
    group = None if hybrid is None else hybrid.get_model_parallel_group()
    return None if group is None or group.nranks == 1 else group


class _Scatter(PyLayer):
    forward = staticmethod(lambda ctx, x: scatter(x))
    backward = staticmethod(lambda ctx, g: all_gather(g))


class _Gather(PyLayer):
    forward = staticmethod(lambda ctx, x: all_gather(x))
    backward = staticmethod(lambda ctx, g: scatter(g))


class _AllGather(PyLayer):
    forward = staticmethod(lambda ctx, x: all_gather(x))
    backward = staticmethod(lambda ctx, g: reduce_scatter(g))


class _ReduceScatter(PyLayer):
    forward = staticmethod(lambda ctx, x: reduce_scatter(x))
    backward = staticmethod(lambda ctx, g: all_gather(g))


def scatter(input: Tensor) -> Tensor:
    """Return this process' part of a tensor along the sequence, the first axis.

    Args:
        input: The whole tensor.

    Returns:
        The part; the tensor itself among one process.

    Examples:
        >>> from bireme.distributed.fleet.utils import sequence_parallel_utils
        >>> sequence_parallel_utils.scatter(bireme.ones([2, 3])).shape
        [2, 3]
    """
    among = _model_group("scatter", input)
    return input if among is None else own_part("scatter", input, among, 0)


def all_gather(input: Tensor) -> Tensor:
    """Return the parts of all processes, one after the other along the first axis.

    Args:
        input: The part of this process.

    Returns:
        The whole tensor; the part itself among one process.

    Examples:
        >>> from bireme.distributed.fleet.utils import sequence_parallel_utils
        >>> sequence_parallel_utils.all_gather(bireme.ones([2, 3])).shape
        [2, 3]
    """
    among = _model_group("all_gather", input)
    return input if among is None else joined("all_gather", input, among, 0)


def reduce_scatter(input: Tensor) -> Tensor:
    """Return this process' part, along the first axis, of the sum of all processes' tensors.

    Args:
        input: The tensor of this process.

    Returns:
        The part; the tensor itself among one process.

    Examples:
        >>> from bireme.distributed.fleet.utils import sequence_parallel_utils
        >>> sequence_parallel_utils.reduce_scatter(bireme.ones([2, 3])).shape
        [2, 3]
    """
    among = _model_group("reduce_scatter", input)
    return input if among is None else reduced_part("reduce_scatter", input, among)


class ScatterOp:
    """``scatter`` whose gradient is gathered.

    Examples:
        >>> from bireme.distributed.fleet.utils.sequence_parallel_utils import ScatterOp
        >>> ScatterOp.apply(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """

    @staticmethod
    def apply(input: Tensor) -> Tensor:
        """Return this process' part of a tensor.

        Args:
            input: The whole tensor.

        Returns:
            The part.
        """
        return _Scatter.apply(input) if _model_group("ScatterOp.apply", input) else input


class GatherOp:
    """``all_gather`` whose gradient is divided.

    Examples:
        >>> from bireme.distributed.fleet.utils.sequence_parallel_utils import GatherOp
        >>> GatherOp.apply(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """

    @staticmethod
    def apply(input: Tensor) -> Tensor:
        """Return the parts of all processes.

        Args:
            input: The part of this process.

        Returns:
            The whole tensor.
        """
        return _Gather.apply(input) if _model_group("GatherOp.apply", input) else input


class AllGatherOp:
    """``all_gather`` whose gradient is summed and divided.

    Examples:
        >>> from bireme.distributed.fleet.utils.sequence_parallel_utils import AllGatherOp
        >>> AllGatherOp.apply(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """

    @staticmethod
    def apply(input: Tensor) -> Tensor:
        """Return the parts of all processes.

        Args:
            input: The part of this process.

        Returns:
            The whole tensor.
        """
        return _AllGather.apply(input) if _model_group("AllGatherOp.apply", input) else input


class ReduceScatterOp:
    """``reduce_scatter`` whose gradient is gathered.

    Examples:
        >>> from bireme.distributed.fleet.utils.sequence_parallel_utils import ReduceScatterOp
        >>> ReduceScatterOp.apply(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """

    @staticmethod
    def apply(input: Tensor) -> Tensor:
        """Return this process' part of the sum.

        Args:
            input: The tensor of this process.

        Returns:
            The part.
        """
        return _ReduceScatter.apply(input) if _model_group("ReduceScatterOp.apply", input) else input


def mark_as_sequence_parallel_parameter(parameter: Tensor) -> None:
    """Mark a parameter that every process applies to its part of the sequence, so that gradients have to be summed.

    Args:
        parameter: The parameter.

    Examples:
        >>> from bireme.distributed.fleet.utils import sequence_parallel_utils
        >>> layer = bireme.nn.Linear(2, 1)
        >>> sequence_parallel_utils.mark_as_sequence_parallel_parameter(layer.weight)
        >>> sequence_parallel_utils.is_sequence_parallel_parameter(layer.weight)
        True
    """
    parameter.sequence_parallel = True  # type: ignore[attr-defined]  # a mark of the program's own


def is_sequence_parallel_parameter(parameter: Tensor) -> bool:
    """Return whether a parameter is marked.

    Args:
        parameter: The parameter.

    Returns:
        True or False.

    Examples:
        >>> from bireme.distributed.fleet.utils import sequence_parallel_utils
        >>> sequence_parallel_utils.is_sequence_parallel_parameter(bireme.nn.Linear(2, 1).weight)
        False
    """
    return getattr(parameter, "sequence_parallel", False)


def register_sequence_parallel_allreduce_hooks(
    model: Layer, accumulation_steps: int, fuse_sequence_parallel_allreduce: bool
) -> None:
    """Let the gradients of marked parameters be summed over the processes of the model axis.

    They are exchanged together, after the backward pass that is the ``accumulation_steps``-th to reach them.

    Args:
        model: The model.
        accumulation_steps: Number of backward passes before a step.
        fuse_sequence_parallel_allreduce: Exchange all gradients together. They always are.

    Examples:
        >>> from bireme.distributed.fleet.utils import sequence_parallel_utils
        >>> sequence_parallel_utils.register_sequence_parallel_allreduce_hooks(bireme.nn.Linear(2, 1), 1, False)
    """
    if not isinstance(model, Layer):
        where = "register_sequence_parallel_allreduce_hooks(model)"
        raise errors.bad(where, "a Layer", model, kind=errors.ArgumentTypeError)
    errors.check_integer("register_sequence_parallel_allreduce_hooks(accumulation_steps)", accumulation_steps)
    hybrid = topology._HYBRID_PARALLEL_GROUP
    if hybrid is None or hybrid.get_model_parallel_world_size() == 1 or accumulation_steps < 1:
        return
    marked: list[Tensor] = [p for p in model.parameters() if is_sequence_parallel_parameter(p) and not p.stop_gradient]
    _Summed(marked, hybrid.get_model_parallel_group(), accumulation_steps)


class _Summed:
    """What adds up gradients over a group after every few backward passes."""

    def __init__(self, parameters: list[Tensor], group: Group, every: int):
        self.parameters, self.group, self.every, self.passes, self.due = parameters, group, every, 0, False
        for p in parameters:
            p._register_backward_hook(self._reach)

    def _reach(self) -> None:
        if not self.due:
            self.due = True
            final_hooks.append(self._passed)

    def _passed(self) -> None:
        self.due = False
        self.passes += 1
        if self.passes % self.every == 0:
            exchange_gradients(self.parameters, self.group, 128 * MEGABYTE, 1.0)


class ColumnSequenceParallelLinear(ColumnParallelLinear):
    """Linear map with a weight divided along its columns, whose input is divided along the sequence.

    Args:
        in_features: Size of the last axis of the input.
        out_features: Size of the last axis of the whole output.
        weight_attr: Attribute of the weight. Default: None, Xavier uniform.
        has_bias: Add a bias. Default: None, none.
        gather_output: Has to be False. Default: True.
        fuse_matmul_bias: Compute product and sum in one operator. It has no effect. Default: False.
        mp_group: The group. Default: None, the model axis of ``fleet.init``.
        name: Not used. Default: None.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.utils.sequence_parallel_utils import ColumnSequenceParallelLinear
        >>> ColumnSequenceParallelLinear(4, 6, gather_output=False)(bireme.ones([5, 2, 4])).shape
        [5, 2, 6]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        has_bias: bool | None = None,
        gather_output: bool = True,
        fuse_matmul_bias: bool = False,
        mp_group: Group | None = None,
        name: str | None = None,
    ):
        if gather_output:
            raise errors.bad("ColumnSequenceParallelLinear(gather_output)", "False", gather_output)
        super().__init__(
            in_features, out_features, weight_attr, has_bias, gather_output, fuse_matmul_bias, mp_group, name
        )

    def forward(self, x: Tensor) -> Tensor:
        """Compute this process' columns of ``x @ weight + bias`` for the whole sequence.

        Args:
            x: This process' part of the sequence, of shape ``[sequence / processes, ..., in_features]``.

        Returns:
            Tensor of shape ``[sequence, ..., out_features / processes]``.
        """
        return self.linear(AllGatherOp.apply(x), self.weight, self.bias)


class RowSequenceParallelLinear(RowParallelLinear):
    """Linear map with a weight divided along its rows, whose output is divided along the sequence.

    Args:
        in_features: Size of the last axis of the whole input.
        out_features: Size of the last axis of the output.
        weight_attr: Attribute of the weight. Default: None, Xavier uniform.
        has_bias: Add a bias. Default: True.
        input_is_parallel: Has to be True. Default: False.
        fuse_matmul_bias: Compute product and sum in one operator. It has no effect. Default: False.
        mp_group: The group. Default: None, the model axis of ``fleet.init``.
        name: Not used. Default: None.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.utils.sequence_parallel_utils import RowSequenceParallelLinear
        >>> RowSequenceParallelLinear(6, 4, input_is_parallel=True)(bireme.ones([5, 2, 6])).shape
        [5, 2, 4]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        has_bias: bool = True,
        input_is_parallel: bool = False,
        fuse_matmul_bias: bool = False,
        mp_group: Group | None = None,
        name: str | None = None,
    ):
        if not input_is_parallel:
            raise errors.bad("RowSequenceParallelLinear(input_is_parallel)", "True", input_is_parallel)
        super().__init__(
            in_features, out_features, weight_attr, has_bias, input_is_parallel, fuse_matmul_bias, mp_group, name
        )
        if self.is_mp and self.bias is not None:  # every process adds it to its part of the sequence
            mark_as_sequence_parallel_parameter(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Compute this process' part of the sequence of ``x @ weight + bias``.

        Args:
            x: Tensor of shape ``[sequence, ..., in_features / processes]``.

        Returns:
            Tensor of shape ``[sequence / processes, ..., out_features]``.
        """
        if not self.is_mp:
            return self.linear(x, self.weight, self.bias)
        y = ReduceScatterOp.apply(self.linear(x, self.weight))
        return y if self.bias is None else y + self.bias
