"""Seconds that a device computes, and seconds of a step."""

from __future__ import annotations

import dataclasses

from bireme.distributed.planning.choice import Choice
from bireme.distributed.planning.communication import Collective, collectives_of
from bireme.distributed.planning.description import Description, Part
from bireme.distributed.planning.hardware import Hardware
from bireme.distributed.planning.memory import Precision, elements, stages

__all__ = ["Time", "time_of"]

BACKWARD = 2.0  # as much as the forward pass: gradients of inputs and of weights


@dataclasses.dataclass
class Time:
    """Seconds of a step.

    Args:
        compute: The slowest stage computes.
        waiting: It waits for the others, while a pipeline fills and empties.
        exposed: Collectives that nothing hides.
        hidden: Collectives behind computing.
        update: The optimizer.
        total: All but what is hidden.
    """

    compute: float = 0.0
    waiting: float = 0.0
    exposed: float = 0.0
    hidden: float = 0.0
    update: float = 0.0
    total: float = 0.0


def forward(part: Part, model: Description, choice: Choice, hardware: Hardware, precision: Precision) -> float:
    """Seconds of the forward pass of a part for a micro-batch, without collectives."""
    share, tp = choice.micro_batch / model.batch, choice.tp
    seen = 0.5 if hardware.flash_attention else 1.0  # of a causal mask
    flops = part.flops + (part.divided_flops + part.attention_flops * seen) / tp
    rows = choice.micro_batch * model.tokens
    width = (model.sizes[len(model.sizes) // 2] if model.sizes else 1) / tp  # a middle one, beside heads and vocabulary
    reached = hardware.efficiency * rows / (rows + hardware.half_rows) * width / (width + hardware.half_width)
    whole = part.moved / (tp if choice.sp else 1)
    moved = (whole + part.divided_moved / tp) * precision.activation / model.itemsize
    return share * (flops / (hardware.rate(precision.dtype) * reached) + moved / hardware.bandwidth)


def time_of(
    model: Description, choice: Choice, hardware: Hardware, precision: Precision, moves: list[Collective] | None = None
) -> Time:
    """Seconds of a step; the slowest stage sets the pace."""
    moves = collectives_of(model, choice, hardware, precision) if moves is None else moves
    again = [1.0 + BACKWARD + (choice.recompute and bool(p.name)) for p in model.parts]
    cost = {id(p): forward(p, model, choice, hardware, precision) * n for p, n in zip(model.parts, again)}
    split = stages(model, choice.pp)
    pace = max(sum(cost[id(p)] for p in parts) for parts in split)
    found = Time(pace * choice.accumulate)
    inner = sum(c.seconds for c in moves if c.axis in ("tp", "ep", "pp"))
    found.waiting = (pace + inner / choice.accumulate) * (choice.pp - 1)
    outer = sum(c.seconds for c in moves if c.axis == "dp")
    found.hidden = min(outer * hardware.overlap, found.compute * hardware.overlap)
    found.exposed = inner + outer - found.hidden
    own = max(sum(elements(p, choice) for p in parts) for parts in split)
    own /= choice.dp if choice.zero else 1
    found.update = own * (2 * precision.states + precision.gradient + precision.parameter) / hardware.bandwidth
    found.total = found.compute + found.waiting + found.exposed + found.update + hardware.overhead
    return found
