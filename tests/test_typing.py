"""Types for users: the stubs are up to date and in the wheel, and mypy checks a program against the installed package."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tools import stubs

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "data" / "user_program.py"


@pytest.mark.parametrize("name", stubs.FILES)
def test_stubs_are_up_to_date(name):
    assert (stubs.ROOT / name).read_text() == stubs.FILES[name](), "run `make api`"


def run(*command, cwd=None, **environment) -> subprocess.CompletedProcess:
    env = {**os.environ, **environment}
    return subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, env=env)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    made = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    assert made.returncode == 0, made.stdout + made.stderr
    (found,) = folder.glob("bireme-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A Python whose site-packages hold the package and nothing else."""
    home = tmp_path_factory.mktemp("python")
    venv.create(home, with_pip=False)
    (site,) = home.glob("[Ll]ib/python*/site-packages") if os.name != "nt" else [home / "Lib" / "site-packages"]
    made = run(
        sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--target", site, wheel
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return home, site


def test_the_wheel_has_marker_and_stubs(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"bireme/py.typed", *(f"bireme/{name}" for name in stubs.FILES)} <= names
    assert not [name for name in names if name.startswith(("tests/", "tools/"))]


def test_mypy_checks_a_program_against_the_installed_package(installed, tmp_path):
    home, _ = installed
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    options = ("--strict", "--config-file=", f"--cache-dir={tmp_path}", f"--python-executable={python}")
    told = run(sys.executable, "-m", "mypy", *options, PROGRAM, MYPYPATH="").stdout
    reported = {int(line) for line in re.findall(r"user_program\.py:(\d+): error", told)}
    wrong = {i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert len(wrong) >= 5
    assert reported == wrong, told


def test_the_program_runs_with_the_installed_package(installed, tmp_path):
    _, site = installed
    check = f"import bireme, runpy; assert bireme.__file__.startswith({str(site)!r}); runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    told = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert told.returncode == 0, told.stderr
