"""Pruning of networks by masks, and optimizers that keep the masks."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.incubate.asp.masks import MaskAlgo, create_mask
from bireme.nn.layer import Layer
from bireme.ops import to_tensor
from bireme.optimizer.optimizer import Optimizer

_ALGORITHMS = {
    "mask_1d": MaskAlgo.MASK_1D,
    "mask_2d_greedy": MaskAlgo.MASK_2D_GREEDY,
    "mask_2d_best": MaskAlgo.MASK_2D_BEST,
}
_masks: dict[int, tuple[weakref.ref, Tensor]] = {}  # by identity, while the parameter lives
_excluded: set[str] = set()


def _default(weight: np.ndarray, m: int, n: int, func_name: MaskAlgo, param_name: str) -> tuple[np.ndarray, np.ndarray]:
    """Matrices [in, out] are pruned along the inputs, and so are kernels; what has fewer than m of these stays."""
    if weight.ndim not in (2, 4) or weight.shape[1 if weight.ndim == 4 else 0] < m:
        return weight, np.ones_like(weight)
    if weight.ndim == 2:
        mask = create_mask(weight.T, func_name, n, m).T
    else:
        mask = create_mask(weight, func_name, n, m)
    return weight * mask, mask


_supported: dict[str | type, Callable] = {"fc": _default, "linear": _default, "conv2d": _default}


def _kind(name: str) -> str:
    """The kind in a name that was generated: `linear` of `linear_3`."""
    return re.sub(r"_\d+$", "", name)


def set_excluded_layers(param_names: Sequence[str], main_program: Any = None) -> None:
    """Leave parameters out when a model is pruned.

    Args:
        param_names: Names of parameters, or of layers as ``full_name()`` returns them.
        main_program: Not used: names are those of all models. Default: None.

    Raises:
        TypeError: If something else than names is given.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(8, 8), bireme.nn.Linear(8, 8))
        >>> bireme.incubate.asp.set_excluded_layers([net[0].full_name()])
        >>> list(bireme.incubate.asp.prune_model(net)) == [net[1].weight.name]
        True
        >>> bireme.incubate.asp.reset_excluded_layers()
    """
    if isinstance(param_names, str) or not all(isinstance(name, str) for name in param_names):
        raise errors.bad(
            "set_excluded_layers(param_names)", "a list of names", param_names, kind=errors.ArgumentTypeError
        )
    _excluded.update(param_names)


def reset_excluded_layers(main_program: Any = None) -> None:
    """Leave nothing out any longer when a model is pruned.

    Args:
        main_program: Not used: names are those of all models. Default: None.

    Examples:
        >>> bireme.incubate.asp.reset_excluded_layers()
    """
    _excluded.clear()


def add_supported_layer(layer: type[Layer] | Layer | str, pruning_func: Callable | None = None) -> None:
    """Prune a further class of layers.

    Args:
        layer: Class of layers, a layer of it, or its name as it begins names, such as ``'linear'``.
        pruning_func: Function that is called with the weight as a NumPy array, m, n, a ``MaskAlgo`` and the name of
            the parameter, and returns the pruned weight and its mask. Default: None, what ``Linear`` and ``Conv2D``
            have.

    Raises:
        TypeError: If something else is given.

    Examples:
        >>> class Mine(bireme.nn.Linear):
        ...     pass
        >>> bireme.incubate.asp.add_supported_layer(Mine)
        >>> len(bireme.incubate.asp.prune_model(Mine(8, 8)))
        1
    """
    kind = type(layer) if isinstance(layer, Layer) else layer
    if not isinstance(kind, str) and not (isinstance(kind, type) and issubclass(kind, Layer)):
        raise errors.bad(
            "add_supported_layer(layer)", "a class of layers, a layer or a name", layer, kind=errors.ArgumentTypeError
        )
    if pruning_func is not None:
        errors.check_function("add_supported_layer(pruning_func)", pruning_func)
    _supported[kind] = pruning_func or _default


def prune_model(
    model: Layer, n: int = 2, m: int = 4, mask_algo: str = "mask_1d", with_mask: bool = True
) -> dict[str, Tensor]:
    """Set weights of a model to zero, so that n of every m along their inputs are left.

    Args:
        model: Layer; its ``Linear`` and ``Conv2D`` are pruned, and what ``add_supported_layer`` added.
        n: How many are kept. Default: 2.
        m: Of how many. Default: 4.
        mask_algo: ``'mask_1d'``, ``'mask_2d_greedy'`` or ``'mask_2d_best'``. Default: ``'mask_1d'``.
        with_mask: Keep the masks for optimizers that ``decorate`` returns. Default: True.

    Returns:
        Masks by the names of the parameters.

    Raises:
        ValueError: If ``mask_algo`` is not known, or ``n`` is not in 1 to ``m``.
        TypeError: If ``model`` is no layer.

    Examples:
        >>> net = bireme.nn.Linear(8, 4)
        >>> masks = bireme.incubate.asp.prune_model(net)
        >>> bireme.incubate.asp.calculate_density(net.weight)
        0.5
    """
    if not isinstance(model, Layer):
        raise errors.bad("prune_model(model)", "a layer", model, kind=errors.ArgumentTypeError)
    if mask_algo not in _ALGORITHMS:
        raise errors.bad("prune_model(mask_algo)", f"one of {', '.join(map(repr, _ALGORITHMS))}", mask_algo)
    for name, k in (("n", n), ("m", m)):
        errors.check_integer(f"prune_model({name})", k)
    if not 0 < n <= m:
        raise errors.bad("prune_model(n)", f"a number from 1 to m = {m}", n)
    found: dict[str, Tensor] = {}
    for layer in model.sublayers(include_self=True):
        function = _supported.get(type(layer)) or _supported.get(_kind(layer.full_name()))
        for parameter in layer._parameters.values():
            if function is None or parameter is None or parameter.ndim < 2 or _is_excluded(layer, parameter):
                continue
            weight, mask = function(parameter.numpy(), m, n, _ALGORITHMS[mask_algo], parameter.name)
            parameter.set_value(np.ascontiguousarray(weight, parameter.numpy().dtype))
            kept = to_tensor(np.ascontiguousarray(mask)).astype(parameter.dtype)
            found[parameter.name] = kept
            if with_mask:
                _keep(parameter, kept)
    return found


def _keep(parameter: Parameter, mask: Tensor) -> None:
    key = id(parameter)
    _masks[key] = weakref.ref(parameter, lambda _: _masks.pop(key, None)), mask


def _is_excluded(layer: Layer, parameter: Any) -> bool:
    return parameter.name in _excluded or layer.full_name() in _excluded


def decorate(optimizer: Optimizer) -> Optimizer:
    """Let an optimizer keep the masks of ``prune_model``: what they set to zero is zero after every step.

    Args:
        optimizer: Optimizer. It may be decorated before or after the model is pruned.

    Returns:
        The decorated optimizer, to be used in its place.

    Raises:
        TypeError: If it is no optimizer.

    Examples:
        >>> net = bireme.nn.Linear(8, 4)
        >>> optimizer = bireme.incubate.asp.decorate(bireme.optimizer.SGD(0.1, parameters=net.parameters()))
        >>> masks = bireme.incubate.asp.prune_model(net)
        >>> net(bireme.ones([1, 8])).sum().backward()
        >>> optimizer.step()
        >>> bireme.incubate.asp.calculate_density(net.weight)
        0.5
    """
    if not isinstance(optimizer, Optimizer):
        raise errors.bad("decorate(optimizer)", "an optimizer", optimizer, kind=errors.MissingAttributeError)
    return OptimizerWithSparsityGuarantee(optimizer)  # type: ignore[return-value]  # it has all of its attributes


class OptimizerWithSparsityGuarantee:
    """An optimizer that sets pruned weights to zero again after each step; all else is the optimizer's own."""

    def __init__(self, optimizer: Optimizer):
        self._optimizer = optimizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)

    def step(self) -> None:
        """Update the parameters, and set what was pruned to zero."""
        self._optimizer.step()
        self._mask()

    def minimize(self, loss: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Update the parameters once for a loss, and set what was pruned to zero.

        Args:
            loss: Tensor of one element.
            *args: What else the optimizer's ``minimize`` takes.
            **kwargs: The same by keyword.

        Returns:
            What it returns.
        """
        found = self._optimizer.minimize(loss, *args, **kwargs)
        self._mask()
        return found

    def _mask(self) -> None:
        with no_grad():
            for parameter in _listed(self._optimizer._parameter_list or []):
                found = _masks.get(id(parameter))
                if found is not None:
                    parameter.set_value(parameter * found[1])


def _listed(given: Any) -> list[Parameter]:
    """Parameters, also of groups of them."""
    found: list[Parameter] = []
    for one in given:
        found += list(one["params"]) if isinstance(one, dict) else [one]
    return found


guard_functions(globals())
