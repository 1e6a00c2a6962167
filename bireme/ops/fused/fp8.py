"""Quantization to float8 with a scale for each block of 128 elements, and products of such matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, DTypeLike
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.fused.matmul import E4M3_MAX, floating, halves, swiglu
from bireme.ops.manipulation.join import stack

BLOCK = 128
EIGHTHS = (dtypes.float8_e4m3fn, dtypes.float8_e5m2)


def _blocks(n: int) -> int:
    return -(-n // BLOCK)


def _spread(scale, shape, rows):
    """A scale for each element: of blocks of `rows` rows and 128 columns."""
    wide = jnp.repeat(scale, BLOCK, axis=-1)[..., : shape[-1]]
    return wide if rows == 1 else jnp.repeat(wide, rows, axis=-2)[..., : shape[-2], :]


@op(internal=True, differentiable=False, dtypes=FLOAT, numbers={"epsilon": "float32"})
def to_eighths(x: Tensor, epsilon: Tensor | float, rows: int, pow2: bool) -> list[Tensor]:
    """float8 of [..., m, n] and the factor of each block of `rows` rows and 128 columns; use `fp8_quant_blockwise`."""
    wide, (m, n) = x.astype(np.float32), x.shape[-2:]
    pad = [(0, 0)] * (x.ndim - 2) + [(0, -m % rows), (0, -n % BLOCK)]
    tiles = jnp.pad(jnp.abs(wide), pad).reshape(*x.shape[:-2], -(-m // rows), rows, _blocks(n), BLOCK)
    most = jnp.maximum(jnp.max(tiles, axis=(-3, -1), initial=0), epsilon.astype(np.float32))
    factor = jnp.where(most == 0, np.float32(1), np.float32(E4M3_MAX) / jnp.where(most == 0, np.float32(1), most))
    factor = jnp.minimum(factor, np.finfo(np.float32).max)
    if pow2:  # the next power of two below
        mantissa, exponent = jnp.frexp(factor)
        factor = jnp.ldexp(jnp.full_like(mantissa, 0.5), exponent)
    q = jnp.clip(wide * _spread(factor, x.shape, rows), -E4M3_MAX, E4M3_MAX).astype(dtypes.float8_e4m3fn.np)
    return [q, (1 / factor).astype(np.float32)]


@to_eighths.infer
def _(x, rows):
    scales = (*x.shape[:-2], -(-x.shape[-2] // rows), _blocks(x.shape[-1]))
    return [sig_of(x.shape, dtypes.float8_e4m3fn), sig_of(scales, dtypes.float32)]


@op(internal=True, differentiable=False)
def from_eighths(x: Tensor, scale: Tensor, rows: int, dtype: Any) -> Tensor:
    """float8 of [m, n] times the scales of its blocks, in another dtype; use `fused_act_dequant`."""
    return (x.astype(np.float32) * _spread(scale.astype(np.float32), x.shape, rows)).astype(dtypes.of(dtype).np)


from_eighths.infer(lambda x, dtype: sig_of(x.shape, dtypes.of(dtype)))


def quantised_rows(x: Tensor, pow2: bool) -> list[Tensor]:
    """Rows in float8, with a scale for every 128 elements."""
    return to_eighths(x, 0.0, 1, pow2)


@composite(plain=True)
def fp8_quant_blockwise(x: Tensor, epsilon: float = 0.0, input_transpose: bool = False,
                        output_scale_transpose: bool = True, return_transpose_only: bool = False,
                        using_pow2_scale: bool = True, quant_method: str = "1x128",
                        output_type: str = "e4m3") -> tuple[Tensor, ...]:  # fmt: skip
    """Quantize a matrix to float8 with a scale for each block of 128 elements.

    A number is recovered by multiplying it by the scale of its block.

    Args:
        x: Matrix of shape ``[M, N]``, of a floating-point dtype.
        epsilon: Least magnitude that a block is scaled for. Default: 0.0.
        input_transpose: Whether to quantize the transpose too. Default: False.
        output_scale_transpose: Whether to transpose the scales of blocks of rows, to ``[N / 128, M]``. Default: True.
        return_transpose_only: Whether to return the transpose alone, with ``input_transpose``. Default: False.
        using_pow2_scale: Whether scales are powers of 2. Default: True.
        quant_method: ``'1x128'`` for blocks of 128 elements of a row, or ``'128x128'``. Default: ``'1x128'``.
        output_type: Must be ``'e4m3'``. Default: ``'e4m3'``.

    Returns:
        Tuple of the float8_e4m3fn matrix and its float32 scales, followed by those of the transpose if asked for.

    Examples:
        >>> x = bireme.full([1, 128], 3.5)
        >>> q, scale = bireme.incubate.nn.functional.fp8_quant_blockwise(x, using_pow2_scale=False)
        >>> q[0, 0].astype("float32").item(), scale.tolist()
        (448.0, [[0.0078125]])
    """
    if quant_method not in ("1x128", "128x128"):
        raise errors.bad("fp8_quant_blockwise(quant_method)", "'1x128' or '128x128'", quant_method)
    if output_type != "e4m3":
        raise errors.bad("fp8_quant_blockwise(output_type)", "'e4m3'", output_type)
    floating("fp8_quant_blockwise(x)", x)
    if x.ndim != 2:
        raise errors.bad("fp8_quant_blockwise(x)", "a matrix", described=f"shape {x.shape}", kind=errors.ShapeError)
    rows = 1 if quant_method == "1x128" else BLOCK
    x = x.detach()
    found = []
    for t in [x] * (not (input_transpose and return_transpose_only)) + [x.transpose([1, 0])] * input_transpose:
        q, scale = to_eighths(t, epsilon, rows, using_pow2_scale)
        found += [q, scale.transpose([1, 0]) if rows == 1 and output_scale_transpose else scale]
    return tuple(found)


@composite(name_arg=False)
def fp8_gemm_blockwise(a: Tensor, a_decode_scale: Tensor, b: Tensor, b_decode_scale: Tensor, out_dtype: Attr[DTypeLike],
                       out: Tensor | None = None, bias: Tensor | None = None, accumulate: bool = False,
                       use_split_accumulator: bool = True, is_a_1d_scaled: bool = True,
                       is_b_1d_scaled: bool = True) -> Tensor:  # fmt: skip
    """Product ``a @ b.T`` of two float8 matrices with scales for their blocks.

    Args:
        a: Matrix of shape ``[M, K]``, of a float8 dtype.
        a_decode_scale: Its scales: ``[K / 128, M]``, or ``[M / 128, K / 128]`` for blocks of 128 x 128.
        b: Matrix of shape ``[N, K]``, of a float8 dtype.
        b_decode_scale: Its scales: ``[K / 128, N]``, or ``[N / 128, K / 128]`` for blocks of 128 x 128.
        out_dtype: Data type of the result, if ``out`` is not given.
        out: Tensor of shape ``[M, N]`` that takes the result. Default: None.
        bias: Tensor that is added; it broadcasts. Default: None.
        accumulate: Whether to add the result to what ``out`` holds. Default: False.
        use_split_accumulator: Not used: sums are in float32. Default: True.
        is_a_1d_scaled: Whether ``a`` has a scale for 128 elements of a row, else for 128 x 128. Default: True.
        is_b_1d_scaled: Whether ``b`` has a scale for 128 elements of a row, else for 128 x 128. Default: True.

    Returns:
        Tensor of shape ``[M, N]``; ``out`` itself if it is given.

    Examples:
        >>> F = bireme.incubate.nn.functional
        >>> q, scale = F.fp8_quant_blockwise(bireme.ones([1, 128]))
        >>> F.fp8_gemm_blockwise(q, scale, q, scale, "float32").tolist()
        [[128.0]]
    """
    wide = []
    for name, t, scale, flat in (("a", a, a_decode_scale, is_a_1d_scaled), ("b", b, b_decode_scale, is_b_1d_scaled)):
        if t.ndim != 2 or t.shape[1] != a.shape[-1] or t.dtype not in EIGHTHS:
            raise errors.bad(f"fp8_gemm_blockwise({name})", f"a float8 matrix with {a.shape[-1]} columns", t)
        wanted = [_blocks(t.shape[1]), t.shape[0]] if flat else [_blocks(t.shape[0]), _blocks(t.shape[1])]
        if scale.shape != wanted:
            raise errors.bad(
                f"fp8_gemm_blockwise({name}_decode_scale)",
                f"shape {wanted}",
                described=f"shape {scale.shape}",
                kind=errors.ShapeError,
            )
        wide.append(from_eighths(t, scale.transpose([1, 0]) if flat else scale, 1 if flat else BLOCK, "float32"))
    made = wide[0].matmul(wide[1], transpose_y=True)
    made = made if bias is None else made + bias.astype("float32")
    if out is None:
        return made.astype(dtypes.of(out_dtype, "fp8_gemm_blockwise(out_dtype)"))
    if out.shape != made.shape:
        raise errors.bad(
            "fp8_gemm_blockwise(out)", f"shape {made.shape}", described=f"shape {out.shape}", kind=errors.ShapeError
        )
    out._assign_value((made + out.astype("float32") if accumulate else made).astype(out.dtype))
    return out


@composite(plain=True, name_arg=False)
def fused_act_dequant(x: Tensor, x_scale: Tensor) -> Tensor:
    """Dequantize a float8 matrix that has a scale for every 128 elements of a row.

    Args:
        x: Matrix of shape ``[M, N]``, of a float8 dtype.
        x_scale: Scales of shape ``[M, N / 128]``, rounded up.

    Returns:
        Tensor of shape ``[M, N]`` and dtype bfloat16.

    Examples:
        >>> x = bireme.ones([1, 128]).astype("float8_e4m3fn")
        >>> bireme.incubate.nn.functional.fused_act_dequant(x, bireme.to_tensor([[0.5]]))[0, 0].item()
        0.5
    """
    if x.ndim != 2 or x.dtype not in EIGHTHS or x_scale.shape != [x.shape[0], _blocks(x.shape[1])]:
        raise errors.bad(
            "fused_act_dequant(x)",
            "a float8 matrix, and a scale for every 128 elements of a row",
            described=f"{x.dtype.name}{x.shape}, {x_scale.shape}",
        )
    return from_eighths(x, x_scale, 1, "bfloat16")


@composite(plain=True)
def fused_weighted_swiglu_act_quant(x: Tensor, prob: Tensor | None = None,
                                    using_pow2_scaling: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``swiglu`` with a weight for each row, quantized to float8 with a scale for every 128 elements of a row.

    Args:
        x: Tensor of a floating-point dtype with an even size of the last axis.
        prob: Weight of each row. Default: None.
        using_pow2_scaling: Whether scales are powers of 2. Default: False.

    Returns:
        Pair of the float8_e4m3fn rows, of shape ``[rows, width / 2]``, and their scales, of shape
        ``[rows, width / 256]``, rounded up; leading axes of ``x`` are flattened.

    Examples:
        >>> q, scale = bireme.incubate.nn.functional.fused_weighted_swiglu_act_quant(bireme.ones([2, 3, 256]))
        >>> q.shape, scale.shape
        ([6, 128], [6, 1])
    """
    floating("fused_weighted_swiglu_act_quant(x)", x)
    halves("fused_weighted_swiglu_act_quant(x)", x)
    rows = swiglu(
        x.detach().astype("float32").reshape([-1, x.shape[-1]])
        if x._value.sig.size
        else x.detach().astype("float32").flatten(0, -2)
    )
    if prob is not None:
        if prob._value.sig.size != rows.shape[0]:
            raise errors.bad(
                "fused_weighted_swiglu_act_quant(prob)", f"{rows.shape[0]} weights, one for each row", prob
            )
        rows = rows * prob.detach().reshape([-1, 1]).astype("float32")
    return tuple(quantised_rows(rows, using_pow2_scaling))


