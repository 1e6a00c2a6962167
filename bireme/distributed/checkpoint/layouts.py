"""Which layout a folder has: Bireme's, or that of Paddle's own save_state_dict."""

from __future__ import annotations

from bireme.distributed.checkpoint import manifest, paddle_layout
from bireme.distributed.checkpoint.index import Version


def opened(where: str, path: str, version: int | None) -> Version:
    """A version of a folder, the last one unless a number is given."""
    if not manifest.versions(path) and paddle_layout.versions(path):
        return paddle_layout.opened(where, path, version)
    return manifest.opened(where, path, version)
