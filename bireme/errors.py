"""Exceptions that Bireme raises. Each derives from the builtin classes that Paddle raises in its place.

An error about an argument has one form: ``op(argument): expected ..., got ...``, a hint where there is a likely repair,
and the line of your call.
"""

from bireme.core.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    FileFormatError,
    FreedGraphError,
    InplaceError,
    MissingAttributeError,
    MissingKeyError,
    MissingMethodError,
    NonFiniteError,
    NotATensorError,
    NotIndexableError,
    OutOfRangeError,
    ProcessLostError,
    RecompileError,
    ShapeError,
    UnsupportedTypeError,
)

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "DtypeError",
    "FileFormatError",
    "FreedGraphError",
    "InplaceError",
    "MissingAttributeError",
    "MissingKeyError",
    "MissingMethodError",
    "NonFiniteError",
    "NotATensorError",
    "NotIndexableError",
    "OutOfRangeError",
    "ProcessLostError",
    "RecompileError",
    "ShapeError",
    "UnsupportedTypeError",
]
