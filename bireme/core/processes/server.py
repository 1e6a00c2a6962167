"""The coordination service of a job without a launcher, in a process of its own: it outlives the first process of the job,
which starts it. jax's clients abort their process where the service is lost.
"""

from __future__ import annotations

import os
import subprocess
import sys

from bireme.core.base import errors
from bireme.core.processes import connection


class Server:
    """The service, as the process that started it holds it; it ends after that one, when all have told their ends."""

    def __init__(self, address: str, nodes: int):
        program = os.path.join(os.path.dirname(__file__), "standing_by.py")
        command = [sys.executable, program, address, str(nodes), str(connection.HEARTBEAT), str(connection.GRACE)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None, "it is a pipe"
        if self._process.stdout.readline() != b"ready\n":
            raise errors.failure(
                f"init_parallel_env(): expected {address} to be free for the service of the job, got none"
            )
