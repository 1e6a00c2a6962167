"""A job with parameter servers on this machine: servers and workers, each with its environment, ended together."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bireme.distributed import programs, world

COUNTS = {"server_num", "worker_num", "trainer_num"}
LISTS = {"servers", "workers", "trainers"}
POLL = 0.05  # seconds between two looks at the processes
GRACE = 30.0  # seconds for servers to end after the last worker
LAST_LINES = 20


def wanted(options: dict[str, str]) -> bool:
    """Whether a job has parameter servers."""
    return options.get("run_mode") == "ps" or bool({*COUNTS, *LISTS} & set(options))


def run(command: Sequence[str], options: dict[str, str], refuse: Callable[[str], Any]) -> int:
    """Run servers and workers until all workers have ended, or one process has failed: the exit code."""
    servers = _addresses(options, "servers", "server_num")
    workers = _addresses(options, "trainers" if "trainers" in options else "workers", "worker_num", "trainer_num")
    if not servers or not workers:
        refuse("expected --server_num N and --worker_num N, from 1")
    for ask in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ask, _asked_to_end)
    job = Job(command, servers, workers, os.path.abspath(options.get("log_dir", "log")))
    try:
        return job.watch()
    finally:
        job.stop()


def _addresses(options: dict[str, str], listed: str, *counted: str) -> list[str]:
    if listed in options:
        return options[listed].split(",")
    count = next((int(options[name]) for name in counted if name in options), 0)
    return [f"127.0.0.1:{port}" for port in world.free_ports(count)]


class Job:
    """The processes: servers first."""

    def __init__(self, command: Sequence[str], servers: list[str], workers: list[str], log_dir: str):
        os.makedirs(log_dir, exist_ok=True)
        common = {
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(servers),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(workers),
            "PADDLE_TRAINERS_NUM": str(len(workers)),
            "PADDLE_LOG_DIR": log_dir,
            world.SECRET: os.environ.get(world.SECRET) or secrets.token_hex(32),
        }
        self._names = [*[f"server {i}" for i in range(len(servers))], *[f"worker {i}" for i in range(len(workers))]]
        self._logs = [os.path.join(log_dir, f"{name.replace(' ', 'log.')}") for name in self._names]
        self._processes: list[Any] = []
        self._servers, self._shown = len(servers), 0
        for i, (address, log) in enumerate(zip([*servers, *workers], self._logs)):
            host, _, port = address.rpartition(":")
            own = {"TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": port}
            if i >= len(servers):
                own = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i - len(servers))}
            with open(log, "wb") as file:
                self._processes.append(programs.start(command, {**common, **own}, file))

    def watch(self) -> int:
        """Wait until all have ended well, or one has failed: the exit code. The first worker's output is shown."""
        until = None
        while True:
            time.sleep(POLL)
            self._show()
            codes = [process.poll() for process in self._processes]
            failed = [i for i, code in enumerate(codes) if code]
            if failed:
                return self._tell(failed[0], f"ended with {codes[failed[0]]}")
            if all(code == 0 for code in codes):
                return 0
            if all(code == 0 for code in codes[self._servers :]):
                until = time.monotonic() + GRACE if until is None else until
                if time.monotonic() > until:
                    running = codes.index(None)
                    return self._tell(
                        running, "goes on though all workers have ended: call fleet.stop_worker() in each"
                    )

    def _tell(self, which: int, how: str) -> int:
        with open(self._logs[which], "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(log.tell() - 16_384, 0))
            lines = log.read().decode(errors="replace").splitlines()[-LAST_LINES:]
        last = "".join(f"  {line}\n" for line in lines)
        sys.stderr.write(f"launch: {self._names[which]} {how}; the last lines of {self._logs[which]}:\n{last}")
        code = self._processes[which].returncode
        return 1 if code is None else 128 - code if code < 0 else code

    def _show(self) -> None:
        with open(self._logs[self._servers], "rb") as log:
            log.seek(self._shown)
            text = log.read()
        self._shown += len(text)
        sys.stdout.write(text.decode(errors="replace"))
        sys.stdout.flush()

    def stop(self) -> None:
        """End what still runs."""
        for process in self._processes:
            programs.end(process, 5.0)
        self._show()


def _asked_to_end(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)
