"""Recomputing: memory for time."""

from bireme.distributed.fleet.recompute.recompute import recompute, recompute_sequential
from bireme.distributed.fleet.recompute.recompute_hybrid import recompute_hybrid

__all__ = ["recompute", "recompute_hybrid", "recompute_sequential"]
