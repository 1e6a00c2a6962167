"""`paddle._legacy_C_ops`: kernels by their oldest names and in their oldest form: tensors, then names of attributes, each with its value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bireme import _C_ops, tensor
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor

# kernels that have got other names since, and attributes
_NOW = {
    "elementwise_add": "add", "elementwise_add_": "add_", "elementwise_div": "divide", "elementwise_max": "maximum", "elementwise_min": "minimum",
    "elementwise_mul": "multiply", "elementwise_sub": "subtract", "elementwise_sub_": "subtract_", "expand_v2": "expand",
    "lookup_table_v2": "embedding", "matmul_v2": "matmul", "one_hot_v2": "one_hot", "reduce_all": "all", "reduce_any": "any", "reduce_max": "max",
    "reduce_mean": "mean", "reduce_min": "min", "reduce_prod": "prod", "reduce_sum": "sum", "reshape2": "reshape", "squeeze2": "squeeze",
    "transpose2": "transpose", "unsqueeze2": "unsqueeze",
}  # fmt: skip
# updates, which stand in place now, and how many operands they have: their results were named after them
_UPDATES = {"adam": 9, "adamw": 9, "lamb": 8, "merged_adam": 9, "merged_momentum": 5, "momentum": 5, "sgd": 4}
_ATTRIBUTES = {"axes": "axis", "dim": "axis", "keep_dim": "keepdim", "trans_x": "transpose_x", "trans_y": "transpose_y"}


def mul(x: Tensor, y: Tensor, *attributes: Any) -> Tensor:
    """The product of two matrices, into which the axes before and after `x_num_col_dims`, and `y_num_col_dims`, are flattened.

    >>> bireme._legacy_C_ops.mul(bireme.ones([2, 3, 4]), bireme.ones([4, 5]), "x_num_col_dims", 2).shape
    [2, 3, 5]
    """
    given = _pairs("mul", attributes)
    rows, inner = given.pop("x_num_col_dims", 1), given.pop("y_num_col_dims", 1)
    out = tensor.matmul(tensor.flatten(x, rows, -1).flatten(0, rows - 1), tensor.flatten(y, inner, -1).flatten(0, inner - 1), **given)
    return tensor.reshape(out, [*x.shape[:rows], *y.shape[inner:]])


def instance_norm(x: Tensor, scale: Tensor | None, bias: Tensor | None, *attributes: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel of each sample over its deviation; with the means, and what stands for the deviations: 1 / sqrt(variance + epsilon).

    >>> [t.shape for t in bireme._legacy_C_ops.instance_norm(bireme.ones([2, 3, 4]), None, None, "epsilon", 0.1)]
    [[2, 3, 4], [6], [6]]
    """
    epsilon = _pairs("instance_norm", attributes).pop("epsilon", 1e-5)
    rows = tensor.reshape(x, [x.shape[0] * x.shape[1], -1])
    spread = tensor.rsqrt(tensor.var(rows, 1, unbiased=False) + epsilon)
    return _C_ops.instance_norm(x, scale, bias, epsilon), tensor.mean(rows, 1), spread


def _pairs(name: str, attributes: tuple) -> dict[str, Any]:
    if len(attributes) % 2 or not all(isinstance(n, str) for n in attributes[::2]):
        raise errors.bad(f"{name}(attributes)", "names of attributes, each followed by its value", attributes, kind=TypeError)
    return {_ATTRIBUTES.get(n, n): value for n, value in zip(attributes[::2], attributes[1::2])}


def __getattr__(name: str) -> Callable:
    now, operands = (f"{name}_", _UPDATES[name]) if name in _UPDATES else (_NOW.get(name, name), None)
    kernel = None if name.startswith("__") else getattr(_C_ops, now, None)
    if kernel is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    @functools.wraps(kernel)
    def call(*args: Any) -> Any:
        first = next((i for i, a in enumerate(args) if isinstance(a, str)), len(args))
        return kernel(*args[:first][:operands], **_pairs(name, args[first:]))

    return call
