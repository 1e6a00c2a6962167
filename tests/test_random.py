"""Random numbers: the generator by its published vectors, the tiers' agreement, bounds that are never reached,
repetitions.
"""

import jax
import numpy as np
import pytest

import bireme
import bireme.nn.functional as F
from bireme.core.graph import executor
from bireme.ops.random import dropout, generators, philox

TIERS = ("interpreter", "xla")
KEY = (np.uint32(0xA4093822), np.uint32(0x299F31D0))


@pytest.fixture(params=["least", "most"])
def extreme(request, monkeypatch):
    """Words of zeros or of ones, as seldom as they are drawn."""
    fill = 0 if request.param == "least" else -1
    both = {"words": "uint32", "longs": "uint64"}
    for name, kind in both.items():
        monkeypatch.setattr(philox, name, lambda key, n, kind=kind: np.full(n, fill, "int64").astype(kind))
    monkeypatch.setattr(philox, "pairs", lambda key, n: (philox.words(key, n), philox.words(key, n)))
    return request.param


# ---------------------------------------------------------------- the generator


# counter, key and result as Random123 publishes them (kat_vectors, philox2x32 10)
PUBLISHED = [
    ((0x00000000, 0x00000000), 0x00000000, (0xFF1DAE59, 0x6CD10DF2)),
    ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
    ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
]


@pytest.mark.parametrize(("counter", "key", "want"), PUBLISHED)
def test_published_vectors(counter, key, want):
    low, high, key = [np.array([n], np.uint32) for n in (*counter, key)]
    assert tuple(int(w[0]) for w in philox.scrambled(low, high, key)) == want
    with jax.enable_x64(True):
        assert tuple(int(w[0]) for w in jax.jit(philox.scrambled)(low, high, key)) == want


@pytest.mark.parametrize(
    "n", [0, 1, 2, 7, 255, 256, 257, 511, 512, 513, 1000, 2 * philox.BLOCK + 3, 2 * philox.MANY + 5]
)
def test_all_ways_give_the_same_words(n):
    place = np.arange(n, dtype=np.uint32)
    first, second = philox.scrambled(place, *[np.full(n, k) for k in reversed(KEY)])
    want = first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)
    with jax.enable_x64(True):
        compiled = {
            name: jax.jit(lambda *key, fn=fn: fn(key, n))(*KEY)
            for name, fn in (("longs", philox.longs), ("words", philox.words))
        }
    for found in (philox.longs(KEY, n), compiled["longs"]):
        np.testing.assert_array_equal(found, want)
    for found in (philox.words(KEY, n), compiled["words"]):
        np.testing.assert_array_equal(found, want.view(np.uint32)[:n])
    np.testing.assert_array_equal(np.stack(philox.pairs(KEY, n), 1).reshape(-1), want.view(np.uint32))


def test_tiers_draw_the_same():
    draws = {
        "rand": lambda: bireme.rand([301]),
        "uniform": lambda: bireme.uniform([301], "float64", -3.0, 5.0),
        "randint": lambda: bireme.randint(-(2**40), 2**41, [301]),
        "randperm": lambda: bireme.randperm(301),
        "bernoulli": lambda: bireme.bernoulli(bireme.full([301], 0.3)),
        "dropout": lambda: F.dropout(bireme.ones([301]), 0.3),
        "randn": lambda: bireme.randn([301]),
        "exponential": lambda: bireme.zeros([301]).exponential_(),
    }
    found = []
    for by in TIERS:
        bireme.seed(3)
        with executor.use(by):
            found.append({name: draw().numpy() for name, draw in draws.items()})
    for name, a in found[0].items():
        tol = 2e-6 if name in ("randn", "exponential") else 0
        np.testing.assert_allclose(found[1][name], a, rtol=tol, atol=tol, err_msg=name)


# ---------------------------------------------------------------- repetitions


