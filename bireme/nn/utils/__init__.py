"""Helpers for parameters and gradients: clipping inplace, reparametrized weights, all parameters as one vector."""

from bireme.nn.utils.gradients import clip_grad_norm_, clip_grad_value_
from bireme.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from bireme.nn.utils.weight_norm_hook import remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "weight_norm",
    "remove_weight_norm",
    "spectral_norm",
    "parameters_to_vector",
    "vector_to_parameters",
    "clip_grad_norm_",
    "clip_grad_value_",
]
