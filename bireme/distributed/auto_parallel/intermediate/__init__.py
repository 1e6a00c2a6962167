"""From a model of one device to one on a mesh, by a plan for its layers."""

from bireme.distributed.auto_parallel.intermediate.parallelize import parallelize

__all__ = ["parallelize"]
