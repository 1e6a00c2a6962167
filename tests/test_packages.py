"""Networks of public packages: a sample trains with Paddle's numbers, where the packages are; and the tool that compares."""

import importlib.metadata
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import bireme
from tools import packages
from tools.networks import PACKAGES, Network, networks, step

# Paddle's numbers; written by: python -m tools.packages --record FOLDER --write tests/expected/packages.json
RECORDED = json.loads(Path(__file__).with_name("expected").joinpath("packages.json").read_text())
SAMPLE = [
    "clas/mobilenet_v1/MobileNetV1_x0_25",
    "det/mobilenet_v3/MobileNetV3",
    "nlp/bert/BertForSequenceClassification",
    "nlp/llama/LlamaForCausalLM",
    "rl/dqn/DQN",
    "sci/fno/TFNO2dNet",
    "seg/pp_humanseg/PPHumanSegLite",
    "ts/lstnet/LSTNetModule",
]


def missing(package: str) -> str:
    """Why the networks of a package cannot be run here; nothing if they can."""
    name, version = PACKAGES[package]
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name} {version} is not installed"
    return "" if found == version else f"the numbers are those of {name} {version}, and {found} is installed"


def strayed(paths: list[str]) -> dict[str, str]:
    """Networks that do not give Paddle's numbers, each with what differs."""
    found = {}
    for dtype, tolerance in (("float32", packages.CLOSE), ("float64", packages.CLOSE_DOUBLE)):
        chosen = [path for path in paths if RECORDED[path]["dtype"] == dtype]
        for ours in packages.run(sys.executable, "bireme", dtype, chosen, 600):
            path = ours["path"]
            off = [] if "error" in ours else packages.strayed(packages.digest(ours), RECORDED[path], tolerance)
            found[path] = ours.get("error") or "; ".join(off)
    assert set(found) == set(paths)
    return {path: said for path, said in found.items() if said}


@pytest.mark.parametrize("package", PACKAGES)
def test_sample(package):
    if why := missing(package):
        pytest.skip(why)
    assert strayed([path for path in SAMPLE if path.startswith(f"{package}/")]) == {}


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_all(package):
    if why := missing(package):
        pytest.skip(why)
    assert strayed([path for path in RECORDED if path.startswith(f"{package}/")]) == {}


def test_lists():
    families = {path.rpartition("/")[0] for path in RECORDED}
    assert set(SAMPLE) <= set(RECORDED) <= set(networks())
    assert len(RECORDED) >= 200 and len(families) >= 60
    assert all(sum(path.startswith(p) for path in RECORDED) >= 20 for p in ("nlp/", "clas/", "seg/", "det/"))


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


def test_what_is_kept_of_the_numbers():
    theirs = step.numbers(bireme, network(), "float32")
    kept = json.loads(json.dumps(packages.digest(theirs)))
    assert packages.strayed(packages.digest(theirs), kept, 1e-7) == []
    shape = {**theirs, "parameters": {**theirs["parameters"], "linear.bias": [3]}}
    one = {**theirs, "grads": {**theirs["grads"], "linear.bias": [1.01 * x for x in theirs["grads"]["linear.bias"]]}}
    for changed, said in [(shape, "names and shapes"), (one, "picked"), ({**theirs, "after": math.nan}, "losses")]:
        off = packages.strayed(packages.digest(changed), kept, packages.CLOSE)
        assert said in [each.partition(", by")[0] for each in off]


def test_the_page_counts_what_was_found(tmp_path):
    oracle = packages.Oracle(tmp_path, None, 1, False)
    chosen = dict(list(networks(["sci"]).items())[:5])
    first, second, third, fourth, fifth = chosen
    oracle.keep(first, "equal", "1e-7 loss")
    oracle.keep(second, "Paddle fails", "ValueError: a | b")
    oracle.keep(third, "differs", "loss, by 1.0e+00")
    oracle.keep(fourth, "equal, rounding", "loss, by 1.0e-02")
    said = packages.table(chosen, oracle)
    assert (
        "| paddlesci 1.4.0 | 4 | 1 | 0 | 1 | 1 | 1 | 1 |" in said and "| together | 4 | 1 | 0 | 1 | 1 | 1 | 1 |" in said
    )
    assert f"- `{second}`: `ValueError: a / b`" in said and f"- `{third}`: `differs: loss, by 1.0e+00`" in said
    assert "- mlp: MLP\n" in said and f"## Those that were not tried\n\n`{fifth}`\n" in said


def test_what_has_an_optimizer_of_its_own():
    class Learner(bireme.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = bireme.nn.Linear(3, 2)
            self.optimizer = bireme.optimizer.SGD(0.5, parameters=self.linear.parameters())

        def forward(self, x):
            loss = self.linear(x).sum()
            loss.backward()
            self.optimizer.step()
            self.optimizer.clear_grad()
            return loss, 2.0

    x = np.ones((4, 3), "float32")
    found = step.numbers(
        bireme, Network("own", "linear", "Learner", Learner, lambda: ((x,), {}), learns=True), "float32"
    )
    # the gradient is 4 everywhere: each of 8 weights moves by -2, and the sum of 4 rows of 2 outputs by 4 * 8 * -2
    assert found["grads"]["linear.weight"][0] == pytest.approx(2.0) and [o[0] for o in found["outputs"]] == [[], []]
    assert found["after"] == pytest.approx(found["loss"] - 64)
