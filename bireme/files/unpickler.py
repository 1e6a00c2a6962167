"""The unpickler of Paddle's files, which builds arrays and plain containers only.

Nothing that a file names is imported or called. For the few global names of pickled arrays there are functions here;
any other name is an error. The memory that a file can make it use is bounded by the size of the file.
"""

from __future__ import annotations

import collections
import struct
from collections.abc import Callable
from typing import Any, ClassVar

from bireme.core.base.errors import FileFormatError
from bireme.files import opcodes as op
from bireme.files.allowed_globals import (
    CALLS,
    MIN_BLOB_BYTES,
    WORDS,
    Array,
    Blob,
    Builder,
    Kind,
    Word,
    set_kind,
    what,
)
from bireme.files.source import Source

MAX_LONG = 1024
MAX_LINE = 1024
_NOTHING = object()  # where no object was remembered


class Unpickler(Builder):
    """Unpickles one object. Arrays are returned as ``Array``, long bytes as ``Blob``."""

    table: ClassVar[dict[int, Callable[[Any], Any]]]  # what each opcode does
    words: ClassVar[dict[tuple[str, str], Word]] = WORDS  # global names that a file may contain

    def __init__(self, source: Source):
        self.source = source
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: list[Any] = []
        self.steps = 0
        self.parts = 0
        super().__init__(source.left)

    def run(self) -> Any:
        source, table = self.source, self.table
        try:
            while True:
                code = source.byte()
                if code == op.STOP:
                    break
                step = table.get(code)
                if step is None:
                    raise FileFormatError(f"unsupported pickle opcode 0x{code:02x} at byte {source.place - 1}")
                step(self)
                self.steps += 1
                if self.steps > op.MAX_STEPS:
                    raise FileFormatError(f"more than {op.MAX_STEPS} instructions")
            if len(self.stack) != 1 or self.marks:
                raise FileFormatError("a pickle that does not leave exactly one object on the stack")
            return self.stack.pop()
        except IndexError:
            raise FileFormatError(f"a pickle opcode at byte {source.place} without its operands on the stack") from None

    # ------------------------------------------------------------ parts of instructions

    def push(self, x: Any) -> None:
        self.stack.append(x)

    def grown(self, x: Any) -> None:
        """Push a new container: containers are counted by weight, since one byte of the file can allocate hundreds."""
        self.parts += op.WEIGHTS.get(type(x), 1)
        if self.parts > op.MAX_PARTS:
            raise FileFormatError(f"more than {op.MAX_PARTS} lists, dicts, tuples and arrays")
        self.stack.append(x)

    def to_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marks.pop()
        return items

    def _long_bytes(self, n: int) -> Any:
        self.push(self.source.take(n) if n < MIN_BLOB_BYTES else Blob(self.source.blob(n)))

    def _text(self, n: int) -> None:
        raw = self.source.take(n)
        try:
            self.push(raw.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise FileFormatError(f"a str that is not UTF-8 before byte {self.source.place}") from None

    def _old_text(self, n: int) -> None:
        self.push(self.source.take(n).decode("latin-1"))

    def _int(self, n: int) -> None:
        if n > MAX_LONG:
            raise FileFormatError(f"an integer of {n} bytes")
        self.push(int.from_bytes(self.source.take(n), "little", signed=True))

    def _float(self) -> None:
        self.push(struct.unpack(">d", self.source.take(8))[0])

    def _tuple(self, n: int) -> None:
        if len(self.stack) < n:
            raise IndexError
        items = tuple(self.stack[-n:])
        del self.stack[-n:]
        self.grown(items)

    # ------------------------------------------------------------ memory of objects

    def _put(self, i: int) -> None:
        # a list: numbers of a dict would be chosen by the file, and so where they collide
        if i > self.steps:
            raise FileFormatError(f"an object remembered as number {i}, when there were at most {self.steps}")
        if i >= len(self.memo):
            self.memo += [_NOTHING] * (i + 1 - len(self.memo))
        self.memo[i] = self.stack[-1]

    def _get(self, i: int) -> None:
        if i >= len(self.memo) or self.memo[i] is _NOTHING:
            raise FileFormatError(f"object number {i}, which was not made before")
        self.push(self.memo[i])

    # ------------------------------------------------------------ containers

    def _extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise FileFormatError(f"list items appended to {what(target)}")
        target.extend(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, collections.OrderedDict):
            raise FileFormatError(f"dict items set on {what(target)}")
        if len(items) % 2:
            raise FileFormatError("a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self.key_for(target, key)] = value

    def _add_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not set:
            raise FileFormatError(f"elements for a set that go to {what(target)}")
        for key in items:
            target.add(self.key_for(target, key))

    def _pop_two(self) -> list[Any]:
        value = self.stack.pop()
        return [self.stack.pop(), value]

    def _pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.to_mark()

    # ------------------------------------------------------------ names

    def _global(self) -> None:
        module, name = (self.source.line(MAX_LINE).decode("utf-8", "replace") for _ in range(2))
        self._name(module, name)

    def _stack_global(self) -> None:
        module, name = self._pop_two()
        if type(module) is not str or type(name) is not str:
            raise FileFormatError("a global name that is not a str")
        self._name(module, name)

    def _name(self, module: str, name: str) -> None:
        word = self.words.get((module, name))
        if word is None:
            raise FileFormatError(f"unsupported pickle global {f'{module}.{name}'[:200]!r}: only data is loaded")
        self.push(word)

    def _reduce(self) -> None:
        word, args = self._pop_two()
        if type(word) is not Word or type(args) is not tuple:
            raise FileFormatError(f"a call of {what(word)}")
        make = CALLS.get(word.name)
        if make is None:
            raise FileFormatError(f"a call of {word.name}")
        self.grown(make(self, args))

    def _build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is Array:
            self.fill(target, state)
        elif type(target) is Kind:
            set_kind(target, state)
        else:
            raise FileFormatError(f"a pickle state for {what(target)}")


def _proto(m: Unpickler) -> None:
    if not 0 <= m.source.byte() <= 5:
        raise FileFormatError("an unsupported pickle protocol, newer than 5")


def _frame(m: Unpickler) -> None:
    n = m.source.number(8)
    if n > m.source.left:
        raise FileFormatError(
            f"it is truncated: a frame of {n} bytes begins at byte {m.source.place}, and {m.source.left} are left"
        )


def _mark(m: Unpickler) -> None:
    m.parts += 1
    if m.parts > op.MAX_PARTS:
        raise FileFormatError(f"more than {op.MAX_PARTS} lists, dicts, tuples and arrays")
    m.marks.append(m.stack)
    m.stack = []


def _signed(m: Unpickler) -> None:
    m.push(int.from_bytes(m.source.take(4), "little", signed=True))


Unpickler.table = {
    op.PROTO: _proto,
    op.FRAME: _frame,
    op.MARK: _mark,
    op.POP: Unpickler._pop,
    op.POP_MARK: lambda m: m.to_mark() and None,
    op.DUP: lambda m: m.push(m.stack[-1]),
    op.NONE: lambda m: m.push(None),
    op.NEWTRUE: lambda m: m.push(True),
    op.NEWFALSE: lambda m: m.push(False),
    op.BININT: _signed,
    op.BININT1: lambda m: m.push(m.source.byte()),
    op.BININT2: lambda m: m.push(m.source.number(2)),
    op.LONG1: lambda m: m._int(m.source.byte()),
    op.LONG4: lambda m: m._int(m.source.number(4)),
    op.BINFLOAT: Unpickler._float,
    op.BINUNICODE: lambda m: m._text(m.source.number(4)),
    op.SHORT_BINUNICODE: lambda m: m._text(m.source.byte()),
    op.BINUNICODE8: lambda m: m._text(m.source.number(8)),
    op.BINSTRING: lambda m: m._old_text(m.source.number(4)),
    op.SHORT_BINSTRING: lambda m: m._old_text(m.source.byte()),
    op.BINBYTES: lambda m: m._long_bytes(m.source.number(4)),
    op.SHORT_BINBYTES: lambda m: m._long_bytes(m.source.byte()),
    op.BINBYTES8: lambda m: m._long_bytes(m.source.number(8)),
    op.BYTEARRAY8: lambda m: m._long_bytes(m.source.number(8)),
    op.EMPTY_LIST: lambda m: m.grown([]),
    op.APPEND: lambda m: m._extend([m.stack.pop()]),
    op.APPENDS: lambda m: m._extend(m.to_mark()),
    op.EMPTY_DICT: lambda m: m.grown({}),
    op.SETITEM: lambda m: m._set_items(m._pop_two()),
    op.SETITEMS: lambda m: m._set_items(m.to_mark()),
    op.EMPTY_SET: lambda m: m.grown(set()),
    op.ADDITEMS: lambda m: m._add_items(m.to_mark()),
    op.FROZENSET: lambda m: m.grown(m.frozen(m.to_mark())),
    op.EMPTY_TUPLE: lambda m: m.push(()),
    op.TUPLE: lambda m: m.grown(tuple(m.to_mark())),
    op.TUPLE1: lambda m: m._tuple(1),
    op.TUPLE2: lambda m: m._tuple(2),
    op.TUPLE3: lambda m: m._tuple(3),
    op.GLOBAL: Unpickler._global,
    op.STACK_GLOBAL: Unpickler._stack_global,
    op.REDUCE: Unpickler._reduce,
    op.BUILD: Unpickler._build,
    op.BINGET: lambda m: m._get(m.source.byte()),
    op.LONG_BINGET: lambda m: m._get(m.source.number(4)),
    op.BINPUT: lambda m: m._put(m.source.byte()),
    op.LONG_BINPUT: lambda m: m._put(m.source.number(4)),
    op.MEMOIZE: lambda m: m._put(len(m.memo)),
}
