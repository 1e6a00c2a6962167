"""Distributions beside SciPy's: densities, moments, quantiles, entropies and divergences in float64, and their gradients."""

import numpy as np
import pytest
from scipy import integrate, special, stats

import bireme
from bireme import distribution as D

A = np.array([[0.7, 1.9, 4.5]])
B = np.array([[0.4], [2.6]])
P = np.array([[0.05, 0.3], [0.62, 0.97]])
REAL = np.array([-3.1, -0.2, 0.55, 4.0])[:, None, None]
POSITIVE = np.array([0.03, 0.9, 5.5])[:, None, None]
COUNTS = np.array([0.0, 1.0, 5.0, 11.0])[:, None, None]
UNIT = np.array([0.02, 0.5, 0.93])[:, None, None]


def double(x):
    return bireme.to_tensor(np.asarray(x, "float64"))


# name: constructor arguments, SciPy's distribution of them, values
CASES = {
    "Normal": ((A, B), lambda a, b: stats.norm(a, b), REAL),
    "Uniform": ((A - 1, A + B), lambda a, b: stats.uniform(a, b - a), REAL),
    "Laplace": ((A, B), lambda a, b: stats.laplace(a, b), REAL),
    "Cauchy": ((A, B), lambda a, b: stats.cauchy(a, b), REAL),
    "Gumbel": ((A, B), lambda a, b: stats.gumbel_r(a, b), REAL),
    "LogNormal": ((A, B), lambda a, b: stats.lognorm(b, scale=np.exp(a)), POSITIVE),
    "Beta": ((A, B), lambda a, b: stats.beta(a, b), UNIT),
    "Gamma": ((A, B), lambda a, b: stats.gamma(a, scale=1 / b), POSITIVE),
    "Chi2": ((A,), lambda a: stats.chi2(a), POSITIVE),
    "Exponential": ((B,), lambda b: stats.expon(scale=1 / b), POSITIVE),
    "StudentT": ((A + 1.5, A, B), lambda n, a, b: stats.t(n, a, b), REAL),
    "Bernoulli": ((P,), lambda p: stats.bernoulli(p), COUNTS[:2]),
    "Geometric": ((P,), lambda p: stats.geom(p, loc=-1), COUNTS),
    "Poisson": ((A,), lambda a: stats.poisson(a), COUNTS),
    "Binomial": ((np.array([[11.0, 23.0]]), P), lambda n, p: stats.binom(n, p), COUNTS),
}
DISCRETE = {"Bernoulli", "Geometric", "Poisson", "Binomial"}


def made(name):
    arguments, reference, value = CASES[name]
    return getattr(D, name)(*map(double, arguments)), reference(*arguments), value


def close(ours, theirs, rtol=1e-6, atol=1e-12):
    ours = ours.numpy()
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, np.broadcast_to(theirs, ours.shape), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_beside_scipy(name):
    ours, theirs, value = made(name)
    density = theirs.pmf if name in DISCRETE else theirs.pdf
    log_density = theirs.logpmf if name in DISCRETE else theirs.logpdf
    close(ours.log_prob(double(value)), log_density(value))
    close(ours.prob(double(value)), density(value))
    assert ours.batch_shape == np.broadcast_shapes(*(np.shape(a) for a in CASES[name][0])) and ours.event_shape == ()
    assert tuple(ours.entropy().shape) == ours.batch_shape
    entropy = theirs.entropy()
    if name == "Geometric":  # SciPy sums too few terms for a small probability
        p = CASES[name][0][0]
        entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)) / p
    close(ours.entropy(), entropy, atol=1e-8)
    if name != "Cauchy":
        close(ours.mean, theirs.mean())
        close(ours.variance, theirs.var())
        assert tuple(ours.mean.shape) == tuple(ours.variance.shape) == ours.batch_shape
    if hasattr(ours, "cdf"):
        close(ours.cdf(double(value)), theirs.cdf(value))
    if hasattr(ours, "icdf"):
        close(ours.icdf(double(UNIT)), theirs.ppf(UNIT))
    if name in ("Laplace", "Gumbel", "Geometric"):
        close(ours.stddev, theirs.std())


def test_moments_that_do_not_exist():
    cauchy = D.Cauchy(0.0, 1.0)
    for moment in ("mean", "variance", "stddev"):
        with pytest.raises(ValueError, match=f"Cauchy.{moment}: expected a distribution that has"):
            getattr(cauchy, moment)
    student = D.StudentT(double([0.5, 1.5, 4.0]), double(1.0), double(2.0))
    np.testing.assert_array_equal(student.mean.numpy(), [np.nan, 1, 1])
    np.testing.assert_array_equal(student.variance.numpy(), [np.nan, np.inf, 8])


