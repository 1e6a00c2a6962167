"""Products with parameters that are made here: of two inputs, with a normalized weight, with a few of many classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building
from bireme.core.tensor.tensor import Tensor
from bireme.ops import bilinear, continuous_values, exp, full, gather, log, multinomial, rand, randint, reshape, sigmoid
from bireme.static.nn.layers import activated, known_size, parameters_of


def bilinear_tensor_product(
    x: Tensor,
    y: Tensor,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Tensor:
    """Multiply two inputs with a matrix between them for each feature of the result; the matrices are made here.

    Args:
        x: Tensor of shape ``[N, m]``.
        y: Tensor of shape ``[N, n]``.
        size: Number of features of the result.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.
        param_attr: A ``ParamAttr`` of the weight ``[size, m, n]``. Default: None.
        bias_attr: A ``ParamAttr`` of the bias ``[1, size]``, or False for none. Default: None.

    Returns:
        Tensor of shape ``[N, size]``.

    Examples:
        >>> bireme.static.nn.bilinear_tensor_product(bireme.ones([2, 3]), bireme.ones([2, 4]), 5).shape
        [2, 5]
    """
    sizes = [known_size(f"bilinear_tensor_product({n})", t, 1) for n, t in (("x", x), ("y", y))]
    make = parameters_of("bilinear_tensor_product", x.dtype)
    weight = make([size, *sizes], param_attr)
    out = bilinear(x, y, weight, make([1, size], bias_attr, is_bias=True))
    return activated("bilinear_tensor_product(act)", out, act)


def spectral_norm(
    weight: Tensor, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None
) -> Tensor:
    """Divide a weight by its largest singular value, which power iteration estimates.

    Args:
        weight: The weight, of known sizes.
        dim: Axis that is the rows of the matrix, 0 or 1; all others are its columns. Default: 0.
        power_iters: Number of power iterations. Default: 1.
        eps: Added to the norms of the vectors. Default: 1e-12.
        name: Has no effect.

    Returns:
        Tensor of the shape of ``weight``.

    Examples:
        >>> out = bireme.static.nn.spectral_norm(bireme.to_tensor([[3.0, 4.0]]), power_iters=3)
        >>> [round(w, 4) for w in out[0].tolist()]
        [0.6, 0.8]
    """
    sizes = [known_size("spectral_norm(weight)", weight, i) for i in range(weight.ndim)]
    return nn.SpectralNorm(sizes, dim, power_iters, eps, weight.dtype)(weight)


def continuous_value_model(input: Tensor, cvm: Tensor, use_cvm: bool = True) -> Tensor:
    """Take the logarithm of the show and click counts in the first two columns, or leave them out.

    The first becomes ``log(show + 1)``, the second ``log(click + 1) - log(show + 1)``. What comes back to ``input`` in
    the place of their gradients is ``cvm``.

    Args:
        input: Tensor of shape ``[N, D]``.
        cvm: Tensor of shape ``[N, 2]``, show and click counts.
        use_cvm: Keep the two columns. Default: True.

    Returns:
        Tensor of shape ``[N, D]``, or ``[N, D - 2]``.

    Examples:
        >>> x = bireme.to_tensor([[0.0, 0.0, 5.0]])
        >>> bireme.static.nn.continuous_value_model(x, bireme.ones([1, 2])).tolist()
        [[0.0, 0.0, 5.0]]
    """
    return continuous_values(input, cvm, bool(use_cvm))


def nce(
    input: Tensor,
    label: Tensor,
    num_total_classes: int,
    sample_weight: Tensor | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Tensor:
    """Compute the noise-contrastive estimation loss: the true classes against a few that are drawn, not all others.

    Args:
        input: Tensor of shape ``[N, D]``.
        label: int64 tensor of shape ``[N, true classes]``.
        num_total_classes: Number of classes.
        sample_weight: Tensor of shape ``[N, 1]``, factors of the losses. Default: None, 1.
        param_attr: A ``ParamAttr`` of the weight ``[num_total_classes, D]``. Default: None.
        bias_attr: A ``ParamAttr`` of the bias ``[num_total_classes, 1]``, or False for none. Default: None.
        num_neg_samples: Number of classes that are drawn. Default: None, 10.
        name: Has no effect.
        sampler: ``"uniform"``, ``"log_uniform"`` or ``"custom_dist"``. Default: ``"uniform"``.
        custom_dist: Probabilities of the classes for ``"custom_dist"``. Default: None.
        seed: Has no effect: the classes are drawn from the stream of ``bireme.seed``.
        is_sparse: Has no effect.

    Returns:
        Tensor of shape ``[N, 1]``.

    Raises:
        ValueError: If ``sampler`` or ``custom_dist`` is not as it should be.

    Examples:
        >>> x, label = bireme.ones([2, 3]), bireme.to_tensor([[0], [1]])
        >>> bireme.static.nn.nce(x, label, 5, num_neg_samples=2).shape
        [2, 1]
    """
    k = 10 if num_neg_samples is None else int(num_neg_samples)
    drawn, chances = _noise(sampler, num_total_classes, custom_dist, input.shape[0], k)
    features = known_size("nce(input)", input, 1)
    make = parameters_of("nce", input.dtype)
    weight = make([num_total_classes, features], param_attr)
    bias = make([num_total_classes, 1], bias_attr, is_bias=True)

    def scores(classes: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities of classes, and how many of each are expected among those drawn."""
        flat, shape = reshape(classes, [-1]), [-1, classes.shape[1]]
        found = (reshape(gather(weight, flat), [*shape, features]) * input.unsqueeze(1)).sum(-1)
        found = found if bias is None else found + reshape(gather(bias, flat), shape)
        return sigmoid(found), reshape(gather(chances, flat), shape) * k

    true, among_true = scores(label)
    noise, among_noise = scores(drawn)
    cost = -log(true / (true + among_true)).sum(1, keepdim=True)
    cost = cost - log(among_noise / (noise + among_noise)).sum(1, keepdim=True)
    if sample_weight is not None:
        cost = cost * reshape(sample_weight, [-1, 1])
    return cost / (k + 1)


def _noise(sampler: str, n: int, custom_dist: Any, rows: int, k: int) -> tuple[Tensor, Tensor]:
    """Classes that are drawn, ``k`` for each row, and the probability of each class."""
    if sampler == "uniform":
        return randint(0, n, [rows, k], "int64"), full([n], 1.0 / n, "float32")
    if sampler == "log_uniform":
        # the inverse of the distribution function log(i + 1) / log(n)
        drawn = (exp(rand([rows, k]) * math.log(n)).astype("int64") - 1).clip(0, n - 1)
        at = np.arange(n)
        return drawn, _constant(np.log((at + 2) / (at + 1)) / math.log(n))
    if sampler != "custom_dist":
        raise errors.bad("nce(sampler)", "'uniform', 'log_uniform' or 'custom_dist'", sampler)
    if custom_dist is None or len(custom_dist) != n:
        raise errors.bad("nce(custom_dist)", f"{n} probabilities", custom_dist)
    chances = _constant(np.asarray(custom_dist))
    return reshape(multinomial(chances, rows * k, True), [rows, k]), chances


def _constant(values: np.ndarray) -> Tensor:
    with building.suspended():
        return Tensor(values.astype(np.float32))


guard_functions(globals())