@pytest.mark.parametrize("bits", [31, 32])
def test_integers_of_a_full_range_repeat_as_often_as_they_should(bits):
    """A generator that gives each word once in a tensor is no generator of independent words."""
    n, repeated = 1 << 18, 0
    for seed in range(4):
        bireme.seed(seed)
        drawn = bireme.randint(0, 2**bits, [n], "int64").numpy()
        repeated += n - len(np.unique(drawn))
    expected = 4 * n * (n - 1) / 2 / 2**bits  # 32 or 64
    assert abs(repeated - expected) < 5 * expected**0.5


def test_words_repeat_across_tensors_as_often_as_they_should():
    """Many small tensors, one after the other and from many seeds: as one long stream."""
    drawn = []
    for seed in range(64):
        bireme.seed(seed)
        drawn += [bireme.randint(0, 2**32, [256], "int64").numpy() for _ in range(16)]
    n = 64 * 16 * 256
    expected = n * (n - 1) / 2 / 2**32  # 8
    assert abs(n - len(np.unique(np.concatenate(drawn))) - expected) < 5 * expected**0.5


@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 2**31), (-(2**63), 2**63 - 1), (0, 3 * 2**61)])
def test_integers_are_even(low, high):
    """Sixteenths of the range are drawn equally often, also of one so long that a remainder of 64 bits would favour
    some.
    """
    bireme.seed(5)
    drawn = bireme.randint(low, high, [40_000]).numpy()
    counts = np.bincount(
        [(int(i) - low) * (cells := min(16, high - low)) // (high - low) for i in drawn], minlength=cells
    )
    assert drawn.min() >= low and drawn.max() < high
    # chi square with at most 15 degrees: once in 10,000
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 45


# ---------------------------------------------------------------- bounds


RANGES = [(0.0, 1.0), (100.0, 101.0), (-1.0, 1.0), (-2.5, -2.4), (1e-3, 2e-3), (0.1, 0.1001), (-3e4, 6e4)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_the_upper_bound_is_not_reached(extreme, dtype, low, high):
    with executor.use("interpreter"):
        made = [bireme.uniform([5], dtype, low, high), bireme.zeros([5], dtype).uniform_(low, high)]
        made += [bireme.rand([5], dtype), bireme.rand_like(bireme.zeros([5], dtype))] if (low, high) == (0, 1) else []
    for t in made:
        found = t.numpy().astype(np.float64)
        low_here, high_here = [np.asarray(b, t.dtype.np).astype(np.float64) for b in (low, high)]
        if low_here < high_here:
            assert (low_here <= found).all() and (found < high_here).all() and (found < high).all()
        else:
            assert (found == low_here).all()


@pytest.mark.parametrize("by", TIERS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_many_numbers_stay_below_the_upper_bound(dtype, by):
    bireme.seed(1)
    with executor.use(by):
        assert bireme.rand([1 << 17], dtype).astype("float32").max().item() < 1
        assert bireme.uniform([1 << 17], dtype, 100.0, 101.0).astype("float32").max().item() < 101


def test_a_range_wider_than_the_largest_number():
    bireme.seed(1)
    for by in TIERS:
        with executor.use(by):
            x = bireme.uniform([1000], "float32", -3.4e38, 3.4e38).numpy()
        assert np.isfinite(x).all() and x.min() < -3e38 and x.max() > 3e38


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tails_are_finite(extreme, dtype):
    zeros = bireme.zeros([3], dtype)
    with executor.use("interpreter"):
        assert np.isfinite(bireme.randn([3], dtype).numpy().astype(float)).all()
        drawn = zeros.exponential_().numpy().astype(float)
        assert np.isfinite(drawn).all() and (drawn > 0).all()
        assert np.isfinite(F.gumbel_softmax(bireme.zeros([3, 2], dtype)).numpy().astype(float)).all()
        assert np.isfinite(bireme.standard_gamma(bireme.ones([3], dtype)).numpy().astype(float)).all()


def test_normal_numbers_reach_far_out():
    """As far as 32 bits of a radius: 24 would end at 5.8."""
    u = philox.words(KEY, 2)[:1]
    assert np.sqrt(-2 * np.log(2.0**-33)) > 6.7 and u.dtype == np.uint32
    bireme.seed(0)
    with executor.use("interpreter"):
        x = np.concatenate([bireme.randn([1 << 20]).numpy() for _ in range(4)])
    # beyond 4: 6.3e-5 of all, 266 of 4 million
    assert abs((np.abs(x) > 4).sum() - 266) < 5 * 266**0.5


# ---------------------------------------------------------------- probabilities


@pytest.mark.parametrize("p", [0.0, 1e-9, 1e-6, 0.1, 0.25, 0.5, 1 - 2.0**-24, 1.0])
def test_a_chance_is_exact_to_32_bits(p, monkeypatch):
    """The words that fall below the limit are counted without drawing them."""
    asked = np.float32(p)
    limit = int(np.floor(float(asked) * 2**32))
    near = np.unique(np.clip([0, limit - 1, limit, 2**32 - 1], 0, 2**32 - 1)).astype(np.uint32)
    monkeypatch.setattr(philox, "words", lambda key, n: near)
    found = generators.chance(KEY, near.shape, asked)
    np.testing.assert_array_equal(found, near.astype(np.int64) < limit)


@pytest.mark.parametrize("by", TIERS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dropout_keeps_the_mean(dtype, by):
    bireme.seed(2)
    with executor.use(by):
        kept = F.dropout(bireme.ones([1 << 17], dtype), 0.1).astype("float32").numpy()
    assert abs((kept == 0).mean() - 0.1) < 5 * (0.09 / (1 << 17)) ** 0.5
    np.testing.assert_allclose(
        kept.max(), np.asarray(1 / 0.9, bireme.zeros([1], dtype).numpy().dtype).astype(float), rtol=1e-6
    )


def test_the_gradient_of_dropout_has_the_same_mask_whether_it_was_kept_or_not(monkeypatch):
    with executor.use("interpreter"):
        found = []
        for most in (1 << 26, 0):
            monkeypatch.setattr(dropout, "_masks", dropout._Masks(most))
            bireme.seed(3)
            x = bireme.to_tensor(np.array([1.0, -2.0, np.inf, np.nan] * 100, np.float32), stop_gradient=False)
            y = F.dropout(x, 0.5)
            y.numpy()  # in a segment of its own
            y.backward(bireme.ones_like(y))
            found += [y.numpy(), x.grad.numpy()]
        dropped = found[1] == 0
        assert 100 < dropped.sum() < 300
        assert (found[0][dropped] == 0).all() and not np.signbit(found[0][dropped]).any()
        np.testing.assert_array_equal(found[1][~dropped], 2)
        np.testing.assert_array_equal(found[:2], found[2:])


def test_masks_are_bounded():
    masks = dropout._Masks(100)
    for i in range(5):
        masks.keep((i,), np.ones(40, bool))
    assert [masks.take((i,)) is not None for i in range(5)] == [False, False, False, True, True]
    masks.keep((9,), np.ones(100, bool))
    assert masks.take((9,)) is not None and masks.take((9,)) is None


@pytest.mark.parametrize("n", [1, 2, 5])
def test_permutations_are_even(n):
    bireme.seed(4)
    count = {1: 1, 2: 2, 5: 120}[n]
    drawn = [tuple(bireme.randperm(n).tolist()) for _ in range(20 * count)]
    counts = np.array([drawn.count(p) for p in set(drawn)])
    assert len(counts) == count
    assert count == 1 or ((counts - 20) ** 2 / 20).sum() < count + 5 * (2 * count) ** 0.5


def test_neighbouring_seeds_and_draws_have_nothing_in_common():
    """Rows are draws of one seed, or first draws of neighbouring seeds: none follows another."""
    bireme.seed(9)
    draws = np.array([bireme.rand([64]).numpy() for _ in range(64)])
    seeds = np.array([bireme.seed(i) and bireme.rand([64]).numpy() for i in range(64)])
    for rows in (draws, seeds):
        for table in (rows, rows.T):
            r = np.corrcoef(table)[np.triu_indices(64, 1)] * 8  # normal with deviation 1
            assert np.abs(r).max() < 5.2 and abs(r.mean()) < 0.12
