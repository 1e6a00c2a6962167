"""Fleet's functions on trial."""

from bireme.distributed.fleet.recompute.recompute import recompute_sequential
from bireme.distributed.fleet.recompute.recompute_hybrid import recompute_hybrid

__all__ = ["recompute_hybrid", "recompute_sequential"]
