"""Products of matrices and of batches of them."""

from __future__ import annotations

import builtins
import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.declare import conversion
from bireme.core.declare.op import DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import blas
from bireme.ops._shared.broadcast import broadcast_shape, sum_to_shape

NUMBER = FLOAT | COMPLEX | INT


def _flat(x):
    """A batch of rows as one matrix; counted, as an empty row leaves their number open."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _product(x, y, transpose_x, transpose_y):
    """x @ y with either transposed. Contracts whichever axes it is given: a transpose before a dot would be a copy."""
    if x.ndim == 1 or y.ndim == 1 or x.ndim > y.ndim > 2 or y.ndim > x.ndim > 2:
        a = jnp.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
        b = jnp.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
        return jnp.matmul(a, b)
    cx, cy = x.ndim - (2 if transpose_x else 1), y.ndim - (1 if transpose_y else 2)
    if y.ndim == 2:
        if transpose_x and x.ndim > 2:
            return jnp.matmul(jnp.swapaxes(x, -1, -2), y.T if transpose_y else y)
        if x.ndim > 2:  # one flat product instead of a batch of small ones
            flat = lax.dot_general(_flat(x), y, (((1,), (cy,)), ((), ())))
            return flat.reshape(*x.shape[:-1], flat.shape[-1])
        return lax.dot_general(x, y, (((cx,), (cy,)), ((), ())))
    if x.shape[:-2] != y.shape[:-2]:
        a = jnp.swapaxes(x, -1, -2) if transpose_x else x
        return jnp.matmul(a, jnp.swapaxes(y, -1, -2) if transpose_y else y)
    batch = tuple(range(x.ndim - 2))
    return lax.dot_general(x, y, (((cx,), (cy,)), (batch, batch)))


def _product_numpy(x, y, transpose_x, transpose_y):
    a = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    b = np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
    if b.ndim == 2 and a.ndim > 2 and not transpose_x:
        return blas.matmul(_flat(a), b).reshape(*a.shape[:-1], b.shape[-1])
    if a.ndim > 1 < b.ndim and a.shape[-1] == 1:  # outer products: BLAS takes five times as long for them
        return np.multiply(a, b)
    return blas.matmul(a, b)


@op(method=True, promote="x y", mix="products", dtypes=NUMBER, torch=True, out=True, bilinear=True, numpy=_product_numpy,
    amp="low", kernels="matmul_v2 mul")  # fmt: skip
def matmul(x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    """Matrix product of two tensors, with broadcasting of all axes before the last two.

    A 1-D ``x`` is a row and a 1-D ``y`` a column, and the axis that they add is left out of the result; two vectors
    give their inner product.

    Args:
        x: Tensor of numbers with at least one axis.
        y: Tensor with at least one axis. Floating-point dtypes mix with each other and real ones with complex ones; an
            integer ``y`` takes the dtype of a floating-point ``x``.
        transpose_x: Whether to swap the last two axes of ``x`` first; without effect on a vector. Default: False.
        transpose_y: Whether to swap the last two axes of ``y`` first; without effect on a vector. Default: False.

    Returns:
        Tensor of shape ``[..., n, m]`` for shapes ``[..., n, k]`` and ``[..., k, m]``.

    Raises:
        ValueError: If the sizes to be summed over differ, or an operand is 0-D.
        TypeError: If the dtypes do not mix.

    Examples:
        >>> bireme.matmul(bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])).tolist()
        [[11.0]]
    """
    return _product(x, y, transpose_x, transpose_y)


@composite(method=True, plain=True, hands={"x": "input", "y": "mat2"})
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Matrix product of two tensors; another name of ``matmul`` without its options.

    Args:
        input: Tensor of numbers with at least one axis.
        mat2: Tensor with at least one axis; its dtype may be another one, as in ``matmul``.

    Returns:
        Tensor of shape ``[..., n, m]`` for shapes ``[..., n, k]`` and ``[..., k, m]``.

    Raises:
        ValueError: If the sizes to be summed over differ.

    Examples:
        >>> bireme.mm(bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])).tolist()
        [[11.0]]
    """
    return matmul(input, mat2)


