"""The choice of a tier as a table: what is known of a graph, and what is done with it."""

import pytest

from bireme.core.run.tiers import BUSY_RUNS, BUSY_RUNS_SLOW, LOOP_RUNS, History, Settings, Size, Tier, choose

STEP = Size(
    work=1e6, numpy_work=0.0, calls=250, simple_calls=50, results=300, arrays=200, leaves=150
)  # a training step
LINE = Size(work=20.0, numpy_work=0.0, calls=3, simple_calls=3, results=3, arrays=2, leaves=1)  # a line that logs
SORTS = STEP._replace(numpy_work=6e5)  # most of it is what NumPy does best
UPDATE = STEP._replace(update_work=6e5)  # of parameters whose gradients were computed before
DRAWS = STEP._replace(leaves=0)  # the first weights of a model
LOOP = Size(
    work=5e3, numpy_work=0.0, calls=400, simple_calls=400, results=400, arrays=20, leaves=10
)  # a recurrence in Python
LONG_LOOP = LOOP._replace(simple_calls=0)

FIRST = History(met=1, served=False, compiled=False, shapes=1, programs=0, clock=1, recent=(1,), oldest_use=0)
AGAIN = FIRST._replace(met=2, clock=2)
MANY_SHAPES = AGAIN._replace(shapes=50, clock=1000, recent=(999, 1000))
CPU, GPU = Settings(on_cpu=True), Settings(on_cpu=False)
HOST = GPU._replace(from_host=True)


def met(times, **more):
    return AGAIN._replace(met=times, **more)


def busy(runs, every, **more):
    """A shape that was met so many times, each after so many runs of its family."""
    recent = tuple(range(10_000 - (runs - 1) * every, 10_001, every))
    return MANY_SHAPES._replace(met=runs + 1, clock=10_000, recent=recent, **more)


TABLE = [
    # on CPU
    ("a step at first", STEP, FIRST, CPU, Tier.INTERPRET),
    ("a step that comes back", STEP, AGAIN, CPU, Tier.COMPILE),
    ("a step with its program", STEP, met(9, served=True, compiled=True, programs=1), CPU, Tier.SERVE),
    ("a step of which other results are held", STEP, met(9, compiled=True, programs=1), CPU, Tier.COMPILE),
    ("a line that logs, however often", LINE, met(10_000), CPU, Tier.INTERPRET),
    ("sorting", SORTS, met(10_000), CPU, Tier.INTERPRET),
    ("an update by itself", UPDATE, met(10_000), CPU, Tier.INTERPRET),
    ("weights that are drawn", DRAWS, met(2), CPU, Tier.INTERPRET),
    ("a loop, while its compile would take longer", LOOP, met(LOOP_RUNS), CPU, Tier.INTERPRET),
    ("a loop that goes on", LOOP, met(LOOP_RUNS + 1), CPU, Tier.COMPILE),
    ("a loop that takes seconds to compile", LONG_LOOP, met(800), CPU, Tier.INTERPRET),
    ("the same after as long", LONG_LOOP, met(801), CPU, Tier.COMPILE),
    # shapes that change, on CPU
    ("the fourth shape", STEP, met(2, shapes=4, programs=3), CPU, Tier.COMPILE),
    ("the fifth, seldom", STEP, met(2, shapes=5, programs=4), CPU, Tier.INTERPRET),
    ("one of fifty", STEP, MANY_SHAPES, CPU, Tier.INTERPRET),
    ("one of fifty that is met in every tenth run", STEP, busy(BUSY_RUNS_SLOW, 10), CPU, Tier.COMPILE),
    ("one of fifty that is met in every twentieth run", STEP, busy(BUSY_RUNS, 20), CPU, Tier.INTERPRET),
    ("no place left", STEP, busy(BUSY_RUNS_SLOW, 10, programs=16, oldest_use=9_999), CPU, Tier.INTERPRET),
    ("no place left, but one that rests", STEP, busy(BUSY_RUNS_SLOW, 10, programs=16, oldest_use=1), CPU, Tier.REPLACE),
    # on an accelerator
    ("a step at first, on a GPU", STEP, FIRST, GPU, Tier.COMPILE),
    ("a line that logs, on a GPU", LINE, FIRST, GPU, Tier.COMPILE),
    ("small work of the fifth shape goes to the host", LINE, FIRST._replace(shapes=5), GPU, Tier.INTERPRET),
    ("a step of the fifth shape does not", STEP, FIRST._replace(shapes=5, programs=4), GPU, Tier.COMPILE),
    ("a step of the fiftieth", STEP, FIRST._replace(shapes=50, programs=16, oldest_use=1), GPU, Tier.PER_OP),
    ("a line that logs, of arrays on the host", LINE, met(10_000), HOST, Tier.INTERPRET),
    ("a small step of arrays on the host", LOOP, met(19), HOST, Tier.INTERPRET),
    ("the same when it has come often", LOOP, met(20), HOST, Tier.COMPILE),
    ("a large step of arrays on the host", STEP, FIRST, HOST, Tier.COMPILE),
    # settings
    ("without the interpreter", LINE, FIRST, Settings(on_cpu=True, interpret=False), Tier.COMPILE),
    (
        "without it, shapes that change",
        STEP,
        MANY_SHAPES._replace(programs=16),
        Settings(True, interpret=False),
        Tier.PER_OP,
    ),
    ("without the interpreter, arrays on the host", LINE, FIRST, HOST._replace(interpret=False), Tier.COMPILE),
    ("a kernel of the device's own", LINE._replace(device_only=True), FIRST, HOST, Tier.COMPILE),
    ("deterministic", LINE, FIRST, Settings(on_cpu=True, deterministic=True), Tier.COMPILE),
    ("a forked child", STEP, met(5), Settings(on_cpu=True, forked=True), Tier.INTERPRET),
    ("no programs allowed", STEP, AGAIN, Settings(on_cpu=True, limit=0), Tier.INTERPRET),
]


@pytest.mark.parametrize(
    ("size", "history", "settings", "tier"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_choice(size, history, settings, tier):
    assert choose(size, history, settings).tier is tier


def test_every_tier_is_in_the_table():
    assert {row[-1] for row in TABLE} == set(Tier)


def test_only_what_will_be_compiled_next_is_read_from_disk_beforehand():
    assert choose(STEP, FIRST, CPU).prefetch
    assert not choose(LINE, FIRST, CPU).prefetch
    assert not choose(LOOP, FIRST, CPU).prefetch
    assert not choose(STEP, FIRST._replace(shapes=9), CPU).prefetch


def test_runs_count_towards_a_compile_only_where_one_was_considered():
    assert not choose(STEP, FIRST, CPU).counted
    assert choose(STEP, MANY_SHAPES, CPU).counted
    assert choose(LINE, FIRST, CPU).lasting
    assert not choose(STEP, FIRST, CPU).lasting
