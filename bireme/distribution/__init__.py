"""Probability distributions, their divergences, and transforms of random variables."""

from bireme.distribution import constraint as constraint
from bireme.distribution import transform as transform
from bireme.distribution import variable as variable
from bireme.distribution.bernoulli import Bernoulli
from bireme.distribution.beta import Beta
from bireme.distribution.binomial import Binomial
from bireme.distribution.categorical import Categorical
from bireme.distribution.cauchy import Cauchy
from bireme.distribution.chi2 import Chi2
from bireme.distribution.continuous_bernoulli import ContinuousBernoulli
from bireme.distribution.dirichlet import Dirichlet
from bireme.distribution.distribution import Distribution
from bireme.distribution.exponential import Exponential
from bireme.distribution.exponential_family import ExponentialFamily
from bireme.distribution.gamma import Gamma
from bireme.distribution.geometric import Geometric
from bireme.distribution.gumbel import Gumbel
from bireme.distribution.independent import Independent
from bireme.distribution.kl import kl_divergence, register_kl
from bireme.distribution.laplace import Laplace
from bireme.distribution.lkj_cholesky import LKJCholesky
from bireme.distribution.lognormal import LogNormal
from bireme.distribution.multinomial import Multinomial
from bireme.distribution.multivariate_normal import MultivariateNormal
from bireme.distribution.normal import Normal
from bireme.distribution.poisson import Poisson
from bireme.distribution.student_t import StudentT
from bireme.distribution.transform import (
    AbsTransform,
    AffineTransform,
    ChainTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
)
from bireme.distribution.transform.base import TransformedDistribution
from bireme.distribution.uniform import Uniform

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ChainTransform",
    "Chi2", "ContinuousBernoulli", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "ExponentialFamily",
    "Gamma", "Geometric", "Gumbel", "Independent", "IndependentTransform", "LKJCholesky", "Laplace", "LogNormal",
    "Multinomial", "MultivariateNormal", "Normal", "Poisson", "PowerTransform", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform", "Transform",
    "TransformedDistribution", "Uniform", "kl_divergence", "register_kl",
]  # fmt: skip
