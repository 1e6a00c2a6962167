"""Automatic parallel training: tensors on meshes of processes. A mesh of one process is there; larger ones are not."""

from bireme.distributed.auto_parallel.interface import create_mesh, recompute, shard_op, shard_tensor
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, get_mesh, set_mesh

__all__ = ["ProcessMesh", "create_mesh", "get_mesh", "recompute", "set_mesh", "shard_op", "shard_tensor"]
