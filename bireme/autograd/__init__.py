"""Autograd: gradients beyond `Tensor.backward`."""

from bireme.autograd.derivative import hessian, jacobian
from bireme.autograd.py_layer import Function, PyLayer, PyLayerContext
from bireme.core.tensor import hooks as hooks  # Tensor gets its hooks there
from bireme.core.tensor.backward import backward, grad
from bireme.core.tensor.grad_mode import enable_grad as enable_grad
from bireme.core.tensor.grad_mode import is_grad_enabled as is_grad_enabled
from bireme.core.tensor.grad_mode import no_grad, saved_tensors_hooks
from bireme.core.tensor.grad_mode import set_grad_enabled as set_grad_enabled

__all__ = [
    "Function", "PyLayer", "PyLayerContext", "backward", "grad", "hessian", "jacobian", "no_grad",
    "saved_tensors_hooks",
]  # fmt: skip
