"""Kernels of Paddle's older layers that have no public function, as in `paddle._C_ops`."""

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
    """One number per channel, in a shape that broadcasts with the image."""
    shape = [1] * x.ndim
    shape[x.ndim - 1 if layout == "NHWC" else 1] = -1
    return tensor.reshape(numbers, shape)


def affine_channel(x: Tensor, scale: Tensor, bias: Tensor, data_layout: str = "AnyLayout") -> Tensor:
    """Scale and shift each channel.

    Args:
        x: Input tensor.
        scale: Factor of each channel.
        bias: Number added to each channel.
        data_layout: ``'NHWC'`` if channels come last. Default: ``'AnyLayout'``.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> scale, bias = bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([0.0, 1.0])
        >>> bireme._C_ops.affine_channel(bireme.ones([1, 2, 1, 1]), scale, bias, "NCHW").flatten().tolist()
        [1.0, 3.0]
    """
    return tensor.add(tensor.multiply(x, _channels(x, scale, data_layout)), _channels(x, bias, data_layout))


def affine_channel_(x: Tensor, scale: Tensor, bias: Tensor, data_layout: str = "AnyLayout") -> Tensor:
    """Scale and shift each channel, in place.

    Args:
        x: Input tensor.
        scale: Factor of each channel.
        bias: Number added to each channel.
        data_layout: ``'NHWC'`` if channels come last. Default: ``'AnyLayout'``.

    Returns:
        ``x`` itself.
    """
    return tensor.assign(affine_channel(x, scale, bias, data_layout), x)


