"""Losses of each element by itself, as layers, and the class that layers of loss functions have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.nn.layer import Layer
from bireme.ops import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)  # fmt: skip

_REDUCTIONS = ("mean", "sum", "none")
_RESULT = "Tensor without axes, or with all losses if ``reduction`` is ``'none'``."


def checked_reduction(where: str, reduction: str) -> str:
    if reduction not in _REDUCTIONS:
        raise errors.bad(f"{where}(reduction)", "'mean', 'sum' or 'none'", reduction, kind=errors.ArgumentError)
    return reduction


class Loss(Layer):
    """A layer that applies a loss function, with arguments fixed when the layer was made."""

    _function: Callable[..., Any]
    _defaults: dict[str, Any]
    _prefix = ""  # of the attributes that keep the arguments

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        names = list(self._defaults)
        given = {**self._defaults, **dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or len(given) > len(names):
            got = next((repr(k) for k in kwargs if k not in names), f"{len(args)} arguments")
            raise errors.bad(
                f"{type(self).__name__}()",
                f"arguments {', '.join(names)}",
                described=got,
                kind=errors.ArgumentTypeError,
            )
        if "reduction" in given and type(self)._function is not kl_div:
            checked_reduction(type(self).__name__, given["reduction"])
        if type(self)._function is poisson_nll_loss and not given["epsilon"] > 0:
            raise errors.bad(
                "PoissonNLLLoss(epsilon)",
                "a positive number",
                given["epsilon"],
                kind=errors.for_number(given["epsilon"]),
            )
        for name, value in given.items():
            setattr(self, self._prefix + name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss.

        Args:
            *args: What the loss function takes, by position.
            **kwargs: The same by name.

        Returns:
            What the loss function returns.
        """
        fixed = {name: getattr(self, self._prefix + name) for name in self._defaults if name != "name"}
        return type(self)._function(*args, **kwargs, **fixed)


_PRIVATE = ("NLLLoss", "PoissonNLLLoss")  # those of which Paddle keeps the arguments in private attributes


def loss_class(
    home: str, title: str, function: Callable[..., Any], doc: str, inputs: dict[str, str], /, **defaults: Any
) -> type[Loss]:
    """A class of the module `home` for the loss function; ``inputs`` says what each argument of its ``forward`` means."""
    body = {"_function": staticmethod(function), "_defaults": defaults, "__doc__": doc, "__module__": home}
    body["_prefix"] = "_" if title in _PRIVATE else ""
    cls = type(title, (Loss,), body)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    types = function.__annotations__
    arguments = [inspect.Parameter(k, keyword, default=v, annotation=types.get(k, "Any")) for k, v in defaults.items()]
    cls.__signature__ = inspect.Signature(arguments)

    def forward(self: Loss, *args: Any, **kwargs: Any) -> Any:
        return Loss.forward(self, *args, **kwargs)

    given = [inspect.Parameter(k, keyword, annotation="Tensor") for k in inputs]
    forward.__signature__ = inspect.Signature([inspect.Parameter("self", keyword), *given], return_annotation="Tensor")
    meanings = "\n".join(f"    {name}: {meaning}" for name, meaning in inputs.items())
    forward.__doc__ = f"Compute the loss.\n\nArgs:\n{meanings}\n\nReturns:\n    {_RESULT}\n"
    forward.__qualname__ = f"{title}.forward"
    cls.forward = forward
    return cls


MSELoss = loss_class(
    __name__,
    "MSELoss",
    mse_loss,
    """Mean squared error: the mean of ``(input - label) ** 2``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Shape:
        - input: any shape
        - label: a shape that broadcasts with that of ``input``
        - output: a number, or the common shape with ``'none'``

    Examples:
        >>> bireme.nn.MSELoss()(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
        2.0
    """,
    {"input": "Predictions, of any shape.", "label": "Targets, of a shape that broadcasts with that of ``input``."},
    reduction="mean",
)

L1Loss = loss_class(
    __name__,
    "L1Loss",
    l1_loss,
    """Mean absolute error: the mean of ``abs(input - label)``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: a shape that broadcasts with that of ``input``
        - output: a number, or the common shape with ``'none'``

    Examples:
        >>> bireme.nn.L1Loss()(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
        1.0
    """,
    {"input": "Predictions, of any shape.", "label": "Targets, of a shape that broadcasts with that of ``input``."},
    reduction="mean",
    name=None,
)

