"""The process as a server and a client of calls: connections with an agreed secret, and threads that answer."""

from __future__ import annotations

import builtins
import contextlib
import itertools
import socket
import threading
import time
from collections import namedtuple
from concurrent.futures import Future, TimeoutError
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from bireme.core.base import errors
from bireme.core.processes.connection import Service, first_line
from bireme.distributed.rpc.values import decode, encode, find

WorkerInfo = namedtuple("WorkerInfo", ["name", "rank", "ip", "port"])
WorkerInfo.__doc__ = """A process that calls functions and has its own called.

Args:
    name: Its name, different from all others.
    rank: Its rank among the processes of ``init_rpc``.
    ip: Address of the machine.
    port: Port at which it is called.

Examples:
    >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
    >>> info = bireme.distributed.rpc.get_worker_info("worker0")
    >>> info.name, info.rank
    ('worker0', 0)
    >>> bireme.distributed.rpc.shutdown()
"""

POLL = 0.05  # seconds between two looks at whether all have finished
WAKING = 5.0  # seconds at most that a thread needs to see that it is to end
GONE = (OSError, EOFError, AuthenticationError)


class Reply:
    """What ``rpc_async`` returns: the result that is still to come.

    Args:
        future: Where the answer arrives.
        call: The call in words.
        timeout: Seconds after which ``wait`` gives up; not above 0 for never.

    Examples:
        >>> bireme.distributed.rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> reply = bireme.distributed.rpc.rpc_async("worker0", max, args=(2, 3))
        >>> reply.wait()
        3
        >>> bireme.distributed.rpc.shutdown()
    """

    def __init__(self, future: Future, call: str, timeout: float):
        self._future, self._call = future, call
        self._timeout = timeout if timeout > 0 else None
        self._until = None if self._timeout is None else time.monotonic() + self._timeout

    def done(self) -> bool:
        """Return whether the answer is there."""
        return self._future.done()

    def wait(self) -> Any:
        """Wait for the answer.

        Returns:
            What the function returned.

        Raises:
            Exception: What the function raised: the same class where it is one of Python's or of ``bireme.errors``,
                else ``RuntimeError``; ``ProcessLostError`` if the other process is gone; ``TimeoutError`` after
                the time of the call.
        """
        try:
            left = None if self._until is None else max(self._until - time.monotonic(), 0)
            return self._future.result(left)
        except TimeoutError:
            if self._future.done():
                raise
            raise errors.failure(
                f"{self._call}: expected an answer within {self._timeout:g} s, got none", kind=builtins.TimeoutError
            ) from None


class Agent:
    """This process among those that call each other."""

    def __init__(self, name: str, rank: int, size: int, service: Service | None, host: str, secret: bytes):
        self._secret, self._service, self.size, self._host = secret, service, size, host
        self._listener = Listener((host, 0), "AF_INET", backlog=size + 8)
        self.info = WorkerInfo(name, rank, host, self._listener.address[1])
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._closed = False
        self._accepting = threading.Thread(target=self._accept, name="bireme-rpc", daemon=True)
        self._accepting.start()
        self.infos = self._met()

    def _met(self) -> dict[str, WorkerInfo]:
        """All processes by name, when all are there."""
        if self._service is None:
            return {self.info.name: self.info}
        self._service.tell(f"rpc/info/{self.info.rank}", list(self.info))
        if not self._service.meet("rpc/init", 600.0):
            self.close()
            raise errors.failure(f"init_rpc(): expected {self.size} processes within 600 s, got only some of them")
        found = [WorkerInfo(*info) for _, info in sorted(self._service.told("rpc/info/").items())]
        names = [info.name for info in found]
        if len(set(names)) < len(names):
            self.close()
            raise errors.bad("init_rpc(name)", "a name for each process that no other has", names)
        return {info.name: info for info in found}

    # ------------------------------------------------------------ being called

    def _accept(self) -> None:
        while not self._closed:
            try:
                link = self._listener.accept()
            except OSError:  # closed, or somebody who went away again
                continue
            threading.Thread(target=self._serve, args=(link,), name="bireme-rpc", daemon=True).start()

    def _serve(self, link: Connection) -> None:
        """Answer the calls of one process. One that does not know the secret is not listened to."""
        sending = threading.Lock()
        with contextlib.suppress(*GONE), link:
            deliver_challenge(link, self._secret)
            answer_challenge(link, self._secret)
            while True:
                request = link.recv_bytes()
                # a thread for each: a function that calls back must not wait for a free one
                run = threading.Thread(target=_answer, args=(link, sending, request), name="bireme-rpc", daemon=True)
                run.start()

    # ------------------------------------------------------------ calling

    def call(self, where: str, to: str, function: list[str], args: Any, kwargs: Any, timeout: float) -> Reply:
        """Call a function of a process."""
        if to not in self.infos:
            raise errors.bad(f"{where}(to)", f"one of the workers {', '.join(self.infos)}", to)
        told = f"{where}({function[1]}) at {errors.location(errors.position())} of {self._named(to)}"
        data = encode(f"{where}(args)", [function, args, kwargs])
        return Reply(self._link(to, told).send(data, told), told, timeout)

    def _named(self, name: str) -> str:
        info = self.infos[name]
        return f"worker {name!r}, rank {info.rank} on {info.ip}"

    def _link(self, to: str, told: str) -> Link:
        with self._lock:
            link = self._links.get(to)
            if link is None or link.broken:
                try:
                    info = self.infos[to]
                    made = Client((info.ip, info.port), "AF_INET")
                    answer_challenge(made, self._secret)
                    deliver_challenge(made, self._secret)
                except GONE as e:
                    raise _lost(told, e) from e
                link = self._links[to] = Link(made)
            return link

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        """Wait until all have finished, answering meanwhile; one that is gone is not waited for."""
        if self._service is not None:
            self._service.tell(f"rpc/done/{self.info.rank}", "")
            while True:
                left = set(range(self.size)) - set(self._service.told("rpc/done/"))
                if not left - set(self._service.told("ended/")):
                    break
                time.sleep(POLL)
        self.close()

    def close(self) -> None:
        self._closed = True
        for link in self._links.values():
            link.close()
        with contextlib.suppress(*GONE):
            Client((self._host, self.info.port), "AF_INET").close()  # wakes the thread that accepts
        # it would go on at this number of a file, which the next listener may have
        self._accepting.join(WAKING)
        self._listener.close()