def test_vectors_beside_scipy():
    weights = np.array([[0.7, 1.9, 4.5], [2.0, 0.3, 1.1]])
    point = np.array([0.2, 0.5, 0.3])
    dirichlet = D.Dirichlet(double(weights))
    assert (dirichlet.batch_shape, dirichlet.event_shape) == ((2,), (3,))
    theirs = [stats.dirichlet(w) for w in weights]
    close(dirichlet.log_prob(double(point)), [t.logpdf(point) for t in theirs])
    close(dirichlet.mean, [t.mean() for t in theirs])
    close(dirichlet.variance, [t.var() for t in theirs])
    close(dirichlet.entropy(), [t.entropy() for t in theirs])

    multinomial = D.Multinomial(9, double(weights))
    theirs = [stats.multinomial(9, w / w.sum()) for w in weights]
    counts = np.array([2.0, 3.0, 4.0])
    assert (multinomial.batch_shape, multinomial.event_shape) == ((2,), (3,))
    close(multinomial.log_prob(double(counts)), [t.logpmf(counts) for t in theirs])
    close(multinomial.mean, [9 * w / w.sum() for w in weights])
    close(multinomial.variance, [np.diag(t.cov()) for t in theirs])
    close(multinomial.entropy(), [t.entropy() for t in theirs])


