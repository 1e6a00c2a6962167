"""Schedules of pipelines: in which order a process runs the micro-batches of its parts forward and backward.

A schedule is found by letting all processes work in equal ticks: each takes, of the steps whose inputs are there, the one
that its rule prefers. So every schedule is consistent by construction, and every process computes all of it alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

FORWARD, BACKWARD = "forward", "backward"
Step = tuple[str, int, int]  # kind, part of the model, micro-batch


def round_robin(stages: int, chunks: int) -> list[int]:
    """The process of each part: one after the other, and again from the first."""
    return [part % stages for part in range(stages * chunks)]


def there_and_back(stages: int) -> list[int]:
    """The process of each part: to the last one, which has two parts in a row, and back."""
    return [*range(stages), *reversed(range(stages))]


def _one_by_one(stages: int, chunks: int, stage: int) -> int:
    """How many micro-batches a process has forward and not yet backward at most, over all of its parts."""
    if chunks == 1:
        return stages - stage
    return (stages - stage - 1) * 2 + (chunks - 1) * stages + 1


def _v_shaped(stages: int, chunks: int, stage: int) -> int:
    return 2 * stages


def _unbounded(stages: int, chunks: int, stage: int) -> int:
    return 1 << 60


BOUNDS: dict[str, Callable[[int, int, int], int]] = {
    "1F1B": _one_by_one,
    "FThenB": _unbounded,
    "DualPipeV": _v_shaped,
}


@functools.cache
def schedule(kind: str, stages: int, chunks: int, micro_batches: int) -> tuple[tuple[Step, ...], ...]:
    """The steps of every process in their order."""
    return _worked(kind, stages, chunks, micro_batches)[0]


def ticks(kind: str, stages: int, chunks: int, micro_batches: int) -> int:
    """How many ticks a schedule takes when all steps take equally long."""
    return _worked(kind, stages, chunks, micro_batches)[1]


def _worked(kind: str, stages: int, chunks: int, count: int) -> tuple[tuple[tuple[Step, ...], ...], int]:
    places = there_and_back(stages) if kind == "DualPipeV" else round_robin(stages, chunks)
    limits = [BOUNDS[kind](stages, chunks, stage) for stage in range(stages)]
    parts, tick = len(places), 0
    done: set[Step] = set()
    left = [_orders(places, stage, count, stages) for stage in range(stages)]
    found: list[list[Step]] = [[] for _ in range(stages)]
    under_way = [0] * stages
    while any(forward or backward for forward, backward in left):
        chosen = []
        for stage, (forward, backward) in enumerate(left):
            ready = [step for step in backward if _is_ready(step, parts, done)]
            if forward and under_way[stage] < limits[stage] and _is_ready(forward[0], parts, done):
                chosen.append((stage, forward[0]))
            elif ready and (kind != "FThenB" or not forward):
                chosen.append((stage, ready[0]))
        if not chosen:  # a bound keeps a process from what all others wait for: then it is exceeded
            chosen = [(i, f[0]) for i, (f, _) in enumerate(left) if f and _is_ready(f[0], parts, done)]
        assert chosen, "some step is always possible"
        for stage, step in chosen:
            left[stage][step[0] == BACKWARD].remove(step)
            under_way[stage] += 1 if step[0] == FORWARD else -1
            found[stage].append(step)
        done.update(step for _, step in chosen)
        tick += 1
    return tuple(map(tuple, found)), tick


def _orders(places: Sequence[int], stage: int, count: int, group: int) -> tuple[list[Step], list[Step]]:
    """The forward and backward steps of a process: `group` micro-batches of a part, then those of its next part."""
    own = [part for part, place in enumerate(places) if place == stage]

    def steps(kind: str, parts: list[int]) -> list[Step]:
        return [
            (kind, part, micro)
            for start in range(0, count, group)
            for part in parts
            for micro in range(start, min(start + group, count))
        ]

    return steps(FORWARD, own), steps(BACKWARD, own[::-1])


def _is_ready(step: Step, parts: int, done: set[Step]) -> bool:
    """Whether what a step needs is done."""
    kind, part, micro = step
    if kind == FORWARD:
        needs = [] if part == 0 else [(FORWARD, part - 1, micro)]
    else:
        needs = [(FORWARD, part, micro)] + ([] if part == parts - 1 else [(BACKWARD, part + 1, micro)])
    return all(need in done for need in needs)
