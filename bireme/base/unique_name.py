"""`paddle.base.unique_name`: the names of `paddle.utils.unique_name`."""

from bireme.utils.unique_name import generate, guard, switch

__all__ = ["generate", "guard", "switch"]
