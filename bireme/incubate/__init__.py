"""What may still change: functional derivatives, optimizers around optimizers, fused layers, segments and graphs."""

from bireme.incubate import asp, autograd, autotune, distributed, nn, optimizer
from bireme.incubate.optimizer import LookAhead, ModelAverage
from bireme.ops import (  # written by `make api`
    graph_khop_sampler, graph_reindex, graph_sample_neighbors, graph_send_recv, identity_loss, segment_max,
    segment_mean, segment_min, segment_sum, softmax_mask_fuse, softmax_mask_fuse_upper_triangle,
)  # fmt: skip

__all__ = ["asp", "autograd", "autotune", "distributed", "nn", "optimizer", "LookAhead", "ModelAverage"]
__all__ += [  # written by `make api`
    "graph_khop_sampler", "graph_reindex", "graph_sample_neighbors", "graph_send_recv", "identity_loss", "segment_max",
    "segment_mean", "segment_min", "segment_sum", "softmax_mask_fuse", "softmax_mask_fuse_upper_triangle",
]  # fmt: skip
