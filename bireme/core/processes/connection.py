"""The connection of this process with the others of its job: jax's coordination service, through which processes find
and watch each other, and a client of XLA with gloo, whose programs move the data. The engine's own client stays local.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jaxlib import _jax, xla_client

from bireme.core.base import errors
from bireme.core.processes.watch import Signs, Wait, Watcher

HEARTBEAT = 100  # seconds without a sign of life after which the service gives a process up; its death shows earlier
CONNECTED = "BIREME_CONNECTED"  # a file that tells who started the processes that they have all connected
LINGER = 300.0  # seconds that the process which runs the service waits at its end for the others
SETTLE = 0.5  # seconds that it takes to leave, at most
TASKS = "/proc/self/task"
GRACE = 5.0  # seconds to find out who was lost, and for gloo to report it


def serve(address: str, nodes: int) -> Any:
    """Start the coordination service of a job at an address, for this many nodes; it ends with the object."""
    _check_free(address)
    # recoverable: the end of one process must not abort the others before they can say what they waited for
    with _without_warnings():
        return _jax.get_distributed_runtime_service(address, nodes, heartbeat_timeout=HEARTBEAT, recoverable=True)


def _check_free(address: str) -> None:
    """Raise an error where somebody listens at an address: gRPC says no more than that it has failed, or crashes."""
    host, _, port = address.rpartition(":")
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, int(port)))
        except OSError as e:
            if e.errno == errno.EADDRINUSE:
                described = f"{address}, where another program listens"
                raise errors.bad("master", "an address that is free", described=described, kind=RuntimeError) from None


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """What C++ writes to the standard error stream is not shown: the service warns that it is recoverable."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _threads() -> set[int]:
    """The threads of this process, as the kernel numbers them; none where it does not say."""
    return {int(name) for name in os.listdir(TASKS)} if os.path.isdir(TASKS) else set()


def _let_finish(threads: set[int]) -> None:
    """Let threads of gloo take a core only when who runs there waits, see decisions/063.

    The thread that received a message would take the core of the one that sends, which has the lock of the connection:
    it then asks for the lock again and again until the next tick of the kernel's clock, 4 ms later.
    """
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended, or may not be told
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


class Service:
    """A node of the coordination service: what processes tell each other by name."""

    def __init__(self, address: str, node: int, timeout: int):
        self.client = _jax.get_distributed_runtime_client(
            address,
            node,
            init_timeout=timeout,
            heartbeat_timeout=HEARTBEAT,
            shutdown_on_destruction=False,
            use_compression=False,
        )

    def join(self) -> None:
        """Wait until all nodes are there."""
        self.client.connect()

    def tell(self, key: str, what: Any) -> None:
        self.client.key_value_set(key, json.dumps(what), allow_overwrite=True)

    def told(self, folder: str) -> dict[int, Any]:
        """What each process has told under a folder, by its rank."""
        found = self.client.key_value_dir_get(folder)
        return {int(key.rpartition("/")[2]): json.loads(text) for key, text in found}

    def meet(self, name: str, seconds: float) -> bool:
        """Wait for all nodes: whether they have come in time."""
        try:
            self.client.wait_at_barrier(name, int(seconds * 1000))
        except jax.errors.JaxRuntimeError:
            return False
        return True

    def ended(self, rank: int, how: str, cause: bool = True) -> None:
        """Tell the others that a process has ended, and whether by itself or because of another one."""
        self.tell(f"ended/{rank}", [how, cause])

    def outlast(self, count: int, seconds: float) -> None:
        """Wait until this many have told that they end: losing the service would abort them."""
        until = time.monotonic() + seconds
        while len(self.told("ended/")) < count and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(SETTLE)  # between what they tell and their leaving there is no more to hear

    def leave(self) -> None:
        self.client.shutdown()


