"""Backward passes that are repeated instead of walked: the same gradients, and walked again whenever anything differs."""

import numpy as np
import pytest

import bireme
from bireme.core.tensor import backward_pass

N = 10  # operators in a chain: enough for a pass to be remembered


def leaf(*values):
    return bireme.to_tensor(list(values), stop_gradient=False)


def walked(monkeypatch):
    monkeypatch.setattr(
        backward_pass.BackwardPass, "run_remembered", lambda self, retain: self.run(retain, None, {}, set())
    )


def chain(x, w, k=0.5):
    for _ in range(N):
        x = bireme.tanh(x * w) * k
    return x.sum()


def test_a_loop_repeats_its_pass(repeated):
    w, found = leaf(0.5, 0.7), []
    for i in range(5):
        x = bireme.to_tensor([1.0 + i, 2.0])
        w.clear_grad()
        chain(x, w, 0.5 + i).backward()
        found.append(w.grad.numpy())
    assert repeated() >= 3
    for i, g in enumerate(found):  # numbers that changed from pass to pass are the pass's own
        v = leaf(0.5, 0.7)
        chain(bireme.to_tensor([1.0 + i, 2.0]).exp().log(), v, 0.5 + i).backward()  # another graph: walked
        np.testing.assert_allclose(g, v.grad.numpy(), rtol=1e-4)


def test_grad_repeats_the_pass_where_all_leaves_are_asked_for(repeated):
    w, v, x = leaf(0.5, 0.7), leaf(0.25, 0.5), bireme.to_tensor([1.0, 2.0])
    walked = [g.numpy() for g in bireme.grad(chain(x.exp().log(), w) * v.sum(), [w, v])]
    assert repeated() == 0
    for _ in range(4):
        found = bireme.grad(chain(x, w) * v.sum(), [w, v])
        for g, wanted in zip(found, walked, strict=True):
            np.testing.assert_allclose(g.numpy(), wanted, rtol=1e-4)
    assert repeated() >= 2 and w.grad is None
    for _ in range(4):  # what is not asked for is left out
        (g,) = bireme.grad(chain(x, w) * v.sum(), [w])
    np.testing.assert_allclose(g.numpy(), walked[0], rtol=1e-4)
    assert repeated() == 0


def test_the_leaf_that_wants_a_gradient_may_change(repeated):
    """The steps of the forward pass are the same each time; what is differentiated is not."""
    a, b = leaf(0.5), leaf(0.25)
    for which in (a, b, a, b):
        for t in (a, b):
            t.stop_gradient, t.grad = t is not which, None
        x = bireme.to_tensor([2.0])
        y, z = x * a, x * b
        for _ in range(N):
            y, z = y * 1.5, z * 1.5
        (y + z).sum().backward()
        assert [t.grad is not None for t in (a, b)] == [which is a, which is b]
        assert which.grad.item() == pytest.approx(2 * 1.5**N)


def test_the_part_under_no_grad_may_change():
    c, d = bireme.to_tensor([3.0]), bireme.to_tensor([5.0])
    for first in (True, False, True, False):
        x = leaf(1.0)
        with bireme.set_grad_enabled(first):
            y = x * c
        with bireme.set_grad_enabled(not first):
            z = x * d
        out = y + z
        for _ in range(N):
            out = out * 1.0
        out.backward()
        assert x.grad.item() == (3.0 if first else 5.0)


def test_one_weight_in_two_places_and_two_weights_alike(repeated):
    a, b = leaf(0.5), leaf(0.5)
    for u, v in ((a, a), (a, b), (a, a), (a, b)):
        a.grad = b.grad = None
        chain(bireme.to_tensor([1.0]), u).backward()
        one = a.grad.item()
        a.grad = None
        (chain(bireme.to_tensor([1.0]), u) + chain(bireme.to_tensor([1.0]), v)).backward()
        assert a.grad.item() == pytest.approx(2 * one if v is a else one)
        assert b.grad is None or b.grad.item() == pytest.approx(one)


def test_two_tensors_on_one_value():
    w = leaf(0.5)
    for _ in range(3):
        other = w.detach()
        other.stop_gradient = False
        w.grad = None
        (chain(bireme.to_tensor([1.0]), w) + 2 * chain(bireme.to_tensor([1.0]), other)).backward()
        assert other.grad.item() == pytest.approx(2 * w.grad.item())


