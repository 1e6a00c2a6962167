"""What may still change: functional derivatives."""

from bireme.incubate import autograd

__all__ = ["autograd"]