@composite(name_arg=False)
def fused_stack_transpose_quant(x: Attr[Sequence[Tensor]], transpose: bool = True) -> tuple[Tensor, Tensor]:
    """Stack matrices, transpose each of them, and quantize to float8 with a scale for every block of 128 x 128.

    Args:
        x: List of matrices of one shape ``[M, K]``, both multiples of 128.
        transpose: Whether to transpose each matrix first. Default: True.

    Returns:
        Pair of the float8_e4m3fn matrices one below the other, ``[len(x) * K, M]`` or ``[len(x) * M, K]``, and their
        scales.

    Examples:
        >>> q, scale = bireme.incubate.nn.functional.fused_stack_transpose_quant([bireme.ones([256, 128])] * 2)
        >>> q.shape, scale.shape
        ([256, 256], [2, 2])
    """
    name = "fused_stack_transpose_quant"
    if (
        not isinstance(x, (list, tuple))
        or not x
        or not all(isinstance(t, Tensor) and t.ndim == 2 and t.shape == x[0].shape for t in x)
    ):
        raise errors.bad(f"{name}(x)", "a list of matrices of one shape", x, kind=errors.ArgumentTypeError)
    m, k = x[0].shape
    if m % BLOCK or k % BLOCK:
        raise errors.bad(
            f"{name}(x)",
            "matrices whose sizes are multiples of 128",
            described=f"shape {x[0].shape}",
            kind=errors.ShapeError,
        )
    rows = stack([t.detach() for t in x])
    rows = rows.transpose([0, 2, 1]).reshape([-1, m]) if transpose else rows.reshape([-1, k])
    return tuple(to_eighths(rows, 0.0, BLOCK, False))


