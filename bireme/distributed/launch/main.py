"""`python -m bireme.distributed.launch script.py`: the command line, and a program in a world of one process."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from bireme.distributed import world
from bireme.distributed.launch import job, render, servers
from bireme.distributed.launch.entry import launch
from bireme.distributed.launch.members import Members, is_local

__all__ = ["launch"]

USAGE = "usage: python -m bireme.distributed.launch [options] (script.py | -m module) [arguments ...]\n"
HELP = f"""{USAGE}
Runs a program in several processes that find each other by PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM and so on. A single
process runs in place, with its output on the terminal; of several, the output of the first is shown.

  --nproc_per_node N   number of processes on this machine (default: one per device of --devices, else 1)
  --nnodes N           number of machines (default: 1); more need --master and --rank
  --nnodes LO:HI       a number that changes: the job starts with HI, or with LO and more if no other comes for
                       --elastic_timeout seconds; it starts again, from what the program has saved, with those that are
                       there when one is lost or comes; --rank 0 is the machine at --master, and must stay; beyond one
                       machine all need the same secret in BIREME_JOB_SECRET
  --elastic_timeout S  see --nnodes LO:HI (default: 30)
  --master HOST:PORT   address of the first machine, with a free port
  --rank K             index of this machine
  --devices IDS        devices to use, as 0,1 (also --gpus)
  --log_dir DIR        folder for what the processes print, workerlog.0, workerlog.1 ... (default: log)
  --max_restart N      how often to start all processes again after a failure (default: 3) if --elastic_level is 1 or
                       more; a program that exits with code 101 asks for it at any level
  --elastic_level L    -1 or 0: end with the first failure (default); 1 or more: start again
  --server_num N       parameter servers on this machine, with --worker_num N workers (also --trainer_num): see
                       servers.py; --servers and --workers list addresses instead (also --run_mode ps)
  --render KIND        print what starts the same job elsewhere, and run nothing: slurm, a script for sbatch; kubernetes, a
                       manifest for kubectl, with the container's --image; --job_id names the job
  -h, --help           this text

When a process fails, the others get 10 seconds to say what they waited for and are then ended; the last lines of the one
that failed are shown, and its exit code is returned. Other options of Paddle's launcher (--job_id, --ips, --host, ...) are taken and have no effect.
"""
COUNTS = {"nproc_per_node", "nnodes", "max_restart", "rank", "elastic_timeout", *servers.COUNTS}
DEVICES = {"devices", "gpus", "npus", "xpus"}
OTHERS = {
    "master", "log_level", "log_overwrite", "sort_ip", "enable_gpu_log", "job_id", "host", "ips", "start_port",
    "elastic_level", "legacy", "gloo_port", "with_gloo", "run_mode", "log_dir", "render", "image", *servers.LISTS,
}  # fmt: skip


def run(arguments: Sequence[str]) -> None:
    """Run a program as the arguments say."""
    options, rest = parse(arguments)
    if "help" in options:
        sys.stdout.write(HELP)
        return
    if "render" in options:
        sys.stdout.write(render.render(options["render"], options, rest))
        return
    if servers.wanted(options):
        raise SystemExit(servers.run([sys.executable, "-u", *rest], options, refuse))
    devices = options.get("devices", "").split(",")
    count, nodes = int(options.get("nproc_per_node", len(devices))), options.get("nnodes", "1")
    if "devices" in options:
        os.environ["FLAGS_selected_gpus"] = options["devices"]  # noqa: SIM112 - Paddle's name
    if count > 1 or nodes != "1":
        code = job.run(
            [sys.executable, "-u", *rest],
            count,
            machines(nodes, options),
            options.get("log_dir", "log"),
            int(options.get("max_restart", 3)),
            int(options.get("elastic_level", 1 if ":" in nodes else -1)) > 0,
        )
        raise SystemExit(code)
    as_module = rest[:1] == ["-m"]
    program, *given = rest[1:] if as_module else rest
    os.environ.update(world.environment())
    if "log_dir" in options:
        os.environ["PADDLE_LOG_DIR"] = os.path.abspath(options["log_dir"])
    sys.argv = [program, *given]
    if as_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")


def machines(nodes: str, options: dict[str, str]) -> job.Nodes | Members:
    """The machines of a job, of which there is a number or a range."""
    least, _, most = nodes.partition(":")
    rank, count = int(options.get("rank", 0)), int(most or least)
    if nodes != "1" and not ({"master", "rank"} <= set(options) and rank < count):
        refuse(f"expected --master HOST:PORT and --rank below {count} with --nnodes {nodes}")
    if not most:
        return job.Nodes(options.get("master"), rank, count)
    if not os.environ.get(world.SECRET) and not is_local(options["master"]):
        refuse(f"expected a secret in {world.SECRET}, the same on all machines, with --nnodes {nodes}")
    patience = float(options.get("elastic_timeout", 30))
    return Members(options["master"], rank == 0, int(least), count, patience, job.own_host)


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options before the program, and the program with its arguments."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        if rest[0] in ("-h", "--help"):
            return {"help": ""}, []
        name, given, value = rest.pop(0).removeprefix("--").partition("=")
        if name not in COUNTS | DEVICES | OTHERS:
            refuse(f"expected an option of the launcher, got --{name}")
        if not given:
            if not rest:
                refuse(f"expected a value after --{name}, got none")
            value = rest.pop(0)
        check(name, value)
        options["devices" if name in DEVICES else name] = value
    if not rest or (rest[0] == "-m" and len(rest) < 2):
        refuse("expected a script or -m and a module")
    if rest[0] != "-m" and not os.path.exists(rest[0]) and "render" not in options:  # it may be elsewhere
        refuse(f"expected a script, got {rest[0]}, which does not exist")
    return options, rest


def check(name: str, value: str) -> None:
    """End with a message, or raise an error, for a value that an option does not take."""
    if name == "nnodes" and ":" in value:
        least, _, most = value.partition(":")
        if not (least.isdigit() and most.isdigit() and 1 <= int(least) <= int(most)):
            refuse(f"expected --nnodes LO:HI with 1 <= LO <= HI, got {value}")
    elif name in COUNTS:
        smallest = 1 if name in ("nproc_per_node", "nnodes") else 0
        if not value.isdigit() or int(value) < smallest:
            refuse(f"expected a number from {smallest} after --{name}, got {value}")
    elif name == "elastic_level":
        if value not in ("-1", "0", "1", "2"):
            refuse(f"expected -1, 0, 1 or 2 after --elastic_level, got {value}")
    elif name == "render" and value not in render.KINDS:
        refuse(f"expected slurm or kubernetes after --render, got {value}")
    elif name == "run_mode" and value not in ("collective", "ps"):
        refuse(f"expected collective or ps after --run_mode, got {value}")


def refuse(message: str) -> None:
    sys.stderr.write(f"{USAGE}error: {message}\n")
    raise SystemExit(2)
