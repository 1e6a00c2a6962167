"""What is imported where it is used: the package `onnx`, an extra of Bireme's, and the tables of this one."""

from __future__ import annotations

import importlib
from typing import Any

from bireme.core.base.extras import extra


def onnx(module: str = "") -> Any:
    """The package or one of its modules; one sentence where it is missing."""
    return extra(f"onnx.{module}" if module else "onnx", "onnx", "for ONNX files")


def part(name: str) -> Any:
    """A module of this package: `import bireme` does not wait for its tables."""
    return importlib.import_module(f"bireme.onnx.{name}")


def protobuf_error() -> type[Exception]:
    """What protobuf raises for bytes that are no message."""
    return importlib.import_module("google.protobuf.message").DecodeError
