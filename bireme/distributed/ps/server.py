"""The process of a parameter server: it answers calls over gRPC until it is told to stop."""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.distributed import world
from bireme.distributed.ps import table_files
from bireme.distributed.ps.messages import LARGEST, Message, decode, encode
from bireme.distributed.ps.shard import Shard

SERVICE = "bireme.ParameterServer"
TIMEOUT = "BIREME_PS_TIMEOUT"  # seconds that a call may take, 120 where it is not set
SPARE = 5.0  # seconds of a call's time, half of it at most, that a server keeps to say who is missing
ROUNDS = 64  # of meetings that are remembered


def timeout() -> float:
    """Seconds that a call may take."""
    text = os.environ.get(TIMEOUT, "120")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise errors.bad(f"environment variable {TIMEOUT}", "a positive number of seconds", text)
    return seconds


def secret(address: str) -> str:
    """What both sides of a call know. Beyond loopback nobody is served without."""
    given = os.environ.get(world.SECRET, "")
    if not given and not address.startswith(("127.", "localhost:", "[::1]")):
        raise errors.bad(
            f"environment variable {world.SECRET}",
            f"a secret that all processes of the job share, since {address} is not a loopback address",
            described="none",
            hint=f"export {world.SECRET}=$(openssl rand -hex 32) before each of them, the same everywhere",
        )
    return given


class Meeting:
    """What all workers bring under a key, for each when all are there."""

    def __init__(self) -> None:
        self.brought: dict[int, Any] = {}
        self.result: Any = None
        self.done = False


