"""The public function, without what it runs: every `import bireme` reads this."""

import sys

from bireme.core.base.later import Later

__all__ = ["launch"]

_main = Later("bireme.distributed.launch.main")


def launch() -> None:
    """Run the program that the command line names: what ``python -m bireme.distributed.launch`` does.

    Raises:
        SystemExit: If the command line is not understood, or a process has failed.

    Examples:
        >>> bireme.distributed.launch()  # doctest: +SKIP
    """
    _main.run(sys.argv[1:])
