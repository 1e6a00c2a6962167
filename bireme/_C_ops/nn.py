"""Kernels of neural networks whose arguments stand in another order than those of the public functions, as `paddle._C_ops` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import tensor
from bireme.core.tensor.tensor import Tensor
from bireme.nn import clip, functional
from bireme.ops import spectral_norm_of

clip_by_norm = clip.clip_by_norm
unfold = functional.unfold


def _edges(paddings: Any, algorithm: str) -> Any:
    return list(paddings) if algorithm == "EXPLICIT" else algorithm


def _spatial(x: Tensor, layout: str) -> list[int]:
    return x.shape[1:-1] if layout[-1] == "C" else x.shape[2:]


# ---------------------------------------------------------------- windows


def conv2d(x: Tensor, filter: Tensor, strides: Any = (1, 1), paddings: Any = (0, 0), padding_algorithm: str = "EXPLICIT",
           dilations: Any = (1, 1), groups: int = 1, data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Convolution of images.

    >>> bireme._C_ops.conv2d(bireme.ones([1, 1, 2, 2]), bireme.ones([1, 1, 2, 2]), [1, 1], [0, 0], "EXPLICIT", [1, 1], 1, "NCHW").tolist()
    [[[[4.0]]]]
    """
    return functional.conv2d(x, filter, None, strides, _edges(paddings, padding_algorithm), dilations, groups, data_format)