@matmul.infer
def _(x, y, transpose_x, transpose_y):
    if x.ndim == 0 or y.ndim == 0:
        name, got = ("x", x) if x.ndim == 0 else ("y", y)
        raise errors.bad(
            f"matmul({name})",
            "a tensor with at least 1 dimension",
            described=f"shape {list(got.shape)}",
            kind=errors.ShapeError,
        )
    a = x.shape if x.ndim > 1 else (1, x.shape[0])
    b = y.shape if y.ndim > 1 else (y.shape[0], 1)
    rows, inner = (a[-1], a[-2]) if transpose_x and x.ndim > 1 else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if transpose_y and y.ndim > 1 else (b[-2], b[-1])
    if inner != other:
        hint = (
            "pass transpose_y=True if y holds one row per output"
            if not transpose_y and y.ndim > 1 and b[-1] == inner
            else None
        )
        raise errors.bad(
            "matmul(y)",
            f"{inner} rows to match x of shape {list(x.shape)}",
            described=f"shape {list(y.shape)}",
            hint=hint,
            kind=errors.ShapeError,
        )
    batch = broadcast_shape("matmul", a[:-2], b[:-2])
    shape = batch + ((rows,) if x.ndim > 1 else ()) + ((columns,) if y.ndim > 1 else ())
    return sig_of(shape, x.dtype)


@matmul.short
def _(x, y, transpose_x, transpose_y):
    plain = x.ndim == y.ndim == 2 and x.shape[1] > 1 and not transpose_x and not transpose_y
    plain = plain and x.dtype is y.dtype and x.dtype.kind == "f" and x.dtype.itemsize > 2
    return np.matmul if plain and x.size * y.shape[1] < blas.SHARED_PRODUCT else None


@matmul.rows
def _(x, y, transpose_x):
    return ("x",) if x.ndim > 1 and y.ndim <= 2 and not transpose_x else ()


@matmul.flops
def _(x, y):
    return x.size * (y.shape[-1] if y.ndim > 1 else 1)


def _gradient_product(x, y, transpose_x, transpose_y):
    """x^T @ y for XLA on CPU, whose product of two such operands is its slowest.

    With twice as many rows as columns (y^T @ x)^T is up to 1.6 times faster, the other way round a transposed copy of x
    gains a tenth. The barriers keep XLA from turning them back.
    """
    if x.ndim == y.ndim == 2 and transpose_x and not transpose_y:
        rows, columns = x.shape[1], y.shape[1]
        if rows >= 2 * columns:
            return lax.optimization_barrier(lax.dot_general(y, x, (((0,), (0,)), ((), ())))).T
        if 2 * rows <= columns <= 8 * rows:
            return lax.dot_general(lax.optimization_barrier(x.T), y, (((1,), (0,)), ((), ())))
    return _product(x, y, transpose_x, transpose_y)


def _grad_numpy(g, x, y, transpose_x, transpose_y, sigs, needs):
    if sigs[0].ndim == sigs[1].ndim == 2 and not transpose_x and not transpose_y and g.dtype.kind == "f":
        # the same products as below, without what takes as long as a small one
        return (
            _product_numpy(g, y.T, False, False) if needs[0] else None,
            _product_numpy(x.T, g, False, False) if needs[1] else None,
        )
    return _matmul_grad(g, x, y, transpose_x, transpose_y, sigs, needs, np, _product_numpy)


@matmul.grad(numpy=_grad_numpy)
def _(g, x, y, transpose_x, transpose_y, sigs, needs):
    return _matmul_grad(g, x, y, transpose_x, transpose_y, sigs, needs, jnp, _product)


@matmul.grad(on="cpu")
def _(g, x, y, transpose_x, transpose_y, sigs, needs):
    return _matmul_grad(g, x, y, transpose_x, transpose_y, sigs, needs, jnp, _gradient_product)


def _matmul_grad(g, x, y, transpose_x, transpose_y, sigs, needs, xp, product):
    """Each gradient is a product too; flat 2-D ones wherever a batch meets one matrix."""
    return (
        _of_x(g, y, transpose_x, transpose_y, sigs, xp, product) if needs[0] else None,
        _of_y(g, x, transpose_x, transpose_y, sigs, xp, product) if needs[1] else None,
    )


