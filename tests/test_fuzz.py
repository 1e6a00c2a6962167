"""Unreasonable arguments: a fixed sample of what tools/fuzz.py calls, and the tool itself on functions that do fail."""

import subprocess
import sys
from pathlib import Path

import pytest

import bireme
from tools import fuzz

ROOT = Path(__file__).resolve().parent.parent
CALLS = 6000  # some 20 s on one core; make test-all makes ten times as many


def test_every_call_returns_or_names_its_function(full):
    failures = fuzz.run(seed=1, count=CALLS * (10 if full else 1))
    assert not failures, "\n".join(map(str, failures))


def test_the_sample_is_fixed_and_covers_everything():
    first, again = ([line for *_, line in fuzz.calls(1, CALLS, "")] for _ in range(2))
    assert first == again
    assert first != [line for *_, line in fuzz.calls(2, CALLS, "")]
    functions = fuzz.targets()
    assert len(functions) < CALLS / 4
    paths = {target.path for target in functions}
    assert {
        "bireme.add",
        "bireme.Tensor.reshape",
        "bireme.linalg.svd",
        "bireme.nn.functional.relu",
        "bireme.fft.fft",
    } <= paths
    rest = [line for _, _, line in fuzz.calls(1, CALLS, "", start=CALLS - 10)]
    assert rest == first[-10:]  # a worker that is started again goes on where the last one ended


# What each of these does is what the tool looks for; they stand in the public interface for the time of one test.
BROKEN = """
import os
import jax
import bireme

def zork_dies(x): os.abort()
def zork_hangs(x):
    while True: pass
def zork_mumbles(x): raise ValueError("no")
def zork_leaks(x): raise jax.errors.JAXTypeError("zork_leaks")
def zork_refuses(x): raise ValueError("zork_refuses(x): expected something else")
def zork_works(x): return 1

BROKEN = [zork_dies, zork_hangs, zork_mumbles, zork_leaks, zork_refuses, zork_works]
for f in BROKEN:
    setattr(bireme, f.__name__, f)
bireme.__all__ = [*bireme.__all__, *[f.__name__ for f in BROKEN]]
"""


def test_the_tool_finds_what_it_looks_for(tmp_path, monkeypatch):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN + "\nfrom tools import fuzz\nfuzz.main()\n")
    monkeypatch.setattr(bireme, "__all__", bireme.__all__)
    space: dict = {}
    exec(BROKEN, space)
    monkeypatch.setattr(fuzz, "PROGRAM", [str(script)])
    monkeypatch.setattr(fuzz, "SECONDS", 3)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = []
    try:
        failures = fuzz.run(seed=0, count=6, only="zork_", told=done.append)
    finally:
        for f in space["BROKEN"]:
            delattr(bireme, f.__name__)
    found = {failure.call.partition("(")[0].removeprefix("bireme."): failure.why for failure in failures}
    assert sorted(found) == ["zork_dies", "zork_hangs", "zork_leaks", "zork_mumbles"]
    assert "the process died with -6" in found["zork_dies"]
    assert "did not end in 3 s" in found["zork_hangs"]
    assert "JAXTypeError" in found["zork_leaks"]
    assert found["zork_mumbles"] == "an error that does not name the function: ValueError: no"
    assert done[-1] == 6


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, "--only NAME"),
        (["--list", "--calls", "3", "--only", "linalg."], 0, "bireme.linalg."),
        (["--only", "nowhere"], 2, "no public function has 'nowhere' in its name"),
        (["--calls", "40", "--only", "bireme.add"], 0, "40 calls of"),
    ],
)
def test_the_command(arguments, status, said):
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
