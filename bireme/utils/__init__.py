"""Small public services that belong to no other part."""

import importlib
from typing import Any

from bireme.utils import dlpack, download, unique_name
from bireme.utils.check import run_check
from bireme.utils.requirement import deprecated, require_version, try_import
from bireme.utils.structure import assert_same_structure as assert_same_structure
from bireme.utils.structure import flatten, map_structure, pack_sequence_as
from bireme.utils.structure import is_sequence as is_sequence

__all__ = [
    "cpp_extension", "dlpack", "download", "unique_name", "deprecated", "require_version", "run_check", "try_import", "flatten",
    "map_structure", "pack_sequence_as",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The module that compiles operators in C++, which few programs need."""
    if name != "cpp_extension":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
