"""Models of repositories: what a folder's `hubconf.py` offers is listed, described and made.

Code of a hub runs on this machine, so it comes from a folder; from the network only by the commit that is named.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from types import ModuleType
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.device import device_guard
from bireme.files import load as load_file
from bireme.io import archives
from bireme.utils import download

__all__ = ["help", "list", "load", "load_state_dict_from_url"]

HUB_DIR = os.path.expanduser("~/.cache/bireme/hub")
_ARCHIVES = {
    "github": "https://github.com/{owner}/{name}/archive/{commit}.zip",
    "gitee": "https://gitee.com/{owner}/{name}/repository/archive/{commit}.zip",
}
_REPOSITORY = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+):(?P<commit>[0-9a-f]{40})")
_PLACES = ("cpu", "gpu", "xpu", "npu", "numpy", "np")


def list(repo_dir: str, source: str = "github", force_reload: bool = False) -> builtins.list[str]:
    """Return the names of what a repository offers: the functions and classes of its ``hubconf.py``.

    Args:
        repo_dir: Path of the folder with ``source='local'``, else ``'owner/name:commit'``, the commit in its 40 hexadecimal digits.
        source: ``'local'``, ``'github'`` or ``'gitee'``. Default: ``'github'``.
        force_reload: Download again what is in the cache. Default: False.

    Returns:
        Sorted names.

    Raises:
        ValueError: If there is no ``hubconf.py``, or no commit is named.

    Examples:
        >>> import pathlib, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> text = pathlib.Path(folder, "hubconf.py").write_text("def tiny(width=2): return [0] * width")
        >>> bireme.hub.list(folder, source="local")
        ['tiny']
    """
    found = _imported("list", repo_dir, source, force_reload)
    return sorted(name for name, value in vars(found).items() if callable(value) and not name.startswith("_"))


def help(repo_dir: str, model: str, source: str = "github", force_reload: bool = False) -> str | None:
    """Return the docstring of what a repository offers.

    Args:
        repo_dir: Path of the folder with ``source='local'``, else ``'owner/name:commit'``.
        model: Name of the function or class.
        source: ``'local'``, ``'github'`` or ``'gitee'``. Default: ``'github'``.
        force_reload: Download again what is in the cache. Default: False.

    Returns:
        The docstring, None if there is none.

    Examples:
        >>> import pathlib, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> text = pathlib.Path(folder, "hubconf.py").write_text("def tiny(): 'A tiny model.'")
        >>> bireme.hub.help(folder, "tiny", source="local")
        'A tiny model.'
    """
    return _entry("help", _imported("help", repo_dir, source, force_reload), model).__doc__


def load(repo_dir: str, model: str, source: str = "github", force_reload: bool = False, **kwargs: Any) -> Any:
    """Make a model that a repository offers.

    Args:
        repo_dir: Path of the folder with ``source='local'``, else ``'owner/name:commit'``.
        model: Name of the function or class.
        source: ``'local'``, ``'github'`` or ``'gitee'``. Default: ``'github'``.
        force_reload: Download again what is in the cache. Default: False.
        **kwargs: Arguments of the function.

    Returns:
        What the function returns.

    Raises:
        RuntimeError: If a package among the ``dependencies`` of ``hubconf.py`` is not installed.

    Examples:
        >>> import pathlib, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> text = pathlib.Path(folder, "hubconf.py").write_text("def tiny(width=2): return [0] * width")
        >>> bireme.hub.load(folder, "tiny", source="local", width=3)
        [0, 0, 0]
    """
    module = _imported("load", repo_dir, source, force_reload)
    missing = [name for name in getattr(module, "dependencies", ()) if not _installed(name)]
    if missing:
        expected = "the dependencies of hubconf.py to be installed"
        described = f"{', '.join(missing)} missing"
        raise errors.bad("load(repo_dir)", expected, described=described, kind=RuntimeError)
    return _entry("load", module, model)(**kwargs)


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike | None = None,
    check_hash: bool | str = False,
    file_name: str | None = None,
    map_location: str | None = None,
) -> Any:
    """Load a state dict from the network, or from the cache if it was loaded before.

    Args:
        url: URL of the file, or of a zip archive of one file.
        model_dir: Folder of the cache. Default: None, ``~/.cache/bireme/hub/checkpoints``.
        check_hash: MD5 checksum of the file. Default: False, not checked.
        file_name: Name of the file in the cache. Default: None, that of the URL.
        map_location: ``'cpu'``, ``'gpu'``, ``'xpu'`` or ``'npu'`` for tensors on that device, ``'numpy'`` or ``'np'``
            for NumPy arrays. Default: None, tensors on the current device.

    Returns:
        What the file holds.

    Examples:
        >>> bireme.hub.load_state_dict_from_url("model.pdparams")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: load_state_dict_from_url(url): expected an address that begins with http:// or https://...
    """
    name = "load_state_dict_from_url"
    if not isinstance(url, str) or not download.is_url(url):
        raise errors.bad(f"{name}(url)", "an address that begins with http:// or https://", url)
    if map_location is not None and map_location not in _PLACES:
        raise errors.bad(f"{name}(map_location)", f"{', '.join(map(repr, _PLACES))} or None", map_location)
    if file_name is not None and os.path.basename(file_name) != file_name:
        raise errors.bad(f"{name}(file_name)", "a name without folders", file_name)
    if check_hash is not False and not isinstance(check_hash, str):
        raise errors.bad(f"{name}(check_hash)", "an MD5 checksum or False", check_hash, kind=errors.ArgumentTypeError)
    folder = os.path.join(HUB_DIR, "checkpoints") if model_dir is None else os.fspath(model_dir)
    path = os.path.join(folder, file_name or os.path.basename(url.partition("?")[0]))
    if not os.path.isfile(path):
        found = download.get_path_from_url(url, folder, check_hash or None, decompress=False)
        if found != path:
            os.replace(found, path)
    path = _alone(path)
    if map_location in ("numpy", "np"):
        return load_file(path, return_numpy=True)
    if map_location is None:
        return load_file(path)
    with device_guard(map_location):
        return load_file(path)


def _alone(path: str) -> str:
    """The file itself, or the only one of a zip archive, which is unpacked beside it."""
    if not zipfile.is_zipfile(path):
        return path
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if len(names) != 1 or names[0].endswith("/"):
        return path  # a format of files that is a zip archive itself
    out = os.path.join(os.path.dirname(path), os.path.basename(names[0]))
    data = archives.ZipArchive("load_state_dict_from_url(url)", path).read(names[0])
    with open(out, "wb") as file:
        file.write(data)
    return out


def _imported(name: str, repo_dir: Any, source: Any, force_reload: bool) -> ModuleType:
    if source not in ("github", "gitee", "local"):
        raise errors.bad(f"{name}(source)", "'github', 'gitee' or 'local'", source)
    if not isinstance(repo_dir, (str, os.PathLike)):
        raise errors.bad(f"{name}(repo_dir)", "a path or a repository", repo_dir, kind=errors.ArgumentTypeError)
    given = os.fspath(repo_dir)
    folder = given if source == "local" else _fetched(name, given, source, force_reload)
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        raise errors.bad(f"{name}(repo_dir)", "a folder with hubconf.py", described=f"{folder}, which has none")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.abspath(folder))  # for modules beside it
    try:
        spec.loader.exec_module(module)
    except ImportError as e:
        described = f"{path}, which cannot be imported: {e}"
        raise errors.bad(f"{name}(repo_dir)", "a hubconf.py that runs", described=described, kind=RuntimeError) from e
    finally:
        sys.path.remove(os.path.abspath(folder))
    return module


def _entry(name: str, module: ModuleType, model: Any) -> Any:
    if not isinstance(model, str):
        raise errors.bad(f"{name}(model)", "the name of a function", model, kind=errors.ArgumentTypeError)
    found = getattr(module, model, None)
    if not callable(found):
        offered = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        expected = f"one of {', '.join(map(repr, offered))}" if offered else "a hubconf.py that offers something"
        raise errors.bad(f"{name}(model)", expected, model, kind=errors.MissingKeyError)
    return found


def _installed(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _fetched(name: str, repository: str, source: str, force_reload: bool) -> str:
    """The folder of a commit in the cache, downloaded if it is not there."""
    found = _REPOSITORY.fullmatch(repository)
    if found is None:
        expected = "'owner/name:commit' with the 40 digits of a commit, since what it holds runs on this machine"
        hint = "clone the repository, look at it, and pass its folder with source='local'"
        raise errors.bad(f"{name}(repo_dir)", expected, repository, hint=hint)
    folder = os.path.join(HUB_DIR, f"{source}_{found['owner']}_{found['name']}_{found['commit']}")
    if os.path.isdir(folder) and not force_reload:
        return folder
    os.makedirs(HUB_DIR, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HUB_DIR) as room:
        path = download.get_path_from_url(_ARCHIVES[source].format(**found.groupdict()), room, decompress=False)
        unpacked = os.path.join(room, "unpacked")
        top = _unpack(f"{name}(repo_dir)", path, unpacked, found["commit"] if source == "github" else "")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(top, folder)
    return folder


def _unpack(where: str, path: str, into: str, commit: str) -> str:
    """Unpack an archive of one folder; that of GitHub names its commit."""
    try:
        with zipfile.ZipFile(path) as archive:
            if commit and archive.comment.decode(errors="replace") != commit:
                raise archives.refused(where, path, "an archive of another commit", f"the commit {commit}")
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if len(members) > archives.MAX_MEMBERS or total > archives.MAX_KEPT:
                raise archives.refused(where, path, f"{len(members)} files of {total} bytes")
            archive.extractall(into)  # which strips what would lead out of the folder from names
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError) as e:
        raise archives.refused(where, path, f"it is damaged: {e}") from None
    tops = os.listdir(into)
    if len(tops) != 1 or not os.path.isdir(os.path.join(into, tops[0])):
        raise archives.refused(where, path, f"{len(tops)} of them", "an archive of one folder")
    return os.path.join(into, tops[0])


guard_functions(globals())
