"""Tensors on a mesh. On a mesh of one process every placement means the whole tensor; it is noted at the tensor.

The note stays with the tensor that it was given to: results of operators have none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh
from bireme.distributed.communication.group import check_tensor
from bireme.nn.layer import Layer
from bireme.ops import assign, to_tensor

__all__ = [
    "ShardingStage1", "ShardingStage2", "ShardingStage3", "dtensor_from_fn", "reshard", "shard_dataloader",
    "shard_layer", "shard_optimizer", "shard_scaler", "shard_tensor", "unshard_dtensor",
]  # fmt: skip


def _placed(where: str, tensor: Tensor, mesh: Any, placements: Any) -> Tensor:
    """The tensor with mesh and placements noted at it; axes of the mesh without one have copies."""
    check_mesh(f"{where}(mesh)", mesh)
    if not isinstance(placements, (list, tuple)) or not all(isinstance(p, Placement) for p in placements):
        raise errors.bad(f"{where}(placements)", "a list of placements", placements, kind=errors.ArgumentTypeError)
    if len(placements) > mesh.ndim:
        raise errors.bad(f"{where}(placements)", f"at most one per axis of the mesh, {mesh.ndim}", list(placements))
    for p in placements:
        if isinstance(p, Shard) and not -tensor.ndim <= p.get_dim() < tensor.ndim:
            raise errors.bad(f"{where}(placements)", f"axes of a tensor with {tensor.ndim} axes", list(placements))
    tensor.__dict__["_distribution"] = mesh, [*placements, *[Replicate()] * (mesh.ndim - len(placements))]
    return tensor


def shard_tensor(
    data: Any,
    mesh: ProcessMesh,
    placements: Sequence[Placement],
    dtype: Any = None,
    place: Any = None,
    stop_gradient: bool | None = None,
) -> Tensor:
    """Return a tensor that lies on a mesh.

    Args:
        data: A tensor, or what ``to_tensor`` takes. A parameter is returned itself.
        mesh: The mesh.
        placements: How the tensor lies on each axis of the mesh.
        dtype: Data type. Default: None, that of the data.
        place: Device. Default: None, the current one.
        stop_gradient: Whether gradients stop at the tensor. Default: None, as at the data.

    Returns:
        The tensor. Among one process it has all values.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> x = bireme.distributed.shard_tensor([[1.0, 2.0]], mesh, [bireme.distributed.Shard(0)])
        >>> x.tolist(), x.placements, x.is_dist()
        ([[1.0, 2.0]], [Shard(dim=0)], True)
    """
    if isinstance(data, Parameter) and dtype is None:
        tensor: Tensor = data
    elif isinstance(data, Tensor):
        tensor = data.detach() if dtype is None else data.detach().astype(dtype)
        tensor.stop_gradient = data.stop_gradient
    else:
        tensor = to_tensor(data, dtype=dtype, place=place)
    if stop_gradient is not None:
        tensor.stop_gradient = stop_gradient
    return _placed("shard_tensor", tensor, mesh, placements)


def dtensor_from_fn(
    fn: Callable, mesh: ProcessMesh, placements: Sequence[Placement], *args: Any, **kwargs: Any
) -> Tensor:
    """Return the tensor that a function makes, on a mesh.

    Args:
        fn: The function, as ``bireme.ones``.
        mesh: The mesh.
        placements: How the tensor lies on each axis of the mesh.
        *args: Arguments of the function.
        **kwargs: Keyword arguments of the function.

    Returns:
        The tensor.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> bireme.distributed.dtensor_from_fn(bireme.ones, mesh, [bireme.distributed.Replicate()], shape=[2]).tolist()
        [1.0, 1.0]
    """
    errors.check_function("dtensor_from_fn(fn)", fn)
    return _placed("dtensor_from_fn", fn(*args, **kwargs), mesh, placements)


def reshard(dist_tensor: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """Return a tensor with other placements; gradients pass through.

    Args:
        dist_tensor: The tensor.
        mesh: The mesh.
        placements: How the result lies on each axis of the mesh.

    Returns:
        The tensor.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> x = bireme.distributed.shard_tensor([1.0, 2.0], mesh, [bireme.distributed.Shard(0)])
        >>> bireme.distributed.reshard(x, mesh, [bireme.distributed.Replicate()]).placements
        [Replicate()]
    """
    check_tensor("reshard(dist_tensor)", dist_tensor)
    return _placed("reshard", assign(dist_tensor), mesh, placements)


def unshard_dtensor(dist_tensor: Tensor) -> Tensor:
    """Return the whole tensor, without a mesh.

    Args:
        dist_tensor: The tensor.

    Returns:
        The tensor.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> x = bireme.distributed.shard_tensor([1.0, 2.0], mesh, [bireme.distributed.Shard(0)])
        >>> bireme.distributed.unshard_dtensor(x).is_dist()
        False
    """
    check_tensor("unshard_dtensor(dist_tensor)", dist_tensor)
    return assign(dist_tensor)


def shard_layer(
    layer: Layer,
    process_mesh: ProcessMesh,
    shard_fn: Callable | None = None,
    input_fn: Callable | None = None,
    output_fn: Callable | None = None,
) -> Layer:
    """Put the parameters of a layer on a mesh.

    Args:
        layer: The layer.
        process_mesh: The mesh.
        shard_fn: Called with name, sublayer and mesh for each sublayer, to place its parameters. Default: None. What it
            leaves is whole in every process.
        input_fn: Called with the inputs and the mesh before ``forward``; returns the inputs. Default: None.
        output_fn: Called with the outputs and the mesh after ``forward``; returns the outputs. Default: None.

    Returns:
        The layer itself.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> layer = bireme.distributed.shard_layer(bireme.nn.Linear(2, 3), mesh)
        >>> layer.weight.placements
        [Replicate()]
    """
    if not isinstance(layer, Layer):
        raise errors.bad("shard_layer(layer)", "a Layer", layer, kind=errors.MissingAttributeError)
    check_mesh("shard_layer(process_mesh)", process_mesh)
    for name, sublayer in layer.named_sublayers(include_self=True):
        if shard_fn is not None:
            shard_fn(name, sublayer, process_mesh)
    for tensor in [*layer.parameters(), *layer.buffers()]:
        if "_distribution" not in tensor.__dict__:
            _placed("shard_layer", tensor, process_mesh, [])
    if input_fn is not None:
        layer.register_forward_pre_hook(lambda _, inputs: input_fn(inputs, process_mesh))
    if output_fn is not None:
        layer.register_forward_post_hook(lambda _, inputs, outputs: output_fn(outputs, process_mesh))
    return layer


class _Stage:
    """How an optimizer's states are divided along an axis of a mesh."""

    def __init__(self, sharding_mesh_dim: str | int, mesh: ProcessMesh | None = None) -> None:
        if mesh is not None:
            check_mesh(f"{type(self).__name__}(mesh)", mesh)
        self._sharding_axis, self._mesh = sharding_mesh_dim, mesh

    def __call__(self, key: str, param: Tensor, accumulator: Tensor) -> Tensor:
        return accumulator


