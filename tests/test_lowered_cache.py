"""Traced graphs on disk: a later process reads what an earlier one traced, and nothing else but that."""

import os
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.declare.op import Tensor, op
from bireme.core.graph import segment
from bireme.core.graph.graph import Graph
from bireme.core.record import flush
from bireme.core.xla_exec import compile_cache, lowered_cache

SCRIPT = """
    import numpy as np
    import bireme
    from bireme import nn
    from bireme.core.xla_exec import lowered_cache

    made = []
    text_of = lowered_cache._text_of
    lowered_cache._text_of = lambda *args: made.append(1) or text_of(*args)
    bireme.seed(0)
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(30)], nn.Dropout(0.5))
    opt = bireme.optimizer.AdamW(parameters=net.parameters())
    x = bireme.to_tensor(np.random.RandomState(0).standard_normal((128, 64)).astype("float32"))
    losses = []
    for _ in range(4):
        loss = (net(x) ** 2).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.item().hex())
    print(len(made), *losses)
"""


def run(folder):
    env = {**os.environ, "BIREME_CACHE_DIR": str(folder), "FLAGS_compile_beside": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    made, *losses = done.stdout.split()
    return int(made), losses


def test_a_later_process_reads_what_an_earlier_one_traced(tmp_path):
    made, losses = run(tmp_path)
    folder = tmp_path / f"bireme-{os.geteuid()}" / "traced"
    files = list(folder.iterdir())
    assert made == len(files) > 0
    assert all(f.stat().st_mode & 0o077 == 0 for f in [*files, folder])
    assert run(tmp_path) == (0, losses)
    # damaged, it is traced again, with the same numbers, and written anew
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert run(tmp_path) == (1, losses)
    assert files[0].read_bytes()[:60] == whole[:60]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BIREME_CACHE_DIR", str(tmp_path))
    return tmp_path / f"bireme-{os.geteuid()}" / "traced"


@pytest.mark.parametrize(
    "damage",
    [lambda b: b"", lambda b: b[:20], lambda b: b[:-1], lambda b: b[:70] + b"?" + b[71:], lambda b: b"?" + b[1:]],
)
def test_a_damaged_file_is_none(damage, folder):
    lowered_cache._write("one", {"option": True}, b"text" * 100)
    assert lowered_cache._read("one") == ({"option": True}, b"text" * 100)
    (folder / "one").write_bytes(damage((folder / "one").read_bytes()))
    assert lowered_cache._read("one") is None


def test_a_file_under_another_name_is_none(folder):
    lowered_cache._write("one", {}, b"text")
    (folder / "one").rename(folder / "two")
    assert lowered_cache._read("two") is None


def test_a_full_disk_keeps_no_part(folder, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lowered_cache.Path, "replace", full)
    lowered_cache._write("one", {}, b"text")
    assert list(folder.iterdir()) == []


def test_no_name_once_the_source_has_changed(folder, monkeypatch):
    lowered_cache._package.cache_clear()
    assert name_of(bireme.tanh) is not None
    lowered_cache._package.cache_clear()
    monkeypatch.setattr(lowered_cache, "_BEGAN", 0.0)
    assert name_of(bireme.tanh) is None


def test_a_program_that_jax_cannot_write_down_is_traced_each_time(folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise ValueError("custom calls without guarantees")

    monkeypatch.setattr(lowered_cache.export, "export", refuse)
    for _ in range(2):  # the second time it is known that it cannot
        lowered, options = lowered_cache.lower(
            jax.jit(lambda x: [x[0] + 1]), (), ([np.ones(2, "float32")],), "name", "cpu", lambda jaxpr: {"option": 1}
        )
        assert options == {"option": 1} and lowered.compile()([np.ones(2, "float32")])[0].tolist() == [2, 2]
        assert lowered_cache._read("name") == ({"option": 1}, b"")
        monkeypatch.setattr(lowered_cache.export, "export", None)


def test_a_folder_that_cannot_be_written(folder):
    folder.parent.mkdir(mode=0o700)
    folder.write_text("in the way")
    lowered_cache._write("one", {}, b"text")
    assert lowered_cache._read("one") is None


def graph_of(call, *shape, calls=70):
    """The graph of a chain of calls, as it was recorded."""
    x = bireme.zeros(shape or (2, 2))
    flush.flush()
    y = call(x)
    for _ in range(calls - 1):
        y = bireme.tanh(y)
    graph = Graph(segment.local.segment.state, bireme.core.base.device.current())
    y.numpy()
    return graph


def name_of(call, *shape, live=(69,), donate=(), calls=70):
    graph = graph_of(call, *shape, calls=calls)
    return lowered_cache.name(graph, live, donate, graph.device)


def test_names_tell_apart_what_is_different(monkeypatch):
    names = {
        "as it is": name_of(bireme.tanh),
        "shape": name_of(bireme.tanh, 2, 3),
        "operator": name_of(bireme.exp),
        "attribute": name_of(lambda x: bireme.sum(x, axis=0, keepdim=True)),
        "other attribute": name_of(lambda x: bireme.sum(x, axis=1, keepdim=True)),
        "results": name_of(bireme.tanh, live=(68, 69)),
        "given away": name_of(bireme.tanh, donate=(0,)),
        "longer": name_of(bireme.tanh, calls=71),
    }
    assert None not in names.values() and len(set(names.values())) == len(names)
    assert name_of(bireme.tanh) == names["as it is"]
    with jax.default_matmul_precision("highest"):
        assert name_of(bireme.tanh) not in names.values()
    monkeypatch.setattr(lowered_cache, "_package", lambda: ("another source",))
    assert name_of(bireme.tanh) not in names.values()


@pytest.mark.parametrize(
    "one, other", [(0.0, -0.0), (1, 1.0), (1, True), ("1", 1), ((1,), 1), (np.float32(1), 1.0), (None, "None")]
)
def test_values_are_told_apart(one, other):
    assert lowered_cache._value((one,)) != lowered_cache._value((other,))


def test_what_has_no_name():
    assert name_of(bireme.tanh, calls=lowered_cache.MIN_CALLS - 1) is None
    with pytest.raises(lowered_cache.NoStableName):
        lowered_cache._value((object(),))
    bireme.set_flags({"FLAGS_compile_cache": False})
    try:
        assert name_of(bireme.tanh) is None
    finally:
        bireme.set_flags({"FLAGS_compile_cache": True})


def test_an_operator_from_elsewhere_has_no_name():
    @op()
    def from_elsewhere(x: Tensor) -> Tensor:
        """Not this package's."""
        return x + 1

    try:
        assert name_of(from_elsewhere) is None
    finally:
        del bireme.core.base.registry.OPS["from_elsewhere"]


def test_files_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(compile_cache, "MOST", 5)
    for i in range(9):
        lowered_cache._write(f"{i}", {"option": True}, b"text")
        os.utime(folder / f"{i}", (i, i))
    assert lowered_cache._read("8") == ({"option": True}, b"text")
    assert lowered_cache._read("0") is None
    assert sorted(f.name for f in folder.iterdir()) == ["4", "5", "6", "7", "8"]
    bireme.set_flags({"FLAGS_compile_cache_bytes": 8 * 200})
    try:
        lowered_cache._write("9", {}, b"x" * 40)
    finally:
        bireme.set_flags({"FLAGS_compile_cache_bytes": 2 << 30})
    assert len(list(folder.iterdir())) < 4


def test_gradients_of_every_order_have_names():
    x = bireme.to_tensor(np.linspace(0.1, 1, 4, dtype="float32"), stop_gradient=False)
    y = x
    for _ in range(10):
        y = bireme.sin(y) * x
    for _ in range(3):
        (y,) = bireme.grad(y.sum(), [x], create_graph=True)
    graph = Graph(segment.local.segment.state, bireme.core.base.device.current())
    assert len(graph.nodes) > lowered_cache.MIN_CALLS
    assert lowered_cache.name(graph, (len(graph.value_sigs) - 1,), (), graph.device) is not None
    assert np.isfinite(y.numpy()).all()


@pytest.mark.usefixtures("compiled_when_met_again")
def test_a_layer_in_training_has_a_name():
    """The parts of a usual step can all be told: attention, norms, dropout, losses, an optimizer's update."""
    found = []
    told = lowered_cache.name
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1), 2)
    opt = bireme.optimizer.AdamW(parameters=layer.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0))
    x = bireme.to_tensor(np.random.RandomState(0).standard_normal((4, 8, 32)).astype("float32"))

    def name(*args):
        found.append(told(*args))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowered_cache, "name", name)
        for _ in range(3):
            nn.functional.cross_entropy(layer(x).reshape([-1, 32]), bireme.zeros([32], "int64")).backward()
            opt.step()
            opt.clear_grad()
            bireme.device.synchronize()
    assert found and all(found)
