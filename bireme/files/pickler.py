"""The pickler of Paddle's files: plain data and arrays, streamed to the file, with the same bytes each time."""

from __future__ import annotations

import collections
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.files import opcodes as op

_CHUNK = 1 << 16
_PIECE = 1 << 20
_HALF_A_WORD = 1 << 31
_WORD = 1 << 32
# dtypes without a code of NumPy's, and the integers that hold them; Paddle reads 16 bits as bfloat16 anyway
_CARRIERS = {
    "bfloat16": ("u2", None),
    "float8_e4m3fn": ("i1", "float8_e4m3fn"),
    "float8_e5m2": ("i1", "float8_e5m2"),
    "uint16": ("u2", "uint16"),
}
_CODES = {np.dtype(code): (code, None) for code in op.CODES if code != "u2"}


def code_of(dtype: np.dtype) -> tuple[str, str | None] | None:
    """Return the code of a dtype, and a tag if the code is ambiguous; None if it cannot be written."""
    return _CARRIERS.get(dtype.name) or _CODES.get(dtype.newbyteorder("="))


def host_of(x: Tensor) -> np.ndarray:
    """Return the values of a tensor in C order, without a copy if they are on the host."""
    return np.asarray(x._host(), order="C")


def write_all(file: BinaryIO, raw: memoryview) -> None:
    """Write all bytes, even to a file that takes only a part at a time."""
    while raw.nbytes:
        done = file.write(raw)
        if not isinstance(done, int) or done >= raw.nbytes:
            return
        raw = raw[done:]


