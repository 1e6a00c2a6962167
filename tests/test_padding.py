"""Graphs whose sizes keep changing, padded to a few: the rules by themselves, and steps at lengths that come once."""

import concurrent.futures
import threading

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base import device
from bireme.core.graph import varying
from bireme.core.record import flush
from bireme.core.run import graphs, padding
from bireme.core.xla_exec import padded_sizes

F = nn.functional


def kinds():
    """The sizes that graphs were padded to, and why others were not."""
    sizes = [size for family in padding.families() for size, made in family.padded.items() if made is not None]
    return sorted(sizes), [family.reason for family in padding.families() if family.reason]


class Reader(nn.Layer):
    """A network that does with a sequence what networks do: looks up, attends, cuts, joins, sums."""

    def __init__(self, drop=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(100, 16)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 50), nn.LayerNorm(16)
        self.drop = nn.Dropout(drop)

    def forward(self, ids):
        b, t = ids.shape
        x = self.words(ids) + self.places.weight[:t]
        q, k, v = self.qkv(self.norm(x)).reshape([b, t, 3, 2, 8]).unbind(2)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape([b, t, 16])
        x = bireme.concat([x[:, :1], x[:, 1:] - x[:, :-1]], axis=1)
        x = self.drop(x + x.mean(axis=1, keepdim=True) + F.softmax(x.sum(-1), axis=-1).unsqueeze(-1))
        return self.out(x)


def reader(drop=0.0):
    bireme.seed(0)
    return Reader(drop)


def train(lengths, drop=0.0, hold=None, net=None):
    net, rng = net or reader(drop), np.random.default_rng(0)
    opt = bireme.optimizer.AdamW(0.01, parameters=net.parameters())
    losses = []
    for t in lengths:
        ids = bireme.to_tensor(rng.integers(0, 50, (3, t)))
        out = net(ids)
        loss = F.cross_entropy(out.reshape([-1, 50]), ids.reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.item())
        if hold is not None:
            hold.append(out.detach())
    return losses


LENGTHS = [20, 31, 27, 45, 18, 60, 33, 24]


def test_steps_of_changing_lengths_are_padded_to_a_few(padding_applies):
    got = train(LENGTHS)
    sizes, reasons = kinds()
    assert sizes == [(32,), (64,)] and not reasons
    with bireme.debug.use_executor("interpreter"):
        np.testing.assert_allclose(got, train(LENGTHS), rtol=2e-5)
    flush.flush()
    graphs.clear()
    assert train(LENGTHS) == got, "the same bits again"


def test_a_table_of_which_the_padded_size_takes_all(padding_applies):
    """It begins nowhere there, and at smaller sizes wherever it is asked to."""

    def gradient(start, t):
        table = bireme.to_tensor(np.random.default_rng(0).random((32, 8), np.float32), stop_gradient=False)
        x = bireme.to_tensor(np.random.default_rng(t).random((t, 8), np.float32))
        for _ in range(4):
            x = F.tanh(x + table[start : start + t])
        x.sum().backward()
        return table.grad.numpy()

    asked = [(0, 20), (3, 21), (0, 32), (5, 25), (11, 17), (0, 30), (2, 29)]
    got = [gradient(*each) for each in asked]
    assert kinds() == ([(32,)], [])
    with bireme.debug.use_executor("interpreter"):
        for each, a in zip(asked, got, strict=True):
            np.testing.assert_allclose(a, gradient(*each), rtol=1e-5, atol=1e-6, err_msg=str(each))


def test_no_program_is_compiled_for_a_length_between(padding_applies):
    train(LENGTHS)
    before = bireme.debug.stats()["compiles"]
    train([21, 22, 40, 50])
    assert bireme.debug.stats()["compiles"] == before


def test_what_is_held_of_a_padded_step_is_exact(padding_applies):
    held, expected = [], []
    train(LENGTHS, hold=held)
    with bireme.debug.use_executor("interpreter"):
        train(LENGTHS, hold=expected)
    for a, b, t in zip(held, expected, LENGTHS, strict=True):
        assert a.shape == [3, t, 50]
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose((a * 2.0)[:, -1].numpy(), b.numpy()[:, -1] * 2, rtol=1e-3, atol=1e-4)


def test_random_numbers_are_those_of_the_true_size(padding_applies):
    got = train(LENGTHS[:5], drop=0.3)
    assert kinds() == ([(32,), (64,)], [])
    with bireme.debug.use_executor("interpreter"):
        np.testing.assert_allclose(got, train(LENGTHS[:5], drop=0.3), rtol=2e-5)


