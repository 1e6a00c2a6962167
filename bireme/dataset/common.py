"""Files of samples as Paddle's first datasets had them: downloads, checksums, and samples in pickled pieces."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.files import load, save
from bireme.utils.download import get_path_from_url, md5_of

__all__ = ["DATA_HOME", "cluster_files_reader", "download", "md5file", "must_mkdirs", "split"]

DATA_HOME = os.path.expanduser("~/.cache/bireme/dataset")


def md5file(fname: str | os.PathLike) -> str:
    """Return the MD5 checksum of a file.

    Args:
        fname: Path of the file.

    Returns:
        The checksum in hexadecimal.

    Examples:
        >>> import os
        >>> bireme.dataset.common.md5file(os.devnull)
        'd41d8cd98f00b204e9800998ecf8427e'
    """
    return md5_of(fname)


def must_mkdirs(path: str | os.PathLike) -> None:
    """Create a directory and those above it, unless it exists.

    Args:
        path: Path of the directory.

    Examples:
        >>> bireme.dataset.common.must_mkdirs(".")
    """
    os.makedirs(path, exist_ok=True)


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """Return the path of a file of a dataset, which is downloaded if it is not in the cache.

    Args:
        url: URL of the file, with http or https.
        module_name: Name of the dataset: its directory in ``DATA_HOME``.
        md5sum: MD5 checksum of the file.
        save_name: Name of the file in the cache. Default: None, the last part of the URL.

    Returns:
        Path of the file.

    Raises:
        RuntimeError: If the file cannot be downloaded, or has another checksum.

    Examples:
        >>> bireme.dataset.common.download("ftp://host/a", "set", "0")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: get_path_from_url(url): expected an address that begins with http:// or https://, ...
    """
    folder = os.path.join(DATA_HOME, module_name)
    if save_name is None:
        return get_path_from_url(url, folder, md5sum, decompress=False)
    path = os.path.join(folder, save_name)
    if not (os.path.isfile(path) and md5_of(path) == md5sum):
        os.replace(get_path_from_url(url, folder, md5sum, decompress=False), path)
    return path


def split(
    reader: Callable[[], Any],
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[Any, Any], None] = save,
) -> None:
    """Write the samples of a reader into files of so many samples each.

    Args:
        reader: Function without arguments that returns an iterable of samples.
        line_count: Samples in each file; the last one has what is left.
        suffix: Name of a file, with ``%d`` for its number. Default: ``"%05d.pickle"``.
        dumper: Function that writes a list of samples to an open file. Default: ``bireme.save``, which writes a
            pickle of plain data and arrays.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> bireme.dataset.common.split(lambda: range(5), 2, os.path.join(folder, "%d.pickle"))
        >>> sorted(os.listdir(folder))
        ['0.pickle', '1.pickle', '2.pickle']
    """
    if not callable(dumper):
        raise errors.bad("split(dumper)", "a callable", dumper, kind=errors.ArgumentTypeError)
    samples = list(reader())
    for number, start in enumerate(range(0, len(samples), line_count)):
        with open(suffix % number, "wb") as file:
            dumper(samples[start : start + line_count], file)


def cluster_files_reader(
    files_pattern: str, trainer_count: int, trainer_id: int, loader: Callable[[Any], Any] = load
) -> Callable[[], Iterator[Any]]:
    """Return a reader of every ``trainer_count``-th file that a pattern matches.

    Args:
        files_pattern: Pattern of paths, as ``glob`` takes them.
        trainer_count: Number of trainers that share the files.
        trainer_id: Which of them this one is.
        loader: Function that reads a list of samples from an open file. Default: ``bireme.load``, which runs no code.

    Returns:
        A function without arguments that iterates over the samples.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> bireme.dataset.common.split(lambda: range(5), 2, os.path.join(folder, "%d.pickle"))
        >>> list(bireme.dataset.common.cluster_files_reader(os.path.join(folder, "*.pickle"), 2, 0)())
        [0, 1, 4]
    """
    if not callable(loader):
        raise errors.bad("cluster_files_reader(loader)", "a callable", loader, kind=errors.ArgumentTypeError)

    def reader() -> Iterator[Any]:
        for path in sorted(glob.glob(files_pattern))[trainer_id::trainer_count]:
            with open(path, "rb") as file:
                yield from loader(file)

    return reader


guard_functions(globals())
