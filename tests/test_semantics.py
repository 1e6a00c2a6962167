"""What Paddle's operators answer in the corners, as tables: the call, the type of the result, its numbers.

Every row was asked of Paddle 3.2.2 on CPU; where we differ on purpose, the row says why.
"""

import math

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.graph import executor

nan, inf = math.nan, math.inf


def t(data, dtype=None):
    return bireme.to_tensor(data, dtype)


CASES = {
    # division
    "int / int": (lambda: t([7, -7]) / t([2, 2]), "float32", [3.5, -3.5]),
    "int / 0": (lambda: t([1, -1, 0]) / 0, "float32", [inf, -inf, nan]),
    "int // int": (lambda: t([5, -5, 5, -5]) // t([3, 3, -3, -3]), "int64", [1, -2, -2, 1]),
    "int % int": (lambda: t([5, -5, 5, -5]) % t([3, 3, -3, -3]), "int64", [2, 1, -1, -2]),
    "float // float": (lambda: t([5.5, -5.5, 5.5, -5.5]) // t([3.0, 3.0, -3.0, -3.0]), "float32", [1.0, -2.0, -2.0, 1.0]),
    "float % float": (lambda: t([5.5, -5.5, 5.5, -5.5]) % t([3.0, 3.0, -3.0, -3.0]), "float32", [2.5, 0.5, -0.5, -2.5]),
    "float // 0": (lambda: t([1.0, -2.0]) // 0, "float32", [inf, -inf]),
    "float % 0": (lambda: t([1.0, -2.0]) % 0, "float32", [nan, nan]),
    "floor": (lambda: bireme.divide(t([7, -7]), t([2, 2]), rounding_mode="floor"), "int64", [3, -4]),
    "trunc": (lambda: bireme.divide(t([7, -7, 6]), t([2, 2, -3]), rounding_mode="trunc"), "int64", [3, -3, -2]),
    "trunc of floats": (lambda: bireme.divide(t([7.5, -7.5]), t([2.0, 2.0]), rounding_mode="trunc"), "float32", [3.0, -3.0]),
    # powers
    "int ** int": (lambda: t([2, 3]) ** 3, "int64", [8, 27]),
    "int ** float": (lambda: t([4, 9]) ** 0.5, "float32", [2.0, 3.0]),
    "pow keeps the type of integers": (lambda: bireme.pow(t([2, 3]), 2.5), "int64", [4, 9]),
    "2 ** int": (lambda: 2 ** t([1, 2]), "int64", [2, 4]),
    "0 to the 0": (lambda: bireme.pow(t([0.0, nan]), 0), "float32", [1.0, 1.0]),
    # integers wrap, bools add by `or`
    "int32 wraps": (lambda: t([2**31 - 1], "int32") + 1, "int32", [-(2**31)]),
    "uint8 wraps": (lambda: t([255, 200], "uint8") + 100, "uint8", [99, 44]),
    "bool + bool": (lambda: t([True, False]) + t([True, False]), "bool", [True, False]),
    "bool * bool": (lambda: t([True, True]) * t([True, False]), "bool", [True, False]),
    "not int": (lambda: ~t([0, 5]), "int64", [-1, -6]),
    "number & bool": (lambda: 2 & t([True, False]), "bool", [True, False]),
    # casts: towards zero; narrow types wrap
    "float to int": (lambda: t([1.7, -1.7, 0.5]).astype("int32"), "int32", [1, -1, 0]),
    "float to uint8": (lambda: t([300.0, -1.0]).astype("uint8"), "uint8", [44, 255]),
    "int to int8": (lambda: t([128, -129]).astype("int8"), "int8", [-128, 127]),
    "to bool": (lambda: t([0.0, 0.5, nan]).astype("bool"), "bool", [False, True, True]),
    "complex to float": (lambda: t([1 + 2j]).astype("float32"), "float32", [1.0]),
    "names of types": (lambda: t([1.5]).astype("float"), "float64", [1.5]),
    "a type's own method": (lambda: t([1.7]).int(), "int32", [1]),
    # beyond the range C++ may answer anything; here it is the limit, as XLA has it
    "NaN and infinity to int": (lambda: t([nan, inf, -inf]).astype("int32"), "int32", [0, 2**31 - 1, -(2**31)]),
    # reductions
    "sum of int32": (lambda: t([1, 2], "int32").sum(), "int64", 3),
    "sum of bool": (lambda: t([True, True]).sum(), "int64", 2),
    "sum of int8": (lambda: t([127, 1], "int8").sum(), "int8", -128),
    "prod of int32": (lambda: t([3, 4], "int32").prod(), "int32", 12),
    "mean of int": (lambda: t([1, 2]).mean(), "int64", 1),
    "mean of negative int": (lambda: t([-1, -2]).mean(), "int64", -1),
    "mean in a type": (lambda: bireme.mean(t([1, 2]), dtype="float64"), "float64", 1.5),
    "cumsum of int8": (lambda: t([127, 1], "int8").cumsum(), "int64", [127, 128]),
    "cumsum of one number": (lambda: t(2.0).cumsum(), "float32", [2.0]),
    "no axes are all axes": (lambda: bireme.sum(bireme.ones([2, 3]), axis=[], keepdim=True), "float32", [[6.0]]),
    "axes as an array": (lambda: bireme.sum(bireme.ones([2, 3]), axis=np.array([0])), "float32", [2.0, 2.0, 2.0]),
    "torch's order": (lambda: bireme.sum(bireme.ones([2, 3]), 1, True), "float32", [[3.0], [3.0]]),
    "sum of nothing": (lambda: bireme.zeros([0, 2]).sum(0), "float32", [0.0, 0.0]),
    "mean of nothing": (lambda: bireme.zeros([0, 2]).mean(0), "float32", [nan, nan]),
    "var of one": (lambda: t([1.0]).var(), "float32", nan),
    "var of nothing": (lambda: bireme.zeros([0, 2]).var(0), "float32", [nan, nan]),
    "var corrected": (lambda: bireme.var(t([1.0, 3.0]), correction=0), "float32", 1.0),
    "NaN in max": (lambda: t([nan, 1.0]).max(), "float32", nan),
    "argmax of a 0-D tensor": (lambda: t(3.0).argmax(axis=0), "int64", 0),
    # two at a time
    "maximum": (lambda: bireme.maximum(t([1.0, nan]), t([nan, 1.0])), "float32", [nan, nan]),
    "clip int by floats": (lambda: bireme.clip(t([1, 2, 3]), 1.5, 2.5), "float32", [1.5, 2.0, 2.5]),
    "clip by a tensor": (lambda: bireme.clip(t([1.0, 3.0]), t([2]), None), "float32", [2.0, 3.0]),
    "scale of int": (lambda: bireme.scale(t([1, 2]), 2.5, 0.5), "int64", [2, 4]),
    "where float16 and a number": (lambda: bireme.where(t([True, False]), bireme.ones([2], "float16"), 2.5), "float32", [1.0, 2.5]),
    "allclose of int": (lambda: bireme.allclose(t([1, 2]), t([1, 2])), "bool", True),
    "logical_and of int": (lambda: bireme.logical_and(t([1, 0, 2]), t([1, 1, 0])), "bool", [True, False, False]),
    "exp of int": (lambda: t([0]).exp(), "float32", [1.0]),
    "abs of complex": (lambda: t([3 + 4j]).abs(), "float32", [5.0]),
    "fill int": (lambda: t([1, 2]).fill_(3.7), "int64", [3, 3]),
    # made from data
    "number": (lambda: t(1), "int64", 1),
    "float": (lambda: t(1.5), "float32", 1.5),
    "complex": (lambda: t(1j), "complex64", 1j),
    "np.float64": (lambda: t(np.float64(1.5)), "float64", 1.5),
    "list of np.float64": (lambda: t([np.float64(1.5)]), "float32", [1.5]),
    "list of arrays": (lambda: t([np.ones(1), np.ones(1)]), "float32", [[1.0], [1.0]]),
    "list of int32 arrays": (lambda: t([np.ones(1, np.int32)]), "int64", [[1]]),
    "list of tensors": (lambda: t([t([1.0], "float64")]), "float64", [[1.0]]),
    "uint16 is bfloat16": (lambda: t(np.array([0x3FC0], np.uint16)), "bfloat16", [1.5]),
    "full with int": (lambda: bireme.full([1], 1), "float32", [1.0]),
    "full with bool": (lambda: bireme.full([1], True), "bool", [True]),
    "full with complex": (lambda: bireme.full([1], 1j), "complex128", [1j]),
    "full with a tensor": (lambda: bireme.full([1], t(3)), "float32", [3.0]),
    "full_like keeps the type": (lambda: bireme.full_like(t([1]), 1.5), "int64", [1]),
    "zeros by numbers": (lambda: bireme.zeros(2, 1), "float32", [[0.0], [0.0]]),
    "dtype=float": (lambda: bireme.zeros([1], dtype=float), "float64", [0.0]),
    "dtype='int'": (lambda: bireme.zeros([1], dtype="int"), "int64", [0]),
    "arange of float": (lambda: bireme.arange(2.0), "float32", [0.0, 1.0]),
    "arange counts in its type": (lambda: bireme.arange(3.5, dtype="int64"), "int64", [0, 1, 2]),
    "arange of tenths": (lambda: bireme.arange(0, 0.3, 0.1).shape, list, [3]),
    "arange downwards": (lambda: bireme.arange(3, 0, -2), "int64", [3, 1]),
    "arange of nothing": (lambda: bireme.arange(0, -1), "int64", []),
    "linspace of nothing": (lambda: bireme.linspace(0, 1, 0), "float32", []),
    "linspace of int": (lambda: bireme.linspace(0, 10, 4, dtype="int32"), "int32", [0, 3, 6, 10]),
    "assign a number": (lambda: bireme.assign(1.5), "float64", [1.5]),
    "assign a list": (lambda: bireme.assign([1.5]), "float64", [1.5]),
    # shapes
    "reshape copies an extent": (lambda: bireme.zeros([2, 3, 4]).reshape([0, -1]).shape, list, [2, 12]),
    "reshape of nothing": (lambda: bireme.zeros([0, 3]).reshape([0, -1]).shape, list, [0, 3]),
    "reshape of nothing to nothing": (lambda: bireme.zeros([0, 3]).reshape([3, 0]).shape, list, [3, 0]),
    "squeeze what is not 1": (lambda: bireme.zeros([2, 1]).squeeze(0).shape, list, [2, 1]),
    "squeeze without axes": (lambda: bireme.zeros([1, 2, 1]).squeeze([]).shape, list, [2]),
    "unsqueeze twice": (lambda: bireme.zeros([2]).unsqueeze([0, -1]).shape, list, [1, 2, 1]),
    "unsqueeze in place": (lambda: bireme.zeros([2]).unsqueeze_(0).shape, list, [1, 2]),
    "two axes swapped": (lambda: bireme.zeros([2, 3]).transpose(0, 1).shape, list, [3, 2]),
    "two axes swapped by name": (lambda: bireme.zeros([2, 3, 4]).transpose(dim0=0, dim1=2).shape, list, [4, 3, 2]),
    "a permutation": (lambda: bireme.zeros([2, 3]).transpose([0, 1]).shape, list, [2, 3]),
    "the first axes permuted": (lambda: bireme.zeros([2, 3, 4]).transpose([1, 0]).shape, list, [3, 2, 4]),
    "tile takes one list": (lambda: bireme.zeros([2, 3]).tile([2, 1]).shape, list, [4, 3]),
    "chunks": (lambda: [p.shape for p in bireme.split(bireme.zeros([3]), [2, -1])], list, [[2], [1]]),
    "stack of 0-d": (lambda: bireme.stack([t(1), t(2)]), "int64", [1, 2]),
    "index_select in torch's order": (lambda: t([[1, 2], [3, 4]]).index_select(1, t([1])), "int64", [[2], [4]]),
    "masked_fill by numbers": (lambda: bireme.masked_fill(t([1.0, 2.0]), t([1, 0]), 5.0), "float32", [5.0, 2.0]),
    # what Paddle takes beyond its signatures
    "bits shifted, not numbers": (lambda: t([-2]).__rshift__(t([1]), False), "int64", [2**63 - 1]),
    "product over an empty tensor of axes": (lambda: bireme.prod(t([2, 3]), t([], "int32")), "int64", [2, 3]),
    "softmax with torch's level": (lambda: bireme.softmax(t([0.0, 0.0]), 0, 3), "float32", [0.5, 0.5]),
    "tolerances as arrays": (lambda: bireme.allclose(t([100]), t([1]), np.array([50.0]), np.array([49.0])), "bool", True),
    "out that is not told of": (lambda: bireme.multiply(t([2]), t([3]), out=t(0)), "int64", [6]),
    "numpy with a flag": (lambda: t([1]).numpy(False).tolist(), list, [1]),
    "NumPy's names of types": (lambda: [t([1]).astype(d).dtype.name for d in ("short", "complex", "f4")], list, ["int16", "complex128", "float32"]),
    "cumsum in place in another type": (lambda: t([[1, 2], [3, 4]]).cumsum_(dtype="float32"), "float32", [1.0, 3.0, 6.0, 10.0]),
    # a 0-d result stays 0-d (Paddle gives `x // 2` an axis)
    "0-d // number": (lambda: t(7) // 2, "int64", 3),
    "== text": (lambda: t([0.0, 1.0]) == "same", "bool", [False, False]),
    "!= text": (lambda: t([0.0, 1.0]) != "same", "bool", [True, True]),
}

RAISES = {
    "a name that is no text": (lambda: setattr(t([1.0]), "name", 1), (TypeError,)),
    "bool - bool": (lambda: t([True]) - t([True]), (TypeError,)),
    "int // 0": (lambda: t([1, 2]) // 0, (ZeroDivisionError,)),
    "int % tensor with 0": (lambda: t([1, 2]) % t([0, 1]), (ZeroDivisionError,)),
    "int % pending with 0": (lambda: (t([1, 2]) % (t([0, 1]) * 2)).numpy(), (ZeroDivisionError,)),
    "int // pending with 0": (lambda: (5 // (t([0, 1]) * 2)).tolist(), (ZeroDivisionError,)),
    "ints at pending places": (lambda: t([5, 6])[t([0, 1]) * 2].tolist(), (IndexError,)),
    "== None": (lambda: t([1]) == None, (TypeError,)),  # noqa: E711 - what is tested
    "< text": (lambda: t([1]) < "same", (TypeError,)),
    "tensor + list": (lambda: t([1]) + [1], (TypeError,)),
    "a number for a tensor": (lambda: bireme.exp(2.0), (TypeError, ValueError)),
    "an unknown keyword": (lambda: bireme.sum(t([1]), keepdims=True), (TypeError, ValueError)),
    "a missing argument": (lambda: bireme.reshape(t([1])), (TypeError, ValueError)),
    "axis out of range": (lambda: bireme.sum(t([1]), axis=1), (ValueError, IndexError)),
    "axis twice": (lambda: bireme.sum(bireme.ones([2, 2]), axis=[0, -2]), (ValueError,)),
    "axis as a bool": (lambda: bireme.sum(t([1]), axis=True), (TypeError,)),
    "shapes that do not fit": (lambda: t([1, 2]) + t([1, 2, 3]), (ValueError,)),
    "max of nothing": (lambda: bireme.zeros([0]).max(), (ValueError,)),
    "argmax of nothing": (lambda: bireme.zeros([0]).argmax(), (ValueError,)),
    "clip upside down": (lambda: bireme.clip(t([1.0]), 2, 0), (ValueError,)),
    "where without a condition": (lambda: bireme.where(t([1]), t([1]), t([1])), (TypeError, ValueError)),
    "rounding": (lambda: bireme.divide(t([1]), t([1]), rounding_mode="up"), (ValueError,)),
    "out of an in-place form": (lambda: t([1.0]).floor_(out=t([1.0])), (TypeError,)),
    "gather out of range": (lambda: bireme.gather(t([1]), t([1])), (IndexError,)),
    "len of 0-d": (lambda: len(t(1)), (AssertionError, TypeError)),
    "bool of several": (lambda: bool(t([1, 2])), (AssertionError, ValueError)),
    "item of several": (lambda: t([1, 2]).item(), (ValueError,)),
    "item out of range": (lambda: t([1, 2]).item(2), (ValueError, IndexError)),
    "set_value of another shape": (lambda: t([1.0]).set_value(t([1.0, 2.0])), (AssertionError, ValueError)),
    "a larger in-place result": (lambda: t([1.0]).add_(t([1.0, 2.0])), (ValueError,)),
    "a number out of range": (lambda: t(2**31, "int32"), (OverflowError,)),
    "text": (lambda: t(["a"]), (TypeError, ValueError)),
    "ragged lists": (lambda: t([[1, 2], [3]]), (ValueError,)),
    "a step of 0": (lambda: bireme.arange(0, 1, 0), (ValueError,)),
    "no type": (lambda: t([1]).astype("foo"), (TypeError,)),
    "to nowhere": (lambda: t([1]).to(), (TypeError,)),
    "nothing for a tensor": (lambda: bireme.polar(None, t([1.0])), (TypeError, ValueError, AttributeError)),
    "nothing for a number": (lambda: bireme.nn.functional.elu(t([1.0]), None), (TypeError,)),
    "a type without a transform": (lambda: bireme.fft.fft(t([True])), (TypeError, RuntimeError)),
    "histogram of too wide a range": (lambda: bireme.histogram(t([-(2**62), 2**62])).tolist(), (ValueError,)),
}


def compare(found, kind, wanted):
    if isinstance(kind, type):
        assert type(found) is kind
        assert found == wanted
        return
    assert found.dtype.name == kind
    assert found.stop_gradient
    assert found.shape == list(np.shape(wanted))
    np.testing.assert_array_equal(np.array(found.tolist()), np.array(wanted))


@pytest.mark.parametrize("name", CASES)
def test_answers(name):
    call, kind, wanted = CASES[name]
    with executor.use("interpreter"):
        compare(call(), kind, wanted)


def test_compiled_answers():
    """All rows in few programs: what is only recorded is compiled together."""
    with executor.use("xla"):
        found = {name: call() for name, (call, _, _) in CASES.items()}
        for name, (_, kind, wanted) in CASES.items():
            compare(found[name], kind, wanted)


def test_what_has_the_type_and_the_place_already_is_the_tensor_itself():
    for x in (t([1.0]), bireme.to_tensor([1.0], stop_gradient=False)):
        same = x.float(), x.type_as(x), x.to("cpu"), x.to(x), x.to(bireme.float32), x.to(x.place), x._to(), x.cpu(), x.astype("float32")
        assert all(y is x for y in same)
        copies = x.to("float32"), x.to("cpu", "float32"), x.cast("float32")
        assert all(y is not x and y.tolist() == [1.0] and y.is_leaf is x.stop_gradient for y in copies)
    assert t([1]).long().dtype is bireme.int64 and t([1]).float().dtype is bireme.float32


@pytest.mark.parametrize("name", RAISES)
def test_refusals(name):
    call, kinds = RAISES[name]
    assert kinds
    for kind in kinds:
        with pytest.raises(kind):
            call()


def test_to():
    x = t([1.7])
    assert x.to("float64").dtype is bireme.float64
    assert x.to("cpu", "int32").tolist() == [1]
    assert x.to(t([1])).dtype is bireme.int64
    assert x.to(dtype=bireme.float16).dtype is bireme.float16
    assert x.to("float32") is not x


def test_changes_in_place_are_counted_as_paddle_makes_them():
    for change, count in ((lambda x: x.hypot_(x), 3), (lambda x: x.nan_to_num_(), 3), (lambda x: x.ldexp_(t([1])), 2), (lambda x: x.cumsum_(), 1),
                          (lambda x: x.cumsum_(dtype="float64"), 2), (lambda x: x.tan_(), 1), (lambda x: x.sinc_(), 4)):  # fmt: skip
        x = bireme.ones([2, 2])
        change(x)
        assert x.inplace_version == count


def test_pairs_have_names_also_where_they_are_written_into_out():
    x = bireme.to_tensor([[3.0, 1.0, 2.0]])
    for call, name in (
        (lambda **k: bireme.topk(x, 1, **k), "TopKRetType"),
        (lambda **k: bireme.compat.median(x, 1, True, **k), "MedianRetType"),
        (lambda **k: bireme.compat.max(x, 1, True, **k), "MinMaxRetType"),
    ):
        out = (bireme.zeros([1, 1]), bireme.zeros([1, 1], "int64"))
        for made in (call(), call(out=out)):
            assert type(made).__name__ == name
            assert made.values.tolist() == [[2.0 if "Median" in name else 3.0]]
            assert made.indices.tolist() == [[2 if "Median" in name else 0]]
        assert made.values is out[0]


@pytest.mark.parametrize("index", ["a", 1.0, None, True, [1]])
def test_item_takes_integers(index):
    with pytest.raises(TypeError, match=r"item\(index\): expected an integer"):
        bireme.to_tensor([1.0, 2.0]).item(index)


@pytest.mark.parametrize(("loss", "gradient"), [
    (lambda x: nn.functional.hinge_embedding_loss(x, t([-1.0, -1.0]), reduction="sum"), [0.0, 0.0]),
    (lambda x: nn.functional.margin_ranking_loss(x, t([1.0, 1.0]), t([1.0, 1.0]), reduction="sum"), [0.0, 0.0]),
    (lambda x: nn.functional.multi_margin_loss(x.unsqueeze(0), t([1]), margin=1.0, reduction="sum"), [0.5, -0.5]),
])  # fmt: skip
def test_gradients_of_losses_at_their_margin(loss, gradient):
    x = t([1.0, 2.0])
    x.stop_gradient = False
    loss(x).backward()
    assert x.grad.tolist() == gradient


@pytest.mark.parametrize("kind", ["float32", "float64", "bool", "int32", "uint8"])
def test_classes_of_any_type(kind):
    x = t([[1.0, 2.0], [3.0, 4.0]])
    for label in (t([0, 1]), t([[0], [1]])):
        assert nn.functional.cross_entropy(x, label.astype(kind)).item() == nn.functional.cross_entropy(x, label).item()


def test_out_may_be_a_leaf():
    x, out = t([1.0, 2.0]), bireme.zeros([2])
    out.stop_gradient = False
    assert bireme.add(x, x, out=out) is out
    assert out.is_leaf and not out.stop_gradient and out.tolist() == [2.0, 4.0]
    x.stop_gradient = False
    bireme.multiply(x, x, out=out)
    assert not out.is_leaf
    out.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_tan_may_follow_itself_in_place():
    x = t([0.5])
    x.stop_gradient = False
    y = x * 1
    y.tan_().tan_().backward()
    once = math.tan(0.5)
    assert x.grad.item() == pytest.approx((1 + once**2) * (1 + math.tan(once) ** 2), rel=1e-5)


def test_norm_of_a_negative_order_beside_a_zero_is_flat():
    x = t([0.0, 2.0, -3.0])
    x.stop_gradient = False
    bireme.linalg.vector_norm(x, p=-1.0).backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_questions():
    x = bireme.zeros([2, 3])
    assert bireme.is_floating_point(x) and not bireme.is_integer(t([True])) and bireme.is_complex(t([1j]))
    assert (x.numel().item(), x.numel().dtype) == (6, bireme.int64)
    assert (bireme.rank(x).item(), bireme.rank(x).dtype) == (2, bireme.int32)
    assert x.strides == [3, 1]
    assert x.value() is x
    assert bireme.is_empty(bireme.zeros([0])).item() is True


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("interpret", [True, False])
def test_sums_in_half_precision_are_made_in_float32(kind, interpret):
    numbers = (np.arange(4000) % 7 / 8 + 0.5).astype("float32")
    x = bireme.to_tensor(numbers).astype(kind)
    w = bireme.zeros([1], dtype=kind)
    w.stop_gradient = False
    bireme.set_flags({"FLAGS_interpret": interpret})
    try:
        (w * x).sum().backward()
        found = [x.sum(), x.mean() * 4000.0, bireme.cumsum(x)[-1], bireme.linalg.norm(x, 1), bireme.nansum(x), bireme.dot(x, x), w.grad]
        found = [t.astype("float32").item() for t in found]
    finally:
        bireme.set_flags({"FLAGS_interpret": True})
    wide = [*[float(numbers.sum())] * 5, float((numbers**2).sum()), float(numbers.sum())]
    np.testing.assert_allclose(found, wide, rtol=8e-3)


def test_methods_that_a_program_replaces_are_not_called_inside(monkeypatch):
    """Programs give Tensor the methods of another library: `x.size(0)` instead of the plain number."""
    monkeypatch.setattr(bireme.Tensor, "size", lambda x, axis: x.shape[axis])
    x = bireme.to_tensor([[1.0, 2.0], [3.0, 5.0]])
    assert x.size(1) == 2
    assert bireme.numel(x).item() == 4
    assert bireme.ravel(x).shape == [4]
    assert bireme.nn.LayerNorm(2)(x).shape == [2, 2]
    assert bireme.nn.BatchNorm1D(2)(x).shape == [2, 2]
    assert bireme.nn.functional.sequence_mask(bireme.to_tensor([1, 2])).shape == [2, 2]
    assert bireme.full([2], bireme.to_tensor([3.0])).tolist() == [3.0, 3.0]


def test_several_elements_are_no_index():
    for use in (lambda x: [1, 2, 3][x], lambda x: range(x), lambda x: x * [1]):
        with pytest.raises(ValueError, match="index: expected a tensor of one element, got shape"):
            use(bireme.to_tensor([1, 2]))


def test_a_cast_to_nothing_gives_float64():
    """As NumPy reads None, and Paddle with it; Bireme refused it before."""
    assert t([1]).astype(None).dtype is bireme.float64


@pytest.mark.parametrize("pos_weight", [None, 1.0])
def test_gradients_of_logits_that_are_right_by_far(pos_weight):
    """They are small numbers, not differences of two numbers near one."""
    x = bireme.to_tensor([15.0, -15.0, 9.0, -9.0], stop_gradient=False)
    weight = None if pos_weight is None else bireme.to_tensor(pos_weight)
    label = bireme.to_tensor([1.0, 0.0, 1.0, 0.0])
    bireme.nn.functional.binary_cross_entropy_with_logits(x, label, reduction="sum", pos_weight=weight).backward()
    small = np.exp(-np.abs(x.numpy().astype(np.float64)))
    np.testing.assert_allclose(x.grad, small / (1 + small) * np.array([-1, 1, -1, 1]), rtol=1e-6)
