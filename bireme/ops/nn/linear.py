"""Linear and bilinear maps, embedding, one-hot, padding, weights scaled by their largest singular value."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.conversion import ints
from bireme.core.declare.op import Attr, Const, Tensor, composite, op
from bireme.core.declare.public import PUBLIC
from bireme.core.graph import segment
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.primitives import scatter_add_rows
from bireme.core.numpy_exec.rows import Rows
from bireme.core.tensor.grad_mode import no_grad
from bireme.ops.creation.tensors import ones, zeros
from bireme.ops.indexing.along_axis import add_at, add_rows
from bireme.ops.indexing.masks import where
from bireme.ops.indexing.scatter import index_add
from bireme.ops.manipulation import reshape
from bireme.ops.math.clip import renorm
from bireme.ops.nn.window_args import FORMATS
from bireme.ops.optimizer.updates import unless_invalid


@composite(alias={"x": "input"}, plain="x")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Linear map of the last axis: ``x @ weight + bias``.

    Args:
        x: Input tensor of shape ``[..., in_features]``.
        weight: Tensor of shape ``[in_features, out_features]``.
        bias: Tensor of shape ``[out_features]`` that is added; ``None`` adds nothing. Default: None.

    Returns:
        Tensor of shape ``[..., out_features]``.

    Raises:
        ValueError: If the last axis of ``x`` has another size than ``weight`` has rows.

    Examples:
        >>> x, weight, bias = bireme.to_tensor([[1.0]]), bireme.to_tensor([[2.0]]), bireme.to_tensor([3.0])
        >>> bireme.nn.functional.linear(x, weight, bias).tolist()
        [[5.0]]
    """
    out = x @ weight
    return out if bias is None else out + bias


@linear.check
def _(x, weight):
    if x.ndim and weight.ndim == 2 and x.shape[-1] != weight.shape[0]:
        raise errors.bad(
            "linear(x)",
            f"{weight.shape[0]} features in the last dimension to match weight of shape {list(weight.shape)}",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )


@op(internal="embedding", numpy=True, amp="wide", upcast="grad", kernels="lookup_table_v2 lookup_table")
def embedding_of(x: Tensor, weight: Tensor, padding_idx: int | None, by_count: bool = False) -> Tensor:
    """Rows of a table; use `embedding`."""
    rows = jnp.take(weight, x, axis=0, mode="clip")
    return rows if padding_idx is None else jnp.where((x == padding_idx)[..., None], jnp.zeros((), weight.dtype), rows)


@embedding_of.check
def _(x, weight):
    if x.dtype.kind != "i":
        raise errors.bad("embedding(x)", "an integer tensor", described=x.dtype.name, kind=errors.DtypeError)
    if weight.ndim != 2:
        raise errors.bad(
            "embedding(weight)",
            "shape [num_embeddings, embedding_dim]",
            described=f"shape {list(weight.shape)}",
            kind=errors.ShapeError,
        )


embedding_of.index(lambda s: [("x", 0, s["weight"].shape[0])])
embedding_of.rows(lambda x, by_count: () if by_count or not x.ndim else ("x",))
embedding_of.infer(lambda x, weight: sig_of((*x.shape, weight.shape[1]), weight.dtype))


@embedding_of.grad(
    numpy=lambda g, x, padding_idx, by_count, sigs: (None, _table_grad_numpy(g, x, padding_idx, by_count, sigs))
)
def _(g, x, padding_idx, by_count, sigs):
    return _table_grad(g, x, padding_idx, by_count, sigs, add_at)


@embedding_of.grad(on="cpu", mesh=False)
def _(g, x, padding_idx, by_count, sigs):
    return _table_grad(g, x, padding_idx, by_count, sigs, add_rows)


def _table_grad(g, x, padding_idx, by_count, sigs, add):
    rows, width = sigs[1].shape
    flat = g.reshape(x.size, width)
    if by_count:
        at = x.reshape(-1)
        flat = flat / jnp.zeros(rows, g.dtype).at[at].add(1, mode="promise_in_bounds")[at][:, None]
    if padding_idx is not None:
        flat = jnp.where((x == padding_idx).reshape(-1, 1), 0, flat)
    return None, add(jnp.zeros((rows, width), g.dtype), x.reshape(-1), flat)