def test_what_cannot_be_shown_is_refused(padding_applies):
    def sorted_rows(t):
        x = bireme.to_tensor(np.random.default_rng(t).random((3, t), np.float32))
        for _ in range(4):
            x = F.tanh(x.sort(axis=1) * 1.5 + x.mean())
        return x.numpy()

    got = [sorted_rows(t) for t in LENGTHS[:4]]
    assert kinds() == ([], ["a sort along what is padded"])
    with bireme.debug.use_executor("interpreter"):
        for a, t in zip(got, LENGTHS[:4], strict=True):
            np.testing.assert_allclose(a, sorted_rows(t), rtol=1e-5)


@pytest.mark.parametrize("roomy", [(), padding.ROOMY_SIZES])
def test_a_cache_that_grows_stays_padded(padding_applies, monkeypatch, roomy):
    monkeypatch.setattr(padding, "ROOMY_SIZES", roomy)
    resized, resize = [], padding._resize
    monkeypatch.setattr(padding, "_resize", lambda shapes: resized.append(shapes) or resize(shapes))
    layers = [nn.Linear(8, 24) for _ in range(3)]
    out = nn.Linear(8, 8)

    def generate(tokens):
        x, kept, made = bireme.ones([2, 1, 8]) * 0.3, [None] * 3, []
        with bireme.no_grad():
            for _ in range(tokens):
                for i, layer in enumerate(layers):
                    q, k, v = layer(x).reshape([2, 1, 3, 1, 8]).unbind(2)
                    if kept[i] is not None:
                        k, v = bireme.concat([kept[i][0], k], 1), bireme.concat([kept[i][1], v], 1)
                    kept[i] = k, v
                    x = x + F.scaled_dot_product_attention(q, k, v).reshape([2, 1, 8])
                x = F.tanh(out(x))
                made.append(x.numpy())
        return made, kept

    made, kept = generate(40)
    # one less than they hold: what is added fits, so that the next token takes the caches as they lie
    assert kinds() == ([(127,)] if roomy else [(15,), (31,), (63,)], [])
    assert resized == ([] if roomy else [((2, n, 1, 8),) * 6 for n in (32, 64)])
    with bireme.debug.use_executor("interpreter"):
        expected, caches = generate(40)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-6)
    assert kept[0][0].shape == [2, 40, 1, 8]
    np.testing.assert_allclose(kept[2][1].numpy(), caches[2][1].numpy(), rtol=1e-4, atol=1e-6)


def test_a_wrong_index_in_a_padded_run_is_told_and_the_rest_goes_on(padding_applies):
    table, w = bireme.rand([30, 8]), bireme.rand([8, 8])
    flush.flush()

    def looked_up(t, most):
        x = bireme.arange(t, dtype="float32") * (most / (t - 1))
        y = F.embedding(x.astype("int64"), table)
        for _ in range(4):
            y = F.tanh(bireme.matmul(y, w) + y)
        return y.sum(), x.sum()

    for t in (20, 31, 27):
        y, _ = looked_up(t, 29)
        assert np.isfinite(y.item())
    assert kinds() == ([(32,)], [])
    wrong, right = looked_up(25, 40)
    with pytest.raises(IndexError):
        wrong.numpy()
    np.testing.assert_allclose(right.item(), 25 * 20, rtol=1e-5)
    assert np.isfinite(looked_up(26, 29)[0].item())


def test_threads_learn_together(padding_applies):
    nets = [reader() for _ in range(4)]
    flush.flush()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda net: train(LENGTHS[:5], net=net), nets))
    assert kinds() == ([(32,), (64,)], [])
    np.testing.assert_allclose(found, [found[0]] * 4, rtol=1e-5)


