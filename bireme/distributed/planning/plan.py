"""plan: the best way to train a model on many devices that the search finds, and Plan, which `parallelize` takes."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.distributed.auto_parallel.intermediate.chosen import Chosen
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh
from bireme.distributed.auto_parallel.strategy import Strategy
from bireme.distributed.planning import report, search
from bireme.distributed.planning.choice import Choice
from bireme.distributed.planning.communication import Collective
from bireme.distributed.planning.compute import Time
from bireme.distributed.planning.description import Description
from bireme.distributed.planning.hardware import Hardware
from bireme.distributed.planning.memory import Memory, Precision
from bireme.distributed.planning.recording import Loss, describe
from bireme.distributed.planning.rehearsal import rehearse
from bireme.nn.layer import Layer

__all__ = ["Plan", "plan"]

FORMAT = 1
SHOWN = 12  # choices that lost, each the best of its degrees


@dataclasses.dataclass
class Plan(Chosen):
    """A way to train a model on several devices, with what it is predicted to need and take.

    ``parallelize`` and ``to_distributed`` take it as ``config``. Printing it shows all.

    Args:
        choice: How the model is divided.
        model: What the model consists of.
        hardware: The devices. Default: None.
        precision: Bytes of elements. Default: None.
        memory: Predicted bytes of a device. Default: None.
        time: Predicted seconds of a step. Default: None.
        collectives: Predicted collectives of a step. Default: none.
        others: What lost: choice, bytes, seconds and the first reason. Default: none.
        considered: How many choices were looked at. Default: 0.
        compiled: What compiling it has shown, as a dict of ``Rehearsed``. Default: None.

    Examples:
        >>> from bireme.distributed import planning
        >>> model = bireme.nn.Sequential(bireme.nn.Linear(4, 8), bireme.nn.Linear(8, 2))
        >>> found = planning.Plan(planning.Choice(dp=2, tp=2), planning.describe(model, bireme.ones([4, 4])))
        >>> found.process_mesh().shape, list(found.parallelize_config())
        ([2, 2], ['dp_config', 'mp_config'])
    """

    choice: Choice
    model: Description
    hardware: Hardware | None = None
    precision: Precision | None = None
    memory: Memory | None = None
    time: Time | None = None
    collectives: list[Collective] = dataclasses.field(default_factory=list)
    others: list[tuple[str, float, float, str]] = dataclasses.field(default_factory=list)
    considered: int = 0
    compiled: dict[str, Any] | None = None

    def process_mesh(self) -> ProcessMesh:
        """Return the mesh, with axes ``pp``, ``dp`` and ``mp``."""
        return self.choice.process_mesh()

    def parallelize_config(self) -> dict[str, Any]:
        """Return what ``parallelize`` takes as ``config``."""
        return self.choice.parallelize_config(self.model)

    def recomputed_layers(self) -> list[str]:
        """Return the names of layers whose results are computed again in the backward pass."""
        return [p.name for p in self.model.parts if p.name] if self.choice.recompute else []

    def strategy(self) -> Strategy:
        """Return settings for ``to_static`` that divide a batch into the micro-batches of the plan.

        Returns:
            The settings.
        """
        parts = {"enable": self.choice.accumulate > 1, "accumulate_steps": self.choice.accumulate}
        return Strategy({"pipeline": {**parts, "micro_batch_size": self.choice.micro_batch}})

    def __str__(self) -> str:
        return report.text(self)

    def to_svg(self) -> str:
        """Return a picture: the mesh with its stages, and bars of memory and time. It needs nothing from elsewhere."""
        return report.svg(self)

    def to_html(self, path: str | os.PathLike) -> None:
        """Write a page with the picture and all tables.

        Args:
            path: The file.
        """
        Path(path).write_text(report.html(self), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"format": FORMAT, "kind": "bireme plan", **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, data: Any) -> Plan:
        """Return the plan that plain data describe.

        Args:
            data: What ``to_dict`` returned.

        Returns:
            The plan.

        Raises:
            ValueError: If the data are none of a plan.
        """
        if not isinstance(data, dict) or data.get("kind") != "bireme plan" or data.get("format") != FORMAT:
            raise errors.bad("Plan.load()", f"a plan of format {FORMAT}", type(data).__name__)
        own = {k: v for k, v in data.items() if k not in ("format", "kind")}
        kinds: dict[str, Any] = {"choice": Choice, "precision": Precision, "memory": Memory, "time": Time}
        try:
            for name, kind in kinds.items():
                own[name] = None if own[name] is None else kind(**own[name])
            own["model"] = Description.from_dict(own["model"])
            if own["hardware"] is not None:
                own["hardware"] = Hardware.from_dict({"format": 1, **own["hardware"]})
            own["collectives"] = [Collective(**c) for c in own["collectives"]]
            own["others"] = [(str(a), float(b), float(c), str(d)) for a, b, c, d in own["others"]]
            return cls(**own)
        except (KeyError, TypeError) as e:
            raise errors.bad("Plan.load()", "the values of a plan", described=str(e)) from e

    def save(self, path: str | os.PathLike) -> None:
        """Write the plan as JSON.

        Args:
            path: The file.
        """
        Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike) -> Plan:
        """Read a plan that ``save`` has written; nothing in the file is run.

        Args:
            path: The file.

        Returns:
            The plan.

        Raises:
            ValueError: If it is no plan.
        """
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except json.JSONDecodeError as e:
            raise errors.bad("Plan.load(path)", "a JSON file", described=str(e)) from e


def plan(
    model: Layer | Description,
    sample: Any = None,
    devices: int = 8,
    *,
    hardware: Any = "H100",
    batch: int | None = None,
    loss: Loss | None = None,
    optimizer: Any = None,
    dtype: Any = None,
    fixed: dict[str, Any] | None = None,
    compiled: int = 0,
) -> Plan:
    """Search how to train a model on many devices, and return the fastest way that fits.

    Data, tensor, pipeline, sequence and expert parallelism, the stages of ZeRO, micro-batches and recomputation are tried
    in all combinations that the sizes allow. Nothing runs and no memory is taken for the model: one step is recorded
    without numbers, and what each way needs and takes follows from it and from the description of the hardware.

    Args:
        model: The model, which may have been made in ``LazyGuard``, or what ``planning.describe`` returned.
        sample: A batch, or the shapes of one: tensors, arrays or ``InputSpec``, the last for the loss if there is one.
        devices: Number of devices. Default: 8.
        hardware: Name of a description (``"A100"``, ``"H100"``, ``"H200"``), path of a JSON file, or a
            ``planning.Hardware``. Default: ``"H100"``.
        batch: Examples of a step, of all devices together. Default: None, those of the sample.
        loss: Function of outputs and the last input of the sample. Default: None, the mean of the outputs.
        optimizer: The optimizer, whose states count. Default: None, two states for each parameter as Adam's.
        dtype: Data type of products. Default: None, bfloat16 where the hardware has a rate for it, else float32.
        fixed: Degrees that are not to be searched, as ``{"pp": 1, "zero": 0}``. Default: None.
        compiled: How many of the best are compiled for virtual devices before one is chosen; those that turn out not to
            fit, or to need more than predicted of what fits, are left out. Default: 0.

    Returns:
        The plan.

    Raises:
        ValueError: If nothing fits; the message names the nearest miss.

    Examples:
        >>> model = bireme.nn.Sequential(bireme.nn.Linear(64, 256), bireme.nn.ReLU(), bireme.nn.Linear(256, 8))
        >>> found = bireme.distributed.plan(model, bireme.ones([512, 64]), devices=4)
        >>> found.choice.devices, found.choice.batch, found.memory.total < 80e9
        (4, 512, True)
    """
    errors.check_integer("plan(devices)", devices)
    if devices < 1:
        raise errors.bad("plan(devices)", "a positive integer", devices)
    described = model if isinstance(model, Description) else describe(_layer(model), sample, loss)
    hardware = hardware if isinstance(hardware, Hardware) else Hardware.load(hardware)
    states = 2 if optimizer is None else len(getattr(optimizer, "_accumulator_names", ()))
    kind = dtypes.of(dtype, "plan(dtype)").name if dtype is not None else ""
    precision = Precision.of(kind or ("bfloat16" if "bfloat16" in hardware.flops else "float32"), states)
    hardware.rate(precision.dtype)
    total = described.batch if batch is None else batch
    fit, misses = search.ranked(described, devices, total, hardware, precision, fixed)
    if not fit:
        nearest = misses[0]
        raise errors.bad(
            "plan(devices)",
            f"devices whose memory of {hardware.memory * hardware.usable / 1e9:.1f} GB holds the model",
            described=f"{devices} x {hardware.name}, where the nearest miss, {nearest.choice!r}, needs "
            f"{nearest.memory.total / 1e9:.1f} GB",
        )
    chosen, shown = fit[0], None
    if compiled and isinstance(model, Layer):
        chosen, shown = _rehearsed(fit[:compiled], described, model, sample, loss, optimizer, hardware)
    return Plan(
        chosen.choice, described, hardware, precision, chosen.memory, chosen.time, chosen.collectives,
        _lost(chosen, [*fit, *misses], hardware), len(fit) + len(misses), shown,
    )  # fmt: skip


def _layer(model: Any) -> Layer:
    if not isinstance(model, Layer):
        raise errors.bad("plan(model)", "a Layer or a Description", model, kind=errors.ArgumentTypeError)
    return model


def _rehearsed(
    few: list[search.Candidate], described: Description, model: Layer, sample: Any, loss: Any, optimizer: Any,
    hardware: Hardware,
) -> tuple[search.Candidate, dict[str, Any] | None]:  # fmt: skip
    """The first whose compiled program fits."""
    for candidate in few:
        choice = candidate.choice
        size = choice.micro_batch * choice.dp  # each micro-batch is a pass of its own
        found = rehearse(Plan(choice, described), model, sample, loss, optimizer, size)
        if found.memory <= hardware.memory * hardware.usable:
            return candidate, dataclasses.asdict(found)
    return few[0], None


def _lost(chosen: search.Candidate, all_of: list[search.Candidate], hardware: Hardware) -> list[tuple]:
    """The best of each other combination of degrees, and why it lost."""
    room = hardware.memory * hardware.usable
    best: dict[tuple, search.Candidate] = {}
    for c in all_of:  # the fitting ones first, in their order
        key = (c.choice.dp, c.choice.tp, c.choice.pp, c.choice.zero)
        if key not in best and c is not chosen:
            best[key] = c
    return [
        (repr(c.choice), c.memory.total, c.time.total, search.reason(c, chosen, room))
        for c in list(best.values())[:SHOWN]
    ]
