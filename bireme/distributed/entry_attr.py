"""Entry policies: which ids get a row of a sparse table."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded

__all__ = ["CountFilterEntry", "ProbabilityEntry", "ShowClickEntry"]


class EntryAttr(Guarded):
    """Base of the policies."""

    _name = ""

    def _to_attr(self) -> str:
        """The policy as servers read it."""
        raise errors.missing_method(self, "_to_attr")


class ProbabilityEntry(EntryAttr):
    """An id gets a row with a probability, at each time that it is seen until it has one.

    Args:
        probability: The probability, above 0 and below 1.

    Raises:
        ValueError: If it is no such number.

    Examples:
        >>> entry = bireme.distributed.ProbabilityEntry(0.1)
        >>> entry._to_attr()
        'probability_entry:0.1'
    """

    _name = "probability_entry"

    def __init__(self, probability: float) -> None:
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise errors.bad("ProbabilityEntry(probability)", "a float in (0, 1)", probability)
        self._probability = probability

    def _to_attr(self) -> str:
        return f"{self._name}:{self._probability}"


class CountFilterEntry(EntryAttr):
    """An id gets a row when it has been seen as often as this; until then it reads zeros.

    Args:
        count_filter: How often, a positive integer.

    Raises:
        ValueError: If it is no such integer.

    Examples:
        >>> entry = bireme.distributed.CountFilterEntry(10)
        >>> entry._to_attr()
        'count_filter_entry:10'
    """

    _name = "count_filter_entry"

    def __init__(self, count_filter: int) -> None:
        if not isinstance(count_filter, int) or isinstance(count_filter, bool) or count_filter < 1:
            raise errors.bad("CountFilterEntry(count_filter)", "a positive integer", count_filter)
        self._count_filter = count_filter

    def _to_attr(self) -> str:
        return f"{self._name}:{self._count_filter}"


class ShowClickEntry(EntryAttr):
    """Rows count how often they were shown and clicked, by two inputs of the program; ``fleet.shrink`` keeps those
    that matter by these counts.

    Args:
        show_name: Name of the input that says how often a sample was shown.
        click_name: Name of the input that says how often it was clicked.

    Raises:
        ValueError: If a name is no str.

    Examples:
        >>> entry = bireme.distributed.ShowClickEntry("show", "click")
        >>> entry._to_attr()
        'show_click_entry:show:click'
    """

    _name = "show_click_entry"

    def __init__(self, show_name: str, click_name: str) -> None:
        for what, name in (("show_name", show_name), ("click_name", click_name)):
            if not isinstance(name, str):
                raise errors.bad(f"ShowClickEntry({what})", "the name of an input", name)
        self._show_name, self._click_name = show_name, click_name

    def _to_attr(self) -> str:
        return f"{self._name}:{self._show_name}:{self._click_name}"


def parsed(attr: Any) -> tuple[str, float]:
    """Kind and number of a policy as servers read it; ('', 0) for none."""
    kind, _, rest = attr.partition(":") if isinstance(attr, str) else ("?", "", "")
    try:
        if attr in ("", "none"):
            return "", 0.0
        if kind == CountFilterEntry._name and int(rest) > 0:
            return kind, float(int(rest))
        if kind == ProbabilityEntry._name and 0 < float(rest) < 1:
            return kind, float(rest)
        if kind == ShowClickEntry._name and len(rest.split(":")) == 2:
            return kind, 0.0
    except ValueError:
        pass
    raise errors.bad("table(entry)", "the description of an entry policy", described=str(attr)[:200])
