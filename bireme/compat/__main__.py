"""`python -m bireme.compat script.py`: run a program written for Paddle on Bireme."""

from __future__ import annotations

import os
import runpy
import sys
from types import TracebackType

from bireme.compat.alias import STUBS, install_as_paddle

USAGE = "usage: python -m bireme.compat [-h] (script.py | -m module) [arguments ...]\n"
HELP = f"""{USAGE}
Runs a Python program written for PaddlePaddle on Bireme: inside it, and in the processes that it starts, `import paddle`
and all of `paddle.*` are Bireme's modules. The program is not changed and does not have to know.

  script.py    the program; what follows are its own arguments
  -m module    run a module instead, as `python -m` does
  -h, --help   this text

A name of Paddle's that Bireme does not have says so when it is used: "bireme has no paddle.x.y yet".
Inside a program, `import bireme.compat; bireme.compat.install_as_paddle()` does the same.

examples:
  python -m bireme.compat train.py --epochs 3
  python -m bireme.compat -m mypackage.train --epochs 3
"""


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or (arguments[0] == "-m" and len(arguments) < 2):
        sys.stderr.write(USAGE + "error: expected a script or -m and a module\n")
        return 2
    if arguments[0] in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    if arguments[0].startswith("-") and arguments[0] != "-m":
        sys.stderr.write(USAGE + f"error: expected a script, -m or -h, got {arguments[0]}\n")
        return 2
    as_module = arguments[0] == "-m"
    program, *rest = arguments[1:] if as_module else arguments
    if not as_module and not os.path.exists(program):
        sys.stderr.write(f"error: expected a script, got {program}, which does not exist\n")
        return 2
    install_as_paddle()
    # programs that this one starts by name get the environment only
    os.environ["PYTHONPATH"] = os.pathsep.join([STUBS, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.excepthook = report
    sys.argv = [program, *rest]
    if as_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")
    return 0


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error as if the program had been started by itself: without the frames that led to it."""
    start = trace
    while start is not None and start.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        start = start.tb_next
    sys.__excepthook__(kind, error.with_traceback(start), start)


if __name__ == "__main__":
    sys.exit(main())
