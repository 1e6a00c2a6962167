"""Names that code written for Paddle takes from `paddle.base.dygraph`: the dynamic mode, which is always on here."""

from bireme.base.dygraph import base
from bireme.base.dygraph.base import enable_dygraph, enabled, grad, guard, no_grad

__all__ = ["base", "enable_dygraph", "enabled", "grad", "guard", "no_grad"]
