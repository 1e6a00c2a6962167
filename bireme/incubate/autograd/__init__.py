"""Functional derivatives: products with Jacobians in both directions, and whole Jacobians of functions."""

from bireme.incubate.autograd.functional import Hessian, Jacobian, forward_grad, grad, jvp, vjp

__all__ = ["Hessian", "Jacobian", "forward_grad", "grad", "jvp", "vjp"]
