"""Small public services that belong to no other part."""

from bireme.utils import unique_name

__all__ = ["unique_name"]
