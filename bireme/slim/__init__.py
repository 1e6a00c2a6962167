"""Smaller networks: pruning of channels and weights, losses of distillation, quantization of saved models, and sizes."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bireme.slim.analysis import flops, model_size
    from bireme.slim.dist import fsp, l2, loss, merge, soft_label
    from bireme.slim.dygraph import FPGMFilterPruner, L1NormFilterPruner, PruningPlan, UnstructuredPruner
    from bireme.slim.quant import convert, quant_aware, quant_post_dynamic, quant_post_static

__all__ = [
    "FPGMFilterPruner",
    "L1NormFilterPruner",
    "PruningPlan",
    "UnstructuredPruner",
    "convert",
    "flops",
    "fsp",
    "l2",
    "loss",
    "merge",
    "model_size",
    "quant_aware",
    "quant_post_dynamic",
    "quant_post_static",
    "soft_label",
]

# modules that names come from: they are imported when somebody asks for one
HOMES = {
    "dygraph": ("FPGMFilterPruner", "L1NormFilterPruner", "PruningPlan", "UnstructuredPruner"),
    "analysis": ("flops", "model_size"),
    "dist": ("fsp", "l2", "loss", "merge", "soft_label"),
    "quant": ("convert", "quant_aware", "quant_post_dynamic", "quant_post_static"),
}


def __getattr__(name: str) -> Any:
    """A part, or a name of one."""
    if name in HOMES:
        return importlib.import_module(f"{__name__}.{name}")
    for home, names in HOMES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
