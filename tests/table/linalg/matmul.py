"""Rows of products of matrices, vectors and tensors."""

import functools
import string

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.ops.linalg.einsum import parsed
from tests.table.harness import BOOL, COMPLEX, FLOAT, NUMBER, Bad, Row, call
from tests.table.samples import floats

INEXACT = FLOAT | COMPLEX
MATRICES = {"0-d": "a product of matrices needs at least one axis"}
RANKS = {"0-d": "it takes matrices alone"}


def _matmul(x, y, transpose_x=False, transpose_y=False):
    x = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    return np.matmul(x, np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y)


_products = [
    call(floats(2, 3), floats(3, 4)), call(floats(2, 3), floats(4, 3), transpose_y=True), call(floats(3, 2), floats(3, 4), transpose_x=True),
    call(floats(3, 2), floats(4, 3), True, True), call(floats(3), floats(3)), call(floats(3), floats(3, 2)), call(floats(2, 3), floats(3)),
    call(floats(2, 2, 3), floats(3, 2)), call(floats(2, 2, 3), floats(2, 3), transpose_y=True), call(floats(2, 3, 2), floats(3, 2), transpose_x=True),
    call(floats(2, 2, 3), floats(2, 3, 2)), call(floats(2, 1, 2, 3), floats(3, 3, 2)), call(floats(3), floats(2, 3, 2)), call(floats(2, 2, 3),
        floats(3)),
    call(floats(1, 3, 2), floats(2, 2, 3), True, True), call(floats(2, 3), floats(2, 3, 2)), call(np.zeros((2, 0)), np.zeros((0, 3))),
    call(np.zeros((0, 3)), floats(3, 2)), call(np.zeros((2, 3, 0)), np.zeros((0, 2))),
]  # fmt: skip


def _plus(input, x, y, beta=1.0, alpha=1.0):
    input = input[:, None] if x.ndim == 3 and input.ndim == 2 else input
    return beta * input + alpha * (x @ y)


def _eighths(*shape):
    """Numbers that 8-bit floats hold exactly."""
    return (np.round(floats(*shape, low=-1, high=1) * 8) / 8).astype(dtypes.float8_e4m3fn.np)


def _gemm(x, y, transpose_x=False, transpose_y=False, bias=0, scale=1.0, act="identity"):
    out = scale * _matmul(x, y, transpose_x, transpose_y) + bias
    return np.maximum(out, 0) if act == "relu" else out


def _dot(x, y):
    return (x * y).sum(-1)


def _pairs(x, axes, y):
    """The axes of a sample as NumPy takes them."""
    if isinstance(axes, int):
        return axes
    first, second = (axes[0], axes[-1]) if axes and isinstance(axes[0], list) else (axes, axes)
    return list(first) + list(second)[len(first) :], list(second) + list(first)[len(second) :]


def _tensordot(x, y, axes=2):
    axes = _pairs(x, axes, y)
    for i, j in zip(*axes, strict=True) if not isinstance(axes, int) else ():
        if x.shape[i] != y.shape[j]:
            x = (
                np.broadcast_to(x, [y.shape[j] if k == i % x.ndim else n for k, n in enumerate(x.shape)])
                if x.shape[i] == 1
                else x
            )
            y = (
                np.broadcast_to(y, [x.shape[i] if k == j % y.ndim else n for k, n in enumerate(y.shape)])
                if y.shape[j] == 1
                else y
            )
    return np.tensordot(x, y, axes)


def _cross(x, y, axis=9):
    return np.cross(x, y, axis=x.shape.index(3) if axis in (9, None) else axis)


def _einsum(operands, terms, labels):
    """One label after the other, by definition: broadcast all operands to all labels, multiply, sum."""
    every = sorted({label for term in terms for label in term})
    letters = dict(zip(every, string.ascii_letters, strict=False))
    extents = {}
    for x, term in zip(operands, terms, strict=True):
        for n, label in zip(x.shape, term, strict=True):
            extents[label] = max(extents.get(label, 0), n) if n else 0
    stretched = [
        np.broadcast_to(x, [extents[label] for label in term]) for x, term in zip(operands, terms, strict=True)
    ]
    equation = ",".join("".join(letters[label] for label in term) for term in terms)
    once = list(dict.fromkeys(labels))
    made = np.einsum(f"{equation}->{''.join(letters[label] for label in once)}", *stretched)
    out = np.zeros([extents[label] for label in labels], made.dtype)
    for place in np.ndindex(*made.shape):
        out[tuple(place[once.index(label)] for label in labels)] = made[place]
    return out


