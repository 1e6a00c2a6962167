"""Layers whose weights are divided among the processes of the model axis."""

from __future__ import annotations

import contextlib
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.base import topology
from bireme.distributed.fleet.layers.mpu.mp_ops import (
    _c_concat,
    _c_identity,
    _c_lookup_table,
    _c_softmax_with_cross_entropy,
    _c_split,
    _mp_allreduce,
)
from bireme.distributed.fleet.layers.mpu.random import get_rng_state_tracker
from bireme.nn.layer import Layer
from bireme.ops import embedding, linear

__all__ = ["ColumnParallelLinear", "ParallelCrossEntropy", "RowParallelLinear", "VocabParallelEmbedding"]


def model_parallel_group(where: str, mp_group: Group | None) -> Group:
    """The group that a layer is divided among: the model axis of `fleet.init` unless the program names another."""
    if mp_group is None:
        hybrid = topology._HYBRID_PARALLEL_GROUP
        if hybrid is None:
            raise errors.bad(
                f"{where}(mp_group)", "a call of fleet.init(is_collective=True) before, or a group", described="none",
                kind=errors.MissingAttributeError,
            )  # fmt: skip
        return hybrid.get_model_parallel_group()
    return member(where, mp_group)


class _Parallel(Layer):
    """A layer that is divided among a group."""

    weight: Any

    def __init__(self, name_scope: str, mp_group: Group | None):
        self_name = type(self).__name__
        group = model_parallel_group(self_name, mp_group)
        # named as the layer that it is where nothing is divided, as in Paddle
        super().__init__(name_scope)
        self.model_parallel_group = group
        self.world_size, self.rank, self.is_mp = group.nranks, group.rank, group.nranks > 1

    def _part(self, argument: str, size: int) -> int:
        """The size of this process' part."""
        if size % self.world_size:
            where = f"{type(self).__name__}({argument})"
            raise errors.bad(where, f"a number that {self.world_size} processes divide", size)
        return size // self.world_size

    def _divided(self, shape: list[int], axis: int, attr: Any = None, is_bias: bool = False) -> Any:
        """A parameter of which every process has a part, with random numbers of its own."""
        own = get_rng_state_tracker()
        # the states are there after `fleet.init`; with a group alone all parts begin with the same numbers
        with own.rng_state() if self.is_mp and own.states_ else contextlib.nullcontext():
            made: Any = self.create_parameter(shape, attr, is_bias=is_bias)
        if made is not None and self.is_mp:
            made.is_distributed, made.split_axis = True, axis
        return made


class VocabParallelEmbedding(_Parallel):
    """Lookup table whose rows are divided among processes.

    Args:
        num_embeddings: Number of rows of the whole table.
        embedding_dim: Size of each row.
        weight_attr: Attribute of the table. Default: None, Xavier uniform.
        mp_group: The group. Default: None, the model axis of ``fleet.init``.
        name: Not used. Default: None.

    Raises:
        AttributeError: If neither ``fleet.init`` was called nor a group is given.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> layer = bireme.distributed.fleet.meta_parallel.VocabParallelEmbedding(8, 4)
        >>> layer(bireme.to_tensor([1, 2])).shape
        [2, 4]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        weight_attr: Any = None,
        mp_group: Group | None = None,
        name: str | None = None,
    ):
        super().__init__("embedding", mp_group)
        self.origin_num_embeddings = self.num_embeddings = num_embeddings
        size = self._part("num_embeddings", num_embeddings)
        self.vocab_start_index = self.rank * size
        self.weight = self._divided([size, embedding_dim], 0, weight_attr)

    def forward(self, x: Tensor) -> Tensor:
        """Look up rows.

        Args:
            x: Integers of any shape.

        Returns:
            The rows, in the shape of ``x`` followed by ``embedding_dim``.
        """
        if not self.is_mp:
            return embedding(x, self.weight)
        rows = _c_lookup_table(self.weight, x, self.vocab_start_index, self.num_embeddings)
        return _mp_allreduce(rows, group=self.model_parallel_group)


class ColumnParallelLinear(_Parallel):
    """Linear map whose weight is divided along its columns, the outputs.

    Args:
        in_features: Size of the last axis of the input.
        out_features: Size of the last axis of the whole output.
        weight_attr: Attribute of the weight. Default: None, Xavier uniform.
        has_bias: Add a bias. Default: None, none.
        gather_output: Give every process the whole output. Default: True.
        fuse_matmul_bias: Compute product and sum in one operator. It has no effect. Default: False.
        mp_group: The group. Default: None, the model axis of ``fleet.init``.
        name: Not used. Default: None.

    Raises:
        AttributeError: If neither ``fleet.init`` was called nor a group is given.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> layer = bireme.distributed.fleet.meta_parallel.ColumnParallelLinear(4, 6, has_bias=True)
        >>> layer(bireme.ones([2, 4])).shape, layer.weight.shape
        ([2, 6], [4, 6])
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
        super().__init__("linear", mp_group)
        size = self._part("out_features", out_features)
        self.weight = self._divided([in_features, size], 1, weight_attr)
        self.bias = self._divided([size], 0, is_bias=True) if has_bias else None
        self.fuse_matmul_bias, self.linear = fuse_matmul_bias, linear
        self.gather_output, self.output_size_per_partition = gather_output, size

    def forward(self, x: Tensor) -> Tensor:
        """Compute this process' columns of ``x @ weight + bias``.

        Args:
            x: Tensor of shape ``[..., in_features]``.

        Returns:
            Tensor of shape ``[..., out_features]``, or this process' part of it where it is not gathered.
        """
        y = self.linear(_c_identity(x, self.model_parallel_group), self.weight, self.bias)
        return _c_concat(y, self.model_parallel_group) if self.gather_output else y


