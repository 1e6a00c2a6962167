"""Names that code written for Paddle takes from `paddle.base.dygraph`: the dynamic mode, which is always on here."""

from bireme.base.dygraph import base
from bireme.base.dygraph.base import disable_dygraph, enable_dygraph, enabled, grad, guard, no_grad, no_grad_

__all__ = ["base", "disable_dygraph", "enable_dygraph", "enabled", "grad", "guard", "no_grad", "no_grad_"]
