"""Plans that divide a sequence through a whole model, attention included."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel.intermediate.tensor_parallel import HookPlan, lies
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh
from bireme.nn.layer import Layer

__all__ = ["ContextParallel", "PrepareContextParallel"]

AXIS = "sep"  # the axis of a mesh that the sequence is divided along
BACKENDS = ("p2p", "all2all")


def _divided(mesh: ProcessMesh, dims: dict[int, str | None], where: str) -> Callable:
    """A hook that lets all inputs with at least as many axes lie so."""
    most = max(dims)

    def hook(layer: Layer, inputs: Sequence) -> tuple:
        return tuple([lies(t, mesh, dims, where) if isinstance(t, Tensor) and t.ndim > most else t for t in inputs])

    return hook


class _ContextPlan(HookPlan):
    """A plan that depends on how attention is computed."""

    def __init__(self, backend: str = "p2p") -> None:
        super().__init__()
        if backend not in BACKENDS:
            raise errors.bad(f"{type(self).__name__}(backend)", "'p2p' or 'all2all'", backend)
        self.backend = backend


class PrepareContextParallel(_ContextPlan):
    """Plan for the first layer of a model whose inputs are divided along the sequence, their axis 1.

    Args:
        backend: How attention is computed, ``"p2p"`` or ``"all2all"``, see ``ContextParallel``. Default: ``"p2p"``.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["sep"])
        >>> layer = bireme.nn.ReLU()
        >>> bireme.distributed.PrepareContextParallel().apply(layer, mesh, None)
        >>> layer(bireme.ones([2, 3])).shape
        [2, 3]
    """

    def p2p_split_input_pre_hook(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the inputs of a layer.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        return _divided(process_mesh, {1: AXIS}, "PrepareContextParallel")

    def all2all_split_input_pre_hook(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the inputs of a layer.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        return _divided(process_mesh, {1: AXIS}, "PrepareContextParallel")

    def _before(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        p2p = self.backend == "p2p"
        return self.p2p_split_input_pre_hook(mesh) if p2p else self.all2all_split_input_pre_hook(mesh)


class ContextParallel(_ContextPlan):
    """Plan for a layer that computes attention from queries, keys and values ``[batch, sequence, heads, width]``.

    Args:
        backend: ``"p2p"``: queries, keys and values stay divided along the sequence, and parts of keys and values come
            from other devices; ``"all2all"``: during attention they are divided by heads. Default: ``"p2p"``.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["sep"])
        >>> layer = bireme.nn.ReLU()
        >>> bireme.distributed.ContextParallel("all2all").apply(layer, mesh, None)
        >>> layer(bireme.ones([2, 3, 4, 5])).shape
        [2, 3, 4, 5]
    """

    def p2p_reshard_pre_hook(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the inputs of a layer along the sequence.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        return _divided(process_mesh, {1: AXIS}, "ContextParallel")

    def all2all_reshard_pre_hook(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the inputs of a layer by heads.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        return _divided(process_mesh, {1: None, 2: AXIS}, "ContextParallel")

    def all2all_reshard_post_hook(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the output of a layer along the sequence again.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        return lambda layer, inputs, output: lies(output, process_mesh, {1: AXIS, 2: None}, "ContextParallel")

    def _before(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        return self.p2p_reshard_pre_hook(mesh) if self.backend == "p2p" else self.all2all_reshard_pre_hook(mesh)

    def _after(self, layer: Layer, mesh: ProcessMesh) -> Callable | None:
        return None if self.backend == "p2p" else self.all2all_reshard_post_hook(mesh)
