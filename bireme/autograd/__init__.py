"""Autograd: gradients beyond `Tensor.backward`."""

from bireme.core.tape import backward, saved_tensors_hooks

__all__ = ["backward", "saved_tensors_hooks"]
