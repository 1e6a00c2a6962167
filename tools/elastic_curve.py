"""Losses of `examples/elastic.py` while machines are killed, come back and are taken away, against those of one process.

    python -m tools.elastic_curve

Each machine is a launcher on this one, with a process of its own. A launcher is killed with its process (SIGKILL), another one
comes, and one is asked to end (SIGTERM), after which its processes save and leave. Every loss that is told, also that of a step
which was computed again, has to be that of one process that nobody disturbs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bireme.distributed import world

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "elastic.py"
TOLERANCE = 1e-5
PATIENCE = 900.0  # seconds for each event


class Machines:
    """Launchers on this machine, each in a process group of its own."""

    def __init__(self, folder: str):
        self.folder, self.port = folder, world.free_ports(1)[0]
        self.running: dict[int, subprocess.Popen] = {}

    def add(self, index: int) -> None:
        """Start the launcher of a machine."""
        options = ["--nnodes", "2:3", "--master", f"127.0.0.1:{self.port}", "--rank", str(min(index, 2))]
        options += ["--elastic_timeout", "5", "--log_dir", f"{self.folder}/log{index}"]
        command = [sys.executable, "-m", "bireme.distributed.launch", *options, str(SCRIPT), self.folder, "0.2"]
        with open(f"{self.folder}/launcher{index}.txt", "a") as log:
            self.running[index] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self, index: int) -> None:
        """Lose a machine: its launcher and its process at once."""
        os.killpg(self.running[index].pid, signal.SIGKILL)
        self.running.pop(index).wait()

    def take(self, index: int) -> None:
        """Ask a machine to end."""
        self.running[index].send_signal(signal.SIGTERM)
        self.running.pop(index).wait(PATIENCE)

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


def wait_for(machines: Machines, step: int, count: int) -> None:
    """Wait until so many processes have computed a step."""
    until = time.monotonic() + PATIENCE
    while not any(a >= step and n == count for a, n, _ in told(machines.folder)[-1:]):
        if time.monotonic() > until or machines.running[0].poll() is not None:
            raise SystemExit(f"step {step} of {count} processes did not come: {told(machines.folder)[-3:]}")
        time.sleep(0.05)


def disturbed(folder: str) -> list[str]:
    """Train while machines are lost and come; what was done after which step."""
    machines, events = Machines(folder), []

    def note(what: str) -> None:
        events.append(f"after step {told(folder)[-1][0]}: {what}")
        print(events[-1], flush=True)

    try:
        for index in range(3):
            machines.add(index)
        wait_for(machines, 7, 3)
        machines.kill(2)
        note("machine 2 is killed")
        wait_for(machines, 13, 2)
        machines.add(3)
        note("machine 3 comes")
        wait_for(machines, 22, 3)
        machines.take(1)
        note("machine 1 is asked to end")
        wait_for(machines, 28, 2)
        machines.add(4)
        note("machine 4 comes")
        codes = machines.finish()
        if any(codes):
            raise SystemExit(f"launchers have ended with {codes}")
    finally:
        machines.stop()
    return events


def main() -> int:
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
