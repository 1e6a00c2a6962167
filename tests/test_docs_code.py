"""The code on every page runs and prints what the page says, each page in a process of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.docs_code import blocks, run

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
KINDS = {"python", "text", "cpp", ""}  # of blocks: code by another name would not run; C++ needs a compiler
WITH_CODE = [page for page in PAGES if blocks(page.read_text())]
# what is done with a trained model, and the page that shows it
PARTS = {
    "predictor": "inference",
    "quantize": "quantization",
    "serve": "serving",
    "language models": "language_models",
    "C": "edge",
    "web": "web",
    "ocr": "ocr",
}


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_the_code_of_a_page(page):
    # a page may register operators, devices and flags, which must not reach other tests
    command = [sys.executable, "-m", "tools.docs_code", page]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_page_whose_code_runs(part):
    assert ROOT / "docs" / f"{PARTS[part]}.md" in WITH_CODE


def test_pages_have_code_and_all_of_it_is_found():
    assert len(WITH_CODE) > 10
    for page in PAGES:
        marked = re.findall(r"^\s*```python", page.read_text(), re.MULTILINE)
        skipped = re.findall(r"^<!-- not run: \S.*-->\n```python", page.read_text(), re.MULTILINE)
        assert len(blocks(page.read_text())) == len(marked) - len(skipped), page.name
        assert set(re.findall(r"^\s*(?:```+|~~~+) *([^\n`]*)$", page.read_text(), re.MULTILINE)) <= KINDS, page.name


def test_mistakes_on_a_page_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\ntext\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n")
    assert run(page) == []
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    assert run(page) == ["page.md:2: expected\n2\ngot\n1\n"]
    page.write_text("```python\nundefined\n```\n")
    assert "NameError" in run(page)[0]
    page.write_text("<!-- not run: an example -->\n```python\nundefined\n```\n")
    assert run(page) == []
    page.write_text("<!-- not run: -->\n```python\nundefined\n```\n")
    assert run(page) != []
