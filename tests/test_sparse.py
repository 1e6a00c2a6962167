"""Sparse tensors against dense ones: what they hold, what is computed of it, its gradients, and what is refused.

Numbers that no formula gives were told by paddlepaddle 3.2.2.
"""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse

import bireme
from bireme import sparse
from bireme.core.numpy_exec import sparsetools
from bireme.sparse.tensor import SparseTensor

INDEX, VALUES = [[0, 1, 2], [1, 2, 0]], [1.0, 2.0, 3.0]
OTHER = [[0, 0, 2], [0, 1, 2]], [10.0, 20.0, 30.0]


def coo(index=INDEX, values=VALUES, shape=(3, 3), grad=False):
    return sparse.sparse_coo_tensor(index, values, shape, stop_gradient=not grad)


def csr(grad=False):
    return sparse.sparse_csr_tensor([0, 1, 2, 3], [1, 2, 0], VALUES, [3, 3], stop_gradient=not grad)


def batch():
    return sparse.sparse_csr_tensor([0, 1, 2, 0, 1, 1], [1, 0, 1], [1.0, 2.0, 3.0], [2, 2, 2])


def hybrid():
    return coo([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], [3, 2])


def some(shape, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * (rng.random(shape) < density)).astype(np.float64)


FORMS = {"coo": lambda x: x.to_sparse_coo(x.ndim), "csr": lambda x: x.to_sparse_csr()}


def held(x):
    """Indices, values and shape, as lists."""
    index = [t.tolist() for t in ((x.indices(),) if x.is_sparse_coo() else (x.crows(), x.cols()))]
    return (*index, x.values().tolist(), x.shape)


# ---------------------------------------------------------------- what it is


def test_a_sparse_tensor_is_a_tensor_of_its_stored_elements():
    x, c = coo(), csr()
    assert isinstance(x, bireme.Tensor) and x.is_sparse() and x.is_sparse_coo() and not x.is_sparse_csr()
    assert c.is_sparse_csr() and not c.is_sparse_coo() and not c.is_dense() and not x.is_dense()
    assert x.shape == c.shape == [3, 3] and x.ndim == x.dim() == 2 and len(x) == 3 and x.size == 9 and x.nnz() == 3
    assert x.dtype == bireme.float32 and x.element_size() == 4 and x.stop_gradient and x.is_leaf
    assert (x.sparse_dim(), x.dense_dim(), hybrid().sparse_dim(), hybrid().dense_dim()) == (2, 0, 1, 1)
    assert x.to_dense().tolist() == c.to_dense().tolist() == [[0, 1, 0], [0, 0, 2], [3, 0, 0]]
    assert x.is_same_shape(c) and sparse.is_same_shape(c, bireme.ones([3, 3])) and not x.is_same_shape(hybrid())
    assert not bireme.ones([1]).is_sparse() and (bireme.ones([2, 2]).sparse_dim(), bireme.ones([2]).dense_dim()) == (
        0,
        1,
    )


def test_how_they_print():
    assert repr(coo()).splitlines() == [
        "Tensor(shape=[3, 3], dtype=float32, place=Place(cpu), stop_gradient=True,",
        "       indices=[[0, 1, 2],",
        "                [1, 2, 0]],",
        "       values=[1., 2., 3.])",
    ]
    assert str(csr()).splitlines()[1:] == [
        "       crows=[0, 1, 2, 3],",
        "       cols=[1, 2, 0],",
        "       values=[1., 2., 3.])",
    ]


def test_shapes_are_inferred_and_dtypes_taken():
    assert sparse.sparse_coo_tensor([[0, 4]], [1, 2]).shape == [5]
    assert sparse.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]]).shape == [3, 2]
    assert sparse.sparse_coo_tensor([[0, 2]], [1, 2]).dtype == bireme.int64
    assert sparse.sparse_coo_tensor([[0, 2]], [1, 2], dtype="float64").dtype == bireme.float64
    assert sparse.sparse_coo_tensor(np.array([[0, 2]], np.int32), [1, 2]).indices().dtype == bireme.int32
    assert sparse.sparse_csr_tensor([0, 1, 1], [4], [1.0]).shape == [2, 5]
    empty = sparse.sparse_coo_tensor(np.zeros((2, 0), np.int64), np.zeros(0), [2, 3])
    assert empty.nnz() == 0 and empty.to_dense().tolist() == np.zeros((2, 3)).tolist()
    assert empty.to_sparse_csr().crows().tolist() == [0, 0, 0]


