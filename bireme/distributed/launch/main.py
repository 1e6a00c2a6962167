"""Running a program as one process of a world of one."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from bireme.core.base import errors
from bireme.distributed import world

__all__ = ["launch"]

USAGE = "usage: python -m bireme.distributed.launch [options] (script.py | -m module) [arguments ...]\n"
HELP = f"""{USAGE}
Runs a program with the environment of a process of a world of one: PADDLE_TRAINER_ID=0, PADDLE_TRAINERS_NUM=1 and so on.

  --nproc_per_node N   number of processes on this machine; only 1 is there yet
  --nnodes N           number of machines; only 1 is there yet
  --devices IDS        device to use, as 0 (also --gpus); only one is there yet
  --log_dir DIR        set as PADDLE_LOG_DIR; what the program prints stays on the terminal
  -h, --help           this text

Other options of Paddle's launcher (--master, --rank, --job_id, --ips, --host, --run_mode collective, ...) are taken and
have no effect on one process.
"""
COUNTS = {"nproc_per_node", "nnodes"}
DEVICES = {"devices", "gpus", "npus", "xpus"}
IGNORED = {
    "master", "rank", "log_level", "log_overwrite", "sort_ip", "enable_gpu_log", "job_id", "host", "ips", "start_port",
    "max_restart", "elastic_level", "elastic_timeout", "legacy", "gloo_port", "with_gloo", "run_mode", "log_dir",
}  # fmt: skip


def launch() -> None:
    """Run the program that the command line names: what ``python -m bireme.distributed.launch`` does.

    Raises:
        SystemExit: If the command line is not understood.
        NotImplementedError: If more than one process, machine or device is asked for.

    Examples:
        >>> bireme.distributed.launch()  # doctest: +SKIP
    """
    run(sys.argv[1:])


def run(arguments: Sequence[str]) -> None:
    """Run a program as the arguments say."""
    options, rest = parse(arguments)
    if "help" in options:
        sys.stdout.write(HELP)
        return
    as_module = rest[:1] == ["-m"]
    program, *given = rest[1:] if as_module else rest
    os.environ.update(world.environment())
    if "log_dir" in options:
        os.environ["PADDLE_LOG_DIR"] = os.path.abspath(options["log_dir"])
    if "devices" in options:
        os.environ["FLAGS_selected_gpus"] = options["devices"]  # noqa: SIM112 - Paddle's name
    sys.argv = [program, *given]
    if as_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options before the program, and the program with its arguments."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        if rest[0] in ("-h", "--help"):
            return {"help": ""}, []
        name, given, value = rest.pop(0).removeprefix("--").partition("=")
        if name not in COUNTS | DEVICES | IGNORED:
            refuse(f"expected an option of the launcher, got --{name}")
        if not given:
            if not rest:
                refuse(f"expected a value after --{name}, got none")
            value = rest.pop(0)
        check(name, value)
        options["devices" if name in DEVICES else name] = value
    if not rest or (rest[0] == "-m" and len(rest) < 2):
        refuse("expected a script or -m and a module")
    if rest[0] != "-m" and not os.path.exists(rest[0]):
        refuse(f"expected a script, got {rest[0]}, which does not exist")
    return options, rest


def check(name: str, value: str) -> None:
    """Raise an error for what needs more than one process."""
    if name in COUNTS:
        if not value.isdigit():
            refuse(f"expected a number after --{name}, got {value}")
        world.only_one(f"launch(--{name})", int(value))
    elif name in DEVICES:
        world.only_one(f"launch(--{name})", len(value.split(",")), "device", value)
    elif name == "run_mode" and value != "collective":
        raise errors.bad(
            "launch(--run_mode)",
            "collective, since parameter servers are not there yet",
            value,
            kind=NotImplementedError,
        )


def refuse(message: str) -> None:
    sys.stderr.write(f"{USAGE}error: {message}\n")
    raise SystemExit(2)
