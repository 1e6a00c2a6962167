"""Fleet's functions on trial."""

from bireme.distributed.fleet.recompute import recompute_sequential

__all__ = ["recompute_sequential"]
