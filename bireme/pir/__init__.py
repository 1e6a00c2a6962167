"""Names that code written for Paddle takes from `paddle.pir`: programs, their operations and variables."""

from typing import Any

from bireme.core.program.program import Operation as Operation
from bireme.core.program.program import Program
from bireme.core.program.variable import Variable
from bireme.pir import core

Block = Program  # the block of a program is itself: blocks of branches and loops belong to their operations
Value = Variable

__all__ = ["Program", "Value", "core", "fake_value", "is_fake_value", "translate_to_pir"]


def translate_to_pir(program: Program) -> Program:
    """Return a program in the representation that is run: itself, since there is one.

    Args:
        program: The program.

    Returns:
        The program.

    Examples:
        >>> program = bireme.static.Program()
        >>> bireme.pir.translate_to_pir(program) is program
        True
    """
    return program


def fake_value() -> None:
    """Return what stands for no variable: None.

    Examples:
        >>> bireme.pir.fake_value() is None
        True
    """


def is_fake_value(value: Any) -> bool:
    """Return whether something stands for no variable.

    Args:
        value: Anything.

    Returns:
        A bool.

    Examples:
        >>> bireme.pir.is_fake_value(bireme.pir.fake_value())
        True
    """
    return value is None