def _table_grad_numpy(g, x, padding_idx, by_count, sigs):
    return scatter_add_rows(np.zeros(sigs[1].shape, g.dtype), x, _looked_up(g, x, padding_idx, by_count, sigs))


def _table_grad_rows(g, x, padding_idx, by_count, sigs):
    return Rows.added(x.reshape(-1), _looked_up(g, x, padding_idx, by_count, sigs), sigs[1].shape[0])


embedding_of.grad_rows = _table_grad_rows


def _looked_up(g, x, padding_idx, by_count, sigs):
    """The gradient of each row that was looked up."""
    flat = g.reshape(x.size, sigs[1].shape[1])
    if by_count:
        at = x.reshape(-1)
        flat = flat / np.bincount(at, minlength=sigs[1].shape[0])[at][:, None].astype(g.dtype)
    if padding_idx is not None:
        flat = np.where((x == padding_idx).reshape(-1, 1), 0, flat)
    return flat


@composite(alias={"x": "input"}, plain="x")
def embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: Const = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    sparse: bool = False,
    scale_grad_by_freq: bool = False,
) -> Tensor:
    """Look up rows of a table by index.

    Args:
        x: Integer tensor of indices in ``[0, rows)``.
        weight: Table of shape ``[rows, width]``.
        padding_idx: Index of a row that reads as zeros and gets no gradient; negative ones count from the end.
            Default: None.
        max_norm: If given, the rows that are read are first scaled down in ``weight`` itself to a norm of at most this.
            Default: None.
        norm_type: The p of that norm. Default: 2.0.
        sparse: Has no effect: how an optimizer moves a table is asked of ``nn.Embedding``. Not with
            ``scale_grad_by_freq``. Default: False.
        scale_grad_by_freq: Whether to divide the gradient of a row by how often ``x`` names it. Default: False.

    Returns:
        Tensor of shape ``[*x.shape, width]`` and the dtype of ``weight``.

    Raises:
        IndexError: If an index is outside the table.

    Examples:
        >>> bireme.nn.functional.embedding(bireme.to_tensor([1]), bireme.to_tensor([[1.0], [2.0]])).tolist()
        [[2.0]]
    """
    rows = weight.shape[0]
    if padding_idx is not None and padding_idx != -1:
        if not -rows <= padding_idx < rows:
            raise errors.bad("embedding(padding_idx)", f"an index in [{-rows}, {rows - 1}]", padding_idx)
        padding_idx += rows if padding_idx < 0 else 0
    elif padding_idx == -1:
        padding_idx = rows - 1
    if sparse and scale_grad_by_freq:
        raise errors.bad("embedding(scale_grad_by_freq)", "False with sparse", scale_grad_by_freq, kind=AttributeError)
    if max_norm:  # 0 and False leave the table alone: older code has `sparse` at this position
        embedding_renorm_(x, weight, max_norm, norm_type)
    return embedding_of(x, weight, padding_idx, scale_grad_by_freq)


