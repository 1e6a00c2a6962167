"""Structured sparsity: n of m weights in a row are kept, and stay the only ones while a network is trained."""

from bireme.incubate.asp.masks import (
    CheckMethod,
    MaskAlgo,
    calculate_density,
    check_mask_1d,
    check_mask_2d,
    check_sparsity,
    create_mask,
    get_mask_1d,
    get_mask_2d_best,
    get_mask_2d_greedy,
)
from bireme.incubate.asp.pruning import (
    add_supported_layer,
    decorate,
    prune_model,
    reset_excluded_layers,
    set_excluded_layers,
)

__all__ = [
    "CheckMethod",
    "MaskAlgo",
    "add_supported_layer",
    "calculate_density",
    "check_mask_1d",
    "check_mask_2d",
    "check_sparsity",
    "create_mask",
    "decorate",
    "get_mask_1d",
    "get_mask_2d_best",
    "get_mask_2d_greedy",
    "prune_model",
    "reset_excluded_layers",
    "set_excluded_layers",
]
