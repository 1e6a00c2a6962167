"""Types of results: Paddle's rules as tables, one letter a type, a point where two tensors do not mix."""

import functools
import operator

import numpy as np
import pytest

import bireme

LETTERS = dict(zip("bu1248hefdcz", bireme.core.base.dtype.PUBLIC[:5] + tuple(
    getattr(bireme, n) for n in ("int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")), strict=True))  # fmt: skip
# both have at least one axis: floats mix with floats and real with complex, nothing else mixes
RANKED = """
b b.........cz
u .u........cz
1 ..1.......cz
2 ...2......cz
4 ....4.....cz
8 .....8....cz
h ......hffdcz
e ......fefdcz
f ......fffdcz
d ......ddddzz
c ccccccccczcz
z zzzzzzzzzzzz
"""
# the second is 0-d: it gives way, unless its kind is higher; complex with real keeps the width of both
WITH_SCALAR = """
b bu1248hefdcz
u uuuuuuhefdcz
1 111111hefdcz
2 222222hefdcz
4 444444hefdcz
8 888888hefdcz
h hhhhhhhhhhcz
e eeeeeeeeeecz
f ffffffffffcz
d ddddddddddzz
c ccccccccczcc
z zzzzzzzzzzzz
"""
# both are 0-d: the type that holds both
SCALARS = """
b bu1248hefdcz
u uu2248hefdcz
1 121248hefdcz
2 222248hefdcz
4 444448hefdcz
8 888888hefdcz
h hhhhhhhffdcz
e eeeeeefefdcz
f fffffffffdcz
d ddddddddddzz
c ccccccccczcz
z zzzzzzzzzzzz
"""
# a tensor with True, 2, 2.5 and 2j
NUMBERS = "b b8fc  u uufc  1 11fc  2 22fc  4 44fc  8 88fc  h hhhc  e eeec  f fffc  d dddz  c cccc  z zzzz"


def table(text):
    rows = text.split()
    found = zip(rows[::2], rows[1::2], strict=True)
    return [(x, y, kind) for x, row in found for y, kind in zip(LETTERS, row, strict=True)]


def ones(letter, shape):
    return bireme.ones(shape, LETTERS[letter])


def letter_of(call):
    """The letter of a result's type, or a point if the types are refused."""
    try:
        dtype = call().dtype
    except TypeError:
        return "."
    return next(k for k, d in LETTERS.items() if d is dtype)


def wrong(text, f, x_shape, y_shape, leave="", result=lambda kind: kind):
    """Pairs whose result has another type than the table says; letters in `leave` are not asked for."""
    rows = [(x, y, kind) for x, y, kind in table(text) if x not in leave and y not in leave and kind not in leave]
    found = [(x, y, letter_of(lambda x=x, y=y: f(ones(x, x_shape), ones(y, y_shape)))) for x, y, _ in rows]
    return [(x, y, got) for (x, y, got), (_, _, kind) in zip(found, rows, strict=True) if got != result(kind)]


FLOATED = str.maketrans("bu1248", "ffffff")


@pytest.mark.parametrize(
    ("text", "x_shape", "y_shape"),
    [(RANKED, [2], [2]), (RANKED, [2, 1], [3]), (WITH_SCALAR, [2], []), (SCALARS, [], [])],
)
def test_two_tensors(text, x_shape, y_shape):
    assert wrong(text, bireme.add, x_shape, y_shape) == []
    assert wrong(text, bireme.multiply, x_shape, y_shape) == []
    assert wrong(text, bireme.subtract, x_shape, y_shape, leave="b") == []
    assert wrong(text, bireme.pow, x_shape, y_shape, leave="b") == []
    assert wrong(text, bireme.remainder, x_shape, y_shape, leave="bcz") == []
    assert wrong(text, bireme.divide, x_shape, y_shape, result=lambda kind: kind.translate(FLOATED)) == []
    assert wrong(text, bireme.less_than, x_shape, y_shape, result=lambda kind: "." if kind == "." else "b") == []


def test_the_scalar_may_stand_first():
    swapped = [(x, y, letter_of(lambda x=x, y=y: ones(y, []) + ones(x, [2]))) for x, y, _ in table(WITH_SCALAR)]
    assert swapped == table(WITH_SCALAR)


@pytest.mark.parametrize(("x_shape", "y_shape"), [([2], [2]), ([2], []), ([], [])])
def test_where_a_scalar_counts_like_any_other(x_shape, y_shape):
    mask = bireme.to_tensor([True, False])
    assert wrong(RANKED, bireme.maximum, x_shape, y_shape, leave="bcz") == []
    assert wrong(RANKED, bireme.minimum, x_shape, y_shape, leave="bcz") == []
    assert wrong(RANKED, lambda x, y: bireme.where(mask, x, y), x_shape, y_shape) == []
    assert wrong(RANKED, bireme.logical_and, x_shape, y_shape, result=lambda kind: "." if kind == "." else "b") == []


