"""What `explain` says: one row for many shapes, leaves by their names, pieces by layer; and what a long compile shows."""

import io
import re
import threading
import types
from concurrent.futures import Future

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base import terminal
from bireme.core.graph import segment
from bireme.core.run import beside, explain, graphs, leaf_names, lookup, progress
from bireme.core.xla_exec import pieces as programs


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    """Also where there is a GPU; and nothing is known from other tests."""
    bireme.debug.flush()
    graphs.clear()
    segment._drop_tree()
    monkeypatch.setattr(leaf_names, "_layers", type(leaf_names._layers)())
    with bireme.device_guard("cpu"):
        bireme.debug.reset_stats()
        yield


@pytest.fixture
def in_pieces(monkeypatch):
    """Every program runs in pieces from its first run on, as on an accelerator."""
    monkeypatch.setattr(beside, "at_once", lambda graph: True)
    bireme.set_flags({"FLAGS_interpret": False, "FLAGS_compile_cache": False})
    yield
    bireme.set_flags({"FLAGS_interpret": True, "FLAGS_compile_cache": True})


def ones(*shape):
    return bireme.to_tensor(np.ones(shape, "float32"))


class Net(nn.Layer):
    def __init__(self, layers=4, width=8):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.blocks = nn.LayerList([nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width)) for _ in range(layers)])

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = nn.functional.gelu(block(x)) + x
        return x


def stepper(net, rule=bireme.optimizer.AdamW):
    optimizer = rule(0.01, parameters=net.parameters())

    def step(x):
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss.item()

    return step


# ---------------------------------------------------------------- many shapes


def work(n, m=5):
    x = ones(n, m)
    return (x.exp() * x).sum().numpy()


def test_up_to_three_shapes_have_a_row_each():
    for n in (2, 3, 4):
        work(n)
    rows = bireme.debug.explain()
    assert [row["graphs"] for row in rows] == [1, 1, 1]
    assert rows[1]["why"].endswith("changed from float32[2, 5] to float32[3, 5] (axis 0)")


def test_more_shapes_are_one_row_with_their_sums():
    for n in (9, 3, 4, 7):
        work(n)
        work(n)
    (row,) = bireme.debug.explain()
    assert row["graphs"] == 4 and row["met"] + row["hits"] == 8
    assert row["ops"] == 3 and row["run by"] == "the interpreter"
    assert re.fullmatch(r"4 shapes: input x of exp at test_explain\.py:\d+ is float32\[3\.\.9, 5\]", row["why"])
    work(3)
    work(3, 8)
    (row,) = bireme.debug.explain()
    assert row["why"].startswith("5 shapes") and row["why"].endswith("float32[3..9, 5..8]")


def test_other_segments_keep_their_rows_and_the_order():
    (ones(2) + 1.0).numpy()
    for n in range(2, 8):
        work(n)
    (ones(2) - 1.0).numpy()
    assert [row["graphs"] for row in bireme.debug.explain()] == [1, 6, 1]


def test_a_reset_leaves_only_the_shapes_that_run_afterwards():
    for n in range(2, 8):
        work(n)
    bireme.debug.reset_stats()
    assert bireme.debug.explain() == []
    work(4)
    (row,) = bireme.debug.explain()
    assert row["graphs"] == 1 and row["met"] + row["hits"] == 1


def test_shapes_that_the_engine_has_forgotten_stay_in_the_sums(monkeypatch):
    monkeypatch.setattr(graphs, "MAX_NEW", 4)
    for n in range(1, 41):
        work(n)
    (row,) = bireme.debug.explain()
    assert row["graphs"] == row["met"] == 40
    assert "40 shapes" in row["why"] and "float32[1..40, 5]" in row["why"]
    assert row["why"].endswith("; 36 of them are forgotten")
    assert len(explain._notes) <= 4 + 1
    graphs.clear()
    (row,) = bireme.debug.explain()
    assert row["why"] == "forgotten: 40 graphs did not come back" and row["met"] == 40


def test_loops_of_many_lengths_are_one_row():
    for rounds in range(1, 7):
        x = ones(3)
        for _ in range(rounds):
            x = x.tanh()
        x.numpy()
    (row,) = bireme.debug.explain()
    assert row["graphs"] == 6 and row["why"].startswith("6 graphs of 1 to 6 operators: ")


def test_sizes_that_are_attributes_are_told_by_their_operator():
    for n in range(2, 8):
        bireme.zeros([n, 3]).exp().numpy()
    (row,) = bireme.debug.explain()
    assert row["graphs"] == 6 and "shape=(7, 3)" in row["why"]


def test_what_a_gradient_reads_has_its_operator():
    for n in range(3, 9):
        x = bireme.ones([n, 2])
        x.stop_gradient = False
        y = x.reshape([2 * n])
        y.numpy()
        y.backward(bireme.to_tensor(np.ones(2 * n, np.float32)))
        x.grad.numpy()
    assert any("input of reshape.grad at test_explain.py" in row["why"] for row in bireme.debug.explain())


