"""How calls are written in C: a row for each of ONNX's operators that has a form, in a module for each kind."""

from bireme.export.rows import elementwise, loops, products, reductions, shapes, windows

__all__ = ["elementwise", "loops", "products", "reductions", "shapes", "windows"]
