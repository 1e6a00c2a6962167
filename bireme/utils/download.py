"""Files from the net: fetched once, checked, unpacked into a folder of one's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.parse
import urllib.request
import zipfile

from bireme.core.base import errors

__all__ = ["get_weights_path_from_url", "get_path_from_url", "is_url"]

WEIGHTS_HOME = os.path.expanduser("~/.cache/bireme/weights")
TIMEOUT = 60  # seconds without a byte


def is_url(path: str) -> bool:
    """Whether a path is an address on the net.

    >>> bireme.utils.download.is_url("https://host/model.pdparams"), bireme.utils.download.is_url("/model.pdparams")
    (True, False)
    """
    return path.startswith(("http://", "https://"))


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """The path of a file of weights, fetched if it is not there yet.

    >>> bireme.utils.download.get_weights_path_from_url("model.pdparams")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: get_path_from_url(url): expected an address that begins with http:// or https://, got model.pdparams...
    """
    return get_path_from_url(url, WEIGHTS_HOME, md5sum)


def get_path_from_url(
    url: str, root_dir: str, md5sum: str | None = None, check_exist: bool = True, decompress: bool = True, method: str = "get"
) -> str:
    """The path of a file in `root_dir`, fetched if it is not there with this checksum; an archive is unpacked beside itself.

    >>> bireme.utils.download.get_path_from_url("ftp://host/a", ".")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: get_path_from_url(url): expected an address that begins with http:// or https://, got ftp://host/a...
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


def _matches(path: str, md5sum: str | None) -> bool:
    if md5sum is None:
        return True
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == md5sum.lower()


def _fetch(url: str, path: str, md5sum: str | None) -> None:
    """Under another name first: what stands under the right one is whole and checked."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file, urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            shutil.copyfileobj(answer, file)
        if not _matches(part, md5sum):
            raise errors.bad("get_path_from_url(md5sum)", f"a file with the checksum {md5sum}", "another one", kind=RuntimeError)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def _unpack(path: str) -> str:
    """Into the archive's folder if it holds one file or folder, or else into a new one named after it."""
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
            archive.extractall(into or ".")  # takes names that lead out of the folder for plain ones
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
    return errors.bad("get_path_from_url(url)", "an archive of files and folders that stay in it", what, kind=tarfile.ExtractError)


# under Paddle's names for them: packages that fetch data sets take these
_md5check, _decompress = _matches, _unpack


def _get_unique_endpoints(trainer_endpoints: list[str]) -> set[str]:
    """One address of each machine, the first by name: who has it fetches the files for all of its machine."""
    return set({address.split(":")[0]: address for address in sorted(trainer_endpoints, reverse=True)}.values())


def _tops(names: list[str]) -> list[str]:
    parts = [os.path.normpath(n).replace("\\", "/").lstrip("/").split("/")[0] for n in names]
    return sorted({p for p in parts if p not in ("", ".", "..")})
