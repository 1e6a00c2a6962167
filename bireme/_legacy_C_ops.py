"""`paddle._legacy_C_ops`: kernels in the oldest form: tensors, then names of attributes, each followed by its value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bireme import _C_ops, tensor
from bireme.core.base import errors, registry
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models import legacy
from bireme.files.paddle_models.translate import results

# updates, which work in place by now, and how many operands they have: the names of results came after them
_UPDATES = {"adam": 9, "adamw": 9, "lamb": 8, "merged_adam": 9, "merged_momentum": 5, "momentum": 5, "sgd": 4}
_ATTRIBUTES = {"axes": "axis", "dim": "axis", "keep_dim": "keepdim", "trans_x": "transpose_x", "trans_y": "transpose_y"}


def mul(x: Tensor, y: Tensor, *attributes: Any) -> Tensor:
    """Multiply two tensors as matrices: axes before ``num_col_dims`` are flattened to rows, the others to columns.

    Args:
        x: First factor.
        y: Second factor.
        *attributes: Names of attributes, each followed by its value: ``'x_num_col_dims'`` and ``'y_num_col_dims'``,
            each 1 by default.

    Returns:
        Tensor of shape ``x.shape[:x_num_col_dims] + y.shape[y_num_col_dims:]``.

    Examples:
        >>> bireme._legacy_C_ops.mul(bireme.ones([2, 3, 4]), bireme.ones([4, 5]), "x_num_col_dims", 2).shape
        [2, 3, 5]
    """
    given = _pairs("mul", attributes)
    rows, inner = given.pop("x_num_col_dims", 1), given.pop("y_num_col_dims", 1)
    out = tensor.matmul(
        tensor.flatten(x, rows, -1).flatten(0, rows - 1), tensor.flatten(y, inner, -1).flatten(0, inner - 1), **given
    )
    return tensor.reshape(out, [*x.shape[:rows], *y.shape[inner:]])


def instance_norm(
    x: Tensor, scale: Tensor | None, bias: Tensor | None, *attributes: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize over each channel of each sample.

    Args:
        x: Input tensor.
        scale: Scale of each channel, or ``None``.
        bias: Bias of each channel, or ``None``.
        *attributes: Names of attributes, each followed by its value: ``'epsilon'``, the number added to the variance,
            1e-5 by default.

    Returns:
        The normalized tensor, the means, and the reciprocal standard deviations ``1 / sqrt(variance + epsilon)``.

    Examples:
        >>> [t.shape for t in bireme._legacy_C_ops.instance_norm(bireme.ones([2, 3, 4]), None, None, "epsilon", 0.1)]
        [[2, 3, 4], [6], [6]]
    """
    epsilon = _pairs("instance_norm", attributes).pop("epsilon", 1e-5)
    rows = tensor.reshape(x, [x.shape[0] * x.shape[1], -1])
    spread = tensor.rsqrt(tensor.var(rows, 1, unbiased=False) + epsilon)
    return _C_ops.instance_norm(x, scale, bias, epsilon), tensor.mean(rows, 1), spread


def _pairs(name: str, attributes: tuple, renamed: dict[str, str] = _ATTRIBUTES) -> dict[str, Any]:
    if len(attributes) % 2 or not all(isinstance(n, str) for n in attributes[::2]):
        raise errors.bad(
            f"{name}(attributes)",
            "names of attributes, each followed by its value",
            attributes,
            kind=errors.ArgumentTypeError,
        )
    return {renamed.get(n, n): value for n, value in zip(attributes[::2], attributes[1::2])}


def _now(name: str) -> str:
    """The name that a kernel has got since; an inplace one ends with `_`."""
    if hasattr(_C_ops, name):
        return name
    known = registry.OPS.get(registry.known_as(name.removesuffix("_"))[0])
    return name if known is None else known.told + "_" * name.endswith("_")


def _by_slots(name: str, *args: Any) -> Any:
    """A kernel that only programs of the older form know: operands in the order of its slots."""
    first = next((i for i, a in enumerate(args) if isinstance(a, str)), len(args))
    # behind the operands come the numbers of results of slots that have several
    slots = [slot for slot, _ in legacy.ROWS[name].slots]
    given = {
        slot: x if isinstance(x, list) else [x] for slot, x in zip(slots, args[:first], strict=False) if x is not None
    }
    made = results(name, given, _pairs(name, args[first:], {}))
    return made if len(made) > 1 else made[0]


def __getattr__(name: str) -> Callable:
    now, operands = (f"{name}_", _UPDATES[name]) if name in _UPDATES else (_now(name), None)
    kernel = None if name.startswith("__") else getattr(_C_ops, now, None)
    if kernel is None and name in legacy.ROWS:
        return functools.partial(_by_slots, name)
    if kernel is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    @functools.wraps(kernel)
    def call(*args: Any) -> Any:
        first = next((i for i, a in enumerate(args) if isinstance(a, str)), len(args))
        return kernel(*args[:first][:operands], **_pairs(name, args[first:]))

    return call
