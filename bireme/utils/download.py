"""Downloads: files are fetched once, checked and unpacked."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions

__all__ = ["get_weights_path_from_url", "get_path_from_url", "is_url"]

WEIGHTS_HOME = os.path.expanduser("~/.cache/bireme/weights")
TIMEOUT = 60  # seconds without a byte


def is_url(path: str) -> bool:
    """Return whether a path is a URL with http or https.

    Args:
        path: The path.

    Returns:
        A bool.

    Examples:
        >>> bireme.utils.download.is_url("https://host/model.pdparams"), bireme.utils.download.is_url("/model.pdparams")
        (True, False)
    """
    return path.startswith(("http://", "https://"))


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """Return the path of a file of weights, which is downloaded if it is not in the cache.

    Args:
        url: URL of the file.
        md5sum: MD5 checksum of the file. Default: None, not checked.

    Returns:
        Path of the file in ``~/.cache/bireme/weights``.

    Examples:
        >>> bireme.utils.download.get_weights_path_from_url("model.pdparams")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: get_path_from_url(url): expected an address that begins with http:// or https://, got 'model...
    """
    return get_path_from_url(url, WEIGHTS_HOME, md5sum)


def get_path_from_url(
    url: str,
    root_dir: str,
    md5sum: str | None = None,
    check_exist: bool = True,
    decompress: bool = True,
    method: str = "get",
) -> str:
    """Return the path of a file, which is downloaded if it is not there.

    Args:
        url: URL of the file, with http or https.
        root_dir: Directory of the file, created if it does not exist.
        md5sum: MD5 checksum of the file. Default: None, not checked.
        check_exist: Use an existing file with the right checksum; if False, always download. Default: True.
        decompress: Unpack a tar or zip archive beside itself. Default: True.
        method: ``"get"`` or ``"wget"``, without effect. Default: ``"get"``.

    Returns:
        Path of the file, or of what the archive holds.

    Raises:
        RuntimeError: If the checksum of the downloaded file is another.

    Examples:
        >>> bireme.utils.download.get_path_from_url("ftp://host/a", ".")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: get_path_from_url(url): expected an address that begins with http:// or https://, got 'ftp://host/a'...
    """
    if not isinstance(url, str) or not is_url(url):
        raise errors.bad("get_path_from_url(url)", "an address that begins with http:// or https://", url)
    if method not in ("get", "wget"):
        raise errors.bad("get_path_from_url(method)", "'get' or 'wget'", method)
    name = os.path.basename(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    if name in ("", ".", "..") or os.sep in name or "\0" in name:
        raise errors.bad("get_path_from_url(url)", "an address that ends in the name of a file", url)
    path = os.path.join(root_dir, name)
    if not (check_exist and os.path.isfile(path) and _matches(path, md5sum)):
        _fetch(url, path, md5sum)
    if decompress and (tarfile.is_tarfile(path) or zipfile.is_zipfile(path)):
        return _unpack(path)
    return path


def md5_of(path: str | os.PathLike) -> str:
    """The MD5 checksum of a file."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _matches(path: str, md5sum: str | None) -> bool:
    return md5sum is None or md5_of(path) == md5sum.lower()


def _fetch(url: str, path: str, md5sum: str | None) -> None:
    """Download under another name first, so that a file with the right name is whole and checked."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file, _opened(url) as answer:
            shutil.copyfileobj(answer, file)
        if not _matches(part, md5sum):
            raise errors.bad(
                "get_path_from_url(md5sum)",
                f"a file with the checksum {md5sum}",
                described="another one",
                kind=RuntimeError,
            )
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def _opened(url: str) -> Any:
    try:
        return urllib.request.urlopen(url, timeout=TIMEOUT)
    except urllib.error.URLError as e:  # no such host, no such file there, no connection
        hint = "download the file by other means, and pass its path to bireme.load()"
        got = f"{url}, which failed: {e}"
        raise errors.bad(
            "get_path_from_url(url)", "an address that answers", described=got, hint=hint, kind=RuntimeError
        ) from None


def _unpack(path: str) -> str:
    """Unpack beside the archive if it holds one file or directory, else into a new directory named after it."""
    folder, name = os.path.split(path)
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            names = tar.getnames()
            tops = _tops(names)
            into = folder if len(tops) == 1 else os.path.join(folder, name.split(".")[0])
            _extract(tar, into or ".")
    else:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            tops = _tops(names)
            into = folder if len(tops) == 1 else os.path.join(folder, name.split(".")[0])
            archive.extractall(into or ".")  # strips what would lead out of the folder from names
    return os.path.join(into, tops[0]) if len(tops) == 1 else into


def _extract(tar: tarfile.TarFile, into: str) -> None:
    """Files and folders, none outside of `into`. A link becomes a copy of the file it leads to, if that is in the archive."""
    # not by extractall: its filters are younger than Python 3.11.4, and without them an archive may write anywhere
    root = os.path.realpath(into)
    for member in tar.getmembers():
        path = os.path.realpath(os.path.join(root, member.name.lstrip("/")))
        if not path.startswith(os.path.join(root, "")) and not (path == root and member.isdir()):
            raise _refused(f"{member.name}, which is outside of it")
        if member.isdir():
            os.makedirs(path, exist_ok=True)
            continue
        try:
            data = tar.extractfile(member)
        except (KeyError, RecursionError):  # a link that leads nowhere, or to itself
            data = None
        if data is None:
            raise _refused(f"{member.name}, which is neither")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with data, open(path, "wb") as file:
            shutil.copyfileobj(data, file)
        os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)


def _refused(what: str) -> Exception:
    return errors.bad(
        "get_path_from_url(url)",
        "an archive of files and folders that stay in it",
        described=what,
        kind=tarfile.ExtractError,
    )


# under Paddle's names, which packages that download datasets import
_md5check, _decompress = _matches, _unpack


def _get_unique_endpoints(trainer_endpoints: list[str]) -> set[str]:
    """Return one address of each machine, the first by name: that process downloads the files for its machine."""
    return set({address.split(":")[0]: address for address in sorted(trainer_endpoints, reverse=True)}.values())


def _tops(names: list[str]) -> list[str]:
    parts = [os.path.normpath(n).replace("\\", "/").lstrip("/").split("/")[0] for n in names]
    return sorted({p for p in parts if p not in ("", ".", "..")})


guard_functions(globals())
