"""`paddle.dataset`: what is left of Paddle's first datasets, functions for files of samples."""

from bireme.dataset import common

__all__ = ["common"]
