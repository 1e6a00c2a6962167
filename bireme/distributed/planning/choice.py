"""One way to train a model on several devices: by how much each kind of parallelism divides what."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed.auto_parallel.intermediate.tensor_parallel import (
    ColWiseParallel,
    PlanBase,
    RowWiseParallel,
    SequenceParallelEnable,
    place_parameter,
)
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh
from bireme.distributed.planning.description import Description
from bireme.nn.layer import Layer

__all__ = ["Choice"]


@dataclasses.dataclass(frozen=True)
class Choice:
    """How a model is divided among devices.

    Args:
        dp: Number of devices, or groups of them, that share a batch.
        tp: Number of devices that share a layer.
        pp: Number of stages that share the model.
        sp: Whether devices that share a layer divide the sequence between its products too.
        ep: Number of devices among those of ``dp`` that share the experts of a layer.
        zero: What is divided among those of ``dp``: 1 states of the optimizer, 2 gradients, 3 parameters; 0 nothing.
        micro_batch: Examples that a group of ``dp`` takes at once.
        accumulate: How many of those make a step.
        recompute: Whether blocks are computed again in the backward pass.

    Examples:
        >>> from bireme.distributed import planning
        >>> planning.Choice(dp=4, tp=2, zero=1)
        dp4 tp2 zero1 micro-batch 1
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    sp: bool = False
    ep: int = 1
    zero: int = 0
    micro_batch: int = 1
    accumulate: int = 1
    recompute: bool = False

    def __post_init__(self) -> None:
        for name in ("dp", "tp", "pp", "ep", "micro_batch", "accumulate"):
            errors.check_integer(f"Choice({name})", getattr(self, name))
            if getattr(self, name) < 1:
                raise errors.bad(f"Choice({name})", "a positive integer", getattr(self, name))
        if self.zero not in (0, 1, 2, 3):
            raise errors.bad("Choice(zero)", "0, 1, 2 or 3", self.zero)
        if self.dp % self.ep:
            raise errors.bad("Choice(ep)", f"a divisor of dp, {self.dp}", self.ep)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.dp * self.tp * self.pp

    @property
    def batch(self) -> int:
        """Examples of a step, of all devices together."""
        return self.dp * self.micro_batch * self.accumulate

    def __repr__(self) -> str:
        found = [f"{name}{n}" for name in ("dp", "tp", "pp", "ep") if (n := getattr(self, name)) > 1]
        found += ["sp"] * self.sp + [f"zero{self.zero}"] * (self.zero > 0)
        found += [f"micro-batch {self.micro_batch}" + (f" x {self.accumulate}" if self.accumulate > 1 else "")]
        return " ".join(found + ["recompute"] * self.recompute)

    def process_mesh(self) -> ProcessMesh:
        """Return the mesh: axes ``pp`` where there are stages, ``dp`` and ``mp``; neighbours share a layer."""
        shape = (self.pp, self.dp, self.tp) if self.pp > 1 else (self.dp, self.tp)
        return ProcessMesh(np.arange(self.devices).reshape(shape), ["pp", "dp", "mp"][-len(shape) :])

    def parallelize_config(self, model: Description) -> dict[str, Any]:
        """Return what ``parallelize`` takes as ``config``.

        Args:
            model: The description of the model, which knows the names of layers.

        Returns:
            The config.

        Raises:
            NotImplementedError: If experts are divided among a part of the devices that share a batch.
        """
        plans: dict[str, PlanBase] = {}
        if self.tp > 1:
            kinds = {"column": ColWiseParallel, "row": RowWiseParallel}
            plans |= {name: kinds[role]() for name, role in model.roles.items() if role in kinds}
            if self.sp:
                plans |= {name: SequenceParallelEnable() for name, role in model.roles.items() if role == "norm"}
        if self.ep > 1:
            if self.ep != self.dp:
                raise errors.bad("parallelize(config)", f"ep equal to dp, {self.dp}", self.ep, kind=NotImplementedError)
            plans |= {name: _Experts() for name, role in model.roles.items() if role == "experts"}
        found: dict[str, Any] = {"dp_config": {"sharding_level": self.zero}}
        if plans:
            found["mp_config"] = {"parallelize_plan": plans}
        if self.pp > 1:
            found["pp_config"] = {"split_spec": model.blocks}
        return found


class _Experts(PlanBase):
    """Plan for a layer whose parameters have one entry for each expert: they are divided by experts."""

    def apply(self, layer: Layer, process_mesh: ProcessMesh, shard_param_list: Sequence[str] | None) -> None:
        for name, p in layer.named_parameters(include_sublayers=False):
            if p.ndim == 3:
                place_parameter(layer, name, process_mesh, 0, "dp")