def test_the_same_index_twice_is_a_sum():
    x = coo([[0, 1, 0], [1, 2, 1]])
    assert x.to_dense().tolist()[0] == [0, 4, 0] and not x.is_coalesced()
    once = x.coalesce()
    assert held(once) == ([[0, 1], [1, 2]], [4.0, 2.0], [3, 3]) and once.is_coalesced() and once.coalesce() is once
    assert held(x.to_sparse_csr()) == ([0, 1, 2, 2], [1, 2], [4.0, 2.0], [3, 3])
    assert held(sparse.add(x, x)) == ([[0, 1], [1, 2]], [8.0, 4.0], [3, 3])
    y = coo([[2, 0, 2]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [3, 2])
    assert held(sparse.coalesce(y)) == ([[0, 2]], [[3.0, 4.0], [6.0, 8.0]], [3, 2])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4)])
def test_dense_and_back(form, shape):
    x = some(shape)
    made = FORMS[form](bireme.to_tensor(x))
    assert made.nnz() == np.count_nonzero(x)
    np.testing.assert_array_equal(made.to_dense().numpy(), x)
    other = made.to_sparse_csr() if form == "coo" else made.to_sparse_coo(len(shape))
    np.testing.assert_array_equal(other.to_dense().numpy(), x)
    np.testing.assert_array_equal(made.values().numpy(), x[x != 0])
    assert made.to_sparse_coo(len(shape)).to_sparse_coo() is not None


def test_some_axes_may_be_stored_in_full():
    x = bireme.to_tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0], [0.0, 0.0, 0.0]]).to_sparse_coo(1)
    assert held(x) == ([[0, 1]], [[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]], [3, 3])
    flags = sparse.isnan(coo(values=[float("nan"), 1.0, 2.0]))
    assert flags.dtype == bireme.bool and flags.to_dense().numpy().sum() == 1 and flags.stop_gradient
    assert coo(values=[1j, 2.0, 3.0]).to_dense().numpy()[0, 1] == 1j


def test_copies_pickles_and_devices():
    x = coo(grad=True)
    for y in (
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        x.clone(),
        x.detach(),
        x.cpu(),
        x.to("float64"),
        copy.copy(x),
    ):
        assert type(y) is type(x) and held(y) == held(x)
    assert x.detach().stop_gradient and not x.clone().stop_gradient and not copy.deepcopy(x).stop_gradient
    assert x.astype("float32") is x and x.astype("float64").dtype == bireme.float64
    assert held(pickle.loads(pickle.dumps(csr()))) == held(csr())


def test_a_large_matrix_stays_small():
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 10**10, 20_000))
    x = sparse.sparse_coo_tensor(np.stack(np.divmod(keys, 10**5)), np.ones(keys.size, np.float32), [10**5, 10**5])
    assert x.nbytes == keys.size * 20 and x.to_sparse_csr().nbytes < keys.size * 12 + 8 * (10**5 + 1) + 1
    assert sparse.add(x, x).nbytes == x.nbytes
    with pytest.raises(ValueError, match=r"sparse_coo_tensor\(shape\): expected at most 2\*\*63 - 1 elements"):
        sparse.sparse_coo_tensor([[0], [0]], [1.0], [2**33, 2**33])


# ---------------------------------------------------------------- what is refused


