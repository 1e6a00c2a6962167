"""Running a program over all batches of a dataset of slot files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors


def run_over(
    where: str,
    run: Callable[[dict[str, Any], list[Any]], list[Any]],
    dataset: Any,
    fetch_list: Sequence[Any] | None,
    fetch_info: Sequence[str] | None,
    print_period: int,
    fetch_handler: Any,
) -> None:
    """Feed all batches; what is fetched is printed, or handled, every few of them."""
    batches = getattr(dataset, "_batches", None)
    if batches is None:
        raise errors.bad(f"{where}(dataset)", "a QueueDataset or an InMemoryDataset", dataset)
    errors.check_integer(f"{where}(print_period)", print_period)
    wanted = list(fetch_list or [])
    told = list(fetch_info or [getattr(x, "name", str(x)) for x in wanted])
    if len(told) != len(wanted):
        raise errors.bad(f"{where}(fetch_info)", f"{len(wanted)} texts, one for each of fetch_list", len(told))
    names = getattr(fetch_handler, "var_dict", {}) or {}
    for number, feed in enumerate(batches()):
        now = number % max(print_period, 1) == 0
        values = run(feed, [*wanted, *names.values()] if now else [])
        if now and wanted:
            shown = ", ".join(f"{name}: {value}" for name, value in zip(told, values, strict=False))
            sys.stdout.write(f"batch {number}, {shown}\n")
        if now and fetch_handler is not None:
            fetch_handler.handler(dict(zip(names, values[len(wanted) :], strict=True)))
