"""Machines that come and go: the launcher of the first one keeps the list, and the others ask it.

A generation is the set of machines that a try of the job runs on. It ends when one of them is lost, fails or is new; the
next begins when `most` are there, or at least `least` and nobody else has come for a while.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import secrets
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from bireme.core.base import errors
from bireme.distributed import world

SILENT = 20.0  # seconds without a word after which a machine counts as lost
RETRY = 0.2  # seconds between two attempts to reach the first machine
GREETING = 10  # seconds to prove that one knows the secret after connecting, and for each message to be whole
STRANGERS = 64  # who may be proving it at a time; others are turned away
LONGEST = 1 << 20  # bytes of a question
QUESTIONS = frozenset(("join", "share", "look", "fail", "done"))


def is_local(address: str) -> bool:
    """Whether an address is reached from this machine alone."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key() -> bytes:
    """What a launcher has to know to be listened to: the secret that whoever starts the machines has given them all, or, on
    one machine, what stands in a file that its user alone can read. The first who asks makes it.
    """
    given = os.environ.get(world.SECRET, "")
    if given:
        return given.encode()
    folder = os.path.join(tempfile.gettempdir(), f"bireme-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise errors.failure(f"launch: expected {folder} to be a folder that only its user can read")
    path = os.path.join(folder, "launch.key")
    if not os.path.exists(path):
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)  # whole, and that of the first
        os.unlink(file.name)
    with open(path, "rb") as key:
        return key.read()


def _limit(link: Connection, seconds: float) -> None:
    """Give up reading from a connection, in the midst of a message too, when nothing has come for so long."""
    time_value = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(link.fileno())) as same:
        for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            same.setsockopt(socket.SOL_SOCKET, which, time_value)


