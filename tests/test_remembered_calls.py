"""A call is remembered by the kinds of its arguments: values that decide something must not be."""

import numpy as np
import pytest

import bireme
from bireme.core.declare.op import Op
from bireme.core.graph import segment
from bireme.core.record import flush

F = bireme.nn.functional


def t(x, **kwargs):
    return bireme.to_tensor(x, **kwargs)


def test_a_tensor_as_an_attribute_is_read_every_time():
    x = t([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert bireme.sum(x, axis=t(0)).tolist() == [3.0, 5.0, 7.0]
    assert bireme.sum(x, axis=t(1)).tolist() == [3.0, 12.0]
    assert bireme.reshape(x, t([3, 2])).shape == [3, 2]
    assert bireme.reshape(x, t([1, 6])).shape == [1, 6]
    assert bireme.tile(t([1.0]), t([2])).shape == [2]
    assert bireme.tile(t([1.0]), t([3])).shape == [3]


def test_the_same_tensor_twice_does_not_stand_for_two():
    a, b = t([2.0]), t([5.0])
    assert bireme.multiply(a, a).item() == 4.0
    assert bireme.multiply(a, b).item() == 10.0
    assert bireme.subtract(y=a, x=b).item() == 3.0


def test_numbers_that_travel_are_not_remembered():
    x = t([1.0, 2.0])
    for alpha, y in ((3.0, 2.0), (3.0, 2.0), (3.0, 5.0), (1.0, 5.0)):
        assert bireme.add(x, y, alpha=alpha).tolist() == [1 + alpha * y, 2 + alpha * y]
    assert [bireme.scale(x, s).tolist() for s in (2.0, 3.0)] == [[2.0, 4.0], [3.0, 6.0]]


def test_what_is_decided_by_the_numbers_in_a_tensor():
    assert F.one_hot(t([1]), -1).shape == [1, 2]
    assert F.one_hot(t([5]), -1).shape == [1, 6]
    assert bireme.floor_divide(t([4]), t([3])).tolist() == [1]
    for divide in (lambda x, y: bireme.floor_divide(x, y), lambda x, y: x // y, lambda x, y: x % y):
        with pytest.raises(ZeroDivisionError):
            divide(t([4]), t([0]))


def test_types_of_equal_numbers_are_told_apart():
    x = t([4, 9])
    assert bireme.pow(x, 2).dtype is bireme.int64
    assert (x**0.5).dtype is bireme.float32
    assert (x * True).dtype is bireme.int64
    assert (x * 1.0).dtype is bireme.float32


def test_lists_are_told_apart_from_what_is_in_them():
    x = t([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    for _ in range(3):
        assert bireme.mean(x, [], 1).shape == bireme.mean(x, [], True).shape == [1, 1]
        assert bireme.mean(x, [1]).tolist() == [1.0, 4.0]
        assert bireme.mean(x, axis=1).tolist() == [1.0, 4.0]
        for wrong in (("axis", 1), ([True],), ([1.0],), ([[1]],), ("1",)):
            with pytest.raises(TypeError):
                bireme.mean(x, *wrong)


def test_a_list_of_numbers_is_no_list_of_tensors():
    x, y = t([1.0]), t([2.0])
    for _ in range(3):
        bireme.debug.flush()
        a, b = x + 1.0, y + 1.0
        assert bireme.concat([a, b]).tolist() == [2.0, 3.0]
        a, b = x + 1.0, y + 1.0
        with pytest.raises(TypeError):
            bireme.concat([0, 1])


def test_an_error_shows_the_users_frames_alone():
    try:
        bireme.matmul(bireme.ones([2, 4]), bireme.ones([5, 4]))
    except ValueError as e:
        frames = []
        tb = e.__traceback__
        while tb is not None:
            frames.append(tb.tb_frame.f_code.co_filename)
            tb = tb.tb_next
    assert frames == [__file__]


# ---------------------------------------------------------------- the same line again, from the same state


def test_a_number_of_another_kind_is_another_call():
    x = bireme.to_tensor([3, 4])
    for _ in range(3):
        assert (x * 2).dtype == bireme.int64
        assert (x * 2.0).tolist() == [6.0, 8.0]
        assert (x * 2.5).tolist() == [7.5, 10.0]
        assert (x.astype("float32") * 2).tolist() == [6.0, 8.0]
        assert (bireme.clip(x, 0, 3).tolist(), bireme.clip(x, 0, 4).tolist()) == ([3, 3], [3, 4])


def test_numbers_are_those_of_the_call():
    x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    for k in range(1, 6):
        y = bireme.clip(x * float(k) + k, 0.0, k + 1.5)
        (grad,) = bireme.grad(y.sum(), x)
        assert y.tolist() == np.clip(np.array([1.0, 2.0]) * k + k, 0, k + 1.5).tolist()
        assert grad.tolist() == [float(k) if v * k + k <= k + 1.5 else 0.0 for v in (1.0, 2.0)]


def test_calls_that_promote_their_operands_keep_their_gradients():
    a = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    b = bireme.to_tensor([3.0, 4.0], dtype="bfloat16", stop_gradient=False)
    for _ in range(4):
        a.clear_gradient(False)
        b.clear_gradient(False)
        out = a + b
        assert out.dtype == bireme.float32
        (out * out).sum().backward()
        assert a.grad.tolist() == [8.0, 12.0]
        assert (b.grad.dtype, b.grad.astype("float32").tolist()) == (bireme.bfloat16, [8.0, 12.0])


def test_mixed_precision_is_a_part_of_the_call():
    x, w = bireme.ones([2, 2]), bireme.ones([2, 2])
    kinds = []
    for _ in range(3):
        kinds.append((x @ w).dtype)
        with bireme.amp.auto_cast(dtype="bfloat16"):
            kinds += [(x @ w).dtype, bireme.matmul(x, w).dtype, (x + w).dtype]
        kinds.append(bireme.matmul(x, w).dtype)
    assert kinds == [bireme.float32, bireme.bfloat16, bireme.bfloat16, bireme.float32, bireme.float32] * 3


def test_one_tensor_in_two_places_and_two_tensors_of_one_value():
    for _ in range(3):
        x = bireme.to_tensor([3.0], stop_gradient=False)
        y = x * 1.0
        (y * y).backward()
        assert x.grad.tolist() == [6.0]
        x.clear_gradient(False)
        y = x * 1.0
        (y * y.detach()).backward()
        assert x.grad.tolist() == [3.0]


def test_a_view_that_was_written_into_is_read_anew():
    for k in range(3):
        x = bireme.zeros([4])
        y = x.reshape([2, 2])
        assert bireme.exp(y).sum().item() == 4.0
        x.add_(bireme.full([4], float(k)))
        assert bireme.scale(y, 2.0).tolist() == [[2.0 * k] * 2] * 2


def test_new_axes_share_storage_the_second_time_too():
    calls = (
        lambda x: x[:, None], lambda x: x[None, 1], lambda x: x[..., None, ::2], lambda x: x.unsqueeze([0, -1]),
        lambda x: x[:, :1].squeeze(-1), lambda x: bireme.squeeze(x[:1], 0),
    )  # fmt: skip
    a = np.arange(6, dtype="float32").reshape(2, 3)
    likes = (a[:, None], a[None, 1], a[..., None, ::2], a[None, :, :, None], a[:, 0], a[0])
    for f, like in zip(calls, likes, strict=True):
        for _ in range(3):
            x = t(a)
            part = f(x)
            np.testing.assert_array_equal(part.numpy(), like)
            part.fill_(9.0)
            assert (x == 9.0).sum().item() == like.size
            y = t(a, stop_gradient=False)
            (f(y * 2.0) ** 2.0).sum().backward()
            assert y.grad.sum().item() == 8 * like.sum()
    for shape in ([2, 0], [0, 2], [2, 0]):
        assert bireme.zeros(shape).unsqueeze(1).shape == [shape[0], 1, shape[1]]
        assert bireme.zeros(shape)[None].shape == [1, *shape]


def test_indices_are_looked_at_in_every_call():
    table = bireme.arange(4, dtype="float32").reshape([4, 1])
    for at in ([0, 3], [1, 2], [3, 3]):
        assert bireme.nn.functional.embedding(bireme.to_tensor(at), table).flatten().tolist() == [float(i) for i in at]
        assert bireme.index_select(table, bireme.to_tensor(at)).flatten().tolist() == [float(i) for i in at]
        with pytest.raises(IndexError, match=r"embedding\(x\): expected indices in \[0, 3\]"):
            bireme.nn.functional.embedding(bireme.to_tensor([0, 4]), table)
        pending = bireme.to_tensor([0, 2]) + 2
        with pytest.raises(IndexError, match="an index out of range"):
            bireme.nn.functional.embedding(pending, table).numpy()


def test_lists_of_tensors():
    x, y = t([1.0, 2.0], stop_gradient=False), t([3.0])
    for _ in range(3):
        assert bireme.concat([x, y]).tolist() == [1.0, 2.0, 3.0]
        assert bireme.concat((y, x, y)).tolist() == [3.0, 1.0, 2.0, 3.0]
        assert bireme.concat([x, x], axis=-1).tolist() == [1.0, 2.0, 1.0, 2.0]
        (grad,) = bireme.grad((bireme.stack([x, x * 2.0], 1) * t([[1.0, 10.0]])).sum(), x)
        assert grad.tolist() == [21.0, 21.0]
        for wrong in ([x, 1.0], [], [x, None]):
            with pytest.raises((TypeError, ValueError), match="concat"):
                bireme.concat(wrong)


def test_shapes_stay_themselves_when_many_are_known(monkeypatch):
    from bireme.core.base import dtype
    from bireme.core.graph import graph

    x = bireme.ones([3, 7])
    monkeypatch.setattr(graph, "MAX_SIGS", len(graph._SIGS))
    for n in range(40):
        graph.sig_of((n, 11, 13), dtype.float64)
    assert graph.sig_of((3, 7), dtype.float32) is x._value.sig
    assert (x + bireme.ones([3, 7])).sum().item() == 42.0


def test_tensors_and_numbers_by_name_in_any_order():
    rng = np.random.default_rng(0)
    for turn in range(4):  # met anew, of known kinds, known as written
        x, w, b, y = (bireme.to_tensor(rng.standard_normal(s)) for s in ((3, 4), (4, 4), (4,), (3, 4)))
        nx, nw, nb, ny = (t.numpy() for t in (x, w, b, y))
        for found in (F.linear(x, weight=w, bias=b), F.linear(x, bias=b, weight=w), F.linear(weight=w, bias=b, x=x)):
            np.testing.assert_allclose(found.numpy(), nx @ nw + nb)
        np.testing.assert_allclose(bireme.subtract(y=y, x=x).numpy(), nx - ny)
        np.testing.assert_allclose(bireme.subtract(x=x, y=y).numpy(), nx - ny)
        np.testing.assert_allclose(
            bireme.lerp(x, weight=0.25 * turn, y=y).numpy(), nx + 0.25 * turn * (ny - nx), atol=1e-7
        )
        x.stop_gradient = w.stop_gradient = False
        bireme.matmul(y=w, x=x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.ones((3, 4)) @ nw.T)
        np.testing.assert_allclose(w.grad.numpy(), nx.T @ np.ones((3, 4)))


@pytest.mark.parametrize(
    "call",
    [
        lambda zero: bireme.masked_fill(bireme.ones([2]), bireme.to_tensor([True, True]), zero),
        lambda zero: bireme.where(bireme.to_tensor([True, True]), zero, bireme.ones([2])),
        lambda zero: F.pad(bireme.ones([1, 1, 2]), [1, 1], value=zero)[0, 0, ::3],
        lambda zero: bireme.diag(bireme.ones([1]), 1, zero)[1],
        lambda zero: F.thresholded_relu(-bireme.ones([2]), 0.5, zero),
        lambda zero: F.hardtanh(-bireme.ones([2]), zero, 1.0),
    ],
)
def test_zeros_of_either_sign_are_told_apart(call):
    for zero in (0.0, -0.0, 0.0, -0.0):
        assert np.signbit(call(zero).numpy()).tolist() == [np.signbit(zero)] * 2


def test_calls_at_new_sizes_take_the_short_way(monkeypatch):
    """What a call comes to depends on dtypes and numbers of axes, where arguments are not completed by sizes."""
    long_ways = []
    settle = Op._operands_and_attrs
    monkeypatch.setattr(
        Op, "_operands_and_attrs", lambda op, arguments: long_ways.append(op.name) or settle(op, arguments)
    )

    def calls(n):
        x, y = bireme.ones([n, 4]), bireme.ones([4, 3])
        return F.softmax(bireme.tanh(x @ y) * 2.0 + bireme.matmul(x, y), axis=1).sum()

    calls(5).item()
    del long_ways[:]
    assert calls(7).item() == pytest.approx(7.0)
    assert not set(long_ways) & {"tanh", "matmul", "multiply", "add"}
    with pytest.raises(ValueError, match=r"matmul\(y\): expected 4 rows"):
        bireme.matmul(bireme.ones([2, 4]), bireme.ones([5, 3]))
    assert bireme.multiply(bireme.ones([2, 1]), bireme.ones([3])).shape == [2, 3]
    assert (bireme.ones([2], "float32") * bireme.ones([], "float64")).dtype is bireme.float32
    assert (bireme.ones([2], "float32") * bireme.ones([1], "float64")).dtype is bireme.float64


def new_steps(monkeypatch):
    """The calls whose place in the tree is found the long way."""
    made = []
    extend = flush.extend
    monkeypatch.setattr(
        flush,
        "extend",
        lambda state, key, bound, operands: made.append(bound.op.name) or extend(state, key, bound, operands),
    )
    return made


def test_a_path_at_new_sizes_follows_one_at_others(monkeypatch):
    linear, norm = bireme.nn.Linear(4, 4), bireme.nn.LayerNorm(4)

    def calls(n):
        x = bireme.ones([n, 4])
        for _ in range(3):
            x = F.gelu(norm(linear(x))) + x * 0.5
        return x

    wanted = [calls(n).numpy() for n in (2, 3, 4)]
    made = new_steps(monkeypatch)
    for n, rows in zip((9, 10), (wanted[0][:1], wanted[1][:1]), strict=True):
        np.testing.assert_allclose(calls(n).numpy(), np.repeat(rows, n, 0), rtol=1e-6)
        assert len(made) <= 4, made  # what reads the input itself
        del made[:]


def test_sizes_that_change_what_a_call_comes_to():
    """From one state of an outline to the next: other numbers of axes and of results, sums over what was broadcast."""
    w = t([1.0, 2.0, 3.0], stop_gradient=False)
    for n in (2, 3, 4, 1, 5, 3, 1):
        x = bireme.ones([n, 3]) * 2.0
        assert (x * w).squeeze().shape == ([n, 3] if n > 1 else [3])
        parts = bireme.unbind((x + w) * 1.0)
        assert [len(parts), parts[-1].tolist()] == [n, [3.0, 4.0, 5.0]]
        bireme.stack([bireme.tanh(p) * 0.0 + p * w for p in parts]).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), n * (2.0 + 2.0 * w.numpy()))
        w.clear_grad()


@pytest.mark.parametrize("n", [3, 5])
def test_wrong_sizes_are_told_in_the_words_of_the_function(n):
    w, b = bireme.ones([4, 2]), bireme.ones([2])
    for k in (1, 2, n, n):
        assert F.linear(bireme.ones([k, 4]), w, b).shape == [k, 2]
        assert F.layer_norm(bireme.ones([k, 4]), 4).shape == [k, 4]
    with pytest.raises(
        ValueError, match=r"linear\(x\): expected 4 features in the last dimension to match weight of shape"
    ):
        F.linear(bireme.ones([n, 3]), w, b)
    with pytest.raises(
        ValueError, match=rf"layer_norm\(x\): expected last dimensions of shape \[4\], got .*\[{n}, 3\]"
    ):
        F.layer_norm(bireme.ones([n, 3]), 4)


def test_the_tree_of_many_sizes_has_one_outline():
    segment._drop_tree()  # what other tests have recorded may be deep
    w = t([1.0, 2.0], stop_gradient=False)

    def step(n):
        x = bireme.ones([n, 2])
        for _ in range(10):
            x = bireme.tanh(x * w)
        x.sum().backward()
        w.clear_grad()
        bireme.debug.flush()

    def outlines(found):
        return 1 + sum(outlines(after) for after in found.values() if after.__class__ is type(found))

    for n in (2, 3, 4):
        step(n)
    before = outlines(segment.root().outline)
    for n in range(5, 25):
        step(n)
    after = outlines(segment.root().outline)
    assert after == before


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
def test_integers_beside_integers_travel(dtype):
    x = bireme.to_tensor(np.array([0, 1, 1]), dtype=dtype)
    for n in (0, 1, 2, 1 << 40, -3):
        if dtype == "int64":
            assert (x == n).tolist() == [n == 0, n == 1, n == 1]
            assert (x + n).tolist() == [n, 1 + n, 1 + n]
        if abs(n) < 100:
            assert (x * n).tolist() == [0, n, n]
    assert (x + 1.5).dtype == bireme.float32
    assert (x + True).dtype == x.dtype


def test_integers_beside_integers_are_known_calls(monkeypatch):
    x = t([0, 1, 2])
    for n in (1, 2):
        (x == n).numpy()
    monkeypatch.setattr(Op, "_operands_and_attrs", None)  # nothing is looked at again
    assert (x == 0).tolist() == [True, False, False]


def test_shapes_that_something_is_reshaped_to_follow_other_sizes():
    w = t([0.5], stop_gradient=False)
    for n in (3, 4, 5, 4, 6, 1, 6, 7):
        x = bireme.ones([n, 2]) * w
        y = (bireme.tanh(x).flatten().unsqueeze(1) * w).squeeze(1)
        assert y.shape == [2 * n]
        y.sum().backward()
        assert w.grad.item() == pytest.approx(2 * n * (np.tanh(0.5) + 0.5 * (1 - np.tanh(0.5) ** 2)), rel=1e-5)
        w.clear_grad()


def test_a_column_of_indices_is_a_vector():
    x = t([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    for index in ([[1]], [[1], [0], [1]], [[0], [0]]):
        found = bireme.index_select(x, t(index))
        assert found.tolist() == [x.tolist()[i] for [i] in index]
        found.sum().backward()
        counts = np.bincount(np.ravel(index), minlength=2)
        assert x.grad.tolist() == [[float(n)] * 2 for n in counts]
        x.clear_grad()
    with pytest.raises(ValueError, match=r"index_select\(index\): expected a 1-D tensor, got shape \[1, 2\]"):
        bireme.index_select(x, t([[0, 1]]))


def test_two_tensors_of_one_value_are_one_leaf():
    """Also where the sum of two others has been met before."""
    (bireme.to_tensor([1.0, 2.0]) + bireme.to_tensor([3.0, 4.0])).numpy()
    x = bireme.to_tensor([5.0, 6.0])
    y = x + x.detach()
    assert len(segment.local.segment.leaves) == 1
    assert y.tolist() == [10.0, 12.0]
