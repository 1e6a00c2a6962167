"""Layers as functions: each call makes the parameters of a layer and applies it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.dtype import DTypeLike
from bireme.core.program import building
from bireme.core.program.variable import Dim
from bireme.core.tensor.tensor import Tensor
from bireme.nn.parameter import make_parameter
from bireme.ops import add, matmul, reshape
from bireme.utils import unique_name


def activated(where: str, out: Tensor, act: str | None) -> Tensor:
    """A result under the activation of a name."""
    if act is None:
        return out
    found = getattr(nn.functional, act, None) if isinstance(act, str) else None
    if found is None:
        raise errors.bad(where, "the name of a function in nn.functional", act)
    return found(out)


def parameters_of(kind: str, dtype: DTypeLike) -> Callable[..., Any]:
    """A function that makes the parameters of one call, named after it: ``fc_0.w_0``."""
    builder = building.current()
    generate = unique_name.generate if builder is None else builder.program._layer_name
    owner = generate(kind)

    def make(shape: list[int], attr: Any, is_bias: bool = False, default_initializer: Any = None) -> Any:
        return make_parameter(kind, owner, shape, attr, dtype, is_bias, default_initializer, generate=generate)

    return make


def known_size(where: str, x: Tensor, axis: int) -> int:
    """The size along an axis that a parameter has to fit."""
    n = x.shape[axis]
    if isinstance(n, Dim):
        raise errors.bad(where, f"a known size along axis {axis}", described=f"shape {[int(i) for i in x.shape]}")
    return n


def fc(
    x: Tensor | Sequence[Tensor],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Apply a linear layer whose parameters are made here.

    Args:
        x: Tensor, or several whose results are added up.
        size: Number of features of the result.
        num_flatten_dims: Dimensions that stay as they are; the others become the features. Default: 1.
        weight_attr: A ``ParamAttr`` of the weight, or one for each tensor. Default: None.
        bias_attr: A ``ParamAttr`` of the bias, or False for none. Default: None.
        activation: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.

    Returns:
        Tensor of the first ``num_flatten_dims`` sizes of ``x`` and ``size``.

    Examples:
        >>> bireme.static.nn.fc(bireme.ones([2, 3, 4]), 5).shape
        [2, 5]
    """
    given: list[Any] = list(x) if isinstance(x, (list, tuple)) else [x]
    attrs = list(weight_attr) if isinstance(weight_attr, (list, tuple)) else [weight_attr] * len(given)
    parts = []
    make = parameters_of("fc", given[0].dtype)
    for each, attr in zip(given, attrs, strict=True):
        first = num_flatten_dims + each.ndim if num_flatten_dims < 0 else num_flatten_dims
        features = math.prod([known_size("fc(x)", each, i) for i in range(first, each.ndim)])
        weight = make([features, size], attr)
        parts.append(matmul(reshape(each, [*each.shape[:first], features]), weight))
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    bias = make([size], bias_attr, is_bias=True)
    return activated("fc(activation)", total if bias is None else add(total, bias), activation)


