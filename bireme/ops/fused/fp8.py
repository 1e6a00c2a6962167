"""Numbers of eight bits: float8 with a scale for each block of 128 elements, and products of such."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
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


@op(differentiable=False, dtypes=FLOAT, numbers={"epsilon": "float32"})
def to_eighths(x: Tensor, epsilon: Tensor | float, rows: int, pow2: bool) -> list[Tensor]:
    """float8 of [..., m, n] and what each block of `rows` rows and 128 columns is to be multiplied by; use `fp8_quant_blockwise`.

    >>> x = bireme.full([1, 128], 3.5)
    >>> q, scale = bireme.incubate.nn.functional.fp8_quant_blockwise(x, using_pow2_scale=False)
    >>> q[0, 0].astype("float32").item(), scale.tolist()
    (448.0, [[0.0078125]])
    """
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


@op(differentiable=False)
def from_eighths(x: Tensor, scale: Tensor, rows: int, dtype: Any) -> Tensor:
    """float8 of [m, n] times the scales of its blocks, in another type; use `fused_act_dequant`.

    >>> x = bireme.ones([1, 128]).astype("float8_e4m3fn")
    >>> bireme.incubate.nn.functional.fused_act_dequant(x, bireme.to_tensor([[0.5]]))[0, 0].item()
    0.5
    """
    return (x.astype(np.float32) * _spread(scale.astype(np.float32), x.shape, rows)).astype(dtypes.of(dtype).np)


from_eighths.infer(lambda x, dtype: sig_of(x.shape, dtypes.of(dtype)))


def quantised_rows(x: Tensor, pow2: bool) -> list[Tensor]:
    """Rows in float8, with a scale for every 128 elements."""
    return to_eighths(x, 0.0, 1, pow2)


@composite(plain=True)
def fp8_quant_blockwise(x: Tensor, epsilon: float = 0.0, input_transpose: bool = False, output_scale_transpose: bool = True,
                        return_transpose_only: bool = False, using_pow2_scale: bool = True, quant_method: str = "1x128",
                        output_type: str = "e4m3") -> tuple:  # fmt: skip
    """A matrix in float8 with a scale for every 128 elements of a row, or for every block of 128 x 128, and its transpose if asked.

    Scales are what the numbers are multiplied by to get them back; those of rows are transposed with `output_scale_transpose`.

    >>> q, scale = bireme.incubate.nn.functional.fp8_quant_blockwise(bireme.ones([2, 256]))
    >>> q.shape, scale.shape
    ([2, 256], [2, 2])
    """
    if quant_method not in ("1x128", "128x128"):
        raise errors.bad("fp8_quant_blockwise(quant_method)", "'1x128' or '128x128'", quant_method)
    if output_type != "e4m3":
        raise errors.bad("fp8_quant_blockwise(output_type)", "'e4m3'", output_type)
    floating("fp8_quant_blockwise(x)", x)
    if x.ndim != 2:
        raise errors.bad("fp8_quant_blockwise(x)", "a matrix", f"shape {x.shape}")
    rows = 1 if quant_method == "1x128" else BLOCK
    x = x.detach()
    found = []
    for t in [x] * (not (input_transpose and return_transpose_only)) + [x.transpose([1, 0])] * input_transpose:
        q, scale = to_eighths(t, epsilon, rows, using_pow2_scale)
        found += [q, scale.transpose([1, 0]) if rows == 1 and output_scale_transpose else scale]
    return tuple(found)


@composite(name_arg=False)
def fp8_gemm_blockwise(a: Tensor, a_decode_scale: Tensor, b: Tensor, b_decode_scale: Tensor, out_dtype: Attr, out: Tensor | None = None,
                       bias: Tensor | None = None, accumulate: bool = False, use_split_accumulator: bool = True, is_a_1d_scaled: bool = True,
                       is_b_1d_scaled: bool = True) -> Tensor:  # fmt: skip
    """`a @ b.T` of two matrices in float8 with the scales of their blocks, rows of 128 (as [blocks, rows]) or 128 x 128; into `out` if given.

    >>> F = bireme.incubate.nn.functional
    >>> q, scale = F.fp8_quant_blockwise(bireme.ones([1, 128]))
    >>> F.fp8_gemm_blockwise(q, scale, q, scale, "float32").tolist()
    [[128.0]]
    """
    wide = []
    for name, t, scale, flat in (("a", a, a_decode_scale, is_a_1d_scaled), ("b", b, b_decode_scale, is_b_1d_scaled)):
        if t.ndim != 2 or t.shape[1] != a.shape[-1] or t.dtype not in EIGHTHS:
            raise errors.bad(f"fp8_gemm_blockwise({name})", f"a matrix of float8 with {a.shape[-1]} columns", t)
        wanted = [_blocks(t.shape[1]), t.shape[0]] if flat else [_blocks(t.shape[0]), _blocks(t.shape[1])]
        if scale.shape != wanted:
            raise errors.bad(f"fp8_gemm_blockwise({name}_decode_scale)", f"shape {wanted}", f"shape {scale.shape}")
        wide.append(from_eighths(t, scale.transpose([1, 0]) if flat else scale, 1 if flat else BLOCK, "float32"))
    made = wide[0].matmul(wide[1], transpose_y=True)
    made = made if bias is None else made + bias.astype("float32")
    if out is None:
        return made.astype(dtypes.of(out_dtype, "fp8_gemm_blockwise(out_dtype)"))
    if out.shape != made.shape:
        raise errors.bad("fp8_gemm_blockwise(out)", f"shape {made.shape}", f"shape {out.shape}")
    out._assign_value((made + out.astype("float32") if accumulate else made).astype(out.dtype))
    return out


@composite(plain=True, name_arg=False)
def fused_act_dequant(x: Tensor, x_scale: Tensor) -> Tensor:
    """A matrix of float8 times a scale for every 128 elements of a row, as bfloat16.

    >>> x = bireme.ones([1, 128]).astype("float8_e4m3fn")
    >>> bireme.incubate.nn.functional.fused_act_dequant(x, bireme.to_tensor([[0.5]]))[0, 0].item()
    0.5
    """
    if x.ndim != 2 or x.dtype not in EIGHTHS or x_scale.shape != [x.shape[0], _blocks(x.shape[1])]:
        raise errors.bad(
            "fused_act_dequant(x)", "a matrix of float8, and a scale for every 128 of a row", f"{x.dtype.name}{x.shape}, {x_scale.shape}"
        )
    return from_eighths(x, x_scale, 1, "bfloat16")


@composite(plain=True)
def fused_weighted_swiglu_act_quant(x: Tensor, prob: Tensor | None = None, using_pow2_scaling: bool = False) -> tuple:
    """`swiglu(x)`, times a weight for each row if there is one, as rows of float8 with a scale for every 128 elements.

    >>> q, scale = bireme.incubate.nn.functional.fused_weighted_swiglu_act_quant(bireme.ones([2, 3, 256]))
    >>> q.shape, scale.shape
    ([6, 128], [6, 1])
    """
    floating("fused_weighted_swiglu_act_quant(x)", x)
    halves("fused_weighted_swiglu_act_quant(x)", x)
    rows = swiglu(x.detach().astype("float32").reshape([-1, x.shape[-1]]) if x._value.sig.size else x.detach().astype("float32").flatten(0, -2))
    if prob is not None:
        if prob._value.sig.size != rows.shape[0]:
            raise errors.bad("fused_weighted_swiglu_act_quant(prob)", f"{rows.shape[0]} weights, one for each row", prob)
        rows = rows * prob.detach().reshape([-1, 1]).astype("float32")
    return tuple(quantised_rows(rows, using_pow2_scaling))


@composite(name_arg=False)
def fused_stack_transpose_quant(x: Attr, transpose: bool = True) -> tuple:
    """Matrices [m, k] one below the other, each transposed first if asked, in float8 with a scale for every block of 128 x 128.

    >>> q, scale = bireme.incubate.nn.functional.fused_stack_transpose_quant([bireme.ones([256, 128])] * 2)
    >>> q.shape, scale.shape
    ([256, 256], [2, 2])
    """
    name = "fused_stack_transpose_quant"
    if not isinstance(x, (list, tuple)) or not x or not all(isinstance(t, Tensor) and t.ndim == 2 and t.shape == x[0].shape for t in x):
        raise errors.bad(f"{name}(x)", "a list of matrices of one shape", x, kind=TypeError)
    m, k = x[0].shape
    if m % BLOCK or k % BLOCK:
        raise errors.bad(f"{name}(x)", "matrices whose extents are multiples of 128", f"shape {x[0].shape}")
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
def fused_transpose_split_quant(x: Tensor, input_scales: Tensor | None, tokens_per_expert: Attr, pow_2_scales: bool = False) -> tuple:
    """The tokens [tokens, width] of each expert as [width, tokens] in float8, and scales [tokens / 128, width]; lists, one each per expert.

    A float8 `x` comes with `input_scales`, one for every 128 elements of a row.

    >>> outs, scales = bireme.incubate.nn.functional.fused_transpose_split_quant(bireme.ones([256, 4]), None, [128, 128])
    >>> [t.shape for t in outs], scales[0].shape
    ([[4, 128], [4, 128]], [1, 4])
    """
    name = "fused_transpose_split_quant"
    if x.ndim != 2 or (x.dtype in EIGHTHS) != (input_scales is not None):
        raise errors.bad(f"{name}(input_scales)", "scales for a matrix of float8, and for no other", f"{x.dtype.name}{x.shape}")
    if input_scales is not None:
        if input_scales.shape != [x.shape[0], _blocks(x.shape[1])]:
            raise errors.bad(f"{name}(input_scales)", f"shape {[x.shape[0], _blocks(x.shape[1])]}", f"shape {input_scales.shape}")
        x = from_eighths(x, input_scales, 1, "float32")
    floating(f"{name}(x)", x)
    return _split(name, x.detach(), tokens_per_expert, pow_2_scales)


@composite(name_arg=False)
def fused_transpose_wlch_split_quant(x: Tensor, tokens_per_expert: Attr, pow_2_scales: bool = False) -> tuple:
    """The tokens [processes, experts, capacity, width] of each expert as [width, tokens] in float8, with scales; see `fused_transpose_split_quant`.

    >>> outs, scales = bireme.incubate.nn.functional.fused_transpose_wlch_split_quant(bireme.ones([2, 1, 64, 4]), [128])
    >>> outs[0].shape, scales[0].shape
    ([4, 128], [1, 4])
    """
    name = "fused_transpose_wlch_split_quant"
    floating(f"{name}(x)", x)
    if x.ndim != 4:
        raise errors.bad(f"{name}(x)", "shape [processes, experts, capacity, width]", f"shape {x.shape}")
    w, n, c, width = x.shape
    return _split(name, x.detach().transpose([1, 0, 2, 3]).reshape([w * n * c, width]), tokens_per_expert, pow_2_scales)
