"""The suite itself: it passes when it is started with signals ignored, processes that it starts find bytecode, and a test
that does not end is ended and shown.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENDLESS = """
import threading

def endless():
    threading.Event().wait()

def test_endless():
    endless()

def test_after():
    pass
"""
SIGNALS = """
import signal, subprocess, sys

def test_signals():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout == "True\\n"
    assert subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], timeout=60).returncode == 3
"""
BYTECODE = """
import os, subprocess, sys

def test_bytecode():
    code = "import sys; print(sys.dont_write_bytecode, sys.flags.dont_write_bytecode, sys.pycache_prefix)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout
    assert found == f"False 0 {os.environ['BIREME_CACHE_DIR']}/bytecode\\n"
"""
IGNORING = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGALRM])
os.execv(sys.argv[1], sys.argv[1:])
"""


def suite(tmp_path, text, *options, launcher=(), **added):
    """Run tests of this text as the suite's own: with its settings and its conftest."""
    (tmp_path / "test_here.py").write_text(text)
    command = [
        *launcher,
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "tests.conftest",
        "-q",
    ]
    command += ["-p", "no:cacheprovider", *options, str(tmp_path / "test_here.py")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")} | added
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "workers"])
def test_an_endless_test_is_ended_and_shown(tmp_path, options):
    done = suite(tmp_path, ENDLESS, "-o", "faulthandler_timeout=3", *options)
    assert done.returncode != 0
    assert "Timeout" in done.stderr and re.search(r"test_here\.py.* in endless\n.*in test_endless", done.stderr)
    if options:  # another worker goes on
        assert "1 failed, 1 passed" in done.stdout and "crashed while running" in done.stdout


def test_every_test_has_a_time_limit(pytestconfig):
    assert 0 < float(pytestconfig.getini("faulthandler_timeout")) <= 1800
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signals")
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "workers"])
def test_ignored_signals_and_unwritten_bytecode_are_not_handed_on(tmp_path, options):
    unwritten = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": ""}
    done = suite(tmp_path, SIGNALS + BYTECODE, *options, launcher=[sys.executable, "-c", IGNORING], **unwritten)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
