"""What may still change: functional derivatives, optimizers around optimizers, fused layers, segments and graphs."""

import importlib
from typing import TYPE_CHECKING, Any

from bireme.incubate import asp, autograd, autotune, distributed, nn, optimizer
from bireme.incubate.optimizer import LookAhead, ModelAverage
from bireme.ops import (  # written by `make api`
    graph_khop_sampler, graph_reindex, graph_sample_neighbors, graph_send_recv, identity_loss, segment_max,
    segment_mean, segment_min, segment_sum, softmax_mask_fuse, softmax_mask_fuse_upper_triangle,
)  # fmt: skip

if TYPE_CHECKING:
    from bireme.incubate import jit
    from bireme.incubate.jit import inference

__all__ = [
    "asp",
    "autograd",
    "autotune",
    "distributed",
    "jit",
    "nn",
    "optimizer",
    "LookAhead",
    "ModelAverage",
    "inference",
]
__all__ += [  # written by `make api`
    "graph_khop_sampler", "graph_reindex", "graph_sample_neighbors", "graph_send_recv", "identity_loss", "segment_max",
    "segment_mean", "segment_min", "segment_sum", "softmax_mask_fuse", "softmax_mask_fuse_upper_triangle",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """What stands on predictors, which few programs need."""
    if name not in ("inference", "jit"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = importlib.import_module(f"{__name__}.jit")
    return found if name == "jit" else found.inference
