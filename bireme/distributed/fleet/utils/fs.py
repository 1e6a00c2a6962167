"""File systems: this machine's, and Hadoop's through the user's `hadoop` program."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.distributed import programs

__all__ = ["HDFSClient", "LocalFS"]


class ExecuteError(Exception):
    """A command of a file system has failed."""


class FSFileExistsError(Exception):
    """A file is there that should not be."""


class FSFileNotExistsError(Exception):
    """A file is not there."""


class FSTimeOut(Exception):
    """A command of a file system took too long."""


class FSShellCmdAborted(ExecuteError):
    """A command of a file system was aborted."""


class FS(Guarded):
    """Base of file systems."""


class LocalFS(FS):
    """Files and folders of this machine.

    Examples:
        >>> import os, tempfile
        >>> client = bireme.distributed.fleet.utils.LocalFS()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     client.touch(os.path.join(folder, "a"))
        ...     client.mkdirs(os.path.join(folder, "b"))
        ...     client.ls_dir(folder)
        (['b'], ['a'])
    """

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """Return the names of folders and of files in a folder; both empty if it is not there.

        Args:
            fs_path: The folder.

        Returns:
            Two lists.
        """
        if not self.is_exist(fs_path):
            return [], []
        names = sorted(os.listdir(fs_path))
        folders = [name for name in names if os.path.isdir(os.path.join(fs_path, name))]
        return folders, [name for name in names if name not in folders]

    def list_dirs(self, fs_path: str) -> list[str]:
        """Return the names of folders in a folder.

        Args:
            fs_path: The folder.

        Returns:
            A list; empty if it is not there.
        """
        return self.ls_dir(fs_path)[0]

    def mkdirs(self, fs_path: str) -> None:
        """Make a folder, and those that it lies in.

        Args:
            fs_path: The folder.

        Raises:
            AssertionError: If a file has its name.
        """
        if os.path.isfile(fs_path):
            raise errors.bad("LocalFS.mkdirs(fs_path)", "the name of a folder", described=f"{fs_path}, which is a file")
        os.makedirs(fs_path, exist_ok=True)

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Rename a file or folder.

        Args:
            fs_src_path: Its name.
            fs_dst_path: Its new name.
        """
        os.rename(fs_src_path, fs_dst_path)

    def delete(self, fs_path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if it is not there.

        Args:
            fs_path: Its name.
        """
        if os.path.isdir(fs_path) and not os.path.islink(fs_path):
            shutil.rmtree(fs_path)
        elif os.path.lexists(fs_path):
            os.remove(fs_path)

    def need_upload_download(self) -> bool:
        """Return False: its files are here."""
        return False

    def is_file(self, fs_path: str) -> bool:
        """Return whether there is a file.

        Args:
            fs_path: Its name.

        Returns:
            True if there is.
        """
        return os.path.isfile(fs_path)

    def is_dir(self, fs_path: str) -> bool:
        """Return whether there is a folder.

        Args:
            fs_path: Its name.

        Returns:
            True if there is.
        """
        return os.path.isdir(fs_path)

    def is_exist(self, fs_path: str) -> bool:
        """Return whether there is a file or folder.

        Args:
            fs_path: Its name.

        Returns:
            True if there is.
        """
        return os.path.exists(fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Make an empty file; one that is there stays as it is.

        Args:
            fs_path: Its name.
            exist_ok: Whether it may be there. Default: True.

        Raises:
            FSFileExistsError: If it is there and may not be.
        """
        if self.is_exist(fs_path):
            if not exist_ok:
                raise errors.as_told(FSFileExistsError(f"LocalFS.touch(fs_path): {fs_path} is there"))
            return
        with open(fs_path, "ab"):
            pass

    def mv(self, src_path: str, dst_path: str, overwrite: bool = False, test_exists: bool = False) -> None:
        """Move a file or folder.

        Args:
            src_path: Its name.
            dst_path: Its new name.
            overwrite: Remove what is there under the new name first. Default: False.
            test_exists: Has no effect: it is always tested.

        Raises:
            FSFileNotExistsError: If it is not there.
            FSFileExistsError: If something is there under the new name.
        """
        if not self.is_exist(src_path):
            raise errors.as_told(FSFileNotExistsError(f"LocalFS.mv(src_path): {src_path} is not there"))
        if overwrite:
            self.delete(dst_path)
        if self.is_exist(dst_path):
            raise errors.as_told(FSFileExistsError(f"LocalFS.mv(dst_path): {dst_path} is there"))
        self.rename(src_path, dst_path)

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copy a file or folder.

        Args:
            local_path: Its name.
            fs_path: The name of the copy.
        """
        self._copy("upload", local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        """Copy a file or folder.

        Args:
            fs_path: Its name.
            local_path: The name of the copy.
        """
        self._copy("download", fs_path, local_path)

    def upload_dir(self, local_dir: str, dest_dir: str) -> None:
        """Copy a folder.

        Args:
            local_dir: Its name.
            dest_dir: The name of the copy.
        """
        self._copy("upload_dir", local_dir, dest_dir)

    def _copy(self, where: str, source: str, target: str) -> None:
        if not self.is_exist(source):
            raise errors.as_told(FSFileNotExistsError(f"LocalFS.{where}(): {source} is not there"))
        if os.path.isdir(source):
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)

    def cat(self, fs_path: str | None = None) -> str:
        """Return the text of a file.

        Args:
            fs_path: Its name.

        Returns:
            The text, without line breaks at its end.

        Raises:
            FSFileNotExistsError: If it is not there.
        """
        if fs_path is None or not self.is_file(fs_path):
            raise errors.as_told(FSFileNotExistsError(f"LocalFS.cat(fs_path): {fs_path} is not there"))
        with open(fs_path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")


class HDFSClient(FS):
    """Files and folders of a Hadoop file system, through the program ``bin/hadoop`` of an installation.

    Args:
        hadoop_home: Folder of the installation.
        configs: Settings by name, as ``{"fs.default.name": "hdfs://host:9000", "hadoop.job.ugi": "name,password"}``;
            None for those of the installation.
        time_out: Milliseconds within which a command that fails is tried again. Default: 300000.
        sleep_inter: Milliseconds between two tries. Default: 1000.

    Examples:
        >>> client = bireme.distributed.fleet.utils.HDFSClient("/opt/hadoop", {"fs.default.name": "hdfs://host:9000"})
        >>> client.need_upload_download()
        True
    """

    def __init__(
        self, hadoop_home: str, configs: dict[str, str] | None, time_out: int = 5 * 60 * 1000, sleep_inter: int = 1000
    ):
        if configs is not None and not isinstance(configs, dict):
            raise errors.bad("HDFSClient(configs)", "a dict of settings", configs, kind=errors.ArgumentTypeError)
        settings = [f"-D{name}={value}" for name, value in (configs or {}).items()]
        self._command = [os.path.join(hadoop_home, "bin", "hadoop"), "fs", *settings]
        self._seconds, self._pause = time_out / 1000, sleep_inter / 1000

    def _run(self, *arguments: str) -> tuple[int, list[str]]:
        try:
            code, text = programs.output(f"HDFSClient({arguments[0]})", [*self._command, *arguments], self._seconds)
        except TimeoutError as e:
            raise errors.as_told(FSTimeOut(str(e))) from None
        return code, text.splitlines()

    def _do(self, *arguments: str) -> list[str]:
        """What a command prints; it is tried again for a while if it fails."""
        until = time.monotonic() + self._seconds
        while True:
            code, lines = self._run(*arguments)
            if code == 0:
                return lines
            if time.monotonic() + self._pause > until:
                raise errors.as_told(ExecuteError(f"hadoop fs {' '.join(arguments)} has failed with exit code {code}"))
            time.sleep(self._pause)

    def need_upload_download(self) -> bool:
        """Return True: its files are elsewhere."""
        return True

    def _test(self, kind: str, fs_path: str) -> bool:
        return self._run("-test", kind, fs_path)[0] == 0

    def is_exist(self, fs_path: str) -> bool:
        """Return whether there is a file or folder.

        Args:
            fs_path: Its name.

        Returns:
            True if there is.
        """
        return self._test("-e", fs_path)

    def is_dir(self, fs_path: str) -> bool:
        """Return whether there is a folder.

        Args:
            fs_path: Its name.

        Returns:
            True if there is.
        """
        return self._test("-d", fs_path)

    def is_file(self, fs_path: str) -> bool:
        """Return whether there is a file.

        Args:
            fs_path: Its name.

        Returns:
            True if there is.
        """
        return self.is_exist(fs_path) and not self.is_dir(fs_path)

    def _listed(self, fs_path: str) -> list[list[str]]:
        """Lines of a listing in words: rights, copies, owner, group, size, day, time, name."""
        found = [line.split(None, 7) for line in self._do("-ls", fs_path)]
        return [words for words in found if len(words) == 8]

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """Return the names of folders and of files in a folder; both empty if it is not there.

        Args:
            fs_path: The folder.

        Returns:
            Two lists.
        """
        if not self.is_exist(fs_path):
            return [], []
        listed = self._listed(fs_path)
        folders = [os.path.basename(words[7]) for words in listed if words[0].startswith("d")]
        return folders, [os.path.basename(words[7]) for words in listed if not words[0].startswith("d")]

    def list_dirs(self, fs_path: str) -> list[str]:
        """Return the names of folders in a folder.

        Args:
            fs_path: The folder.

        Returns:
            A list; empty if it is not there.
        """
        return self.ls_dir(fs_path)[0]

    def list_files_info(self, path_list: Sequence[str]) -> list[dict[str, Any]]:
        """Return names and sizes of files.

        Args:
            path_list: Names of files, or of folders of files.

        Returns:
            A list of dicts with ``path`` and ``size``.
        """
        listed = [words for path in path_list for words in self._listed(path)]
        return [{"path": words[7], "size": int(words[4])} for words in listed if not words[0].startswith("d")]

    def mkdirs(self, fs_path: str) -> None:
        """Make a folder, and those that it lies in.

        Args:
            fs_path: The folder.
        """
        if not self.is_exist(fs_path):
            self._do("-mkdir", "-p", fs_path)

    def delete(self, fs_path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if it is not there.

        Args:
            fs_path: Its name.
        """
        if self.is_exist(fs_path):
            self._do("-rm", "-r", fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Make an empty file; one that is there stays as it is.

        Args:
            fs_path: Its name.
            exist_ok: Whether it may be there. Default: True.

        Raises:
            FSFileExistsError: If it is there and may not be.
        """
        if self.is_exist(fs_path):
            if not exist_ok:
                raise errors.as_told(FSFileExistsError(f"HDFSClient.touch(fs_path): {fs_path} is there"))
            return
        self._do("-touchz", fs_path)

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Rename a file or folder.

        Args:
            fs_src_path: Its name.
            fs_dst_path: Its new name.
        """
        self._do("-mv", fs_src_path, fs_dst_path)

    def mv(self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = True) -> None:
        """Move a file or folder.

        Args:
            fs_src_path: Its name.
            fs_dst_path: Its new name.
            overwrite: Remove what is there under the new name first. Default: False.
            test_exists: Test that it is there, and the new name is not. Default: True.

        Raises:
            FSFileNotExistsError: If it is not there.
            FSFileExistsError: If something is there under the new name.
        """
        if overwrite:
            self.delete(fs_dst_path)
        if test_exists:
            if not self.is_exist(fs_src_path):
                raise errors.as_told(FSFileNotExistsError(f"HDFSClient.mv(fs_src_path): {fs_src_path} is not there"))
            if self.is_exist(fs_dst_path):
                raise errors.as_told(FSFileExistsError(f"HDFSClient.mv(fs_dst_path): {fs_dst_path} is there"))
        self.rename(fs_src_path, fs_dst_path)

    def cat(self, fs_path: str | None = None) -> str:
        """Return the text of a file.

        Args:
            fs_path: Its name.

        Returns:
            The text; empty if it is not there.
        """
        if fs_path is None or not self.is_file(fs_path):
            return ""
        return "\n".join(self._do("-cat", fs_path))

    def upload(self, local_path: str, fs_path: str, multi_processes: int = 5, overwrite: bool = False) -> None:
        """Copy a file or folder of this machine.

        Args:
            local_path: Its name.
            fs_path: The folder, or the name of the copy.
            multi_processes: Has no effect: one command copies all.
            overwrite: Replace what is there. Default: False.

        Raises:
            FSFileNotExistsError: If it is not there.
            ExecuteError: If the copy is there and is not replaced.
        """
        if not os.path.exists(local_path):
            raise errors.as_told(FSFileNotExistsError(f"HDFSClient.upload(local_path): {local_path} is not there"))
        self._do("-put", *(["-f"] if overwrite else []), local_path, fs_path)

    def upload_dir(self, local_dir: str, dest_dir: str, overwrite: bool = False) -> None:
        """Copy a folder of this machine.

        Args:
            local_dir: Its name.
            dest_dir: The folder that it comes into.
            overwrite: Remove what is there under its name first. Default: False.

        Raises:
            FSFileExistsError: If it is there and is not replaced.
        """
        target = f"{dest_dir.rstrip('/')}/{os.path.basename(local_dir.rstrip('/'))}"
        if self.is_exist(target):
            if not overwrite:
                raise errors.as_told(FSFileExistsError(f"HDFSClient.upload_dir(dest_dir): {target} is there"))
            self.delete(target)
        self._do("-put", local_dir, dest_dir)

    def download(self, fs_path: str, local_path: str, multi_processes: int = 5, overwrite: bool = False) -> None:
        """Copy a file or folder to this machine.

        Args:
            fs_path: Its name.
            local_path: The folder, or the name of the copy.
            multi_processes: Has no effect: one command copies all.
            overwrite: Remove what is there first. Default: False.

        Raises:
            FSFileNotExistsError: If it is not there.
        """
        if not self.is_exist(fs_path):
            raise errors.as_told(FSFileNotExistsError(f"HDFSClient.download(fs_path): {fs_path} is not there"))
        if overwrite:
            LocalFS().delete(local_path)
        self._do("-get", fs_path, local_path)
