"""How worker processes start: from a server process that has one thread and has imported everything already.

A fork of the training process itself would hang sooner or later, since XLA's threads do not exist in the child. The
server is a fresh interpreter; it imports Bireme once, starts no device, and forks a worker in milliseconds. Where
workers had to import for long, because the dataset comes from a large library, later ones come from a server that has
done so.
"""

from __future__ import annotations

import ast
import io
import json
import multiprocessing
import os
import sys
from multiprocessing import process, reduction, spawn, util
from multiprocessing.context import set_spawning_popen
from pathlib import Path
from typing import Any

if hasattr(os, "fork"):
    from multiprocessing import forkserver, popen_forkserver

    class _Popen(popen_forkserver.Popen):
        """Starts a process from our own server, and runs the user's script again in it only if it needs it."""

        def _launch(self, process_obj: Any) -> None:
            settings = spawn.get_preparation_data(process_obj._name)
            if not process_obj.needs_main:
                settings.pop("init_main_from_path", None)
                settings.pop("init_main_from_name", None)
            stream = io.BytesIO()
            set_spawning_popen(self)
            try:
                reduction.dump(settings, stream)
                reduction.dump(process_obj, stream)
            finally:
                set_spawning_popen(None)
            self.sentinel, out = server().connect_to_new_process(self._fds)  # type: ignore[attr-defined]  # not in the stubs
            # the child ends when this copy is closed, and that is at the latest when this process is gone
            self.finalizer = util.Finalize(
                self,
                util.close_fds,  # type: ignore[attr-defined]  # not in the stubs
                (os.dup(out), self.sentinel),
            )
            with open(out, "wb", closefd=True) as pipe:
                pipe.write(stream.getbuffer())
            self.pid = forkserver.read_signed(self.sentinel)


class Process(process.BaseProcess):
    """A worker process."""

    _start_method = "forkserver"
    needs_main = False

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Popen(process_obj)


def possible() -> bool:
    """Whether workers can be processes here."""
    return hasattr(os, "fork") and not multiprocessing.current_process().daemon


SLOW = 1.0  # seconds of CPU time that a worker may take to start
IMPORTS = "BIREME_WORKER_IMPORTS"
_servers: list[Any] = []  # the last is in use; earlier ones end with this process, since their workers may live
_imported: set[str] = set()


def server() -> Any:
    """The server process, started when this is called first; it ends with this process."""
    if not _servers:
        _servers.append(_started({}))
    return _servers[-1]


def import_for_workers(modules: set[str], main: bool) -> None:
    """Start later workers from a server that has imported these modules, and the running script if ``main``."""
    wanted = modules | ({"__main__"} if main else set())
    if wanted <= _imported:
        return
    _imported.update(wanted)
    settings = spawn.get_preparation_data("bireme-loader")
    told = {"path": sys.path, "modules": sorted(_imported - {"__main__"})}
    if "__main__" in _imported:
        told |= {k: settings[k] for k in ("init_main_from_path", "init_main_from_name") if k in settings}
    _servers.append(_started({IMPORTS: json.dumps(told)}))


def _started(settings: dict[str, str]) -> Any:
    found = forkserver.ForkServer()
    found.set_forkserver_preload(["bireme", "bireme.io.imports"])
    # read by the server at its start: our own folder, no device but the CPU, and one thread for each worker's BLAS
    home = str(Path(__file__).resolve().parents[2])
    paths = [home, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    wanted = {"PYTHONPATH": os.pathsep.join(p for p in paths if p), "JAX_PLATFORMS": "cpu", **settings}
    wanted |= {
        name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        found.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return found


def script_can_be_imported() -> bool:
    """Return whether a worker may import the running script: its work is under ``if __name__ == "__main__":``.

    Without that line, importing it would start the training again in the worker. What was typed at a prompt cannot be
    imported.
    """
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        return False
    try:
        statements = ast.parse(Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in statements)
