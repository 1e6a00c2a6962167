"""Nothing grows unseen: long loops, varying shapes and caches stay within bounds."""

import gc
import weakref

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base import host_memory
from bireme.core.graph import segment
from bireme.core.run import graphs, lookup

MB = 1 << 20


def rss():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


linux = pytest.mark.skipif(
    not hasattr(gc, "freeze") or not __import__("os").path.exists("/proc/self/statm"), reason="needs /proc"
)


def growth(run, warm_up, times):
    run(warm_up)
    gc.collect()
    before = rss()
    run(times)
    gc.collect()
    return rss() - before


@linux
def test_ten_thousand_sums_of_a_metric_stay_flat():
    def run(n):
        total = bireme.zeros([])
        for i in range(n):
            total = total + bireme.to_tensor(float(i % 7))
        assert total.item() >= 0

    assert growth(run, 4000, 10_000) < 20 * MB


@linux
def test_long_training_stays_flat():
    layer = nn.Linear(8, 8)
    rule = bireme.optimizer.Adam(0.01, parameters=layer.parameters())
    x = bireme.ones([4, 8])

    def run(n):
        total = 0.0
        for i in range(n):
            loss = (layer(x) ** 2).mean()
            loss.backward()
            rule.step()
            rule.clear_grad()
            total = total + loss
            if i % 100 == 99:
                total = float(total)

    assert growth(run, 300, 2000) < 20 * MB


@linux
def test_varying_shapes_stay_within_bounds():
    rng = np.random.default_rng(0)

    def run(n):
        for length in rng.integers(1, 300, n):
            x = bireme.ones([int(length), 4])
            (x * 2.0).sum().item()

    assert growth(run, 600, 1500) < 30 * MB


def test_pending_work_does_not_survive_a_step():
    layer = nn.Linear(8, 8)
    rule = bireme.optimizer.SGD(0.01, parameters=layer.parameters())
    for _ in range(3):
        (layer(bireme.ones([4, 8])) ** 2).mean().backward()
        rule.step()
        rule.clear_grad()
    assert segment.local.waiting is None
    assert segment.local.segment.state.depth == 0


def test_values_die_with_their_tensors():
    x = bireme.ones([64, 64]) * 2.0
    y = x + 1.0
    value = weakref.ref(x._value)
    y.numpy()
    del x
    gc.disable()
    try:
        assert value() is None  # at once: no cycle waits for the collector
    finally:
        gc.enable()
    assert y.numpy().max() == 3.0


def test_a_tape_dies_with_its_loss():
    layer = nn.Linear(16, 16)
    h = layer(bireme.ones([4, 16]))
    loss = (h**2).mean()
    saved = weakref.ref(h._value)
    edge = weakref.ref(loss._edge[0])
    bireme.debug.flush()
    gc.disable()
    try:
        del h, loss
        assert saved() is None
        assert edge() is None
    finally:
        gc.enable()


def test_backward_frees_the_graph():
    x = bireme.to_tensor(np.ones((4, 4), "float32"), stop_gradient=False)
    h = x * 2.0
    y = (h * h).sum()
    saved = weakref.ref(h._value)
    del h
    y.backward()
    bireme.debug.flush()
    assert saved() is None
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_segments_that_ran_are_forgotten():
    held = []
    for i in range(200):
        t = bireme.ones([4]) * float(i)
        t.numpy()
        (t + 1.0).numpy()
        held.append(t)
    assert len(segment.OPEN) < 50


def test_the_table_of_programs_is_bounded(monkeypatch):
    monkeypatch.setattr(graphs, "MAX_GRAPHS", 40)
    graphs.clear()
    for n in range(1, 121):
        (bireme.ones([n]) * 2.0 + 1.0).numpy()
    assert len(graphs.known) <= 40
    assert len(graphs._families) <= 40


def count_nodes():
    gc.collect()
    return sum(type(o) is segment.Node for o in gc.get_objects())


@pytest.mark.usefixtures("compiled_when_met_again")
def test_structures_that_never_come_back_are_forgotten_and_programs_are_not(monkeypatch):
    monkeypatch.setattr(segment, "MAX_TREE", 1000)
    monkeypatch.setattr(graphs, "MAX_CALLS", 2000)
    graphs.clear()
    w = bireme.to_tensor(np.full((96, 96), 0.01, "float32"), stop_gradient=False)

    def step():
        y = w
        for _ in range(8):
            y = bireme.tanh(y @ w)
        y.sum().backward()
        assert np.isfinite(w.grad.numpy()).all()
        w.clear_grad()

    def tree(choices):
        y = w
        for bit in choices:
            y = y + 1.0 if bit else y * 2.0
        y.sum().numpy()

    for _ in range(5):
        step()
    compiles = bireme.debug.stats()["compiles"]
    rng = np.random.default_rng(0)
    before = count_nodes()
    for i in range(300):
        tree(rng.integers(0, 2, 40).tolist())
        if i % 100 == 0:
            step()
    step()
    assert bireme.debug.stats()["compiles"] == compiles > 0
    assert graphs._calls[0] == sum(len(e.graph.nodes) for e in graphs.known.values()) <= 2000
    assert count_nodes() - before < 6000  # of 12,000 that were made
    assert any("of them are forgotten" in row["why"] for row in bireme.debug.explain())


