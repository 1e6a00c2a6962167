"""Collectives of a step: which, how many, how many bytes, and how long they take."""

from __future__ import annotations

import dataclasses
import math

from bireme.distributed.planning.choice import Choice
from bireme.distributed.planning.description import Description, Part
from bireme.distributed.planning.hardware import Hardware, Link
from bireme.distributed.planning.memory import Precision, stages

__all__ = ["Collective", "collectives_of"]


@dataclasses.dataclass(frozen=True)
class Collective:
    """Collectives of one kind and purpose in a step, as a device of the busiest stage sees them.

    Args:
        axis: What they belong to: ``"dp"``, ``"tp"``, ``"pp"`` or ``"ep"``.
        kind: ``"all-reduce"``, ``"all-gather"``, ``"reduce-scatter"``, ``"all-to-all"`` or ``"send"``.
        what: What they move.
        count: How many there are.
        payload: Bytes of their results in one device.
        wire: Bytes that a device sends.
        seconds: What they take.
    """

    axis: str
    kind: str
    what: str
    count: float
    payload: float
    wire: float
    seconds: float


def _made(axis: str, kind: str, what: str, count: float, payload: float, size: int, link: Link) -> Collective:
    """An all-reduce passes all but its own share round twice, the others once."""
    share = (size - 1) / size
    turns, sent = (2 * rounds(size), 2 * share) if kind == "all-reduce" else (rounds(size), share)
    if kind == "send":
        turns, sent = 1, 1.0
    wire = payload * sent
    return Collective(axis, kind, what, count, payload, wire, wire / link.bandwidth + count * turns * link.latency)


def rounds(size: int) -> int:
    """Messages in a row, each of which waits for the one before: libraries use trees where latency counts."""
    return math.ceil(math.log2(max(size, 2)))


def collectives_of(model: Description, choice: Choice, hardware: Hardware, precision: Precision) -> list[Collective]:
    """The collectives of a step, in the stage with most of them."""
    found = [
        _of_stage(parts, k, model, choice, hardware, precision) for k, parts in enumerate(stages(model, choice.pp))
    ]
    return max(found, key=lambda some: sum(c.seconds for c in some))


def _of_stage(
    parts: list[Part], k: int, model: Description, choice: Choice, hardware: Hardware, precision: Precision
) -> list[Collective]:
    found: list[Collective] = []
    dp, tp, times = choice.dp, choice.tp, choice.accumulate
    grow = choice.micro_batch / model.batch * precision.activation / model.itemsize
    if tp > 1:
        found += _tensor_parallel(parts, choice, hardware, grow * times, times)
    if dp > 1:
        found += _data_parallel(parts, choice, hardware, precision, times)
    if choice.ep > 1:
        link = hardware.link(choice.ep, tp)
        count, payload = sum(p.dispatched for p in parts), sum(p.dispatched_bytes for p in parts)
        passes = 2 + choice.recompute
        if count:
            found.append(
                _made(
                    "ep",
                    "all-to-all",
                    "tokens",
                    passes * count * times,
                    passes * payload * grow * times,
                    choice.ep,
                    link,
                )
            )
    if choice.pp > 1:
        link = hardware.link(choice.pp, dp * tp)
        borders = [stage[-1].border for stage in stages(model, choice.pp)[:-1]]
        crossing = (borders[k - 1] if k else 0) + (borders[k] if k < len(borders) else 0)
        ways = (1 if k else 0) + (1 if k < len(borders) else 0)
        found.append(_made("pp", "send", "activations", ways * times, crossing * grow * times, 2, link))
    return found


def _tensor_parallel(
    parts: list[Part], choice: Choice, hardware: Hardware, grow: float, times: int
) -> list[Collective]:
    tp, link = choice.tp, hardware.link(choice.tp, 1)
    again = 1 + choice.recompute
    forward, size = sum(p.reduced for p in parts), sum(p.reduced_bytes for p in parts) * grow
    backward = sum(p.backward_reduced for p in parts)
    back = sum(p.backward_added_bytes if hardware.adds_first else p.backward_reduced_bytes for p in parts) * grow
    if not choice.sp:
        return [
            _made("tp", "all-reduce", "activations", forward * again * times, size * again, tp, link),
            _made("tp", "all-reduce", "gradients of activations", backward * times, back, tp, link),
        ]
    if hardware.reduce_scatter:
        both = [(forward * again, size * again, "activations"), (backward, back, "gradients of activations")]
        return [
            _made("tp", kind, what, count * times, nbytes, tp, link)
            for count, nbytes, what in both
            for kind in ("all-gather", "reduce-scatter")
        ]
    # all-reduced and cut; what stands between the products is gathered: in front of them, and for their gradients
    blocks = [p for p in parts if p.name]
    width = max((p.border for p in parts), default=0.0) * grow
    gathered = sum(p.reduced for p in blocks) * 2 + (2 if len(blocks) < len(parts) else 0)
    norms = sum(p.norm_parameters for p in parts) * 4
    return [
        _made("tp", "all-reduce", "activations", forward * again * times, size * again, tp, link),
        _made("tp", "all-reduce", "gradients of activations", backward * times, back, tp, link),
        _made("tp", "all-reduce", "gradients of norms", times, norms * times, tp, link),
        _made("tp", "all-gather", "activations", gathered * times, gathered * width, tp, link),
    ]


def _data_parallel(
    parts: list[Part], choice: Choice, hardware: Hardware, precision: Precision, times: int
) -> list[Collective]:
    dp, tp = choice.dp, choice.tp
    link = hardware.link(dp, tp)
    size = precision.gradient
    total = sum(p.parameters + p.divided_parameters / tp for p in parts)
    experts = sum(p.expert_parameters for p in parts) / choice.ep
    tensors = sum(p.tensors + p.divided_tensors + p.expert_tensors for p in parts)
    found: list[Collective] = []
    # gradients are added up first where several micro-batches make a step
    kind = "reduce-scatter" if hardware.reduce_scatter and choice.zero >= 1 else "all-reduce"
    steps = times if choice.zero >= 2 and hardware.reduce_scatter else 1
    found.append(_made("dp", kind, "gradients", steps, total * size * steps, dp, link))
    found += _experts(kind, experts * size * steps, steps, choice, link)
    if choice.zero in (1, 2):
        count = len(parts) if hardware.combines else tensors
        found.append(_made("dp", "all-gather", "parameters", count, total * precision.parameter, dp, link))
        found += _experts("all-gather", experts * precision.parameter, len(parts), choice, link)
    if choice.zero == 3:
        used = sum(p.used_parameters + p.divided_used_parameters / tp for p in parts) - sum(
            p.expert_parameters for p in parts
        )
        count = 2 * len(parts) if hardware.combines else tensors + sum(p.used_tensors for p in parts)
        passes = times * (total * (1 + choice.recompute) + used)
        found.append(_made("dp", "all-gather", "parameters", count * times, passes * precision.activation, dp, link))
        passes = times * experts * (2 + choice.recompute)
        found += _experts("all-gather", passes * precision.activation, 2 * len(parts) * times, choice, link)
    return found


def _experts(kind: str, payload: float, count: float, choice: Choice, link: Link) -> list[Collective]:
    """What concerns experts is between those devices that have the same ones."""
    if not payload or choice.ep == choice.dp:
        return []
    what = "gradients of experts" if kind != "all-gather" else "parameters of experts"
    return [_made("dp", kind, what, count, payload, choice.dp // choice.ep, link)]
