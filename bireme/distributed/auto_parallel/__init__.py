"""Automatic parallel training: tensors on meshes of processes or devices, divided by placements."""

from bireme.distributed.auto_parallel.interface import create_mesh, recompute, shard_op, shard_tensor
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, get_mesh, set_mesh
from bireme.distributed.auto_parallel.static.engine import Engine
from bireme.distributed.auto_parallel.strategy import Strategy

__all__ = [
    "Engine", "ProcessMesh", "Strategy", "create_mesh", "get_mesh", "recompute", "set_mesh", "shard_op", "shard_tensor",
]  # fmt: skip