def test_a_hook_is_called_when_it_comes(repeated):
    w, calls = leaf(0.5), []
    for i in range(6):
        w.grad = None
        y = w * 2.0
        if i == 4:
            y.register_hook(lambda g: (calls.append(4), g * 10)[1])
        chain(y, bireme.to_tensor([0.9])).backward()
        if i == 3:
            plain = w.grad.item()
        if i == 4:
            assert w.grad.item() == pytest.approx(10 * plain)
    assert calls == [4]
    assert w.grad.item() == pytest.approx(plain)
    assert repeated() >= 1


def test_an_in_place_change_is_still_refused():
    w = leaf(0.5)
    for i in range(4):
        x = bireme.to_tensor([1.0]) * 1.0
        y = x * w
        if i == 3:
            x.add_(bireme.to_tensor([1.0]))
        for _ in range(N):
            y = y * 1.5
        if i < 3:
            y.backward()
        else:
            with pytest.raises(RuntimeError, match="inplace operator has modified"):
                y.backward()


def test_retain_graph_and_a_second_pass(repeated):
    for _ in range(4):
        w = leaf(0.5)
        y = chain(bireme.to_tensor([1.0]), w)
        y.backward(retain_graph=True)
        first = w.grad.item()
        y.backward()
        assert w.grad.item() == pytest.approx(2 * first)
        with pytest.raises(RuntimeError, match="has been freed"):
            y.backward()
    assert repeated() >= 2


def test_seeds_and_several_roots():
    for i in range(4):
        w = leaf(0.5, 0.6)
        y = w
        for _ in range(N):
            y = y * 1.5
        z = y * y
        bireme.autograd.backward([y, z], [bireme.to_tensor([1.0 + i, 2.0]), None])
        np.testing.assert_allclose(w.grad.numpy(), 1.5**N * (np.array([1.0 + i, 2.0]) + 2 * y.numpy()), rtol=1e-5)


def test_a_layer_trained_as_if_walked(monkeypatch, repeated):
    def losses():
        bireme.seed(0)
        net = bireme.nn.Sequential(
            *[
                m
                for _ in range(4)
                for m in (bireme.nn.Linear(6, 6), bireme.nn.GELU(), bireme.nn.LayerNorm(6), bireme.nn.Dropout(0.2))
            ]
        )
        opt = bireme.optimizer.AdamW(1e-2, parameters=net.parameters())
        found = []
        for _ in range(6):
            x = bireme.rand([5, 6])
            loss = ((net(x) - x) ** 2).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
            found.append(loss.item())
        return found

    ours = losses()
    assert repeated() >= 3
    walked(monkeypatch)
    assert losses() == pytest.approx(ours, rel=1e-4)  # interpreted or compiled by turns, hence not bit for bit
    assert repeated() == 0


def test_a_pass_that_reaches_the_bound_of_pending_bytes(repeated):
    before = bireme.get_flags("FLAGS_max_pending_bytes")
    bireme.set_flags({"FLAGS_max_pending_bytes": 1 << 16})
    try:
        for _ in range(5):
            w = bireme.full([4096], 0.5)
            w.stop_gradient = False
            chain(bireme.ones([4096]), w).backward()
            first = w.grad[0].item()
        assert repeated() >= 3
    finally:
        bireme.set_flags(before)
    v = leaf(0.5)
    chain(bireme.to_tensor([1.0]), v).backward()
    assert v.grad.item() == pytest.approx(first)


