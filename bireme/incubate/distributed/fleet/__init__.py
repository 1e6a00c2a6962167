"""Fleet's functions on trial."""

from bireme.distributed.fleet.recompute.recompute import recompute_sequential
from bireme.distributed.fleet.recompute.recompute_hybrid import recompute_hybrid
from bireme.incubate.distributed.fleet import utils as utils

__all__ = ["recompute_hybrid", "recompute_sequential"]