class ShardingStage1(_Stage):
    """Optimizer states are divided along an axis of a mesh; for ``shard_optimizer``.

    Args:
        sharding_mesh_dim: Name or index of the axis.
        mesh: The mesh. Default: None, that of the parameters.

    Examples:
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> optimizer = bireme.distributed.shard_optimizer(optimizer, bireme.distributed.ShardingStage1("dp", mesh))
    """


class ShardingStage2(_Stage):
    """Optimizer states and gradients are divided along an axis of a mesh; for ``shard_optimizer``.

    Args:
        sharding_mesh_dim: Name or index of the axis.
        mesh: The mesh. Default: None, that of the parameters.

    Examples:
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> optimizer = bireme.distributed.shard_optimizer(optimizer, bireme.distributed.ShardingStage2("dp", mesh))
    """


class ShardingStage3(_Stage):
    """Optimizer states, gradients and parameters are divided along an axis of a mesh; for ``shard_optimizer``.

    Args:
        sharding_mesh_dim: Name or index of the axis.
        mesh: The mesh. Default: None, that of the parameters.

    Examples:
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> optimizer = bireme.distributed.shard_optimizer(optimizer, bireme.distributed.ShardingStage3("dp", mesh))
    """


def shard_optimizer(optimizer: Any, shard_fn: Callable | None = None, gradient_accumulation_steps: int = 1) -> Any:
    """Return an optimizer whose states lie on a mesh.

    Args:
        optimizer: The optimizer.
        shard_fn: How states are placed, as ``ShardingStage1``. One process has them whole. Default: None.
        gradient_accumulation_steps: Number of backward passes for a step of a static program. It has no effect in
            dynamic mode, as in Paddle. Default: 1.

    Returns:
        The optimizer itself.

    Examples:
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> bireme.distributed.shard_optimizer(optimizer) is optimizer
        True
    """
    if not hasattr(optimizer, "step"):
        raise errors.bad("shard_optimizer(optimizer)", "an optimizer", optimizer)
    if shard_fn is not None:
        errors.check_function("shard_optimizer(shard_fn)", shard_fn)
    return optimizer


