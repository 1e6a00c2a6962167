"""Models whose layers are divided among processes."""

from bireme.incubate.distributed.models import moe as moe

__all__ = ["moe"]
