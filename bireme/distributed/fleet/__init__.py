"""Fleet: how a model is trained at scale."""

from bireme.distributed.fleet import utils

__all__ = ["utils"]
