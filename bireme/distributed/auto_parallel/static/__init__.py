"""Training loops for models on a mesh."""

from bireme.distributed.auto_parallel.static.engine import Engine

__all__ = ["Engine"]
