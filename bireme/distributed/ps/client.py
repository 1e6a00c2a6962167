"""A worker's calls to all servers: each with a deadline, and errors that name the server and what was asked of it."""

from __future__ import annotations

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.distributed.ps import server as servers
from bireme.distributed.ps.messages import LARGEST, Message, decode, encode
from bireme.distributed.ps.shard import owner

PART = 1 << 26  # bytes of rows in one message


class Client:
    """The servers of a job, as one worker sees them.

    Args:
        addresses: Where the servers listen, in their order.
        rank: Rank of this worker.
    """

    def __init__(self, addresses: list[str], rank: int):
        self._grpc = extra("grpc", "ps", "for parameter servers", "grpcio")
        self.addresses, self.rank, self.timeout = addresses, rank, servers.timeout()
        options = [
            ("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST),
            # a server that is started again is found soon, whatever was tried before
            ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1),
        ]  # fmt: skip
        self._secrets = [servers.secret(address) for address in addresses]
        self._channels = [self._grpc.insecure_channel(address, options) for address in addresses]
        self._pool = ThreadPoolExecutor(2 * len(addresses), "bireme-ps")
        self._session, self._numbers = secrets.randbits(53), 0  # a worker that is started again counts anew
        self._lock = threading.Lock()
        self.gatherings = 0

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        for channel in self._channels:
            channel.close()

    # ------------------------------------------------------------ one server

    def call(self, server: int, name: str, head: dict[str, Any], arrays: list[np.ndarray] | tuple = ()) -> Message:
        """Ask one server. A server that is away is waited for, and asked again, until the time is over."""
        return self._call(server, name, encode(head, arrays), errors.position())

    def _call(self, server: int, name: str, data: bytes, pos: Any = None) -> Message:
        until = time.monotonic() + self.timeout
        method = self._channels[server].unary_unary(f"/{servers.SERVICE}/{name}")
        metadata = (("authorization", self._secrets[server]),) if self._secrets[server] else ()
        while True:
            left = max(until - time.monotonic(), 0.001)
            try:
                return decode(method(data, timeout=left, metadata=metadata, wait_for_ready=True))
            except self._grpc.RpcError as e:
                # a push has a number, and all else may be asked twice
                if e.code() != self._grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                    raise self._failure(server, name, e, pos) from None

    def _failure(self, server: int, name: str, e: Any, pos: Any) -> Exception:
        codes = self._grpc.StatusCode
        who = f"worker {self.rank}: {name} at server {server} on {self.addresses[server]}"
        detail = str(e.details() or e.code().name).splitlines()[0]
        if e.code() in (codes.DEADLINE_EXCEEDED, codes.UNAVAILABLE):
            if detail.startswith(f"{name} at server"):  # the server itself has said who is missing
                return errors.failure(f"worker {self.rank}: {detail}", kind=TimeoutError, pos=pos)
            lost = f"{who}: expected an answer within {self.timeout:g} s, got none"
            hint = "start the server again, or see its log"
            return errors.failure(lost, kind=errors.ProcessLostError, hint=hint, pos=pos)
        kind = errors.ArgumentError if e.code() == codes.INVALID_ARGUMENT else RuntimeError
        told = f"worker {self.rank}: {detail}" if " at server " in detail else f"{who}: {detail}"
        return errors.failure(told, kind=kind, pos=pos)

    # ------------------------------------------------------------ all servers

    def each(self, calls: list[tuple[int, str, dict[str, Any], list[np.ndarray]]]) -> list[Message]:
        """Make several calls side by side; their answers."""
        if len(calls) == 1:
            return [self.call(*calls[0])]
        pos = errors.position()  # of the user's line, which a thread of the pool does not see
        ask = [self._pool.submit(self._call, s, name, encode(head, arrays), pos) for s, name, head, arrays in calls]
        return [one.result() for one in ask]

    def all(self, name: str, head: dict[str, Any]) -> list[dict[str, Any]]:
        """Ask all servers the same; their answers."""
        return [told for told, _ in self.each([(s, name, head, []) for s in range(len(self.addresses))])]

    def pull(self, table: str, ids: np.ndarray, width: int, train: bool) -> np.ndarray:
        """The rows of ids that are sorted and all different."""
        at = owner(ids, len(self.addresses))
        made = np.empty((ids.size, width), np.float32)
        most = max(PART // (4 * width), 1)
        wanted = [
            (s, part)
            for s in range(len(self.addresses))
            for mine in [np.flatnonzero(at == s)]
            for part in [mine[i : i + most] for i in range(0, mine.size, most)]
        ]
        answers = self.each([(s, "Pull", {"table": table, "train": train}, [ids[part]]) for s, part in wanted])
        for (s, part), (_, arrays) in zip(wanted, answers, strict=True):
            if len(arrays) != 1 or arrays[0].shape != (part.size, width):
                got = f"shape {[list(a.shape) for a in arrays]}"
                raise errors.bad(f"server {s}: Pull({table})", f"rows of shape {[part.size, width]}", described=got)
            made[part] = arrays[0]
        return made

    def push(
        self,
        sparse: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
        dense: dict[str, tuple[int, np.ndarray]],
        lr: float,
        *,
        together: bool = False,
        add: bool = False,
        wanted: dict[str, int] | None = None,
    ) -> dict[str, np.ndarray]:
        """Send gradients to the servers of their rows and parameters; the new values of the dense parameters `wanted`,
        which are given with their servers. In step with other workers each server gets a message, however short.
        """
        for name, (ids, grads, seen) in sparse.items() if not together else ():
            most = max(PART // (4 * grads.shape[1] + 16), 1)
            while ids.size > most:  # what is more than a message is sent before
                self._push({name: (ids[:most], grads[:most], seen[:most])}, {}, lr, False, add, {})
                ids, grads, seen = ids[most:], grads[most:], seen[most:]
                sparse = {**sparse, name: (ids, grads, seen)}
        return self._push(sparse, dense, lr, together, add, wanted or {})

    def _push(self, sparse: Any, dense: Any, lr: float, together: bool, add: bool, wanted: dict) -> dict[str, Any]:
        with self._lock:
            number, self._numbers = self._numbers, self._numbers + 1
        count = len(self.addresses)
        tables: list[dict[str, list[np.ndarray]]] = [{} for _ in range(count)]
        for name, (ids, grads, seen) in sparse.items():
            at = owner(ids, count)
            for s in range(count):
                mine = np.flatnonzero(at == s)
                if mine.size or together:
                    tables[s][name] = [ids[mine], grads[mine], seen[mine]]
        calls: list[tuple[int, str, dict[str, Any], list[np.ndarray]]] = []
        for s in range(count):
            own = {name: grad for name, (home, grad) in dense.items() if home == s}
            asked = [name for name, home in wanted.items() if home == s]
            if together or tables[s] or own or asked:
                head: dict[str, Any] = {
                    "worker": self.rank, "session": self._session, "number": number, "together": together, "add": add,
                    "lr": lr, "tables": list(tables[s]), "dense": list(own), "wanted": asked,
                }  # fmt: skip
                calls.append((s, "Push", head, [*[a for three in tables[s].values() for a in three], *own.values()]))
        values: dict[str, np.ndarray] = {}
        for (s, _, head, _), (told, arrays) in zip(calls, self.each(calls), strict=True):
            if told.get("stamp"):
                raise errors.failure(
                    f"worker {self.rank}: Push at server {s}: {told['stamp']}", kind=errors.ArgumentError
                )
            values.update(zip(head["wanted"], arrays, strict=True))
        return values

    def gather(self, data: bytes) -> list[bytes]:
        """What all workers give, in the order of ranks; all of them have to call."""
        self.gatherings += 1
        head = {"key": f"meeting {self.gatherings}", "worker": self.rank}
        _, arrays = self.call(0, "Gather", head, [np.frombuffer(data, np.uint8)])
        return [array.tobytes() for array in arrays]

    def save(self, folder: str, only: str | None = None) -> None:
        """Save all tables: earlier files go when all servers have written theirs."""
        head = {"folder": folder, "only": only, "write": False, "stamp": 0}
        stamp = self.call(0, "Save", head)[0]["stamp"]
        self.all("Save", {**head, "write": True, "stamp": stamp})
        self.all("Clean", {"folder": folder, "stamp": stamp})
