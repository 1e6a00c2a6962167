"""Names that code written for Paddle takes from `paddle.base.initializer`."""

from bireme.nn.initializer import set_global_initializer

__all__ = ["set_global_initializer"]
