"""Graphs of functions and layers: captured from dynamic code, saved, and loaded."""

from bireme.jit.conversion import ignore_module, not_to_static, set_code_level
from bireme.jit.static_function import enable_to_static, set_verbosity, to_static

__all__ = [
    "enable_to_static",
    "ignore_module",
    "not_to_static",
    "set_code_level",
    "set_verbosity",
    "to_static",
]
