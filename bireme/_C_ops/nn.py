"""Kernels of neural networks, but for convolutions and pooling, that take their arguments in another order than the public
ones, as in `paddle._C_ops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import tensor
from bireme.core.tensor.tensor import Tensor
from bireme.nn import clip, functional

clip_by_norm = clip.clip_by_norm
unfold = functional.unfold


# ---------------------------------------------------------------- sizes, edges, rows of tables


def _resized(
    x: Tensor,
    out_size: Any,
    size_tensor: Any,
    scale_tensor: Any,
    data_format: str,
    out_d: int,
    out_h: int,
    out_w: int,
    scale: Any,
    interp_method: str,
    align_corners: bool,
    align_mode: int,
) -> Tensor:
    """Resize the spatial axes by interpolation.

    The size comes from ``size_tensor``, else ``out_size``, else ``scale_tensor`` or ``scale``, else ``out_d``,
    ``out_h`` and ``out_w``.

    Args:
        x: Input tensor with one to three spatial axes.
        out_size: Spatial size of the result, or ``None``.
        size_tensor: List of tensors with the sizes, or ``None``.
        scale_tensor: Tensor of factors, or ``None``.
        data_format: Layout of the axes; channels come last if it ends in ``C``.
        out_d: Depth of the result.
        out_h: Height of the result.
        out_w: Width of the result.
        scale: Factors of the spatial axes.
        interp_method: Method, as ``'bilinear'`` or ``'nearest'``.
        align_corners: Whether the corner elements of both grids coincide.
        align_mode: How coordinates are mapped, as in ``nn.functional.interpolate``.

    Returns:
        The resized tensor.
    """
    last = data_format[-1] == "C"
    layout = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[x.ndim][last]
    size = list(size_tensor) if size_tensor else out_size
    factor = None if size is not None else scale_tensor if scale_tensor is not None else scale if scale else None
    if isinstance(factor, Tensor) and factor.size == 1:
        factor = tensor.reshape(factor, [])
    if isinstance(factor, (list, tuple)):
        factor = list(factor)[: x.ndim - 2]
    if size is None and factor is None:
        size = [out_d, out_h, out_w][5 - x.ndim :]
    return functional.interpolate(x, size, factor, interp_method, align_corners, align_mode, layout)


linear_interp = bilinear_interp = trilinear_interp = bicubic_interp = nearest_interp = _resized


def pad(x: Tensor, paddings: Sequence[int], pad_value: float = 0.0) -> Tensor:
    """Pad all axes with a number.

    Args:
        x: Input tensor.
        paddings: Padding before and after each axis, from the first axis on.
        pad_value: Number to pad with. Default: 0.0.

    Returns:
        The padded tensor.
    """
    return functional.pad(x, list(paddings), "constant", pad_value)


def embedding(x: Tensor, weight: Tensor, padding_idx: int = -1, sparse: bool = False) -> Tensor:
    """Look up rows of an embedding table.

    Args:
        x: Indices.
        weight: Table.
        padding_idx: Index whose row reads as zeros; -1 means none. Default: -1.
        sparse: Passed on to ``nn.functional.embedding``. Default: False.

    Returns:
        The rows.
    """
    return functional.embedding(x, weight, None if padding_idx == -1 else padding_idx, sparse=sparse)


def embedding_with_scaled_gradient(x: Tensor, weight: Tensor, padding_idx: int = -1) -> Tensor:
    """Look up rows of an embedding table whose gradients are divided by how often each row is read.

    Args:
        x: Indices.
        weight: Table.
        padding_idx: Index whose row reads as zeros; -1 means none. Default: -1.

    Returns:
        The rows.
    """
    return functional.embedding(x, weight, None if padding_idx == -1 else padding_idx, scale_grad_by_freq=True)


def dropout(
    x: Tensor, seed_tensor: Any, p: Any, is_test: bool, mode: str, seed: int = 0, fix_seed: bool = False
) -> Tensor:
    """Set elements to zero at random.

    Args:
        x: Input tensor.
        seed_tensor: Has no effect.
        p: Probability of dropping an element.
        is_test: Whether nothing is dropped.
        mode: ``'upscale_in_train'`` or ``'downscale_in_infer'``.
        seed: Has no effect. Default: 0.
        fix_seed: Has no effect. Default: False.

    Returns:
        Tensor of the shape of ``x``.
    """
    return functional.dropout(x, p, None, not is_test, mode)


# ---------------------------------------------------------------- normalisation


def layer_norm(
    x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> Tensor:
    """Normalize over the axes from ``begin_norm_axis`` on.

    Args:
        x: Input tensor.
        scale: Scale of the normalized elements.
        bias: Bias added to them.
        epsilon: Number added to the variance. Default: 1e-05.
        begin_norm_axis: First axis of those normalized over. Default: 1.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme._C_ops.layer_norm(bireme.to_tensor([[1.0, 3.0]]), None, None, 0.0, 1).tolist()
        [[-1.0, 1.0]]
    """
    return functional.layer_norm(x, x.shape[begin_norm_axis:], scale, bias, epsilon)


# ---------------------------------------------------------------- losses


def cross_entropy_with_softmax(
    input: Tensor,
    label: Tensor,
    soft_label: bool = False,
    use_softmax: bool = True,
    numeric_stable_mode: bool = True,
    ignore_index: int = -100,
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """Compute softmax and cross entropy.

    Args:
        input: Logits.
        label: Indices of classes, or probabilities.
        soft_label: Whether labels are probabilities. Default: False.
        use_softmax: Whether ``input`` are logits; otherwise probabilities. Default: True.
        numeric_stable_mode: Has no effect. Default: True.
        ignore_index: Label that is ignored. Default: -100.
        axis: Axis of the classes. Default: -1.

    Returns:
        The probabilities, and the loss of each row with the axis of the classes kept at size 1.

    Examples:
        >>> x, label = bireme.zeros([1, 2]), bireme.to_tensor([[1]])
        >>> [t.shape for t in bireme._C_ops.cross_entropy_with_softmax(x, label, False, True, True, -100, -1)]
        [[1, 2], [1, 1]]
    """
    ignored = -100 if soft_label else ignore_index
    loss = functional.cross_entropy(input, label, None, ignored, "none", soft_label, axis, use_softmax)
    return functional.softmax(input, axis) if use_softmax else input, loss


def sigmoid_cross_entropy_with_logits(
    x: Tensor, label: Tensor, pos_weight: Tensor | None = None, normalize: bool = False, ignore_index: int = -100
) -> Tensor:
    """Compute the binary cross entropy of logits.

    Args:
        x: Logits.
        label: Labels.
        pos_weight: Weight of positive labels. Default: None.
        normalize: Whether to divide by the number of labels that are not ignored. Default: False.
        ignore_index: Label that is ignored. Default: -100.

    Returns:
        Loss of each element; 0 where the label is ignored.
    """
    loss = functional.binary_cross_entropy_with_logits(x, label, reduction="none", pos_weight=pos_weight)
    valid = tensor.cast(tensor.not_equal(label, float(ignore_index)), loss.dtype)
    loss = loss * valid
    return loss / tensor.clip(tensor.sum(valid), min=1e-5) if normalize else loss


def nll_loss(
    input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """Compute the negative log-likelihood.

    Args:
        input: Log-probabilities.
        label: Labels.
        weight: Weight of each class. Default: None.
        ignore_index: Label that is ignored. Default: -100.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``. Default: ``'mean'``.

    Returns:
        The loss, and the sum of the weights it was divided by.
    """
    loss = functional.nll_loss(input, label, weight, ignore_index, reduction)
    valid = tensor.not_equal(label, ignore_index)
    each = tensor.cast(valid, input.dtype)
    if weight is not None:
        each = each * tensor.reshape(
            tensor.gather(weight, tensor.flatten(tensor.where(valid, label, tensor.zeros_like(label)))), label.shape
        )
    return loss, tensor.zeros([], input.dtype) if reduction == "none" else tensor.sum(each)


def margin_cross_entropy(
    logits: Tensor,
    label: Tensor,
    return_softmax: bool = False,
    ring_id: int = 0,
    rank: int = 0,
    nranks: int = 1,
    margin1: float = 1.0,
    margin2: float = 0.5,
    margin3: float = 0.0,
    scale: float = 64.0,
) -> tuple[Tensor, Tensor]:
    """Compute the cross entropy with margins added to angles.

    Args:
        logits: Cosines of angles.
        label: Labels.
        return_softmax: Has no effect: both are returned. Default: False.
        ring_id: Has no effect. Default: 0.
        rank: Has no effect. Default: 0.
        nranks: Has no effect. Default: 1.
        margin1: Factor of the angle. Default: 1.0.
        margin2: Number added to the angle. Default: 0.5.
        margin3: Number subtracted from its cosine. Default: 0.0.
        scale: Factor of the logits. Default: 64.0.

    Returns:
        The probabilities, and the loss of each row.
    """
    loss, softmax = functional.margin_cross_entropy(
        logits, label, margin1, margin2, margin3, scale, return_softmax=True, reduction=None
    )
    return softmax, loss


def warpctc(
    logits: Tensor,
    label: Tensor,
    logits_length: Tensor,
    labels_length: Tensor,
    blank: int = 0,
    norm_by_times: bool = False,
) -> Tensor:
    """Compute the connectionist temporal classification (CTC) loss.

    Args:
        logits: Logits.
        label: Labels.
        logits_length: Length of each input.
        labels_length: Length of each label.
        blank: Index of the blank label. Default: 0.
        norm_by_times: Whether gradients are divided by the number of steps. Default: False.

    Returns:
        Loss of each sample, of shape ``[batch, 1]``.
    """
    return tensor.unsqueeze(
        functional.ctc_loss(logits, label, logits_length, labels_length, blank, "none", norm_by_times), -1
    )
