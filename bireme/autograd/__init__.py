"""Autograd: gradients beyond `Tensor.backward`."""

from bireme.autograd.derivative import hessian, jacobian
from bireme.autograd.py_layer import Function, PyLayer, PyLayerContext
from bireme.core.grad_mode import no_grad, saved_tensors_hooks
from bireme.core.tape import backward, grad

__all__ = [
    "Function", "PyLayer", "PyLayerContext", "backward", "grad", "hessian", "jacobian", "no_grad",
    "saved_tensors_hooks",
]  # fmt: skip
