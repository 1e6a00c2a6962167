"""What describes the inputs of a program."""

from bireme.static.input import InputSpec

__all__ = ["InputSpec"]