def test_tiers_of_many_shapes_are_counted():
    for n in (301, 302, 303, 304, 305):
        for _ in range(2 if n < 303 else 1):
            work(n, 300)
    (row,) = bireme.debug.explain()
    assert row["run by"] == "one program: 2, the interpreter: 3" and row["compiles"] == 2


# ---------------------------------------------------------------- names


def test_a_parameter_has_its_structured_name_and_its_own():
    for width in (8, 16):
        net = Net(width=width)
        stepper(net)(ones(2, 6))
        why = bireme.debug.explain()[-1]["why"]
    name = re.escape(net.first.weight.name)
    assert re.fullmatch(rf"parameter first\.weight \({name}\) changed from float32\[6, 8\] to float32\[6, 16\] .*", why)


def test_parameters_that_are_only_read_have_names_too():
    with bireme.no_grad():
        for width in (8, 16):
            net = Net(width=width)
            net(ones(2, 6)).numpy()
    assert "parameter first.weight" in bireme.debug.explain()[-1]["why"]


def test_a_buffer_has_its_name():
    class Shifted(nn.Layer):
        def __init__(self, n):
            super().__init__()
            self.scale = self.create_parameter([1])
            self.register_buffer("shift", ones(n))

        def forward(self, x):
            return x * self.scale + self.shift

    with bireme.no_grad():
        for n in (1, 5):
            layer = Shifted(n)
            layer(ones(3, 5)).numpy()
    assert "buffer shift (" in bireme.debug.explain()[-1]["why"]


def test_of_two_models_the_class_is_told():
    other = nn.Linear(2, 2)
    for width in (8, 16):
        net = Net(width=width)
        stepper(net)(ones(2, 6))
    assert "parameter Net.first.weight" in bireme.debug.explain()[-1]["why"]
    assert other is not None


def test_the_state_of_an_optimizer_has_its_name():
    w = bireme.create_parameter([4], "float32")
    momentum = bireme.optimizer.Momentum(0.1, parameters=[w])
    bireme.debug.flush()
    (w * 2.0).sum().backward()
    momentum.step()
    momentum.clear_grad()
    bireme.debug.flush()
    (note,) = [n for n in explain._notes if n.leaves.replaced]
    names = [str(name) for name in explain.Names().known(note.leaves).values()]
    assert sorted(names) == sorted([w.name, *momentum.state_dict()])


def test_an_operand_that_becomes_a_number_is_named():
    x = ones(3)
    for y in (ones(3), 2.0):
        (x.exp() * y).numpy()
    why = bireme.debug.explain()[-1]["why"]
    assert re.fullmatch(
        r"number y of multiply at test_explain\.py:\d+ changed from float32\[3\] to a number of float32", why
    )


def test_names_hold_nothing():
    """A leaf is remembered weakly: it is still reused for a result, and gone when its last holder is."""
    net = Net()
    step = stepper(net)
    step(ones(2, 6))
    (note,) = [n for n in explain._notes if n.leaves.replaced]
    old = next(r for i, r in enumerate(note.leaves.values) if i == note.leaves.replaced[0][1])
    assert old() is None
    del net, step
    graphs.clear()
    assert note.leaves.values == () and note.entry is None


def test_the_leaves_of_old_graphs_are_let_go_of(monkeypatch):
    monkeypatch.setattr(explain, "MOST_NAMED", 2)
    for n in (2, 3, 4, 5):
        work(n)
    assert [bool(note.leaves.values) for note in explain._notes] == [False, False, True, True]


# ---------------------------------------------------------------- pieces


def test_pieces_are_listed_by_layer_and_line(in_pieces):
    net = Net()
    bireme.debug.flush()
    bireme.debug.reset_stats()
    stepper(net)(ones(2, 6))
    (row,) = bireme.debug.explain(pieces=True)
    found = row["pieces"]
    number, different = map(int, re.match(r"(\d+) pieces, (\d+) different", row["run by"]).groups())
    assert len(found) == different and sum(piece["times"] for piece in found) == number
    blocks = [piece for piece in found if piece["layer"] in ("blocks.0 .. blocks.3", "blocks.3 .. blocks.0")]
    assert [piece["times"] for piece in blocks] == [4, 4]
    forward, backward = blocks
    assert "layer_norm" in forward["operators"] and "layer_norm.grad" in backward["operators"]
    assert all(re.match(r"test_explain\.py:\d+", piece["lines"]) for piece in found)
    assert {piece["from"] for piece in found} == {"compiler"} and all(piece["compile_ms"] > 0 for piece in found)
    text = str(bireme.debug.explain(pieces=True))
    assert re.search(r"\n {4}times +ops +operators +layer +lines +compile_ms +from\n", text)
    assert "pieces" not in bireme.debug.explain()[-1]


