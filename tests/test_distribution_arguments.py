"""What distributions take: numbers, lists, arrays and tensors, their dtypes and shapes; divergences by kind; wrong arguments."""

import numpy as np
import pytest

import bireme
from bireme import distribution as D

F32, F64 = bireme.float32, bireme.float64


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [
        ((0.5, 2.0), F32, ()),
        ((1, 2), F32, ()),
        (([0.5, 1.0], [2.0, 3.0]), F32, (2,)),
        (((0.5, 1.0), 2.0), F32, (2,)),
        ((np.array([0.5, 1.0]), np.array([2.0, 3.0])), F64, (2,)),
        ((np.array([0.5], "float32"), 2.0), F32, (1,)),
        ((bireme.ones([2]), bireme.ones([3, 1])), F32, (3, 2)),
        ((bireme.ones([2], "float64"), 1.0), F64, (2,)),
        ((bireme.ones([1]), bireme.ones([1], "float64")), F64, (1,)),
        ((bireme.ones([1], "int64"), bireme.ones([1], "int64")), F32, (1,)),
        ((bireme.ones([1], "float16"), 1.0), bireme.float16, (1,)),
    ],
)
def test_parameters(given, dtype, shape):
    for kind in (D.Normal, D.Uniform, D.Laplace, D.Cauchy, D.Gumbel, D.Beta, D.LogNormal):
        d = kind(*given)
        assert d.batch_shape == shape
        assert d.sample([4]).dtype == dtype and d.log_prob(bireme.full(shape, 0.5, dtype)).dtype == dtype
    # these take arrays in the default dtype
    expected = F32 if isinstance(given[0], np.ndarray) else dtype
    assert D.Gamma(*given).rate.dtype == expected
    assert D.Exponential(given[1]).rate.dtype == D.Gamma(given[1], given[1]).rate.dtype == D.Chi2(given[1]).df.dtype


def test_numbers_of_some_have_an_axis():
    assert D.Poisson(1.3).batch_shape == D.ContinuousBernoulli(0.3).batch_shape == (1,)
    assert D.Bernoulli(0.3).batch_shape == D.Geometric(0.3).batch_shape == D.Binomial(3, 0.3).batch_shape == ()


def test_float64_numbers_are_kept():
    assert D.Normal(np.array([0.1]), np.array([1.0])).loc.item() == 0.1


def test_values():
    normal = D.Normal(bireme.zeros([2]), bireme.ones([2]))
    expected = normal.log_prob(bireme.to_tensor([1.0, 2.0])).tolist()
    for value in ([1.0, 2.0], np.array([1.0, 2.0]), np.array([1, 2]), bireme.to_tensor([1, 2]), (1, 2)):
        out = normal.log_prob(value)
        assert out.tolist() == expected and out.dtype == F32
    assert normal.prob(0.0).shape == [2]
    with pytest.raises(TypeError, match=r"Normal\(value\): expected a Tensor, got 'a'"):
        normal.log_prob("a")


def test_probabilities_are_clipped():
    eps = np.finfo("float32").eps
    np.testing.assert_allclose(D.Bernoulli([-1.0, 2.0]).probs.numpy(), np.float32([eps, 1 - eps]))
    np.testing.assert_allclose(D.ContinuousBernoulli([0.0, 1.0]).probs.numpy(), np.float32([eps, 1 - eps]))
    assert np.isfinite(D.Bernoulli([0.0, 1.0]).log_prob(bireme.to_tensor([1.0, 0.0])).numpy()).all()


def test_multivariate_normal_takes_the_dtype_of_its_mean():
    matrix = bireme.eye(2, dtype="float64")
    assert D.MultivariateNormal(bireme.zeros([2]), covariance_matrix=matrix).dtype == F32
    assert D.MultivariateNormal(0.0, covariance_matrix=matrix).sample([3]).shape == [3, 2]
    assert D.MultivariateNormal([0.0, 1.0], scale_tril=[[1.0, 0.0], [0.5, 1.0]]).event_shape == (2,)
    batch = D.MultivariateNormal(bireme.zeros([3, 1, 2]), scale_tril=bireme.eye(2).expand([4, 2, 2]))
    assert (batch.batch_shape, batch.log_prob(bireme.zeros([5, 1, 1, 2])).shape) == ((3, 4), [5, 3, 4])


