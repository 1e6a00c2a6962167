"""`save` and `load`: objects to files and back."""

from __future__ import annotations

import errno
import functools
import io
import os
from collections.abc import Callable
from typing import Any, BinaryIO

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guarded
from bireme.core.base.errors import FileFormatError
from bireme.core.tensor.tensor import Tensor
from bireme.files import binary_tensor, pdparams, safetensors
from bireme.files.atomic import replacing
from bireme.files.object_state import described
from bireme.files.pickler import host_of
from bireme.files.source import Source, size_of

_SAVE = ("use_binary_format", "pickle_protocol", "safetensors", "metadata")
_LOAD = ("return_numpy", "keep_name_table", "safetensors", "mmap", "model_filename", "params_filename")


@guarded
def save(obj: Any, path: str | os.PathLike | BinaryIO, protocol: int = 4, **configs: Any) -> None:
    """Save tensors and plain data to one file, in Paddle's format or as safetensors.

    ``obj`` may hold tensors, arrays, numbers, str and bytes, nested in dicts, lists, tuples and sets; other objects are
    saved as a dict of their attributes, with a warning. Paddle reads the file as its own. The file appears whole or not
    at all, even if the process is killed.

    Args:
        obj: What to save, for example ``layer.state_dict()``.
        path: Path of the file, whose missing directories are created, or an open binary file. A path that ends in
            ``.safetensors`` gives a safetensors file, for which ``obj`` is a dict of tensors.
        protocol: Pickle protocol of Paddle's format: 2, 3 or 4. Default: 4.
        **configs: ``safetensors=True`` writes a safetensors file whatever the path; ``metadata`` is a dict of str to
            str for it; ``use_binary_format=True`` writes one tensor in Paddle's binary format.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.save({"w": bireme.ones([2])}, f"{folder}/model.pdparams")
        ...     bireme.load(f"{folder}/model.pdparams")["w"].tolist()
        [1.0, 1.0]
    """
    writing("save", obj, path, protocol, configs)()


def writing(where: str, obj: Any, path: Any, protocol: int, configs: dict[str, Any]) -> Callable[[], None]:
    """Check the arguments of ``save`` and return a function that writes the file."""
    _known(where, configs, _SAVE)
    if configs.get("pickle_protocol") is not None:
        errors.warn(f"{where}: 'pickle_protocol' is an old name of 'protocol'")
        protocol = configs["pickle_protocol"]
    if isinstance(protocol, bool) or not isinstance(protocol, int) or not 1 < protocol < 5:
        raise errors.bad(f"{where}(protocol)", "2, 3 or 4", protocol)
    binary = configs.get("use_binary_format", False)
    if not isinstance(binary, bool):
        raise errors.bad(f"{where}(use_binary_format)", "True or False", binary, kind=errors.ArgumentTypeError)
    if binary and not (isinstance(obj, Tensor) and binary_tensor.storable(obj.dtype.np)):
        raise errors.bad(f"{where}(obj)", "a Tensor, for the binary format", obj, kind=NotImplementedError)
    place = _path(where, path) if not hasattr(path, "write") else None
    if place is None:
        _binary(where, path)
    tensors_only = bool(configs.get("safetensors", place is not None and place.endswith(".safetensors")))
    if configs.get("metadata") is not None and not tensors_only:
        raise errors.bad(f"{where}(metadata)", "a file that ends in .safetensors", place or "an open file")
    if not binary and not tensors_only:
        obj = described(obj, where)

    def write(file: BinaryIO) -> None:
        if binary:
            binary_tensor.write(file, host_of(obj))
        elif tensors_only:
            safetensors.write(file, obj, configs.get("metadata"))
        else:
            pdparams.write(file, obj, protocol)

    return functools.partial(write, path) if place is None else functools.partial(write_whole, place, write)


def write_whole(path: str, write: Any) -> None:
    """Let ``write(file)`` write a new file that replaces ``path`` at the end."""
    with telling("save", path, "what was there before is unchanged"):
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        if os.path.isdir(path):
            raise errors.bad(
                "save(path)", "the name of a file", described=f"the folder {path!r}", kind=IsADirectoryError
            )
        with replacing(path) as file:
            write(file)


@guarded
def load(path: str | os.PathLike | BinaryIO, **configs: Any) -> Any:
    """Load a file that ``save``, Paddle or safetensors wrote.

    Nothing in the file is executed, and every size in it is checked before memory is allocated.

    Args:
        path: Path of the file, or an open binary file. The format is found from the content.
        **configs: ``return_numpy=True`` returns NumPy arrays instead of tensors; ``keep_name_table=True`` keeps the
            table of parameter names that Paddle adds to a state dict; ``safetensors=True`` reads a safetensors file
            whatever the path; ``mmap=True`` reads the arrays of a safetensors file only when they are used, so the file
            must stay. ``model_filename`` and ``params_filename`` have no effect.

    Returns:
        The object that was saved.

    Raises:
        ValueError: If there is no such file, or it is damaged or not of a known format.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.save([1, (2.5, "a")], f"{folder}/state.pdopt")
        ...     bireme.load(f"{folder}/state.pdopt")
        [1, (2.5, 'a')]
    """
    _known("load", configs, _LOAD)
    if hasattr(path, "read"):
        return _load_open(_binary("load", path), configs)
    place = _path("load", path)
    if not os.path.isfile(place):
        what = "which is not a file" if os.path.exists(place) else "which is not there"
        near = next(
            (place + end for end in (".pdparams", ".pdopt", ".safetensors") if os.path.isfile(place + end)), None
        )
        raise errors.bad(
            "load(path)",
            "a file",
            described=f"{place!r}, {what}",
            hint=None if near is None else f"give the whole name: {near}",
        )
    with telling("load", place), open(place, "rb", buffering=0) as file, naming(place):
        source = Source(file, size_of(file))
        found = _read(source, place, configs)
        if source.left and not isinstance(found, _Mapped):
            raise FileFormatError(f"{source.left} trailing bytes")
    return found.arrays if isinstance(found, _Mapped) else found


