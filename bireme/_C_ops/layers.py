"""Kernels of Paddle's older layers, which have no public function of their own, as `paddle._C_ops` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import tensor
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional, initializer
from bireme.ops import identity_loss, swiglu

__all__ = ["identity_loss", "swiglu"]


def _channels(x: Tensor, numbers: Tensor, layout: str) -> Tensor:
    """One number a channel, in a shape that fits beside the image."""
    shape = [1] * x.ndim
    shape[x.ndim - 1 if layout == "NHWC" else 1] = -1
    return tensor.reshape(numbers, shape)


def affine_channel(x: Tensor, scale: Tensor, bias: Tensor, data_layout: str = "AnyLayout") -> Tensor:
    """Each channel times a number, plus another.

    >>> bireme._C_ops.affine_channel(bireme.ones([1, 2, 1, 1]), bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([0.0, 1.0]), "NCHW").flatten().tolist()
    [1.0, 3.0]
    """
    return tensor.add(tensor.multiply(x, _channels(x, scale, data_layout)), _channels(x, bias, data_layout))


def affine_channel_(x: Tensor, scale: Tensor, bias: Tensor, data_layout: str = "AnyLayout") -> Tensor:
    """The same in place."""
    return tensor.assign(affine_channel(x, scale, bias, data_layout), x)


def add_position_encoding(x: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """`alpha` times a sequence plus `beta` times sines of its places in the first half of the features, cosines in the second.

    >>> bireme._C_ops.add_position_encoding(bireme.ones([1, 1, 4]), 2.0, 1.0).tolist()
    [[[2.0, 2.0, 3.0, 3.0]]]
    """
    steps, half = x.shape[1], x.shape[2] // 2
    if x.ndim != 3 or x.shape[2] % 2:
        raise errors.bad("add_position_encoding(x)", "shape [batch, steps, an even number of features]", f"shape {x.shape}")
    rates = tensor.pow(tensor.full([half], 10000.0, x.dtype), tensor.arange(half, dtype=x.dtype) / -max(half - 1, 1))
    if half == 1:
        rates = tensor.full([1], 1e-4, x.dtype)
    angles = tensor.outer(tensor.arange(steps, dtype=x.dtype), rates)
    return x * alpha + tensor.concat([tensor.sin(angles), tensor.cos(angles)], 1) * beta


def swiglu_grad(x: Tensor, y: Tensor | None, out_grad: Tensor) -> tuple[Tensor, Tensor | None]:
    """The gradients of `swiglu` from that of its result; without `y`, that of both halves of `x` is one.

    >>> [t.tolist() for t in bireme._C_ops.swiglu_grad(bireme.to_tensor([0.0]), bireme.to_tensor([2.0]), bireme.to_tensor([3.0]))]
    [[3.0], [0.0]]
    """
    gate, value = tensor.chunk(x, 2, -1) if y is None else (x, y)
    open = tensor.sigmoid(gate)
    of_gate, of_value = out_grad * value * open * (1.0 + gate * (1.0 - open)), out_grad * gate * open
    return (tensor.concat([of_gate, of_value], -1), None) if y is None else (of_gate, of_value)


def hinge_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """How far scores are from one on the side that labels, 0 or 1, say.

    >>> bireme._C_ops.hinge_loss(bireme.to_tensor([0.5, -2.0]), bireme.to_tensor([1.0, 0.0])).tolist()
    [0.5, 0.0]
    """
    return functional.relu(1.0 - logits * (2.0 * labels - 1.0))


def shuffle_channel(x: Tensor, group: int = 1) -> Tensor:
    """Channels dealt out over the groups."""
    return functional.channel_shuffle(x, group)


def _columns(x: Sequence[Tensor], start: int, length: int) -> list[Tensor]:
    begin = start + x[0].shape[1] if start < 0 else start
    end = x[0].shape[1] if length < 0 else begin + length
    return [tensor.slice(t, [1], [begin], [end]) for t in x]


def partial_concat(x: Sequence[Tensor], start_index: int = 0, length: int = -1) -> Tensor:
    """The same columns of several tensors, side by side.

    >>> bireme._C_ops.partial_concat([bireme.to_tensor([[1, 2, 3]]), bireme.to_tensor([[4, 5, 6]])], 1, 2).tolist()
    [[2, 3, 5, 6]]
    """
    return tensor.concat(_columns(x, start_index, length), 1)


def partial_sum(x: Sequence[Tensor], start_index: int = 0, length: int = -1) -> Tensor:
    """The sum of the same columns of several tensors."""
    return tensor.add_n(_columns(x, start_index, length))


def batch_norm(x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor | None, bias: Tensor | None, is_test: bool, momentum: float,
               epsilon: float, data_format: str, use_global_stats: bool, trainable_statistics: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """Normalised over the batch; the running numbers change in place. Mean and 1 / deviation of the batch come with it, and an empty reserve."""
    training = trainable_statistics or not is_test
    layout = data_format if x.ndim > 2 else "NC"
    out = functional.batch_norm(x, mean, variance, scale, bias, training, momentum, epsilon, layout, use_global_stats or None)
    if not training or use_global_stats:
        none = tensor.zeros_like(mean)
        return out, mean, variance, none, none, tensor.zeros([0], x.dtype)
    axes = [i for i in range(x.ndim) if i != (x.ndim - 1 if data_format[-1] == "C" and x.ndim > 2 else 1)]
    wide = x.detach().astype(mean.dtype)  # type: ignore[attr-defined]  # installed by core.view
    spread = tensor.rsqrt(tensor.var(wide, axes, unbiased=False) + epsilon)
    return out, mean, variance, tensor.mean(wide, axes), spread, tensor.zeros([0], "uint8")


batch_norm_ = batch_norm


def accuracy(x: Tensor, indices: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The part of the rows whose label is among their indices, how many those are, and of how many.

    >>> [t.item() for t in bireme._C_ops.accuracy(bireme.ones([2, 1]), bireme.to_tensor([[1], [0]]), bireme.to_tensor([[1], [1]]))]
    [0.5, 1, 2]
    """
    hit = tensor.any(tensor.equal(indices, tensor.cast(tensor.reshape(label, [-1, 1]), indices.dtype)), 1)
    right = tensor.sum(tensor.cast(hit, "int32"), dtype="int32")
    count = tensor.full([], indices.shape[0], "int32")
    return tensor.cast(right, "float32") / tensor.cast(count, "float32"), right, count


