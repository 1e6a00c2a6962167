"""Saved programs: their format stays readable, and no file does harm."""

import json
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import jit, nn
from bireme.static import InputSpec
from tools import fuzz_files

GOLDEN = Path(__file__).parent / "data" / "program_v1"


class Golden(nn.Layer):
    """What the files in tests/data were made from: `jit.save(Golden(), "program_v1", [InputSpec([None, 4], name="x")])`."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.LayerNorm(3)
        for i, p in enumerate(self.parameters()):
            p.set_value(np.linspace(-1, 1 + i, p.size, dtype="float32").reshape(p.shape))

    def forward(self, x):
        h = self.b(self.a(x))
        out = []
        for row in h:
            if row.sum() > 0.5:
                out.append(row[::2] * 2)
            else:
                out.append(bireme.clip(row, min=-float("inf"), max=0.25)[..., 1:])
        return {"rows": bireme.stack(out), "size": x.shape[0] * 2, "pair": (h.astype("float16"), None)}


def test_files_of_this_version_stay_readable():
    x = bireme.to_tensor(np.linspace(-2, 3, 20, dtype="float32").reshape(5, 4))
    made, want = jit.load(str(GOLDEN))(x), Golden()(x)
    np.testing.assert_allclose(made["rows"].numpy(), want["rows"].numpy(), rtol=1e-6)
    assert made["size"] == 10 and made["pair"][1] is None and made["pair"][0].dtype == bireme.float16


def test_the_graph_is_text(tmp_path):
    """A line for each operation, which names an operator and never code."""
    jit.save(Golden(), str(tmp_path / "g"), [InputSpec([None, 4], name="x")])
    text = (tmp_path / "g.json").read_text()
    graph = json.loads(text)
    assert graph["format"] == "bireme.program" and graph["version"] == 1
    assert [o["call"] for o in graph["functions"]["forward"]["operations"]][:2] == ["linear", "layer_norm"]
    assert any('"call": "linear"' in line and '"results"' in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda g: g.update(version=99), "it is of version 99"),
        (lambda g: g["functions"]["forward"]["operations"][0].update(call="os.system"), "an operation 'os.system'"),
        (
            lambda g: g["functions"]["forward"]["operations"][0].update(call="Tensor.__class__"),
            "an operation 'Tensor.__c",
        ),
        (
            lambda g: g["functions"]["forward"]["operations"][0].update(call="program.recordable"),
            "an operation 'program.",
        ),
        (lambda g: g["functions"]["forward"]["operations"].pop(0), "which is not made before it"),
        (lambda g: g["functions"]["forward"].update(results={"value": "nothing"}), "'nothing' that is not described"),
        (lambda g: g["functions"].update(_parameters=g["functions"]["forward"]), "its functions are not forward"),
        (lambda g: g["tensors"].clear(), "a tensor 'linear"),
        (lambda g: g.update(functions=[]), "functions in it is not a dict"),
    ],
)
def test_hostile_graphs(change, told, tmp_path):
    jit.save(Golden(), str(tmp_path / "g"), [InputSpec([None, 4], name="x")])
    graph = json.loads((tmp_path / "g.json").read_text())
    change(graph)
    (tmp_path / "g.json").write_text(json.dumps(graph))
    with pytest.raises(
        bireme.errors.FileFormatError, match=r"load\(path\): expected a program that jit.save wrote"
    ) as e:
        jit.load(str(tmp_path / "g"))
    assert told in str(e.value)


def test_deep_nesting(tmp_path):
    (tmp_path / "g.json").write_text('{"format": "bireme.program", "version": 1, "tensors": ' + "[" * 100_000)
    (tmp_path / "g.safetensors").write_bytes(b"\x02" + b"\0" * 7 + b"{}")
    with pytest.raises(bireme.errors.FileFormatError):
        jit.load(str(tmp_path / "g"))


@pytest.mark.parametrize("name", fuzz_files.FORMATS)
def test_damaged_files(name, full):
    """A fixed sample of what `python -m tools.fuzz_files` loads."""
    assert fuzz_files.check(name, 5000 if full else 150 if name == "paddle" else 250, seed=1) == []


def test_the_tool_finds_what_it_looks_for(monkeypatch):
    """And a failure is printed with the arguments that make its file again."""
    seen = []

    refusals = [
        ValueError("no"),
        bireme.errors.FileFormatError("no"),
        bireme.errors.FileFormatError("load(path): expected another file, got this"),
        FileNotFoundError("none"),
    ]

    def load(path):
        seen.append(path.read_bytes())
        raise refusals[len(seen) % 4]

    whole = fuzz_files.FORMATS["paddle"]
    monkeypatch.setitem(fuzz_files.FORMATS, "paddle", fuzz_files.Format(whole.seeds, load, "load(path)"))
    failures = fuzz_files.check("paddle", 8, seed=3)
    assert [line.partition("#")[2] for line in failures] == [
        " an error that does not name the function: 'no'", " ValueError: no",
    ] * 2  # fmt: skip
    drawn, first = list(seen), failures[1].split()
    seen.clear()
    fuzz_files.check(first[0], int(first[6]), seed=int(first[2]), start=int(first[4]))
    assert seen == [drawn[int(first[4])]]