def ein(equation, *operands):
    return call(list(operands), *parsed(equation, tuple(x.ndim for x in operands)))


_x, _y = floats(2, 3, 4), floats(3, 4, 2)
_cubes = floats(2, 2, 2), floats(2, 2, 2, seed=1)

TABLE = [
    Row("matmul", _products, _matmul, dtypes=NUMBER, skip=MATRICES,
        bad=[Bad(call(floats(2, 4), floats(5, 4)),
        "matmul(y): expected 4 rows to match x of shape [2, 4], got shape [5, 4]\n  hint: pass transpose_y=True"),
             Bad(call(floats(), floats(2)), "matmul(x): expected a tensor with at least 1 dimension, got shape []")]),
    Row("mm", [call(floats(2, 3), floats(3, 4)), call(np.zeros((0, 3)), floats(3, 2)), call(floats(2, 3), mat2=floats(3, 1))],
        lambda x, mat2: x @ mat2, dtypes=NUMBER, skip=MATRICES, bad=[Bad(call(floats(2, 4), floats(5, 4)),
        "mm(mat2): expected 4 rows to match x of shape [2, 4], got shape [5, 4]")]),
    Row("bmm", [call(floats(2, 2, 3), floats(2, 3, 4)), call(np.zeros((0, 2, 3)), np.zeros((0, 3, 2)))], lambda x, y: x @ y, dtypes=NUMBER,
        skip=RANKS, bad=[Bad(call(floats(2, 3), floats(2, 3, 4)), "bmm(x): expected a 3-D tensor, got shape [2, 3]"),
             Bad(call(floats(1, 2, 3), floats(2, 3, 4)), "bmm(y): expected 1 matrices as in x, got shape [2, 3, 4]")]),
    Row("mv", [call(floats(2, 3), floats(3)), call(np.zeros((2, 0)), np.zeros(0)), call(np.zeros((0, 3)), vec=floats(3))], lambda x, vec: x @ vec,
        dtypes=NUMBER, skip=RANKS, bad=[Bad(call(floats(2, 3), floats(3, 1)), "mv(vec): expected a 1-D tensor, got shape [3, 1]"),
                                        Bad(call(floats(2, 3), floats(2)), "mv(vec): expected 3 rows to match x of shape [2, 3]")]),
    Row("addmm", [call(floats(2, 4), floats(2, 3), floats(3, 4)), call(floats(2, 4), floats(2, 3), floats(3, 4), beta=0.5, alpha=2.0),
                  call(floats(4), floats(2, 3), floats(3, 4), 0.5), call(floats(2, 1), floats(2, 3), floats(3, 4)),
                  call(floats(2, 4), np.zeros((2, 0)), np.zeros((0, 4)))], _plus, dtypes=INEXACT, skip=RANKS,
        bad=[Bad(call(floats(3, 4), floats(2, 3), floats(3, 4)), "addmm(): expected shapes that broadcast together, got shapes [3, 4] and [2, 4]"),
             Bad(call(floats(2, 4), floats(2, 3, 1), floats(3, 4)), "addmm(x): expected a 2-D tensor, got shape [2, 3, 1]"),
             Bad(call(floats(2, 4), floats(1, 3), floats(3, 4)), "addmm(input): expected a tensor that broadcasts to [1, 4], got shape [2, 4]"),
             Bad(call(np.ones((1, 4), "int64"), floats(1, 3), floats(3, 4)), "addmm(): expected operands whose dtypes promote, got int64 and ", TypeError)]),
    Row("baddbmm", [call(floats(2, 2, 4), floats(2, 2, 3), floats(2, 3, 4)), call(floats(1, 2, 4), floats(2, 2, 3), floats(2, 3, 4), 0.5, 2.0),
                    call(floats(2, 4), floats(2, 2, 3), floats(2, 3, 4)), call(np.zeros((0, 2, 4)), np.zeros((0, 2, 3)), np.zeros((0, 3, 4)))],
        _plus, dtypes=INEXACT, skip=RANKS,
        bad=[Bad(call(floats(1, 4), floats(2, 2, 3), floats(2, 3, 4)), "baddbmm(input): expected 2 rows, one for each matrix of x, got shape [1, 4]"),
             Bad(call(floats(4), floats(2, 2, 3), floats(2, 3, 4)), "baddbmm(input): expected a 2-D or 3-D tensor, got shape [4]")]),
    Row("multi_dot", [call([floats(2, 3), floats(3, 4)]), call([floats(5, 2), floats(2, 6), floats(6, 1), floats(1, 3)]),
                      call([floats(3), floats(3, 4), floats(4)]), call([np.zeros((2, 0)), np.zeros((0, 3)), floats(3, 2)])],
        lambda x: functools.reduce(np.matmul, x), dtypes=NUMBER, skip={
            "0-d": "a product of matrices needs at least one axis", "method": "its operand is a list"},
        bad=[Bad(call([floats(2, 3)]), "multi_dot(x): expected two tensors or more, got 1"),
             Bad(call([floats(2, 3), floats(3), floats(3, 2)]), "multi_dot(x): expected matrices, with vectors only at the ends, got shape [3]"),
             Bad(call([floats(2, 3), floats(4, 2)]), "multi_dot(x): expected 3 rows")]),
    Row("fp8_fp8_half_gemm_fused", [call(_eighths(2, 3), _eighths(3, 2)), call(_eighths(2, 3), _eighths(4, 3), transpose_y=True, scale=0.5),
                                    call(_eighths(3, 2), _eighths(3, 4), True, bias=np.ones(4, "float16"), act="relu"),
                                    call(_eighths(0, 3), _eighths(3, 2))], _gemm, dtypes=frozenset(), out="float16", grad=0, skip=MATRICES,
        bad=[Bad(call(floats(2, 3), floats(3, 2)), "fp8_fp8_half_gemm_fused(x): expected float8_e4m3fn or float8_e5m2, got float64", TypeError),
             Bad(call(_eighths(2, 3), _eighths(3, 2), act="tanh"), "fp8_fp8_half_gemm_fused(act): expected 'identity', 'relu' or 'gelu', got 'tanh'"),
             Bad(call(_eighths(2, 3), _eighths(3, 2), output_dtype="float32"), "fp8_fp8_half_gemm_fused(output_dtype): expected float16")]),
    Row("dot", [call(floats(3), floats(3)), call(floats(2, 3), floats(2, 3)), call(np.zeros(0), np.zeros(0)),
                call(np.zeros((2, 0)), np.zeros((2, 0)))], _dot, dtypes=NUMBER, skip={"0-d": "it takes vectors"},
        bad=[Bad(call(floats(3), floats(4)), "dot(y): expected shape [3] as x has, got shape [4]"),
             Bad(call(floats(2, 2, 3), floats(2, 2, 3)), "dot(x): expected a vector, or a matrix whose rows are vectors, got shape [2, 2, 3]")]),
    Row("vecdot", [call(floats(2, 3), floats(2, 3)), call(floats(2, 3, 4), floats(2, 3, 4), axis=1), call(floats(2, 1, 4), floats(3, 4)),
                   call(floats(2, 3), floats(3)), call(floats(2, 3), floats(2, 3), axis=[0, 1]), call(floats(), floats()),
                   call(np.zeros((2, 0)), np.zeros((2, 0)))],
        lambda x, y, axis=-1: (np.conj(x) * y).sum(tuple(axis) if isinstance(axis, list) else axis if np.ndim(x) else None), dtypes=NUMBER,
        unchecked=BOOL, out=lambda d: dtypes.int64 if d is dtypes.int32 else d,
        bad=[Bad(call(floats(3), floats(4)), "vecdot(): expected shapes that broadcast together")]),
    *[Row(name, [call(floats(2), floats(3)), call(floats(2, 2), floats(3)), call(floats(), floats(3)), call(floats(), floats()),
                 call(np.zeros((2, 0)), floats(3))], np.outer, dtypes=NUMBER | BOOL) for name in ("outer", "ger")],
    Row("kron", [call(floats(2, 2), floats(2, 3)), call(floats(2), floats(2, 3)), call(floats(2, 1, 2), floats(2, 3)), call(floats(3), floats()),
                 call(floats(), floats()), call(np.zeros((2, 0)), floats(3, 2))], np.kron, dtypes=NUMBER,
        bad=[Bad(call(np.ones(2, bool), np.ones(2, bool)), "kron(x): expected one of ", TypeError)]),
    Row("cross", [call(floats(2, 3), floats(2, 3, seed=1)), call(floats(3, 2, 3), floats(3, 2, 3, seed=1), axis=-1),
                  call(floats(3, 3), floats(3, 3, seed=1)),
                  call(floats(3), floats(3), axis=None), call(np.zeros((0, 3)), np.zeros((0, 3)))], _cross, dtypes=NUMBER,
        skip={"0-d": "it takes vectors"},
        bad=[Bad(call(floats(2, 2), floats(2, 2)), "cross(x): expected an axis of size 3, got shape [2, 2]"),
             Bad(call(floats(2, 3), floats(2, 3), axis=0), "cross(x): expected 3 elements along axis 0, got shape [2, 3]"),
             Bad(call(floats(2, 3), floats(3)), "cross(y): expected shape [2, 3] as x has, got shape [3]")]),
    Row("contract", [call(_x, _y, (1, 2), (0, 1)), call(_x, _y, (2, 1), (1, 0)), call(floats(2, 3), floats(4, 2, 3), (0,), (1,)),
                     call(floats(2), floats(3), (), ()), call(floats(), floats(), (), ()), call(np.zeros((2, 0)), np.zeros((0, 3)), (1,), (0,))],
        lambda x, y, i, j: np.tensordot(x, y, (i, j)), dtypes=NUMBER),
    Row("inner", [call(floats(2, 3), floats(4, 3)), call(floats(3), floats(3)), call(floats(2, 2, 3), floats(3)), call(floats(2), floats()),
                  call(floats(1), floats(1)), call(floats(2, 3), floats(1)),
                  call(floats(), floats()), call(np.zeros((2, 0)), np.zeros((3, 0)))],
        lambda x, y: x * y if 1 in (x.size, y.size) else np.inner(x, y), dtypes=NUMBER, unchecked=BOOL,
        bad=[Bad(call(floats(2, 3), floats(2)), "inner(y): expected 3 elements along the last axis, as in x of shape [2, 3], got shape [2]")]),
    Row("tensordot", [call(_x, _y), call(*_cubes, axes=1), call(_x, _y, axes=[[2, 1], [1, 0]]), call(_x, _y, axes=[[-1], [1]]),
                      call(*_cubes, axes=[0, 2]), call(*_cubes, axes=[[1, 2], [0]]), call(floats(2, 3, 4), floats(1, 3, 2), axes=[[0, 1], [0, 1]]),
                      call(floats(1, 3), floats(2, 3), axes=[[0], [0]]), call(floats(), floats(), axes=0), call(floats(2), floats(3), axes=0),
                      call(np.zeros((2, 0)), np.zeros((0, 3)), axes=1)], _tensordot, dtypes=NUMBER,
        bad=[Bad(call(_x, _y, axes=1), "tensordot(axes): expected axes of equal size, or of size 1, in shapes [2, 3, 4] and [3, 4, 2], got 2 and 0"),
             Bad(call(*_cubes, axes=4), "tensordot(axes): expected a number of axes in [0, 3], got 4"),
             Bad(call(*_cubes, axes=[[0, 0], [0, 1]]), "tensordot(axes): expected different axes, got [0, 0]"),
             Bad(call(*_cubes, axes=[[5], [0]]), "tensordot(axes): expected an axis in [-3, 2], got 5"),
             Bad(call(*_cubes, axes="ij"), "tensordot(axes): expected an integer, or one or two lists of axes, got 'ij'", TypeError)]),
    Row("einsum_of", [ein("ij,jk->ik", floats(2, 3), floats(3, 4)), ein("bij,bkj->bki", floats(2, 2, 3), floats(2, 4, 3)),
                      ein("ij,jk,kl->il", floats(2, 3), floats(3, 4), floats(4, 2)), ein("iji->j", floats(2, 3, 2)),
                      ein("i->ii", floats(3)), ein("ij,jk->ik", floats(2, 1), floats(3, 4)), ein("ab,ab->a", floats(2, 3), floats(1, 3)),
                      ein("...ij,...jk->...ik", floats(2, 1, 2, 3), floats(3, 3, 2)), ein("ij,k->ij", floats(2, 3), floats(4)),
                      ein("ij->", floats(2, 3)), ein(",i->i", floats(), floats(3)), ein("->", floats()),
                      ein("ij,jk->ki", np.zeros((2, 0)), np.zeros((0, 3)))], _einsum, dtypes=NUMBER,
        bad=[Bad(ein("ij,kj->ik", floats(2, 3), floats(2, 4)), "einsum(operands): expected 3 elements along 'j', got 4 in operand 1 of shape [2, 4]"),
             Bad(ein("...i,...i", floats(2, 3), floats(4, 3)), "einsum(operands): expected 2 elements along axis -1 of the ellipsis, got 4")]),
]  # fmt: skip