def depthwise_conv2d(x: Tensor, filter: Tensor, strides: Any = (1, 1), paddings: Any = (0, 0), padding_algorithm: str = "EXPLICIT",
                     groups: int = 1, dilations: Any = (1, 1), data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Convolution of each channel by itself."""
    return functional.conv2d(x, filter, None, strides, _edges(paddings, padding_algorithm), dilations, groups, data_format)


def conv3d(x: Tensor, filter: Tensor, strides: Any = (1, 1, 1), paddings: Any = (0, 0, 0), padding_algorithm: str = "EXPLICIT",
           groups: int = 1, dilations: Any = (1, 1, 1), data_format: str = "NCDHW") -> Tensor:  # fmt: skip
    """Convolution of volumes."""
    return functional.conv3d(x, filter, None, strides, _edges(paddings, padding_algorithm), dilations, groups, data_format)


def conv2d_transpose(x: Tensor, filter: Tensor, strides: Any = (1, 1), paddings: Any = (0, 0), output_padding: Any = (), output_size: Any = (),
                     padding_algorithm: str = "EXPLICIT", groups: int = 1, dilations: Any = (1, 1), data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Transposed convolution of images; a size that is asked for goes before `output_padding`."""
    size, more = _asked(output_size, output_padding)
    return functional.conv2d_transpose(x, filter, None, strides, _edges(paddings, padding_algorithm), more, dilations, groups, size, data_format)


depthwise_conv2d_transpose = conv2d_transpose


def conv3d_transpose(x: Tensor, filter: Tensor, strides: Any = (1, 1, 1), paddings: Any = (0, 0, 0), output_padding: Any = (),
                     output_size: Any = (), padding_algorithm: str = "EXPLICIT", groups: int = 1, dilations: Any = (1, 1, 1),
                     data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Transposed convolution of volumes."""
    size, more = _asked(output_size, output_padding)
    layout = {"NCHW": "NCDHW", "NHWC": "NDHWC"}.get(data_format, data_format)
    return functional.conv3d_transpose(x, filter, None, strides, _edges(paddings, padding_algorithm), more, groups, dilations, size, layout)


def _asked(output_size: Any, output_padding: Any) -> tuple[Any, Any]:
    given = output_size is not None and (isinstance(output_size, Tensor) or len(output_size) > 0)
    return (output_size, 0) if given else (None, list(output_padding) or 0)


def _pool(n: int, x: Tensor, size: Any, strides: Any, edges: Any, ceil_mode: bool, exclusive: bool, layout: str, kind: str, whole: bool,
          adaptive: bool) -> Tensor:  # fmt: skip
    size = size.tolist() if isinstance(size, Tensor) else list(size)
    if whole:
        size, edges = _spatial(x, layout), 0
    if kind == "avg":
        if adaptive:
            return getattr(functional, f"adaptive_avg_pool{n}d")(x, size, layout)
        return getattr(functional, f"avg_pool{n}d")(x, size, strides, edges, ceil_mode, exclusive, None, layout)
    if not adaptive:
        return getattr(functional, f"max_pool{n}d")(x, size, strides, edges, False, ceil_mode, layout)
    first = layout[-1] != "C"
    order = [0, n + 1, *range(1, n + 1)]
    out = getattr(functional, f"adaptive_max_pool{n}d")(x if first else tensor.transpose(x, order), size)
    return out if first else tensor.transpose(out, [0, *range(2, n + 2), 1])


def pool2d(x: Tensor, kernel_size: Any, strides: Any, paddings: Any, ceil_mode: bool, exclusive: bool, data_format: str, pooling_type: str,
           global_pooling: bool, adaptive: bool, padding_algorithm: str = "EXPLICIT") -> Tensor:  # fmt: skip
    """Means or maxima of windows of images.

    >>> bireme._C_ops.pool2d(bireme.ones([1, 1, 2, 2]), [2, 2], [2, 2], [0, 0], False, True, "NCHW", "avg", False, False, "EXPLICIT").tolist()
    [[[[1.0]]]]
    """
    edges = _edges(paddings, padding_algorithm)
    return _pool(2, x, kernel_size, strides, edges, ceil_mode, exclusive, data_format, pooling_type, global_pooling, adaptive)


def pool3d(x: Tensor, kernel_size: Any, strides: Any, paddings: Any, ceil_mode: bool, exclusive: bool, data_format: str, pooling_type: str,
           global_pooling: bool, adaptive: bool, padding_algorithm: str = "EXPLICIT") -> Tensor:  # fmt: skip
    """Means or maxima of windows of volumes."""
    edges = _edges(paddings, padding_algorithm)
    return _pool(3, x, kernel_size, strides, edges, ceil_mode, exclusive, data_format, pooling_type, global_pooling, adaptive)


def lp_pool2d(x: Tensor, kernel_size: Any, strides: Any, paddings: Any, ceil_mode: bool, exclusive: bool, data_format: str, pooling_type: str,
              global_pooling: bool, adaptive: bool, padding_algorithm: str = "EXPLICIT", norm_type: float = 2.0) -> Tensor:  # fmt: skip
    """Norms of windows of images."""
    size = _spatial(x, data_format) if global_pooling else kernel_size
    return functional.lp_pool2d(x, norm_type, size, strides, _edges(paddings, padding_algorithm), ceil_mode, data_format)


def _indexed(n: int, x: Tensor, size: Any, strides: Any, paddings: Any, whole: bool, adaptive: bool, ceil_mode: bool) -> tuple[Tensor, Tensor]:
    if adaptive:
        return getattr(functional, f"adaptive_max_pool{n}d")(x, size, True)
    if whole:
        size, paddings = x.shape[2:], 0
    return getattr(functional, f"max_pool{n}d")(x, size, strides, paddings, True, ceil_mode)


def max_pool2d_with_index(x: Tensor, kernel_size: Any, strides: Any = (1, 1), paddings: Any = (0, 0), global_pooling: bool = False,
                          adaptive: bool = False, ceil_mode: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Maxima of windows of images and where they are."""
    return _indexed(2, x, kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode)


def max_pool3d_with_index(x: Tensor, kernel_size: Any, strides: Any = (1, 1, 1), paddings: Any = (0, 0, 0), global_pooling: bool = False,
                          adaptive: bool = False, ceil_mode: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Maxima of windows of volumes and where they are."""
    return _indexed(3, x, kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode)


def fractional_max_pool2d(x: Tensor, output_size: Any, kernel_size: Any = (0, 0), random_u: float = 0.0, return_mask: bool = True) -> Any:
    """Maxima of windows of random sizes, and where they are."""
    return functional.fractional_max_pool2d(x, output_size, kernel_size if any(kernel_size) else None, random_u or None, True)


def fractional_max_pool3d(x: Tensor, output_size: Any, kernel_size: Any = (0, 0, 0), random_u: float = 0.0, return_mask: bool = True) -> Any:
    """The same for volumes."""
    return functional.fractional_max_pool3d(x, output_size, kernel_size if any(kernel_size) else None, random_u or None, True)


def unpool(x: Tensor, indices: Tensor, ksize: Any, strides: Any, padding: Any, output_size: Any, data_format: str) -> Tensor:
    """Images of zeros with elements put back where pooling took them from."""
    return functional.max_unpool2d(x, indices, ksize, strides, padding, data_format, output_size)


def unpool3d(x: Tensor, indices: Tensor, ksize: Any, strides: Any, padding: Any, output_size: Any, data_format: str) -> Tensor:
    """The same for volumes."""
    return functional.max_unpool3d(x, indices, ksize, strides, padding, data_format, output_size)


# ---------------------------------------------------------------- sizes, edges, rows of tables


def _resized(x: Tensor, out_size: Any, size_tensor: Any, scale_tensor: Any, data_format: str, out_d: int, out_h: int, out_w: int, scale: Any,
             interp_method: str, align_corners: bool, align_mode: int) -> Tensor:  # fmt: skip
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
    """Two widths for each axis, from the first."""
    return functional.pad(x, list(paddings), "constant", pad_value)


def pad3d(x: Tensor, paddings: Any, mode: str = "constant", pad_value: float = 0.0, data_format: str = "NCDHW") -> Tensor:
    """Widths of the spatial axes, from the last."""
    return functional.pad(x, paddings, mode, pad_value, data_format)


def temporal_shift(x: Tensor, seg_num: int, shift_ratio: float = 0.25, data_format: str = "NCHW") -> Tensor:
    """Some channels moved one frame back, as many one frame forth."""
    return functional.temporal_shift(x, seg_num, shift_ratio, None, data_format)


def embedding(x: Tensor, weight: Tensor, padding_idx: int = -1, sparse: bool = False) -> Tensor:
    """Rows of a table; -1 means no padding here."""
    return functional.embedding(x, weight, None if padding_idx == -1 else padding_idx, sparse=sparse)


def embedding_with_scaled_gradient(x: Tensor, weight: Tensor, padding_idx: int = -1) -> Tensor:
    """The same; the gradient of a row is divided by how often it is read."""
    return functional.embedding(x, weight, None if padding_idx == -1 else padding_idx, scale_grad_by_freq=True)


def dropout(x: Tensor, seed_tensor: Any, p: Any, is_test: bool, mode: str, seed: int = 0, fix_seed: bool = False) -> Tensor:
    """Elements set to zero at random."""
    return functional.dropout(x, p, None, not is_test, mode)


def class_center_sample(label: Tensor, num_classes: int, num_samples: int, ring_id: int = 0, rank: int = 0, nranks: int = 1,
                        fix_seed: bool = False, seed: int = 0) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Classes that occur, filled up with others at random, and the labels by their new numbers."""
    return functional.class_center_sample(label, num_classes, num_samples)


# ---------------------------------------------------------------- normalisation


def layer_norm(x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float = 1e-5, begin_norm_axis: int = 1) -> Tensor:
    """Over the axes from `begin_norm_axis` on.

    >>> bireme._C_ops.layer_norm(bireme.to_tensor([[1.0, 3.0]]), None, None, 0.0, 1).tolist()
    [[-1.0, 1.0]]
    """
    return functional.layer_norm(x, x.shape[begin_norm_axis:], scale, bias, epsilon)


def instance_norm(x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float = 1e-5) -> Tensor:
    """Over each channel of each sample."""
    return functional.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def group_norm(x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float = 1e-5, groups: int = -1, data_format: str = "NCHW") -> Tensor:
    """Over groups of channels."""
    return functional.group_norm(x, groups, epsilon, scale, bias, data_format)


def spectral_norm(weight: Tensor, u: Tensor, v: Tensor, dim: int = 0, power_iters: int = 1, eps: float = 1e-12) -> Tensor:
    """A weight over its largest singular value."""
    return spectral_norm_of(weight, u, v, eps, dim, power_iters)


# ---------------------------------------------------------------- losses


def cross_entropy_with_softmax(input: Tensor, label: Tensor, soft_label: bool = False, use_softmax: bool = True, numeric_stable_mode: bool = True,
                               ignore_index: int = -100, axis: int = -1) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The probabilities, and the cross entropy of each row with the axis of the classes kept.

    >>> found = bireme._C_ops.cross_entropy_with_softmax(bireme.zeros([1, 2]), bireme.to_tensor([[1]]), False, True, True, -100, -1)
    >>> [t.shape for t in found]
    [[1, 2], [1, 1]]
    """
    ignored = -100 if soft_label else ignore_index
    loss = functional.cross_entropy(input, label, None, ignored, "none", soft_label, axis, use_softmax)
    return functional.softmax(input, axis) if use_softmax else input, loss


def bce_loss(input: Tensor, label: Tensor) -> Tensor:
    """Binary cross entropy of each element."""
    return functional.binary_cross_entropy(input, label, reduction="none")


def sigmoid_cross_entropy_with_logits(x: Tensor, label: Tensor, pos_weight: Tensor | None = None, normalize: bool = False,
                                      ignore_index: int = -100) -> Tensor:  # fmt: skip
    """Binary cross entropy of each logit; 0 where the label is ignored, and over the number of the others if `normalize`."""
    loss = functional.binary_cross_entropy_with_logits(x, label, reduction="none", pos_weight=pos_weight)
    valid = tensor.cast(tensor.not_equal(label, float(ignore_index)), loss.dtype)
    loss = loss * valid
    return loss / tensor.clip(tensor.sum(valid), min=1e-5) if normalize else loss


def huber_loss(input: Tensor, label: Tensor, delta: float) -> Tensor:
    """Squares of small errors, the size of large ones."""
    return functional.smooth_l1_loss(input, label, "none", delta)


def kldiv_loss(x: Tensor, label: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Divergence of distributions."""
    return functional.kl_div(x, label, reduction, log_target)


def nll_loss(input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """The labelled log-probability, negative, and the sum of the weights that it was divided by."""
    loss = functional.nll_loss(input, label, weight, ignore_index, reduction)
    valid = tensor.not_equal(label, ignore_index)
    each = tensor.cast(valid, input.dtype)
    if weight is not None:
        each = each * tensor.reshape(tensor.gather(weight, tensor.flatten(tensor.where(valid, label, tensor.zeros_like(label)))), label.shape)
    return loss, tensor.zeros([], input.dtype) if reduction == "none" else tensor.sum(each)


def margin_cross_entropy(logits: Tensor, label: Tensor, return_softmax: bool = False, ring_id: int = 0, rank: int = 0, nranks: int = 1,
                         margin1: float = 1.0, margin2: float = 0.5, margin3: float = 0.0, scale: float = 64.0) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The probabilities, and the loss of each row."""
    loss, softmax = functional.margin_cross_entropy(logits, label, margin1, margin2, margin3, scale, return_softmax=True, reduction=None)
    return softmax, loss


def warprnnt(input: Tensor, label: Tensor, input_lengths: Tensor, label_lengths: Tensor, blank: int = 0, fastemit_lambda: float = 0.0,
             num_threads: int = 1) -> Tensor:  # fmt: skip
    """Transducer loss of each sample."""
    return functional.rnnt_loss(input, label, input_lengths, label_lengths, blank, fastemit_lambda, "none")


def warpctc(logits: Tensor, label: Tensor, logits_length: Tensor, labels_length: Tensor, blank: int = 0, norm_by_times: bool = False) -> Tensor:
    """Loss of alignments of each sample, [batch, 1]."""
    return tensor.unsqueeze(functional.ctc_loss(logits, label, logits_length, labels_length, blank, "none", norm_by_times), -1)
