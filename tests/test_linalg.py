"""What a row cannot say of factors of matrices: gradients where a triangle is not read, or where vectors are given up
to a phase.
"""

import numpy as np
import pytest

import bireme
from bireme.core.graph import executor

linalg = bireme.linalg


def matrix(*shape, kind="float64", seed=0):
    rng = np.random.default_rng([seed, *shape])
    x = rng.uniform(-1, 1, shape)
    return x + 1j * rng.uniform(-1, 1, shape) if kind == "complex128" else x


def adjoint(x):
    last = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    return (x.conj() if x.dtype.is_complex else x).transpose(last)


def hermitian(x):
    return (x + adjoint(x)) / 2


def definite(x):
    return x @ adjoint(x) + bireme.eye(x.shape[-1], dtype=x.dtype) * 2


def weighed(*parts):
    """A real number that depends on all of them."""
    total = 0
    for k, part in enumerate(parts):
        w = bireme.to_tensor(matrix(*part.shape, kind=str(part.numpy().dtype), seed=k + 7))
        total = total + (part * w).sum()
    return total.real() if total.dtype.is_complex else total


def singular_parts(x):
    """What does not depend on the phases of singular vectors."""
    u, s, vh = linalg.svd(x)
    scaled = u * (s * s).unsqueeze(-2)
    return s, scaled @ vh, u @ adjoint(scaled)


def eigen_parts(x):
    """What does not depend on the phases and lengths of eigenvectors."""
    w, v = linalg.eig(x)
    inverse = linalg.inv(v)
    return (w * w).sum(-1), (v * (w * w).unsqueeze(-2)) @ inverse, (v.abs() ** 2).sum(-1)


CASES = {
    "cholesky": lambda x: (linalg.cholesky(definite(x)),),
    "cholesky upper": lambda x: (linalg.cholesky(definite(x), upper=True),),
    "eigvalsh": lambda x: (linalg.eigvalsh(hermitian(x)),),
    "eigvalsh upper": lambda x: (linalg.eigvalsh(hermitian(x), UPLO="U"),),
    "eigh": lambda x: (linalg.eigh(hermitian(x))[0], (linalg.eigh(hermitian(x))[1].abs() ** 2)),
    "eigh upper": lambda x: ((linalg.eigh(hermitian(x), UPLO="U")[1].abs() ** 2),),
    "svd": singular_parts,
    "svd wide": lambda x: singular_parts(x[..., :2, :]),
    "svd tall": lambda x: singular_parts(x[..., :2]),
    "svd full": lambda x: (linalg.svd(x[..., :2], full_matrices=True)[1],),
    "eig": eigen_parts,
    "eigvals": lambda x: ((linalg.eigvals(x) ** 3).sum(-1),),
    "pinv of hermitian": lambda x: (linalg.pinv(hermitian(x), hermitian=True),),
    "lstsq": lambda x: linalg.lstsq(x[..., :2], x[..., 1:])[:1],
    "lu unpacked": lambda x: linalg.lu_unpack(*linalg.lu(x))[1:],
    "matrix_exp": lambda x: (linalg.matrix_exp(x),),
    "svd_lowrank": lambda x: (linalg.svd_lowrank(x, q=3, niter=1)[1],),
}


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name, kind):
    """First and second derivatives along a direction, against differences."""
    function = CASES[name]
    x, d = matrix(2, 3, 3, kind=kind), matrix(2, 3, 3, kind=kind, seed=1)

    def slopes(numbers):
        bireme.seed(3)
        t = bireme.to_tensor(numbers, stop_gradient=False)
        value = weighed(*function(t))
        (g,) = bireme.grad(value, t, create_graph=True)
        (h,) = bireme.grad(weighed(g), t)
        return float(value.numpy()), float(weighed(g).numpy()), g.numpy(), h.numpy()

    with executor.use("interpreter"):
        _, _, g, h = slopes(x)
        step = 1e-5
        ahead, behind = slopes(x + step * d), slopes(x - step * d)
    for k, found in enumerate((g, h)):
        along = float(np.real(np.sum(np.conj(found) * d)))
        slope = (ahead[k] - behind[k]) / (2 * step)
        size = 1 + float(np.sum(np.abs(found) * np.abs(d)))
        assert abs(along - slope) < 1e-6 * size, f"derivative {k + 1}: {along}, differences say {slope}"


@pytest.mark.parametrize("name", ["cholesky", "eigh", "eigvalsh"])
def test_gradients_of_what_reads_a_triangle_are_symmetric(name):
    x = bireme.to_tensor(definite(bireme.to_tensor(matrix(3, 3))).numpy(), stop_gradient=False)
    (g,) = bireme.grad(weighed(*[getattr(linalg, name)(x)] if name != "eigh" else linalg.eigh(x)), x)
    np.testing.assert_allclose(g.numpy(), g.numpy().T)
    spoiled = x.numpy() + np.triu(np.full((3, 3), 9.0), 1)
    first = getattr(linalg, name)(bireme.to_tensor(spoiled))
    second = getattr(linalg, name)(x)
    for a, b in zip(
        first if isinstance(first, tuple) else [first], second if isinstance(second, tuple) else [second], strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_equal_values_do_not_spoil_gradients_that_do_not_need_vectors():
    for function in (
        lambda x: linalg.eigh(x)[0],
        lambda x: linalg.svd(x)[1],
        linalg.svdvals,
        linalg.eigvalsh,
        linalg.pinv,
        linalg.inv,
    ):
        x = bireme.to_tensor(np.eye(3) * 2, stop_gradient=False)
        (g,) = bireme.grad(function(x).sum(), x)
        assert np.isfinite(g.numpy()).all()


def test_determinant_of_a_singular_matrix_has_a_gradient():
    x = bireme.to_tensor([[1.0, 2.0], [2.0, 4.0]], stop_gradient=False)
    (g,) = bireme.grad(linalg.det(x), x)
    np.testing.assert_allclose(g.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-6)


@pytest.mark.parametrize("by", ["interpreter", "xla"])
def test_broken_matrices_are_told(by):
    singular, nan = np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[np.nan, 0.0], [0.0, 1.0]])
    with executor.use(by):
        for name, function in {
            "inv": linalg.inv,
            "solve": lambda x: linalg.solve(x, x),
            "cholesky": lambda x: linalg.cholesky(-x),
        }.items():
            with pytest.raises(ValueError, match=rf"^{name}\(x\): expected "):
                function(bireme.to_tensor(singular)).numpy()
            assert np.isnan(function(bireme.to_tensor(nan)).numpy()).any()  # which is no fault of the matrix's shape


