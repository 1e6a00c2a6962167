"""Layers whose weights are divided among the processes of the model axis. One process has them whole."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.base import topology
from bireme.distributed.fleet.layers.mpu.mp_ops import _c_softmax_with_cross_entropy
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
    world.only_one(f"{where}(mp_group)", member(where, mp_group).nranks)
    return mp_group


class _Parallel(Layer):
    """A layer that is divided among a group."""

    weight: Any

    def __init__(self, name_scope: str, mp_group: Group | None):
        self_name = type(self).__name__
        group = model_parallel_group(self_name, mp_group)
        # named as the layer that it is where nothing is divided, as in Paddle
        super().__init__(name_scope)
        self.model_parallel_group = group
        self.world_size, self.rank, self.is_mp = group.nranks, group.rank, False


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
        self.vocab_start_index = 0
        self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)

    def forward(self, x: Tensor) -> Tensor:
        """Look up rows.

        Args:
            x: Integers of any shape.

        Returns:
            The rows, in the shape of ``x`` followed by ``embedding_dim``.
        """
        return embedding(x, self.weight)


class _ParallelLinear(_Parallel):
    """A linear map with a divided weight."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any,
        has_bias: bool | None,
        fuse_matmul_bias: bool,
        mp_group: Group | None,
    ):
        super().__init__("linear", mp_group)
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], is_bias=True) if has_bias else None
        self.fuse_matmul_bias = fuse_matmul_bias
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight + bias``.

        Args:
            x: Tensor of shape ``[..., in_features]``.

        Returns:
            Tensor of shape ``[..., out_features]``.
        """
        return self.linear(x, self.weight, self.bias)


class ColumnParallelLinear(_ParallelLinear):
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
        super().__init__(in_features, out_features, weight_attr, has_bias, fuse_matmul_bias, mp_group)
        self.gather_output, self.output_size_per_partition = gather_output, out_features


class RowParallelLinear(_ParallelLinear):
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
        super().__init__(in_features, out_features, weight_attr, has_bias, fuse_matmul_bias, mp_group)
        self.in_features, self.out_features = in_features, out_features
        self.input_is_parallel, self.input_size_per_partition = input_is_parallel, in_features


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
            input: Logits, with the classes along the last axis.
            label: Integer classes, with or without a last axis of size 1.

        Returns:
            The losses, with a last axis of size 1.
        """
        found = _c_softmax_with_cross_entropy(input, label, self.model_parallel_group, ignore_index=self.ignore_index)
        assert isinstance(found, Tensor)
        return found
