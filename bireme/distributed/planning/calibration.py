"""This machine as a Hardware: measured in about a second, in all processes at once where there are several."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bireme.core.base import device
from bireme.distributed import world
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh
from bireme.distributed.auto_parallel.tensors import shard_tensor
from bireme.distributed.planning.communication import rounds
from bireme.distributed.planning.hardware import Hardware, Link
from bireme.nn import functional as F
from bireme.ops import ones

__all__ = ["this_machine"]

CHAIN = 8  # calls of one kind in a program
WARM, RUNS = 2, 5


def this_machine(devices: int | None = None) -> Hardware:
    """Measure what this machine computes, moves and says, and return it as a description.

    All processes of a job call it together, and each gets what it has while the others compute too.

    Args:
        devices: How many devices of this process to use. Default: None, all, or all processes where there are several.

    Returns:
        The description. Its compiler is XLA's for CPU.

    Examples:
        >>> found = bireme.distributed.planning.this_machine(1)
        >>> found.flops["float32"] > 1e6, found.reduce_scatter
        (True, False)
    """
    count = world.size() if world.size() > 1 else devices or len(device.all_of(device.current().kind))
    mesh = ProcessMesh(list(range(count)), ["x"])
    size, rows, small, large = 256, 512, 16, 1024
    square, wide = _on(mesh, [size, size]), _on(mesh, [rows, size])
    tiny = _on(mesh, [1, 16])
    overhead = _timed(lambda: tiny + 1)
    products = _timed(lambda: _times(lambda y: y @ square, wide)) - overhead
    moved = _timed(lambda: _times(lambda y: F.gelu(y), wide)) - overhead
    flops = 2.0 * rows * size * size * CHAIN / max(products, 1e-6)
    # an elementwise call is counted by what it reads and writes
    bandwidth = 2.0 * 4 * rows * size * CHAIN / max(moved, 1e-6)
    link = Link(1e12, 1e-9)
    if count > 1:
        column, row = _on(mesh, [size, count], Shard(1)), _on(mesh, [count, size], Shard(0))

        def reduced(rows: int) -> float:
            x = _on(mesh, [rows, size])
            return max(_timed(lambda: _times(lambda y: (y @ column) @ row, x)) - overhead, 1e-6) / CHAIN

        least, most = reduced(small), reduced(large)
        per_byte = max(most - least, 1e-9) / (4.0 * size * (large - small))
        link = Link(2 * (count - 1) / count / per_byte, least / (2 * rounds(count)))
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / count
    return Hardware(
        "this machine", {"float32": flops}, memory, bandwidth, link, link, per_node=max(count, 8), efficiency=1.0,
        overlap=0.0, reduce_scatter=False, adds_first=False, combines=False, flash_attention=False, in_place=False, keeps=True, overhead=overhead,
    )  # fmt: skip


def _on(mesh: ProcessMesh, shape: list[int], *placements: Placement) -> Any:
    return shard_tensor(ones(shape) / shape[0], mesh, list(placements) or [Replicate()])


def _times(step: Callable, y: Any) -> Any:
    for _ in range(CHAIN):
        y = step(y)
    return y


def _timed(make: Callable[[], Any]) -> float:
    """Seconds of a program, whose result is read: the median of several runs after those that compile."""
    found = []
    for turn in range(WARM + RUNS):
        start = time.perf_counter()
        make().sum().item()
        if turn >= WARM:
            found.append(time.perf_counter() - start)
    return median(found)
