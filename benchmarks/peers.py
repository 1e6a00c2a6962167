"""Peers as processes that take turns: in one process they would change each other's threads and malloc."""

import contextlib
import multiprocessing
import os
import time

from benchmarks.measure import cores

# OpenMP workers spin for up to 200 ms after their last loop; the next peer must not pay for them
PAUSE = 0.3


def environment(name):
    """Settings a peer's process starts with: every library gets the same number of threads."""
    settings = {"XLA_PYTHON_CLIENT_MEM_FRACTION": os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.25")}
    if name == "paddle":
        # Paddle sets OMP_NUM_THREADS to 1 when it is imported, unless somebody has set it
        settings["FLAGS_paddle_num_threads"] = settings["OMP_NUM_THREADS"] = str(cores())
    return settings


@contextlib.contextmanager
def _with_environment(settings):
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _serve(pipe, make, args):
    """Build what is measured, then answer calls until the parent hangs up."""
    try:
        answer = make(*args)
    except ModuleNotFoundError as missing:
        pipe.send(str(missing))
        return
    pipe.send("")
    while True:
        try:
            message = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(answer(*message))


class Gone(RuntimeError):
    """The peer's process is not there: its framework is not installed, or it died (it printed why)."""


class Peer:
    """A process that runs `make(*args)` once, then calls what that gave: `peer(1)` is `make(*args)(1)` over there.

    One with workers of its own is no daemon, since daemons may have no children.
    """

    def __init__(self, make, *args, settings=None, daemon=True):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, args), daemon=daemon)
        with _with_environment(settings or {}):
            self._process.start()
        theirs.close()
        missing = self._receive()
        if missing:
            self.close()
            raise Gone(missing)

    def _receive(self):
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            raise Gone(f"failed, exit status {self._process.exitcode}") from None

    def __call__(self, *message):
        try:
            self._pipe.send(message)
        except BrokenPipeError:
            raise Gone("failed") from None
        return self._receive()

    def close(self):
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


class Peers:
    """Several peers by name; one that is not there is kept with its reason and shown as such."""

    def __init__(self):
        self.live, self.gone = {}, {}

    def start(self, name, make, *args, settings=None, daemon=True):
        # one after another: a compile must not compete with another peer's first step
        try:
            self.live[name] = Peer(make, *args, settings={**environment(name), **(settings or {})}, daemon=daemon)
        except Gone as why:
            self.gone[name] = str(why)

    def ask(self, name, *message):
        """One call; None if the peer is gone, or goes now."""
        if name not in self.live:
            return None
        try:
            return self.live[name](*message)
        except Gone as why:
            self.gone[name] = str(why)
            self.live.pop(name).close()
            return None

    def turns(self, rounds, *message):
        """A B C A B C: each peer's answers to the same message, `rounds` times."""
        answers = {name: [] for name in self.live}
        for _ in range(rounds):
            for name in list(self.live):
                time.sleep(PAUSE)
                answer = self.ask(name, *message)
                if answer is not None:
                    answers[name].append(answer)
        return answers

    def report(self):
        for name, why in self.gone.items():
            print(f"{name}: {why}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.live.values():
            peer.close()
