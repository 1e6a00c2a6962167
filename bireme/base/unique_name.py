"""`paddle.base.unique_name`: the names of `paddle.utils.unique_name`."""

from typing import Any

from bireme.utils.unique_name import Generator as UniqueNameGenerator
from bireme.utils.unique_name import Taken as DygraphParameterNameChecker
from bireme.utils.unique_name import _Current, generate, generate_with_ignorable_key, guard, switch

__all__ = [
    "DygraphParameterNameChecker",
    "UniqueNameGenerator",
    "generate",
    "generate_with_ignorable_key",
    "guard",
    "switch",
]


def __getattr__(name: str) -> Any:
    if name == "dygraph_parameter_name_checker":  # another one inside each guard
        return _Current.taken
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