@pytest.mark.parametrize("by", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_multivariate_normal_beside_scipy(by):
    rng = np.random.default_rng(3)
    factors = np.tril(rng.normal(size=(2, 3, 3))) + 2 * np.eye(3)
    covariance = factors @ factors.swapaxes(-1, -2)
    given = {"covariance_matrix": covariance, "precision_matrix": np.linalg.inv(covariance), "scale_tril": factors}
    loc, value = rng.normal(size=3), rng.normal(size=(4, 1, 3))
    ours = D.MultivariateNormal(double(loc), **{by: double(given[by])})
    theirs = [stats.multivariate_normal(loc, c) for c in covariance]
    assert (ours.batch_shape, ours.event_shape, ours.sample([5]).shape) == ((2,), (3,), [5, 2, 3])
    close(ours.log_prob(double(value)), np.stack([t.logpdf(value[:, 0]) for t in theirs], 1))
    close(ours.variance, np.diagonal(covariance, axis1=1, axis2=2))
    close(ours.entropy(), [t.entropy() for t in theirs])
    close(ours.mean, loc)
    assert [m for m in ("covariance_matrix", "precision_matrix", "scale_tril") if getattr(ours, m) is not None] == [by]


def test_complex_normal_is_two_real_ones():
    ours = D.Normal(bireme.to_tensor(np.array([1 + 2j, 0.5j])), double([2.0, 0.7]))
    value = np.array([0.3 - 1j, 1 + 1j])
    parts = [stats.norm(part, np.array([2.0, 0.7]) / np.sqrt(2)) for part in (np.array([1, 0.0]), np.array([2, 0.5]))]
    density = parts[0].logpdf(value.real) + parts[1].logpdf(value.imag)
    np.testing.assert_allclose(ours.log_prob(bireme.to_tensor(value)).numpy(), density.astype(complex), rtol=1e-12)
    close(ours.entropy(), parts[0].entropy() + parts[1].entropy())
    assert ours.sample([3]).dtype == bireme.complex128
    other = D.Normal(bireme.to_tensor(np.array([1j, 1 + 1j])), double([1.0, 0.5]))
    mixed = [D.Normal(double(a), double([2.0, 0.7]) / 2**0.5) for a in ([1, 0.0], [2, 0.5])]
    mine = [D.Normal(double(a), double([1.0, 0.5]) / 2**0.5) for a in ([0.0, 1], [1, 1.0])]
    kl = sum(p.kl_divergence(q) for p, q in zip(mixed, mine, strict=True))
    np.testing.assert_allclose(ours.kl_divergence(other).numpy().real, kl.numpy(), rtol=1e-12)


@pytest.mark.parametrize("p", [1e-3, 0.2, 0.4985, 0.4995, 0.5, 0.5015, 0.9, 1 - 1e-4])
def test_continuous_bernoulli_beside_integrals(p):
    ours = D.ContinuousBernoulli(double([p]))

    def mean_of(f):
        def weigh(x):
            return p**x * (1 - p) ** (1 - x)

        return integrate.quad(lambda x: weigh(x) * f(x), 0, 1)[0] / integrate.quad(weigh, 0, 1)[0]

    def density(x):
        return ours.prob(double([x])).numpy()[0]

    whole = integrate.fixed_quad(lambda x: ours.prob(double(x)).numpy(), 0, 1, n=60)[0]
    np.testing.assert_allclose(whole, 1, rtol=1e-9)
    mean = mean_of(lambda x: x)
    close(ours.mean, mean)
    close(ours.variance, mean_of(lambda x: (x - mean) ** 2))
    close(ours.entropy(), -np.log(density(0.0)) - mean * np.log(p / (1 - p)), atol=1e-9)
    u = np.array([0.0, 0.1, 0.5, 0.99, 1.0])
    close(ours.cdf(ours.icdf(double(u))), u, rtol=1e-9)
    # the series takes the distribution for the uniform one here, which is its limit
    near = 0.499 <= p <= 0.501
    part = integrate.fixed_quad(lambda x: ours.prob(double(x)).numpy(), 0, 0.3, n=60)[0]
    close(ours.cdf(double([0.3])), part, rtol=2e-3 if near else 1e-9)


@pytest.mark.parametrize("rate", [0.0, 1e-3, 0.7, 20.0, 63.9, 64.0, 500.0, 1e5])
def test_poisson_entropy(rate):
    k = np.arange(int(rate + 40 * np.sqrt(rate) + 60))
    log_mass = stats.poisson(rate).logpmf(k)
    expected = -np.sum(
        np.where(np.isfinite(log_mass), np.exp(log_mass) * np.where(np.isfinite(log_mass), log_mass, 0), 0)
    )
    close(D.Poisson(double([rate])).entropy(), expected, rtol=2e-8)


def test_binomial_of_certain_trials():
    ours = D.Binomial(3, double([0.0, 1.0, 0.5]))
    close(ours.entropy(), [0, 0, stats.binom(3, 0.5).entropy()], atol=1e-12)
    close(ours.prob(double([0.0, 3.0, 1.0])), [1, 1, 0.375])


def test_categorical_takes_weights_and_logits():
    weights = np.array([[0.5, 2.0, 1.5], [3.0, 1.0, 4.0]])
    share, soft = weights / weights.sum(-1, keepdims=True), special.softmax(weights, -1)
    ours = D.Categorical(double(weights))
    close(ours.probs(bireme.to_tensor([2, 0])), share[:, [2, 0]])
    close(ours.probs(bireme.to_tensor([[1], [2]])), share[[0, 1], [1, 2]][:, None])
    close(ours.log_prob(bireme.to_tensor([2, 0])), np.log(share[:, [2, 0]]))
    close(D.Categorical(double(weights[0])).prob(bireme.to_tensor([[1, 0], [2, 2]])), share[0][[[1, 0], [2, 2]]])
    close(ours.entropy(), stats.entropy(soft, axis=-1))
    other = np.array([[1.0, 0.2, 2.0], [0.0, 1.0, 2.0]])
    theirs = stats.entropy(soft, special.softmax(other, -1), axis=-1)
    close(ours.kl_divergence(D.Categorical(double(other))), theirs[:, None])
    assert ours.sample([4, 5]).shape == [4, 5, 2] and ours.sample().shape == [2]
    assert ours.sample([4]).dtype == bireme.int64 and D.Categorical([1.0, 2.0]).sample().shape == []


def mean_log_ratio(p, q, grid, discrete):
    """The divergence as a sum or an integral over a grid."""
    lp, lq = (d.log_prob(double(grid)).numpy() for d in (p, q))
    terms = np.exp(lp) * (lp - lq)
    return terms.sum() if discrete else integrate.simpson(terms, x=grid)


def of(name, *columns):
    return [getattr(D, name)(*(double([v]) for v in row)) for row in zip(*columns, strict=True)]


LINE, HALF, INNER, WHOLE = (
    np.linspace(-60, 60, 40001),
    np.linspace(1e-9, 80, 80001),
    np.linspace(1e-6, 1 - 1e-6, 40001),
    np.arange(400.0),
)
PAIRS = {
    "Normal": (of("Normal", (0.3, -0.5), (1.2, 2.0)), LINE),
    "Laplace": (of("Laplace", (0.3, -0.5), (1.2, 2.0)), np.sort(np.append(LINE, [0.3, -0.5]))),
    "Uniform": (of("Uniform", (0.0, -1.0), (1.0, 2.0)), INNER),
    "Exponential": (of("Exponential", (0.9, 1.7)), HALF),
    "Gamma": (of("Gamma", (3.2, 2.5), (1.3, 0.8)), HALF),
    "Chi2": (of("Chi2", (4.2, 5.5)), HALF),
    "LogNormal": (of("LogNormal", (0.1, 0.4), (0.5, 0.7)), HALF),
    "Beta": (of("Beta", (2.2, 3.5), (3.0, 2.4)), INNER),
    "ContinuousBernoulli": (of("ContinuousBernoulli", (0.2, 0.7)), INNER),
    "Bernoulli": (of("Bernoulli", (0.2, 0.7)), WHOLE[:2]),
    "Geometric": (of("Geometric", (0.2, 0.7)), WHOLE),
    "Poisson": (of("Poisson", (3.1, 5.7)), WHOLE[:90]),
    "Binomial": (of("Binomial", (8.0, 8.0), (0.2, 0.7)), WHOLE[:9]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergence_is_the_mean_of_the_log_ratio(name):
    (p, q), grid = PAIRS[name]
    discrete = name in DISCRETE
    kl = D.kl_divergence(p, q)
    assert kl.shape == [1]
    np.testing.assert_allclose(kl.numpy(), mean_log_ratio(p, q, grid, discrete), rtol=1e-5)
    np.testing.assert_array_equal(kl.numpy(), p.kl_divergence(q).numpy())
    np.testing.assert_allclose(D.kl_divergence(p, p).numpy(), 0, atol=1e-14)


def test_divergences_without_a_grid():
    cauchy = of("Cauchy", (0.3, -0.5), (1.2, 2.0))
    close(D.kl_divergence(*cauchy), np.log((3.2**2 + 0.8**2) / (4 * 1.2 * 2.0)))
    assert D.kl_divergence(*of("Uniform", (0.0, 0.5), (1.0, 2.0))).item() == np.inf
    rng = np.random.default_rng(5)
    (a, b), (k, m) = rng.normal(size=(2, 3)), np.tril(rng.normal(size=(2, 3, 3))) + 2 * np.eye(3)
    p, q = (D.MultivariateNormal(double(x), scale_tril=double(f)) for x, f in ((a, k), (b, m)))
    s, t = k @ k.T, m @ m.T
    away = np.linalg.solve(t, b - a) @ (b - a)
    expected = 0.5 * (np.trace(np.linalg.solve(t, s)) + away - 3 + np.log(np.linalg.det(t) / np.linalg.det(s)))
    close(D.kl_divergence(p, q), expected)
    x, y = np.array([0.7, 1.9, 2.5]), np.array([1.0, 3.0, 0.4])

    def log_beta(v):
        return special.gammaln(v).sum() - special.gammaln(v.sum())

    expected = log_beta(y) - log_beta(x) + (x - y) @ (special.digamma(x) - special.digamma(x.sum()))
    close(D.kl_divergence(D.Dirichlet(double(x)), D.Dirichlet(double(y))), expected)


FAMILIES = [
    ("Exponential", (0.9, 1.7)),
    ("Gamma", (3.2, 2.5), (1.3, 0.8)),
    ("Beta", (2.2, 3.5), (3.0, 2.4)),
    ("Bernoulli", (0.2, 0.7)),
    ("Chi2", (4.2, 5.5)),
]


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case[0])
def test_exponential_families_follow_from_their_normalizers(case):
    p, q = of(*case)
    close(D.ExponentialFamily.entropy(p), p.entropy().numpy())
    general = D.registry.find(D.ExponentialFamily, D.ExponentialFamily)
    close(general(p, q), D.kl_divergence(p, q).numpy())


def test_families_of_vectors_and_gradients_of_entropies():
    x = double([0.7, 1.9, 2.5])
    x.stop_gradient = False
    dirichlet = D.Dirichlet(x)
    close(D.ExponentialFamily.entropy(dirichlet), dirichlet.entropy().numpy())
    general = bireme.grad(D.ExponentialFamily.entropy(dirichlet), x)[0]
    close(general, bireme.grad(dirichlet.entropy(), x)[0].numpy())
    with bireme.no_grad():
        assert D.ExponentialFamily.entropy(dirichlet).stop_gradient


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_densities(name):
    arguments, value = CASES[name][0], CASES[name][2]
    leaves = [double(a) for a in arguments]
    for t in leaves:
        t.stop_gradient = False
    value = value[1:2]
    slope = bireme.grad(getattr(D, name)(*leaves).log_prob(double(value)).sum(), leaves)
    for i, found in enumerate(slope):
        step = 1e-6

        def at(shift, i=i):
            moved = [a + shift * (j == i) for j, a in enumerate(arguments)]
            density = getattr(D, name)(*map(double, moved)).log_prob(double(value)).numpy()
            return np.where(np.isfinite(density), density, 0)  # outside of an interval, where it stays 0

        expected = ((at(step) - at(-step)) / (2 * step)).sum()
        np.testing.assert_allclose(found.sum().item(), expected, rtol=1e-5, atol=1e-6)


def test_second_derivatives():
    loc, scale = double(0.3), double(1.7)
    loc.stop_gradient = scale.stop_gradient = False
    density = D.Normal(loc, scale).log_prob(double(1.0))
    (first,) = bireme.grad(density, scale, create_graph=True)
    second = bireme.grad(first, scale)[0].item()
    np.testing.assert_allclose(second, -3 * 0.7**2 / 1.7**4 + 1 / 1.7**2, rtol=1e-12)