def speak_for(address: str, rank: int, how: str) -> None:
    """Tell the others of a job, in which all have connected, how a process has ended that could not tell it itself."""
    service = Service(address, rank, timeout=10)
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # if the others have ended too, nobody has to know
        service.join()
        if rank not in service.told("ended/"):
            service.ended(rank, how)
        service.leave()


class Connection(Service):
    """This process as one of a job."""

    def __init__(self, rank: int, size: int, address: str, host: str, served: Any = None, timeout: int = 300):
        super().__init__(address, rank, timeout)
        self.rank, self.size, self._served = rank, size, served
        self.before_end: list[Callable[[], None]] = []  # what the others may still want of this process
        self.lock = threading.RLock()
        self._left, self._process = False, os.getpid()
        self.join()
        self.tell(f"host/{rank}", socket.gethostname())
        threads = _threads()
        gloo = _jax.make_gloo_tcp_collectives(distributed_client=self.client, hostname=host)
        _let_finish(_threads() - threads)
        backend: Any = xla_client.make_cpu_client(
            distributed_client=self.client, node_id=rank, num_nodes=size, collectives=gloo, num_devices=1
        )
        self.devices = sorted(backend.devices(), key=lambda device: device.process_index)
        self.hosts = self.told("host/")  # all are there: making the client has waited for them
        self.watcher = Watcher(self)
        atexit.register(self.close)

    def name(self, rank: int) -> str:
        """A process as messages name it."""
        return f"rank {rank} on {self.hosts.get(rank, 'an unknown host')}"

    def close(self, error: BaseException | None = None) -> None:
        """Tell how this process ends, and leave."""
        if self._left or self._process != os.getpid():
            return
        if error is None and getattr(sys, "last_value", None) is None:
            while self.before_end:
                self.before_end.pop()()
        self._left = True
        self.watcher.leave(GRACE)
        error = error or getattr(sys, "last_value", None)  # what nobody caught
        how = "ended" if error is None else first_line(error)
        try:
            self.ended(self.rank, how, not isinstance(error, errors.ProcessLostError))
            if self._served is not None:
                self.outlast(self.size, LINGER if error is None else GRACE)
            self.leave()
        except jax.errors.JaxRuntimeError:  # the service has gone before
            return

    @contextlib.contextmanager
    def waiting(self, wait: Wait) -> Iterator[None]:
        """The others may see where this process waits, inside this block."""
        self.watcher.waits = wait
        try:
            yield
        finally:
            self.watcher.waits = None

    def lost(self, wait: Wait) -> Exception:
        """The error to raise where the connection broke during a call: it names who was lost."""
        signs, others = Signs(), [r for r in range(self.size) if r != self.rank]
        until = time.monotonic() + GRACE
        while True:
            found = {r: how for r, how in self.told("ended/").items() if r != self.rank}
            causes = {r: how for r, (how, cause) in found.items() if cause}
            if causes or time.monotonic() > until:
                break
            signs.look(self.told("alive/"), others)
            time.sleep(0.05)
        by = causes or {r: how for r, (how, _) in found.items()}
        by = by or dict.fromkeys(signs.silent(others, GRACE / 2), "without a word")  # nobody was there to speak for it
        who = "; ".join(f"{self.name(r)} is gone ({how})" for r, how in sorted(by.items()))
        told = f"{self.watcher.here(wait)}: {who or 'a process of the group is gone'}"
        return errors.as_told(errors.ProcessLostError(told))


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


class _Current:
    connection: Connection | None = None


def current() -> Connection | None:
    """The connection of this process, None before ``connect``."""
    return _Current.connection


def close(error: BaseException | None = None) -> None:
    """Leave the others at the end of a process, before an error ends it."""
    if _Current.connection is not None:
        _Current.connection.close(error)


def connect(rank: int, size: int, address: str, host: str, served: Any = None) -> None:
    """Connect this process with the others of its job; `served` is the service if this process runs it."""
    _Current.connection = Connection(rank, size, address, host, served)
    if CONNECTED in os.environ:
        with open(os.environ[CONNECTED], "a"):
            pass
