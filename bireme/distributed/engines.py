"""The place of a process as other programs than our launcher tell it: MPI, Slurm, and whatever sets RANK and WORLD_SIZE, as
Ray, Kubernetes' operators and torchrun do. It becomes the environment variables that Paddle's launcher sets.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import MutableMapping

# who starts processes: the variables with size, rank, index and number on the machine, and the job's own name
ENGINES = {
    "MPI": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
            "PMIX_NAMESPACE"),
    "Slurm": ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID"),
    "others": ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ""),
}  # fmt: skip
PORTS = range(20_000, 32_000)  # below those that systems give away by themselves


def adopt(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables of Paddle's launcher from those of another engine, if that one has started this process."""
    if "PADDLE_TRAINERS_NUM" in environment:
        return
    for name, (size, rank, local, on_machine, job) in ENGINES.items():
        if size not in environment or rank not in environment:
            continue
        address = environment.get("PADDLE_MASTER") or _address(name, environment, environment.get(job, ""))
        environment["PADDLE_TRAINERS_NUM"] = environment[size]
        environment["PADDLE_TRAINER_ID"] = environment["PADDLE_GLOBAL_RANK"] = environment[rank]
        environment["PADDLE_GLOBAL_SIZE"] = environment[size]
        environment["PADDLE_LOCAL_RANK"] = environment["PADDLE_RANK_IN_NODE"] = environment.get(local, "0")
        environment["PADDLE_LOCAL_SIZE"] = environment.get(on_machine, environment[size])
        if address:
            environment["PADDLE_MASTER"] = address
        return


def _address(name: str, environment: MutableMapping[str, str], job: str) -> str:
    """Where the processes meet; empty if only the user can tell."""
    port = environment.get("MASTER_PORT") or str(PORTS[zlib.crc32(job.encode()) % len(PORTS)])
    if environment.get("MASTER_ADDR"):
        return f"{environment['MASTER_ADDR']}:{port}"
    if name == "Slurm":
        return f"{first_host(environment.get('SLURM_STEP_NODELIST', '127.0.0.1'))}:{port}"
    if name == "MPI" and environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == environment["OMPI_COMM_WORLD_SIZE"]:
        return f"127.0.0.1:{port}"
    return ""


def first_host(names: str) -> str:
    """The first of Slurm's list of machines: `node[03-05,9],other` is node03."""
    found = re.match(r"([^,\[]*)(?:\[([^\],-]*)[^\]]*\]([^,]*))?", names)
    assert found is not None, "every text begins with an empty one"
    return "".join(part or "" for part in found.groups())
