"""Graphs of functions and layers: captured from dynamic code, saved, and loaded."""

from bireme.jit import drawing as drawing
from bireme.jit import transforms as transforms
from bireme.jit.conversion import ignore_module, not_to_static, set_code_level
from bireme.jit.saving import TranslatedLayer, load, save
from bireme.jit.static_function import enable_to_static, set_verbosity, to_static

__all__ = [
    "TranslatedLayer",
    "enable_to_static",
    "ignore_module",
    "load",
    "not_to_static",
    "save",
    "set_code_level",
    "set_verbosity",
    "to_static",
]