class Odd(D.Normal):
    pass


def test_the_nearest_registered_function_is_taken(monkeypatch):
    monkeypatch.setattr(D.registry, "_functions", dict(D.registry._functions))
    p, q = Odd(0.0, 1.0), D.Normal(1.0, 1.0)
    assert D.kl_divergence(p, q).item() == 0.5
    D.register_kl(Odd, D.Normal)(lambda p, q: "odd")
    assert D.kl_divergence(p, q) == p.kl_divergence(q) == "odd" and D.kl_divergence(q, q).item() == 0
    D.register_kl(D.Normal, Odd)(lambda p, q: "normal")
    with pytest.warns(RuntimeWarning, match=r"\(Odd, Normal\) and \(Normal, Odd\) fit equally"):
        assert D.kl_divergence(p, p) == "odd"


def test_divergences_that_are_not_registered():
    message = (
        r"kl_divergence\(p, q\): expected two distributions for which a function is registered, got Normal and Uniform"
    )
    for divergence in (D.kl_divergence, lambda p, q: p.kl_divergence(q)):
        with pytest.raises(NotImplementedError, match=message):
            divergence(D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="expected two distributions of one kind, got Gamma and Beta"):
        D.kl_divergence(D.Gamma(1.0, 1.0), D.Beta(1.0, 1.0))


def test_a_step_with_distributions_compiles_once():
    loc = bireme.to_tensor([0.3, -0.2], stop_gradient=False)
    scale = bireme.to_tensor([1.0, 0.5], stop_gradient=False)

    def step():
        q = D.Normal(loc, scale)
        loss = (D.kl_divergence(q, D.Normal(0.0, 1.0)) - D.Laplace(0.0, 1.0).log_prob(q.rsample([256]))).mean()
        loss.backward()
        out = loss.item()
        loc.clear_grad()
        scale.clear_grad()
        return out

    with bireme.debug.use_executor("xla"):
        bireme.seed(1)
        compiled = step()
    bireme.seed(1)
    np.testing.assert_allclose(compiled, step(), rtol=1e-5)
    for _ in range(3):
        step()
    with bireme.debug.no_recompile():
        step()


def test_amp_leaves_densities_in_their_dtype():
    with bireme.amp.auto_cast(dtype="bfloat16"):
        d = D.MultivariateNormal(bireme.zeros([2]), scale_tril=bireme.eye(2))
        assert abs(d.log_prob(bireme.ones([2])).astype("float32").item() + 1 + np.log(2 * np.pi)) < 1e-5


def bad(kind, message, call):
    return pytest.param(kind, message, call, id=message[:40])


