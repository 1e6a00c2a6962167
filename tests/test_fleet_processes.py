"""Fleet among several processes: every way to divide a model trains as one process does; and checkpoints."""

import functools
import json
import multiprocessing

import fleet_programs as programs
import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme.distributed.fleet.meta_parallel import schedules
from tools import parallel_table
from tools.parallel import models

# a sample of what `python -m tools.parallel_table` runs: each way to divide, and each model, at least once
SAMPLE = [
    "data, recompute GPT 2", "tensor and sequence GPT 2", "pipeline, interleaved GPT 2", "context, ring, balanced GPT 2",
    "ZeRO 3 GPT 2", "experts, capacity MoE 2", "ZeRO 2, experts MoE 2", "pipeline, GPipe ResNet 2", "data ResNet 2",
]  # fmt: skip


@pytest.fixture(scope="module")
def start():
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bireme", "pytest"])

    def spawn(function, *args, count=2):
        return dist.spawn(programs.interpreted, (function, *args), nprocs=count, start_method="forkserver")

    return spawn


def compared(chosen, steps):
    for count in sorted({way.count for way in chosen}):
        together = [way for way in chosen if way.count == count]
        found = parallel_table.measured(together, steps, "interpreter" if count < 8 else None)
        with bireme.debug.use_executor("interpreter"):
            far = {
                way.told: parallel_table.difference(found[way.told][0], parallel_table.alone(way, steps))
                for way in together
            }
        assert max(far.values()) <= parallel_table.TOLERANCE, far


def test_losses_of_several_processes_are_those_of_one():
    """Several ways in one world: processes take longer to start than to train."""
    compared([way for way in parallel_table.WAYS if way.told in SAMPLE], 3)


@pytest.mark.full
def test_losses_of_every_way_are_those_of_one():
    compared(parallel_table.WAYS, 30)


def test_what_layers_and_optimizers_exchange(start):
    start(programs.details)


@pytest.mark.parametrize("kind", ["1F1B", "FThenB", "DualPipeV"])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_schedules(kind, stages, count):
    """Each step once, none before what it needs in its own process, and no more under way than is allowed."""
    for chunks in (2,) if kind == "DualPipeV" else (1, 2, 3):
        found = schedules.schedule(kind, stages, chunks, count)
        steps = [step for steps in found for step in steps]
        assert len(steps) == len(set(steps)) == 2 * stages * chunks * count
        for stage, own in enumerate(found):
            order = {step: i for i, step in enumerate(own)}
            under_way = most = 0
            for kind_of, part, micro in own:
                if kind_of == schedules.BACKWARD:
                    assert order[schedules.FORWARD, part, micro] < order[kind_of, part, micro]
                under_way += 1 if kind_of == schedules.FORWARD else -1
                most = max(most, under_way)
            if kind == "1F1B" and chunks == 1:
                assert most == min(stages - stage, count)
    if count >= stages:
        # every process works all the time but for what the first and last micro-batch take to come through
        assert schedules.ticks("1F1B", stages, 1, count) == 2 * (count + stages - 1)
        if count % stages == 0:
            assert schedules.ticks("1F1B", stages, 2, count) == 2 * (2 * count + stages - 1)


# ------------------------------------------------------------ checkpoints

DIVISIONS = {
    "one": (1, {}),
    "tensor": (2, {"mp": 2}),
    "states": (2, {"sharding": 2}),
    "parts": (2, {"level": "p_g_os"}),
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(a, b, marks=() if (a, b) == ("parts", "tensor") else pytest.mark.full)
        for a in DIVISIONS
        for b in DIVISIONS
    ],
)
def test_a_checkpoint_of_one_division_goes_on_in_another(start, tmp_path, before, after):
    count, how = DIVISIONS[before]
    start(functools.partial(programs.saved, str(tmp_path / "saved"), 2, **how), count=count)
    count, how = DIVISIONS[after]
    start(functools.partial(programs.resumed, str(tmp_path / "losses"), str(tmp_path / "saved"), 2, **how), count=count)
    found = json.loads((tmp_path / "losses").read_text())
    one = models.single("GPT", 4, models.Division(tied=False))
    np.testing.assert_allclose(found, one[2:], rtol=1e-5)


def test_a_process_that_cannot_write_is_an_error_in_all(start, tmp_path):
    start(programs.one_save_fails, str(tmp_path))