SmoothL1Loss = loss_class(
    __name__,
    "SmoothL1Loss",
    smooth_l1_loss,
    """Huber loss: quadratic for differences up to ``delta``, linear beyond.

    With ``d = abs(input - label)`` it is ``0.5 * d ** 2`` where ``d <= delta``, else ``delta * (d - 0.5 * delta)``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        delta: Where the loss becomes linear. Default: 1.0.
        is_huber: ``False`` divides the loss by ``delta``, which gives the smooth L1 loss. Default: True.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> bireme.nn.SmoothL1Loss(delta=2.0)(bireme.to_tensor([4.0]), bireme.to_tensor([0.0])).item()
        6.0
    """,
    {"input": "Predictions, of any shape.", "label": "Targets of the same shape."},
    reduction="mean",
    delta=1.0,
    is_huber=True,
    name=None,
)

BCELoss = loss_class(
    __name__,
    "BCELoss",
    binary_cross_entropy,
    """Binary cross entropy of probabilities: ``-label * log(input) - (1 - label) * log(1 - input)``.

    Logarithms are limited to at least -100. For logits use ``BCEWithLogitsLoss``, which is more accurate.

    Args:
        weight: Tensor that the loss of each element is multiplied by; it broadcasts. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> round(bireme.nn.BCELoss()(bireme.to_tensor([0.5]), bireme.to_tensor([1.0])).item(), 4)
        0.6931
    """,
    {
        "input": "Probabilities in ``[0, 1]``, of any shape.",
        "label": "Targets in ``[0, 1]``, of the same shape; they get no gradient.",
    },
    weight=None,
    reduction="mean",
    name=None,
)

BCEWithLogitsLoss = loss_class(
    __name__,
    "BCEWithLogitsLoss",
    binary_cross_entropy_with_logits,
    """Binary cross entropy of logits: ``BCELoss`` of their sigmoid, computed without overflow.

    Args:
        weight: Tensor that the loss of each element is multiplied by; it broadcasts. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        pos_weight: Tensor that the terms of positive labels are multiplied by; it broadcasts. Default: None.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - logit: any shape
        - label: the shape of ``logit``
        - output: a number, or the shape of ``logit`` with ``'none'``

    Examples:
        >>> round(bireme.nn.BCEWithLogitsLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
        0.6931
    """,
    {"logit": "Logits, of any shape.", "label": "Targets in ``[0, 1]``, of the same shape; they get no gradient."},
    weight=None,
    reduction="mean",
    pos_weight=None,
    name=None,
)

KLDivLoss = loss_class(
    __name__,
    "KLDivLoss",
    kl_div,
    """Kullback-Leibler divergence: ``label * (log(label) - input)``, 0 where the label is 0.

    Args:
        reduction: ``'mean'`` over all elements, ``'batchmean'`` for the sum divided by the batch size, which is the
            divergence itself, ``'sum'``, or ``'none'``. Default: ``'mean'``.
        log_target: Labels are log-probabilities. Default: False.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> round(bireme.nn.KLDivLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([0.5])).item(), 4)
        -0.3466
    """,
    {
        "input": "Log-probabilities, of any shape.",
        "label": "Probabilities of the same shape, or their logarithms; they get no gradient.",
    },
    reduction="mean",
    log_target=False,
)

GaussianNLLLoss = loss_class(
    __name__,
    "GaussianNLLLoss",
    gaussian_nll_loss,
    """Negative log-likelihood under normal distributions: ``0.5 * (log(var) + (input - label) ** 2 / var)``.

    Args:
        full: Add the constant ``0.5 * log(2 * pi)``. Default: False.
        epsilon: Least value of the variance. Default: 1e-6.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - variance: the shape of ``input``, or without its last axis, or with size 1 there
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> one = bireme.to_tensor([1.0])
        >>> bireme.nn.GaussianNLLLoss()(one, one * 3, one).item()
        2.0
    """,
    {"input": "Means of the distributions.", "label": "Observed values.", "variance": "Variances, non-negative."},
    full=False,
    epsilon=1e-6,
    reduction="mean",
    name=None,
)

PoissonNLLLoss = loss_class(
    __name__,
    "PoissonNLLLoss",
    poisson_nll_loss,
    """Negative log-likelihood of counts under Poisson distributions.

    It is ``exp(input) - label * input``, or without ``log_input`` ``input - label * log(input + epsilon)``.

    Args:
        log_input: ``input`` is the logarithm of the rate. Default: True.
        full: Add Stirling's approximation of ``log(label!)`` where the label is greater than 1. Default: False.
        epsilon: Number above 0 that is added to the rate inside of the logarithm. Default: 1e-8.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> bireme.nn.PoissonNLLLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([2.0])).item()
        1.0
    """,
    {"input": "Rates of the distributions, or their logarithms.", "label": "Observed counts, of the same shape."},
    log_input=True,
    full=False,
    epsilon=1e-8,
    reduction="mean",
    name=None,
)
