"""Who reads the loss of a step: loops that do, on an accelerator, get it from a program of its own
(`xla_exec.split_step`).
"""

from __future__ import annotations

from typing import Any

from bireme.core.base import flags
from bireme.core.graph import executor
from bireme.core.graph.graph import Graph
from bireme.core.graph.remaking import first_gradient

MIN_CALLS = 64  # operators: fewer are recorded in a millisecond or two
WATCHED = 2  # runs after which it is known what a loop reads of each


def worth_it(graph: Graph) -> bool:
    """Whether the device computes while the host records something that takes its time: on CPU both want the same
    cores.
    """
    return len(graph.nodes) >= MIN_CALLS and not graph.device.is_cpu and not graph.device.several


class Watch:
    """What is read of a graph's runs: `front` are the last one's results of one number that the forward pass gives,
    `rest` the others, `read` which of both were read before the next run; `against` how often in a row that was other
    than its programs expect.
    """

    __slots__ = ("runs", "front", "rest", "read", "against")

    def __init__(self) -> None:
        self.runs = self.against = 0
        self.front: list[Any] = []
        self.rest: list[Any] = []
        self.read: set[str] = set()

    def remember(self, graph: Graph, program: Any, results: tuple) -> None:
        """After a run: the results that a loop may read, as the loss."""
        if program.numbers is None:
            border, sigs = first_gradient(graph), graph.value_sigs
            single = [(place, i < border) for place, i in enumerate(program.live) if sigs[i].size == 1]
            program.numbers = (
                [place for place, first in single if first],
                [place for place, first in single if not first],
            )
        self.front, self.rest = ([results[place] for place in places] for places in program.numbers)
        self.read.clear()
        self.runs += 1
        _watched[:] = [self]


_watched: list[Watch] = []  # the one whose run was the last


def was_read(array: Any) -> None:
    """Somebody waited for this array: was it the loss of the last run?"""
    for watch in _watched:
        watch.read.update(
            which for which, arrays in (("front", watch.front), ("rest", watch.rest)) if any(a is array for a in arrays)
        )


def look_back(entry: Any, watch: Watch) -> None:
    """Before a run: where of each of the first ones the loss was read, and nothing that comes later, the next program
    gives it early.

    When a loop stops to read, it gets the program of the whole again; both are kept, so nothing is compiled for it.
    """
    asked = watch.read == {"front"}
    watch.front, watch.rest = [], []
    if flags.deterministic.value or executor.forced() is not None:  # no choice then; later, runs are counted anew
        watch.runs = watch.against = 0
        return
    if not watch.runs:
        return
    if entry.others is None:  # it has had programs of the whole alone
        if not asked:
            entry.watch = None
        elif watch.runs == WATCHED and entry.compiled:
            entry.turn()
            entry.note.reason = "its loss is read after every run: with the forward pass as a program of its own, reading waits for no more"
        return
    watch.against = 0 if asked == entry.early else watch.against + 1
    if watch.against == WATCHED:
        watch.against = 0
        entry.turn()
