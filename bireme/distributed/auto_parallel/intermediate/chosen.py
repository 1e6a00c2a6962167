"""What `parallelize` takes in place of a mesh and a config: a plan that knows both."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh
from bireme.distributed.fleet.recompute.recompute import recompute
from bireme.nn.layer import Layer

__all__ = ["Chosen"]


class Chosen:
    """A plan for a whole model: a mesh, a config, and layers whose results are computed again in the backward pass."""

    def process_mesh(self) -> ProcessMesh:
        """Return the mesh."""
        raise errors.missing_method(self, "process_mesh")

    def parallelize_config(self) -> dict[str, Any]:
        """Return what `parallelize` takes as ``config``."""
        raise errors.missing_method(self, "parallelize_config")

    def recomputed_layers(self) -> list[str]:
        """Return the names of layers whose results are computed again."""
        return []

    def recompute_in(self, model: Layer) -> None:
        """Let those layers of a model compute again."""
        layers = dict(model.named_sublayers())
        for name in self.recomputed_layers():
            _computed_again(layers[name])


def _computed_again(layer: Layer) -> None:
    forward = layer.forward
    layer.forward = lambda *args, **kwargs: recompute(forward, *args, **kwargs)
