"""Collectives on arrays among some processes of a job, each a program of its own that runs at once, in the order of calls.

Each begins with one small message from everybody to everybody that says what is called: so a call that does not fit is an
error in all processes and no hang, and what fits into that message needs no other. See decisions/040.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import _jax

from bireme.core.base import errors, shutdown
from bireme.core.processes.connection import Connection, first_line
from bireme.core.processes.watch import Wait
from bireme.core.xla_exec import xla

TEXT, SMALL = 224, 1024  # bytes for the text of a call, and for data that travels with it
HEAD = struct.Struct(f"<qqII{TEXT}s")  # bytes of data, `most`, a number for the call, whether it failed, its text
PROGRAMS = 256  # most programs of a channel, one per kind and size of large data
AXIS = "process"

REDUCE: dict[str, Callable] = {
    "SUM": np.add,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "PROD": np.multiply,
    "AVG": np.add,
}
_IN_PROGRAM = {"SUM": jax.lax.psum, "MAX": jax.lax.pmax, "MIN": jax.lax.pmin, "AVG": jax.lax.psum}


class Call:
    """One collective as its processes have to agree on it: what is called, and the line of the user."""

    def __init__(self, name: str, *what: Any):
        self.name = name
        self.text = f"{name}({', '.join(map(str, what))})"
        self.line = errors.location(errors.position())
        self.failed: BaseException | None = None

    def read(self, tensor: Any) -> np.ndarray:
        """The numbers of a tensor. An error in computing them is kept: the other processes have to hear of it."""
        try:
            return tensor._host()
        except errors.TELLING as e:
            self.failed = e
            return np.zeros(tensor.shape, tensor.dtype.np)


def described(array: Any) -> str:
    """Dtype and shape of a tensor or array, as calls name them."""
    return f"{array.dtype.name}{list(array.shape)}"


class _Head(NamedTuple):
    """What a process says of its call, in the order of `HEAD`."""

    size: int
    most: int
    crc: int
    failed: int
    text: bytes


class Channel:
    """The processes that a group's collectives run among; without a connection this process alone.

    `before` is what a process does before it waits for others; that of a mesh, which `is_mesh`, does without.
    """

    before: ClassVar[list[Callable[[], None]]] = []
    is_mesh = False

    def __init__(self, connection: Connection | None, ranks: Sequence[int], id: int = 0, timeout: float = 1800.0):
        self.connection, self.ranks, self.id, self.timeout = connection, tuple(ranks), id, timeout
        self.index = 0 if connection is None else self.ranks.index(connection.rank)
        self._calls = 0
        self._programs: dict[tuple, Any] = {}
        self._open = False

    @property
    def size(self) -> int:
        return len(self.ranks)

    # ------------------------------------------------------------ what the collectives are made of

    def meet(
        self, call: Call, data: np.ndarray | None = None, most: int = 0
    ) -> tuple[list[int], list[np.ndarray] | None]:
        """Meet the others in a call: what they gave as `most`, and their data as bytes if everybody's is small."""
        if not self.is_mesh:
            for do in self.before:
                do()
        if self.size == 1:
            if call.failed is not None:
                raise call.failed
            return [most], None if data is None else [data.copy()]  # what comes back is never what was given
        size = 0 if data is None else data.nbytes
        text = call.text if call.failed is None else first_line(call.failed)
        crc = zlib.crc32(f"{self.id} {call.text}".encode())
        mine = np.zeros(HEAD.size + SMALL, np.uint8)
        HEAD.pack_into(mine.data, 0, size, most, crc, call.failed is not None, f"{text} at {call.line}".encode()[:TEXT])
        if data is not None and size <= SMALL:
            mine[HEAD.size : HEAD.size + size] = data
        rows = self._run(call, "meet", mine)
        heads = [_Head(*HEAD.unpack_from(row.data)) for row in rows]
        self._calls += 1
        self._agree(call, heads)
        given = [head.most for head in heads]
        if max(head.size for head in heads) > SMALL:
            return given, None
        return given, [row[HEAD.size : HEAD.size + head.size] for row, head in zip(rows, heads)]

    def _agree(self, call: Call, heads: Sequence[_Head]) -> None:
        if call.failed is not None:
            raise call.failed
        crcs = {head.crc for head in heads}
        if len(crcs) == 1 and not any(head.failed for head in heads):
            return
        connection = self._connected()
        texts = {rank: head.text.rstrip(b"\0").decode(errors="replace") for rank, head in zip(self.ranks, heads)}
        failed = [rank for rank, head in zip(self.ranks, heads) if head.failed]
        if failed:
            told = "; ".join(f"{texts[rank]} in {connection.name(rank)}" for rank in failed)
            raise errors.failure(f"{call.name}(): expected a tensor from every process, got {told}")
        told = "; ".join(f"{text} in {connection.name(rank)}" for rank, text in texts.items())
        raise errors.bad(
            f"{call.name}()",
            f"the same call in all processes of group {self.id}",
            described=told,
            kind=RuntimeError,
        )

    def _connected(self) -> Connection:
        assert self.connection is not None, "a channel of several processes has a connection"
        return self.connection

    def _run(self, call: Call, kind: str, array: np.ndarray, root: int = 0) -> np.ndarray:
        """Run one program in all processes of the channel: an array from each, an array to each."""
        connection = self._connected()
        wait = Wait(f"{self.id}/{self._calls}/{kind}", f"{call.text} at {call.line}", self.ranks, self.timeout)
        with connection.lock, connection.waiting(wait):
            try:
                if not self._open:
                    # gloo gives processes half a minute to meet for the first time; here they have the group's time
                    connection.client.wait_at_barrier(f"open/{self.id}", int(self.timeout * 1000), sorted(self.ranks))
                    self._open = True
                return shutdown.within(xla.in_x64, self._called, kind, array, root)
            except (jax.errors.JaxRuntimeError, ValueError) as e:  # which of the two gloo's errors become varies
                raise connection.lost(wait) from e

    def _called(self, kind: str, array: np.ndarray, root: int) -> np.ndarray:
        key = kind, array.dtype, array.shape, root
        found = self._programs.get(key)
        if found is None:
            if len(self._programs) >= PROGRAMS:
                self._programs.clear()
            found = self._programs[key] = self._made(kind, array, root)
        return found(array)

    def _made(self, kind: str, array: np.ndarray, root: int) -> Callable:
        devices = [self._connected().devices[rank] for rank in self.ranks]
        mesh = Mesh(np.array(devices), AXIS)
        rows = NamedSharding(mesh, PartitionSpec(AXIS))
        body = jax.shard_map(
            lambda x: _body(kind, x[0], self.size, root)[None],
            mesh=mesh,
            in_specs=PartitionSpec(AXIS),
            out_specs=PartitionSpec(AXIS),
            check_vma=False,
        )
        whole = jax.core.ShapedArray((self.size, *array.shape), array.dtype)
        run = jax.jit(body).lower(jax.ShapeDtypeStruct(whole.shape, array.dtype, sharding=rows)).compile()
        here = [devices[self.index]]

        def call(array: np.ndarray) -> np.ndarray:
            # what jax.device_put, make_array_from_single_device_arrays and addressable_data come to, in less time
            given = _jax.batched_device_put(whole, rows, [array[None]], here)
            return np.asarray(run(given)._arrays[0])[0]

        return call

    # ------------------------------------------------------------ the collectives

    def barrier(self, call: Call) -> None:
        self.meet(call)

    def gather(self, call: Call, array: np.ndarray) -> list[np.ndarray]:
        """The arrays of all processes."""
        flat = _bytes(array)
        _, small = self.meet(call, flat)
        rows = self._run(call, "gather", flat) if small is None else small
        return [_like(row, array) for row in rows]

    def gather_bytes(self, call: Call, data: bytes) -> list[bytes]:
        """The bytes of all processes, of any length each."""
        flat = np.frombuffer(data, np.uint8)
        sizes, small = self.meet(call, flat, len(data))
        if small is None:
            padded = np.zeros(max(sizes), np.uint8)
            padded[: flat.size] = flat
            small = [row[:size] for row, size in zip(self._run(call, "gather", padded), sizes)]
        return [row.tobytes() for row in small]

    def all_reduce(self, call: Call, array: np.ndarray, op: str) -> np.ndarray:
        """The reduction of all processes' arrays."""
        flat = _bytes(array)
        _, small = self.meet(call, flat)
        if small is None and op in _IN_PROGRAM and array.dtype.kind != "c":
            wide = array.astype(np.uint8) if array.dtype.kind == "b" else array
            total = self._run(call, op, np.ascontiguousarray(wide.reshape(-1)))
            return _averaged(total, op, self.size).astype(array.dtype, copy=False).reshape(array.shape)
        rows = self._run(call, "gather", flat) if small is None else small
        return reduced([_like(row, array) for row in rows], op)

    def broadcast(self, call: Call, array: np.ndarray, root: int) -> np.ndarray:
        """The array of one process, given by its index in the group."""
        flat = _bytes(array)
        _, small = self.meet(call, flat)
        return _like(self._run(call, "broadcast", flat, root) if small is None else small[root], array)

    def shift(self, call: Call, array: np.ndarray) -> np.ndarray:
        """The array of the process before this one, the last one's for the first: one step around a ring."""
        flat = _bytes(array)
        _, small = self.meet(call, flat)
        if self.size == 1:
            return array
        return _like(self._run(call, "shift", flat) if small is None else small[self.index - 1], array)

    def exchange(self, call: Call, array: np.ndarray) -> list[np.ndarray]:
        """From each process the row of its array that is for this one; an array has one row per process."""
        rows = _bytes(array).reshape(self.size, array.nbytes // self.size)
        _, small = self.meet(call, rows.reshape(-1))
        if small is None:
            found = list(self._run(call, "exchange", rows))
        else:
            found = [row.reshape(rows.shape)[self.index] for row in small]
        return [_like(row, array[0]) for row in found]

    def exchange_parts(self, call: Call, array: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
        """The same for rows of different lengths: consecutive parts of an array, of these sizes along its first axis."""
        counts = self.exchange(Call(call.name, "sizes of the parts"), np.array(sizes, np.int64))
        largest = max(
            int(most) for most in self.meet(Call(call.name, "the largest part"), None, max(sizes, default=0))[0]
        )
        padded = np.zeros((self.size, largest, *array.shape[1:]), array.dtype)
        for row, part in zip(padded, np.split(array, np.cumsum(sizes)[:-1])):
            row[: len(part)] = part
        return [row[: int(n)] for row, n in zip(self.exchange(call, padded), counts)]


def _body(kind: str, x: Any, size: int, root: int) -> Any:
    """What one process computes in the program of a collective."""
    if kind == "gather":
        return jax.lax.all_gather(x, AXIS)
    if kind == "meet":
        # what is small goes straight to everybody: gloo's all_gather sends it around a ring, in two pieces. Fewer messages
        # are more than that much faster where cores are scarce: gloo's thread spins while another one is in a pair's lock
        return jax.lax.all_to_all(jax.numpy.broadcast_to(x, (size, *x.shape)), AXIS, 0, 0)
    if kind == "exchange":
        return jax.lax.all_to_all(x, AXIS, 0, 0)
    if kind == "shift":
        return jax.lax.ppermute(x, AXIS, [(i, (i + 1) % size) for i in range(size)])
    if kind == "broadcast":
        # those who have it send it on, so their number doubles with every round
        index = (jax.lax.axis_index(AXIS) - root) % size
        have = 1
        while have < size:
            pairs = [((i + root) % size, (i + have + root) % size) for i in range(min(have, size - have))]
            got = jax.lax.ppermute(x, AXIS, pairs)
            x = jax.numpy.where((index >= have) & (index < 2 * have), got, x)
            have *= 2
        return x
    return _IN_PROGRAM[kind](x, AXIS)


def reduced(rows: Sequence[np.ndarray], op: str) -> np.ndarray:
    """The reduction of arrays in the order of ranks, in their own dtype."""
    total = np.array(rows[0])
    with np.errstate(all="ignore"):  # as in a program, an overflow is infinite and no warning
        for row in rows[1:]:
            total = np.asarray(REDUCE[op](total, row)).astype(total.dtype, copy=False)
    return _averaged(total, op, len(rows)).astype(total.dtype, copy=False)


def _averaged(total: np.ndarray, op: str, size: int) -> np.ndarray:
    return np.asarray(total / size) if op == "AVG" else total


def _bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array, in one dimension: one program serves all dtypes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _like(flat: np.ndarray, array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(flat).view(array.dtype).reshape(array.shape)