def _split(name: str, x: Tensor, counts: Any, pow2: bool) -> tuple:
    """Rows of each expert, transposed, in float8 with a scale for every 128 tokens; scales as [blocks, width]."""
    if (
        not isinstance(counts, (list, tuple))
        or not all(isinstance(n, int) and n >= 0 and n % BLOCK == 0 for n in counts)
        or sum(counts) != x.shape[0]
    ):
        raise errors.bad(f"{name}(tokens_per_expert)", f"multiples of 128 that add up to {x.shape[0]} tokens", counts)
    outs, scales, at = [], [], 0
    for n in counts:
        q, scale = to_eighths(x[at : at + n].transpose([1, 0]), 0.0, 1, pow2)
        outs.append(q)
        scales.append(scale.transpose([1, 0]))
        at += n
    return outs, scales


@composite(name_arg=False)
def fused_transpose_split_quant(x: Tensor, input_scales: Tensor | None, tokens_per_expert: Attr[Sequence[int]],
                                pow_2_scales: bool = False) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    """Split tokens by expert, transpose each part, and quantize it to float8 with a scale for every 128 tokens.

    Args:
        x: Tokens of shape ``[tokens, width]``, sorted by expert; of a floating-point or float8 dtype.
        input_scales: Scales of a float8 ``x``, ``[tokens, width / 128]``; ``None`` otherwise.
        tokens_per_expert: List with the number of tokens of each expert, multiples of 128.
        pow_2_scales: Whether scales are powers of 2. Default: False.

    Returns:
        Pair of two lists with one element for each expert: float8_e4m3fn of shape ``[width, its tokens]``, and scales
        of shape ``[its tokens / 128, width]``.

    Examples:
        >>> x = bireme.ones([256, 4])
        >>> outs, scales = bireme.incubate.nn.functional.fused_transpose_split_quant(x, None, [128, 128])
        >>> [t.shape for t in outs], scales[0].shape
        ([[4, 128], [4, 128]], [1, 4])
    """
    name = "fused_transpose_split_quant"
    if x.ndim != 2 or (x.dtype in EIGHTHS) != (input_scales is not None):
        raise errors.bad(
            f"{name}(input_scales)",
            "scales for a float8 matrix, and None for any other",
            described=f"{x.dtype.name}{x.shape}",
        )
    if input_scales is not None:
        if input_scales.shape != [x.shape[0], _blocks(x.shape[1])]:
            raise errors.bad(
                f"{name}(input_scales)",
                f"shape {[x.shape[0], _blocks(x.shape[1])]}",
                described=f"shape {input_scales.shape}",
                kind=errors.ShapeError,
            )
        x = from_eighths(x, input_scales, 1, "float32")
    floating(f"{name}(x)", x)
    return _split(name, x.detach(), tokens_per_expert, pow_2_scales)


