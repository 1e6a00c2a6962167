"""The older calls of automatic parallel training, as `fleet.auto` has them. On one process they change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh, set_mesh
from bireme.distributed.communication.group import check_tensor
from bireme.distributed.fleet.recompute.recompute import recompute as recomputed

__all__ = ["create_mesh", "recompute", "shard_op", "shard_tensor"]


def shard_tensor(x: Tensor, process_mesh: ProcessMesh | None = None, shard_spec: Sequence | None = None) -> Tensor:
    """Say how a tensor is divided.

    Args:
        x: The tensor.
        process_mesh: The mesh. Default: None.
        shard_spec: For each axis of the tensor the name of an axis of the mesh, or None. Default: None.

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
    return x


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
        process_mesh: The mesh. Default: None.
        in_shard_specs: How inputs are divided. Default: None.
        out_shard_specs: How outputs are divided. Default: None.
        **kwargs: Not used.

    Returns:
        The function itself.

    Examples:
        >>> add = bireme.distributed.fleet.auto.shard_op(bireme.add, bireme.distributed.ProcessMesh([0]))
        >>> add(bireme.ones([2]), bireme.ones([2])).tolist()
        [2.0, 2.0]
    """
    errors.check_function("shard_op(op)", op)
    if process_mesh is not None:
        check_mesh("shard_op(process_mesh)", process_mesh)
    return op


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
    for name, size in mesh_dims:
        world.only_one(f"create_mesh({name})", size)
    mesh = ProcessMesh(shape=[1] * len(mesh_dims), process_ids=[0], dim_names=[name for name, _ in mesh_dims])
    set_mesh(mesh)
    return mesh
