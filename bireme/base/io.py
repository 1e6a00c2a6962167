"""Names that code written for Paddle takes from `paddle.base.io`."""

from bireme.base.reader import DataLoader, PyReader

__all__ = ["DataLoader", "PyReader"]
