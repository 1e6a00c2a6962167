"""Messages from one process to another, through the coordination service: who sends goes on at once, in whatever order
the two make their calls.
"""

from __future__ import annotations

import json
import time
from typing import Any

import jax
import numpy as np

from bireme.core.base import errors
from bireme.core.processes.collectives import Call
from bireme.core.processes.connection import Connection
from bireme.core.processes.watch import Wait

PART = 4 << 20  # bytes of one entry in the service
WINDOW = 8  # messages that may be under way to one process; then who sends waits for who receives
POLL = 1.0  # seconds between two looks at whether the other process still lives


class Mailbox:
    """The messages of this process, counted per direction, other process and tag: those with the same arrive in the order
    of calls.
    """

    def __init__(self, connection: Connection, timeout: float = 1800.0):
        self.connection, self.timeout = connection, timeout
        self._sent: dict[tuple[int, str], int] = {}
        self._expected: dict[tuple[int, str], int] = {}

    def send(self, call: Call, rank: int, what: Any, data: Any, tag: str = "") -> None:
        """Send bytes to a process, and a word about them that is JSON."""
        client, me = self.connection.client, self.connection.rank
        number = self._sent[rank, tag] = self._sent.get((rank, tag), 0) + 1
        flat = memoryview(data).cast("B") if len(data) else b""
        parts = -(-len(flat) // PART)
        for i in range(parts):
            client.key_value_set_bytes(_key(me, rank, tag, number, i + 1), bytes(flat[i * PART : (i + 1) * PART]))
        client.key_value_set(_key(me, rank, tag, number, 0), json.dumps([what, parts]))
        if number > WINDOW:
            self._wait_until_received(call, rank, tag, number - WINDOW)

    def _wait_until_received(self, call: Call, rank: int, tag: str, number: int) -> None:
        key = _key(self.connection.rank, rank, tag, number, 0)
        wait = self._wait(call, f"send{tag}", rank, number)
        with self.connection.waiting(wait):
            while self._is_there(key):
                self._check(wait, rank)
                time.sleep(0.002)

    def _is_there(self, key: str) -> bool:
        try:
            self.connection.client.key_value_try_get(key)
        except jax.errors.JaxRuntimeError as e:
            if "NOT_FOUND" in str(e):
                return False
            raise
        return True

    def expect(self, rank: int, tag: str = "") -> int:
        """The number of the next message from a process."""
        self._expected[rank, tag] = self._expected.get((rank, tag), 0) + 1
        return self._expected[rank, tag]

    def receive(self, call: Call, rank: int, number: int, tag: str = "") -> tuple[Any, bytearray]:
        """Wait for a message: the word about it, and its bytes."""
        client, me = self.connection.client, self.connection.rank
        wait = self._wait(call, f"recv{tag}", rank, number)
        with self.connection.waiting(wait):
            what, parts = json.loads(self._get(wait, rank, _key(rank, me, tag, number, 0)))
            data = bytearray()
            for i in range(parts):
                key = _key(rank, me, tag, number, i + 1)
                data += client.blocking_key_value_get_bytes(key, int(self.timeout * 1000))
                client.key_value_delete(key)
            client.key_value_delete(_key(rank, me, tag, number, 0))
        return what, data

    def _get(self, wait: Wait, rank: int, key: str) -> str:
        while True:
            try:
                return self.connection.client.blocking_key_value_get(key, int(POLL * 1000))
            except jax.errors.JaxRuntimeError as e:
                if "DEADLINE_EXCEEDED" not in str(e):
                    raise self.connection.lost(wait) from e
            self._check(wait, rank)

    def _wait(self, call: Call, kind: str, rank: int, number: int) -> Wait:
        key = f"{kind}/{self.connection.rank}/{rank}/{number}"
        return Wait(key, f"{call.text} at {call.line}", (rank,), self.timeout)

    def _check(self, wait: Wait, rank: int) -> None:
        """Raise an error if the other process is gone, or the time over."""
        if rank in self.connection.told("ended/"):
            raise self.connection.lost(wait)
        if time.monotonic() - wait.since > self.timeout:
            raise errors.failure(f"{wait.text}: {self.connection.name(rank)} did not come in {self.timeout:.0f} s")


def _key(source: int, target: int, tag: str, number: int, part: int) -> str:
    return f"message/{source}/{target}/{tag}/{number}/{part}"


def array_of(call: Call, what: list, data: bytearray, dtype: np.dtype, shape: list[int], source: str) -> np.ndarray:
    """The array of a message, which has to be of a dtype and shape."""
    if what != [dtype.name, shape]:
        raise errors.bad(
            f"{call.name}(tensor)",
            f"a tensor of {what[0]}{what[1]}, which {source} has sent",
            described=f"{dtype.name}{shape}",
            kind=RuntimeError,
        )
    return np.frombuffer(data, dtype).reshape(shape)