CALLS = {
    "add": lambda x: bireme.add(x, x),
    "matmul": lambda x: bireme.matmul(bireme.ones([3, 3]), x),
    "concat": lambda x: bireme.concat([x, x]),
    "softmax": bireme.nn.functional.softmax,
    "mean": lambda x: x.mean(),
    "to_tensor": bireme.to_tensor,
    "linear": lambda x: bireme.nn.Linear(3, 2)(x),
    "exp": bireme.exp,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("make", [coo, csr])
def test_dense_operators_refuse_it_in_one_sentence(name, make):
    x = make()
    with pytest.raises(TypeError) as caught:
        CALLS[name](x)
    first, hint, *_ = str(caught.value).splitlines()
    assert first == f"{name}(): expected a dense tensor, got a {x.kind} tensor of shape [3, 3]"
    assert "x.to_dense()" in hint and isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize("call", [lambda x: x.numpy(), np.asarray, lambda x: x[0], float, list, lambda x: x == x])
def test_nor_is_it_made_dense_on_the_way(call):
    with pytest.raises(TypeError, match="expected a dense tensor, got a sparse COO tensor of shape"):
        call(coo())


BAD = {
    "sparse_coo_tensor(shape): expected a shape of at least [3, 3], which the indices need, got [2, 3]": lambda: coo(shape=[2, 3]),
    "sparse_coo_tensor(values): expected 3 along the first axis, as indices has columns, got shape [2]": lambda: coo(values=[1.0, 2.0]),
    "sparse_coo_tensor(indices): expected an integer tensor, got float32": lambda: coo([[0.5, 1.0, 2.0]]),
    "sparse_coo_tensor(indices): expected 2 dimensions, got shape [3]": lambda: coo([0, 1, 2]),
    "sparse_coo_tensor(indices): expected non-negative integers, got -1": lambda: coo([[0, -1, 2]], shape=[3]),
    "sparse_csr_tensor(crows): expected 4 integers, one more than rows, got 3": lambda: sparse.sparse_csr_tensor([0, 1, 2], [1, 2], [1.0, 2.0], [3, 3]),
    "sparse_csr_tensor(crows): expected non-decreasing integers from 0 to 2": lambda: sparse.sparse_csr_tensor([0, 2, 1, 2], [1, 2], [1.0, 2.0], [3, 3]),
    "sparse_csr_tensor(cols): expected integers in [0, 2], got 5": lambda: sparse.sparse_csr_tensor([0, 1], [5], [1.0], [1, 3]),
    "sparse_csr_tensor(shape): expected 2 or 3 sizes, got [3]": lambda: sparse.sparse_csr_tensor([0, 1], [0], [1.0], [3]),
    "tanh(x): expected a sparse tensor, got a dense tensor of shape [2]": lambda: sparse.tanh(bireme.ones([2])),
    "tanh(x): expected a sparse tensor, got 3": lambda: sparse.tanh(3),
    "add(y): expected a sparse COO tensor, as x is, got a sparse CSR tensor": lambda: sparse.add(coo(), csr()),
    "add(y): expected shape [3, 3], as x has, got shape [3, 4]": lambda: sparse.add(coo(), coo(shape=[3, 4])),
    "add(y): expected a sparse tensor, got 1.0": lambda: coo() + 1.0,
    "matmul(y): expected 3 rows to match x of shape [3, 3], got shape [2, 2]": lambda: sparse.matmul(csr(), bireme.ones([2, 2])),
    "matmul(x): expected a sparse tensor, got a dense tensor of shape [2, 2]": lambda: sparse.matmul(bireme.ones([2, 2]), bireme.ones([2, 2])),
    "mv(vec): expected a vector of 3 elements, got shape [2]": lambda: sparse.mv(csr(), bireme.ones([2])),
    "addmm(input): expected shape [3, 2], as the product has, got shape [2]": lambda: sparse.addmm(bireme.ones([2]), csr(), bireme.ones([3, 2])),
    "masked_matmul(mask): expected shape [2, 2], as the product has, got shape [3, 3]": lambda: sparse.masked_matmul(bireme.ones([2, 2]), bireme.ones([2, 2]), csr()),
    "mask_as(mask): expected shape [2, 2], as x has, got shape [3, 3]": lambda: sparse.mask_as(bireme.ones([2, 2]), coo()),
    "transpose(perm): expected each of the 2 axes once, got [1, 1]": lambda: sparse.transpose(coo(), [1, 1]),
    "transpose(perm): expected the 1 sparse axes before the dense ones, got [1, 0]": lambda: sparse.transpose(hybrid(), [1, 0]),
    "reshape(shape): expected a shape of 9 elements, as x of shape [3, 3] has, got [4]": lambda: sparse.reshape(coo(), [4]),
    "reshape(shape): expected 2 or 3 sizes, since x is a sparse CSR tensor, got [9]": lambda: sparse.reshape(csr(), [9]),
    "sum(axis): expected an axis in [-2, 1], got 5": lambda: sparse.sum(coo(), 5),
    "slice(axes): expected an axis in [-2, 1], got 2": lambda: sparse.slice(coo(), [2], [0], [1]),
    "cast(index_dtype): expected an integer dtype, got float32": lambda: sparse.cast(coo(), "float32"),
    "pca_lowrank(q): expected an integer in [0, 3], got 4": lambda: sparse.pca_lowrank(coo(), q=4),
    "coalesce(x): expected a sparse COO tensor, got a sparse CSR tensor of shape [3, 3]": lambda: sparse.coalesce(csr()),
    "indices(): expected a sparse COO tensor, got a sparse CSR tensor of shape [3, 3]": lambda: csr().indices(),
    "crows(): expected a sparse CSR tensor, got a sparse COO tensor of shape [3, 3]": lambda: coo().crows(),
    "nnz(): expected a sparse tensor, got a dense tensor of shape [2]": lambda: bireme.ones([2]).nnz(),
    "coalesce(): expected a sparse COO tensor, got a dense tensor of shape [2]": lambda: bireme.ones([2]).coalesce(),
    "to_sparse_coo(sparse_dim): expected an integer in [1, 1], got 2": lambda: bireme.ones([2]).to_sparse_coo(2),
    "to_sparse_csr(): expected a matrix or a batch of matrices, got shape [2]": lambda: bireme.ones([2]).to_sparse_csr(),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_errors(message):
    with pytest.raises((ValueError, TypeError)) as caught:
        BAD[message]()
    assert str(caught.value).startswith(message)


# ---------------------------------------------------------------- single elements


UNARY = {
    "abs": np.abs, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "deg2rad": np.deg2rad,
    "expm1": np.expm1, "log1p": np.log1p, "neg": np.negative, "rad2deg": np.rad2deg, "sin": np.sin, "sinh": np.sinh,
    "sqrt": np.sqrt, "square": np.square, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_single_elements(name):
    """The pattern stays, values and gradients are those of the dense function."""
    values, step = np.array([0.1, 0.2, 0.6]), 1e-6
    for make in (coo, lambda v: sparse.sparse_csr_tensor([0, 1, 2, 3], [1, 2, 0], v, [3, 3], stop_gradient=False)):
        v = bireme.to_tensor(values, stop_gradient=False)
        x = coo(values=v, grad=True) if make is coo else make(v)
        y = getattr(sparse, name)(x)
        assert type(y) is type(x) and y._pattern is x._pattern
        np.testing.assert_allclose(y.values().numpy(), UNARY[name](values), rtol=1e-12)
        y.backward()
        slope = (UNARY[name](values + step) - UNARY[name](values - step)) / (2 * step)
        np.testing.assert_allclose(v.grad.numpy(), slope, rtol=1e-6)
        assert held(getattr(x, name)()) == held(y)


def test_powers_and_casts():
    for exponent in (2, 0.5, -1, 0):
        np.testing.assert_allclose(
            sparse.pow(coo(), exponent).values().numpy(), np.array(VALUES) ** exponent, rtol=1e-6
        )
    y = sparse.cast(csr(), "int32", "float64")
    assert (y.crows().dtype, y.cols().dtype, y.dtype) == (bireme.int32, bireme.int32, bireme.float64)
    assert held(sparse.cast(coo(), None, "int64")) == (INDEX, [1, 2, 3], [3, 3])
    assert sparse.cast(coo().coalesce(), "int32").is_coalesced()


# ---------------------------------------------------------------- pairs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_pairs(name, form):
    """What either stores is stored; gradients go to the values of both."""
    compute = getattr(np, name)
    a, b = some((4, 5)), some((4, 5), seed=1)
    da, db = (bireme.to_tensor(m, stop_gradient=False) for m in (a, b))
    z = getattr(sparse, name)(FORMS[form](da), FORMS[form](db))
    np.testing.assert_allclose(z.to_dense().numpy(), compute(a, b), rtol=1e-12)
    assert z.nnz() == np.count_nonzero((a != 0) | (b != 0))
    weight = np.random.default_rng(2).standard_normal((4, 5))
    (z.to_dense() * bireme.to_tensor(weight)).sum().backward()
    slopes = {"add": (1, 1), "subtract": (1, -1), "multiply": (b, a)}[name]
    np.testing.assert_allclose(da.grad.numpy(), weight * slopes[0] * (a != 0), rtol=1e-12)
    np.testing.assert_allclose(db.grad.numpy(), weight * slopes[1] * (b != 0), rtol=1e-12)


def test_pairs_as_paddle_has_them():
    y = coo(*OTHER)
    assert held(sparse.add(coo(), y)) == ([[0, 0, 1, 2, 2], [0, 1, 2, 0, 2]], [10.0, 21.0, 2.0, 3.0, 30.0], [3, 3])
    assert held(sparse.multiply(csr(), y.to_sparse_csr())) == (
        [0, 2, 3, 5],
        [0, 1, 2, 0, 2],
        [0.0, 20.0, 0.0, 0.0, 0.0],
        [3, 3],
    )
    assert sparse.add(coo(), coo(values=[-1.0, -2.0, -3.0])).values().tolist() == [0.0, 0.0, 0.0]
    assert sparse.add(coo(), coo(values=np.array(VALUES))).dtype == bireme.float64
    z = sparse.subtract(hybrid(), coo([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], [3, 2]))
    assert held(z) == ([[0, 1, 2]], [[0.0, 0.0], [-3.0, -4.0], [3.0, 4.0]], [3, 2])
    assert held(sparse.multiply(coo(), 2.0))[1] == held(2.0 * coo())[1] == [2.0, 4.0, 6.0]
    assert held(coo() / 2)[1] == [0.5, 1.0, 1.5] and held(-coo())[1] == [-1.0, -2.0, -3.0]
    assert held(coo() - coo())[1] == [0.0, 0.0, 0.0] and held(abs(-csr()))[2] == held(csr() ** 1)[2] == VALUES


def test_a_quotient_is_stored_in_full_and_says_so():
    bireme.debug.reset_stats()
    with pytest.warns(UserWarning, match=r"sparse.divide: zero divided by zero is NaN.* stores every element"):
        z = sparse.divide(coo(), coo(*OTHER))
    with np.errstate(all="ignore"):
        want = coo().to_dense().numpy() / coo(*OTHER).to_dense().numpy()
    np.testing.assert_array_equal(z.values().numpy().reshape(3, 3), want)
    assert z.nnz() == 9 and bireme.debug.stats()["sparse_in_full"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparse.divide(coo(), 2.0), sparse.multiply(coo(), coo(*OTHER)), sparse.matmul(coo(), coo(*OTHER))
    assert bireme.debug.stats()["sparse_in_full"] == 1


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("executor", ["interpreter", "xla"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4)])
def test_products_with_dense_matrices(form, shape, executor):
    x, y = some(shape), some((*shape[:-2], shape[-1], 9), 1.0, seed=1)
    dx, dy = (bireme.to_tensor(m, stop_gradient=False) for m in (x, y))
    with bireme.debug.use_executor(executor):
        z = sparse.matmul(FORMS[form](dx), dy)
        weight = np.random.default_rng(2).standard_normal(z.shape)
        (z * bireme.to_tensor(weight)).sum().backward()
        np.testing.assert_allclose(z.numpy(), x @ y, rtol=1e-12)
        np.testing.assert_allclose(dx.grad.numpy(), weight @ np.swapaxes(y, -1, -2) * (x != 0), rtol=1e-12)
        np.testing.assert_allclose(dy.grad.numpy(), np.swapaxes(x, -1, -2) @ weight, rtol=1e-12)
        left = some((*shape[:-2], 2, shape[-2]), 1.0, seed=3)
        np.testing.assert_allclose((bireme.to_tensor(left) @ FORMS[form](dx)).numpy(), left @ x, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4)])
def test_products_of_sparse_matrices(form, shape):
    x, y = some(shape), some((*shape[:-2], shape[-1], 6), seed=1)
    dx, dy = (bireme.to_tensor(m, stop_gradient=False) for m in (x, y))
    z = FORMS[form](dx) @ FORMS[form](dy)
    assert isinstance(z, SparseTensor) and z.nnz() == np.count_nonzero((x != 0).astype(int) @ (y != 0).astype(int))
    np.testing.assert_allclose(z.to_dense().numpy(), x @ y, rtol=1e-12)
    z.backward()
    ones = ((x != 0).astype(int) @ (y != 0).astype(int) != 0).astype(float)
    np.testing.assert_allclose(dx.grad.numpy(), ones @ np.swapaxes(y, -1, -2) * (x != 0), rtol=1e-12)
    np.testing.assert_allclose(dy.grad.numpy(), np.swapaxes(x, -1, -2) @ ones * (y != 0), rtol=1e-12)


def test_products_are_shared_among_cores_and_do_without_scipy(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = some((700, 300), 0.4), rng.standard_normal((300, 16))
    c, d = bireme.to_tensor(x).to_sparse_csr(), bireme.to_tensor(y)
    monkeypatch.setattr("bireme.core.numpy_exec.row_sums.PART", 1000)
    np.testing.assert_allclose(sparse.matmul(c, d).numpy(), x @ y, rtol=1e-10)
    mask = bireme.to_tensor(x).to_sparse_coo(2)
    got = sparse.masked_matmul(
        bireme.to_tensor(rng.standard_normal((700, 300))), bireme.ones([300, 300], "float64"), mask
    )
    assert got.nnz() == np.count_nonzero(x)
    monkeypatch.setattr(sparsetools, "loop", lambda name: None)
    np.testing.assert_allclose(sparse.matmul(c, d).numpy(), x @ y, rtol=1e-10)


def test_mv_addmm_and_masked_products():
    x, y, vec = some((4, 5)), some((5, 3), 1.0, 1), some(5, 1.0, 2)
    for form in FORMS.values():
        s = form(bireme.to_tensor(x))
        np.testing.assert_allclose(sparse.mv(s, bireme.to_tensor(vec)).numpy(), x @ vec, rtol=1e-12)
        got = sparse.addmm(bireme.ones([4, 3], "float64"), s, bireme.to_tensor(y), 2.0, 3.0)
        np.testing.assert_allclose(got.numpy(), 2 + 3 * x @ y, rtol=1e-12)
        other = form(bireme.to_tensor(some((5, 5), 0.3, 3)))
        got = sparse.addmm(s, s, other, 2.0, 3.0)
        np.testing.assert_allclose(got.to_dense().numpy(), 2 * x + 3 * x @ other.to_dense().numpy(), rtol=1e-12)
    a, b, mask = some((2, 3, 4), 1.0), some((2, 4, 5), 1.0, 1), some((2, 3, 5), 0.4, 2)
    da, db = (bireme.to_tensor(m, stop_gradient=False) for m in (a, b))
    got = sparse.masked_matmul(da, db, bireme.to_tensor(mask).to_sparse_csr())
    np.testing.assert_allclose(got.to_dense().numpy(), a @ b * (mask != 0), rtol=1e-12)
    got.backward()
    np.testing.assert_allclose(da.grad.numpy(), (mask != 0).astype(float) @ np.swapaxes(b, 1, 2), rtol=1e-12)
    x = bireme.to_tensor(some((3, 3), 1.0), stop_gradient=False)
    picked = sparse.mask_as(x, csr())
    assert held(picked)[:2] == held(csr())[:2]
    picked.backward()
    np.testing.assert_array_equal(x.grad.numpy(), csr().to_dense().numpy() != 0)
    assert sparse.mask_as(bireme.arange(6.0).reshape([3, 2]), hybrid()).values().tolist() == [[0.0, 1.0], [4.0, 5.0]]


@pytest.mark.parametrize("center", [True, False])
def test_principal_components(center):
    x = some((12, 7), 0.5)
    bireme.seed(0)
    u, s, v = sparse.pca_lowrank(bireme.to_tensor(x).to_sparse_csr(), q=7, center=center)
    shifted = x - x.mean(0) if center else x
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(shifted)[1], atol=1e-9)
    np.testing.assert_allclose((u * s).numpy() @ v.numpy().T, shifted, atol=1e-9)
    assert [t.shape for t in sparse.pca_lowrank(coo())] == [[3, 3], [3], [3, 3]]


# ---------------------------------------------------------------- shapes


@pytest.mark.parametrize("form", FORMS)
def test_transposes_reshapes_and_slices(form):
    x = some((2, 3, 4), 0.5)
    s = FORMS[form](bireme.to_tensor(x))
    for perm in ([2, 0, 1], [0, 2, 1], [1, 0, 2], [-1, 0, 1]):
        np.testing.assert_array_equal(sparse.transpose(s, perm).to_dense().numpy(), x.transpose(perm))
    for shape in ([6, 4], [0, -1], [1, 3, 8], [-1, 2]):
        want = x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])
        np.testing.assert_array_equal(sparse.reshape(s, shape).to_dense().numpy(), want)
    np.testing.assert_array_equal(sparse.slice(s, [1, 2], [1, -3], [3, 100]).to_dense().numpy(), x[:, 1:3, -3:])
    assert sparse.slice(s, [0], [2], [2]).shape == [0, 3, 4]
    assert type(sparse.slice(s, [0], [0], [1])) is type(s)


