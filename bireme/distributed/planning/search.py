"""The search: every way to divide a model, what each needs and takes, and why all but one lost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from bireme.core.base import errors
from bireme.distributed.planning.choice import Choice
from bireme.distributed.planning.communication import Collective, collectives_of
from bireme.distributed.planning.compute import Time, time_of
from bireme.distributed.planning.description import Description
from bireme.distributed.planning.hardware import Hardware
from bireme.distributed.planning.memory import Memory, Precision, memory_of

__all__ = ["Candidate", "choices", "priced", "ranked"]


@dataclasses.dataclass
class Candidate:
    """A choice with its price."""

    choice: Choice
    memory: Memory
    time: Time
    collectives: list[Collective]


def divisors(n: int) -> list[int]:
    return sorted({d for i in range(1, math.isqrt(n) + 1) if n % i == 0 for d in (i, n // i)})


def choices(
    model: Description, devices: int, batch: int, hardware: Hardware, fixed: dict[str, Any] | None = None
) -> Iterator[Choice]:
    """All ways to divide a model among devices, without those that sizes rule out."""
    fixed = fixed or {}
    blocks = sum(bool(p.name) for p in model.parts)

    def wanted(name: str, found: list) -> list:
        return [x for x in found if name not in fixed or fixed[name] == x]

    for tp in wanted("tp", [n for n in divisors(devices) if n <= hardware.per_node and _takes(model, n)]):
        for pp in wanted("pp", [n for n in divisors(devices // tp) if n == 1 or _cuts(blocks, n)]):
            dp = devices // tp // pp
            if batch % dp or dp not in wanted("dp", [dp]):
                continue
            sequences = (
                [False, True] if tp > 1 and model.lengths and not any(n % tp for n in model.lengths) else [False]
            )
            experts = [n for n in divisors(dp) if n == 1 or (model.experts and not model.experts % n)]
            for sp in wanted("sp", sequences):
                for ep in wanted("ep", experts):
                    for zero in wanted("zero", [0] if dp == 1 else [0, 1, 2, 3]):
                        for micro in wanted("micro_batch", divisors(batch // dp)):
                            for again in wanted("recompute", [False, True] if blocks else [False]):
                                yield Choice(dp, tp, pp, sp, ep, zero, micro, batch // dp // micro, again)


def _cuts(blocks: int, stages: int) -> bool:
    """Whether every stage gets a block, each but the last as many as the others."""
    return stages <= blocks and -(-blocks // stages) * (stages - 1) < blocks


def _takes(model: Description, tp: int) -> bool:
    return tp == 1 or (bool(model.sizes) and not any(n % tp for n in model.sizes))


def priced(model: Description, choice: Choice, hardware: Hardware, precision: Precision) -> Candidate:
    """What a choice needs and takes."""
    moves = collectives_of(model, choice, hardware, precision)
    return Candidate(
        choice, memory_of(model, choice, hardware, precision), time_of(model, choice, hardware, precision, moves), moves
    )


def ranked(
    model: Description, devices: int, batch: int, hardware: Hardware, precision: Precision,
    fixed: dict[str, Any] | None = None,
) -> tuple[list[Candidate], list[Candidate]]:  # fmt: skip
    """Those that fit, the fastest first, and those that do not, the nearest first."""
    found = [priced(model, c, hardware, precision) for c in choices(model, devices, batch, hardware, fixed)]
    if not found:
        raise errors.bad(
            "plan(devices)",
            f"a number that divides the batch of {batch}, alone or after tensor and pipeline parallelism",
            devices,
        )
    room = hardware.memory * hardware.usable
    fit = [c for c in found if c.memory.total <= room]
    fit.sort(key=lambda c: (c.time.total, c.choice.zero, c.choice.pp, c.memory.total))
    return fit, sorted([c for c in found if c.memory.total > room], key=lambda c: c.memory.total)


def reason(lost: Candidate, best: Candidate, room: float) -> str:
    """Why a choice lost, in its first reason."""
    if lost.memory.total > room:
        largest = max(("parameters", "states", "gradients", "activations"), key=lambda n: getattr(lost.memory, n))
        return f"memory: {lost.memory.total / 1e9:.1f} GB of {room / 1e9:.1f} GB, {largest} most"
    slower = lost.time.total / best.time.total
    parts = {n: getattr(lost.time, n) - getattr(best.time, n) for n in ("compute", "waiting", "exposed", "update")}
    worst = max(parts, key=lambda n: parts[n])
    told = {
        "compute": "computes more slowly or again",
        "waiting": "stages wait for each other",
        "exposed": "collectives that nothing hides",
        "update": "a longer update",
    }[worst]
    return f"{slower:.2f} x the time: {told}, {parts[worst] * 1e3:+.3g} ms"
