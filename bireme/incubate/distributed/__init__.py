"""Distributed training on trial."""

from bireme.incubate.distributed import fleet

__all__ = ["fleet"]
