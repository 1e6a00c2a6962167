"""Draws from distributions: their shapes, dtypes, seeds, gradients, and whether they are distributed as they should be.

The statistical tests draw with fixed seeds, so they pass or fail for good. Each would reject a right generator at one seed
in 10,000; all 43 of them together at one in 240.
"""

import numpy as np
import pytest
from scipy import stats

import bireme
from bireme import distribution as D

N, LEVEL = 20000, 1e-4


def single(x):
    return bireme.to_tensor(np.asarray(x, "float32"))


def double(x):
    return bireme.to_tensor(np.asarray(x, "float64"))


CONTINUOUS = {
    "Normal": (lambda: D.Normal(0.5, 2.0), stats.norm(0.5, 2)),
    "Uniform": (lambda: D.Uniform(-1.0, 3.0), stats.uniform(-1, 4)),
    "Laplace": (lambda: D.Laplace(0.5, 2.0), stats.laplace(0.5, 2)),
    "Cauchy": (lambda: D.Cauchy(0.5, 2.0), stats.cauchy(0.5, 2)),
    "Gumbel": (lambda: D.Gumbel(0.5, 2.0), stats.gumbel_r(0.5, 2)),
    "LogNormal": (lambda: D.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    "Exponential": (lambda: D.Exponential(1.7), stats.expon(scale=1 / 1.7)),
    "Gamma": (lambda: D.Gamma(0.6, 1.7), stats.gamma(0.6, scale=1 / 1.7)),
    "Chi2": (lambda: D.Chi2(3.0), stats.chi2(3)),
    "Beta": (lambda: D.Beta(0.6, 1.7), stats.beta(0.6, 1.7)),
    "StudentT": (lambda: D.StudentT(3.0, 0.5, 2.0), stats.t(3, 0.5, 2)),
    "relaxed Bernoulli": (lambda: D.Bernoulli(0.3), stats.logistic(np.log(0.3 / 0.7))),
    "ContinuousBernoulli": (lambda: D.ContinuousBernoulli(double([0.3])), None),
    "ContinuousBernoulli above": (lambda: D.ContinuousBernoulli(double([0.8])), None),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_draws(name):
    make, theirs = CONTINUOUS[name]
    ours = make()
    bireme.seed(7)
    drawn = (ours.rsample if name == "relaxed Bernoulli" else ours.sample)([N]).numpy().ravel().astype("float64")
    cdf = theirs.cdf if theirs else lambda x: ours.cdf(double(x)).numpy()
    assert stats.kstest(drawn, cdf).pvalue > LEVEL


DISCRETE = {
    "Bernoulli": (lambda: D.Bernoulli(0.3), stats.bernoulli(0.3)),
    "Geometric": (lambda: D.Geometric(0.3), stats.geom(0.3, loc=-1)),
    "Poisson": (lambda: D.Poisson(3.7), stats.poisson(3.7)),
    "Poisson, many": (lambda: D.Poisson(40.0), stats.poisson(40)),
    "Binomial": (lambda: D.Binomial(9, 0.3), stats.binom(9, 0.3)),
    "Categorical": (lambda: D.Categorical([1.0, 3.0, 6.0]), stats.rv_discrete(values=([0, 1, 2], [0.1, 0.3, 0.6]))),
    "Multinomial": (lambda: D.Multinomial(9, single([0.3, 0.7])), stats.binom(9, 0.3)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_draws(name):
    make, theirs = DISCRETE[name]
    bireme.seed(7)
    drawn = make().sample([N]).numpy()
    drawn = drawn[:, 0] if name == "Multinomial" else drawn.ravel()
    assert (drawn == np.floor(drawn)).all() and drawn.min() >= 0
    expected = N * theirs.pmf(np.arange(400))
    # rare counts are one class
    common = expected >= 5
    observed = np.bincount(drawn.astype(int), minlength=400)
    observed, expected = (np.append(x[common], max(x[~common].sum(), 1e-9)) for x in (observed, expected))
    possible = expected > 1e-6
    assert not observed[~possible].round().any()
    statistic = ((observed - expected) ** 2 / expected)[possible].sum()
    assert stats.chi2(possible.sum() - 1).sf(statistic) > LEVEL


def test_draws_of_vectors():
    bireme.seed(7)
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    for given in ({"covariance_matrix": covariance}, {"precision_matrix": np.linalg.inv(covariance)}):
        drawn = D.MultivariateNormal(double([1.0, 2.0]), **{k: double(v) for k, v in given.items()}).sample([N]).numpy()
        white = np.linalg.solve(np.linalg.cholesky(covariance), (drawn - [1, 2]).T)
        assert min(stats.kstest(row, "norm").pvalue for row in white) > LEVEL
        assert abs(np.corrcoef(white)[0, 1]) < 4 / np.sqrt(N)
    concentration = np.array([0.5, 1.2, 3.0])
    drawn = D.Dirichlet(double(concentration)).sample([N]).numpy()
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-12)
    for i, a in enumerate(concentration):
        assert stats.kstest(drawn[:, i], stats.beta(a, concentration.sum() - a).cdf).pvalue > LEVEL


@pytest.mark.parametrize("method", ["onion", "cvine"])
def test_correlations(method):
    bireme.seed(7)
    factor = D.LKJCholesky(4, double([1.0, 2.5]), method).sample([N]).numpy()
    assert factor.shape == (N, 2, 4, 4)
    np.testing.assert_allclose(np.triu(factor, 1), 0, atol=0)
    matrix = factor @ factor.swapaxes(-1, -2)
    np.testing.assert_allclose(np.diagonal(matrix, axis1=-2, axis2=-1), 1, rtol=1e-12)
    # each correlation has a beta distribution over (-1, 1)
    for i, eta in enumerate([1.0, 2.5]):
        b = eta + 1
        for j, k in ((1, 0), (3, 0), (3, 2)):
            assert stats.kstest(matrix[:, i, j, k], stats.beta(b, b, -1, 2).cdf).pvalue > LEVEL


@pytest.mark.parametrize("shape", [[], [3], (2, 3), [0]])
def test_shapes(shape):
    made = [make() for make, _ in (CONTINUOUS | DISCRETE).values() if make is not DISCRETE["Multinomial"][0]]
    for d in [*made, D.Normal(single([[0.0], [1.0]]), single([1.0, 2.0, 3.0])), D.Geometric(single([0.5, 0.2]))]:
        assert tuple(d.sample(shape).shape) == (*shape, *d.batch_shape, *d.event_shape), type(d).__name__


def test_numbers_follow_the_seed():
    for make, _ in (CONTINUOUS | DISCRETE).values():
        drawn = []
        for seed in (3, 3, 4):
            bireme.seed(seed)
            drawn.append(make().sample([50]).numpy())
        np.testing.assert_array_equal(drawn[0], drawn[1])
        assert (drawn[0] != drawn[2]).any()
    for d in (D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0)):
        one, same, other = (d.sample([5], seed=s).tolist() for s in (11, 11, 12))
        assert one == same != other


def leaf(x):
    t = double(x)
    t.stop_gradient = False
    return t


REPARAMETERIZED = {
    "Normal": (D.Normal, ([0.3, 1.0], [1.5, 0.4])),
    "Uniform": (D.Uniform, ([0.3, 1.0], [1.5, 2.4])),
    "Laplace": (D.Laplace, ([0.3, 1.0], [1.5, 0.4])),
    "Cauchy": (D.Cauchy, ([0.3, 1.0], [1.5, 0.4])),
    "Gumbel": (D.Gumbel, ([0.3, 1.0], [1.5, 0.4])),
    "LogNormal": (D.LogNormal, ([0.3, 1.0], [1.5, 0.4])),
    "Exponential": (D.Exponential, ([0.3, 1.0],)),
    "Gamma": (lambda rate: D.Gamma(double([0.7, 2.0]), rate), ([0.3, 1.0],)),
    "Bernoulli": (D.Bernoulli, ([0.3, 0.9],)),
    "ContinuousBernoulli": (D.ContinuousBernoulli, ([0.3, 0.9],)),
    "MultivariateNormal": (
        lambda loc, tril: D.MultivariateNormal(loc, scale_tril=tril),
        ([0.3, 1.0], [[1.5, 0.0], [0.2, 0.4]]),
    ),
    "Independent": (lambda loc, scale: D.Independent(D.Normal(loc, scale), 1), ([0.3, 1.0], [1.5, 0.4])),
    "TransformedDistribution": (
        lambda loc, scale: D.TransformedDistribution(
            D.Normal(loc, scale), [D.AffineTransform(double(1.0), scale), D.SigmoidTransform()]
        ),
        ([0.3, 1.0], [1.5, 0.4]),
    ),
}


@pytest.mark.parametrize("name", REPARAMETERIZED)
def test_gradients_of_draws(name):
    make, arguments = REPARAMETERIZED[name]

    def draw(values):
        bireme.seed(5)
        return make(*values).rsample([3])

    leaves = [leaf(a) for a in arguments]
    slopes = bireme.grad(draw(leaves).sum(), leaves)
    for i, slope in enumerate(slopes):
        for j in range(np.size(arguments[i])):
            if name == "MultivariateNormal" and i == 1 and j == 1:
                continue  # above the diagonal
            ends = []
            for step in (1e-6, -1e-6):
                moved = [np.array(a, "float64") for a in arguments]
                moved[i].flat[j] += step
                ends.append(draw([double(m) for m in moved]).numpy().sum())
            np.testing.assert_allclose(slope.numpy().flat[j], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_which_draws_have_gradients():
    a, b = leaf([0.5]), leaf([0.5])
    passing = {type(d).__name__: not d.sample().stop_gradient for d in (
        D.Normal(a, b), D.Uniform(a, a + b), D.LogNormal(a, b), D.Laplace(a, b), D.Cauchy(a, b), D.Gumbel(a, b),
        D.Exponential(a), D.Gamma(a, b), D.Beta(a, b), D.Bernoulli(a), D.Geometric(a), D.Poisson(a), D.StudentT(a, a, b),
    )}  # fmt: skip
    assert {n for n, passes in passing.items() if passes} == {"Normal", "Uniform", "LogNormal", "StudentT"}
    for missing in (D.Beta(a, b), D.Poisson(a), D.Dirichlet(a), D.Categorical(a)):
        with pytest.raises(NotImplementedError, match="rsample: expected an implementation in the subclass"):
            missing.rsample()


def test_axes_that_a_transform_adds_are_independent():
    bireme.seed(7)
    scale = D.AffineTransform(double(0.0), double([1.0, 1.0]))
    drawn = D.TransformedDistribution(D.Normal(double(0.0), double(1.0)), [scale]).sample([N]).numpy()
    assert drawn.shape == (N, 2)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4 / np.sqrt(N)