class List:
    """The list of the machines, on the first of them; a thread answers each launcher."""

    def __init__(self, address: str, least: int, most: int, patience: float):
        host, _, port = address.rpartition(":")
        self.least, self.most, self.patience = least, most, patience
        self._listener = Listener((host, int(port)), backlog=64)
        self._secret, self._greeted = _key(), threading.BoundedSemaphore(STRANGERS)
        self._changed = threading.Condition()
        self._machines: list[int] = []  # all that are there, in the order they came
        self._waiting: set[int] = set()  # those that are ready for the next generation
        self._members: list[int] = []  # of this generation
        self._generation, self._restarts, self._next = -1, 0, 0
        self._last = time.monotonic()  # when somebody came
        self._failure, self._regroup, self._closed = "", False, False
        self._shared: dict[str, dict[int, Any]] = {}
        threading.Thread(target=self._accept, name="bireme-machines", daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                link = self._listener.accept()
            except OSError:  # who came is gone again, or this is the end
                continue
            if self._greeted.acquire(blocking=False):
                threading.Thread(target=self._greet, args=(link,), name="bireme-machine", daemon=True).start()
            else:
                link.close()

    def _greet(self, link: Connection) -> None:
        """Answer one who knows the secret. It is asked for in a thread of its own: a stranger may say nothing at all."""
        try:
            _limit(link, GREETING)
            deliver_challenge(link, self._secret)
            answer_challenge(link, self._secret)
        except (OSError, EOFError, ValueError, AuthenticationError):  # not one of ours
            link.close()
            return
        finally:
            self._greeted.release()
        with self._changed:
            machine, self._next = self._next, self._next + 1
        self._answer(link, machine)

    def _answer(self, link: Connection, machine: int) -> None:
        done = False
        # who asks something else is no launcher of this version, and counts as lost
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError), link:
            while not done and link.poll(SILENT):
                what, given = json.loads(link.recv_bytes(LONGEST))
                if what not in QUESTIONS:
                    raise ValueError(what)
                done = what == "done"
                link.send_bytes(json.dumps(getattr(self, f"_{what}")(machine, given)).encode())
        with self._changed:
            if not done:
                self._lose(machine)
            self._changed.notify_all()

    def _lose(self, machine: int) -> None:
        if machine in self._machines:
            self._machines.remove(machine)
        self._waiting.discard(machine)
        if machine in self._members and not self._failure:
            self._failure, self._regroup = f"machine {self._members.index(machine)} is gone", True

    # ------------------------------------------------------------ what launchers ask, each in its thread

    def _join(self, machine: int, given: Any) -> Any:
        with self._changed:
            if machine not in self._machines:
                self._machines.append(machine)
                self._last = time.monotonic()
                if self._members and not self._failure:
                    self._failure, self._regroup = "another machine has come", True
            self._waiting.add(machine)
            self._changed.notify_all()
            while machine in self._waiting:
                if not self._form():
                    self._changed.wait(RETRY)
            return [self._members.index(machine), len(self._members), self._generation, self._restarts]

    def _form(self) -> bool:
        """Begin a generation if the machines for it are there."""
        there = len(self._waiting)
        late = time.monotonic() - self._last > self.patience
        if there < len(self._machines) or not (there >= self.most or (there >= self.least and late)):
            return False
        self._members, self._waiting = self._machines[: self.most], set()
        if self._generation >= 0 and not self._regroup:
            self._restarts += 1
        self._generation, self._failure, self._regroup, self._shared = self._generation + 1, "", False, {}
        self._changed.notify_all()
        return True

    def _share(self, machine: int, given: Any) -> Any:
        key, value = given
        with self._changed:
            found = self._shared.setdefault(key, {})
            found[machine] = value
            self._changed.notify_all()
            while len(found) < len(self._members) and not self._failure:
                self._changed.wait(RETRY)
            return None if len(found) < len(self._members) else [found[one] for one in self._members]

    def _look(self, machine: int, given: Any) -> Any:
        with self._changed:
            return [self._failure, self._regroup]

    def _fail(self, machine: int, given: Any) -> Any:
        with self._changed:
            if not self._failure:
                self._failure = f"machine {self._members.index(machine)}: {given}"
            return [self._failure, self._regroup]

    def _done(self, machine: int, given: Any) -> Any:
        with self._changed:
            self._machines.remove(machine)
            self._changed.notify_all()
        return None

    def outlast(self, seconds: float) -> None:
        """Wait until all others have left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._machines, seconds)
        self._closed = True
        self._listener.close()


class Members:
    """This machine among those that come and go, as a job asks about the others."""

    def __init__(
        self, master: str, is_first: bool, least: int, most: int, patience: float, own_host: Callable[[str], str]
    ):
        self.node = self.count = 0
        self._list = List(master, least, most, patience) if is_first else None
        self.host = own_host(master)
        self._link = self._reach(master)
        self._try = -1

    def _reach(self, master: str) -> Connection:
        host, _, port = master.rpartition(":")
        until = time.monotonic() + 600
        while True:
            try:
                return Client((host, int(port)), authkey=_key())
            except AuthenticationError:
                told = f"launch: expected the secret of the first machine at {master}, got another one"
                raise errors.failure(told, hint=f"set {world.SECRET} to the same on all machines") from None
            except (OSError, EOFError):
                if time.monotonic() > until:
                    raise errors.failure(f"launch: expected the first machine at {master}, got no answer") from None
                time.sleep(RETRY)

    def _ask(self, what: str, given: Any = None) -> Any:
        try:
            self._link.send_bytes(json.dumps([what, given]).encode())
            return json.loads(self._link.recv_bytes())
        except (OSError, EOFError, TypeError):  # TypeError: a link that another thread closes while this one reads
            sys.stderr.write("launch: the launcher of the first machine is gone\n")
            raise SystemExit(1) from None

    def begin(self) -> tuple[int, int]:
        """Wait for the next generation: its number, and how many failures there were."""
        self.node, self.count, self._try, restarts = self._ask("join")
        return self._try, restarts

    def share(self, key: str, mine: Any) -> list[Any] | None:
        """What all machines give, in their order; None if one was lost meanwhile."""
        return self._ask("share", [key, mine])

    def failed(self, try_: int, how: str) -> None:
        """Tell the others that a process of this machine has failed."""
        self._ask("fail", how)

    def failure(self, try_: int) -> str:
        """Why this try cannot go on; empty if it can."""
        return self._ask("look")[0]

    def have_changed(self) -> bool:
        """Whether it ended because machines were lost or are new: not because of the program."""
        return self._ask("look")[1]

    def close(self) -> None:
        """Break off: to the others this machine is lost."""
        self._link.close()

    def finish(self) -> None:
        """Leave the others; the one that all others ask goes last."""
        self._ask("done")
        if self._list is not None:
            self._list.outlast(60.0)
