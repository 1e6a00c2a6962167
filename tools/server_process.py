"""A server of `bireme serve` as a process of its own, for tools, tests and benchmarks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parent.parent


class ServerProcess:
    """Runs `bireme serve` with these arguments on free ports, until the `with` block ends."""

    def __init__(self, *arguments: str, verb: str = "serve", environment: dict[str, str] | None = None):
        command = [sys.executable, "-m", "bireme", verb, *arguments]
        if "--port" not in arguments:
            command += ["--port", "0"]
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths), **(environment or {})}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, **own}
        )
        self.lines: list[str] = []
        self.port = self.grpc_port = 0
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.match(r"gRPC on .*:(\d+)$", line):
                self.grpc_port = int(match[1])
            if match := re.match(r"https?://.*:(\d+)/v2$", line):
                self.port = int(match[1])
                break
        if not self.port:
            self.process.wait()
            raise RuntimeError("the server did not start: " + "".join(self.lines))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def memory(self) -> int:
        """Bytes of memory that the process has."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) << 10  # type: ignore[index]  # Linux has the line

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit status. All that it wrote is in `lines` then."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self._reader.join(10)
        return status

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end(signal.SIGKILL)
        if self.process.stderr is not None:
            self.process.stderr.close()
