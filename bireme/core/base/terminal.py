"""Whether a stream can show a line that is drawn again in its place."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any


def in_notebook() -> bool:
    return type(sys.stdout).__module__.partition(".")[0] == "ipykernel"


def is_live(stream: Any) -> bool:
    """Whether a line can be redrawn: on a terminal that moves its cursor, or in a notebook."""
    if in_notebook():
        return True
    try:
        return stream.isatty() and os.environ.get("TERM", "") != "dumb"
    except (AttributeError, ValueError):  # no such method, or closed
        return False


def width() -> int:
    """How many characters a line that is redrawn may have."""
    return 100 if in_notebook() else shutil.get_terminal_size((80, 24)).columns - 1