def test_shapes_as_paddle_has_them():
    assert held(sparse.transpose(coo(), [1, 0])) == ([[1, 2, 0], [0, 1, 2]], VALUES, [3, 3])
    assert held(sparse.transpose(csr(), [1, 0])) == ([0, 1, 2, 3], [2, 0, 1], [3.0, 1.0, 2.0], [3, 3])
    assert held(sparse.transpose(batch(), [2, 0, 1])) == ([0, 1, 1, 0, 1, 2], [1, 0, 0], [2.0, 1.0, 3.0], [2, 2, 2])
    assert held(sparse.reshape(csr(), [1, 9])) == ([0, 3], [1, 5, 6], VALUES, [1, 9])
    y = coo(*OTHER)
    assert held(sparse.sum(y, 1)) == ([[0, 2]], [30.0, 30.0], [3])
    assert held(sparse.sum(y, 0, keepdim=True)) == ([[0, 0, 0], [0, 1, 2]], [10.0, 20.0, 30.0], [1, 3])
    assert held(sparse.sum(y)) == ([[0]], [60.0], [1])
    assert held(sparse.sum(y.to_sparse_csr())) == ([0, 1], [0], [60.0], [1, 1])
    assert held(sparse.sum(y.to_sparse_csr(), -1)) == ([0, 1, 1, 2], [0, 0], [30.0, 30.0], [3, 1])
    assert held(sparse.sum(hybrid(), 1)) == ([[0, 2]], [3.0, 7.0], [3])
    assert held(sparse.sum(hybrid(), 0)) == ([[0]], [[4.0, 6.0]], [1, 2])
    assert sparse.sum(coo(values=np.array([1, 2, 3], np.int32)), 0).dtype == bireme.int64
    assert sparse.sum(coo(), 0, dtype="float64").dtype == bireme.float64
    assert sparse.reshape(input=coo(), shape=[9]).shape == [9]


