"""The demonstration runs to its end, in a short form: it learns, stops, goes on, and leaves what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_demonstration_learns_to_read(tmp_path):
    command = [sys.executable, "-W", "ignore", "examples/demo.py", "--epochs", "2", "--output", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    right, of = map(int, re.search(r"(\d+) of (\d+) images that it had never seen are read right", done.stdout).groups())
    assert of == 357 and right > of / 2  # one in ten by guessing
    assert "goes on from the checkpoint" in done.stdout and len(re.findall(r"\d+% sure", done.stdout)) == 8
    assert {p.name for p in tmp_path.iterdir()} == {"half.pdparams", "half.pdopt", "digits.pdparams", "digits.pdopt", "curve.svg", "logs"}
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    losses = [float(x) for x in re.findall(r"Eval begin.*?loss: ([\d.]+)", done.stdout, re.DOTALL)]
    assert len(losses) == 2 and losses[1] < losses[0]  # the second half went on from the first
