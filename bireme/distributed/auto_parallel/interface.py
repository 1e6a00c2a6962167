"""The older calls of automatic parallel training, as `fleet.auto` has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel import tensors as tensors_on_mesh
from bireme.distributed.auto_parallel.dist_attribute import DistAttr
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh, get_mesh, set_mesh
from bireme.distributed.communication.group import check_tensor
from bireme.distributed.fleet.recompute.recompute import recompute as recomputed

__all__ = ["create_mesh", "recompute", "shard_op", "shard_tensor"]


def shard_tensor(x: Tensor, process_mesh: ProcessMesh | None = None, shard_spec: Sequence | None = None) -> Tensor:
    """Divide a tensor among the devices of a mesh.

    Args:
        x: The tensor.
        process_mesh: The mesh. Default: None, that of ``set_mesh``; without one the tensor stays as it is.
        shard_spec: For each axis of the tensor the name of an axis of the mesh, or None. Default: None, no axis is divided.

    Returns:
        The tensor itself.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> bireme.distributed.fleet.auto.shard_tensor(bireme.ones([2, 2]), mesh, ["x", None]).shape
        [2, 2]
    """
    check_tensor("shard_tensor(x)", x)
    if process_mesh is not None:
        check_mesh("shard_tensor(process_mesh)", process_mesh)
    if shard_spec is not None and len(shard_spec) != x.ndim:
        raise errors.bad("shard_tensor(shard_spec)", f"one item per axis of the tensor, {x.ndim}", shard_spec)
    mesh = process_mesh or get_mesh()
    return (
        x
        if mesh is None
        else tensors_on_mesh.adopt(
            x, tensors_on_mesh.shard_tensor(x.detach(), mesh, _placements(mesh, shard_spec or ()))
        )
    )


def _placements(mesh: ProcessMesh, spec: Sequence[str | None]) -> list[Placement]:
    """The placements that names of axes of the mesh, one for each axis of a tensor, mean."""
    specs = DistAttr(mesh, list(spec)).sharding_specs
    return [Shard(specs.index(name)) if name in specs else Replicate() for name in mesh.dim_names]


def _divided(mesh: ProcessMesh, specs: Any, tensors: Any) -> Any:
    """Tensors brought to what is said of them, one by one."""
    if specs is None or not isinstance(tensors, (list, tuple)):
        return tensors
    pairs = zip(tensors, [*specs, *[None] * (len(tensors) - len(specs))])
    return type(tensors)(
        [
            t if s is None or not isinstance(t, Tensor) else tensors_on_mesh.reshard(t, mesh, _placements(mesh, s))
            for t, s in pairs
        ]
    )


def shard_op(
    op: Callable,
    process_mesh: ProcessMesh | None = None,
    in_shard_specs: Any = None,
    out_shard_specs: Any = None,
    **kwargs: Any,
) -> Callable:
    """Say how the tensors of a call are divided.

    Args:
        op: The function.
        process_mesh: The mesh. Default: None, that of ``set_mesh``; without one the function is returned as it is.
        in_shard_specs: For each input the names of axes of the mesh that divide its axes, or None. Default: None.
        out_shard_specs: The same for each output. Default: None.
        **kwargs: Not used.

    Returns:
        A function that divides what it is given and what it returns.

    Examples:
        >>> add = bireme.distributed.fleet.auto.shard_op(bireme.add, bireme.distributed.ProcessMesh([0]))
        >>> add(bireme.ones([2]), bireme.ones([2])).tolist()
        [2.0, 2.0]
    """
    errors.check_function("shard_op(op)", op)
    if process_mesh is not None:
        check_mesh("shard_op(process_mesh)", process_mesh)
    mesh = process_mesh or get_mesh()
    if mesh is None:
        return op

    def call(*args: Any, **kwargs: Any) -> Any:
        found = op(*_divided(mesh, in_shard_specs, args), **kwargs)
        if isinstance(found, (list, tuple)):
            return _divided(mesh, out_shard_specs, found)
        return _divided(mesh, out_shard_specs, [found])[0]

    return call


def recompute(op: Callable) -> Callable:
    """Return a function whose intermediate results are computed again in the backward pass.

    Args:
        op: The function.

    Returns:
        The function that recomputes.

    Examples:
        >>> layer = bireme.distributed.fleet.auto.recompute(bireme.nn.Linear(2, 1))
        >>> layer(bireme.ones([3, 2])).shape
        [3, 1]
    """
    errors.check_function("recompute(op)", op)

    def call(*args: Any, **kwargs: Any) -> Any:
        return recomputed(op, *args, **kwargs)

    return call


def create_mesh(mesh_dims: Sequence[tuple[str, int]]) -> ProcessMesh:
    """Make a mesh of all processes, and set it as the mesh of this process.

    Args:
        mesh_dims: Name and size of each axis.

    Returns:
        The mesh.

    Examples:
        >>> bireme.distributed.fleet.auto.create_mesh([("dp", 1), ("mp", 1)]).dim_names
        ['dp', 'mp']
    """
    if not isinstance(mesh_dims, (list, tuple)) or not mesh_dims:
        raise errors.bad("create_mesh(mesh_dims)", "a list of names and sizes", mesh_dims)
    sizes = [size for _, size in mesh_dims]
    ids = np.arange(math.prod(sizes)).reshape(sizes)
    mesh = ProcessMesh(ids, dim_names=[name for name, _ in mesh_dims])
    set_mesh(mesh)
    return mesh