class Link:
    """The calls of this process to another: sent one after the other, answered in any order."""

    def __init__(self, connection: Connection):
        self._connection, self._sending, self._numbers = connection, threading.Lock(), itertools.count()
        self._open: dict[int, tuple[Future, str]] = {}
        self.broken = False
        threading.Thread(target=self._receive, name="bireme-rpc", daemon=True).start()

    def send(self, data: bytes, told: str) -> Future:
        future: Future = Future()
        number = next(self._numbers)
        self._open[number] = future, told
        try:
            with self._sending:
                self._connection.send_bytes(number.to_bytes(8, "little") + data)
        except GONE as e:
            self._break(e)
        if self.broken and not future.done():  # it broke between looking and sending
            self._break(EOFError())
        return future

    def _receive(self) -> None:
        try:
            while True:
                answer = self._connection.recv_bytes()
                future, told = self._open.pop(int.from_bytes(answer[:8], "little"))
                _settle(future, told, answer[8:])
        except GONE as e:
            self._break(e)
        self._connection.close()

    def _break(self, error: BaseException) -> None:
        self.broken = True
        while self._open:
            future, told = self._open.popitem()[1]
            future.set_exception(_lost(told, error))

    def close(self) -> None:
        """End the connection: who reads from it, here and there, sees its end. A closed one would be read on."""
        with (
            contextlib.suppress(OSError),  # it is closed
            socket.fromfd(self._connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same,
        ):
            same.shutdown(socket.SHUT_RDWR)


def _lost(told: str, error: BaseException) -> Exception:
    return errors.as_told(errors.ProcessLostError(f"{told}: the process is gone ({first_line(error)})"))


def _answer(link: Connection, sending: Any, request: bytes) -> None:
    """Call the function of a request, and send back what it returned or raised."""
    outcome = _Outcome()
    with outcome:
        function, args, kwargs = decode(request[8:])
        outcome.answer = encode("rpc: result", ["returned", find(function)(*args, **kwargs)])
    with contextlib.suppress(*GONE), sending:
        link.send_bytes(request[:8] + outcome.answer)


class _Outcome:
    """What a call came to: whatever is raised inside, the one who called gets it."""

    answer = b""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> bool:
        if error is not None:
            self.answer = encode("rpc", ["raised", type(error).__name__, str(error)])
        return True


def _settle(future: Future, told: str, answer: bytes) -> None:
    """Give a future the result, or the error, that an answer holds."""
    try:
        how, *given = decode(answer)
    except errors.FileFormatError as e:
        future.set_exception(e)
        return
    if how == "returned":
        future.set_result(given[0])
        return
    name, text = given
    kind = getattr(errors, name, None) or getattr(builtins, name, None)
    plain = isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, (OSError, UnicodeError))
    message = f"{text}\n  in {told}" if plain else f"{name}: {text}\n  in {told}"
    future.set_exception(errors.as_told((kind if plain else RuntimeError)(message)))  # type: ignore[misc]  # checked