class Meetings:
    """Meetings by key; the last to come makes the result, and the others wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: dict[str, Meeting] = {}

    def join(
        self, key: str, worker: int, count: int, brings: Any, patience: float, make: Callable[[list[Any]], Any]
    ) -> Any:
        """Wait until all have come; what `make` made of what they brought, in the order of ranks."""
        with self._changed:
            meeting = self._open.setdefault(key, Meeting())
            while len(self._open) > ROUNDS:
                self._open.pop(next(iter(self._open)))
            if not meeting.done:
                meeting.brought[worker] = brings
            if len(meeting.brought) == count and not meeting.done:
                meeting.result = make([meeting.brought[rank] for rank in sorted(meeting.brought)])
                meeting.done, meeting.brought = True, dict.fromkeys(meeting.brought)
                self._changed.notify_all()
            if not self._changed.wait_for(lambda: meeting.done, patience):
                there = ", ".join(map(str, sorted(meeting.brought)))
                raise errors.failure(
                    f"{key}: expected {count} workers within {patience:.1f} s, got ranks {there} alone",
                    kind=TimeoutError, pos=None,
                )  # fmt: skip
            return meeting.result


class Server:
    """One parameter server.

    Args:
        address: Where it listens, as ``127.0.0.1:6170``.
        index: Its index among the servers.
        count: The number of servers.
        workers: The number of workers.
    """

    def __init__(self, address: str, index: int, count: int, workers: int):
        self.address, self.workers = address, workers
        self.shard = Shard(index, count)
        self._meetings = Meetings()
        self._stopped: set[int] = set()
        self._end = threading.Event()
        self._pushed: dict[int, tuple[int, int]] = {}  # by worker, its session and the number of its last push
        self._pushing = threading.Lock()
        self._token = secret(address).encode()

    def start(self) -> None:
        """Begin to answer."""
        grpc = extra("grpc", "ps", "for parameter servers", "grpcio")
        size = [("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST)]
        # a worker waits in at most two calls at a time; others must find a thread meanwhile
        pool = ThreadPoolExecutor(2 * self.workers + 4, "bireme-ps")
        self._server = grpc.server(pool, options=[*size, ("grpc.so_reuseport", 0)])
        handlers = {name: grpc.unary_unary_rpc_method_handler(self._handler(grpc, name)) for name in OPERATIONS}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        try:
            self._server.add_insecure_port(self.address)
        except RuntimeError as e:
            raise errors.failure(
                f"run_server(): expected a free address, got {self.address}, which cannot be bound"
            ) from e
        self._server.start()

    def run(self) -> None:
        """Answer until all workers have stopped."""
        self.start()
        self._end.wait()
        self._server.stop(1.0).wait()

    def stop(self) -> None:
        """Stop answering."""
        self._end.set()
        self._server.stop(0).wait()

    def _handler(self, grpc: Any, name: str) -> Callable[[bytes, Any], bytes]:
        operation = getattr(self, f"_{name.lower()}")

        def answer(data: bytes, context: Any) -> bytes:
            told = f"{name} at server {self.shard.index} on {self.address}"
            given = dict(context.invocation_metadata()).get("authorization", "")
            if not hmac.compare_digest(str(given).encode(), self._token):
                context.abort(grpc.StatusCode.UNAUTHENTICATED, f"{told}: expected the secret of the job")
            try:
                head, arrays = decode(data)
                left = max(context.time_remaining() or timeout(), 0.0)
                patience = max(left - SPARE, left / 2)
                made = operation(head, arrays, min(patience, 86_400.0))
                return encode(*made)
            except TimeoutError as e:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"{told}: {_first(e)}")
            except (KeyError, TypeError, StopIteration, IndexError) as e:
                if not isinstance(e, errors.ArgumentError):
                    context.abort(
                        grpc.StatusCode.INVALID_ARGUMENT, f"{told}: expected its fields, got a message without ({e})"
                    )
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{told}: {_first(e)}")
            except (ValueError, RuntimeError, OSError, ImportError, ArithmeticError) as e:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{told}: {_first(e)}")
            raise AssertionError("abort raises")

        return answer

    # ------------------------------------------------------------ what is called

    def _hello(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        return {"index": self.shard.index, "servers": self.shard.count, "workers": self.workers}, []

    def _make(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        for config in head["tables"]:
            self.shard.make_table(config)
        for (name, rule), values in zip(head["dense"], arrays, strict=True):
            self.shard.make_dense(name, rule, values)
        return {}, []

    def _pull(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        (ids,) = arrays
        if ids.dtype != np.uint64 or ids.ndim != 1:
            raise errors.bad("pull(ids)", "a vector of uint64", described=f"{ids.dtype} {list(ids.shape)}")
        table = self.shard.table(head["table"])
        if (ids[1:] > ids[:-1]).all():
            return {}, [table.pull(ids, bool(head["train"]))]
        different, at = np.unique(ids, return_inverse=True)
        return {}, [table.pull(different, bool(head["train"]))[at]]

    def _pulldense(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        return {}, self.shard.pull_dense([str(name) for name in head["names"]])

    def _push(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        """Apply a worker's push, once however often it is sent; in step with the other workers if it says so."""
        worker, number = self._worker(head), int(head["number"])
        if head["together"]:
            key, given = f"step {number}", (head, arrays)
            together = self._meetings.join(key, worker, self.workers, given, patience, self._apply_all)
            return {"stamp": together}, self.shard.pull_dense([str(name) for name in head["wanted"]])
        with self._pushing:
            session, last = self._pushed.get(worker, (-1, -1))
            if session != head["session"] or last < number:
                self.shard.push([(head, arrays)], 1 / self.workers if head["add"] else 1.0, bool(head["add"]))
                self._pushed[worker] = head["session"], number
        return {}, self.shard.pull_dense([str(name) for name in head["wanted"]])

    def _apply_all(self, messages: list[Message]) -> str:
        try:
            self.shard.push(messages, 1 / self.workers, False)
        except (ValueError, TypeError, LookupError) as e:
            return _first(e)  # all of them hear of it
        return ""

    def _worker(self, head: dict[str, Any]) -> int:
        worker = head["worker"]
        if type(worker) is not int or not 0 <= worker < self.workers:
            raise errors.bad("worker", f"a rank below {self.workers}", worker)
        return worker

    def _gather(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        key, worker = f"{head['key']}", self._worker(head)
        brought = self._meetings.join(key, worker, self.workers, arrays[0], patience, list)
        return {}, brought

    def _save(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        folder = str(head["folder"])
        stamp = int(head["stamp"]) or self.shard.next_stamp(folder)
        if not 0 < stamp < 10**20:
            raise errors.bad("save(stamp)", "a positive number of at most 20 digits", stamp)
        return {"rows": self.shard.save(folder, stamp, head["only"]) if head["write"] else {}, "stamp": stamp}, []

    def _clean(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        table_files.clean(str(head["folder"]), self.shard.index, self.shard.count, int(head["stamp"]))
        return {}, []

    def _load(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        return {"stamp": self.shard.load(str(head["folder"]), head["only"])}, []

    def _shrink(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        threshold = float(head["threshold"])
        return {"dropped": {name: table.shrink(threshold) for name, table in list(self.shard.tables.items())}}, []

    def _day(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        self.shard.table(head["table"]).day = int(head["day"])
        return {}, []

    def _stat(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        tables = {name: [t.size, t.nbytes] for name, t in list(self.shard.tables.items())}
        return {"tables": tables, "dense": {name: list(d.shape) for name, d in list(self.shard.dense.items())}}, []

    def _stop(self, head: dict[str, Any], arrays: list[np.ndarray], patience: float) -> Message:
        self._stopped.add(self._worker(head))
        if len(self._stopped) == self.workers:
            self._end.set()
        return {}, []


OPERATIONS = (
    "Hello", "Make", "Pull", "PullDense", "Push", "Gather", "Save", "Clean", "Load", "Shrink", "Day", "Stat", "Stop",
)  # fmt: skip


def _first(e: BaseException) -> str:
    return str(e).splitlines()[0] if str(e) else type(e).__name__