@pytest.mark.parametrize("axis", [0, 1, 2, [0, 2], None])
def test_sums_and_their_gradients(axis):
    x = some((2, 3, 4), 0.5)
    d = bireme.to_tensor(x, stop_gradient=False)
    z = sparse.sum(d.to_sparse_coo(3), axis, keepdim=True)
    axes = None if axis is None else tuple(np.atleast_1d(axis))
    np.testing.assert_allclose(z.to_dense().numpy(), x.sum(axes, keepdims=True), rtol=1e-12)
    sparse.square(z).backward()
    np.testing.assert_allclose(d.grad.numpy(), 2 * x.sum(axes, keepdims=True) * (x != 0), rtol=1e-10)


# ---------------------------------------------------------------- gradients


def test_gradients_are_sparse_and_reach_the_values_given():
    v = bireme.to_tensor(VALUES, stop_gradient=False)
    x = sparse.sparse_coo_tensor(INDEX, v, [3, 3], stop_gradient=False)
    sparse.square(x).backward()
    assert v.grad.tolist() == [2.0, 4.0, 6.0] and held(x.grad) == (INDEX, [2.0, 4.0, 6.0], [3, 3])
    assert sparse.sparse_coo_tensor(INDEX, v, [3, 3]).stop_gradient
    y = csr(grad=True)
    sparse.tanh(y).backward(csr())
    np.testing.assert_allclose(y.grad.values().numpy(), (1 - np.tanh(VALUES) ** 2) * VALUES, rtol=1e-4)
    y.clear_grad()
    assert y.grad.values().tolist() == [0.0, 0.0, 0.0]
    y.stop_gradient = True
    assert sparse.tanh(y).stop_gradient and not csr(grad=True).stop_gradient


