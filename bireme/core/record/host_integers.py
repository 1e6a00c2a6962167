"""Sizes at hand: a few integers that follow from others on the host are read without running what is pending.

`F.interpolate(y, paddle.shape(y)[2:])` reads two integers in the middle of a forward pass. They do not depend on
anything that was computed, so the step goes on as one program instead of being cut in two. On the CPU that holds for
larger arrays too: `nonzero(choice == 3)` in a loop over experts reads what the comparison gives, and nothing of what was
recorded for the experts before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.graph.graph import Value
from bireme.core.graph.segment import GONE, local
from bireme.core.numpy_exec import planning

MAX_CALLS = 32  # calls that are looked at
MAX_BYTES = 1024  # of everything on the way to it
MAX_BYTES_ON_CPU = 1 << 18  # the same where the host would compute it anyway: less work than a cut


def peek(v: Value) -> np.ndarray | None:
    """The array of a pending value, if integers alone lead to it from small arrays on the host; they have one answer in
    every tier.
    """
    seg = v.segment
    if v.sig.dtype.kind not in "ib" or seg is None or seg is not local.segment:
        return None
    if seg.symbolic or local.trace is not None:
        return None
    found = _computed(v, seg)
    if found is None or any(_computed(g.flag, seg) for g in seg.guards):
        return None  # the run says what is wrong, with the line that it comes from
    v.array, v.segment = found, None  # from now on it is a value like any other on the host
    seg.values[v.index] = GONE
    return found


def _computed(v: Value, seg: Any) -> np.ndarray | None:
    nodes = _way_to(v, seg)
    if nodes is None:
        return None
    made: dict[int, Any] = {}
    try:
        with np.errstate(all="ignore"):
            for node in nodes:
                args = [
                    (made[r] if r >= 0 else seg.arrays[~r])
                    if r.__class__ is int
                    else np.asarray(seg.numbers[r.place], r.dtype.np)
                    for r in node.args
                ]
                out = planning.plan(node.bound, node.sigs)(*args)
                made.update(enumerate(out if node.bound.many else (out,), node.first))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None  # as above
    return np.array(made[v.index], v.sig.dtype.np)


def _way_to(v: Value, seg: Any) -> list | None:
    """The calls that lead to a value, in their order; None if they are too many, too large, or not of integers on the
    host.
    """
    wanted, found, node = {v.index}, [], seg.state
    most = MAX_BYTES_ON_CPU if seg.device.is_cpu else MAX_BYTES
    for _ in range(MAX_CALLS):
        if node.bound is None:
            return None
        own = range(node.first, node.end)
        if not wanted.isdisjoint(own):
            if any(s.dtype.kind not in "ib" or s.nbytes > most for s in node.outs):
                return None
            if node.bound.device_only and not seg.device.is_cpu:
                return None
            for r in node.args:
                if r.__class__ is not int:
                    continue
                if r >= 0:
                    wanted.add(r)
                elif seg.arrays[~r].__class__ is not np.ndarray or seg.arrays[~r].nbytes > most:
                    return None
            wanted.difference_update(own)
            found.append(node)
            if not wanted:
                return found[::-1]
        node = node.parent
    return None
