"""parallelize: a model and an optimizer of one device on a mesh, by a plan for names of layers."""

from __future__ import annotations

import re
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel.intermediate.chosen import Chosen
from bireme.distributed.auto_parallel.intermediate.pipeline_parallel import AXIS, bring, stages_of
from bireme.distributed.auto_parallel.intermediate.tensor_parallel import PlanBase
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh, get_mesh
from bireme.distributed.auto_parallel.sharding import (
    ShardingStage1,
    ShardingStage2,
    ShardingStage3,
    gather_at_use,
    shard_optimizer,
)
from bireme.distributed.auto_parallel.tensors import adopt, shard_tensor
from bireme.nn.layer import Layer

__all__ = ["parallelize"]

LEVELS = {1: ShardingStage1, 2: ShardingStage2, 3: ShardingStage3}
CONFIGS = ("dp_config", "mp_config", "pp_config", "cp_config")


def parallelize(
    model: Layer, optimizer: Any = None, mesh: ProcessMesh | None = None, config: dict[str, Any] | Chosen | None = None
) -> tuple[Layer, Any]:
    """Put a model and an optimizer, written for one device, on a mesh.

    Args:
        model: The model.
        optimizer: Its optimizer. Default: None.
        mesh: The mesh; its axes are named ``"dp"``, ``"mp"``, ``"pp"`` and ``"sep"``. Default: None, that of ``set_mesh``.
        config: What to do, by these keys; None: parameters are whole everywhere. ``dp_config``: ``{"sharding_level": n}``,
            0 to 3, batches are divided along ``"dp"``, and what belongs to the optimizer as ``ShardingStage1`` and its kin
            do. ``mp_config`` and ``cp_config``: ``{"parallelize_plan": {name: plan}}``, plans such as ``ColWiseParallel``
            for names of layers or of their ``weight`` and ``bias``, which may be regular expressions. ``pp_config``:
            ``{"split_spec": ...}``, names of layers with a ``SplitPoint``, or the name of a list of layers to be divided
            evenly; this one works among the devices of one process. Or the result of ``distributed.plan``, which has the
            mesh too. Default: None.

    Returns:
        The model and the optimizer, which are the ones given.

    Raises:
        ValueError: If there is no mesh, a name fits no layer, or the mesh has no axis that a plan needs.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([[0]], dim_names=["dp", "mp"])
        >>> model = bireme.nn.Sequential(bireme.nn.Linear(2, 4), bireme.nn.Linear(4, 2))
        >>> plan = {"0": bireme.distributed.ColWiseParallel(), "1": bireme.distributed.RowWiseParallel()}
        >>> config = {"mp_config": {"parallelize_plan": plan}, "dp_config": {"sharding_level": 0}}
        >>> model, _ = bireme.distributed.parallelize(model, mesh=mesh, config=config)
        >>> model[0].weight.placements, model(bireme.ones([1, 2])).shape
        ([Replicate(), Shard(dim=1)], [1, 2])
    """
    if not isinstance(model, Layer):
        raise errors.bad("parallelize(model)", "a Layer", model, kind=errors.ArgumentTypeError)
    chosen = config if isinstance(config, Chosen) else None
    if chosen is not None:
        mesh, config = chosen.process_mesh() if mesh is None else mesh, chosen.parallelize_config()
    mesh = get_mesh() if mesh is None else mesh
    if mesh is None:
        raise errors.bad("parallelize(mesh)", "a mesh, or a call of set_mesh before", None)
    check_mesh("parallelize(mesh)", mesh)
    config = dict(config or {})
    unknown = [key for key in config if key not in CONFIGS]
    if unknown:
        raise errors.bad("parallelize(config)", f"keys among {', '.join(CONFIGS)}", unknown[0])
    meshes = _stages(model, mesh, config.get("pp_config") or {})
    for key in ("mp_config", "cp_config"):
        for name, plans in ((config.get(key) or {}).get("parallelize_plan") or {}).items():
            _apply(model, name, list(plans) if isinstance(plans, (list, tuple)) else [plans], meshes)
    for name, layer in model.named_sublayers(include_self=True):
        own = _mesh_of(name, meshes)
        tensors = [*layer.parameters(include_sublayers=False), *layer.buffers(include_sublayers=False)]
        for tensor in tensors:
            if not on_mesh.is_there(tensor):
                adopt(tensor, shard_tensor(tensor.detach(), own, []))
    if config.get("dp_config") is not None:
        _data_parallel(model, optimizer, meshes, mesh, config["dp_config"])
    if chosen is not None:
        chosen.recompute_in(model)
    return model, optimizer


