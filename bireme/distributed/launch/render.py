"""A job as other programs start it: a batch script of Slurm, a manifest of Kubernetes. They are printed, not run."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence

from bireme.distributed import world

KINDS = ("slurm", "kubernetes")
IMAGE = "registry.example/train"  # where the user names none
PORT = 6170
SAVING = 60  # seconds between SIGTERM and the end, for programs that save then


def render(kind: str, options: dict[str, str], rest: Sequence[str]) -> str:
    """The text for a kind of cluster, from the options of the launcher and the program with its arguments."""
    return (_slurm if kind == "slurm" else _kubernetes)(options, rest)


def _name(options: dict[str, str], rest: Sequence[str]) -> str:
    """The job's name, as both know them: from --job_id, or from the program."""
    program = rest[1] if rest[0] == "-m" else os.path.splitext(os.path.basename(rest[0]))[0]
    name = re.sub(r"[^a-z0-9-]+", "-", (options.get("job_id") or program).lower()).strip("-")
    return name[:40] or "train"


def _restarts(options: dict[str, str]) -> int:
    """How often a job that has failed is started again."""
    wanted = int(options.get("elastic_level", 1 if ":" in options.get("nnodes", "1") else -1)) > 0
    return int(options.get("max_restart", 3)) if wanted else 0


def _counts(options: dict[str, str]) -> tuple[int, int, int]:
    """Machines, processes on each, and devices on each."""
    devices = len(options["devices"].split(",")) if "devices" in options else 0
    machines = int(options.get("nnodes", "1").rpartition(":")[2])
    return machines, int(options.get("nproc_per_node", devices or 1)), devices


def _slurm(options: dict[str, str], rest: Sequence[str]) -> str:
    machines, processes, devices = _counts(options)
    log = options.get("log_dir", "log")
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={_name(options, rest)}",
        f"#SBATCH --nodes={machines}",
        f"#SBATCH --ntasks-per-node={processes}",
        *([f"#SBATCH --gpus-per-node={devices}"] if devices else []),
        f"#SBATCH --signal=TERM@{SAVING}",
        "",
        f"mkdir -p {shlex.quote(log)}",
        f"for try in $(seq 0 {_restarts(options)}); do",
        "    # processes find each other by what srun tells them; the first machine of the job is where they meet",
        "    PADDLE_RESTART_COUNT=$try srun --kill-on-bad-exit=1 \\",
        f"        --output={shlex.quote(log)}/workerlog.%t --open-mode=append \\",
        f"        python -u {shlex.join(rest)} && exit 0",
        "    code=$?",
        "done",
        "exit $code",
    ]
    return "\n".join(lines) + "\n"


def _kubernetes(options: dict[str, str], rest: Sequence[str]) -> str:
    machines, processes, devices = _counts(options)
    name, nnodes = _name(options, rest), options.get("nnodes", "1")
    launch = ["python", "-m", "bireme.distributed.launch", "--nnodes", nnodes, "--nproc_per_node", str(processes)]
    if "devices" in options:
        launch += ["--devices", options["devices"]]
    if nnodes != "1":
        launch += ["--master", f"{name}-0.{name}:{PORT}"]
    for given in ("elastic_level", "max_restart", "elastic_timeout"):
        launch += [f"--{given}", options[given]] if given in options else []
    rank = ' --rank "$JOB_COMPLETION_INDEX"' if nnodes != "1" else ""
    script = f"exec {shlex.join(launch)}{rank} --log_dir /tmp/log {shlex.join(rest)}"
    secret = ":" in nnodes
    # a machine that is lost is started again by the cluster, where the launchers take it back
    lost = machines * 100 if secret else 0
    lines = [
        "apiVersion: v1",
        "kind: Service",
        f"metadata: {{name: {name}}}",
        "spec:",
        "  clusterIP: None",
        "  publishNotReadyAddresses: true",
        f"  selector: {{job-name: {name}}}",
        "---",
        "apiVersion: batch/v1",
        "kind: Job",
        f"metadata: {{name: {name}}}",
        "spec:",
        f"  completions: {machines}",
        f"  parallelism: {machines}",
        "  completionMode: Indexed",
        f"  backoffLimit: {lost}",
        "  template:",
        "    spec:",
        f"      subdomain: {name}",
        f"      restartPolicy: {'OnFailure' if secret else 'Never'}",
        f"      terminationGracePeriodSeconds: {SAVING}",
        "      containers:",
        "        - name: train",
        f"          image: {json.dumps(options.get('image', IMAGE))}",
        f"          command: [sh, -c, {json.dumps(script)}]",
        *([f"          resources: {{limits: {{nvidia.com/gpu: {devices}}}}}"] if devices else []),
        *(
            [
                "          env:",
                f"            - name: {world.SECRET}  # kubectl create secret generic {name} --from-literal=secret=...",
                f"              valueFrom: {{secretKeyRef: {{name: {name}, key: secret}}}}",
            ]
            if secret
            else []
        ),
    ]
    return "\n".join(lines) + "\n"
