"""Structured sparsity: masks, pruned models, and optimizers that keep them."""

import itertools

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.incubate import asp

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def nothing_left_out():
    yield
    asp.reset_excluded_layers()


def test_rows_keep_the_largest():
    w = RNG.standard_normal((6, 10))
    mask = asp.get_mask_1d(w, 2, 4)
    for row, kept in zip(w, mask, strict=True):
        for i in range(0, 8, 4):
            largest = sorted(range(4), key=lambda j, i=i, row=row: abs(row[i + j]))[2:]
            assert sorted(np.flatnonzero(kept[i : i + 4])) == sorted(largest)
        assert kept[8:].sum() == 2  # two are left of four, the others are padding
    # told by paddlepaddle 3.2.2
    assert asp.create_mask(np.ones((1, 8))).tolist() == [[0, 0, 1, 1, 0, 0, 1, 1]]
    assert asp.get_mask_1d(np.array([[-5, 4, 3, -2.0]]), 2, 4).tolist() == [[1, 1, 0, 0]]


def test_the_best_pattern_of_a_block_is_the_best_of_all():
    w = RNG.standard_normal((8, 8))
    best, greedy = asp.get_mask_2d_best(w, 2, 4), asp.get_mask_2d_greedy(w, 2, 4)
    assert asp.check_mask_2d(best, 2, 4) and asp.check_mask_2d(greedy, 2, 4) and best.mean() == 0.5
    rows = [c for c in itertools.product((0, 1), repeat=4) if sum(c) == 2]
    for i, j in itertools.product((0, 4), repeat=2):
        block = np.abs(w[i : i + 4, j : j + 4])
        sums = [(block * p).sum() for p in map(np.array, itertools.product(rows, repeat=4)) if (p.sum(0) == 2).all()]
        assert len(sums) == 90
        assert (block * best[i : i + 4, j : j + 4]).sum() == pytest.approx(max(sums))
        assert (block * greedy[i : i + 4, j : j + 4]).sum() <= max(sums) + 1e-9


def test_a_greedy_mask_takes_the_largest_first():
    w = RNG.standard_normal((4, 8))
    mask = asp.get_mask_2d_greedy(w, 2, 4)
    for j in (0, 4):
        block, rows, columns = np.abs(w[:, j : j + 4]), [0] * 4, [0] * 4
        wanted = np.zeros((4, 4))
        for place in np.argsort(-block.ravel()):
            a, b = divmod(int(place), 4)
            if rows[a] < 2 and columns[b] < 2:
                wanted[a, b], rows[a], columns[b] = 1, rows[a] + 1, columns[b] + 1
        np.testing.assert_array_equal(mask[:, j : j + 4], wanted)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.small = nn.Linear(8, 6), nn.Conv2D(8, 4, 3), nn.Linear(3, 8)
        self.norm = nn.BatchNorm1D(8)


@pytest.mark.parametrize("algorithm", ["mask_1d", "mask_2d_greedy", "mask_2d_best"])
def test_models_are_pruned_along_their_inputs(algorithm):
    net = Net()
    masks = asp.prune_model(net, mask_algo=algorithm)
    assert set(masks) == {net.a.weight.name, net.b.weight.name, net.small.weight.name}
    check = asp.CheckMethod.CHECK_1D if algorithm == "mask_1d" else asp.CheckMethod.CHECK_2D
    assert asp.check_sparsity(net.a.weight.numpy().T, check) and asp.check_sparsity(net.b.weight.numpy(), check)
    assert asp.calculate_density(net.a.weight) <= 0.67 and asp.calculate_density(net.b.weight) <= 0.5
    assert asp.calculate_density(net.small.weight) == 1.0  # fewer inputs than four
    assert asp.calculate_density(net.norm.weight) == 1.0


@pytest.mark.parametrize("first", [True, False], ids=["decorated first", "pruned first"])
@pytest.mark.parametrize("kind", ["SGD", "AdamW", "Momentum"])
def test_training_keeps_the_zeros(first, kind):
    bireme.seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    masks = {} if first else asp.prune_model(net)
    opt = asp.decorate(getattr(bireme.optimizer, kind)(0.05, parameters=net.parameters()))
    masks = masks or asp.prune_model(net)
    x = bireme.randn([16, 8])
    losses = []
    for n in range(6):
        loss = ((net(x) - x.sum(-1, keepdim=True)) ** 2).mean()
        losses.append(loss.item())
        if n % 2:
            loss.backward()
            opt.step()
        else:
            loss.backward()
            opt.minimize(loss)
        opt.clear_grad()
        for layer in (net[0], net[2]):
            mask = masks[layer.weight.name].numpy()
            assert (layer.weight.numpy()[mask == 0] == 0).all() and (layer.weight.numpy()[mask == 1] != 0).all()
    assert losses[-1] < losses[0]
    assert opt.get_lr() == 0.05  # all else is the optimizer's own


def test_what_is_left_out_and_what_is_added():
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
    asp.set_excluded_layers([net[0].full_name(), net[1].weight.name])
    assert list(asp.prune_model(net)) == [net[2].weight.name]
    asp.reset_excluded_layers()
    assert len(asp.prune_model(net)) == 3
    seen = []

    class Own(nn.Layer):
        def __init__(self):
            super().__init__()
            self.w = self.create_parameter([4, 4])

    def pruned(weight, m, n, algorithm, name):
        seen.append((weight.shape, m, n, algorithm, name))
        mask = np.ones_like(weight)
        mask[0] = 0
        return weight * mask, mask

    asp.add_supported_layer(Own, pruned)
    own = Own()
    asp.prune_model(own)
    assert seen == [((4, 4), 4, 2, asp.MaskAlgo.MASK_1D, own.w.name)] and (own.w.numpy()[0] == 0).all()


def test_mistakes_are_told():
    with pytest.raises(ValueError, match=r"prune_model\(mask_algo\): expected one of 'mask_1d'"):
        asp.prune_model(nn.Linear(8, 8), mask_algo="x")
    with pytest.raises(ValueError, match=r"prune_model\(n\): expected a number from 1 to m = 4, got 5"):
        asp.prune_model(nn.Linear(8, 8), n=5)
    with pytest.raises(TypeError, match=r"prune_model\(model\): expected a layer, got 3"):
        asp.prune_model(3)
    with pytest.raises(TypeError, match=r"decorate\(optimizer\): expected an optimizer, got 3"):
        asp.decorate(3)
    with pytest.raises(ZeroDivisionError):
        asp.calculate_density(np.zeros(0))