class RowParallelLinear(_Parallel):
    """Linear map whose weight is divided along its rows, the inputs.

    Args:
        in_features: Size of the last axis of the whole input.
        out_features: Size of the last axis of the output.
        weight_attr: Attribute of the weight. Default: None, Xavier uniform.
        has_bias: Add a bias. Default: True.
        input_is_parallel: Whether the input is divided already. Default: False.
        fuse_matmul_bias: Compute product and sum in one operator. It has no effect. Default: False.
        mp_group: The group. Default: None, the model axis of ``fleet.init``.
        name: Not used. Default: None.

    Raises:
        AttributeError: If neither ``fleet.init`` was called nor a group is given.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> layer = bireme.distributed.fleet.meta_parallel.RowParallelLinear(6, 4, input_is_parallel=True)
        >>> layer(bireme.ones([2, 6])).shape
        [2, 4]
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
        super().__init__("linear", mp_group)
        size = self._part("in_features", in_features)
        self.weight = self._divided([size, out_features], 0, weight_attr)
        self.bias = self.create_parameter([out_features], is_bias=True) if has_bias else None
        self.fuse_matmul_bias, self.linear = fuse_matmul_bias, linear
        self.in_features, self.out_features = in_features, out_features
        self.input_is_parallel, self.input_size_per_partition = input_is_parallel, size

    def forward(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight + bias`` as the sum of all processes' rows.

        Args:
            x: Tensor of shape ``[..., in_features]``, or this process' part of it where it is divided already.

        Returns:
            Tensor of shape ``[..., out_features]``.
        """
        if not self.is_mp:
            return self.linear(x, self.weight, self.bias)
        part = x if self.input_is_parallel else _c_split(x, self.model_parallel_group)
        y = _mp_allreduce(self.linear(part, self.weight), group=self.model_parallel_group)
        return y if self.bias is None else y + self.bias


class ParallelCrossEntropy(_Parallel):
    """Cross entropy over classes that are divided among processes, without reduction.

    Args:
        mp_group: The group. Default: None, the model axis of ``fleet.init``.
        name: Not used. Default: None.
        ignore_index: Class whose samples have loss 0. Default: -100.

    Raises:
        AttributeError: If neither ``fleet.init`` was called nor a group is given.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> loss = bireme.distributed.fleet.meta_parallel.ParallelCrossEntropy()
        >>> loss(bireme.zeros([2, 4]), bireme.to_tensor([0, 3])).shape
        [2, 1]
    """

    def __init__(self, mp_group: Group | None = None, name: str | None = None, ignore_index: int = -100):
        super().__init__("parallel_cross_entropy", mp_group)
        self.name, self.ignore_index = name, ignore_index

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        """Compute the loss of each sample.

        Args:
            input: Logits of this process' classes, along the last axis.
            label: Integer classes, with or without a last axis of size 1.

        Returns:
            The losses, with a last axis of size 1.
        """
        found = _c_softmax_with_cross_entropy(input, label, self.model_parallel_group, ignore_index=self.ignore_index)
        assert isinstance(found, Tensor)
        return found
