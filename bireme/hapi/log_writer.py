"""Log files for TensorBoard and VisualDL: scalars, histograms and text, written without any package of theirs.

Both are sequences of protocol buffers. TensorBoard's records have checksums, VisualDL's only their length.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor

# ---------------------------------------------------------------- checksums

_CASTAGNOLI = 0x82F63B78


def _table() -> list[int]:
    out = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (_CASTAGNOLI if n & 1 else 0)
        out.append(n)
    return out


_CRC = _table()


def crc32c(data: bytes) -> int:
    """Return Castagnoli's checksum.

    Args:
        data: The bytes.

    Returns:
        An int of 32 bits.

    Examples:
        >>> from bireme.hapi.log_writer import crc32c
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """Return the checksum as it is stored in a file, rotated and shifted so that a checksum of checksums is safe."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---------------------------------------------------------------- protocol buffers


def _varint(n: int) -> bytes:
    n &= (1 << 64) - 1  # negative numbers are written as 64 bits
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _int(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _double(field: int, x: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", x)


def _float(field: int, x: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", np.float32(x))


def _bytes(field: int, data: bytes) -> bytes:
    """Text, a nested message, or packed numbers."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _doubles(field: int, numbers: Iterable[float]) -> bytes:
    return _bytes(field, np.asarray(list(numbers), "<f8").tobytes())


# ---------------------------------------------------------------- writers


class Writer:
    """Base class of log writers: one file in a directory, which is created if it does not exist.

    A run that is started again in the same directory gets a file of its own; viewers show both as one curve.

    Args:
        log_dir: Directory of the log.
    """

    _numbers = itertools.count()

    def __init__(self, log_dir: str | os.PathLike):
        self.log_dir = os.fspath(log_dir)
        os.makedirs(self.log_dir, exist_ok=True)
        self.path = os.path.join(self.log_dir, self._file_name())
        self._file = open(self.path, "wb")  # noqa: SIM115  # closed by close()
        self._head()
        self.flush()

    def _file_name(self) -> str:
        raise NotImplementedError  # each format writes its own

    def _head(self) -> None:
        raise NotImplementedError  # each format writes its own

    def add_scalar(self, tag: str, value: Any, step: int, walltime: float | None = None) -> None:
        """Add a value to a curve.

        Args:
            tag: Name of the curve.
            value: The value, a number or a tensor of one element.
            step: The step.
            walltime: Time in seconds since the epoch. Default: None, now.
        """
        raise NotImplementedError  # each format writes its own

    def add_histogram(self, tag: str, values: Any, step: int, walltime: float | None = None, buckets: int = 30) -> None:
        """Add a histogram of the elements of a tensor or an array.

        Args:
            tag: Name of the histogram.
            values: The tensor or array; elements that are not finite are left out.
            step: The step.
            walltime: Time in seconds since the epoch. Default: None, now.
            buckets: Number of bins. Default: 30.
        """
        raise NotImplementedError  # each format writes its own

    def add_text(self, tag: str, text: str, step: int, walltime: float | None = None) -> None:
        """Add a text, shown as Markdown.

        Args:
            tag: Name of the text.
            text: The text.
            step: The step.
            walltime: Time in seconds since the epoch. Default: None, now.
        """
        raise NotImplementedError  # each format writes its own

    def flush(self) -> None:
        """Write everything that was added to the file."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close the file; adding more is an error."""
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


class EventWriter(Writer):
    """Writer of logs for TensorBoard.

    Args:
        log_dir: Directory of the log.

    Examples:
        >>> import os, tempfile
        >>> from bireme.hapi.log_writer import EventWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with EventWriter(folder) as log:
        ...         log.add_scalar("loss", 0.5, step=1)
        ...     os.listdir(folder)[0].startswith("events.out.tfevents.")
        True
    """

    def _file_name(self) -> str:
        return f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(self._numbers)}"

    def _head(self) -> None:
        self._record(_double(1, time.time()) + _bytes(3, b"brain.Event:2"))

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(
            length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))
        )

    def _value(self, tag: str, step: int, walltime: float | None, content: bytes) -> None:
        summary = _bytes(1, _bytes(1, tag.encode()) + content)
        self._record(
            _double(1, time.time() if walltime is None else walltime) + _int(2, int(step)) + _bytes(5, summary)
        )

    def add_scalar(self, tag: str, value: Any, step: int, walltime: float | None = None) -> None:
        self._value(tag, step, walltime, _float(2, _number("add_scalar", value)))

    def add_histogram(self, tag: str, values: Any, step: int, walltime: float | None = None, buckets: int = 30) -> None:
        x = _numbers("add_histogram", values)
        counts, edges = np.histogram(x, buckets)
        content = b"".join((
            _double(1, np.min(x)), _double(2, np.max(x)), _double(3, x.size), _double(4, np.sum(x)),
            _double(5, (x * x).sum()), _doubles(6, edges[1:]), _doubles(7, counts),
        ))  # fmt: skip
        self._value(tag, step, walltime, _bytes(5, content))

    def add_text(self, tag: str, text: str, step: int, walltime: float | None = None) -> None:
        # a tensor of one string, marked for the plugin that shows text
        tensor = _int(1, 7) + _bytes(2, _bytes(2, _int(1, 1))) + _bytes(8, text.encode())
        self._value(tag, step, walltime, _bytes(8, tensor) + _bytes(9, _bytes(1, _bytes(1, b"text"))))


class RecordWriter(Writer):
    """Writer of logs for VisualDL.

    Args:
        log_dir: Directory of the log.

    Examples:
        >>> import os, tempfile
        >>> from bireme.hapi.log_writer import RecordWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with RecordWriter(folder) as log:
        ...         log.add_scalar("loss", 0.5, step=1)
        ...     os.listdir(folder)[0].startswith("vdlrecords.")
        True
    """

    def _file_name(self) -> str:
        return f"vdlrecords.{int(time.time()):010d}.{os.getpid()}.{next(self._numbers)}.log"

    def _head(self) -> None:
        self._value("meta_data_tag", 0, None, _bytes(10, _bytes(1, b"")))

    def _value(self, tag: str, step: int, walltime: float | None, content: bytes) -> None:
        milliseconds = round((time.time() if walltime is None else walltime) * 1000)
        data = _bytes(1, _int(1, int(step)) + _bytes(2, tag.encode()) + _int(3, milliseconds) + content)
        self._file.write(struct.pack("<Q", len(data)) + data)

    def add_scalar(self, tag: str, value: Any, step: int, walltime: float | None = None) -> None:
        self._value(tag, step, walltime, _float(4, _number("add_scalar", value)))

    def add_histogram(self, tag: str, values: Any, step: int, walltime: float | None = None, buckets: int = 30) -> None:
        counts, edges = np.histogram(_numbers("add_histogram", values), buckets)
        self._value(tag, step, walltime, _bytes(8, _doubles(1, counts) + _doubles(2, edges)))

    def add_text(self, tag: str, text: str, step: int, walltime: float | None = None) -> None:
        self._value(tag, step, walltime, _bytes(12, _bytes(1, text.encode())))


def _number(where: str, value: Any) -> float:
    array = value._host() if isinstance(value, Tensor) else np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise errors.bad(f"{where}(value)", "a single number", value, kind=errors.ArgumentTypeError)
    return float(array.reshape(()))


def _numbers(where: str, values: Any) -> np.ndarray:
    x = np.asarray(values._host() if isinstance(values, Tensor) else values, np.float64).ravel()
    x = x[np.isfinite(x)]
    if not x.size:
        raise errors.bad(f"{where}(values)", "at least one finite number", values)
    return x
