"""Fleet's helpers."""

from bireme.distributed.fleet.recompute import recompute

__all__ = ["recompute"]
