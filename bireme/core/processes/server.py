"""The coordination service of a job without a launcher, in a process of its own: it outlives the first process of the job,
which starts it, and tells the others if that one was killed. jax's clients abort their process where the service is lost.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from bireme.core.base import errors
from bireme.core.processes import connection

READY = b"ready\n"


class Server:
    """The service, as the process that started it holds it; it ends after this object, when all have told their ends."""

    def __init__(self, address: str, nodes: int):
        # by -c: the package has imported this module by the time that -m would run it
        program = "import sys; from bireme.core.processes import server; server.main(sys.argv[1:])"
        command = [sys.executable, "-c", program, address, str(nodes)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None, "it is a pipe"
        if self._process.stdout.readline() != READY:
            raise errors.failure(
                f"init_parallel_env(): expected {address} to be free for the service of the job, got none"
            )


def main(arguments: Sequence[str]) -> None:
    """What the process of the service does: serve until the one that started it is gone, and a little longer."""
    address, nodes = arguments[0], int(arguments[1])
    served = connection.serve(address, nodes)
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    sys.stdin.buffer.read()
    connection.speak_for(address, 0, "without a word", others=nodes)
    del served
