"""Names that code written for Paddle takes from `paddle.base.backward`."""

from bireme.static import append_backward, gradients

calc_gradient = gradients

__all__ = ["append_backward", "calc_gradient", "gradients"]