def _stages(model: Layer, mesh: ProcessMesh, config: dict[str, Any]) -> dict[str, ProcessMesh]:
    """The meshes of layers by their names; without stages the one mesh of all, under the empty name."""
    if not config:
        return {"": mesh}
    if AXIS not in mesh.dim_names:
        raise errors.bad("parallelize(mesh)", f"a mesh with an axis {AXIS!r}", described=repr(mesh))
    stages = stages_of(model, mesh, config.get("split_spec"), config.get("global_spec"))
    parts = [mesh.get_mesh_with_dim(AXIS, i) for i in range(mesh.get_dim_size(AXIS))]
    found = {name: parts[stage] for name, stage in stages.items()}
    layers = dict(model.named_sublayers())
    for name, own in found.items():
        layers[name].register_forward_pre_hook(bring(own))
    return {"": parts[0], **found}


def _mesh_of(name: str, meshes: dict[str, ProcessMesh]) -> ProcessMesh:
    while name not in meshes:
        name = name.rpartition(".")[0]
    return meshes[name]


def _apply(model: Layer, name: str, plans: list[Any], meshes: dict[str, ProcessMesh]) -> None:
    """Apply plans to the layers that a name means: `fc1`, `layers.*.fc1` as a regular expression, or `fc1.weight`."""
    if not all(isinstance(plan, PlanBase) for plan in plans):
        raise errors.bad("parallelize(parallelize_plan)", "plans as ColWiseParallel", plans)
    layers = dict(model.named_sublayers(include_self=True))
    owner, _, last = name.rpartition(".")
    fitting = [key for key in layers if key == name or re.fullmatch(name, key)]
    only = None
    if not fitting and last in ("weight", "bias"):
        fitting = [key for key in layers if key == owner or re.fullmatch(owner, key)]
        only = [last]
    if not fitting:
        raise errors.bad("parallelize(parallelize_plan)", "names of layers of the model", name)
    for key in fitting:
        for plan in plans:
            plan.apply(layers[key], _mesh_of(key, meshes), only)


def _data_parallel(
    model: Layer, optimizer: Any, meshes: dict[str, ProcessMesh], mesh: ProcessMesh, config: dict[str, Any]
) -> None:
    level = config.get("sharding_level", 0)
    if level not in (0, *LEVELS):
        raise errors.bad("parallelize(sharding_level)", "0, 1, 2 or 3", level)
    first = meshes[""]
    if "dp" not in first.dim_names:
        raise errors.bad("parallelize(mesh)", "a mesh with an axis 'dp'", described=repr(mesh))
    by_batch: list[Placement] = [Shard(0) if name == "dp" else Replicate() for name in first.dim_names]

    def divided(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(divided, x))
        return shard_tensor(x, first, by_batch) if isinstance(x, Tensor) and x.ndim and not on_mesh.is_there(x) else x

    model.register_forward_pre_hook(lambda layer, inputs: tuple(map(divided, inputs)))
    if level and optimizer is not None:
        shard_optimizer(optimizer, LEVELS[level]("dp"))
    if level == 3:
        for layer in model.sublayers(include_self=True):
            if layer.parameters(include_sublayers=False):
                gather_at_use(layer, "dp")
