"""Training on several devices and machines."""

from bireme.distributed import fleet

__all__ = ["fleet"]
