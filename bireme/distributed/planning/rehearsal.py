"""A choice compiled for virtual devices: memory, collectives and bytes of the real program, without running it."""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections import Counter
from typing import Any

from bireme.core.base import device as devices
from bireme.core.graph.graph import Unmade, sig_of
from bireme.core.record import flush
from bireme.core.run.mesh_run import Rehearsal
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.distributed.auto_parallel.intermediate.chosen import Chosen
from bireme.distributed.auto_parallel.intermediate.parallelize import parallelize
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, on_virtual_devices
from bireme.distributed.auto_parallel.tensors import shard_tensor
from bireme.distributed.planning.recording import Loss, abstract, run, shapes_of
from bireme.nn.layer import Layer
from bireme.optimizer import AdamW

__all__ = ["Rehearsed", "rehearse"]

_CALL = re.compile(
    r" = (\([^=]*?\)|\S+) (all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all)(-start)?\((.*)"
)
_COMMENT = re.compile(r"/\*[^*]*\*/")
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")
_GROUPS = re.compile(r"replica_groups=(\{\{[\d,]*\}|\[\d+,\d+\]|mesh\[[^\]]*\] \{[^}]*\})")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) .*\{$")
_LOOP = re.compile(r" while\(.*body=%?([\w.-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_TINY = 64  # bytes: a loss, or a number that orders calls


@dataclasses.dataclass
class Rehearsed:
    """What compiling a step for virtual devices has shown.

    Args:
        memory: Bytes that a device needs: arguments, temporary values, and results that are not written over arguments.
        arguments: Bytes of the arguments among them: parameters, states and the batch.
        collectives: Collectives of a step by kind, those of a few numbers apart as ``"small"``, and what goes from one
            stage to another as ``"send"``, in all stages together.
        payload: Bytes of their results in one device, by kind.
        seconds: What compiling took.
        programs: Number of programs of a step.
    """

    memory: int
    arguments: int
    collectives: dict[str, int]
    payload: dict[str, int]
    seconds: float
    programs: int


def rehearse(
    chosen: Chosen, model: Layer, sample: Any, loss: Loss | None = None, optimizer: Any = None, batch: int | None = None
) -> Rehearsed:
    """Compile a step of a model for virtual devices as a plan divides it. Nothing is allocated for it, and nothing runs.

    Args:
        chosen: The plan.
        model: The model; it stays as it is.
        sample: A batch, or shapes of one, as ``plan`` takes it.
        loss: Function of outputs and the last input. Default: None, the mean of the outputs.
        optimizer: Its optimizer. Default: None, ``AdamW``.
        batch: Examples that the step takes. Default: None, those of the sample.

    Returns:
        What the compiler says.

    Examples:
        >>> from bireme.distributed import planning
        >>> model = bireme.nn.Linear(8, 8)
        >>> chosen = planning.Plan(planning.Choice(dp=2), planning.describe(model, bireme.ones([4, 8])))
        >>> planning.rehearse(chosen, model, bireme.ones([4, 8])).memory < 4096
        True
    """
    start = time.perf_counter()
    own, steps = abstract(model, optimizer)
    if steps is None:
        steps = AdamW(1e-3, parameters=own.parameters())
    mesh = chosen.process_mesh()
    with on_virtual_devices(mesh.size):
        parallelize(own, steps, mesh, chosen)
        flush.flush()
        Rehearsal.programs.clear()
        Rehearsal.moved.clear()
        shapes = [((batch or shape[0], *shape[1:]), dtype) for shape, dtype in shapes_of(sample)]
        inputs = [_input(*x, _stage(mesh, loss is not None and i == len(shapes) - 1)) for i, x in enumerate(shapes)]
        total = run(own, inputs, loss)
        total.backward()
        steps.step()
        steps.clear_grad()
        flush.flush()
        programs, moved = [p.source for p in Rehearsal.programs], list(Rehearsal.moved)
        Rehearsal.programs.clear()
    sizes = [p.memory_analysis() for p in programs]
    counts, payload = Counter[str](), Counter[str]()
    for program in programs:
        for kind, nbytes in collectives(program.as_text()):
            counts[kind if nbytes > _TINY else "small"] += 1
            payload[kind if nbytes > _TINY else "small"] += nbytes
    if moved:  # between stages
        counts["send"], payload["send"] = len(moved), sum(moved)
    most = max(sizes, key=_total)
    return Rehearsed(
        _total(most),
        most.argument_size_in_bytes,
        dict(counts),
        dict(payload),
        time.perf_counter() - start,
        len(programs),
    )


def _total(m: Any) -> int:
    return m.argument_size_in_bytes + m.temp_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes


def _input(shape: tuple[int, ...], dtype: Any, mesh: ProcessMesh) -> Tensor:
    places: list[Placement] = [Shard(0) if name == "dp" else Replicate() for name in mesh.dim_names]
    return shard_tensor(wrap(Unmade(sig_of(shape, dtype), None, devices.current())), mesh, places)


def _stage(mesh: ProcessMesh, last: bool) -> ProcessMesh:
    """Where inputs are, or labels: in the first stage, or in the last."""
    return mesh.get_mesh_with_dim("pp", mesh.get_dim_size("pp") - 1 if last else 0) if "pp" in mesh.dim_names else mesh


def collectives(text: str) -> list[tuple[str, int]]:
    """The collectives of a compiled program: their kind and the bytes of their result. One in a loop counts as often
    as the loop is known to turn.
    """
    found: list[tuple[str, str, int]] = []
    loops: dict[str, tuple[str, int]] = {}  # by their bodies: where they stand, and how often they turn
    inside = ""
    for line in _COMMENT.sub("", text).splitlines():
        if (head := _COMPUTATION.match(line)) is not None:
            inside = head[1]
        if (loop := _LOOP.search(line)) is not None:
            trips = _TRIPS.search(line)
            loops[loop[1]] = inside, int(trips[1]) if trips is not None else 1
        m = _CALL.search(line)
        if m is not None and not _alone(line):
            arrays = _ARRAY.findall(m[1])
            nbytes = sum(math.prod(map(int, filter(None, dims.split(",")))) * _width(kind) for kind, dims in arrays)
            found.append((inside, m[2], nbytes))

    def times(where: str) -> int:
        outside, trips = loops.get(where, ("", 1))
        return trips * times(outside) if where in loops else 1

    return [(kind, nbytes) for where, kind, nbytes in found for _ in range(times(where))]


def _alone(line: str) -> bool:
    """Whether the groups of a collective have one member each, so that it moves nothing."""
    groups = _GROUPS.search(line)
    return groups is not None and bool(re.fullmatch(r"\{\{\d*\}|\[\d+,1\]", groups[1]))


def _width(kind: str) -> int:
    return 1 if kind == "pred" else max(1, int(re.sub(r"\D", "", kind) or 8) // 8)
