"""Optimizers on a mesh: what belongs to parameters is divided along one of its axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh, get_mesh
from bireme.distributed.auto_parallel.tensors import adopt, mesh_of, reshard, shard_tensor
from bireme.distributed.fleet.recompute.recompute import recompute
from bireme.nn.layer import Layer

__all__ = ["ShardingStage1", "ShardingStage2", "ShardingStage3", "shard_optimizer", "shard_scaler"]


class _Stage:
    """How an optimizer's states are divided along an axis of a mesh."""

    divides_gradients = divides_parameters = False

    def __init__(self, sharding_mesh_dim: str | int, mesh: ProcessMesh | None = None) -> None:
        if mesh is not None:
            check_mesh(f"{type(self).__name__}(mesh)", mesh)
        self._sharding_axis, self._mesh = sharding_mesh_dim, mesh

    def _of(self, param: Tensor) -> tuple[ProcessMesh, list[Placement]]:
        """The mesh, and the placements of what belongs to a parameter: divided along the first axis that is whole."""
        where = type(self).__name__
        mesh = self._mesh or mesh_of(f"{where}(mesh)", [param], None) or get_mesh()
        if mesh is None:
            raise errors.bad(f"{where}(mesh)", "a mesh, or parameters on one", None)
        axis = self._sharding_axis
        if isinstance(axis, str):
            axis = mesh._axis(axis, "get_dim_size(dim)")
        found: list[Placement] = list(param.placements) if on_mesh.is_there(param) else [Replicate()] * mesh.ndim
        taken = {p.get_dim() for p in found if isinstance(p, Shard)}
        n = mesh.shape[axis]
        whole = [i for i, size in enumerate(param.shape) if i not in taken and size >= n]
        if whole and found[axis].is_replicated():
            found[axis] = Shard(next((i for i in whole if param.shape[i] % n == 0), whole[0]))
        return mesh, found

    def __call__(self, key: str, param: Tensor, accumulator: Tensor) -> Tensor:
        mesh, found = self._of(param)
        return shard_tensor(accumulator, mesh, found if accumulator.shape == param.shape else [])

    def shard_master_weight(self, param: Tensor, master_weight: Tensor) -> Tensor:
        """Return the master weight of a parameter, divided as its states are.

        Args:
            param: The parameter.
            master_weight: Its master weight.

        Returns:
            The master weight.
        """
        return self("master_weight", param, master_weight)


class ShardingStage1(_Stage):
    """Optimizer states are divided along an axis of a mesh; for ``shard_optimizer``.

    Args:
        sharding_mesh_dim: Name or index of the axis.
        mesh: The mesh. Default: None, that of the parameters.

    Examples:
        >>> layer = bireme.nn.Linear(2, 1)
        >>> optimizer = bireme.optimizer.Adam(0.1, parameters=layer.parameters())
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> optimizer = bireme.distributed.shard_optimizer(optimizer, bireme.distributed.ShardingStage1("dp", mesh))
        >>> layer(bireme.ones([1, 2])).sum().backward(); optimizer.step()
        >>> optimizer._get_accumulator("moment1", layer.weight).placements
        [Shard(dim=0)]
    """


class ShardingStage2(_Stage):
    """Optimizer states and gradients are divided along an axis of a mesh; for ``shard_optimizer``.

    Args:
        sharding_mesh_dim: Name or index of the axis.
        mesh: The mesh. Default: None, that of the parameters.

    Examples:
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> optimizer = bireme.distributed.shard_optimizer(optimizer, bireme.distributed.ShardingStage2("dp", mesh))
    """

    divides_gradients = True


class ShardingStage3(_Stage):
    """Optimizer states, gradients and parameters are divided along an axis of a mesh; for ``shard_optimizer``.

    Args:
        sharding_mesh_dim: Name or index of the axis.
        mesh: The mesh. Default: None, that of the parameters.

    Examples:
        >>> layer = bireme.nn.Linear(2, 1)
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> optimizer = bireme.distributed.shard_optimizer(optimizer, bireme.distributed.ShardingStage3("dp", mesh))
        >>> layer.weight.placements
        [Shard(dim=0)]
    """

    divides_gradients = divides_parameters = True


def shard_optimizer(optimizer: Any, shard_fn: Callable | None = None, gradient_accumulation_steps: int = 1) -> Any:
    """Return an optimizer whose states lie on a mesh.

    Args:
        optimizer: The optimizer. Parameters that are on no mesh are put on that of ``shard_fn``, or of ``set_mesh``.
        shard_fn: How states are placed: ``ShardingStage1`` and its kin, or a function that is given the name of a state,
            the parameter and the state, and returns the state. Default: None, states lie as their parameters do.
        gradient_accumulation_steps: Number of backward passes for a step of a static program. It has no effect in
            dynamic mode, as in Paddle. Default: 1.

    Returns:
        The optimizer itself.

    Examples:
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> bireme.distributed.shard_optimizer(optimizer) is optimizer
        True
    """
    if not hasattr(optimizer, "step"):
        raise errors.bad("shard_optimizer(optimizer)", "an optimizer", optimizer)
    if shard_fn is None:
        return optimizer
    errors.check_function("shard_optimizer(shard_fn)", shard_fn)
    optimizer._shard_fn = shard_fn
    if isinstance(shard_fn, _Stage):
        if shard_fn.divides_gradients:
            optimizer._shard_gradient = lambda p, g: reshard(g, *shard_fn._of(p))
        for p in optimizer._parameter_list:
            mesh, placements = shard_fn._of(p)
            if shard_fn.divides_parameters or not on_mesh.is_there(p):
                adopt(p, shard_tensor(p.detach(), mesh, placements if shard_fn.divides_parameters else []))
    for slot in optimizer._slots.values():
        for name, state in list(slot.state.items()):
            optimizer._set_state(slot, name, state)
    return optimizer


def gather_at_use(layer: Layer, axis: str) -> None:
    """Let a layer compute with parameters that are whole along an axis of the mesh, and give them up after it.

    Left alone, XLA divides the activations as the parameters are, which takes more than a collective for each layer. The
    backward pass gathers them again: the layer is a region that is recomputed, of which nothing but that is needed.
    """
    forward = layer.forward

    def gathered(*args: Any, **kwargs: Any) -> Any:
        own = layer._parameters
        layer._parameters = {name: p if p is None else _whole(p, axis) for name, p in own.items()}
        try:
            return forward(*args, **kwargs)
        finally:
            layer._parameters = own

    layer.forward = lambda *args, **kwargs: recompute(gathered, *args, **kwargs)


def _whole(p: Tensor, axis: str) -> Tensor:
    mesh, placements = p.process_mesh, list(p.placements)
    place = mesh.dim_names.index(axis)
    if placements[place].is_replicated():
        return p
    # divided first: what the backward pass does to it before it is gathered again is done to the parts
    divided = reshard(p, mesh, placements)
    placements[place] = Replicate()
    return reshard(divided, mesh, placements)


def shard_scaler(scaler: Any) -> Any:
    """Return a gradient scaler that sees overflow on the whole mesh.

    Args:
        scaler: The scaler.

    Returns:
        The scaler itself: gradients are whole tensors, wherever their parts lie.

    Examples:
        >>> scaler = bireme.amp.GradScaler()
        >>> bireme.distributed.shard_scaler(scaler) is scaler
        True
    """
    if not hasattr(scaler, "scale"):
        raise errors.bad("shard_scaler(scaler)", "a GradScaler", scaler)
    return scaler
