"""Kills processes while they save checkpoints: nothing that was saved may be lost, and nothing half written be seen.

    python -m tools.checkpoint_kills --times 50

A process saves version after version and notes each one that is done. After some of them it is killed with SIGKILL at a random
moment of a save; every fifth time there are two processes, of which one is killed. Then every version that is there has to
load with one number everywhere, the newest has to be at least the one that was noted last, and the next process has to go on
from it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bireme
from bireme import distributed as dist
from bireme.distributed import checkpoint
from bireme.distributed.checkpoint import manifest

SIZE = 200_000
PROCESSES = 5  # every so many times, two


class Numbers(bireme.nn.Layer):
    """One parameter that holds one number everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.create_parameter([SIZE])


def saver(folder: str, noted: str) -> None:
    """Save version after version, every third one in the place of the one before, until it is killed."""
    if os.environ.get("PADDLE_TRAINERS_NUM", "1") != "1":
        dist.init_parallel_env()
    model: Any = Numbers()
    saved = checkpoint.Checkpoint(folder, model, keep=3)
    step = saved.resume() or 0
    while True:
        step += 1
        model.x.set_value(bireme.full([SIZE], float(step)))
        saved.save(step, number=step)
        if step % 3 == 0:
            saved.save(step, number=step)  # another one of the same number
        saved.wait()
        if dist.get_rank() == 0:
            with open(noted, "w") as file:
                file.write(str(step))


def check(folder: str, noted: str) -> int:
    """What has to hold after a kill; the number of the newest version."""
    numbers = sorted(manifest.versions(folder))
    last = int(Path(noted).read_text() or 0) if os.path.exists(noted) else 0  # empty where it was killed on the way
    assert not last or numbers[-1] >= last, f"version {last} was saved, there are {numbers}"
    for number in numbers:
        found = checkpoint.load_merged_state_dict(folder, unique_id=number)
        values = set(found["model.x"].tolist())
        assert values == {float(number)}, f"version {number} has {sorted(values)[:3]}"
    return numbers[-1] if numbers else 0


def killed(folder: str, noted: str, turn: int, rng: random.Random) -> None:
    """Start, wait until some version is being written, and kill at a moment of it."""
    several = turn % PROCESSES == PROCESSES - 1
    if several:
        context: Any = dist.spawn(saver, (folder, noted), nprocs=2, join=False, start_method="forkserver")
        processes = context.processes
    else:
        processes = [multiprocessing.get_context("forkserver").Process(target=saver, args=(folder, noted))]
        processes[0].start()
    before, seen = set(os.listdir(folder)), set[str]()
    while len(seen) < 2 + turn % 3 and all(process.is_alive() for process in processes):
        seen |= {name for name in os.listdir(folder) if name.endswith(".part")} - before
    until = time.monotonic() + rng.random() * 0.03
    while time.monotonic() < until:
        pass
    alive = all(process.is_alive() for process in processes)
    os.kill(processes[rng.randrange(len(processes))].pid, signal.SIGKILL)
    for process in processes:
        process.join(20)  # the other one hears of it, and ends with an error
        if process.is_alive():
            process.kill()
            process.join()
    assert alive, "it ended before it was killed"


def run(folder: str, times: int, seed: int = 0) -> int:
    """Kill so often; the number of the newest version afterwards."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bireme"])
    noted, rng, newest = os.path.join(folder, "noted"), random.Random(seed), 0
    versions = os.path.join(folder, "versions")
    os.mkdir(versions)
    for turn in range(times):
        killed(versions, noted, turn, rng)
        found = check(versions, noted)
        assert found >= newest, f"version {newest} was there, now {found} is the newest"
        newest = found
    return newest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50, metavar="N", help="how often to kill (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        newest = run(folder, given.times, given.seed)
    print(f"killed {given.times} times while {newest} versions were saved: nothing was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
