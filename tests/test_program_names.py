"""Names of programs on disk: a later process finds what an earlier one compiled, and nothing else but that."""

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
from bireme.core.graph.pieces import cut
from bireme.core.record import flush
from bireme.core.xla_exec import program_names
from bireme.core.xla_exec.program_names import Names

SCRIPT = """
    import contextlib
    import sys
    import numpy as np
    import bireme
    from bireme import nn
    from bireme.core.graph import executor
    from bireme.core.xla_exec import xla

    made, lowered = [], xla.lower
    xla.lower = lambda *args, **named: made.append(1) or lowered(*args, **named)
    by = executor.use("xla_pieces") if sys.argv[1] else contextlib.nullcontext()
    bireme.seed(0)
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(20)], nn.Dropout(0.5))
    opt = bireme.optimizer.AdamW(parameters=net.parameters())
    x = bireme.to_tensor(np.random.RandomState(0).standard_normal((128, 64)).astype("float32"))
    losses = []
    with by:
        for _ in range(4):
            loss = (net(x) ** 2).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
            losses.append(loss.item().hex())
    print(len(made), *losses)
"""


def run(folder, how=""):
    env = {**os.environ, "BIREME_CACHE_DIR": str(folder), "FLAGS_compile_beside": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT), how],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    made, *losses = done.stdout.split()
    return int(made), losses


def test_a_later_process_reads_what_an_earlier_one_compiled(tmp_path):
    made, losses = run(tmp_path)
    folder = tmp_path / f"bireme-{os.geteuid()}"
    files = list(folder.iterdir())
    assert made == len(files) > 0
    assert all(f.stat().st_mode & 0o077 == 0 for f in [*files, folder])
    assert run(tmp_path) == (0, losses)
    # damaged, it is compiled again, with the same numbers, and written anew
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert run(tmp_path) == (1, losses)
    assert len(files[0].read_bytes()) > len(whole) // 2 and run(tmp_path) == (0, losses)


def test_pieces_are_found_by_a_later_process(tmp_path):
    made, losses = run(tmp_path, "in pieces")
    assert made > 3
    assert run(tmp_path, "in pieces") == (0, losses)


def test_no_name_once_the_source_has_changed(monkeypatch):
    program_names._package.cache_clear()
    assert name_of(bireme.tanh) is not None
    program_names._package.cache_clear()
    monkeypatch.setattr(program_names, "_BEGAN", 0.0)
    assert name_of(bireme.tanh) is None


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
    return Names(graph.device).graph(graph, live, donate)


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
    monkeypatch.setattr(program_names, "_package", lambda: ("another source",))
    assert name_of(bireme.tanh) not in names.values()


@pytest.mark.parametrize(
    "one, other", [(0.0, -0.0), (1, 1.0), (1, True), ("1", 1), ((1,), 1), (np.float32(1), 1.0), (None, "None")]
)
def test_values_are_told_apart(one, other):
    assert program_names._value((one,)) != program_names._value((other,))


def test_what_has_no_name():
    with pytest.raises(program_names.NoStableName):
        program_names._value((object(),))
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


def test_arguments_that_are_not_read_are_part_of_a_name():
    """They are not in the text of a program, which takes them all the same."""
    names, texts = Names(bireme.core.base.device.current()), []
    for unread in (2, 3):
        args = tuple(jax.ShapeDtypeStruct((n,), np.float32) for n in (4, unread))
        lowered = jax.jit(lambda x, y: x + 1).lower(*args)
        texts.append((lowered.as_text(), names.text(lowered, {}, args)))
    (text, name), (other_text, other_name) = texts
    assert text == other_text and name != other_name


def test_gradients_of_every_order_have_names():
    x = bireme.to_tensor(np.linspace(0.1, 1, 4, dtype="float32"), stop_gradient=False)
    y = x
    for _ in range(10):
        y = bireme.sin(y) * x
    for _ in range(3):
        (y,) = bireme.grad(y.sum(), [x], create_graph=True)
    graph = Graph(segment.local.segment.state, bireme.core.base.device.current())
    live = (len(graph.value_sigs) - 1,)
    names = Names(graph.device)
    assert len(graph.nodes) > 64 and names.graph(graph, live, ()) is not None
    pieces = cut(graph, live, (), 1e5)
    assert (
        len({names.piece(piece, short) for piece in pieces for short in (True, False)} - {None})
        == 2 * len({piece.key for piece in pieces})
        > 6
    )
    assert np.isfinite(y.numpy()).all()


@pytest.mark.usefixtures("compiled_when_met_again")
def test_a_layer_in_training_has_a_name():
    """The parts of a usual step can all be told: attention, norms, dropout, losses, an optimizer's update."""
    found = []
    told = Names._name
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1), 1)
    opt = bireme.optimizer.AdamW(parameters=layer.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0))
    x = bireme.to_tensor(np.random.RandomState(0).standard_normal((4, 8, 32)).astype("float32"))

    def name(*args):
        found.append(told(*args))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Names, "_name", name)
        for _ in range(3):
            nn.functional.cross_entropy(layer(x).reshape([-1, 32]), bireme.zeros([32], "int64")).backward()
            opt.step()
            opt.clear_grad()
            bireme.device.synchronize()
    assert found and all(found)
