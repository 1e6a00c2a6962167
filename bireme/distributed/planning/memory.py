"""Bytes that a device needs for a choice, part by part."""

from __future__ import annotations

import dataclasses
import itertools
import operator

from bireme.distributed.planning.choice import Choice
from bireme.distributed.planning.description import Description, Part
from bireme.distributed.planning.hardware import Hardware

__all__ = ["Memory", "Precision", "memory_of"]


@dataclasses.dataclass(frozen=True)
class Precision:
    """Bytes of an element: of parameters and gradients, of an optimizer's states, of activations, and what computes."""

    dtype: str = "float32"
    parameter: int = 4
    gradient: int = 4
    states: int = 8
    activation: int = 4

    @classmethod
    def of(cls, dtype: str, states: int = 2) -> Precision:
        """That of training in a data type: in others than float32 the states have a float32 copy of the parameters."""
        if dtype == "float32":
            return cls(states=4 * states)
        return cls(dtype, 2, 2, 4 * states + 4, 2)


@dataclasses.dataclass
class Memory:
    """Bytes of a device, in the stage that needs most.

    Args:
        parameters: Of parameters.
        states: Of states of the optimizer.
        gradients: Of gradients that are there at once, with copies that collectives need.
        activations: Of what the backward pass reads.
        working: Of the largest call, and of parameters that are gathered for it.
        total: What is needed at once: gradients grow while activations are given up.
    """

    parameters: float = 0.0
    states: float = 0.0
    gradients: float = 0.0
    activations: float = 0.0
    working: float = 0.0
    total: float = 0.0


def stages(model: Description, count: int) -> list[list[Part]]:
    """The parts of each stage of a pipeline: blocks evenly, what stands before and after them at the ends."""
    if count == 1 or len(model.parts) < 3:
        return [model.parts]
    first, *blocks, last = model.parts
    size = -(-len(blocks) // count)  # as `parallelize` does
    found = [blocks[i * size : (i + 1) * size] for i in range(count)]
    found[0], found[-1] = [first, *found[0]], [*found[-1], last]
    return found


def elements(part: Part, choice: Choice) -> float:
    """Parameters of a part that a device has, before those of `dp` divide them."""
    return part.parameters + part.divided_parameters / choice.tp + part.expert_parameters / choice.ep


def _shared(parts: list[Part], choice: Choice, stage: int) -> float:
    """Elements that a device has of what this stage of ZeRO divides: experts among those that have the same ones."""
    if choice.zero < stage:
        return sum(elements(p, choice) for p in parts)
    plain = sum(p.parameters + p.divided_parameters / choice.tp for p in parts)
    return plain / choice.dp + sum(p.expert_parameters for p in parts) / choice.dp


def activations(part: Part, model: Description, choice: Choice, hardware: Hardware, precision: Precision) -> float:
    """Bytes that a part keeps of one micro-batch for the backward pass."""
    whole, divided = part.saved, part.divided_saved
    if hardware.keeps:
        # in stage 3 layers are recomputed to gather their parameters again, and keep nothing of their own
        regions = part.regions if choice.zero == 3 and choice.dp > 1 else 0.0
        whole, divided = whole + max(part.kept - regions, 0.0), divided + part.divided_kept
    if not hardware.flash_attention:
        divided += part.scores
    if choice.sp and choice.tp > 1:
        normed = min(part.normed if hardware.keeps else part.saved, whole)
        whole -= normed * (1 - 1 / choice.tp)
    scale = choice.micro_batch / model.batch * precision.activation / model.itemsize
    return (whole + divided / choice.tp) * scale


def memory_of(model: Description, choice: Choice, hardware: Hardware, precision: Precision) -> Memory:
    """What a device needs, in the stage that needs most."""
    found = [_stage(parts, k, model, choice, hardware, precision) for k, parts in enumerate(stages(model, choice.pp))]
    return max(found, key=lambda m: m.total)


def _stage(
    parts: list[Part], k: int, model: Description, choice: Choice, hardware: Hardware, precision: Precision
) -> Memory:
    dp = choice.dp
    scale = choice.micro_batch / model.batch * precision.activation / model.itemsize
    found = Memory(_shared(parts, choice, 3) * precision.parameter, _shared(parts, choice, 1) * precision.states)
    held = [activations(p, model, choice, hardware, precision) for p in parts]
    inside = [held[i] if p.name and choice.recompute else 0.0 for i, p in enumerate(parts)]
    if choice.recompute:
        held = [p.border * scale if p.name else held[i] for i, p in enumerate(parts)]
    flying = min(choice.pp - k, choice.accumulate)  # micro-batches that wait for their backward pass
    found.activations = sum(held) * flying + max(inside, default=0.0)
    largest = max(elements(p, choice) for p in parts)
    found.working = max(p.working for p in parts) * scale / choice.tp
    if choice.zero == 3 and dp > 1:
        found.working += largest * precision.activation
    # gradients grow while the activations of parts are given up, from the last part to the first
    grown = [elements(p, choice) * precision.gradient for p in parts]
    stored = choice.accumulate > 1 or choice.pp > 1  # between micro-batches
    if stored:
        found.gradients = _shared(parts, choice, 2) * precision.gradient
        peak = found.activations + found.gradients + max(grown, default=0.0)
    else:
        left = reversed(list(itertools.accumulate(reversed(grown))))
        peak = max(map(operator.add, itertools.accumulate(held), left)) + max(inside, default=0.0)
        peak = max(peak, found.activations)
        together = sum(grown) * (1 if hardware.in_place or dp == 1 else 2)
        if hardware.reduce_scatter and choice.zero >= 2:
            together = _shared(parts, choice, 2) * precision.gradient + max(grown, default=0.0)
            peak = found.activations + together
        found.gradients, peak = together, max(peak, together)
    if hardware.in_place:
        peak += found.working
    found.total = found.parameters + found.states + peak
    return found
