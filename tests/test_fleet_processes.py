"""Fleet among several processes: every way to divide one small GPT trains as one process does."""

import functools
import json
import multiprocessing

import fleet_programs as programs
import numpy as np
import pytest

from bireme import distributed as dist
from bireme.distributed.fleet.meta_parallel import schedules

STEPS = 10
WAYS = {
    "data and recompute": functools.partial(programs.hybrid, dp=2),
    "tensor": functools.partial(programs.hybrid, mp=2),
    "states and gradients": functools.partial(programs.sharded, level="os_g"),
    "parameters too": functools.partial(programs.sharded, level="p_g_os"),
    "pipeline": functools.partial(programs.pipeline, micro=4, pp=2),
    "interleaved": functools.partial(programs.pipeline, micro=4, chunks=2, pp=2),
}
MORE_WAYS = {
    "states on an axis": functools.partial(programs.hybrid, sharding=2),
    "states": functools.partial(programs.sharded, level="os"),
    "all forward first": functools.partial(programs.pipeline, micro=4, kind="FThenB", pp=2),
    "there and back": functools.partial(programs.pipeline, micro=4, kind="V", pp=2),
}
MIXES = {
    "data and tensor": functools.partial(programs.hybrid, dp=2, mp=2),
    "states and tensor": functools.partial(programs.hybrid, sharding=2, mp=2),
    "data and pipeline": functools.partial(programs.pipeline, micro=4, dp=2, pp=2),
    "tensor and pipeline": functools.partial(programs.pipeline, micro=4, mp=2, pp=2),
}


@pytest.fixture(scope="module")
def start():
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bireme", "pytest"])

    def spawn(function, *args, count=2):
        return dist.spawn(function, args, nprocs=count, start_method="forkserver")

    return spawn


@pytest.fixture(scope="module")
def alone():
    return {tied: programs.single(STEPS, tied)[0] for tied in (True, False)}


@pytest.mark.parametrize("ways", [WAYS, pytest.param(MORE_WAYS, marks=pytest.mark.full)], ids=["some", "others"])
def test_losses_of_two_processes_are_those_of_one(start, tmp_path, alone, ways):
    """Several ways in one world: processes take longer to start than to train."""
    start(programs.one_after_the_other, str(tmp_path), STEPS, list(ways.values()))
    for i, name in enumerate(ways):
        found = json.loads((tmp_path / str(i)).read_text())
        np.testing.assert_allclose(found, alone[name != "parameters too"], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.full
@pytest.mark.parametrize("name", MIXES)
def test_losses_of_four_processes_are_those_of_one(start, tmp_path, alone, name):
    start(MIXES[name], str(tmp_path / "losses"), STEPS, count=4)
    np.testing.assert_allclose(json.loads((tmp_path / "losses").read_text()), alone[True], rtol=0, atol=1e-5)


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
def test_a_checkpoint_of_one_division_goes_on_in_another(start, tmp_path, alone, before, after):
    count, how = DIVISIONS[before]
    start(functools.partial(programs.saved, str(tmp_path / "saved"), 2, **how), count=count)
    count, how = DIVISIONS[after]
    start(functools.partial(programs.resumed, str(tmp_path / "losses"), str(tmp_path / "saved"), 2, **how), count=count)
    found = json.loads((tmp_path / "losses").read_text())
    np.testing.assert_allclose(found, alone[False][2:4], rtol=0, atol=1e-5)


def test_a_process_that_cannot_write_is_an_error_in_all(start, tmp_path):
    start(programs.one_save_fails, str(tmp_path))
