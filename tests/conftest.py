"""What every test gets: a compile cache of its own, bytecode for the processes it starts, signals as they are by default,
seeded random numbers, and the choice of the long sweeps. The time limit of each test stands in pyproject.toml.
"""

import importlib
import os
import shutil
import signal
import sys
import tempfile

import numpy as np
import pytest

# Before bireme is imported, and once for a whole run: workers started by pytest-xdist inherit the first one's folder.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["BIREME_CACHE_DIR"] = tempfile.mkdtemp(prefix="bireme-test-cache-")
    # Where Python keeps no bytecode, as in many containers, each of the hundreds of processes that tests start would
    # compile jax and the package again: four seconds instead of one. It is kept for the time of the run.
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(os.environ["BIREME_CACHE_DIR"], "bytecode")
        sys.pycache_prefix, sys.dont_write_bytecode = os.environ["PYTHONPYCACHEPREFIX"], False

# A suite that was started in the background inherits ignored signals (by nohup, `make test &`, some launchers), and
# would hand them on to every process that a test starts.
for name, handler in {
    "SIGINT": signal.default_int_handler,
    "SIGTERM": signal.SIG_DFL,
    "SIGCHLD": signal.SIG_DFL,
    "SIGALRM": signal.SIG_DFL,
}.items():
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
if hasattr(signal, "pthread_sigmask"):
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the sweeps marked `full`")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_unconfigure(config):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["BIREME_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(scope="session")
def full(request):
    """Whether the long form of a sweep is wanted (`--full`)."""
    return request.config.getoption("--full")


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers for a test whether it runs alone, first or last."""
    np.random.seed(0)  # noqa: NPY002 - libraries under test may draw from the global generator
    if "bireme" in sys.modules:
        sys.modules["bireme"].seed(0)


@pytest.fixture(autouse=True)
def room_for_shapes():
    """The same operators at the same shapes are compiled whatever shapes other tests had."""
    programs = sys.modules.get("bireme.core.run.graphs")
    if programs is not None:
        for family in programs._families.values():
            family.entries.clear()
            family.graphs = 0


@pytest.fixture(autouse=True)
def same_world():
    """A test that sets up groups of processes, an example of the docs too, leaves none to others."""
    yield
    module = sys.modules.get("bireme.distributed.communication.group")
    if module is not None:
        module.groups.by_id.clear()


@pytest.fixture
def compiled_when_met_again(monkeypatch):
    """What takes the compiler long is waited for at its second run, here and in processes that a test starts."""
    monkeypatch.setenv("FLAGS_compile_beside", "0")
    set_flags = importlib.import_module("bireme").set_flags
    set_flags({"FLAGS_compile_beside": False})
    yield
    set_flags({"FLAGS_compile_beside": True})


@pytest.fixture
def padding_applies(monkeypatch):
    """Every graph of some calls may be padded, as on an accelerator, and to the sizes that larger work has."""
    flush, graphs, padding = [
        importlib.import_module(f"bireme.core.{name}") for name in ("record.flush", "run.graphs", "run.padding")
    ]
    monkeypatch.setattr(padding, "applies", lambda graph: len(graph.nodes) >= padding.LEAST_CALLS)
    monkeypatch.setattr(padding, "ROOMY_SIZES", ())

    def forget():
        flush.flush()
        graphs.clear()
        flush._joined.clear()

    forget()
    yield
    forget()


@pytest.fixture
def repeated():
    """How many backward passes were repeated since the last question."""
    import bireme

    seen = [bireme.debug.stats()["repeated_backwards"]]

    def ask():
        now = bireme.debug.stats()["repeated_backwards"]
        new, seen[0] = now - seen[0], now
        return new

    return ask
