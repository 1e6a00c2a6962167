"""The same protocol over gRPC: `inference.GRPCInferenceService`, its messages read and written by hand.

They are a dozen flat messages; generated code would bring the protobuf package, and with it its conflicts of versions.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import struct
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from bireme.core.base.errors import FileFormatError
from bireme.core.base.extras import extra
from bireme.files.paddle_models import wire
from bireme.serve.application import EXTENSIONS
from bireme.serve.clients import aside
from bireme.serve.language import LanguageModels
from bireme.serve.logs import tell
from bireme.serve.protocol import LONGEST_NAME, MOST_DIMENSIONS, NAMES, described, of_bytes
from bireme.serve.refusals import BAD, BROKEN, BUSY, GONE, LATE, NO_TOKEN, TOO_LARGE, UNKNOWN, Refused
from bireme.serve.repository import Repository
from bireme.version import full_version

SERVICE = "inference.GRPCInferenceService"
_CODES = {
    BAD: "INVALID_ARGUMENT",
    UNKNOWN: "NOT_FOUND",
    TOO_LARGE: "RESOURCE_EXHAUSTED",
    BUSY: "UNAVAILABLE",
    LATE: "DEADLINE_EXCEEDED",
    BROKEN: "INTERNAL",
    NO_TOKEN: "UNAUTHENTICATED",
}
MOST_FIELDS = 2**14  # of one message; a field may hold many numbers
# fields of InferTensorContents: number -> (dtypes that it may hold, how it is packed)
_CONTENTS = {
    1: ("b", None),
    2: ("i", None),
    3: ("i", None),
    4: ("u", None),
    5: ("u", None),
    6: ("f", False),
    7: ("f", True),
}


# ---------------------------------------------------------------- reading


class _Message:
    """The fields of a message by number, in order."""

    def __init__(self, data: Any, start: int = 0, end: int | None = None):
        self._data = data if isinstance(data, memoryview) else memoryview(data)
        found = wire.fields(self._data, start, len(self._data) if end is None else end)
        self._fields = list(itertools.islice(found, MOST_FIELDS + 1))
        if len(self._fields) > MOST_FIELDS:
            raise Refused(BAD, f"a message has at most {MOST_FIELDS} fields")

    @property
    def size(self) -> int:
        """Bytes of all that it was read from."""
        return len(self._data)

    def texts(self, number: int) -> list[str]:
        """All fields of this number as text."""
        found = [self._extent(kind, a, b) for n, kind, a, b in self._fields if n == number]
        if any(b - a > 4 * LONGEST_NAME for a, b in found):
            raise Refused(BAD, f"a text has at most {LONGEST_NAME} characters")
        return [wire.text(self._data, a, b) for a, b in found]

    def text(self, number: int) -> str:
        """The last one, or ''."""
        return (self.texts(number) or [""])[-1]

    def parts(self, number: int) -> list[_Message]:
        """All fields of this number as messages."""
        return [_Message(self._data, *self._extent(kind, a, b)) for n, kind, a, b in self._fields if n == number]

    def raw(self, number: int) -> list[memoryview]:
        """All fields of this number as bytes."""
        return [self._data[slice(*self._extent(kind, a, b))] for n, kind, a, b in self._fields if n == number]

    def sizes(self, number: int) -> list[int]:
        """Integers of a repeated field, which are few."""
        found = self.integers(number)
        if found.size > MOST_DIMENSIONS:
            raise Refused(BAD, f"a shape has at most {MOST_DIMENSIONS} sizes")
        return found.tolist()

    def integers(self, number: int) -> np.ndarray:
        """Integers of a repeated field."""
        found = [(kind, a, b) for n, kind, a, b in self._fields if n == number]
        parts = [
            np.array([wire.signed(a)])
            if kind == wire.VARINT
            else _varints(self._data[slice(*self._extent(kind, a, b))])
            for kind, a, b in found
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def floats(self, number: int, wide: bool) -> np.ndarray:
        """Floating-point numbers of a repeated field."""
        found = [(kind, a, b) for n, kind, a, b in self._fields if n == number]
        for kind, a, b in found:
            if kind != wire.BYTES or (b - a) % (8 if wide else 4):
                wire.floats(self._data, kind, a, b, wide)  # one that is not packed, or an error
        parts = [np.frombuffer(self._data[a:b], "<f8" if wide else "<f4") for _, a, b in found]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _extent(self, kind: int, a: int, b: int) -> tuple[int, int]:
        wire.expect(kind, wire.BYTES, a)
        return a, b


def _varints(data: memoryview) -> np.ndarray:
    """Packed integers, all at once: numbers of up to ten bytes, of which each but the last has its highest bit set."""
    given = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(given < 128)
    if not given.size:
        return np.zeros(0, np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    widths = ends - starts + 1 if ends.size else ends
    if not ends.size or ends[-1] != given.size - 1 or np.max(widths) > 10:
        raise Refused(BAD, "an invalid number in a message")
    found = np.zeros(ends.size, np.uint64)
    for k in range(int(np.max(widths))):
        wide = widths > k
        found[wide] |= (given[starts[wide] + k] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * k)
    return found.view(np.int64)


def _inputs(message: _Message, most: int) -> dict[str, np.ndarray]:
    listed, raw = message.parts(5), message.raw(7)
    if raw and len(raw) != len(listed):
        raise Refused(BAD, f"{len(raw)} raw tensors are given for {len(listed)} inputs")
    found: dict[str, np.ndarray] = {}
    for i, one in enumerate(listed):
        name = one.text(1)
        dtype, shape = described(name, one.text(2), one.sizes(3))
        if name in found:
            raise Refused(BAD, f"there are two inputs {name}")
        found[name] = of_bytes(name, raw[i], dtype, shape) if raw else _contents(name, one, dtype, shape, most)
    return found


def _contents(name: str, one: _Message, dtype: np.dtype, shape: tuple[int, ...], most: int) -> np.ndarray:
    """A tensor of numbers in fields of their kind; what they are unpacked to takes several times the memory."""
    if sum(map(len, one.raw(5))) > most:
        raise Refused(TOO_LARGE, f"{name}: typed contents have at most {most} bytes: send larger tensors raw")
    kind = "f" if dtype == ml_dtypes.bfloat16 else dtype.kind
    held = [
        contents.integers(number) if wide is None else contents.floats(number, wide)
        for contents in one.parts(5)
        for number, (kinds, wide) in _CONTENTS.items()
        if kind in kinds
    ]
    parts = [a.view(np.uint64) if kind == "u" else a for a in held if a.size]
    array = np.concatenate(parts) if parts else np.zeros(0, dtype)
    if kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise Refused(BAD, f"{name}: a number is out of the range of {NAMES[dtype]}")
    with np.errstate(all="ignore"):
        return of_bytes(name, array.astype(dtype).tobytes(), dtype, shape)


# ---------------------------------------------------------------- writing


def _varint(n: int) -> bytes:
    n &= 2**64 - 1
    written = bytearray()
    while n > 127:
        written.append(n & 127 | 128)
        n >>= 7
    written.append(n)
    return bytes(written)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | wire.BYTES) + _varint(len(data)) + data


def _text(number: int, *texts: str) -> bytes:
    return b"".join(_bytes(number, text.encode()) for text in texts if text)


def _flag(number: int, on: bool) -> bytes:
    return _varint(number << 3 | wire.VARINT) + b"\x01" if on else b""


def _tensor(name: str, datatype: str, shape: Iterable[int]) -> bytes:
    return _text(1, name) + _text(2, datatype) + _bytes(3, b"".join(map(_varint, shape)))


# ---------------------------------------------------------------- the service


class _Service:
    def __init__(self, repository: Repository, language: LanguageModels | None = None):
        self._repository, self._language = repository, language

    async def ServerLive(self, message: _Message) -> bytes:
        return _flag(1, True)

    async def ServerReady(self, message: _Message) -> bytes:
        return _flag(1, self._repository.ready and (self._language is None or self._language.ready))

    async def ModelReady(self, message: _Message) -> bytes:
        return _flag(1, self._repository.get(message.text(1), message.text(2)).ready)

    async def ServerMetadata(self, message: _Message) -> bytes:
        return _text(1, "bireme") + _text(2, full_version) + _text(3, *EXTENSIONS)

    async def ModelMetadata(self, message: _Message) -> bytes:
        served = self._repository.get(message.text(1), message.text(2))
        told = served.metadata(self._repository.versions(served.name))
        sketches = [
            _bytes(number, _tensor(x["name"], x["datatype"], x["shape"]))
            for number, key in ((4, "inputs"), (5, "outputs"))
            for x in told[key]
        ]
        return _text(1, told["name"]) + _text(2, *told["versions"]) + _text(3, told["platform"]) + b"".join(sketches)

    async def ModelInfer(self, message: _Message) -> bytes:
        served = self._repository.get(message.text(1), message.text(2))
        wanted = [one.text(1) for one in message.parts(6)] or None
        inputs = await aside(message.size, _inputs, message, self._repository.limits.json)
        made = await served.infer(inputs, wanted)
        listed = [_bytes(5, _tensor(name, NAMES[a.dtype], a.shape)) for name, a in made.items()]
        raw = [_bytes(6, np.ascontiguousarray(a).tobytes()) for a in made.values()]
        return _text(1, served.name) + _text(2, served.version) + _text(3, message.text(3)) + b"".join([*listed, *raw])

    async def RepositoryIndex(self, message: _Message) -> bytes:
        told = [one for one in self._repository.index() if one["state"] == "READY" or not message.integers(2).any()]
        keys = ("name", "version", "state", "reason")
        return b"".join([_bytes(1, b"".join([_text(i, one[key]) for i, key in enumerate(keys, 1)])) for one in told])

    async def RepositoryModelLoad(self, message: _Message) -> bytes:
        await self._repository.load(message.text(2))
        return b""

    async def RepositoryModelUnload(self, message: _Message) -> bytes:
        await self._repository.unload(message.text(2))
        return b""


METHODS = {  # and the field of a request that has the model's name
    "ServerLive": 0, "ServerReady": 0, "ServerMetadata": 0, "ModelReady": 1, "ModelMetadata": 1, "ModelInfer": 1,
    "RepositoryIndex": 0, "RepositoryModelLoad": 2, "RepositoryModelUnload": 2,
}  # fmt: skip


def add_service(
    server: Any, repository: Repository, token: str | None = None, language: LanguageModels | None = None
) -> None:
    """Add the service to a server of `grpc.aio`; of language models it knows whether they are ready."""
    grpc = extra("grpc", "serve", "to serve models")
    service, wanted = _Service(repository, language), f"Bearer {token}".encode()

    def authorize(context: Any) -> None:
        given = [str(value).encode() for key, value in context.invocation_metadata() if key == "authorization"]
        if token is not None and not any(hmac.compare_digest(one, wanted) for one in given):
            raise Refused(NO_TOKEN, "expected the server's token as authorization: Bearer TOKEN")

    def handler(name: str, field: int) -> Any:
        method: Callable[[_Message], Awaitable[bytes]] = getattr(service, name)

        async def answer(data: bytes, context: Any) -> bytes:
            start, model, status, told, held = time.perf_counter(), "", BROKEN, "", 0
            try:
                authorize(context)
                repository.held.take(len(data))
                held = len(data)
                message = await aside(len(data), _Message, data)
                model = message.text(field) if field else ""
                made = await method(message)
                status = 200
                return made
            except asyncio.CancelledError:
                status = GONE
                raise
            except (Refused, FileFormatError, struct.error) as e:
                status, told = e.status if isinstance(e, Refused) else BAD, str(e)
            finally:
                repository.held.give(held)
                seconds = time.perf_counter() - start
                repository.on_request(model, status, seconds)
                tell("gRPC", f"/{SERVICE}/{name}", status, seconds, context.peer())
            await context.abort(getattr(grpc.StatusCode, _CODES[status]), told)
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(answer)

    handlers = {name: handler(name, field) for name, field in METHODS.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