def variance(x: Tensor, axis: Any = (), keepdim: bool = False) -> Tensor:
    """The mean square of what is beside the mean."""
    return tensor.var(x, list(axis) or None, False, keepdim)


def _like(input: Tensor, shape: Sequence[int], source: int, target: int) -> list[int]:
    sizes = list(shape)
    sizes[target] = input.shape[source]
    return sizes


def full_batch_size_like(input: Tensor, shape: Sequence[int], dtype: Any, value: Any, input_dim_idx: int = 0, output_dim_idx: int = 0,
                         place: Any = None) -> Tensor:  # fmt: skip
    """Equal numbers in a shape that has one extent of another tensor.

    >>> bireme._C_ops.full_batch_size_like(bireme.ones([3, 2]), [-1, 1], "float32", 2.0, 0, 0).tolist()
    [[2.0], [2.0], [2.0]]
    """
    return tensor.full(_like(input, shape, input_dim_idx, output_dim_idx), value, dtype)


def uniform_random_batch_size_like(input: Tensor, shape: Sequence[int], input_dim_idx: int = 0, output_dim_idx: int = 0, min: float = -1.0,
                                   max: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0, diag_val: float = 1.0,
                                   dtype: Any = "float32") -> Tensor:  # fmt: skip
    """Uniform numbers in such a shape."""
    return tensor.uniform(_like(input, shape, input_dim_idx, output_dim_idx), dtype, min, max, seed)


def shape(input: Tensor) -> Tensor:
    """The extents as int32."""
    return tensor.cast(tensor.shape(input), "int32")


def shape64(input: Tensor) -> Tensor:
    """The extents as int64."""
    return tensor.cast(tensor.shape(input), "int64")


def view_slice(input: Tensor, begin_idx: int, end_idx: int) -> Tensor:
    """A part of the first axis, which shares its elements."""
    return input[begin_idx:end_idx]  # type: ignore[index]  # installed by ops.index


def npu_identity(x: Tensor, format: int = -1) -> Tensor:
    """The tensor as it is."""
    return tensor.assign(x)


def memcpy_h2d(x: Tensor, dst_place_type: int) -> Tensor:
    """A copy."""
    return tensor.assign(x)


memcpy_d2h = memcpy_h2d


def share_data(x: Tensor) -> Tensor:
    """The same elements under another name."""
    return x.detach()  # type: ignore[attr-defined]  # installed by core.view


# ---------------------------------------------------------------- in place, and random numbers


def silu_(x: Tensor) -> Tensor:
    """x times its sigmoid, in place."""
    return tensor.assign(functional.silu(x), x)


def bce_loss_(input: Tensor, label: Tensor) -> Tensor:
    """Binary cross entropy of each element, in place."""
    return tensor.assign(functional.binary_cross_entropy(input, label, reduction="none"), input)


def identity_loss_(x: Tensor, reduction: int = 1) -> Tensor:
    """A loss as it is, its sum or its mean, in place."""
    return tensor.assign(identity_loss(x, reduction), x)


def dirichlet(alpha: Tensor) -> Tensor:
    """Numbers of a Dirichlet distribution: parts of one along the last axis.

    >>> round(bireme._C_ops.dirichlet(bireme.to_tensor([1.0, 2.0])).sum().item(), 4)
    1.0
    """
    parts = tensor.standard_gamma(alpha)
    return parts / tensor.sum(parts, -1, keepdim=True)


def truncated_gaussian_random(shape: Sequence[int], mean: float, std: float, seed: int, a: float, b: float, dtype: Any = "float32",
                              place: Any = None) -> Tensor:  # fmt: skip
    """Normal numbers between `a` and `b`."""
    return initializer.TruncatedNormal(mean, std, a, b).sample(list(shape), dtype)