@errors.named
@no_grad()
def embedding_renorm_(x: Tensor, weight: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale the rows of a table that ``x`` names down to a norm, in place.

    Args:
        x: Integer tensor of indices.
        weight: Table of shape ``[rows, width]``; it is changed.
        max_norm: Greatest norm that a row keeps.
        norm_type: The p of the norm. Default: 2.0.

    Returns:
        ``weight`` itself.

    Examples:
        >>> weight = bireme.to_tensor([[4.0], [4.0]])
        >>> bireme.nn.functional.embedding_renorm_(bireme.to_tensor([0]), weight, 2.0).tolist()
        [[2.0], [4.0]]
    """
    if segment.local.trace is not None:
        segment.local.trace.spoiled = True  # steps recorded again would leave the table as it is
    at = reshape.reshape(x, [-1])
    read = index_add(zeros([weight.shape[0]]), at, 0, ones(at.shape))
    scaled = where(reshape.unsqueeze(read > 0, 1), renorm(weight, norm_type, 0, max_norm), weight)
    weight._assign_value(unless_invalid([weight], [scaled])[0])
    return weight


@op(differentiable=False, alias={"x": "input"}, numpy=True, kernels="one_hot_v2")
def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """One-hot vectors of indices: 1 at the index of each class along a new last axis, else 0.

    Args:
        x: Integer tensor of classes in ``[0, num_classes)``.
        num_classes: Size of the new axis; -1 means the largest class plus 1, for which the values of ``x`` must be
            computed. Default: -1.

    Returns:
        Tensor of shape ``[*x.shape, num_classes]`` and dtype float32, without gradient.

    Examples:
        >>> bireme.nn.functional.one_hot(bireme.to_tensor([1]), 3).tolist()
        [[0.0, 1.0, 0.0]]
    """
    return (x[..., None] == jnp.arange(num_classes, dtype=x.dtype)).astype(jnp.float32)


@one_hot.prepare(values=True)
def _(arguments):
    x, n = arguments["x"], arguments["num_classes"]
    if isinstance(x, Tensor):
        if x.dtype.kind != "i":
            raise errors.bad("one_hot(x)", "an integer tensor", described=x.dtype.name, kind=errors.DtypeError)
        if isinstance(n, Tensor):
            n = int(n)
        if n == -1 and not x.size:
            raise errors.bad(
                "one_hot(num_classes)", "a positive integer, since x is empty", n, kind=errors.for_number(n)
            )
        arguments["num_classes"] = int(x._host().max()) + 1 if n == -1 else n


one_hot.index(lambda s: [("x", 0, s["num_classes"])])
one_hot.infer(lambda x, num_classes: sig_of((*x.shape, num_classes), dtypes.float32))


@op(internal="pad", numpy=True, upcast="grad", kernels="pad3d")
def pad_of(x: Tensor, value: Tensor | float, widths: Attr, mode: str) -> Tensor:
    """A tensor padded at its edges; use `pad`."""
    if mode == "constant":
        return jnp.pad(x, widths, constant_values=value.astype(x.dtype))
    return jnp.pad(x, widths, mode=_MODES[mode])


_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_grad_numpy(g, widths, mode, sigs, needs):
    if mode == "constant":
        return _unpadded(g, widths, sigs, needs)
    for axis, (n, (a, b)) in enumerate(zip(sigs[0].shape, widths)):
        if a or b:
            made = np.zeros((n, *np.delete(g.shape, axis)), g.dtype)
            np.add.at(made, np.pad(np.arange(n), (a, b), mode=_MODES[mode]), np.moveaxis(g, axis, 0))
            g = np.moveaxis(made, 0, axis)
    return g, None


def _unpadded(g, widths, sigs, needs):
    inner = g[tuple([builtins.slice(a, a + n) for n, (a, _) in zip(sigs[0].shape, widths)])]
    return inner, (g.sum() - inner.sum()).reshape(sigs[1].shape) if needs[1] else None


@pad_of.grad(numpy=_pad_grad_numpy)
def _(g, widths, mode, sigs, needs):
    if mode == "constant":
        return _unpadded(g, widths, sigs, needs)
    spec = jax.ShapeDtypeStruct(sigs[0].shape, g.dtype)
    return jax.linear_transpose(lambda x: jnp.pad(x, widths, mode=_MODES[mode]), spec)(g)[0], None


pad_of.infer(lambda x, widths: sig_of(tuple([n + a + b for n, (a, b) in zip(x.shape, widths)]), x.dtype))


@composite(alias={"x": "input"}, plain=True,
           c_ops={"pad3d": "x paddings:pad mode='constant' pad_value:value=0.0 data_format='NCDHW'"})  # fmt: skip
def pad(x: Tensor, pad: Attr[int | Sequence[int] | Tensor], mode: str = "constant", value: float = 0.0,
        data_format: str | None = None, pad_from_left_axis: bool = True) -> Tensor:  # fmt: skip
    """Pad a tensor at the ends of its axes.

    ``pad`` holds two numbers for each axis: how many elements come before and after. With ``2 * x.ndim`` numbers and
    mode ``'constant'`` they are for all axes, from the first to the last. Otherwise they are for the last axes, or for
    the spatial ones, from the last axis backwards: ``[left, right, top, bottom]`` of images.

    Args:
        x: Input tensor.
        pad: List or integer tensor of widths, two for each axis. Negative widths cut elements off.
        mode: What is filled in: ``'constant'``, ``'reflect'`` (mirrored without the edge), ``'replicate'`` (the edge
            repeated) or ``'circular'`` (from the other end). Default: ``'constant'``.
        value: The constant of mode ``'constant'``. Default: 0.0.
        data_format: Order of the axes where ``pad`` is for the spatial ones: ``'NCL'``, ``'NCHW'``, ``'NCDHW'``,
            ``'NLC'``, ``'NHWC'`` or ``'NDHWC'``; ``None`` means channels are axis 1. Default: None.
        pad_from_left_axis: Whether widths for all axes begin with the first axis, else with the last. Default: True.

    Returns:
        The padded tensor, of the dtype of ``x``.

    Raises:
        ValueError: If the number of widths is odd or too large, or ``'reflect'`` asks for more than an axis has.

    Examples:
        >>> bireme.nn.functional.pad(bireme.to_tensor([1.0]), [1, 1]).tolist()
        [0.0, 1.0, 0.0]
        >>> x = bireme.to_tensor([[[1.0, 2.0, 3.0]]])
        >>> bireme.nn.functional.pad(x, [2, 0], mode="reflect", data_format="NCL").tolist()
        [[[3.0, 2.0, 1.0, 2.0, 3.0]]]
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise errors.bad(
            "pad(mode)", "'constant', 'reflect', 'replicate' or 'circular'", mode, kind=errors.ArgumentError
        )
    if data_format not in (None, "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC"):
        raise errors.bad(
            "pad(data_format)",
            "'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC' or 'NDHWC'",
            data_format,
            kind=errors.ArgumentTypeError,
        )
    if pad is None:
        raise errors.bad("pad(pad)", "two integers per axis", pad, kind=errors.ArgumentTypeError)
    if isinstance(pad, (int, np.integer)):
        raise errors.bad("pad(pad)", "two integers per axis", pad, kind=errors.ArgumentTypeError)
    given = list(ints(pad, 0, "pad(pad)") or ())
    if len(given) % 2 or len(given) > 2 * x.ndim:
        raise errors.bad("pad(pad)", f"two integers per axis, for at most {x.ndim} axes", given)
    if not x.ndim:
        return x
    pairs = [(given[i], given[i + 1]) for i in range(0, len(given), 2)]
    widths = [(0, 0)] * x.ndim
    if len(pairs) == x.ndim and mode == "constant":
        widths = pairs if pad_from_left_axis else pairs[::-1]
    else:
        spatial = mode != "constant" or len(pairs) == x.ndim - 2
        fitting = FORMATS.get(x.ndim - 2, (data_format,))
        if spatial and data_format is not None and data_format not in fitting:
            raise errors.bad(
                "pad(data_format)",
                f"{' or '.join(map(repr, fitting))} for a {x.ndim}-D tensor",
                data_format,
                kind=errors.ArgumentError,
            )
        # channels come last only where the numbers are those of all spatial axes
        last = x.ndim - 2 if (data_format or "NCHW").endswith("C") and 0 < len(pairs) == x.ndim - 2 else x.ndim - 1
        for k, p in enumerate(pairs):
            widths[last - k] = p
    if not x._value.sig.size:  # nothing to reflect or to repeat
        mode = "constant"
    for n, (a, b) in zip(x.shape, widths):
        if n + a + b < 0 or (mode == "reflect" and builtins.max(a, b) >= n):
            raise errors.bad("pad(pad)", f"padding that fits an axis of size {n} in mode {mode!r}", [a, b])
    grown = pad_of(x, value, tuple([(builtins.max(a, 0), builtins.max(b, 0)) for a, b in widths]), mode)
    if all(a >= 0 and b >= 0 for a, b in widths):
        return grown
    # cut after it has grown: what is cut off at one edge may come in at the other
    return grown[
        tuple([builtins.slice(builtins.max(0, -a), n - builtins.max(0, -b)) for n, (a, b) in zip(grown.shape, widths)])
    ]


@composite(plain=True)
def zeropad2d(x: Tensor, padding: Attr[int | Sequence[int] | Tensor], data_format: str = "NCHW") -> Tensor:
    """Pad images with zeros.

    Args:
        x: Tensor of at least 2 dimensions, usually a batch of images.
        padding: Four integers: left, right, top and bottom.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        The padded tensor, of the dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.zeropad2d(bireme.ones([1, 1, 1, 1]), [1, 0, 0, 0]).tolist()
        [[[[0.0, 1.0]]]]
    """
    if x.ndim < 2:
        raise errors.bad("zeropad2d(x)", "at least 2 dimensions", described=f"shape {x.shape}", kind=errors.ShapeError)
    if not isinstance(padding, (list, tuple, Tensor, np.ndarray)):
        raise errors.bad("zeropad2d(padding)", "four integers", padding, kind=errors.ArgumentTypeError)
    widths = list(ints(padding, 0, "zeropad2d(padding)") or ())
    if len(widths) != 4:
        raise errors.bad("zeropad2d(padding)", "four integers", widths)
    return PUBLIC["pad"](x, widths, mode="constant", value=0.0, data_format=data_format)


@composite(plain=True)
def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Bilinear map of two inputs: ``x1 @ weight[k] @ x2 + bias[k]`` for each sample and each ``k``.

    Args:
        x1: Tensor of shape ``[N, in1]``.
        x2: Tensor of shape ``[N, in2]``.
        weight: Tensor of shape ``[out, in1, in2]``.
        bias: Tensor of shape ``[1, out]`` that is added; ``None`` adds nothing. Default: None.

    Returns:
        Tensor of shape ``[N, out]``.

    Examples:
        >>> x1, x2, weight = bireme.to_tensor([[2.0]]), bireme.to_tensor([[3.0]]), bireme.to_tensor([[[4.0]]])
        >>> bireme.nn.functional.bilinear(x1, x2, weight).tolist()
        [[24.0]]
    """
    for name, t, n in (("x1", x1, 2), ("x2", x2, 2), ("weight", weight, 3)):
        if t.ndim != n:
            raise errors.bad(
                f"bilinear({name})", f"a {n}-D tensor", described=f"shape {t.shape}", kind=errors.ShapeError
            )
    if x1.shape[0] != x2.shape[0]:
        raise errors.bad(
            "bilinear(x2)", f"{x1.shape[0]} samples, as in x1", described=f"shape {x2.shape}", kind=errors.ShapeError
        )
    if weight.shape[1:] != [x1.shape[1], x2.shape[1]]:
        raise errors.bad(
            "bilinear(weight)",
            f"shape [any, {x1.shape[1]}, {x2.shape[1]}]",
            described=f"shape {weight.shape}",
            kind=errors.ShapeError,
        )
    if bias is not None and bias.shape != [1, weight.shape[0]]:
        raise errors.bad(
            "bilinear(bias)", f"shape [1, {weight.shape[0]}]", described=f"shape {bias.shape}", kind=errors.ShapeError
        )
    out = bilinear_of(x1, x2, weight)
    return out if bias is None else out + bias


@op(internal="bilinear", promote="x1 x2 weight", dtypes=FLOAT, amp="low",
    numpy=lambda x1, x2, weight: np.einsum("bi,kij,bj->bk", x1, weight, x2, optimize=True))  # fmt: skip
def bilinear_of(x1: Tensor, x2: Tensor, weight: Tensor) -> Tensor:
    """A product with a matrix on either side for each slice of `weight`; use `bilinear`."""
    left = jnp.einsum("bi,kij->bkj", x1, weight)
    return jnp.einsum("bkj,bj->bk", left, x2)


bilinear_of.infer(lambda x1, weight: sig_of((x1.shape[0], weight.shape[0]), x1.dtype))


@op(internal="spectral_norm", dtypes=FLOAT, promote="weight u v", numbers={"eps": "float32"},
    c_ops={"spectral_norm": "weight u v dim=0 power_iters=1 eps=1e-12"})  # fmt: skip
def spectral_norm_of(weight: Tensor, u: Tensor, v: Tensor, eps: Tensor | float, dim: int, power_iters: int) -> Tensor:
    """A weight over its largest singular value by power iterations from `u` and `v`, constants to the gradient."""
    wide = weight.astype(jnp.float32) if weight.dtype.itemsize < 4 else weight
    kind = wide.dtype
    rows = jnp.moveaxis(wide, dim, 0).reshape(weight.shape[dim], -1)
    still, eps = lax.stop_gradient(rows), eps.astype(kind)
    u, v = lax.stop_gradient(u).astype(kind), lax.stop_gradient(v).astype(kind)
    for _ in range(power_iters):
        v = still.T @ u
        v = v / (jnp.sqrt(jnp.sum(v * v)) + eps)
        u = still @ v
        u = u / (jnp.sqrt(jnp.sum(u * u)) + eps)
    return (wide / (u @ rows @ v)).astype(weight.dtype)


spectral_norm_of.infer(lambda weight: weight)
