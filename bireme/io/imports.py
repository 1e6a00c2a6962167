"""What a server of worker processes imports before it forks any: `launch` lists it in an environment variable.

A module that cannot be imported here is skipped: the worker that needs it raises the error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from multiprocessing import process, spawn
from typing import Any

from bireme.io.launch import IMPORTS


class _Told:
    """Context for an import of the user's code: an error is printed, and the server continues."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, (Exception, SystemExit)):
            return False
        text = "".join(traceback.format_exception_only(error)).strip()
        sys.stderr.write(f"bireme: the server of DataLoader workers could not import {self.name}: {text}\n")
        return True


def _import(told: dict[str, Any]) -> None:
    sys.path[:] = told["path"]
    for name in told["modules"]:
        with _Told(name):
            importlib.import_module(name)
    current: Any = process.current_process()
    current._inheriting = True  # as in a worker: a script that starts processes when it is imported gets an error
    for key, fix in (
        ("init_main_from_name", "_fixup_main_from_name"),
        ("init_main_from_path", "_fixup_main_from_path"),
    ):
        if key in told:
            with _Told(told[key]):
                getattr(spawn, fix)(told[key])  # what a worker calls, which finds it done then
    del current._inheriting


_TOLD = os.environ.pop(IMPORTS, None)
if _TOLD is not None:
    _import(json.loads(_TOLD))