@pytest.mark.parametrize(("limits", "kept"), [({"MAX_NEW": 20}, 21), ({"NEVER_BACK": 20, "FEW_NEW": 6}, 7)])
def test_shapes_that_never_come_back_take_no_more_memory(monkeypatch, limits, kept):
    for name, limit in limits.items():
        monkeypatch.setattr(graphs, name, limit)
    graphs.clear()
    segment._drop_tree()
    w = bireme.to_tensor(np.full((4, 4), 0.1, "float32"), stop_gradient=False)

    def step(n):
        y = bireme.ones([n, 4])
        for _ in range(6):
            y = bireme.tanh(y @ w) + y
        y.sum().backward()
        assert np.isfinite(w.grad.numpy()).all()
        w.clear_grad()

    def held():
        return count_nodes(), segment.nodes[0], known_from(segment._roots[0]), len(graphs.known)

    sizes = []
    for n in range(10, 130):
        step(n)
        step(5)  # this one does
        if n in (69, 129):
            sizes.append(held())
    for half, whole in zip(*sizes, strict=True):
        assert whole < 1.1 * half
    assert sizes[1][1] >= sizes[1][2]  # nothing in the tree is uncounted
    counts = [e.met + e.hits for e in graphs.known.values()]
    assert max(counts) == 120
    assert counts.count(1) <= kept


def test_the_tree_of_segments_is_bounded(monkeypatch):
    monkeypatch.setattr(segment, "MAX_TREE", 500)
    for n in range(1, 900):
        (bireme.ones([n]) * 2.0).numpy()
    assert segment.nodes[0] <= 510


def known_from(node):
    """All that the tree under a root and its outlines know: calls, steps and backward passes."""
    found, left = 0, [node, node.outline]
    seen = set()
    while left:
        node = left.pop()
        if id(node) not in seen:
            seen.add(id(node))
            found += len(node) + len(node.passes or ())
            left += [after for after in node.values() if type(after) is type(node)]
    return found


def test_what_nodes_know_of_calls_counts(monkeypatch):
    """Calls that are written in other ways and lead to the same nodes: the tree is bounded by these too."""
    monkeypatch.setattr(segment, "MAX_TREE", 100)
    segment._drop_tree()
    x = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    most = 0
    for i in range(200):
        for _ in range(3):
            bireme.debug.flush()
            y = bireme.mean(bireme.add(x, x, name=f"a{i % 40}"), name=f"m{i % 40}", axis=i % 2)
            bireme.sum(bireme.mean(y, 0, name=f"b{i}"), name=f"s{i}")
        most = max(most, known_from(segment._roots[0]))
    bireme.debug.flush()
    assert 50 < most < 120


def test_backward_passes_that_nodes_know_count():
    segment._drop_tree()
    w = bireme.to_tensor([0.5, 0.25], stop_gradient=False)
    for k in range(3):
        for _ in range(3):
            bireme.debug.flush()
            y = w
            for _ in range(10 + k):
                y = bireme.tanh(y * w)
            y.sum().backward()
            w.clear_grad()
    bireme.debug.flush()
    known, counted = known_from(segment._roots[0]), segment.nodes[0]
    assert known == counted


def test_memories_of_operators_are_bounded(monkeypatch):
    from bireme.core.base import registry
    from bireme.core.graph import bound

    monkeypatch.setattr(bound, "MAX_BOUND", 64)
    add = registry.find("reshape")
    for n in range(1, 300):
        bireme.reshape(bireme.ones([n]), [n, 1])
    bireme.debug.flush()
    assert len(add._bounds) <= 64


def test_pins_go_with_their_arrays():
    before = len(lookup._pinned)
    for _ in range(20):
        np.from_dlpack(bireme.ones([8]) * 2.0)
    gc.collect()
    assert len(lookup._pinned) <= before + 1


def test_a_step_without_memory_leaves_the_model_as_it_was():
    model = bireme.nn.Linear(2, 2)
    opt = bireme.optimizer.AdamW(0.1, parameters=model.parameters())

    def train(n):
        b = bireme.tile(model(bireme.ones([1, 2])), [n, 1])
        loss = bireme.matmul(b, b, transpose_y=True).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss.item()

    train(4)
    before = model.weight.tolist()
    with pytest.raises(MemoryError):
        train(2**20)
    assert model.weight.tolist() == before
    assert np.isfinite(train(4)) and model.weight.tolist() != before


@linux
def test_a_compile_leaves_no_blocks_to_search(monkeypatch):
    bireme.ones([2]).numpy()
    libc = host_memory._glibc()
    if libc is None or not host_memory._done:
        pytest.skip("another malloc, or one that is left alone")
    monkeypatch.setattr(host_memory, "_LONG", -1.0)
    blocks = [libc.malloc(2000 + 37 * (i % 900)) for i in range(4000)]

    def between():
        """Free bytes that are not at the top of malloc's memory."""
        found = libc.mallinfo2()
        return found.fordblks - found.keepcost

    for block in blocks[::2]:
        libc.free(block)
    before = between()
    for _ in range(2):  # the second finds what the first took
        with host_memory.compiling():
            pass
        assert before > 30 * MB and between() < before - 25 * MB
    for block in blocks[1::2]:
        libc.free(block)
    with host_memory.compiling():
        pass
    assert len(host_memory._taken) < 60_000
