"""Data loaders whose batches lie on a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh
from bireme.distributed.auto_parallel.tensors import dtensor_from_local, shard_tensor
from bireme.io import DataLoader, DistributedBatchSampler

__all__ = ["ShardDataloader", "shard_dataloader"]


class ShardDataloader:
    """A data loader whose batches lie on a mesh; made by ``shard_dataloader``."""

    def __init__(
        self,
        dataloader: Any,
        meshes: Sequence[ProcessMesh],
        input_keys: Sequence[str] | None,
        shard_dims: Sequence[str | int | None],
        is_dataset_splitted: bool,
        dense_tensor_idx: Any,
    ) -> None:
        self._meshes, self._keys, self._dense = list(meshes), input_keys, dense_tensor_idx
        self._placements = [_by_batch(mesh, axis) for mesh, axis in zip(self._meshes, shard_dims)]
        self._divided = is_dataset_splitted
        divides = [i for i, found in enumerate(self._placements) if not all(p.is_replicated() for p in found)]
        if world.size() > 1 and divides and not is_dataset_splitted:
            first = divides[0]
            dataloader = _share(dataloader, self._meshes[first], self._placements[first])
            self._divided = True
        self._dataloader = dataloader
        self.batch_sampler = getattr(dataloader, "batch_sampler", None)

    def __len__(self) -> int:
        return len(self._dataloader)

    def __iter__(self) -> Iterator[Any]:
        return map(self._batch, self._dataloader)

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def _batch(self, batch: Any) -> Any:
        if isinstance(batch, dict):
            keys = self._keys or list(batch)
            places = {key: min(i, len(self._meshes) - 1) for i, key in enumerate(keys)}
            return {k: self._on_mesh(v, places[k], (k,)) if k in places else v for k, v in batch.items()}
        if isinstance(batch, (list, tuple)):
            last = len(self._meshes) - 1
            return type(batch)([self._on_mesh(x, min(i, last), (i,)) for i, x in enumerate(batch)])
        return self._on_mesh(batch, 0, ())

    def _on_mesh(self, x: Any, which: int, path: tuple) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)([self._on_mesh(y, which, (*path, i)) for i, y in enumerate(x)])
        if not isinstance(x, Tensor) or self._stays(path):
            return x
        mesh, placements = self._meshes[which], self._placements[which]
        if not x.ndim:
            placements = [Replicate()] * mesh.ndim
        if self._divided and mesh._devices("shard_dataloader(meshes)").channel is not None:
            return dtensor_from_local(x, mesh, placements)
        return shard_tensor(x, mesh, placements)

    def _stays(self, path: tuple) -> bool:
        """Whether an input stays without a mesh: by the index of the input, and of the tensor in it."""
        if self._dense is None or not path or not isinstance(path[0], int) or path[0] >= len(self._dense):
            return False
        return (path[1] if len(path) > 1 else 0) in (self._dense[path[0]] or ())


def _by_batch(mesh: ProcessMesh, axis: str | int | None) -> list[Placement]:
    name = mesh.dim_names[axis] if isinstance(axis, int) else axis
    if name is not None and name not in mesh.dim_names:
        raise errors.bad("shard_dataloader(shard_dims)", f"one of {', '.join(mesh.dim_names)}", axis)
    return [Shard(0) if own == name else Replicate() for own in mesh.dim_names]


def _share(loader: Any, mesh: ProcessMesh, placements: Sequence[Placement]) -> Any:
    """A loader of this process' part of each batch: processes along other axes read the same."""
    axis = next(i for i, p in enumerate(placements) if not p.is_replicated())
    n, size = mesh.shape[axis], loader.batch_size
    if getattr(loader, "batch_sampler", None) is None or not size or size % n:
        raise errors.bad(
            "shard_dataloader(dataloader)",
            f"a loader of batches whose size is a multiple of {n}",
            described=f"batch size {size}",
            hint="divide the dataset yourself and say is_dataset_splitted=True",
        )
    index = mesh.get_rank_by_dim_and_process_id(mesh.dim_names[axis], world.rank())
    sampler = DistributedBatchSampler(
        loader.dataset, size // n, num_replicas=n, rank=index, shuffle=bool(loader.shuffle), drop_last=loader.drop_last
    )
    return DataLoader(
        loader.dataset, batch_sampler=sampler, num_workers=loader.num_workers, collate_fn=loader.collate_fn
    )


def shard_dataloader(
    dataloader: Any,
    meshes: ProcessMesh | Sequence[ProcessMesh],
    input_keys: Sequence[str] | None = None,
    shard_dims: str | int | Sequence[str | int] | None = None,
    is_dataset_splitted: bool = False,
    dense_tensor_idx: Any = None,
) -> ShardDataloader:
    """Return a data loader whose batches lie on a mesh.

    Among several processes each reads its part of a batch, in the order that the loader has without shuffling.

    Args:
        dataloader: The data loader.
        meshes: The mesh, or a list with one mesh for each input.
        input_keys: Names of the inputs where batches are dicts, in the order of ``meshes``. Default: None.
        shard_dims: Axis of the mesh along which a batch is divided, or one for each mesh. Default: None, every process
            has whole batches.
        is_dataset_splitted: Whether every process reads a part of its own already. Default: False.
        dense_tensor_idx: For each input, indices of its tensors that stay without a mesh. Default: None.

    Returns:
        The data loader.

    Raises:
        ValueError: If an axis is not one of the mesh.

    Examples:
        >>> loader = bireme.io.DataLoader(bireme.io.TensorDataset([bireme.ones([4, 2])]), batch_size=2)
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> [batch[0].placements for batch in bireme.distributed.shard_dataloader(loader, mesh, shard_dims="dp")]
        [[Shard(dim=0)], [Shard(dim=0)]]
    """
    found = [meshes] if isinstance(meshes, ProcessMesh) else meshes
    if not isinstance(found, (list, tuple)) or not found or not all(isinstance(m, ProcessMesh) for m in found):
        raise errors.bad("shard_dataloader(meshes)", "a ProcessMesh or a list of them", meshes)
    axes = list(shard_dims) if isinstance(shard_dims, (list, tuple)) else [shard_dims]
    axes = axes * len(found) if len(axes) == 1 else axes
    if len(axes) != len(found):
        raise errors.bad("shard_dataloader(shard_dims)", f"one axis, or {len(found)}", shard_dims)
    return ShardDataloader(dataloader, found, input_keys, axes, is_dataset_splitted, dense_tensor_idx)  # type: ignore[arg-type]  # lists of both