def test_second_order_hooks_and_grad():
    x = coo(grad=True)
    (g,) = bireme.grad(sparse.pow(x, 3), x, create_graph=True)
    assert held(g) == (INDEX, [3.0, 12.0, 27.0], [3, 3])
    (h,) = bireme.grad(g, x)
    assert held(h)[1] == [6.0, 12.0, 18.0]
    x.register_hook(lambda g: sparse.multiply(g, 10.0))
    x.to_dense().sum().backward()
    assert held(x.grad)[1] == [10.0, 10.0, 10.0]
    a = bireme.to_tensor(some((3, 3), 1.0), stop_gradient=False)
    (first,) = bireme.grad(sparse.matmul(csr(), bireme.square(a)).sum(), a, create_graph=True)
    (second,) = bireme.grad(first.sum(), a)
    np.testing.assert_allclose(second.numpy(), np.broadcast_to(2 * csr().to_dense().numpy().sum(0)[:, None], (3, 3)))


def test_a_training_loop_compiles_once():
    """A graph convolution: the pattern is fixed, so every step records the same program."""
    rng = np.random.default_rng(0)
    adjacency = bireme.to_tensor(some((20, 20), 0.2).astype(np.float32)).to_sparse_csr()
    features, target = (bireme.to_tensor(rng.standard_normal((20, n)).astype(np.float32)) for n in (6, 3))
    bireme.seed(0)
    layer = bireme.nn.Linear(6, 3)
    optimizer = bireme.optimizer.Adam(0.05, parameters=layer.parameters())
    losses = []
    for step in range(12):
        loss = ((sparse.matmul(adjacency, layer(features)) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
        if step == 3:
            before = bireme.debug.stats()["compiles"]
    assert losses[-1] < 0.9 * losses[0] and bireme.debug.stats()["compiles"] == before


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("sizes", [(4, 5, 7), (4, 5, 0), (0, 5, 0), (4, 0, 0), (1, 1, 5), (6, 3, 30)], ids=str)
def test_entries_that_repeat_in_no_order_or_are_none(sizes, dtype):
    """Beside SciPy: unsorted, repeated and no entries, rows without any, axes without elements."""
    n, m, count = sizes
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, max(n, 1), count), rng.integers(0, max(m, 1), count)
    values = rng.integers(-5, 5, count).astype(dtype)
    matrix = scipy.sparse.coo_array((values, (rows, cols)), shape=(n, m)).toarray()
    dense, vector = rng.integers(-3, 3, (m, 3)).astype(dtype), rng.integers(-3, 3, m).astype(dtype)
    x = sparse.sparse_coo_tensor(np.stack([rows, cols]), values, [n, m], stop_gradient=False)
    c, y = x.to_sparse_csr(), bireme.to_tensor(dense, stop_gradient=False)
    for made, want in (
        (x.to_dense(), matrix), (sparse.coalesce(x).to_dense(), matrix), (c.to_dense(), matrix),
        (sparse.matmul(x, y), matrix @ dense), (sparse.matmul(c, y), matrix @ dense),
        (sparse.matmul(bireme.to_tensor(dense.T.copy()), sparse.transpose(x, [1, 0])), dense.T @ matrix.T),
        (sparse.mv(x, bireme.to_tensor(vector)), matrix @ vector), (sparse.mv(c, bireme.to_tensor(vector)), matrix @ vector),
        (sparse.add(x, x).to_dense(), 2 * matrix), (sparse.add(c, c).to_dense(), 2 * matrix),
        (sparse.subtract(x, x).to_dense(), 0 * matrix), (sparse.multiply(x, x).to_dense(), matrix * matrix),
        (sparse.sum(x, 0).to_dense(), matrix.sum(0)), (sparse.sum(x, 1, keepdim=True).to_dense(), matrix.sum(1, keepdims=True)),
        (sparse.reshape(x, [m, n]).to_dense(), matrix.reshape(m, n)),
        (sparse.matmul(x, sparse.transpose(x, [1, 0])).to_dense(), matrix @ matrix.T),
    ):  # fmt: skip
        assert made.shape == list(want.shape)
        np.testing.assert_allclose(made.numpy(), want, rtol=1e-6)
    if dtype.startswith("float"):
        sparse.matmul(x, y).sum().backward()
        np.testing.assert_allclose(y.grad.numpy(), np.repeat(matrix.sum(0)[:, None], 3, 1), rtol=1e-6)
        np.testing.assert_allclose(x.grad.values().numpy(), dense.sum(1)[cols] if count else [], rtol=1e-6)
        shares = sparse.nn.functional.softmax(c).values().numpy()
        starts = c.crows().numpy()
        for low, high in itertools.pairwise(starts):
            assert low == high or abs(shares[low:high].sum() - 1) < 1e-6
