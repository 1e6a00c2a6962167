"""The frame: commands that the documents name exist, versions agree, every module says what it is for."""

import ast
import importlib
import os
import re
import textwrap
import tomllib
from pathlib import Path

import pytest

import bireme
from tools import extras

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
KINDS = ["Added", "Changed", "Fixed", "Deprecated", "Removed"]


def read(name: str) -> str:
    return (ROOT / name).read_text()


def targets() -> set[str]:
    """The commands of the Makefile that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*##", read("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_named_commands_exist(name):
    named = set(re.findall(r"`make ([a-z-]+)[^`]*`|^make ([a-z-]+)", read(name), re.MULTILINE))
    named = {first or second for first, second in named}
    assert name == "CHANGELOG.md" or named
    assert named - targets() == set()


def test_readme_gives_the_two_commands():
    assert {"demo", "test", "help", "api", "bench"} <= targets()
    assert re.search(r"^make demo", read("README.md"), re.MULTILINE)
    assert re.search(r"^make test", read("README.md"), re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/decisions/README.md"])
def test_links_lead_somewhere(name):
    here = (ROOT / name).parent
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(name))
    assert [link for link in links if not (here / link).exists()] == []


def test_functions_of_the_engine_that_documents_name_exist():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"]
    named = {(m, n) for page in pages for m, n in re.findall(r"`(\w+)\.(\w+)(?:\(\))?`", page.read_text())}
    modules = {
        path.stem: f"bireme.core.{path.parent.name}.{path.stem}" for path in (ROOT / "bireme" / "core").glob("*/*.py")
    }
    own = [(m, n) for m, n in sorted(named) if n != "py" and m in modules]
    assert len(own) > 20
    assert [f"{m}.{n}" for m, n in own if not hasattr(importlib.import_module(modules[m]), n)] == []


def test_the_readmes_example_learns(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    # the target's variance is 4: a model that has learned nothing stays there
    assert float(capsys.readouterr().out) < 1


def test_ci_runs_the_tests():
    path = ROOT / ".ci" / "run"
    assert os.access(path, os.X_OK)
    assert "set -euo pipefail" in path.read_text()
    assert "make test" in path.read_text()


def test_versions_agree():
    latest = re.search(r"^## ([\d.]+)", read("CHANGELOG.md"), re.MULTILINE)[1]
    assert bireme.__version__ == PROJECT["version"] == latest


def changelog_problems(text: str) -> list[str]:
    """Lines that do not follow the form: `## version`, `### kind`, `- one line`."""
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    found = [] if head.startswith("# ") and sections else ["no title or no version"]
    for section in sections:
        title, *lines = section.splitlines()
        if not re.fullmatch(r"\d+\.\d+\.\d+(, (unreleased|\d{4}-\d\d-\d\d))?", title):
            found.append(f"version: {title}")
        kinds = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
        if kinds != [kind for kind in KINDS if kind in kinds]:
            found.append(f"{title}: kinds {kinds}")
        found += [line for line in lines if line and not re.match(r"### \w+$|- \S", line)]
    return found


def test_changelog():
    assert changelog_problems(read("CHANGELOG.md")) == []
    assert changelog_problems("# Changes\n\n## 1.0\n\n### News\n\n* x\n") == [
        "version: 1.0",
        "1.0: kinds ['News']",
        "* x",
    ]


def test_nothing_is_pinned():
    extras = PROJECT["optional-dependencies"]
    wanted = PROJECT["dependencies"] + [item for items in extras.values() for item in items]
    assert [item for item in wanted if not re.fullmatch(r"[\w.\[\]-]+>=[\d.]+", item)] == []


def test_decisions_are_listed():
    index = read("docs/decisions/README.md")
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert records
    assert [path.name for path in records if path.name not in index] == []
    numbers = [path.name[:3] for path in records]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("folder", ["bireme", "tools", "tests", "examples", "benchmarks"])
def test_every_module_opens_with_a_docstring(folder):
    paths = sorted((ROOT / folder).rglob("*.py"))
    silent = [str(path.relative_to(ROOT)) for path in paths if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_the_sample_of_an_operator_is_the_one_that_is_declared():
    sample = re.search(r"^ {3}```python\n(.*?)^ {3}```$", read("CONTRIBUTING.md"), re.MULTILINE | re.DOTALL)
    assert "def erfinv(" in sample[1]
    assert textwrap.dedent(sample[1]) in read("bireme/ops/math/special.py")


def test_every_extra_has_a_first_use():
    """`python -m tools.extras` tries each of them in an environment of its own."""
    assert set(extras.FIRST) == set(PROJECT["optional-dependencies"]) == set(extras.names())
    for name, (code, _) in extras.FIRST.items():
        compile(code, name, "exec")
        assert bool(code) != (name in extras.COMMANDS)
