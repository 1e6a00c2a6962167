"""Functional derivatives: products with Jacobians in both directions, and whole Jacobians of functions."""

from bireme.incubate.autograd import utils as utils
from bireme.incubate.autograd.functional import Hessian, Jacobian, forward_grad, grad, jvp, vjp
from bireme.incubate.autograd.primitive import disable_prim, enable_prim
from bireme.incubate.autograd.primitive import prim_enabled as prim_enabled

__all__ = ["Hessian", "Jacobian", "disable_prim", "enable_prim", "forward_grad", "grad", "jvp", "vjp"]