def shard_scaler(scaler: Any) -> Any:
    """Return a gradient scaler that sees overflow on the whole mesh.

    Args:
        scaler: The scaler.

    Returns:
        The scaler itself: one process has all gradients.

    Examples:
        >>> scaler = bireme.amp.GradScaler()
        >>> bireme.distributed.shard_scaler(scaler) is scaler
        True
    """
    return scaler


class ShardDataloader:
    """A data loader whose batches lie on a mesh; made by ``shard_dataloader``."""

    def __init__(self, dataloader: Any, mesh: ProcessMesh, shard_dim: str | int | None) -> None:
        self._dataloader, self._mesh = dataloader, mesh
        axis = mesh.dim_names[shard_dim] if isinstance(shard_dim, int) else shard_dim
        if axis is not None and axis not in mesh.dim_names:
            raise errors.bad("shard_dataloader(shard_dims)", f"one of {', '.join(mesh.dim_names)}", shard_dim)
        self._placements = [Shard(0) if name == axis else Replicate() for name in mesh.dim_names]

    def __len__(self) -> int:
        return len(self._dataloader)

    def __iter__(self) -> Iterator[Any]:
        return map(self._on_mesh, self._dataloader)

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def _on_mesh(self, batch: Any) -> Any:
        if isinstance(batch, Tensor):
            return _placed("shard_dataloader", batch, self._mesh, self._placements if batch.ndim else [])
        if isinstance(batch, dict):
            return {key: self._on_mesh(value) for key, value in batch.items()}
        return type(batch)(map(self._on_mesh, batch)) if isinstance(batch, (list, tuple)) else batch


def shard_dataloader(
    dataloader: Any,
    meshes: ProcessMesh | Sequence[ProcessMesh],
    input_keys: Sequence[str] | None = None,
    shard_dims: str | int | Sequence[str | int] | None = None,
    is_dataset_splitted: bool = False,
    dense_tensor_idx: Any = None,
) -> ShardDataloader:
    """Return a data loader whose batches lie on a mesh.

    Args:
        dataloader: The data loader.
        meshes: The mesh, or a list with one mesh for each input.
        input_keys: Names of the inputs where batches are dicts. One process needs none. Default: None.
        shard_dims: Axis of the mesh along which a batch is divided. Default: None, every process has whole batches.
        is_dataset_splitted: Whether every process reads a part of its own already. Default: False.
        dense_tensor_idx: Inputs that stay without a mesh. One process needs none. Default: None.

    Returns:
        The data loader.

    Examples:
        >>> loader = bireme.io.DataLoader(bireme.io.TensorDataset([bireme.ones([4, 2])]), batch_size=2)
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> [batch[0].placements for batch in bireme.distributed.shard_dataloader(loader, mesh, shard_dims="dp")]
        [[Shard(dim=0)], [Shard(dim=0)]]
    """
    mesh = meshes[0] if isinstance(meshes, (list, tuple)) and meshes else meshes
    if not isinstance(mesh, ProcessMesh):
        raise errors.bad("shard_dataloader(meshes)", "a ProcessMesh or a list of them", meshes)
    axis = shard_dims[0] if isinstance(shard_dims, (list, tuple)) else shard_dims
    return ShardDataloader(dataloader, mesh, axis)  # type: ignore[arg-type]  # a list was opened