def test_gradients_given_by_the_user_are_read_each_time():
    """A pass that is repeated takes the seeds of this call, whatever they are and in whichever order they are met."""
    rng = np.random.default_rng(0)
    w = bireme.to_tensor(rng.standard_normal((3, 3)).astype("float32"), stop_gradient=False)
    xs = [bireme.to_tensor(rng.standard_normal((2, 3)).astype("float32")) for _ in range(6)]

    def once(seeds, double):
        w.clear_gradient(False)
        ys = [bireme.tanh(bireme.matmul(x, w)) * 2.0 for x in xs]
        bireme.autograd.backward(ys, [s * 1.0 if double else s for s in seeds])
        return w.grad.numpy()

    def expected(seeds):
        w0 = w.numpy()
        return sum(
            x.numpy().T @ (s.numpy() * 2 * (1 - np.tanh(x.numpy() @ w0) ** 2)) for x, s in zip(xs, seeds, strict=True)
        )

    bireme.debug.reset_stats()
    for i in range(8):
        seeds = [bireme.to_tensor(rng.standard_normal((2, 3)).astype("float32")) for _ in xs]
        if i % 3 == 2:
            seeds[1] = seeds[4]  # one tensor for two results
        np.testing.assert_allclose(once(seeds, double=i % 4 == 3), expected(seeds), rtol=1e-4, atol=1e-5)
    assert bireme.debug.stats()["repeated_backwards"] > 2


def test_edges_that_are_gone_have_no_place(repeated):
    """The same calls, of which one was recorded with an edge that nobody holds, and then without one."""
    for tracked in (True, True, False, False, True):
        w, v = leaf(0.5, 0.7), leaf(2.0, 3.0)
        loss = chain(bireme.to_tensor([1.0, 2.0]), w)
        with bireme.set_grad_enabled(tracked):
            unheld = w * 3.0
        del unheld
        others = [w * v, v * 2.0, v * 4.0]  # edges behind it that the pass does not come to
        loss.backward()
        assert v.grad is None and len(others) == 3
        u = leaf(0.5, 0.7)
        chain(bireme.to_tensor([1.0, 2.0]).exp().log(), u).backward()  # another graph: walked
        np.testing.assert_allclose(w.grad.numpy(), u.grad.numpy(), rtol=1e-5)
    assert repeated() >= 3


def _episode(weights, steps, k):
    """Each step's number is read before the next step; the loss is made of all of them."""
    parts = []
    for i, w in zip(range(steps), weights * steps, strict=False):
        y = bireme.tanh(bireme.to_tensor([1.0 + i + k, 2.0]) * w * (0.5 + k)).sum()
        y.item()
        parts.append(y * y)
    return bireme.stack(parts).sum()


def test_a_pass_over_segments_that_have_run(monkeypatch, repeated):
    def gradients():
        found = []
        for k in range(6):
            a, b = leaf(0.5, 0.7), leaf(0.25, 0.5)
            # one weight in all steps, two in turn; longer and shorter
            loss = _episode([a] if k % 2 else [a, b], 7 if k < 4 else 4, k / 10)
            if k == 2:
                loss.item()  # nothing is pending any more
            loss.backward()
            found += [t.grad.numpy() for t in (a, b) if t.grad is not None]
        return found

    once = gradients()
    repeated()
    again = gradients()
    assert repeated() == 6
    walked(monkeypatch)
    wanted = gradients()
    assert len(once) == len(again) == len(wanted) == 9
    for first, second, right in zip(once, again, wanted, strict=True):
        np.testing.assert_array_equal(first, right)
        np.testing.assert_array_equal(second, right)


def test_what_was_saved_twice_is_told_from_two_values_alike(repeated):
    """The operators and shapes are the same; which values are one is not."""
    w, v = leaf(0.5), leaf(0.25)
    for x, y in ((w, w), (w, v), (w, w), (w, v)):
        w.grad = v.grad = None
        p, q = bireme.exp(x), bireme.exp(y)
        out = p * q
        for _ in range(N):
            out = out * 1.0
        out.item()
        out.backward()
        assert w.grad.item() == pytest.approx(np.exp(0.5) * (2 * np.exp(0.5) if y is w else np.exp(0.25)))
        assert v.grad is None or v.grad.item() == pytest.approx(np.exp(0.75))
    assert repeated() == 2


