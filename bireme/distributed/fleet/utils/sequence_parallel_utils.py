"""Sequence parallel training: activations divided along the sequence between tensor parallel layers. Among one process
the exchanges are the identity.
"""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, check_tensor
from bireme.distributed.fleet.layers.mpu.mp_layers import ColumnParallelLinear, RowParallelLinear
from bireme.nn.layer import Layer

__all__ = [
    "AllGatherOp", "ColumnSequenceParallelLinear", "GatherOp", "ReduceScatterOp", "RowSequenceParallelLinear",
    "ScatterOp", "all_gather", "is_sequence_parallel_parameter", "mark_as_sequence_parallel_parameter",
    "reduce_scatter", "register_sequence_parallel_allreduce_hooks", "scatter",
]  # fmt: skip


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
    check_tensor("scatter(input)", input)
    return input


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
    check_tensor("all_gather(input)", input)
    return input


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
    check_tensor("reduce_scatter(input)", input)
    return input


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
        return scatter(input)


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
        return all_gather(input)


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
        return all_gather(input)


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
        return reduce_scatter(input)


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
    """Let the gradients of marked parameters be summed over the processes: one process has the sum.

    Args:
        model: The model.
        accumulation_steps: Number of backward passes before a step.
        fuse_sequence_parallel_allreduce: Exchange all gradients together.

    Examples:
        >>> from bireme.distributed.fleet.utils import sequence_parallel_utils
        >>> sequence_parallel_utils.register_sequence_parallel_allreduce_hooks(bireme.nn.Linear(2, 1), 1, False)
    """
    if not isinstance(model, Layer):
        where = "register_sequence_parallel_allreduce_hooks(model)"
        raise errors.bad(where, "a Layer", model, kind=errors.ArgumentTypeError)
    errors.check_integer("register_sequence_parallel_allreduce_hooks(accumulation_steps)", accumulation_steps)


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
