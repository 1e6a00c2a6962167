"""Guards: what a program finds wrong while it runs, as an index out of range that only the device knows, and when that is told."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.graph.graph import Value
from bireme.core.graph.segment import Segment, local

kept: list[tuple[Any, str, Any, type[Exception]]] = []  # boolean, message, line, kind: of segments that ran


def guard(bad: Value, message: str, kind: type[Exception] = errors.OutOfRangeError) -> None:
    """Keep a boolean the program computes; if it turns out true, the next force raises `kind` with `message`."""
    if local.trace is not None:
        local.trace.spoiled = True  # steps recorded again would come without it
    guards = kept if bad.segment is None else bad.segment.guards
    guards.append((bad, message, errors.position(), kind))


def open_guards() -> list[Value]:
    """Booleans that the pending program computes: where one turns out true, something in it was wrong."""
    seg = local.segment
    return [bad for bad, *_ in seg.guards if bad.segment is seg]


def keep(seg: Segment) -> None:
    """A segment has run: its guards are asked at the next force."""
    kept.extend(seg.guards)
    seg.guards = []


def check(wait: bool = False) -> None:
    """Raise for the first guard that failed; those that are not ready yet stay, unless somebody waits for them."""
    failed = None
    for item in list(kept):  # a copy: other threads add to it
        bad, message, pos, kind = item
        array = bad.array
        if array is not None and (wait or getattr(array, "is_ready", lambda: True)()):
            try:
                kept.remove(item)
            except ValueError:  # another thread was faster
                continue
            if failed is None and bool(np.asarray(array)):
                failed = errors.failure(message, kind=kind, pos=pos)
    if failed is not None:
        raise failed