def test_pieces_from_disk_say_so(in_pieces):
    bireme.set_flags({"FLAGS_compile_cache": True})
    step = stepper(Net(), bireme.optimizer.SGD)
    bireme.debug.flush()
    for _ in range(2):
        graphs.clear()
        programs._programs.clear()
        bireme.debug.reset_stats()
        step(ones(5, 6))
        for thread in threading.enumerate():  # what is written to disk is written by them
            if thread.name == "bireme-compile":
                thread.join()
    (row,) = bireme.debug.explain(pieces=True)
    assert {piece["from"] for piece in row["pieces"]} == {"disk"}


def test_what_is_one_program_has_no_pieces():
    work(3)
    (row,) = bireme.debug.explain(pieces=True)
    assert row["pieces"] == []


# ---------------------------------------------------------------- a long compile


class Screen(io.StringIO):
    """A terminal that lets the compiler go on when something has been drawn."""

    def __init__(self, tty=True):
        super().__init__()
        self.tty, self.drawn = tty, threading.Event()

    def isatty(self):
        return self.tty

    def write(self, text):
        super().write(text)
        self.drawn.set()


@pytest.fixture
def screen(monkeypatch):
    """A terminal as standard error, on which every compile takes long."""
    shown = Screen()
    monkeypatch.setattr(terminal, "in_notebook", lambda: False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=shown))  # pytest sets its own for each phase
    bireme.set_flags({"FLAGS_tell_compiles": 1e-6})
    yield shown
    bireme.set_flags({"FLAGS_tell_compiles": 4.0})


def wait_until_drawn(monkeypatch, screen):
    """Let each program be made only when its compile has been told of."""
    real = programs._Run.wait

    def wait(run):
        assert screen.drawn.wait(20)
        return real(run)

    monkeypatch.setattr(programs._Run, "wait", wait)


def threads():
    return [t for t in threading.enumerate() if t.name == "bireme-progress"]


def test_a_terminal_shows_how_far_a_compile_is(in_pieces, screen, monkeypatch):
    wait_until_drawn(monkeypatch, screen)
    x = ones(3, 4)
    (x.exp() * x).sum().numpy()
    text = screen.getvalue()
    where = r"test_explain\.py:\d+ to test_explain\.py:\d+"
    assert re.match(rf"\rbireme: compiling 3 operators at {where}:( \d of 1 programs,)? \d+ s", text)
    assert re.search(rf"\rbireme: compiled 3 operators at {where}: 1 of 1 programs, \d+ s *\n$", text)
    assert text.count("\n") == 1 and threads() == []


def test_a_file_gets_one_line(in_pieces, screen, monkeypatch):
    screen.tty = False
    wait_until_drawn(monkeypatch, screen)
    x = ones(3, 4)
    (x.exp() * x).sum().numpy()
    text = screen.getvalue()
    assert text.startswith("bireme: compiling 3 operators (exp, multiply, sum) recorded at ")
    assert text.count("\n") == 1 and "\r" not in text and threads() == []


def test_no_word_where_the_flag_is_zero(in_pieces, screen):
    bireme.set_flags({"FLAGS_tell_compiles": 0})
    x = ones(3, 4)
    (x.exp() * x).sum().numpy()
    assert screen.getvalue() == ""


def test_an_interrupt_clears_the_line(in_pieces, screen, monkeypatch):
    def wait(run):
        assert screen.drawn.wait(20)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(programs._Run, "wait", wait)
        x = ones(3, 4)
        y = (x.exp() * x).sum()
        with pytest.raises(KeyboardInterrupt):
            y.numpy()
    drawn = screen.getvalue().split("\r")
    assert drawn[-1] == "" and drawn[-2].strip() == "" and len(drawn[-2]) == len(drawn[-3]) > 0
    assert "\n" not in screen.getvalue() and threads() == []
    assert y.numpy() > 0


def test_the_line_fits_the_terminal(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    x = ones(2)
    x = x.exp() + x
    line = progress._Line(lookup.Graph(segment.local.segment.state, x._value.device), "", programs.Making(), 0)
    line._draw(line._text("compiling"))
    assert screen.getvalue().startswith("\rbireme: compiling 2 operators") and len(screen.getvalue()) == 1 + 39


def test_programs_that_are_made_are_counted():
    x = ones(2)
    for _ in range(4):
        x = (x.exp() * x).tanh() + 1.0
    graph = lookup.Graph(segment.local.segment.state, x._value.device)
    pieces = programs.cut(graph, (len(graph.value_sigs) - 1,))
    made, making = Future(), programs.Making()
    assert making.counts == (0, 0)
    found: list = []
    making.begin(pieces, found)
    different = len({piece.key for piece in pieces})
    assert making.counts == (0, different)
    found += [made, made]
    assert making.counts == (0, different)
    made.set_result(None)
    assert making.counts == (1, different)