@pytest.mark.parametrize("first", [[(20, 9), (31, 9), (27, 9)], [(20, 20), (31, 31), (27, 27)]])
def test_a_second_size_that_changes_later(padding_applies, first):
    """As the length of targets that is that of texts, or one alone, in the first batches."""

    def score(n, m):
        x, y = [np.random.default_rng(k).random((k, 4), np.float32) for k in (n, m)]
        x, y = bireme.to_tensor(x), bireme.to_tensor(y)
        for _ in range(6):
            x, y = F.tanh(x), y * 0.5 + 1.0
        return bireme.matmul(x, y, transpose_y=True).mean().item()

    sizes = [*first, *[tuple(map(int, pair)) for pair in np.random.default_rng(0).integers(12, 60, (12, 2))]]
    got = [score(*pair) for pair in sizes]
    assert {(32, 64), (64, 32), (64, 64)} <= set(kinds()[0])
    before = bireme.debug.stats()["compiles"]
    got += [score(*pair) for pair in ((19, 57), (58, 24), (40, 41))]
    assert bireme.debug.stats()["compiles"] == before
    with bireme.debug.use_executor("interpreter"):
        expected = [score(*pair) for pair in [*sizes, (19, 57), (58, 24), (40, 41)]]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_what_another_thread_will_read_is_not_given_away(padding_applies):
    def made(n):
        return longer(bireme.ones([n, 4]))

    def longer(x):
        for _ in range(7):
            x = x * 1.0 + 0.5
        return x

    def other(x):
        y = x.pop() * 2.0 + 3.0  # recorded, and run when this thread has used up what it reads
        recorded.set()
        used.wait()
        results.append(y.numpy())

    for n in (20, 31, 27, 18, 29):
        x = made(n)
        flush.flush()
        y = longer(x)
        del x
        y.numpy()
    x = made(25)
    flush.flush()
    assert x._value.array.__class__ is padding.PaddedArray
    recorded, used, results = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=other, args=([x],))
    thread.start()
    recorded.wait()
    y = longer(x)
    del x
    y.numpy()
    used.set()
    thread.join()
    np.testing.assert_allclose(results, np.full((1, 25, 4), 12.0))


def test_a_length_that_comes_often_gets_a_program_of_its_own(padding_applies, monkeypatch):
    monkeypatch.setattr(padding, "OWN_PROGRAM", 3)
    train([20, 31, *[27] * 6])
    plans = [e for e in graphs.known.values() if e.padded]
    assert [(e.padded.runs, e.met) for e in plans] == [(3, 3)]


def test_the_flag_and_the_host_do_without(monkeypatch):
    graph = type("Graph", (), {"nodes": [None] * 100, "device": device.current()})
    assert not padding.applies(graph)
    monkeypatch.setattr(graph, "device", type("Device", (), {"is_cpu": False, "several": False}))
    assert padding.applies(graph)
    bireme.set_flags({"FLAGS_pad_sizes": False})
    try:
        assert not padding.applies(graph)
    finally:
        bireme.set_flags({"FLAGS_pad_sizes": True})


# ---------------------------------------------------------------- what follows from sizes


def test_sizes():
    assert [padding._step(n) for n in (1, 16, 17, 100, 129, 193, 300, 400)] == [16, 16, 32, 128, 192, 256, 384, 512]
    assert padding._sizes((41,), {48, 16, 99}) == [(64,), (48,)]


def test_sizes_are_larger_where_the_device_waits_for_the_host_anyway():
    none, linear = np.zeros((3, 2)), np.array([[0.0, 0.0], [10.0, 1e6], [100.0, 0.0]])  # microseconds, bytes by size
    assert padding._roomy((20,), none, 100) == [(128,), (64,)]
    assert padding._roomy((100,), none, 100) == []  # the next of the few sizes is 128
    assert padding._roomy((130,), none, 100) == [(512,), (256,)]
    assert padding._roomy((130,), linear, 100) == []  # 5.2 ms of the device, 2.5 of the host
    assert padding._roomy((130,), linear, 200) == [(256,)]
    assert padding._roomy((130,), linear * [[1], [0.01], [1]], 200) == [(512,), (256,)]
    assert padding._roomy((600,), linear * [[1, 1], [0.01, 1.2], [1, 1]], 200) == [(1024,)]  # 2.4 GB are too many
    assert padding._roomy((20, 30), None, 100) == []
    assert padding._roomy((4000,), none, 100) == []


def test_integers_follow_from_the_smallest_size():
    def found(t, u):
        return varying.Integers((7, 8 * t, t, t + 1, u), ("same",))

    learned = varying.Varying([found(5, 9), found(11, 30), found(6, 12)])
    assert learned.values(found(100, 41)) == (100, 41)
    assert learned.values(varying.Integers((7, 8, 2, 3, 4), ("same",))) is None
    assert tuple(learned.at((3, 4))) == found(3, 4).numbers
    with pytest.raises(ValueError, match="more than integers"):
        varying.Varying([found(5, 9), varying.Integers((7, 8, 1, 2, 3), ("another",))])


@pytest.mark.parametrize("numbers", [(64, 100), (64, 2)])
def test_what_is_no_multiple_is_refused(numbers):
    fit = padded_sizes.Fit((64,), (40,))
    assert fit.extent(8 * 64, 8 * 40) == varying.Extent(0, 8, 0)
    with pytest.raises(padded_sizes.Refused):
        fit.extent(64 * 64, 40 * 40)
    with pytest.raises(padded_sizes.Refused):
        padded_sizes.Fit((64,), (64,))
