"""The same protocol over gRPC: `inference.GRPCInferenceService`, its messages read and written by hand.

They are a dozen flat messages; generated code would bring the protobuf package, and with it its conflicts of versions.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from bireme.core.base.errors import FileFormatError
from bireme.core.base.extras import extra
from bireme.files.paddle_models import wire
from bireme.serve.application import EXTENSIONS
from bireme.serve.protocol import NAMES, described, of_bytes
from bireme.serve.refusals import BAD, BUSY, LATE, TOO_LARGE, UNKNOWN, Refused
from bireme.serve.repository import Repository
from bireme.version import full_version

SERVICE = "inference.GRPCInferenceService"
_CODES = {
    BAD: "INVALID_ARGUMENT",
    UNKNOWN: "NOT_FOUND",
    TOO_LARGE: "RESOURCE_EXHAUSTED",
    BUSY: "UNAVAILABLE",
    LATE: "DEADLINE_EXCEEDED",
    401: "UNAUTHENTICATED",
}
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
        self._fields = list(wire.fields(self._data, start, len(self._data) if end is None else end))

    def texts(self, number: int) -> list[str]:
        """All fields of this number as text."""
        return [wire.text(self._data, *self._extent(kind, a, b)) for n, kind, a, b in self._fields if n == number]

    def text(self, number: int) -> str:
        """The last one, or ''."""
        return (self.texts(number) or [""])[-1]

    def parts(self, number: int) -> list[_Message]:
        """All fields of this number as messages."""
        return [_Message(self._data, *self._extent(kind, a, b)) for n, kind, a, b in self._fields if n == number]

    def raw(self, number: int) -> list[memoryview]:
        """All fields of this number as bytes."""
        return [self._data[slice(*self._extent(kind, a, b))] for n, kind, a, b in self._fields if n == number]

    def integers(self, number: int) -> list[int]:
        """Integers of a repeated field."""
        return [x for n, kind, a, b in self._fields if n == number for x in wire.numbers(self._data, kind, a, b)]

    def floats(self, number: int, wide: bool) -> list[float]:
        """Floating-point numbers of a repeated field."""
        return [x for n, kind, a, b in self._fields if n == number for x in wire.floats(self._data, kind, a, b, wide)]

    def _extent(self, kind: int, a: int, b: int) -> tuple[int, int]:
        wire.expect(kind, wire.BYTES, a)
        return a, b


def _inputs(message: _Message) -> dict[str, np.ndarray]:
    listed, raw = message.parts(5), message.raw(7)
    if raw and len(raw) != len(listed):
        raise Refused(BAD, f"{len(raw)} raw tensors are given for {len(listed)} inputs")
    found: dict[str, np.ndarray] = {}
    for i, one in enumerate(listed):
        name = one.text(1)
        dtype, shape = described(name, one.text(2), one.integers(3))
        if name in found:
            raise Refused(BAD, f"there are two inputs {name}")
        found[name] = of_bytes(name, raw[i], dtype, shape) if raw else _contents(name, one, dtype, shape)
    return found


def _contents(name: str, one: _Message, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    held: list[Any] = []
    kind = "f" if dtype == ml_dtypes.bfloat16 else dtype.kind
    for contents in one.parts(5):
        for number, (kinds, wide) in _CONTENTS.items():
            if kind in kinds:
                held += contents.integers(number) if wide is None else contents.floats(number, wide)
    try:
        array = np.array(held, dtype)
    except OverflowError:
        raise Refused(BAD, f"{name}: a number is out of the range of {NAMES[dtype]}") from None
    return of_bytes(name, array.tobytes(), dtype, shape)


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
    def __init__(self, repository: Repository):
        self._repository = repository

    async def ServerLive(self, message: _Message) -> bytes:
        return _flag(1, True)

    async def ServerReady(self, message: _Message) -> bytes:
        return _flag(1, self._repository.ready)

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
        made = await served.infer(_inputs(message), wanted)
        known = {name: a if a.dtype in NAMES else a.astype(np.float32) for name, a in made.items()}
        listed = [_bytes(5, _tensor(name, NAMES[a.dtype], a.shape)) for name, a in known.items()]
        raw = [_bytes(6, np.ascontiguousarray(a).tobytes()) for a in known.values()]
        return _text(1, served.name) + _text(2, served.version) + _text(3, message.text(3)) + b"".join([*listed, *raw])


METHODS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")


def add_service(server: Any, repository: Repository, token: str | None = None) -> None:
    """Add the service to a server of `grpc.aio`."""
    grpc = extra("grpc", "serve", "to serve models")
    service = _Service(repository)

    def handler(method: Callable[[_Message], Awaitable[bytes]]) -> Any:
        async def answer(data: bytes, context: Any) -> bytes:
            try:
                if token is not None and ("authorization", f"Bearer {token}") not in context.invocation_metadata():
                    raise Refused(401, "expected the server's token as authorization: Bearer TOKEN")
                return await method(_Message(data))
            except (Refused, FileFormatError, struct.error) as e:
                status = e.status if isinstance(e, Refused) else BAD
                await context.abort(getattr(grpc.StatusCode, _CODES[status]), str(e))
                raise

        return grpc.unary_unary_rpc_method_handler(answer)

    handlers = {name: handler(getattr(service, name)) for name in METHODS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