@composite(name_arg=False)
def fused_transpose_wlch_split_quant(x: Tensor, tokens_per_expert: Attr[Sequence[int]],
                                     pow_2_scales: bool = False) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    """``fused_transpose_split_quant`` of tokens that come from several processes.

    Args:
        x: Tokens of shape ``[processes, experts, capacity, width]``, of a floating-point dtype.
        tokens_per_expert: List with the number of tokens of each expert, multiples of 128.
        pow_2_scales: Whether scales are powers of 2. Default: False.

    Returns:
        Pair of two lists with one element for each expert: float8_e4m3fn of shape ``[width, its tokens]``, and scales
        of shape ``[its tokens / 128, width]``.

    Examples:
        >>> x = bireme.ones([2, 1, 64, 4])
        >>> outs, scales = bireme.incubate.nn.functional.fused_transpose_wlch_split_quant(x, [128])
        >>> outs[0].shape, scales[0].shape
        ([4, 128], [1, 4])
    """
    name = "fused_transpose_wlch_split_quant"
    floating(f"{name}(x)", x)
    if x.ndim != 4:
        raise errors.bad(
            f"{name}(x)",
            "shape [processes, experts, capacity, width]",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    w, n, c, width = x.shape
    return _split(name, x.detach().transpose([1, 0, 2, 3]).reshape([w * n * c, width]), tokens_per_expert, pow_2_scales)