def embedding(
    input: Tensor,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """Look up rows of a table that is made here.

    Args:
        input: Tensor of integers.
        size: Number of rows and their length.
        is_sparse: Let ``Adam`` and ``AdamW`` with ``lazy_mode`` update only the rows that were read. Default: False.
        is_distributed: Has no effect.
        padding_idx: Index whose row is zeros and gets no gradient. Default: None.
        param_attr: A ``ParamAttr`` of the table. Default: None.
        dtype: Data type of the table. Default: ``"float32"``.

    Returns:
        Tensor of the shape of ``input`` with the length of a row added.

    Examples:
        >>> bireme.static.nn.embedding(bireme.to_tensor([0, 2]), [4, 3]).shape
        [2, 3]
    """
    if padding_idx is not None and padding_idx < 0:
        padding_idx += size[0]
    table = parameters_of("embedding", dtype)(list(size), param_attr)
    if is_sparse:
        table._read_by_rows = True
    return nn.functional.embedding(input, table, padding_idx=padding_idx)


def conv2d(
    input: Tensor,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: Any = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """Convolve images with kernels that are made here.

    Args:
        input: Images ``[N, C, H, W]``, or ``[N, H, W, C]``.
        num_filters: Number of channels of the result.
        filter_size: Sizes of the kernels.
        stride: Step of the kernels. Default: 1.
        padding: As for ``nn.functional.conv2d``. Default: 0.
        dilation: Distance of the elements of a kernel. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: None, one.
        param_attr: A ``ParamAttr`` of the kernels. Default: None.
        bias_attr: A ``ParamAttr`` of the bias, or False for none. Default: None.
        use_cudnn: Has no effect.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.
        data_format: ``"NCHW"`` or ``"NHWC"``. Default: ``"NCHW"``.

    Returns:
        Images of ``num_filters`` channels.

    Examples:
        >>> bireme.static.nn.conv2d(bireme.ones([1, 3, 8, 8]), 4, 3).shape
        [1, 4, 6, 6]
    """
    channels = known_size("conv2d(input)", input, 1 if data_format == "NCHW" else -1)
    layer = nn.Conv2D(
        channels, num_filters, filter_size, stride, padding, dilation, groups or 1,
        weight_attr=param_attr, bias_attr=bias_attr, data_format=data_format,
    )  # fmt: skip
    return activated("conv2d(act)", layer(input), act)


def conv3d(
    input: Tensor,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: Any = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    """Convolve volumes with kernels that are made here.

    Args:
        input: Volumes ``[N, C, D, H, W]``, or ``[N, D, H, W, C]``.
        num_filters: Number of channels of the result.
        filter_size: Sizes of the kernels.
        stride: Step of the kernels. Default: 1.
        padding: As for ``nn.functional.conv3d``. Default: 0.
        dilation: Distance of the elements of a kernel. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: None, one.
        param_attr: A ``ParamAttr`` of the kernels. Default: None.
        bias_attr: A ``ParamAttr`` of the bias, or False for none. Default: None.
        use_cudnn: Has no effect.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.
        data_format: ``"NCDHW"`` or ``"NDHWC"``. Default: ``"NCDHW"``.

    Returns:
        Volumes of ``num_filters`` channels.

    Examples:
        >>> bireme.static.nn.conv3d(bireme.ones([1, 2, 4, 4, 4]), 3, 2).shape
        [1, 3, 3, 3, 3]
    """
    channels = known_size("conv3d(input)", input, 1 if data_format == "NCDHW" else -1)
    layer = nn.Conv3D(
        channels, num_filters, filter_size, stride, padding, dilation, groups or 1,
        weight_attr=param_attr, bias_attr=bias_attr, data_format=data_format,
    )  # fmt: skip
    return activated("conv3d(act)", layer(input), act)


def batch_norm(
    input: Tensor,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Tensor:
    """Normalize each channel over the batch, with parameters and statistics that are made here.

    Args:
        input: Tensor ``[N, C, ...]``, or ``[N, ..., C]``.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        is_test: Use the statistics that were gathered instead of the batch's. Default: False.
        momentum: Share of the old statistics that is kept. Default: 0.9.
        epsilon: Added to the variance. Default: 1e-5.
        param_attr: A ``ParamAttr`` of the scale. Default: None.
        bias_attr: A ``ParamAttr`` of the shift. Default: None.
        data_layout: ``"NCHW"`` or ``"NHWC"``. Default: ``"NCHW"``.
        in_place: Has no effect.
        name: Has no effect.
        moving_mean_name: Name of the mean that is gathered. Default: None, a generated one.
        moving_variance_name: Name of the variance that is gathered. Default: None, a generated one.
        do_model_average_for_mean_and_var: Has no effect.
        use_global_stats: Use the statistics that were gathered in training too. Default: False.

    Returns:
        Tensor of the shape of ``input``.

    Examples:
        >>> bireme.static.nn.batch_norm(bireme.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """
    channels = known_size("batch_norm(input)", input, 1 if data_layout.startswith("NC") else -1)
    layer = nn.BatchNorm(
        channels, act, is_test, momentum, epsilon, param_attr, bias_attr,
        data_layout=data_layout, moving_mean_name=moving_mean_name, moving_variance_name=moving_variance_name,
        use_global_stats=use_global_stats,
    )  # fmt: skip
    if is_test:
        layer.eval()
    return layer(input)


def layer_norm(
    input: Tensor,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Normalize over the last dimensions, with parameters that are made here.

    Args:
        input: Tensor.
        scale: Multiply by a parameter. Default: True.
        shift: Add a parameter. Default: True.
        begin_norm_axis: First of the dimensions that are normalized over. Default: 1.
        epsilon: Added to the variance. Default: 1e-5.
        param_attr: A ``ParamAttr`` of the scale. Default: None.
        bias_attr: A ``ParamAttr`` of the shift. Default: None.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.

    Returns:
        Tensor of the shape of ``input``.

    Examples:
        >>> bireme.static.nn.layer_norm(bireme.ones([2, 3])).shape
        [2, 3]
    """
    sizes = [known_size("layer_norm(input)", input, i) for i in range(begin_norm_axis, input.ndim)]
    weight, bias = param_attr if scale else False, bias_attr if shift else False
    layer = nn.LayerNorm(sizes, epsilon, weight, bias)
    return activated("layer_norm(act)", layer(input), act)


def group_norm(
    input: Tensor,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Normalize over groups of channels, with parameters that are made here.

    Args:
        input: Tensor ``[N, C, ...]``, or ``[N, ..., C]``.
        groups: Number of groups.
        epsilon: Added to the variance. Default: 1e-5.
        param_attr: A ``ParamAttr`` of the scale, or False for none. Default: None.
        bias_attr: A ``ParamAttr`` of the shift, or False for none. Default: None.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        data_layout: ``"NCHW"`` or ``"NHWC"``. Default: ``"NCHW"``.
        name: Has no effect.

    Returns:
        Tensor of the shape of ``input``.

    Examples:
        >>> bireme.static.nn.group_norm(bireme.ones([2, 4, 3, 3]), 2).shape
        [2, 4, 3, 3]
    """
    channels = known_size("group_norm(input)", input, 1 if data_layout.startswith("NC") else -1)
    layer = nn.GroupNorm(groups, channels, epsilon, param_attr, bias_attr, data_layout)
    return activated("group_norm(act)", layer(input), act)


def instance_norm(
    input: Tensor, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, name: str | None = None
) -> Tensor:
    """Normalize each channel of each sample, with parameters that are made here.

    Args:
        input: Tensor ``[N, C, ...]``.
        epsilon: Added to the variance. Default: 1e-5.
        param_attr: A ``ParamAttr`` of the scale, or False for none. Default: None.
        bias_attr: A ``ParamAttr`` of the shift, or False for none. Default: None.
        name: Has no effect.

    Returns:
        Tensor of the shape of ``input``.

    Examples:
        >>> bireme.static.nn.instance_norm(bireme.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """
    kind = {3: nn.InstanceNorm1D, 4: nn.InstanceNorm2D, 5: nn.InstanceNorm3D}.get(input.ndim)
    if kind is None:
        raise errors.bad("instance_norm(input)", "3 to 5 dimensions", described=f"{input.ndim}")
    layer = kind(known_size("instance_norm(input)", input, 1), epsilon, weight_attr=param_attr, bias_attr=bias_attr)
    return layer(input)


def prelu(x: Tensor, mode: str, param_attr: Any = None, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Apply PReLU, with slopes that are made here.

    Args:
        x: Tensor.
        mode: ``"all"`` for one slope, ``"channel"`` for one for each channel, ``"element"`` for one for each element of
            a sample.
        param_attr: A ``ParamAttr`` of the slopes; they start with 0.25. Default: None.
        data_format: ``"NCHW"`` or ``"NHWC"``. Default: ``"NCHW"``.
        name: Has no effect.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.static.nn.prelu(bireme.to_tensor([[-4.0, 4.0]]), "all").tolist()
        [[-1.0, 4.0]]
    """
    if mode not in ("all", "channel", "element"):
        raise errors.bad("prelu(mode)", "'all', 'channel' or 'element'", mode)
    axis = 1 if data_format.startswith("NC") else -1
    start, make = nn.initializer.Constant(0.25), parameters_of("prelu", x.dtype)
    if mode == "element":
        sizes = [1, *[known_size("prelu(x)", x, i) for i in range(1, x.ndim)]]
        slope = make(sizes, param_attr, default_initializer=start)
        return nn.functional.relu(x) - nn.functional.relu(-x) * slope
    if mode == "all":
        return nn.functional.prelu(x, make([1], param_attr, default_initializer=start), data_format)
    channels = known_size("prelu(x)", x, axis)
    # the shape that files of Paddle's programs have
    sizes = [1, channels, 1, 1] if axis == 1 else [1, 1, 1, channels]
    slope = make(sizes, param_attr, default_initializer=start)
    return nn.functional.prelu(x, slope.reshape([channels]), data_format)


guard_functions(globals())