def test_floor_division_holds_both():
    assert wrong(RANKED, bireme.floor_divide, [2], [2], leave="bcz") == []
    assert wrong(SCALARS, bireme.floor_divide, [2], [], leave="bcz") == []
    assert wrong(SCALARS, bireme.floor_divide, [], [], leave="bcz") == []


def test_where_no_types_mix():
    def same(x, y):
        return x if x == y else "."

    for f in (bireme.bitwise_and, bireme.bitwise_or, bireme.bitwise_xor):
        for shape in ([2], []):
            pairs = [(x, y) for x in "bu1248" for y in "bu1248"]
            found = [letter_of(functools.partial(f, ones(x, [2]), ones(y, shape))) for x, y in pairs]
            assert found == [same(x, y) for x, y in pairs]
    pairs = [(x, y) for x in "48fd" for y in "48fd"]
    assert [letter_of(lambda x=x, y=y: bireme.concat([ones(x, [2]), ones(y, [2])])) for x, y in pairs] == [
        same(x, y) for x, y in pairs
    ]


PRODUCTS = [
    (bireme.matmul, [2, 2], [2, 2]), (bireme.Tensor.mm, [2, 2], [2, 2]), (bireme.bmm, [2, 2, 2], [2, 2, 2]), (bireme.mv, [2, 2], [2]),
    (bireme.dot, [2], [2]), (bireme.inner, [2, 2], [2, 2]), (lambda x, y: bireme.tensordot(x, y, 1), [2, 2], [2, 2]),
    (lambda x, y: bireme.einsum("ij,jk->ik", x, y), [2, 2], [2, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x_shape", "y_shape"), PRODUCTS)
def test_products_promote_and_integers_take_the_type_of_floats_on_their_left(f, x_shape, y_shape):
    refused = wrong(RANKED, f, x_shape, y_shape, leave="b")
    assert refused == [(x, y, x) for x in "hefd" for y in "u1248"]


@pytest.mark.parametrize(("f", "shape"), [(bireme.addmm, [2, 2]), (bireme.baddbmm, [2, 2, 2])])
def test_a_product_that_is_added_promotes(f, shape):
    for given in (lambda x, y: (x, y, y), lambda x, y: (x, x, y)):
        assert wrong(RANKED, lambda x, y: f(*given(x, y)), shape, shape, leave="bu1248") == []  # noqa: B023 - called at once
    assert f(ones("d", shape), ones("8", shape), ones("f", shape)).dtype is bireme.float64
    with pytest.raises(TypeError, match=r"mm\(\): expected operands whose dtypes promote, got int64 and float32"):
        f(ones("8", shape), ones("f", shape), ones("f", shape))


@pytest.mark.parametrize("shape", [[2], []])
def test_a_tensor_with_a_number(shape):
    rows = NUMBERS.split()
    for x, kinds in zip(rows[::2], rows[1::2], strict=True):
        for number, kind in zip((True, 2, 2.5, 2j), kinds, strict=True):
            assert letter_of(lambda: ones(x, shape) + number) == kind, (x, number)  # noqa: B023 - called at once
            assert letter_of(lambda: number * ones(x, shape)) == kind, (x, number)  # noqa: B023 - called at once


def test_numbers_do_not_follow_the_default_type():
    bireme.set_default_dtype("float64")
    try:
        assert (bireme.to_tensor([1]) + 1.5).dtype is bireme.float32
        assert (bireme.to_tensor([1]) / 2).dtype is bireme.float32
        assert bireme.to_tensor(1.5).dtype is bireme.float64
    finally:
        bireme.set_default_dtype("float32")


def test_calls_are_remembered_by_the_default_type():
    mask, x, n = bireme.to_tensor([True, False]), bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1, 2])
    calls = {
        lambda: bireme.where(mask, x, 1.0): ["float32", "float64"],
        lambda: bireme.where(mask, 1.5, 2.5): ["float32", "float64"],
        lambda: bireme.maximum(x, 1.0): ["float32", "float64"],
        lambda: bireme.fft.fft(n): ["complex64", "complex128"],
        lambda: n + 1j: ["complex64", "complex64"],
        lambda: mask * 1j: ["complex64", "complex64"],
    }
    try:
        for _ in range(3):
            for i, default in enumerate(["float32", "float64"]):
                bireme.set_default_dtype(default)
                assert [call().dtype.name for call in calls] == [kinds[i] for kinds in calls.values()]
                with bireme.amp.auto_cast():
                    assert bireme.where(mask, x, 1.0).dtype.name == default
                assert bireme.where(mask, x, 1.0).dtype.name == default
    finally:
        bireme.set_default_dtype("float32")
    assert [call().dtype.name for call in calls] == [kinds[0] for kinds in calls.values()]


@pytest.mark.parametrize(
    ("x", "y", "made"),
    [(1, 2.5, [1.0, 2.5]), (1.5, 2, [1.5, 2.0]), (True, 2, [1, 2]), (False, 0.5, [0.0, 0.5]), (1, 2j, [1, 2j])],
)
def test_two_numbers_to_choose_from_take_the_type_that_holds_both(x, y, made):
    assert bireme.where(bireme.to_tensor([True, False]), x, y).tolist() == made
    assert bireme.where(bireme.to_tensor([False, True]), y, x).tolist() == made


@pytest.mark.parametrize("executor", ["interpreter", "xla"])
def test_a_number_beside_half_precision_is_as_wide_as_it_was_written(executor):
    with bireme.debug.use_executor(executor):
        x = bireme.to_tensor([1.0, 60000.0], "float16", stop_gradient=False)
        for made, by_hand in (
            (x / 65536.0, np.array([1.0, 60000.0]) / 65536),
            (x * 1e-6, np.array([1.0, 60000.0]) * 1e-6),
            (x - 65536.0, np.array([-np.inf, -5536.0])),
            (65536.0 - x, np.array([np.inf, 5536.0])),
            (bireme.scale(x, 2.0, -65536.0), np.array([-np.inf, 54464.0])),
            (bireme.lerp(x, x * 0, 1e-5), np.array([1.0, 60000.0])),
        ):
            assert made.dtype is bireme.float16
            assert made.tolist() == by_hand.astype(np.float16).tolist()
        (x / 65536.0).sum().backward()
        assert x.grad.tolist() == [2.0**-16] * 2
        assert (bireme.to_tensor([0.1], "float16") == 0.1).item()  # compared in the tensor's own type


def test_numpy_on_either_side():
    x = bireme.to_tensor([1.0, 2.0])
    for op in (operator.add, operator.mul, operator.truediv, operator.sub):
        for made in (op(x, np.ones(2)), op(np.ones(2), x)):
            assert isinstance(made, bireme.Tensor)
            assert made.dtype is bireme.float64
    assert (x + np.float64(2)).dtype is bireme.float32
    assert (np.float32(2) * bireme.ones([2], "float64")).dtype is bireme.float64
    assert (bireme.ones([2, 2]) @ np.ones((2, 2))).dtype is bireme.float32
    assert bireme.to_tensor([[1.0], [2.0]]).__rmatmul__(bireme.to_tensor([[3.0, 4.0]])).tolist() == [[11.0]]


@pytest.mark.parametrize(
    ("left", "right", "made"),
    [("float32", "float64", "float32"), ("float64", "float16", "float64"), ("float32", "int64", "float32"), ("int64", "int32", "int64"),
     ("int32", "bool", "int32"), ("complex64", "complex128", "complex128"), ("complex64", "float64", "complex128"),
     ("float32", "complex64", "complex64")],
)  # fmt: skip
def test_the_right_side_of_a_product_takes_the_type_of_the_left(left, right, made):
    x, y = bireme.full([2, 3], 2).astype(left), bireme.ones([3, 2]).astype(right)
    y.stop_gradient = right in ("int64", "int32", "bool")
    product = x @ y
    assert product.dtype is getattr(bireme, made)
    assert product.tolist() == [[6, 6], [6, 6]]
    if not y.stop_gradient:
        product.real().sum().backward()
        assert y.grad.dtype is y.dtype
        assert y.grad.tolist() == [[4, 4]] * 3
    if "complex" not in right:
        assert (x @ y.detach().numpy()).dtype is getattr(bireme, made)


@pytest.mark.parametrize("kind", ["int8", "int32", "int64"])
def test_a_product_with_an_integer_tensor_tells_that_it_cuts_fractions(kind):
    x = bireme.to_tensor([[1, 2]], kind)
    for y in (bireme.to_tensor([[0.5], [1.75]]), np.array([[0.5], [1.75]])):
        with pytest.warns(UserWarning, match=f"in the dtype of its {kind} tensor and cuts the fractions of the float"):
            product = x @ y
        assert product.dtype is x.dtype
        assert product.tolist() == [[2]]
    with pytest.warns(UserWarning, match="cuts the fractions"):
        assert (np.array([[0.5, 0.5]]) @ x.T).tolist() == [[0]]


def test_in_place_takes_the_wider_type():
    x = bireme.to_tensor([1.0, 2.0])
    assert x.add_(bireme.ones([2], "float64")) is x
    assert x.dtype is bireme.float64
    n = bireme.to_tensor([1, 4])
    assert n.divide_(bireme.to_tensor([2, 2])).tolist() == [0.5, 2.0]
    assert n.dtype is bireme.float32
    assert bireme.to_tensor([1, 3]).clip_(1.5, 2.5).tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"add_\(x\): expected a result of x's dtype int64, got float32"):
        bireme.to_tensor([1, 2]).add_(2.5)
    chosen = bireme.to_tensor([1.0, 2.0])
    assert bireme.where_(chosen > 1, chosen, bireme.ones([2], "float64")).dtype is bireme.float64
    part = bireme.zeros([2, 2])[0]
    with pytest.raises(TypeError, match="float64"):
        part.add_(bireme.ones([2], "float64"))


def test_flattened_operands_are_no_scalars():
    for a, b, made in (
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("float32", "complex64", "complex64"),
    ):
        for x, y in ((bireme.ones([2], a), bireme.ones([], b)), (bireme.ones([], b), bireme.ones([2], a))):
            assert bireme.outer(x, y).dtype is getattr(bireme, made)
