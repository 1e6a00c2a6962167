"""All parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import concat


@no_grad()
def parameters_to_vector(parameters: Iterable[Tensor], name: str | None = None) -> Tensor:
    """Concatenate all parameters into one vector.

    Args:
        parameters: Iterable of parameters of one data type, at least one.
        name: Not used; kept for Paddle's signature.

    Returns:
        Tensor with one axis, which has no gradient history.

    Examples:
        >>> bireme.nn.utils.parameters_to_vector([bireme.ones([2]), bireme.zeros([1, 2])]).tolist()
        [1.0, 1.0, 0.0, 0.0]
    """
    given = _tensors("parameters_to_vector(parameters)", parameters)
    if not given:
        raise errors.bad(
            "parameters_to_vector(parameters)", "at least one parameter", described="none", kind=errors.OutOfRangeError
        )
    for p in given:
        if p.dtype is not given[0].dtype:
            raise errors.bad(
                "parameters_to_vector(parameters)",
                f"parameters of one dtype, {given[0].dtype.name}",
                described=p.dtype.name,
            )
    out = concat([p.reshape([-1]) for p in given])
    out.stop_gradient = False
    return out


@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor], name: str | None = None) -> None:
    """Copy the elements of a vector into parameters, one parameter after the other.

    Args:
        vec: The vector; elements beyond the size of all parameters are not used.
        parameters: Iterable of parameters, which are changed inplace.
        name: Not used; kept for Paddle's signature.

    Examples:
        >>> p, q = bireme.ones([2]), bireme.zeros([1])
        >>> bireme.nn.utils.vector_to_parameters(bireme.to_tensor([3.0, 4.0, 5.0]), [p, q])
        >>> (p.tolist(), q.tolist())
        ([3.0, 4.0], [5.0])
    """
    given = _tensors("vector_to_parameters(parameters)", parameters)
    if not isinstance(vec, Tensor):
        raise errors.bad("vector_to_parameters(vec)", "a Tensor", vec, kind=errors.NotATensorError)
    needed = sum(p.size for p in given)
    if vec.size < needed:
        raise errors.bad(
            "vector_to_parameters(vec)",
            f"at least {needed} elements",
            described=f"shape {vec.shape}",
            kind=errors.ShapeError,
        )
    flat, start = vec.reshape([-1]), 0
    for p in given:
        part = flat[start : start + p.size].reshape(p.shape)
        p._assign_value(part if part.dtype is p.dtype else part.astype(p.dtype))
        start += p.size


def _tensors(where: str, parameters: Iterable[Tensor]) -> list[Tensor]:
    given = list(parameters) if isinstance(parameters, Iterable) else [parameters]
    for p in given:
        if not isinstance(p, Tensor):
            raise errors.bad(where, "parameters", p, kind=errors.NotATensorError)
    return given


guard_functions(globals())
