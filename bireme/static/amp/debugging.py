"""Which operations of a program compute in which type."""

from __future__ import annotations

import sys
from collections import defaultdict

from bireme.core.base.boundary import guard_functions
from bireme.core.program.program import Operation, Program
from bireme.static.programs import default_main_program

__all__ = ["collect_operator_stats"]

_COLUMNS = {"float16": 0, "bfloat16": 1, "float32": 2}


def _counts(operations: list[Operation], inner: bool) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for operation in operations:
        made = [s for s in operation.makes if s.samples[0].items is None]
        found[operation.type][_COLUMNS.get(made[0].dtype.name, 3) if made else 3] += 1
        blocks = getattr(operation.call, "labelled", None)
        for _, block in blocks() if blocks is not None and inner else ():
            for name, each in _counts(block.operations, inner).items():
                found[name] = [a + b for a, b in zip(found[name], each, strict=True)]
    return found


def collect_operator_stats(program: Program | None = None, print_subblocks: bool = False) -> None:
    """Print how many operations of a program give results of which type.

    Args:
        program: The program. Default: None, the default main program.
        print_subblocks: Count those of branches and loops too. Default: False.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     y = bireme.static.data("x", [2]) + 1
        ...     bireme.static.amp.debugging.collect_operator_stats()  # doctest: +NORMALIZE_WHITESPACE
        <------------------------------------------------------- op list -------------------------------------------------------->
        <--------------- Op Name ---------------- | -- FP16 Calls --- | -- BF16 Calls --- | --- FP32 Calls--- | -- Other Calls -->
          add                                     |  0                |  0                |  1                |  0
        <----------------------------------------------------- op count: 1 ------------------------------------------------------>
        >>> bireme.disable_static()
    """
    counts = _counts((default_main_program() if program is None else program).operations, print_subblocks)
    lines = [" op list ".center(120, "-")]
    lines.append(
        "--------------- Op Name ---------------- | -- FP16 Calls --- | -- BF16 Calls --- | --- FP32 Calls--- | -- Other Calls --"
    )
    end = f" op count: {len(counts)} ".center(120, "-")
    rows = ["  " + name.ljust(40) + "".join([f"|  {n}".ljust(20) for n in counts[name]]) for name in sorted(counts)]
    sys.stdout.write("\n".join([f"<{lines[0]}>", f"<{lines[1]}>", *rows, f"<{end}>"]) + "\n\n")


guard_functions(globals())