def _of_x(g, y, transpose_x, transpose_y, sigs, xp, product):
    x, y = sigs[0], xp.conj(y) if xp.iscomplexobj(y) else y
    if y.ndim == 2 and x.ndim > 2 and not transpose_x:
        return product(_flat(g), y, False, not transpose_y).reshape(x.shape)
    g, shape = _as_matrices(g, sigs, xp), (1, *x.shape) if x.ndim == 1 else x.shape
    transpose_x, transpose_y, y = (
        transpose_x and x.ndim > 1,
        transpose_y and y.ndim > 1,
        y[:, None] if y.ndim == 1 else y,
    )
    dx = product(y, g, transpose_y, True) if transpose_x else product(g, y, False, not transpose_y)
    return sum_to_shape(dx, shape).reshape(x.shape)


def _of_y(g, x, transpose_x, transpose_y, sigs, xp, product):
    x, y = xp.conj(x) if xp.iscomplexobj(x) else x, sigs[1]
    if y.ndim == 2 and x.ndim > 2 and not transpose_x:
        g, x = _flat(g), _flat(x)
        return product(g, x, True, False) if transpose_y else product(x, g, True, False)
    g, shape = _as_matrices(g, sigs, xp), (*y.shape, 1) if y.ndim == 1 else y.shape
    transpose_x, transpose_y, x = (
        transpose_x and x.ndim > 1,
        transpose_y and y.ndim > 1,
        x[None, :] if x.ndim == 1 else x,
    )
    dy = product(g, x, True, transpose_x) if transpose_y else product(x, g, not transpose_x, False)
    return sum_to_shape(dy, shape).reshape(y.shape)


def _as_matrices(g, sigs, xp):
    """The gradient with the axes that vectors have left out."""
    if sigs[0].ndim == 1:
        g = xp.expand_dims(g, -1 if sigs[1].ndim == 1 else -2)
    return xp.expand_dims(g, -1) if sigs[1].ndim == 1 else g


# ---------------------------------------------------------------- products of a fixed rank


def _needs(name: str, argument: str, x: Tensor, *ranks: int) -> None:
    if x.ndim not in ranks:
        wanted = " or ".join([f"{n}-D" for n in ranks])
        raise errors.bad(
            f"{name}({argument})",
            f"a {wanted} tensor",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )


@composite(method=True, alias={"x": "input", "y": "mat2"}, out=True, plain=True)
def bmm(x: Tensor, y: Tensor) -> Tensor:
    """Matrix products of two batches of matrices, one by one.

    Args:
        x: Tensor of shape ``[b, n, k]``.
        y: Tensor of shape ``[b, k, m]``; its dtype may be another one, as in ``matmul``.

    Returns:
        Tensor of shape ``[b, n, m]``.

    Raises:
        ValueError: If a tensor does not have three axes, or the sizes differ.

    Examples:
        >>> bireme.bmm(bireme.to_tensor([[[1.0, 2.0]]]), bireme.to_tensor([[[3.0], [4.0]]])).tolist()
        [[[11.0]]]
    """
    _needs("bmm", "x", x, 3)
    _needs("bmm", "y", y, 3)
    if x.shape[0] != y.shape[0]:
        raise errors.bad(
            "bmm(y)", f"{x.shape[0]} matrices as in x", described=f"shape {y.shape}", kind=errors.ShapeError
        )
    return matmul(x, y)


