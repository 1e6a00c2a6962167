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
# bytes that converting an element of a product's factors and results moves in a step: it is read for the largest and to be
# converted, two bytes each, and written in the two orders that products want, its own and the transposed one
CONVERTED = {"float8": 2 * 2 + 2 + 2 * 1 + 1}


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
    """Seconds of the forward pass of a part for a micro-batch, without collectives.

    Products in less than 16 bits are those of blocks with weights, as such recipes have it: attention and what stands
    before and after the blocks stay as they were. Their factors are converted, which is priced as traffic.
    """
    share, tp = choice.micro_batch / model.batch, choice.tp
    seen = 0.5 if hardware.flash_attention else 1.0  # of a causal mask
    products, attention = part.flops + part.divided_flops / tp, part.attention_flops * seen / tp
    whole = part.moved / (tp if choice.sp else 1)
    moved = (whole + part.divided_moved / tp) * precision.activation / model.itemsize
    usual = precision.dtype if precision.dtype not in CONVERTED else "bfloat16"
    dtype = precision.dtype if part.name else usual
    if dtype in CONVERTED:
        moved += CONVERTED[dtype] * (part.factors + part.divided_factors / tp) / model.itemsize / (1 + BACKWARD)
    seconds = products / _rate(dtype, model, choice, hardware) + attention / _rate(usual, model, choice, hardware)
    return share * (seconds + moved / hardware.bandwidth)


def _rate(dtype: str, model: Description, choice: Choice, hardware: Hardware) -> float:
    """Operations a second that products of these sizes reach. A faster unit needs larger ones to be as busy."""
    rate, usual = hardware.rate(dtype), hardware.flops.get("bfloat16", hardware.rate(dtype))
    faster = max(rate / usual, 1.0)
    rows = choice.micro_batch * model.tokens
    width = (model.sizes[len(model.sizes) // 2] if model.sizes else 1) / choice.tp  # a middle one, beside heads
    busy = rows / (rows + hardware.half_rows * faster) * width / (width + hardware.half_width * faster)
    return rate * hardware.efficiency * busy


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
