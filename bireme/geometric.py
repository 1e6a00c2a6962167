"""Learning on graphs: messages along edges, segments, sampling of neighbours; a list of names."""

from bireme.ops import (  # written by `make api`
    reindex_graph, reindex_heter_graph, sample_neighbors, segment_max, segment_mean, segment_min, segment_sum,
    send_u_recv, send_ue_recv, send_uv, weighted_sample_neighbors,
)  # fmt: skip

__all__: list[str] = []
__all__ += [  # written by `make api`
    "reindex_graph", "reindex_heter_graph", "sample_neighbors", "segment_max", "segment_mean", "segment_min",
    "segment_sum", "send_u_recv", "send_ue_recv", "send_uv", "weighted_sample_neighbors",
]  # fmt: skip
