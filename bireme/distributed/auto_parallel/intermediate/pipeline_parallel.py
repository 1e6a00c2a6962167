"""Stages of a pipeline: parts of a model on parts of a mesh, with their inputs brought from one to the next."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel.placement_type import Replicate
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh
from bireme.distributed.auto_parallel.tensors import reshard, shard_tensor
from bireme.nn.layer import Layer

__all__ = ["SplitPoint", "stages_of"]

AXIS = "pp"


class SplitPoint(enum.Enum):
    """Where a model is cut into stages: before a layer or after it.

    Examples:
        >>> bireme.distributed.SplitPoint.END.value
        1
    """

    BEGINNING = 0
    END = 1


def stages_of(model: Layer, mesh: ProcessMesh, split_spec: Any, global_spec: Any = None) -> dict[str, int]:
    """The stage of each layer that a specification names, by its name; the stage of a layer is that of its owner."""
    count = mesh.get_dim_size(AXIS)
    names = [name for name, _ in model.named_sublayers()]
    if isinstance(split_spec, str):
        inside = [name for name in names if re.fullmatch(rf"{re.escape(split_spec)}\.\d+", name)]
        if len(inside) < count:
            raise errors.bad("parallelize(split_spec)", f"at least {count} layers under the name", split_spec)
        size = -(-len(inside) // count)
        split_spec = dict.fromkeys(inside[size - 1 : -1 : size], SplitPoint.END)
    if not isinstance(split_spec, dict) or not all(isinstance(point, SplitPoint) for point in split_spec.values()):
        raise errors.bad("parallelize(split_spec)", "a name, or a dict of names and SplitPoints", split_spec)
    found: dict[str, int] = {}
    stage, inside_of = 0, ""
    for name in names:
        point = next((p for key, p in split_spec.items() if re.fullmatch(key, name)), None)
        if inside_of and not name.startswith(f"{inside_of}."):
            stage, inside_of = stage + 1, ""
        if point is SplitPoint.BEGINNING:
            stage += 1
        elif point is SplitPoint.END:
            inside_of = name
        found[name] = stage
    if stage + 1 != count and not (inside_of and stage + 2 == count):
        raise errors.bad(
            "parallelize(split_spec)", f"{count - 1} cuts, one less than the size of axis 'pp'", split_spec
        )
    return found


def bring(mesh: ProcessMesh) -> Callable:
    """A hook that brings the inputs of a layer to the mesh of its stage."""

    def moved(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(moved, x))
        if not isinstance(x, Tensor) or x._value.device is mesh._devices("parallelize(mesh)"):
            return x
        if not on_mesh.is_there(x):
            return shard_tensor(x, mesh, [])
        placements = x.placements
        return reshard(x, mesh, placements if len(placements) == mesh.ndim else [Replicate()] * mesh.ndim)

    return lambda layer, inputs: tuple(map(moved, inputs))