@composite(method=True, plain=True, hands={"y": "vec"})
def mv(x: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector.

    Args:
        x: Matrix of shape ``[n, k]``.
        vec: Vector of size ``k``; its dtype may be another one, as in ``matmul``.

    Returns:
        Vector of size ``n``.

    Raises:
        ValueError: If ``x`` is not a matrix, ``vec`` not a vector, or the sizes differ.

    Examples:
        >>> bireme.mv(bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([3.0, 4.0])).tolist()
        [11.0]
    """
    _needs("mv", "x", x, 2)
    _needs("mv", "vec", vec, 1)
    return matmul(x, vec)


def _plus_product(name: str, rank: int, input: Tensor, x: Tensor, y: Tensor, beta: float, alpha: float) -> Tensor:
    _needs(name, "input", input, rank - 1, rank)
    _needs(name, "x", x, rank)
    _needs(name, "y", y, rank)
    if x.shape[:-2] != y.shape[:-2]:
        raise errors.bad(
            f"{name}(y)", f"{x.shape[0]} matrices as in x", described=f"shape {y.shape}", kind=errors.ShapeError
        )
    dtype = conversion.common_dtype(name, [input, x, y], "products")
    if not dtype.is_inexact:
        raise errors.bad(
            f"{name}(x)", "a floating-point or complex dtype", described=x.dtype.name, kind=errors.DtypeError
        )
    input, x, y = (t if t.dtype is dtype else t.astype(dtype) for t in (input, x, y))
    product = matmul(x, y)
    if rank == 3 and input.ndim == 2:  # one row for each matrix, not the same matrix for each
        input = input.unsqueeze(1)
        if input.shape[0] != x.shape[0]:
            raise errors.bad(
                f"{name}(input)",
                f"{x.shape[0]} rows, one for each matrix of x",
                described=f"shape {[input.shape[0], input.shape[2]]}",
                kind=errors.ShapeError,
            )
    if list(broadcast_shape(name, tuple(input.shape), tuple(product.shape))) != product.shape:
        raise errors.bad(
            f"{name}(input)",
            f"a tensor that broadcasts to {product.shape}",
            described=f"shape {input.shape}",
            kind=errors.ShapeError,
        )
    return (input if beta == 1 else input * beta) + (product if alpha == 1 else product * alpha)


@composite(method=True, inplace=True, amp="one")
def addmm(input: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Matrix product added to a matrix: ``beta * input + alpha * (x @ y)``.

    Args:
        input: Matrix or vector that broadcasts to the product.
        x: Matrix of shape ``[n, k]``, floating-point or complex.
        y: Matrix of shape ``[k, m]``; the dtypes of all three mix as in ``matmul``.
        beta: Factor of ``input``. Default: 1.0.
        alpha: Factor of the product. Default: 1.0.

    Returns:
        Matrix of shape ``[n, m]``.

    Raises:
        ValueError: If a shape does not fit.
        TypeError: If the dtypes do not mix.

    Examples:
        >>> x, y = bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])
        >>> bireme.addmm(bireme.to_tensor([[10.0]]), x, y, beta=0.5).tolist()
        [[16.0]]
    """
    return _plus_product("addmm", 2, input, x, y, beta, alpha)


@composite(method=True, inplace=True)
def baddbmm(input: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Batch of matrix products added to a batch of matrices: ``beta * input + alpha * (x @ y)``.

    Args:
        input: Tensor with three axes that broadcasts to the product, or of shape ``[b, m]`` with one row for each
            matrix.
        x: Tensor of shape ``[b, n, k]``, floating-point or complex.
        y: Tensor of shape ``[b, k, m]``; the dtypes of all three mix as in ``matmul``.
        beta: Factor of ``input``. Default: 1.0.
        alpha: Factor of the products. Default: 1.0.

    Returns:
        Tensor of shape ``[b, n, m]``.

    Raises:
        ValueError: If a shape does not fit.
        TypeError: If the dtypes do not mix.

    Examples:
        >>> x, y = bireme.to_tensor([[[1.0, 2.0]]]), bireme.to_tensor([[[3.0], [4.0]]])
        >>> bireme.baddbmm(bireme.to_tensor([[[10.0]]]), x, y, alpha=2.0).tolist()
        [[[32.0]]]
    """
    return _plus_product("baddbmm", 3, input, x, y, beta, alpha)


# ---------------------------------------------------------------- chains


def _cheapest(extents: list[int]) -> list[list[int]]:
    """Where to split each chain of matrices i..j for the fewest multiplications."""
    n = len(extents) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            found = [
                (cost[i][k] + cost[k + 1][j] + extents[i] * extents[k + 1] * extents[j + 1], k) for k in range(i, j)
            ]
            cost[i][j], split[i][j] = builtins.min(found)
    return split


@composite(method=True, hands={"y": "x"})
def multi_dot(x: list[Tensor]) -> Tensor:
    """Product of several matrices, in the order that takes the fewest multiplications.

    Args:
        x: List of at least two matrices; the first and the last may be vectors.

    Returns:
        Tensor of the product: a matrix, a vector if one end is a vector, a 0-D tensor if both are.

    Raises:
        ValueError: If there are fewer than two tensors, or the sizes do not match.

    Examples:
        >>> m = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> bireme.linalg.multi_dot([m, m, bireme.to_tensor([1.0, 1.0])]).tolist()
        [17.0, 37.0]
    """
    if len(x) < 2:
        raise errors.bad("multi_dot(x)", "two tensors or more", described=f"{len(x)}")
    for i, t in enumerate(x):
        if t.ndim != 2 and not (t.ndim == 1 and i in (0, len(x) - 1)):
            raise errors.bad(
                "multi_dot(x)",
                "matrices, with vectors only at the ends",
                described=f"shape {t.shape} at index {i}",
                kind=errors.ShapeError,
            )
    extents = [
        1 if x[0].ndim == 1 else x[0].shape[0],
        *[t.shape[0] for t in x[1:]],
        1 if x[-1].ndim == 1 else x[-1].shape[1],
    ]
    split = _cheapest(extents)

    def product(i: int, j: int) -> Tensor:
        return x[i] if i == j else matmul(product(i, split[i][j]), product(split[i][j] + 1, j))

    return product(0, len(x) - 1)


@composite()
def fp8_fp8_half_gemm_fused(
    x: Tensor,
    y: Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    bias: Tensor | None = None,
    scale: float = 1.0,
    output_dtype: DTypeArg = "float16",
    act: str = "identity",
) -> Tensor:
    """Matrix product of two tensors of 8-bit floats in half precision: ``act(scale * (x @ y) + bias)``.

    The products are summed in float32. It has no gradient.

    Args:
        x: Tensor of float8_e4m3fn or float8_e5m2.
        y: Tensor of float8_e4m3fn or float8_e5m2.
        transpose_x: Whether to swap the last two axes of ``x`` first. Default: False.
        transpose_y: Whether to swap the last two axes of ``y`` first. Default: False.
        bias: Tensor to add, which broadcasts to the product. Default: None.
        scale: Factor of the product. Default: 1.0.
        output_dtype: Dtype of the result, float16 or bfloat16. Default: ``'float16'``.
        act: Activation: ``'identity'``, ``'relu'`` or ``'gelu'``. Default: ``'identity'``.

    Returns:
        Tensor of the product in ``output_dtype``.

    Examples:
        >>> x = bireme.to_tensor([[1.0, 2.0]]).astype("float8_e4m3fn")
        >>> bireme.linalg.fp8_fp8_half_gemm_fused(x, x, transpose_y=True, scale=0.5).tolist()
        [[2.5]]
    """
    small = (dtypes.float8_e4m3fn, dtypes.float8_e5m2)
    for name, t in (("x", x), ("y", y)):
        if t.dtype not in small:
            raise errors.bad(
                f"fp8_fp8_half_gemm_fused({name})",
                "float8_e4m3fn or float8_e5m2",
                described=t.dtype.name,
                kind=errors.ArgumentTypeError,
            )
    if output_dtype not in (dtypes.float16, dtypes.bfloat16):
        raise errors.bad("fp8_fp8_half_gemm_fused(output_dtype)", "float16 or bfloat16", output_dtype)
    if act not in ("identity", "relu", "gelu"):
        raise errors.bad("fp8_fp8_half_gemm_fused(act)", "'identity', 'relu' or 'gelu'", act)
    out = matmul(x.detach().astype("float32"), y.detach().astype("float32"), transpose_x, transpose_y)
    out = out if scale == 1 else out * scale
    out = out if bias is None else out + bias.detach().astype("float32")
    return (out if act == "identity" else registry.find(act)(out)).astype(output_dtype)