def read_metadata(path: str | os.PathLike) -> dict[str, str]:
    """Return the metadata of a safetensors file; its arrays are not read.

    Args:
        path: Path of the file.

    Returns:
        A dict of str to str.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.save({"w": bireme.ones([2])}, f"{folder}/a.safetensors", metadata={"made": "today"})
        ...     bireme.files.read_metadata(f"{folder}/a.safetensors")
        {'made': 'today'}
    """
    place = _path("read_metadata", path)
    with telling("read_metadata", place), open(place, "rb", buffering=0) as file, naming(place):
        return safetensors.Reader(Source(file, size_of(file))).metadata


class _Mapped:
    """Arrays of a mapped file, which are not read yet."""

    def __init__(self, arrays: dict):
        self.arrays = arrays


def _load_open(file: Any, configs: dict) -> Any:
    where = str(getattr(file, "name", "the open file"))
    try:
        start = file.tell()
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
    except (OSError, ValueError, AttributeError):  # a pipe, a compressed file: its size is not known before it is read
        data = file.read()
        file, size = io.BytesIO(data), len(data)
    if not hasattr(file, "readinto"):
        file = io.BytesIO(file.read())
    with naming(where):
        source = Source(file, size)
        found = _read(source, None, configs)
        source.give_back()  # another object may follow
    return found


def _read(source: Source, path: str | None, configs: dict) -> Any:
    numpy = bool(configs.get("return_numpy", False))
    head = source.peek(9)
    if (
        configs.get("safetensors")
        or (path is not None and path.endswith(".safetensors"))
        or is_safetensors(head, source.left)
    ):
        reader = safetensors.Reader(source)
        mapped = bool(configs.get("mmap")) and path is not None
        arrays: dict[str, Any] = reader.mapped(path) if mapped and path is not None else reader.arrays()
        if not numpy:
            for name in arrays:
                arrays[name] = pdparams.tensor_of(arrays[name])
        return _Mapped(arrays) if mapped else arrays
    if head[:1] == b"\x80":
        return pdparams.read(source, numpy, bool(configs.get("keep_name_table")))
    if head[:4] == bytes(4) and len(head) == 9:
        host = binary_tensor.read(source)
        return dtypes.as_paddle_shows(host) if numpy else pdparams.tensor_of(host)
    raise FileFormatError("neither a file written by save, nor a safetensors file")


def is_safetensors(head: bytes, size: int) -> bool:
    """Whether a file of this size that begins with these nine bytes is a safetensors file."""
    return len(head) == 9 and head[8:] == b"{" and int.from_bytes(head[:8], "little") <= size - 8


# ---------------------------------------------------------------- errors


class telling:
    """Turn an error of the operating system into one sentence that names the file."""

    def __init__(self, where: str, path: str, hint: str | None = None):
        self.where, self.path, self.hint = where, path, hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, e: Any, trace: Any) -> None:
        if not isinstance(e, OSError) or getattr(e, "_told", False):
            return
        reason = "the disk is full" if e.errno in (errno.ENOSPC, errno.EDQUOT) else e.strerror or str(e)
        action = "a file that can be read" if self.hint is None else "a file that can be written"
        told = errors.bad(
            f"{self.where}(path)", action, described=f"{self.path}: {reason}", hint=self.hint, kind=type(e)
        )
        told.errno = e.errno  # type: ignore[attr-defined]  # an OSError
        raise told from None


class naming:
    """Add the name of the file to what is wrong with it."""

    def __init__(self, path: str, expected: str = "an undamaged file of tensors and plain data"):
        self.path, self.expected = path, expected

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, e: Any, trace: Any) -> None:
        if isinstance(e, FileFormatError):
            raise errors.bad(
                "load(path)",
                self.expected,
                described=f"{self.path}: {e}",
                kind=FileFormatError,
            ) from e.__cause__


def _binary(where: str, file: Any) -> Any:
    if isinstance(file, io.TextIOBase):
        raise errors.bad(
            f"{where}(path)",
            "a file opened in binary mode",
            described="a file opened in text mode",
            hint="add 'b' to its mode",
            kind=errors.ArgumentTypeError,
        )
    return file


def _path(where: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise errors.bad(f"{where}(path)", "a path or an open binary file", path, kind=errors.ArgumentTypeError)
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not os.path.basename(text):
        raise errors.bad(f"{where}(path)", "a path that ends in the name of a file", text)
    return text


def _known(where: str, configs: dict, names: tuple[str, ...]) -> None:
    for name in configs:
        if name not in names:
            raise errors.bad(f"{where}(configs)", f"an option among {', '.join(names)}", name)
