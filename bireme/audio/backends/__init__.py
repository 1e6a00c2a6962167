"""Backends: what reads and writes files of audio."""

from bireme.audio.backends.backend import AudioInfo as AudioInfo
from bireme.audio.backends.backend import get_current_backend, list_available_backends, set_backend

__all__ = ["get_current_backend", "list_available_backends", "set_backend"]
