"""Datasets of audio, read from the folders that their archives unpack to."""

from bireme.audio.datasets.esc50 import ESC50
from bireme.audio.datasets.tess import TESS

__all__ = ["ESC50", "TESS"]