def test_a_pass_at_new_sizes_follows_one_at_others(repeated, monkeypatch):
    """Also where a size makes another operand one that gradients just pass: there it is walked."""
    w = leaf(1.0, 2.0, 3.0)

    def gradient(n):
        x = bireme.to_tensor(np.linspace(-1, 1, 3 * n, dtype="float32").reshape(n, 3), stop_gradient=False)
        y = x
        for _ in range(N):
            y = bireme.tanh(y + w) * 0.5 + x
        y.reshape([-1]).sum().backward()
        found = [x.grad.numpy(), w.grad.numpy()]
        w.clear_grad()
        return found

    sizes = (2, 3, 4, 1, 7, 1, 4)
    found = [gradient(n) for n in sizes]
    assert repeated() >= 3  # 3, 4 and 7 as 2, and those that came back
    walked(monkeypatch)
    for n, parts in zip(sizes, found, strict=True):
        for a, b in zip(parts, gradient(n), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def experts(w, x, choice, read=lambda mask: mask):
    """Rows go to one of three weights, as their choice says: another number of them each time."""
    scores = bireme.tanh(x * w[0])
    for _ in range(N):
        scores = scores * 1.0
    out = bireme.zeros_like(x)
    for e in range(3):
        rows = bireme.nonzero(read(choice == e)).flatten()
        if rows.shape[0]:
            part = bireme.tanh(bireme.index_select(scores, rows) * w[e]).unsqueeze(1).flatten()
            out = bireme.scatter(out, rows, part, overwrite=False)
    return (out * out).sum()


def test_a_pass_behind_sizes_that_came_from_data_is_repeated_at_other_sizes(repeated, monkeypatch):
    """What came before them is walked, after a cut."""
    w, rng = leaf(0.5, -0.25, 2.0), np.random.default_rng(0)
    steps = [
        [rng.standard_normal(12).astype("float32"), np.repeat([0, 1, 2], n)]
        for n in ([4, 4, 4], [6, 2, 4], [1, 5, 6], [3, 3, 6], [12, 0, 0], [2, 6, 4])
    ]

    def gradients():
        found = []
        for x, choice in steps:
            x = leaf(*x.tolist())
            experts(w, x, bireme.to_tensor(choice)).backward()
            found += [w.grad.numpy(), x.grad.numpy()]
            w.clear_grad()
        return found

    found = gradients()
    assert repeated() >= 4  # all but the first, and that in which two experts get nothing
    walked(monkeypatch)
    for a, b in zip(found, gradients(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_reading_a_mask_runs_nothing_else_of_a_step():
    """The second and third mask follow from the choice alone."""
    x, w = leaf(*np.linspace(-1, 1, 12).tolist()), leaf(0.5, -0.25, 2.0)
    choice, seen = bireme.to_tensor(np.repeat([0, 1, 2], 4)), []

    def read(mask):
        seen.append(bireme.debug.stats()["flushes"])
        return mask

    experts(w, x, choice, read).backward()
    assert seen[1] == seen[2] == seen[0] + 1  # the first one cuts what has the same sizes in every step
    assert np.isfinite(x.grad.numpy()).all()


def test_a_change_in_place_of_what_nobody_reads_again_is_no_reason_to_walk(repeated):
    """A counter, a bank of states, a list of results that is written step by step."""
    w, bank = leaf(0.5, 0.7), bireme.zeros([3, 2])
    count = bireme.zeros([], "int64")

    def states(x):
        out = bireme.zeros([N, 2])
        for k in range(N):
            x = bireme.tanh(x * w)
            out[k] = x
            with bireme.no_grad():
                count.add_(bireme.ones([], "int64"))
                bank[k % 3] = x.detach()
        return out.sum()

    for i in range(5):
        w.clear_grad()
        states(bireme.to_tensor([1.0 + i, 2.0])).backward()
        w.grad.numpy()
    assert repeated() >= 3
    assert count.item() == 5 * N
    v = leaf(0.5, 0.7)
    x, out = bireme.to_tensor([5.0, 2.0]), []
    for _ in range(N):
        x = bireme.tanh(x * v)
        out.append(x)
    sum(out[1:], out[0]).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), rtol=1e-5)


def test_a_change_of_what_is_read_again_is_told_in_each_pass():
    w = leaf(0.5, 0.7)
    for _ in range(4):
        x = bireme.to_tensor([1.0, 2.0]) * w
        y = x * w
        for _ in range(N):
            y = bireme.tanh(y)
        x.add_(bireme.ones([2]))
        with pytest.raises(RuntimeError, match="that an inplace operator has modified since"):
            y.sum().backward()
