"""Processes that tests start and talk to."""

import contextlib
import os
import signal
import subprocess


@contextlib.contextmanager
def started(command, **options):
    """A process that ends with the block, whatever happens in it; so do all others of its session, if it has one of its
    own.
    """
    with subprocess.Popen(command, **options) as run:
        try:
            yield run
        finally:
            if options.get("start_new_session"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGKILL)
            elif run.poll() is None:
                run.kill()
