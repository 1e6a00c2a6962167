"""Small public services that belong to no other part."""

from bireme.utils import dlpack, unique_name

__all__ = ["dlpack", "unique_name"]
