"""Losses of `examples/elastic.py` while machines are killed, come back and are taken away, against those of one process.

    python -m tools.elastic_curve

Each machine is a launcher on this one, with a process of its own. A launcher is killed with its process (SIGKILL), another one
comes, and one is asked to end (SIGTERM), after which its processes save and leave. Every loss that is told, also that of a step
which was computed again, has to be that of one process that nobody disturbs.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bireme.distributed import world

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "elastic.py"
TOLERANCE = 1e-5
PATIENCE = 900.0  # seconds for each event
NEWS = "another machine has come"


class Machines:
    """Launchers on this machine, each in a process group of its own."""

    def __init__(self, folder: str):
        self.folder, self.port = folder, world.free_ports(1)[0]
        self.running: dict[int, subprocess.Popen] = {}

    def add(self, index: int) -> None:
        """Start the launcher of a machine."""
        options = ["--nnodes", "2:3", "--master", f"127.0.0.1:{self.port}", "--rank", str(min(index, 2))]
        options += ["--elastic_timeout", "5", "--log_dir", f"{self.folder}/log{index}"]
        program = ["-m", "tools.elastic_curve", "--train", self.folder]
        command = [sys.executable, "-m", "bireme.distributed.launch", *options, *program]
        with open(f"{self.folder}/launcher{index}.txt", "a") as log:
            self.running[index] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self, index: int) -> None:
        """Lose a machine: its launcher and its process at once."""
        os.killpg(self.running[index].pid, signal.SIGKILL)
        self.running.pop(index).wait()

    def ask(self, index: int) -> None:
        """Ask a machine to end."""
        self.running.pop(index).send_signal(signal.SIGTERM)

    def allow(self, step: int) -> None:
        """Let the processes go on up to a step."""
        made = Path(self.folder, "limit.new")
        made.write_text(str(step))
        made.rename(Path(self.folder, "limit"))

    def come(self, index: int) -> None:
        """Start another machine, and wait until the others have heard of it."""
        said = Path(self.folder, "launcher0.txt")
        before = said.read_text().count(NEWS)
        self.add(index)
        self.until(lambda: said.read_text().count(NEWS) > before, "another machine")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > limit or self.running[0].poll() is not None:
                raise SystemExit(f"{what} did not come: {told(self.folder)[-3:]}")
            time.sleep(0.05)

    def finish(self) -> list[int]:
        """Wait for all: their exit codes."""
        return [process.wait(PATIENCE) for process in self.running.values()]

    def stop(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def told(folder: str) -> list[tuple[int, int, float]]:
    """Steps, processes and losses so far, in the order in which they were computed."""
    path = Path(folder, "losses.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(step), int(count), float(loss)) for step, count, loss in map(str.split, lines)]


def train(folder: str) -> None:
    """What each process runs: the example, which stops where it is not allowed to go on yet. So nothing depends on the speed
    of the machine.
    """
    spec = importlib.util.spec_from_file_location("elastic", SCRIPT)
    assert spec is not None and spec.loader is not None, "it is a file of this tree"
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    tell = example.tell

    def tell_and_wait(where: str, step: int, loss: Any) -> None:
        tell(where, step, loss)
        while world.rank() == 0 and step >= int(Path(folder, "limit").read_text()):
            time.sleep(0.05)

    example.tell = tell_and_wait
    example.main(folder)


def disturbed(folder: str) -> None:
    """Train while machines are lost and come."""
    machines = Machines(folder)

    def reach(step: int, count: int) -> None:
        machines.allow(step)
        machines.until(
            lambda: [t[:2] for t in told(folder)[-1:]] == [(step, count)], f"step {step} of {count} processes"
        )

    def note(what: str) -> None:
        print(f"after step {told(folder)[-1][0]}: {what}", flush=True)

    try:
        machines.allow(7)
        for index in range(3):
            machines.add(index)
        reach(7, 3)
        machines.kill(2)
        note("machine 2 is killed")
        reach(13, 2)
        machines.come(3)
        note("machine 3 comes")
        reach(22, 3)
        machines.ask(1)
        note("machine 1 is asked to end")
        reach(28, 2)
        machines.come(4)
        note("machine 4 comes")
        machines.allow(1 << 30)
        codes = machines.finish()
        if any(codes):
            raise SystemExit(f"launchers have ended with {codes}")
    finally:
        machines.stop()


def main() -> int:
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2])
        return 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as alone:
        subprocess.run([sys.executable, str(SCRIPT), alone], check=True)
        wanted = {step: loss for step, _, loss in told(alone)}
        disturbed(folder)
        found, worst, before = told(folder), 0.0, 0
        for step, count, loss in found:
            far = abs(loss - wanted[step]) / wanted[step]
            worst = max(worst, far)
            mark = f"  again from step {step}" if step <= before else ""
            before = step
            print(f"{step:3} {count} processes  {loss:.7f}  {wanted[step]:.7f}  {far:.1e}{mark}")
        whole = {step for step, _, _ in found} == set(wanted)
        print(f"{len(found)} losses of {len(wanted)} steps, largest difference {worst:.1e}")
        return 0 if whole and worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
