"""Minima of functions of one vector, by estimates of the curvature."""

from bireme.incubate.optimizer.functional.quasi_newton import minimize_bfgs, minimize_lbfgs

__all__ = ["minimize_bfgs", "minimize_lbfgs"]
