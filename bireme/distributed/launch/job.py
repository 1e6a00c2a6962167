"""The processes of a job on this machine: started with their environment, watched, and ended together."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

from bireme.core.base import errors
from bireme.core.processes import connection, watch
from bireme.distributed import world
from bireme.distributed.launch import stopped
from bireme.distributed.launch.members import Members
from bireme.distributed.launch.stopped import Stopped

RESTART = 101  # the exit code by which a program asks to be started again, as in Paddle
POLL = 0.05  # seconds between two looks at the processes
GRACE = 10.0  # seconds that the others get to say what they waited for, when one has failed
SAVING = 30.0  # seconds that processes get to save, when they are asked to end
LAST_LINES = 20


class Nodes:
    """The launchers of all machines, which agree on the addresses of their processes. One machine has none to ask."""

    def __init__(self, master: str | None, node: int, count: int):
        self.node, self.count, self._tries = node, count, -1
        self._served: Any = None
        self._service: connection.Service | None = None
        self.host = "127.0.0.1"
        if count > 1:
            assert master is not None, "checked with the command line"
            self.host = own_host(master)
            self._served = connection.serve(master, count) if node == 0 else None
            self._service = connection.Service(master, node, timeout=600)
            self._service.join()

    def begin(self) -> tuple[int, int]:
        """The number of the next try, and how many have failed."""
        self._tries += 1
        return self._tries, self._tries

    def have_changed(self) -> bool:
        """Whether machines were lost or are new: the number of these is fixed."""
        return False

    def share(self, key: str, mine: Any) -> list[Any] | None:
        """What all launchers give, in their order."""
        if self._service is None:
            return [mine]
        self._service.tell(f"{key}/{self.node}", mine)
        if not self._service.meet(f"shared {key}", 600.0):
            raise errors.failure(f"launch: expected {self.count} machines within 600 s, got only some of them")
        return [found for _, found in sorted(self._service.told(f"{key}/").items())]

    def failed(self, try_: int, how: str) -> None:
        """Tell the others that a process of this machine has failed."""
        if self._service is not None:
            self._service.tell(f"failed {try_}/{self.node}", how)

    def failure(self, try_: int) -> str:
        """What another launcher has told about its failure; empty if none has."""
        if self._service is None:
            return ""
        found = self._service.told(f"failed {try_}/")
        return "; ".join(f"machine {node}: {how}" for node, how in sorted(found.items()) if node != self.node)

    def finish(self) -> None:
        """Leave the others; the one that all others ask goes last."""
        if self._service is not None:
            self._service.ended(self.node, "ended")
            if self._served is not None:
                self._service.outlast(self.count, 60.0)
            self._service.leave()


def own_host(master: str) -> str:
    """The address of this machine on the way to the master."""
    host = master.rpartition(":")[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing: it only chooses the interface
        return probe.getsockname()[0]


class Regroup(Exception):
    """A machine was lost before its processes have started."""


class Job:
    """All processes of one try."""

    def __init__(self, command: Sequence[str], count: int, nodes: Nodes | Members, log_dir: str, try_: int = 0):
        self.try_, self.nodes, self.log_dir = try_, nodes, os.path.abspath(log_dir)
        ports = [f"{nodes.host}:{port}" for port in world.free_ports(count + 1, nodes.host)]
        shared = self._agreed("endpoints", ports)
        self._secret = self._agreed("secret", secrets.token_hex(32))[0]
        endpoints = [endpoint for node in shared for endpoint in node[1:]]
        self.coordinator = shared[0][0]
        self._served = connection.serve(self.coordinator, len(endpoints)) if nodes.node == 0 else None
        self.first = sum(len(node) - 1 for node in shared[: nodes.node])
        os.makedirs(self.log_dir, exist_ok=True)
        self._shown: BinaryIO | None = None
        self._ways: dict[int, str] = {}  # how processes have failed that were ended here
        self._kept, self._open = os.pipe()  # its end at the processes closes with this one, however it ends
        self._stopped = Stopped(POLL)
        self._folder = tempfile.TemporaryDirectory(prefix="bireme-launch-")
        self._connected = os.path.join(self._folder.name, "connected")
        self.processes = [
            self._start(command, local, endpoints, count, {"PADDLE_MASTER": self.coordinator, **_tries(try_)})
            for local in range(count)
        ]

    def _agreed(self, what: str, mine: Any) -> list[Any]:
        found = self.nodes.share(f"{what} {self.try_}", mine)
        if found is None:
            raise Regroup
        return found

    def _start(
        self, command: Sequence[str], local: int, endpoints: list[str], count: int, more: dict[str, str]
    ) -> subprocess.Popen:
        rank = self.first + local
        environment = world.environment(rank, endpoints, local, count, self.nodes.count, **more)
        devices = os.environ.get("FLAGS_selected_gpus", "").split(",")  # noqa: SIM112 - Paddle's name
        environment.update({"FLAGS_selected_gpus": devices[local % len(devices)]} if devices[0] else {})
        environment.update(PADDLE_LOG_DIR=self.log_dir, PADDLE_DISTRI_BACKEND="gloo")
        environment.update({"BIREME_COORDINATOR": self.coordinator, connection.CONNECTED: self._connected})
        environment[world.SECRET] = self._secret
        environment[watch.STARTER] = f"{os.getpid()}:{self._kept}"
        with open(self.log_of(local), "ab" if self.try_ else "wb") as log:
            return subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                pass_fds=[self._kept],
            )

    def log_of(self, local: int) -> str:
        return os.path.join(self.log_dir, f"workerlog.{local}")

    def watch(self) -> int:
        """Wait until all have ended well, or end all when one has failed: the exit code."""
        while True:
            time.sleep(POLL)
            self._show()
            codes = [process.poll() for process in self.processes]
            failed = self._end_stopped() or [local for local, code in enumerate(codes) if code]
            if failed:
                return self._fail(failed)
            elsewhere = self.nodes.failure(self.try_)
            if elsewhere:
                sys.stderr.write(f"launch: {elsewhere}\n")
                return 1
            if all(code == 0 for code in codes):
                return 0

    def _end_stopped(self) -> list[int]:
        """End processes that have been stopped for too long; their indices. Who waits for them hears of it first."""
        found = self._stopped.look(process.pid for process in self.processes if process.returncode is None)
        failed = [local for local, process in enumerate(self.processes) if process.pid in found]
        for local in failed:
            self._ways[local] = f"stopped by a signal for {stopped.PATIENCE:.0f} s"
            self._speak_for(local)
            self.processes[local].kill()
            self.processes[local].wait()
        return failed

    def _speak_for(self, local: int) -> None:
        if os.path.exists(self._connected):
            connection.speak_for(self.coordinator, self.first + local, self._how(local))

    def _how(self, local: int) -> str:
        """How a process has failed."""
        code = self.processes[local].returncode or 0
        return self._ways.get(local) or (f"ended by signal {-code}" if code < 0 else f"exit code {code}")

    def _fail(self, failed: list[int]) -> int:
        """Tell which process has failed, after those that wait for it had time to say so."""
        for local in failed:
            self._speak_for(local)
        until = time.monotonic() + GRACE
        while any(process.poll() is None for process in self.processes) and time.monotonic() < until:
            time.sleep(POLL)
        self._print_stacks()
        self._show()
        # where several have ended at once, one that a signal has ended did not end because of another
        local = min(failed, key=lambda i: (self.processes[i].returncode > 0, self._was_lost(i), i))
        code = self.processes[local].returncode
        told = f"rank {self.first + local} on {socket.gethostname()} has failed: {self._how(local)}"
        self.nodes.failed(self.try_, told)
        last = "".join(f"  {line}\n" for line in self._last_lines(local))
        sys.stderr.write(f"launch: {told}; the last lines of {self.log_of(local)}:\n{last}")
        sys.stderr.flush()
        return 128 - code if code < 0 else code

    def _print_stacks(self) -> None:
        """Let processes that still run write where they are into their logs."""
        running = [process for process in self.processes if process.poll() is None]
        for process in running if os.path.exists(self._connected) else ():  # all know the signal by then
            process.send_signal(watch.STACKS)
            time.sleep(POLL)

    def _was_lost(self, local: int) -> bool:
        """Whether a process has ended because of another."""
        return any("ProcessLostError" in line for line in self._last_lines(local))

    def _last_lines(self, local: int) -> list[str]:
        with open(self.log_of(local), "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(log.tell() - 16_384, 0))
            return log.read().decode(errors="replace").splitlines()[-LAST_LINES:]

    def _show(self) -> None:
        """Print what the first process of this machine has written since the last time."""
        if self._shown is None:
            self._shown = open(self.log_of(0), "rb")  # noqa: SIM115 - closed by `stop`
        text = self._shown.read().decode(errors="replace")
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def stop(self, patience: float = 5.0) -> None:
        """End the processes that still run: asked first, then made to."""
        for ask, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
            running = [process for process in self.processes if process.poll() is None]
            for process in running:
                process.send_signal(ask)
            until = time.monotonic() + seconds
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(until - time.monotonic(), 0))
        self._show()
        if self._shown is not None:
            self._shown.close()
        os.close(self._kept)
        os.close(self._open)
        self._folder.cleanup()


def _tries(count: int) -> dict[str, str]:
    return {"PADDLE_RESTART_COUNT": str(count)} if count else {}


def run(
    command: Sequence[str], count: int, nodes: Nodes | Members, log_dir: str, restarts: int, any_failure: bool
) -> int:
    """Run a job, again after a failure as often as is allowed, and whenever machines come or go: the exit code."""
    for ask in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ask, _asked_to_end)
    while True:
        try_, failures = nodes.begin()
        if failures:
            sys.stderr.write(f"launch: restart {failures} of {restarts}\n")
        elif try_:
            sys.stderr.write(f"launch: goes on with {nodes.count} machines\n")
        try:
            code = _tried(Job(command, count, nodes, log_dir, try_))
        except Regroup:
            continue
        if code and nodes.have_changed():
            continue
        if not code or failures == restarts or not (any_failure or code == RESTART):
            nodes.finish()
            return code


def _tried(job: Job) -> int:
    patience = 5.0
    try:
        code = job.watch()
        # those who are asked to end because another machine has come may save first
        patience = SAVING if job.nodes.have_changed() else patience
        return code
    except SystemExit:  # this launcher is asked to end: so are its processes
        patience = SAVING
        raise
    finally:
        job.stop(patience)


def _asked_to_end(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)