class Emitter:
    """Pickles one object with a protocol from 2 to 4."""

    def __init__(self, file: BinaryIO, protocol: int):
        self.file, self.protocol = file, protocol
        self.out = bytearray()
        self.numbers: dict[Any, int] = {}  # what was written before, by text, name or identity
        self.count = 0

    def whole(self, write: Callable[[Emitter], None]) -> None:
        """Write a complete pickle: what ``write`` writes between the opcodes that begin and end one."""
        self.codes(op.PROTO, self.protocol)
        write(self)
        self.codes(op.STOP)
        self.flush()

    # ------------------------------------------------------------ bytes

    def codes(self, *codes: int) -> None:
        self.out += bytes(codes)
        if len(self.out) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        write_all(self.file, memoryview(self.out))
        self.out = bytearray()  # a new one: the file may keep the old one

    def remember(self, key: Any) -> None:
        if key in self.numbers:
            self.count += self.protocol >= 4  # the instruction counts by itself
        else:
            self.numbers[key] = self.count
            self.count += 1
        if self.protocol >= 4:
            self.codes(op.MEMOIZE)
        else:
            self._numbered(op.BINPUT, op.LONG_BINPUT, self.numbers[key])

    def recalled(self, key: Any) -> bool:
        """If the object was written before, write a reference to it and return True."""
        if key not in self.numbers:
            return False
        self._numbered(op.BINGET, op.LONG_BINGET, self.numbers[key])
        return True

    def _numbered(self, short: int, long: int, n: int) -> None:
        if n < 256:
            self.codes(short, n)
        else:
            self.codes(long)
            self.out += n.to_bytes(4, "little")

    # ------------------------------------------------------------ plain data

    def plain(self, x: Any) -> None:
        """Write anything that is not a tensor, an array or a container."""
        if x is None:
            self.codes(op.NONE)
        elif isinstance(x, np.generic) and not isinstance(x, (str, bytes)):
            self.scalar(x)
        elif isinstance(x, bool):
            self.codes(op.NEWTRUE if x else op.NEWFALSE)
        elif isinstance(x, int):
            self.integer(int(x))
        elif isinstance(x, float):
            self.codes(op.BINFLOAT)
            self.out += struct.pack(">d", x)
        elif isinstance(x, str):
            self.text(str.__str__(x))  # a member of an enumeration as the text it is
        elif isinstance(x, complex):
            self.call("builtins", "complex")
            self.plain(x.real)
            self.plain(x.imag)
            self.codes(op.TUPLE2, op.REDUCE)
        else:
            self.data(memoryview(x))

    def integer(self, n: int) -> None:
        if 0 <= n < 256:
            self.codes(op.BININT1, n)
        elif 0 <= n < 65536:
            self.codes(op.BININT2)
            self.out += n.to_bytes(2, "little")
        elif -_HALF_A_WORD <= n < _HALF_A_WORD:
            self.codes(op.BININT)
            self.out += n.to_bytes(4, "little", signed=True)
        else:
            raw = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
            self.codes(op.LONG1, len(raw)) if len(raw) < 256 else self._sized(op.LONG4, 4, len(raw))
            self.out += raw

    def text(self, text: str) -> None:
        if self.recalled(text):
            return
        raw = text.encode("utf-8", "surrogatepass")
        if self.protocol >= 4 and len(raw) < 256:
            self.codes(op.SHORT_BINUNICODE, len(raw))
        elif len(raw) < _WORD or self.protocol < 4:
            self._sized(op.BINUNICODE, 4, len(raw))
        else:
            self._sized(op.BINUNICODE8, 8, len(raw))
        self.out += raw
        if len(raw) <= 256:  # keys and names repeat; long texts do not
            self.remember(text)

    def _sized(self, code: int, width: int, n: int) -> None:
        if n >= 1 << (8 * width):
            raise errors.bad("save(protocol)", "protocol 4 for an object of 4 GiB or more", self.protocol)
        self.codes(code)
        self.out += n.to_bytes(width, "little")

    def call(self, module: str, name: str) -> None:
        """Write a global name, which is to be called with arguments."""
        if self.recalled((module, name)):
            return
        if self.protocol >= 4:
            self.text(module)
            self.text(name)
            self.codes(op.STACK_GLOBAL)
        else:
            self.codes(op.GLOBAL)
            self.out += f"{'__builtin__' if module == 'builtins' and self.protocol == 2 else module}\n{name}\n".encode()
        self.remember((module, name))

    def data(self, raw: memoryview) -> None:
        """Write bytes; long ones go to the file without a copy."""
        n = raw.nbytes
        if self.protocol == 2:
            self._data_as_text(raw)
            return
        if n < 256:
            self.codes(op.SHORT_BINBYTES, n)
        elif n < _WORD or self.protocol < 4:
            self._sized(op.BINBYTES, 4, n)
        else:
            self._sized(op.BINBYTES8, 8, n)
        if n < _CHUNK:
            self.out += raw
        else:
            self.flush()
            write_all(self.file, raw)

    def _data_as_text(self, raw: memoryview) -> None:
        # protocol 2 has no bytes: they are written as text, in which those from 128 on take two
        n = raw.nbytes
        pieces = [raw[at : at + _PIECE] for at in range(0, n, _PIECE)]
        self.call("_codecs", "encode")
        self._sized(op.BINUNICODE, 4, n + sum(int(np.count_nonzero(np.frombuffer(p, np.uint8) >= 128)) for p in pieces))
        for piece in pieces:
            self.out += bytes(piece).decode("latin-1").encode("utf-8")
            self.flush()
        self.text("latin1")
        self.codes(op.TUPLE2, op.REDUCE)

    # ------------------------------------------------------------ arrays

    def kind(self, dtype: np.dtype) -> None:
        code, tag = code_of(dtype) or ("", None)
        if self.recalled(("dtype", code, tag)):
            return
        self.call("numpy", "dtype")
        self.text(code)
        self.codes(op.NEWFALSE, op.NEWTRUE, op.TUPLE3, op.REDUCE)
        self.remember(("dtype", code, tag))
        self.codes(op.MARK)
        self.integer(3 if tag is None else 4)
        self.text("|" if code.endswith("1") else "<")
        self.codes(op.NONE, op.NONE, op.NONE)
        for n in (-1, -1, 0):
            self.integer(n)
        if tag is not None:
            self.codes(op.EMPTY_DICT)
            self.text(op.TAG)
            self.text(tag)
            self.codes(op.SETITEM)
        self.codes(op.TUPLE, op.BUILD)

    def array(self, array: np.ndarray) -> None:
        """Write an array as NumPy pickles it."""
        array = np.asarray(array)
        turned = array.flags.f_contiguous and not array.flags.c_contiguous
        flat = (array.T if turned else np.ascontiguousarray(array)).reshape(-1)
        if not array.dtype.isnative:
            flat = flat.astype(array.dtype.newbyteorder("="))
        self.call("numpy.core.multiarray", "_reconstruct")  # NumPy 1 and 2 both know this name
        self.call("numpy", "ndarray")
        self.codes(op.BININT1, 0, op.TUPLE1)
        self.data(memoryview(b"b"))
        self.codes(op.TUPLE3, op.REDUCE, op.MARK, op.BININT1, 1)
        self.codes(op.MARK)
        for n in array.shape:
            self.integer(n)
        self.codes(op.TUPLE)
        self.kind(array.dtype)
        self.codes(op.NEWTRUE if turned else op.NEWFALSE)
        self.data(flat.view(np.uint8).data if flat.size else memoryview(b""))
        self.codes(op.TUPLE, op.BUILD)

    def scalar(self, x: np.generic) -> None:
        self.call("numpy.core.multiarray", "scalar")
        self.kind(x.dtype)
        self.data(memoryview(np.asarray(x, x.dtype.newbyteorder("=")).tobytes()))
        self.codes(op.TUPLE2, op.REDUCE)

    # ------------------------------------------------------------ containers

    def nested(self, x: Any) -> None:
        """Write any object; tensors in it as Paddle writes them: pairs of a name and an array."""
        if not isinstance(x, (Tensor, np.ndarray, dict, list, tuple, set, frozenset)):
            self.plain(x)
        elif not self.recalled(id(x)):
            self._new(x)

    def _new(self, x: Any) -> None:
        if isinstance(x, Tensor):
            self.call("builtins", "tuple")
            self.text(x.name)
            self.array(host_of(x))
            self.codes(op.TUPLE2, op.TUPLE1, op.REDUCE)
            self.remember(id(x))
        elif isinstance(x, np.ndarray):
            self.array(x)
            self.remember(id(x))
        elif isinstance(x, tuple):
            self._sequence(x)
            self.codes(op.TUPLE)
            self.remember(id(x))
        elif isinstance(x, (set, frozenset)):
            self.call("builtins", "set" if isinstance(x, set) else "frozenset")
            self.codes(op.EMPTY_LIST)
            for element in sorted(x, key=lambda e: (type(e).__name__, repr(e))):
                self.nested(element)
                self.codes(op.APPEND)
            self.codes(op.TUPLE1, op.REDUCE)
            self.remember(id(x))
        elif isinstance(x, list):
            self.codes(op.EMPTY_LIST)
            self.remember(id(x))
            for element in x:
                self.nested(element)
                self.codes(op.APPEND)
        else:
            self.entries(x, x.items(), self.nested)

    def _sequence(self, x: tuple) -> None:
        self.codes(op.MARK)
        for element in x:
            self.nested(element)

    def entries(self, key: Any, pairs: Any, write: Callable[[Any], None]) -> None:
        """Write a dict of these pairs, memoized as that of ``key``."""
        if isinstance(key, collections.OrderedDict):
            self.call("collections", "OrderedDict")
            self.codes(op.EMPTY_TUPLE, op.REDUCE)
        else:
            self.codes(op.EMPTY_DICT)
        self.remember(id(key))
        for name, value in pairs:
            self.nested(name)
            write(value)
            self.codes(op.SETITEM)
