"""Autograd: gradients beyond `Tensor.backward`."""

from bireme.autograd.derivative import hessian, jacobian
from bireme.autograd.py_layer import Function, PyLayer, PyLayerContext
from bireme.core.tape import backward, grad, no_grad, saved_tensors_hooks

__all__ = [
    "Function", "PyLayer", "PyLayerContext", "backward", "grad", "hessian", "jacobian", "no_grad",
    "saved_tensors_hooks",
]  # fmt: skip
