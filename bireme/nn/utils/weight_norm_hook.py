"""Weights computed before each forward from other parameters: weight normalization and spectral normalization."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.nn.initializer import Constant
from bireme.nn.layer import Layer
from bireme.ops import clip, matmul, randn, sqrt, transpose
from bireme.ops.reduction.reductions import single

# layers whose weight has the outputs on the second axis
_SECOND = ("Linear", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")


class _WeightNorm:
    """Hook for one weight: norms along ``dim``, or one norm of the whole weight if it is None."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, dim

    def _axes(self, v: Tensor) -> list[int] | None:
        return None if self.dim is None else [i for i in range(v.ndim) if i != self.dim]

    def length(self, v: Tensor) -> Tensor:
        axes, square = self._axes(v), single(v).square()
        return sqrt(square.sum() if axes is None else square.sum(axes) if axes else square).astype(v.dtype)

    def weight(self, layer: Layer) -> Tensor:
        g, v = getattr(layer, f"{self.name}_g"), getattr(layer, f"{self.name}_v")
        axes, square = self._axes(v), single(v).square()
        if axes is None:
            return v * (g / sqrt(square.sum() + 1e-12)).astype(v.dtype)
        total = square.sum(axes, keepdim=True) if axes else square
        shape = [-1 if i == self.dim else 1 for i in range(v.ndim)]
        return v * (g.reshape(shape) / sqrt(clip(total, min=1e-12))).astype(v.dtype)

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.weight(layer))


def weight_norm(layer: Layer, name: str = "weight", dim: int | None = 0) -> Layer:
    """Reparametrize a weight by its norm and its direction: ``weight = weight_g * weight_v / norm(weight_v)``.

    The parameter ``weight`` is replaced by ``weight_g`` and ``weight_v``; the weight is computed before each
    ``forward``.

    Args:
        layer: The layer, which is changed inplace.
        name: Name of the parameter. Default: ``'weight'``.
        dim: Axis along which each index has a norm of its own; None or -1 for one norm of the whole weight. Default: 0.

    Returns:
        ``layer`` itself.

    Examples:
        >>> layer = bireme.nn.utils.weight_norm(bireme.nn.Linear(2, 3), dim=1)
        >>> layer.weight_g.shape, [k for k, _ in layer.named_parameters()]
        ([3], ['bias', 'weight_v', 'weight_g'])
    """
    weight = _taken("weight_norm", layer, name, _WeightNorm)
    if dim is not None and dim != -1 and not -weight.ndim <= dim < weight.ndim:
        raise errors.bad(
            "weight_norm(dim)",
            f"an axis in [{-weight.ndim}, {weight.ndim - 1}] or None",
            dim,
            kind=errors.ArgumentError,
        )
    # in Paddle -1 means the whole weight
    hook = _WeightNorm(name, None if dim is None or dim == -1 else dim % weight.ndim)
    with no_grad():
        length = hook.length(weight)
    delattr(layer, name)
    _add(layer, f"{name}_v", weight)
    _add(layer, f"{name}_g", length)
    hook(layer, ())
    layer.register_forward_pre_hook(hook)
    return layer


def remove_weight_norm(layer: Layer, name: str = "weight") -> Layer:
    """Turn a weight that ``weight_norm`` reparametrized back into one parameter.

    Args:
        layer: The layer, which is changed inplace.
        name: Name of the parameter. Default: ``'weight'``.

    Returns:
        ``layer`` itself.

    Examples:
        >>> layer = bireme.nn.utils.remove_weight_norm(bireme.nn.utils.weight_norm(bireme.nn.Linear(2, 3)))
        >>> [k for k, _ in layer.named_parameters()]
        ['bias', 'weight']
    """
    for key, (hook, _) in layer._forward_pre_hooks.items():
        if isinstance(hook, _WeightNorm) and hook.name == name:
            with no_grad():
                weight = hook.weight(layer)
            for held in (name, f"{name}_g", f"{name}_v"):
                delattr(layer, held)
            _add(layer, name, weight)
            del layer._forward_pre_hooks[key]
            return layer
    raise errors.bad("remove_weight_norm(name)", "a weight that weight_norm split", name)


