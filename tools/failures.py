"""Lets processes of a job fail in every way we know, and shows how soon somebody says what happened.

`python -m tools.failures` starts three processes for each event and prints how often it was tried, the seconds from the
event to the first sentence that names rank, host and call (median and largest), what was said in the slowest trial, and the
number of trials in which something still ran after a minute. `--repeat 20` repeats each; `--events stop save` chooses some.
The command fails if a sentence is missing or takes over 30 seconds, something hangs, or a job that failed returns 0.

    python -m tools.failures --repeat 20 --jobs 12 --output trials.jsonl     # twelve trials side by side, each kept
    python -m tools.failures --merge trials.jsonl others.jsonl --markdown    # the table of what several runs have kept
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import bireme
from bireme import distributed as dist
from bireme.distributed import world
from bireme.distributed.checkpoint import array_files

ROOT = Path(__file__).resolve().parents[1]
TOLD, ENDED = 30.0, 60.0
HOST = re.escape(socket.gethostname())
COUNT = 3
EVENTS = {
    # what happens, and what one of the sentences has to say
    "kill": ("SIGKILL of rank 1", rf"all_reduce\(.*rank 1 on {HOST} is gone \(ended by signal 9\)"),
    "kill first": ("SIGKILL of rank 0", rf"all_reduce\(.*rank 0 on {HOST} is gone \(ended by signal 9\)"),
    "stop": ("SIGSTOP of rank 1", rf"all_reduce\(.*rank 1 on {HOST} is gone \(stopped by a signal for 5 s\)"),
    "slow": ("rank 1 is slow", rf"all_reduce\(.*has waited \d+ s for rank 1 on {HOST}, which is at failures\.py"),
    "timeout": ("rank 1 never comes", rf"barrier\(.*after 3 s rank 1 on {HOST}, which is at failures\.py:\d+ did not"),
    "raise": ("an exception in rank 1", rf"all_reduce\(.*rank 1 on {HOST} is gone \(ValueError: of rank 1\)"),
    "exit": ("rank 1 ends early", rf"all_reduce\(.*rank 1 on {HOST} is gone \(ended\)"),
    "shapes": ("different shapes", rf"all_reduce\(float32\[2\], SUM\) at .* in rank 1 on {HOST}"),
    "calls": ("another collective", rf"broadcast\(float32\[1\], src=0\) at .* in rank 1 on {HOST}"),
    "groups": ("calls in two groups", rf"barrier\(\) at .* in rank 0 on {HOST}.*waits in"),
    "launcher": ("SIGKILL of the launcher", rf"all_reduce\(.* in rank \d on {HOST}.*process that started this one is"),
    "coordinator": ("SIGKILL of rank 0, no launcher", rf"all_reduce\(.*rank 0 on {HOST} is gone \(without a word\)"),
    "disk": ("rank 1 cannot write", rf"save_state_dict\(.*File too large.* in rank 1 on {HOST}"),
    "save": ("SIGKILL of rank 1 in a save", rf"rank 1 on {HOST} is gone \(ended by signal 9\)"),
}
FIRST = {"kill first", "coordinator"}  # events of rank 0


class Trial(NamedTuple):
    """One trial: seconds until the sentence, the sentence, and what was wrong."""

    told: float
    sentence: str
    wrong: str


def worker(event: str, folder: str) -> None:
    """What each process does: collectives without end, until it fails itself or hears of it."""
    dist.init_parallel_env()
    rank, x = dist.get_rank(), bireme.ones([1])
    group = dist.new_group(list(range(COUNT)), timeout=datetime.timedelta(seconds=3))
    for _ in range(3):
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        dist.barrier(group)
    part = dist.ShardedWeight("w", bireme.full([50_000], float(rank)), [50_000], [150_000], [50_000 * rank])
    if event in ("save", "disk"):
        dist.save_state_dict({"w": part}, f"{folder}/saved")
    if rank == (0 if event in FIRST else 1):
        Path(folder, "now").write_text(str(time.time()))
        happen(event)
    if event in ("save", "disk"):
        dist.save_state_dict({"w": part}, f"{folder}/saved")
    if event == "timeout":
        dist.barrier(group)
    if event == "groups":
        dist.barrier([group, dist.new_group(list(range(COUNT)))][rank % 2])
    for _ in range(1 if event == "slow" else 1_000_000):
        if event == "calls" and rank == 1:
            dist.broadcast(x, src=0)
        dist.all_reduce(bireme.ones([2]) if event == "shapes" and rank == 1 else x)


def happen(event: str) -> None:
    """The event, in the process that it happens to."""
    if event in ("kill", "kill first", "coordinator"):
        os.kill(os.getpid(), signal.SIGKILL)
    if event == "launcher":
        os.kill(os.getppid(), signal.SIGKILL)
    if event == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if event == "raise":
        raise ValueError("of rank 1")
    if event == "exit":
        sys.exit()
    if event in ("slow", "timeout"):
        time.sleep(12 if event == "slow" else 1000)
    if event == "disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    if event == "save":
        array_files.write = lambda *given: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]  # never returns


def started(event: str, folder: str) -> list[subprocess.Popen]:
    """The launcher of a job, or without one its processes."""
    program = ["-m", "tools.failures", "--worker", event, "--folder", folder]
    os.makedirs(f"{folder}/log")
    if event != "coordinator":
        command = [sys.executable, "-m", "bireme.distributed.launch", "--nproc_per_node", str(COUNT)]
        with open(f"{folder}/log/launcher", "w") as log:
            return [_popen([*command, "--log_dir", f"{folder}/log", *program], log)]
    address, found = f"127.0.0.1:{world.free_ports(1)[0]}", []
    for rank in range(COUNT):
        place = {"PADDLE_TRAINER_ID": str(rank), "PADDLE_TRAINERS_NUM": str(COUNT), "PADDLE_MASTER": address}
        with open(f"{folder}/log/workerlog.{rank}", "w") as log:
            found.append(_popen([sys.executable, *program], log, place))
    return found


def _popen(command: list[str], log, more: dict[str, str] | None = None) -> subprocess.Popen:
    env = {**os.environ, **(more or {})}
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True)


def trial(event: str, folder: str) -> Trial:
    """Let an event happen once."""
    jobs = started(event, folder)
    wanted, told, sentence, began = re.compile(EVENTS[event][1]), 0.0, "", None
    limit = time.time() + 180
    try:
        while time.time() < limit and any(job.poll() is None or _left(job.pid) for job in jobs):
            time.sleep(0.05)
            now = Path(folder, "now")
            if began is None and now.exists() and now.read_text():
                began = float(now.read_text())
                limit = began + ENDED
            sentence = sentence or next((line.strip() for line in _lines(folder) if wanted.search(line)), "")
            told = told or (time.time() - (began or time.time()) if sentence else 0.0)
        sentence = sentence or next((line.strip() for line in _lines(folder) if wanted.search(line)), "")
        return Trial(told, sentence, _wrong(event, folder, jobs, sentence, told))
    finally:
        for job in jobs:
            for pid in _left(job.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            job.wait()


def _wrong(event: str, folder: str, jobs: list[subprocess.Popen], sentence: str, told: float) -> str:
    """What a trial shows that must not be; empty if all is well."""
    if any(job.poll() is None or _left(job.pid) for job in jobs):
        return "hangs"
    if not sentence or told > TOLD:
        return "is not told"
    if (event != "slow") != all(job.returncode for job in jobs):
        return "has a wrong exit code"
    if event == "timeout" and not all(
        "most recent call first" in "\n".join(_log(folder, rank)) for rank in range(COUNT)
    ):
        return "shows no stacks"
    if event in ("save", "disk"):
        found = dist.load_merged_state_dict(f"{folder}/saved")["w"].numpy()
        if [float(part.mean()) for part in found.reshape(COUNT, -1)] != list(range(COUNT)):
            return "has left traces in what was saved"
    return ""


def _log(folder: str, rank: int) -> list[str]:
    return Path(folder, "log", f"workerlog.{rank}").read_text(errors="replace").splitlines()


def _lines(folder: str) -> list[str]:
    return [line for log in Path(folder, "log").glob("*") for line in log.read_text(errors="replace").splitlines()]


def _left(session: int) -> list[int]:
    """Processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, at = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (OSError, ValueError):
                continue
            if int(at) == session and state != "Z":
                found.append(int(entry.name))
    return found


