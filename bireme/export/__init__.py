"""Saved models for other places: as C without dependencies."""

from bireme.export.c_source import to_c

__all__ = ["to_c"]