class _SpectralNorm:
    """Hook for one weight, whose axis ``dim`` is the rows of a matrix."""

    def __init__(self, name: str, rounds: int, eps: float, dim: int):
        self.name, self.rounds, self.eps, self.dim = name, rounds, eps, dim

    def matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = transpose(weight, [self.dim, *(i for i in range(weight.ndim) if i != self.dim)])
        return weight.reshape([weight.shape[0], -1])

    def unit(self, x: Tensor) -> Tensor:
        return x / clip(sqrt(single(x).square().sum()), min=self.eps).astype(x.dtype)

    def weight(self, layer: Layer, iterate: bool) -> Tensor:
        weight, u, v = (getattr(layer, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.matrix(weight)
        if iterate:
            with no_grad():
                held = u, v
                for _ in range(self.rounds):
                    v = self.unit(matmul(matrix, u, transpose_x=True))
                    u = self.unit(matmul(matrix, v))
                for buffer, value in zip(held, (u, v)):
                    buffer._assign_value(value)
        return weight / (u * matmul(matrix, v)).sum()

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.weight(layer, layer.training))


def spectral_norm(
    layer: Layer, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Layer:
    """Divide a weight by its largest singular value before each ``forward``.

    The singular value is estimated by power iteration, which continues from the vectors of the last call in training
    and leaves them as they are in evaluation. The parameter ``weight`` becomes ``weight_orig``, with the buffers
    ``weight_u`` and ``weight_v``.

    Args:
        layer: The layer, which is changed inplace.
        name: Name of the parameter. Default: ``'weight'``.
        n_power_iterations: Number of power iterations in each call. Default: 1.
        eps: Least norm of the vectors. Default: 1e-12.
        dim: Axis of the outputs. Default: None, 1 for ``Linear`` and transposed convolutions, else 0.

    Returns:
        ``layer`` itself.

    Examples:
        >>> layer = bireme.nn.utils.spectral_norm(bireme.nn.Linear(2, 2))
        >>> sorted(layer.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = _taken("spectral_norm", layer, name, _SpectralNorm)
    if n_power_iterations <= 0:
        raise errors.bad(
            "spectral_norm(n_power_iterations)",
            "a positive integer",
            n_power_iterations,
            kind=errors.for_number(n_power_iterations),
        )
    if dim is None:
        dim = 1 if any(cls.__name__ in _SECOND for cls in type(layer).__mro__) else 0
    if not -weight.ndim <= dim < weight.ndim:
        raise errors.bad(
            "spectral_norm(dim)", f"an axis in [{-weight.ndim}, {weight.ndim - 1}]", dim, kind=errors.OutOfRangeError
        )
    hook = _SpectralNorm(name, n_power_iterations, eps, dim % weight.ndim)
    delattr(layer, name)
    layer.add_parameter(f"{name}_orig", weight)
    setattr(layer, name, weight * 1.0)
    rows = weight.shape[hook.dim]
    with no_grad():
        for part, size in (("u", rows), ("v", weight.size // max(rows, 1))):
            layer.register_buffer(f"{name}_{part}", hook.unit(randn([size], weight.dtype)))
    layer.register_forward_pre_hook(hook)
    return layer


def _taken(where: str, layer: Layer, name: str, kind: type) -> Parameter:
    for hook, _ in layer._forward_pre_hooks.values():
        if isinstance(hook, kind) and hook.name == name:
            raise errors.bad(
                f"{where}(layer)",
                f"a layer without {where} on {name}",
                described="a layer that has it",
                kind=RuntimeError,
            )
    weight = layer._parameters.get(name)
    if weight is None:
        known = ", ".join(map(repr, layer._parameters))
        raise errors.bad(
            f"{where}(name)",
            f"one of {known}" if known else f"a parameter of the layer, and {type(layer).__name__} has none",
            name,
            kind=errors.MissingKeyError,
        )
    return weight


def _add(layer: Layer, name: str, value: Tensor) -> None:
    param = layer.create_parameter(value.shape, dtype=value.dtype, default_initializer=Constant(0.0))
    assert param is not None
    param._assign_value(value.detach())
    layer.add_parameter(name, param)


guard_functions(globals())
