"""Which tier runs a graph: one pure function of counts and sizes, so that the same script takes the same tiers every
time.

No clock and no state of a cache has a say. `choose` is given what is estimated of the graph (`Size`), what has been met
so far (`History`) and the settings of the process, and says what to do and by which rule. Times are microseconds,
estimated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from bireme.core.graph.graph import Graph
from bireme.core.numpy_exec import rows

# A compiled call costs some 50 us and 4 us a result, its compile a thousand times that: a logging line that takes the
# interpreter 300 us is never worth it.
CHEAP_WORK, CHEAP_WORK_PER_ARRAY = 300.0, 3.0

# What a compile takes: NumPy's own functions all become one kernel.
COMPILE_SIMPLE_CALL, COMPILE_CALL, COMPILE_EXTRA_RESULT = 1e3, 1e4, 1e4
SHORT_COMPILE = 2e6  # nobody minds this wait
WAITED_COMPILE, WAITED_RUNS = 2e5, 2  # a compile that takes this, or as long as so many runs, is waited for
# The interpreted runs have taken so many times as long as a compile before it is begun beside them, and go on for so
# many times as long until its program takes over.
PATIENCE, TAKE_OVER = 2.0, 1.5
# The runs of that program, many times as many as its compile was given, before it is made once more, and until that takes
# over: a tenth to a fifth is gained.
FINER, FINER_TAKE_OVER = 4, 3
BRIEF_COMPILE = SHORT_COMPILE / 10
# The runs of pieces have taken so many times as long as the compile of the whole before that is begun: a process that ends
# then waits for it, which nobody minds where it is short.
WHOLE_RUNS, BRIEF_WHOLE, BRIEF_TAKE_OVER = 2, 0.25, 0.5
FIRST_WHOLE = 4  # runs after which it is known what is read of each, see `loss_reads`

# A loop of tiny operators, as a hand-written recurrence, takes seconds to compile and microseconds to run.
LOOP_CALLS, TINY_CALL = 250, 60.0
LOOP_RUNS = 32  # interpreted before it is compiled, at least

# Where shapes change, a compile may take as long as a hundred runs.
COMPILED_SHAPES = 4  # of a family: compiled as soon as they come back
FEW_SHAPES = 8
FEW_SHAPES_SLOW = 2
BUSY_RUNS, BUSY_RUNS_SLOW, BUSY_SHARE = 8, 48, 16  # further shapes: 8 of the last 8 * 16 runs; 48 of the last 48 * 16

# An accelerator compiles the first shapes of a family at once; small work of further ones goes to the host.
ACCELERATOR_SHAPES, HOST_WORK = 4, 50_000.0
# What reads arrays of the host alone, as where somebody tries things, stays there until its runs have taken as long as
# a small program takes to compile.
HOST_PATIENCE = 100_000.0


class Tier(Enum):
    """What runs a graph."""

    INTERPRET = "interpreted by NumPy"
    SERVE = "a program that was compiled before"
    COMPILE = "compiled now"
    REPLACE = "compiled now, in the place of the program of its family that was not used for longest"
    PER_OP = "one small program per operator"


class Choice(NamedTuple):
    """A tier, and the rule that chose it."""

    tier: Tier
    rule: str
    lasting: bool = False  # it holds for every run of the graph
    counted: bool = False  # the run counts towards a compile of this shape
    prefetch: bool = False  # the next run will probably be compiled: a program on disk may be read meanwhile


class Size(NamedTuple):
    """What is estimated of a graph, once."""

    work: float  # of the interpreter, see `graph.cost`
    numpy_work: float  # the part that NumPy does much faster than a compiled program
    calls: int
    simple_calls: int  # NumPy's own functions
    results: int
    arrays: int  # that go in and come out
    leaves: int
    device_only: bool = False  # some call has to run on its device, see `Bound.device_only`
    update_work: float = 0.0  # the part that updates parameters

    @property
    def compile_work(self) -> float:
        extra = self.results - self.calls
        return (
            COMPILE_SIMPLE_CALL * self.simple_calls
            + COMPILE_CALL * (self.calls - self.simple_calls)
            + COMPILE_EXTRA_RESULT * extra
        )

    @property
    def cheap(self) -> bool:
        """Whether it is always interpreted on CPU: little work, what NumPy does best, or mostly an update of parameters, which
        takes both as long: where the gradients are interpreted, arrays would be handed over twice in every step.
        """
        if not self.leaves:  # made of nothing, as the first weights of a model: NumPy draws them as fast
            return True
        if self.work < CHEAP_WORK + CHEAP_WORK_PER_ARRAY * self.arrays:
            return True
        return max(self.numpy_work, self.update_work) > self.work / 2

    @property
    def tiny_calls(self) -> bool:
        """Whether its operators are so small that a compile takes as long as hundreds of runs."""
        return self.work < TINY_CALL * self.calls

    @property
    def patience(self) -> int:
        """How often it is interpreted before it is compiled.

        Once, as a rule. A loop of tiny operators until its runs have taken as long as the compile would: a script that
        ends before has not waited for it, and no other takes twice the time of the better choice. Where the wait is
        short, sooner.
        """
        if self.calls < LOOP_CALLS or not self.tiny_calls:
            return 1
        cost = self.compile_work
        return LOOP_RUNS if cost < SHORT_COMPILE else max(LOOP_RUNS, int(cost / self.work))

    @property
    def slow_to_compile(self) -> bool:
        """Whether a compile takes as long as many runs, and is no brief wait: where shapes change, it is then seldom
        worth it.
        """
        return self.tiny_calls or self.compile_work >= max(LOOP_RUNS * self.work, BRIEF_COMPILE)


def size_of(graph: Graph, live: tuple[int, ...]) -> Size:
    """The size of a graph of which these results are wanted."""
    simple = sum([n.bound.is_ufunc for n in graph.nodes])
    leaves = len(graph.leaf_sigs)
    only = not graph.device.is_cpu and any(n.bound.device_only for n in graph.nodes)
    results = len(graph.value_sigs)
    arrays, updates = len(live) + leaves, graph.work_of_updates
    by_numpy = graph.work_by_numpy + (rows.work(graph, live) if graph.device.is_cpu else 0.0)
    return Size(graph.work, by_numpy, len(graph.nodes), simple, results, arrays, leaves, only, updates)


class Beside(NamedTuple):
    """When a compile that takes long is begun beside the interpreted runs, and when its program takes over: counts of
    runs without a program.
    """

    begin: int
    due: int


def beside(work: float, compile_work: float, met: int, rounds: int = 1, last: float = 0.0) -> Beside | None:
    """When to compile what takes the compiler many times as long as a run; None where it may as well be waited for.

    It is begun when the runs so far have taken twice as long as the compile will: with every core busy a job that ends
    then has lost a third, and one that goes on, where a program is twice as fast (most are 1.1 to 1.6 times), takes at
    most half as much again as one that had compiled at once. The compiler may take half as long again as estimated,
    since it has the cores that the runs leave; each run does one of the `rounds` of Python's work for it, and the
    `last` part of it is compiled after these.
    """
    if _is_waited_for(compile_work, work):
        return None
    runs = math.ceil(compile_work / work)
    begin = max(met, math.ceil(PATIENCE * runs))
    due = max(math.ceil(TAKE_OVER * runs), rounds + math.ceil(TAKE_OVER * last / work))
    return Beside(begin, begin + due)


def finer(first: Beside) -> Beside:
    """When to compile once more, with all that the compiler can do, what was compiled in a short time: counts of runs of
    that program. A job that ends in the middle has lost a twentieth.
    """
    given = first.due - first.begin
    return Beside(FINER * given, (FINER + FINER_TAKE_OVER) * given)


def _is_waited_for(compile_work: float, work: float) -> bool:
    return compile_work < WAITED_COMPILE or compile_work < WAITED_RUNS * work


def waits_for_nobody(size: Size) -> bool:
    """Whether a graph will be compiled beside its runs, in pieces, as far as its size tells."""
    return not _is_waited_for(size.compile_work, size.work)


def whole(run: float, compile_work: float) -> Beside:
    """When to compile a whole graph beside the runs of its pieces.

    A process that ends in the middle of it waits for the compiler: it is begun when the runs have taken twice as long,
    so that this is at most half of the time. As long again it may take, the runs beside it included. Where the wait is
    short anyway, as for a network that makes token after token, it is begun sooner.
    """
    runs = math.ceil(compile_work / run)
    if compile_work < SHORT_COMPILE:
        begin = max(math.ceil(runs * BRIEF_WHOLE), FIRST_WHOLE)
        return Beside(begin, begin + math.ceil(runs * BRIEF_TAKE_OVER))
    begin = max(WHOLE_RUNS * runs, FIRST_WHOLE)
    return Beside(begin, begin + WHOLE_RUNS * runs)


class History(NamedTuple):
    """What has been met so far, this run included. A family is all graphs of one origin, at whatever shapes."""

    met: int  # runs of this graph without a program at hand
    served: bool  # a program that was compiled for it gives what is wanted
    compiled: bool  # it has programs of its own
    shapes: int  # graphs of its family
    programs: int  # of these with compiled programs
    clock: int  # runs of the family
    recent: Sequence[int]  # when this graph was met without a program, by that clock; at most BUSY_RUNS_SLOW of them
    oldest_use: int  # when the family's program that has rested longest was last used


class Settings(NamedTuple):
    """What the process says."""

    on_cpu: bool
    interpret: bool = True  # FLAGS_interpret
    deterministic: bool = False  # FLAGS_deterministic
    forked: bool = False  # the child of a process whose device had started
    limit: int = 16  # FLAGS_programs_per_skeleton
    from_host: bool = False  # all that this run reads lies on the host of an accelerator


def choose(size: Size, history: History, settings: Settings) -> Choice:
    """The tier for this run, by the first rule that holds."""
    first = without_look_up(size, history.met, history.shapes, history.compiled, settings)
    if first is not None:
        return first
    if settings.deterministic:
        return Choice(Tier.COMPILE, "FLAGS_deterministic")
    if history.served:
        return Choice(Tier.SERVE, "compiled before")
    return _when_shapes_change(size, history, settings)


def without_look_up(size: Size, met: int, shapes: int, compiled: bool, settings: Settings) -> Choice | None:
    """The rules that need no look at programs: what is interpreted in any case."""
    if settings.forked:
        return Choice(Tier.INTERPRET, "a forked child has no device")
    if settings.from_host and settings.interpret and not settings.deterministic and not size.device_only:
        if met * size.work < HOST_PATIENCE or size.work < CHEAP_WORK:
            return Choice(Tier.INTERPRET, "little work on what lies on the host", lasting=size.work < CHEAP_WORK)
    if not _may_interpret(size, shapes, compiled, settings):
        return None
    if settings.on_cpu and size.cheap:
        return Choice(Tier.INTERPRET, "less work than a compiled call", lasting=True)
    if met <= size.patience:
        soon = met == size.patience == 1 and shapes <= COMPILED_SHAPES
        return Choice(
            Tier.INTERPRET, "met for the first time" if size.patience == 1 else "a loop of tiny calls", prefetch=soon
        )
    return None


def _may_interpret(size: Size, shapes: int, compiled: bool, settings: Settings) -> bool:
    """Whether NumPy may run it: on CPU, and on the host of an accelerator what is small where shapes keep changing."""
    if not settings.interpret or settings.deterministic or size.device_only:
        return False
    return settings.on_cpu or (shapes > ACCELERATOR_SHAPES and size.work < HOST_WORK and not compiled)


def _when_shapes_change(size: Size, history: History, settings: Settings) -> Choice:
    """Whether a family may have one more program: a bounded number, replaced only by a clearly busier shape.

    On CPU the first few shapes are compiled when they come back, which is all that most loops have, unless many others
    came before that, as when a sequence grows word by word; and further ones when they are a good part of the last
    runs, as the sizes of buckets are. Clearly busier means: met 48 times since the program that would go was last used.
    With shapes drawn at random neither happens, and no step waits for a compile late in a run.
    """
    if history.compiled:
        return Choice(Tier.COMPILE, "other results are held than before", counted=True)
    recent, clock = history.recent, history.clock
    may_interpret = _may_interpret(size, history.shapes, history.compiled, settings)
    if history.programs < settings.limit:
        runs, few = (BUSY_RUNS_SLOW, FEW_SHAPES_SLOW) if size.slow_to_compile else (BUSY_RUNS, FEW_SHAPES)
        if history.programs < COMPILED_SHAPES and history.shapes <= few:
            return Choice(Tier.COMPILE, "came back", counted=True)
        if len(recent) >= runs and clock - recent[-runs] < runs * BUSY_SHARE:
            return Choice(Tier.COMPILE, "a good part of the last runs", counted=True)
        if not may_interpret:
            return Choice(Tier.COMPILE, "one of its family's first shapes", counted=True)
    elif history.programs and len(recent) == BUSY_RUNS_SLOW and recent[0] > history.oldest_use:
        return Choice(Tier.REPLACE, "busier than a program that rests", counted=True)
    if may_interpret:
        return Choice(Tier.INTERPRET, "shapes keep changing", counted=True)
    return Choice(Tier.PER_OP, "shapes keep changing", counted=True)