def add_position_encoding(x: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """Add a sinusoidal position encoding: sines in the first half of the features, cosines in the second.

    Args:
        x: Tensor of shape ``[batch, steps, features]`` with an even number of features.
        alpha: Factor of ``x``. Default: 1.0.
        beta: Factor of the encoding. Default: 1.0.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme._C_ops.add_position_encoding(bireme.ones([1, 1, 4]), 2.0, 1.0).tolist()
        [[[2.0, 2.0, 3.0, 3.0]]]
    """
    steps, half = x.shape[1], x.shape[2] // 2
    if x.ndim != 3 or x.shape[2] % 2:
        raise errors.bad(
            "add_position_encoding(x)",
            "shape [batch, steps, an even number of features]",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    rates = tensor.pow(tensor.full([half], 10000.0, x.dtype), tensor.arange(half, dtype=x.dtype) / -max(half - 1, 1))
    if half == 1:
        rates = tensor.full([1], 1e-4, x.dtype)
    angles = tensor.outer(tensor.arange(steps, dtype=x.dtype), rates)
    return x * alpha + tensor.concat([tensor.sin(angles), tensor.cos(angles)], 1) * beta


def swiglu_grad(x: Tensor, y: Tensor | None, out_grad: Tensor) -> tuple[Tensor, Tensor | None]:
    """Compute the gradient of ``swiglu``.

    Args:
        x: First operand, or both side by side.
        y: Second operand, or ``None``.
        out_grad: Gradient of the result.

    Returns:
        Gradients of ``x`` and ``y``; without ``y`` that of ``x``, and ``None``.

    Examples:
        >>> x, y, g = (bireme.to_tensor([n]) for n in (0.0, 2.0, 3.0))
        >>> [t.tolist() for t in bireme._C_ops.swiglu_grad(x, y, g)]
        [[3.0], [0.0]]
    """
    gate, value = tensor.chunk(x, 2, -1) if y is None else (x, y)
    open = tensor.sigmoid(gate)
    of_gate, of_value = out_grad * value * open * (1.0 + gate * (1.0 - open)), out_grad * gate * open
    return (tensor.concat([of_gate, of_value], -1), None) if y is None else (of_gate, of_value)


def hinge_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the hinge loss of scores.

    Args:
        logits: Scores.
        labels: Labels, 0 or 1.

    Returns:
        Loss of each element.

    Examples:
        >>> bireme._C_ops.hinge_loss(bireme.to_tensor([0.5, -2.0]), bireme.to_tensor([1.0, 0.0])).tolist()
        [0.5, 0.0]
    """
    return functional.relu(1.0 - logits * (2.0 * labels - 1.0))


def _columns(x: Sequence[Tensor], start: int, length: int) -> list[Tensor]:
    begin = start + x[0].shape[1] if start < 0 else start
    end = x[0].shape[1] if length < 0 else begin + length
    return [tensor.slice(t, [1], [begin], [end]) for t in x]


def partial_concat(x: Sequence[Tensor], start_index: int = 0, length: int = -1) -> Tensor:
    """Concatenate the same columns of several matrices.

    Args:
        x: Tensors.
        start_index: First column; negative ones count from the end. Default: 0.
        length: Number of columns; negative means all to the end. Default: -1.

    Returns:
        The joined columns.

    Examples:
        >>> bireme._C_ops.partial_concat([bireme.to_tensor([[1, 2, 3]]), bireme.to_tensor([[4, 5, 6]])], 1, 2).tolist()
        [[2, 3, 5, 6]]
    """
    return tensor.concat(_columns(x, start_index, length), 1)


def partial_sum(x: Sequence[Tensor], start_index: int = 0, length: int = -1) -> Tensor:
    """Add up the same columns of several matrices.

    Args:
        x: Tensors.
        start_index: First column; negative ones count from the end. Default: 0.
        length: Number of columns; negative means all to the end. Default: -1.

    Returns:
        The sum.
    """
    return tensor.add_n(_columns(x, start_index, length))


def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    is_test: bool,
    momentum: float,
    epsilon: float,
    data_format: str,
    use_global_stats: bool,
    trainable_statistics: bool,
) -> tuple[Tensor, ...]:
    """Normalize over the batch; running statistics are updated in place.

    Args:
        x: Input tensor.
        mean: Running mean.
        variance: Running variance.
        scale: Scale of the normalized elements.
        bias: Bias added to them.
        is_test: Whether to use the running statistics.
        momentum: Decay rate of the running statistics.
        epsilon: Number added to the variance.
        data_format: Layout of the axes.
        use_global_stats: Whether to use the running statistics in training.
        trainable_statistics: Whether to use the statistics of the batch in testing.

    Returns:
        The normalized tensor, running mean and variance, mean and reciprocal standard deviation of the batch (zeros if
        not used), and an empty tensor.
    """
    training = trainable_statistics or not is_test
    layout = data_format if x.ndim > 2 else "NC"
    out = functional.batch_norm(
        x, mean, variance, scale, bias, training, momentum, epsilon, layout, use_global_stats or None
    )
    if not training or use_global_stats:
        none = tensor.zeros_like(mean)
        return out, mean, variance, none, none, tensor.zeros([0], x.dtype)
    axes = [i for i in range(x.ndim) if i != (x.ndim - 1 if data_format[-1] == "C" and x.ndim > 2 else 1)]
    wide = x.detach().astype(mean.dtype)  # type: ignore[attr-defined]  # installed by core.view
    spread = tensor.rsqrt(tensor.var(wide, axes, unbiased=False) + epsilon)
    return out, mean, variance, tensor.mean(wide, axes), spread, tensor.zeros([0], "uint8")


batch_norm_ = batch_norm


def accuracy(x: Tensor, indices: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the fraction of rows whose label is among their indices.

    Args:
        x: Has no effect.
        indices: Predicted classes of each row.
        label: Label of each row.

    Returns:
        The fraction, the number of such rows, and the number of rows.

    Examples:
        >>> indices, label = bireme.to_tensor([[1], [0]]), bireme.to_tensor([[1], [1]])
        >>> [t.item() for t in bireme._C_ops.accuracy(bireme.ones([2, 1]), indices, label)]
        [0.5, 1, 2]
    """
    hit = tensor.any(tensor.equal(indices, tensor.cast(tensor.reshape(label, [-1, 1]), indices.dtype)), 1)
    right = tensor.sum(tensor.cast(hit, "int32"), dtype="int32")
    count = tensor.full([], indices.shape[0], "int32")
    return tensor.cast(right, "float32") / tensor.cast(count, "float32"), right, count


def variance(x: Tensor, axis: Any = (), keepdim: bool = False) -> Tensor:
    """Compute the variance over axes.

    Args:
        x: Input tensor.
        axis: Axes to reduce; none means all. Default: ``[]``.
        keepdim: Whether reduced axes stay with size 1. Default: False.

    Returns:
        The variances, of the population.
    """
    return tensor.var(x, list(axis) or None, False, keepdim)


def _like(input: Tensor, shape: Sequence[int], source: int, target: int) -> list[int]:
    sizes = list(shape)
    sizes[target] = input.shape[source]
    return sizes


def full_batch_size_like(
    input: Tensor,
    shape: Sequence[int],
    dtype: Any,
    value: Any,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    place: Any = None,
) -> Tensor:
    """Create a tensor filled with a number, in a shape that takes one size from another.

    Args:
        input: Tensor that the size is taken from.
        shape: Shape, one size of which is replaced.
        dtype: Dtype of the result.
        value: Number.
        input_dim_idx: Axis whose size is taken. Default: 0.
        output_dim_idx: Axis that gets it. Default: 0.
        place: Has no effect. Default: None.

    Returns:
        The new tensor.

    Examples:
        >>> bireme._C_ops.full_batch_size_like(bireme.ones([3, 2]), [-1, 1], "float32", 2.0, 0, 0).tolist()
        [[2.0], [2.0], [2.0]]
    """
    return tensor.full(_like(input, shape, input_dim_idx, output_dim_idx), value, dtype)


def uniform_random_batch_size_like(
    input: Tensor,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    diag_num: int = 0,
    diag_step: int = 0,
    diag_val: float = 1.0,
    dtype: Any = "float32",
) -> Tensor:
    """Draw uniform random numbers, in a shape that takes one size from another tensor.

    Args:
        input: Tensor that the size is taken from.
        shape: Shape, one size of which is replaced.
        input_dim_idx: Axis whose size is taken. Default: 0.
        output_dim_idx: Axis that gets it. Default: 0.
        min: Lower bound. Default: -1.0.
        max: Upper bound. Default: 1.0.
        seed: Seed; 0 continues the random stream. Default: 0.
        diag_num: Has no effect. Default: 0.
        diag_step: Has no effect. Default: 0.
        diag_val: Has no effect. Default: 1.0.
        dtype: Dtype of the result. Default: ``'float32'``.

    Returns:
        The new tensor.
    """
    return tensor.uniform(_like(input, shape, input_dim_idx, output_dim_idx), dtype, min, max, seed)


def shape(input: Tensor) -> Tensor:
    """Return the shape as a tensor.

    Args:
        input: Input tensor.

    Returns:
        1-D int32 tensor.
    """
    return tensor.cast(tensor.shape(input), "int32")


def shape64(input: Tensor) -> Tensor:
    """Return the shape as a tensor.

    Args:
        input: Input tensor.

    Returns:
        1-D int64 tensor.
    """
    return tensor.cast(tensor.shape(input), "int64")


def view_slice(input: Tensor, begin_idx: int, end_idx: int) -> Tensor:
    """Slice the first axis.

    Args:
        input: Input tensor.
        begin_idx: First index.
        end_idx: Index after the last one.

    Returns:
        View that shares storage.
    """
    return input[begin_idx:end_idx]  # type: ignore[index]  # installed by ops.index


def share_data(x: Tensor) -> Tensor:
    """Share the storage of a tensor.

    Args:
        x: Input tensor.

    Returns:
        Tensor without autograd history that shares storage.
    """
    return x.detach()  # type: ignore[attr-defined]  # installed by core.view


# ---------------------------------------------------------------- in place, and random numbers


def silu_(x: Tensor) -> Tensor:
    """Compute ``x * sigmoid(x)``, in place.

    Args:
        x: Input tensor.

    Returns:
        ``x`` itself.
    """
    return tensor.assign(functional.silu(x), x)


def bce_loss_(input: Tensor, label: Tensor) -> Tensor:
    """Compute the binary cross entropy of probabilities, in place.

    Args:
        input: Probabilities.
        label: Labels.

    Returns:
        ``input`` itself.
    """
    return tensor.assign(functional.binary_cross_entropy(input, label, reduction="none"), input)


def identity_loss_(x: Tensor, reduction: int = 1) -> Tensor:
    """Reduce a loss, in place.

    Args:
        x: Input tensor.
        reduction: 0 for the sum, 1 for the mean, 2 for none. Default: 1.

    Returns:
        ``x`` itself.
    """
    return tensor.assign(identity_loss(x, reduction), x)


def dirichlet(alpha: Tensor) -> Tensor:
    """Draw from Dirichlet distributions.

    Args:
        alpha: Concentrations along the last axis.

    Returns:
        Tensor of the shape of ``alpha`` whose last axis sums to 1.

    Examples:
        >>> round(bireme._C_ops.dirichlet(bireme.to_tensor([1.0, 2.0])).sum().item(), 4)
        1.0
    """
    parts = tensor.standard_gamma(alpha)
    return parts / tensor.sum(parts, -1, keepdim=True)


def truncated_gaussian_random(
    shape: Sequence[int],
    mean: float,
    std: float,
    seed: int,
    a: float,
    b: float,
    dtype: Any = "float32",
    place: Any = None,
) -> Tensor:
    """Draw from a normal distribution truncated to an interval.

    Args:
        shape: Shape of the result.
        mean: Mean of the distribution.
        std: Standard deviation of the distribution.
        seed: Has no effect.
        a: Lower bound.
        b: Upper bound.
        dtype: Dtype of the result. Default: ``'float32'``.
        place: Has no effect. Default: None.

    Returns:
        The new tensor.
    """
    return initializer.TruncatedNormal(mean, std, a, b).sample(list(shape), dtype)