@pytest.mark.parametrize("by", ["interpreter", "xla"])
def test_numbers_that_are_not_finite_give_nan(by):
    x = bireme.to_tensor(np.stack([np.eye(2), [[np.nan, 1.0], [1.0, 1.0]]]))
    with executor.use(by):
        for function in (linalg.svdvals, linalg.eigvals, linalg.det, linalg.matrix_exp):
            found = function(x).numpy()
            assert np.isfinite(found[0]).all() and not np.isfinite(found[1]).all()


def test_one_matrix_that_fails_leaves_the_others():
    x = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]])
    from_stack = bireme.ops.cholesky_of(bireme.to_tensor(x), False).numpy()
    np.testing.assert_array_equal(from_stack[0], np.eye(2))
    assert np.isnan(from_stack[1]).any()


def test_complete_qr_with_more_rows_has_no_gradient():
    x = bireme.to_tensor(matrix(4, 3), stop_gradient=False)
    q, _ = linalg.qr(x, mode="complete")
    with pytest.raises(RuntimeError, match=r"qr\(mode\): expected 'reduced' or 'r'"):
        bireme.grad(q.sum(), x)[0].numpy()


_LETTERS = "einsum(equation): expected letters, at most one ellipsis for each tensor, commas and one arrow"
_ELLIPSIS = "einsum(equation): expected an ellipsis in the result as in the operands"


@pytest.mark.parametrize("equation, shapes, message", [
    ("ij,jk", [(2, 3)], "einsum(operands): expected 2 tensors for 'ij,jk', got 1"),
    ("ij", [(2, 3, 4)], "einsum(operands): expected 2 dimensions for 'ij', got 3 in operand 0"),
    ("i...jk", [(2, 3)], "einsum(operands): expected at least 3 dimensions for 'i...jk', got 2 in operand 0"),
    ("i$j", [(2, 3)], "einsum(equation): expected letters, "),
    ("i..j", [(2, 3)], "einsum(equation): expected letters, "),
    ("ij->->i", [(2, 3)], "einsum(equation): expected one arrow at most, got 'ij->->i'\n  hint: Invalid equation: multiple `->` were found."),
    ("ijk", [], "einsum(operands): expected 1 tensors for 'ijk', got none\n  hint: Required at least one operand in Einsum API, but received 0"),
    ("i_", [(2, 3)], f"{_LETTERS}, got 'i_'\n  hint: Invalid equation: _ is not a valid label, which should be letters."),
    ("...k...", [(2, 3)], f"{_LETTERS}, got '...k...'\n  hint: Invalid equation: `.` is found outside of an ellipsis."),
    ("ij->ik", [(2, 3)], "einsum(equation): expected an operand with the label 'k' of the result, got 'ij->ik'"),
    ("b...->b", [(2, 3)], f"{_ELLIPSIS}, got 'b...->b'\n  hint: Invalid equation: missing ellipsis in output labels."),
])  # fmt: skip
def test_einsum_says_what_is_wrong(equation, shapes, message):
    with pytest.raises((ValueError, AssertionError)) as told:
        bireme.einsum(equation, *[bireme.ones(list(s)) for s in shapes])
    assert str(told.value).startswith(message)


def test_einsum_takes_strings_and_tensors():
    for args in ((3, bireme.ones([2])), ("i", 3.0), ("i,i", [bireme.ones([2]), bireme.ones([2])])):
        with pytest.raises((TypeError, ValueError), match=r"^einsum\("):
            bireme.einsum(*args)


@pytest.mark.parametrize(
    "equation",
    ["ij,jk", " i j , j k -> i k", "ba", "...", "i...->...", "Ab,bC", "ii", "...a,...a", "i,j", "a...b->b...a"],
)
def test_einsum_reads_the_notation_as_numpy_does(equation):
    terms = equation.replace(" ", "").split("->")[0].split(",")
    extents = {"i": 2, "j": 3, "k": 4, "a": 2, "b": 3, "A": 2, "C": 4}
    xs = [
        matrix(*[n for c in t.replace("...", ".") for n in ([2, 3] if c == "." else [extents[c]])], seed=i)
        for i, t in enumerate(terms)
    ]
    found = bireme.einsum(equation, *map(bireme.to_tensor, xs)).numpy()
    np.testing.assert_allclose(found, np.einsum(equation, *xs), rtol=1e-12)


def test_einsum_keeps_the_cost_of_the_best_order():
    """A chain that is cheap from the right: in any other order its intermediate results would not fit into memory."""
    n = 1 << 16
    x, y = bireme.ones([n, 2]), bireme.ones([2, n])
    assert bireme.einsum("ij,jk,k->i", x, y, bireme.ones([n]))[0].item() == 2 * n