def _tried(event: str) -> Trial:
    with tempfile.TemporaryDirectory() as folder:
        return trial(event, folder)


def kept(paths: Sequence[str]) -> dict[str, list[Trial]]:
    """The trials that files of earlier runs have, by event."""
    found: dict[str, list[Trial]] = {event: [] for event in EVENTS}
    for path in paths:
        for line in Path(path).read_text().splitlines():
            event, *one = json.loads(line)
            found[event].append(Trial(*one))
    return {event: trials for event, trials in found.items() if trials}


def row(event: str, found: Sequence[Trial]) -> list[str]:
    """What the table says of an event."""
    slowest, wrong = max(found), [one.wrong for one in found if one.wrong]
    verdict = f"{len(wrong)} of {len(found)} WRONG, one {wrong[0]}; " if wrong else ""
    times = [f"{statistics.median(one.told for one in found):.1f}", f"{slowest.told:.1f}", str(wrong.count("hangs"))]
    return [EVENTS[event][0], str(len(found)), *times, verdict + slowest.sentence]


def show(rows: Iterable[tuple[str, Sequence[Trial]]], markdown: bool) -> int:
    """Print the table; whether something in it is wrong."""
    line = "| {:30} | {:>5} | {:>8} | {:>6} | {:>5} | {} |" if markdown else "{:31} {:>5} {:>9} {:>7} {:>6}  {}"
    print(line.format("event", "times", "median s", "most s", "hangs", "what was said"))
    if markdown:
        print("|---|---|---|---|---|---|")
    wrong = 0
    for event, found in rows:
        wrong += sum(bool(one.wrong) for one in found)
        print(line.format(*row(event, found)), flush=True)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1, help="how often each event is tried (default 1)")
    parser.add_argument("--events", nargs="+", choices=EVENTS, default=list(EVENTS), help="which events (default all)")
    parser.add_argument("--jobs", type=int, default=1, help="how many trials run side by side (default 1)")
    parser.add_argument("--output", help="a file that each trial is added to, as a line of JSON")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="the table of what such files have, without trials")
    parser.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    parser.add_argument("--worker", choices=EVENTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.folder)
        return 0
    if options.merge:
        return show(kept(options.merge).items(), options.markdown)
    with ThreadPoolExecutor(options.jobs) as pool:
        submitted = [(event, [pool.submit(_tried, event) for _ in range(options.repeat)]) for event in options.events]

        def ended() -> Iterable[tuple[str, list[Trial]]]:
            for event, futures in submitted:
                found = []
                for future in futures:
                    found.append(future.result())
                    if options.output:
                        with open(options.output, "a") as file:
                            file.write(json.dumps([event, *found[-1]]) + "\n")
                yield event, found

        return show(ended(), options.markdown)


if __name__ == "__main__":
    sys.exit(main())