@pytest.mark.parametrize(
    ("kind", "message", "call"),
    [
        bad(TypeError, r"Normal\(loc\): expected a number, a list, an array or a tensor", lambda: D.Normal("a", 1.0)),
        bad(TypeError, r"Normal\(scale\): expected real numbers", lambda: D.Normal(1.0, 1j)),
        bad(TypeError, r"Beta\(alpha\): expected a number", lambda: D.Beta(1j, 1.0)),
        bad(TypeError, r"Uniform\(high\): expected a number", lambda: D.Uniform(1.0, None)),
        bad(TypeError, r"Gamma\(rate\): expected a number", lambda: D.Gamma(1.0, {})),
        bad(
            ValueError,
            r"Normal\(loc, scale\): expected shapes that broadcast, got \[2\] and \[3\]",
            lambda: D.Normal([1.0] * 2, [1.0] * 3),
        ),
        bad(TypeError, r"sample\(shape\): expected a list of integers, got 2", lambda: D.Normal(0.0, 1.0).sample(2)),
        bad(
            TypeError, r"sample\(shape\): expected a list of integers, got 'ab'", lambda: D.Beta(1.0, 1.0).sample("ab")
        ),
        bad(TypeError, r"sample\(seed\): expected an integer", lambda: D.Normal(0.0, 1.0).sample([2], 1.3)),
        bad(ValueError, r"Chi2\(df\): expected positive numbers, got -1.0", lambda: D.Chi2(-1.0)),
        bad(ValueError, r"StudentT\(scale\): expected positive numbers", lambda: D.StudentT(1.0, 0.0, -2.0)),
        bad(
            ValueError, r"Dirichlet\(concentration\): expected at least one axis", lambda: D.Dirichlet(bireme.ones([]))
        ),
        bad(
            ValueError, r"Multinomial\(total_count\): expected a positive integer", lambda: D.Multinomial(0, [0.5, 0.5])
        ),
        bad(
            ValueError,
            r"Multinomial\(total_count\): expected a positive integer",
            lambda: D.Multinomial(2.0, [0.5, 0.5]),
        ),
        bad(ValueError, r"Multinomial\(probs\): expected at least one axis", lambda: D.Multinomial(2, 0.5)),
        bad(ValueError, "expected exactly one of covariance_matrix", lambda: D.MultivariateNormal(bireme.zeros([2]))),
        bad(
            ValueError,
            r"MultivariateNormal\(scale_tril\): expected square matrices",
            lambda: D.MultivariateNormal([0.0], scale_tril=[1.0]),
        ),
        bad(
            ValueError,
            r"expected matrices for vectors of shape \[2\]",
            lambda: D.MultivariateNormal(bireme.zeros([2]), covariance_matrix=bireme.eye(3)),
        ),
        bad(TypeError, r"LKJCholesky\(dim\): expected an integer, got 3.0", lambda: D.LKJCholesky(3.0)),
        bad(ValueError, r"LKJCholesky\(dim\): expected at least 2, got 1", lambda: D.LKJCholesky(1)),
        bad(ValueError, r"LKJCholesky\(concentration\): expected positive", lambda: D.LKJCholesky(3, -1.0)),
        bad(ValueError, r"LKJCholesky\(sample_method\): expected 'onion' or", lambda: D.LKJCholesky(3, 1.0, "x")),
        bad(TypeError, r"Independent\(base\): expected a Distribution", lambda: D.Independent("a", 1)),
        bad(ValueError, r"expected an integer in \[1, 1\]", lambda: D.Independent(D.Normal([0.0], [1.0]), 2)),
        bad(ValueError, r"expected two numbers", lambda: D.ContinuousBernoulli(0.3, (0.4,))),
        bad(TypeError, r"Categorical\(value\): expected a Tensor", lambda: D.Categorical([1.0, 1.0]).log_prob(0)),
        bad(
            ValueError,
            r"Categorical\(value\): expected 1 or 3 axes",
            lambda: D.Categorical(bireme.ones([3, 2, 4])).log_prob(bireme.zeros([2, 2], "int64")),
        ),
        bad(
            TypeError,
            r"register_kl\(cls_p\): expected a subclass of Distribution",
            lambda: D.register_kl("a", D.Normal),
        ),
        bad(
            TypeError,
            r"register_kl\(cls_q\): expected a subclass of Distribution",
            lambda: D.register_kl(D.Normal, int),
        ),
        bad(TypeError, r"kl_divergence\(p\): expected a Distribution, got 'a'", lambda: D.kl_divergence("a", "b")),
        bad(TypeError, r"Distribution\(batch_shape\): expected a list of integers", lambda: D.Distribution("a")),
        bad(NotImplementedError, "Distribution.mean: expected an implementation", lambda: D.Distribution().mean),
        bad(NotImplementedError, "Distribution.entropy: expected", lambda: D.Distribution().entropy()),
        bad(NotImplementedError, "Laplace.probs: expected", lambda: D.Laplace(0.0, 1.0).probs(bireme.ones([1]))),
        bad(NotImplementedError, "_natural_parameters: expected", lambda: D.ExponentialFamily().entropy()),
        bad(TypeError, r"Normal\(sigma\): expected a keyword among loc, scale, name", lambda: D.Normal(0.0, sigma=1.0)),
    ],
)
def test_wrong_arguments(kind, message, call):
    with pytest.raises(kind, match=message):
        call()
