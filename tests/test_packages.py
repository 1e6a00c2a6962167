"""Networks of public packages: a sample trains with Paddle's numbers, where the packages are; and the tool that compares."""

import importlib.metadata
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import bireme
from tools import packages
from tools.networks import PACKAGES, Network, networks, step

# written by: python -m tools.packages --oracle PYTHON --write tests/expected/packages.json PATHS
RECORDED = json.loads(Path(__file__).with_name("expected").joinpath("packages.json").read_text())


def missing(package: str) -> str:
    """Why the networks of a package cannot be run here; nothing if they can."""
    name, version = PACKAGES[package]
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name} {version} is not installed"
    return "" if found == version else f"the numbers are those of {name} {version}, and {found} is installed"


@pytest.mark.parametrize("package", sorted({path.partition("/")[0] for path in RECORDED}))
def test_sample(package):
    if why := missing(package):
        pytest.skip(why)
    paths = [path for path in RECORDED if path.startswith(f"{package}/")]
    found = {ours["path"]: ours for ours in packages.run(sys.executable, "bireme", "float32", paths, 120)}
    verdicts = {path: packages.verdict(found[path], RECORDED[path], packages.CLOSE) for path in paths}
    assert {path: said for path, said in verdicts.items() if said[0] != "equal"} == {}


def test_lists():
    counts: dict[str, set[str]] = {}
    for each in networks().values():
        counts.setdefault(each.package, set()).add(each.family)
    assert set(RECORDED) <= set(networks())
    assert sum(map(len, counts.values())) >= 60 and len(networks()) >= 200
    assert all(len(networks([p])) >= 20 for p in ("nlp", "clas", "seg", "det"))


def network(scale=1.0, **options):
    class Scaled(bireme.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear, self.dropout = bireme.nn.Linear(3, 2), bireme.nn.Dropout(0.5)

        def forward(self, x):
            return {"y": scale * self.dropout(self.linear(x))}

    return Network(
        "own", "linear", "Scaled", Scaled, lambda: ((np.arange(6, dtype="float32").reshape(2, 3),), {}), **options
    )


def test_numbers_follow_from_names():
    first, second = step.numbers(bireme, network(), "float32"), step.numbers(bireme, network(), "float32")
    assert first == second and first["loss"] != first["after"]
    assert first["parameters"] == {"linear.weight": [3, 2], "linear.bias": [2]}
    assert packages.verdict(first, second, packages.CLOSE)[0] == "equal"
    exact = step.numbers(bireme, network(), "float64")
    bireme.set_default_dtype("float32")
    assert 0 < packages.difference(first, exact)[1] < 1e-5


@pytest.mark.parametrize(
    ("change", "word", "why"),
    [
        (lambda n: n.update(step.numbers(bireme, network(1.01), "float32")), "differs", "gradient of linear"),
        (lambda n: n["grads"].update({"linear.bias": None}), "differs", "gradient of linear.bias: none here"),
        (lambda n: n["parameters"].pop("linear.bias"), "differs", "1 parameters, as linear.bias"),
        (lambda n: n["outputs"][0].__setitem__(0, [2]), "differs", "shapes of outputs"),
        (lambda n: n.update(after=float("nan")), "differs", "loss after the step is NaN"),
        (lambda n: n.update(error="TypeError: no"), "fails", "TypeError: no"),
    ],
)
def test_what_differs_is_told(change, word, why):
    theirs, ours = (step.numbers(bireme, network(), "float32") for _ in range(2))
    change(ours)
    said = packages.verdict(ours, theirs, packages.CLOSE)
    assert said[0] == word and said[1].startswith(why)


def test_networks_that_paddle_cannot_run_do_not_count():
    found = step.numbers(bireme, network(), "float32")
    assert packages.verdict(found, {"error": "ValueError: no"}, 1.0) == ("Paddle fails", "ValueError: no")
    assert packages.verdict(found, {**found, "loss": float("inf")}, 1.0)[0] == "Paddle fails"
