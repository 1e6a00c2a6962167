"""Distributed training on trial."""

from bireme.incubate.distributed import fleet
from bireme.incubate.distributed import models as models

__all__ = ["fleet", "models"]
