"""Shared storage: what is a view in Paddle sees writes through every other handle, with gradients."""

import gc
import weakref

import numpy as np
import pytest

import bireme


def tensor(*shape, grad=False):
    n = int(np.prod(shape))
    return bireme.to_tensor(np.arange(1, n + 1, dtype="float32").reshape(shape), stop_gradient=not grad)


VIEWS = {
    "slice": (lambda x: x[1:3], lambda a: a[1:3]),
    "row": (lambda x: x[1], lambda a: a[1]),
    "column": (lambda x: x[:, 1], lambda a: a[:, 1]),
    "step": (lambda x: x[::2], lambda a: a[::2]),
    "negative step": (lambda x: x[::-1], lambda a: a[::-1]),
    "negative step of 2": (lambda x: x[::-2, 1:], lambda a: a[::-2, 1:]),
    "new axis": (lambda x: x[None], lambda a: a[None]),
    "ellipsis": (lambda x: x[..., 1:3], lambda a: a[..., 1:3]),
    "all": (lambda x: x[:], lambda a: a[:]),
    "reshape": (lambda x: x.reshape([2, 8]), lambda a: a.reshape(2, 8)),
    "reshape -1": (lambda x: x.reshape([-1]), lambda a: a.reshape(-1)),
    "transpose": (lambda x: x.transpose([1, 0]), lambda a: a.T),
    "T": (lambda x: x.T, lambda a: a.T),
    "t": (lambda x: x.t(), lambda a: a.T),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), lambda a: a),
    "flatten": (lambda x: x.flatten(), lambda a: a.reshape(-1)),
    "detach": (lambda x: x.detach(), lambda a: a),
    "data": (lambda x: x.data, lambda a: a),
    "unbind": (lambda x: bireme.unbind(x)[1], lambda a: a[1]),
    "view of a view": (lambda x: x[1:][:, 1:3].T, lambda a: a[1:][:, 1:3].T),
    "four deep": (lambda x: x.T[1:].unsqueeze(0)[0, ::-1].flatten()[2:9].reshape([7]), None),
}
BY_NUMPY = [name for name in VIEWS if VIEWS[name][1] is not None]


@pytest.mark.parametrize("name", BY_NUMPY)
def test_a_write_through_a_view_is_seen_by_the_root(name):
    make, by_numpy = VIEWS[name]
    x, a = tensor(4, 4), np.arange(1, 17, dtype="float32").reshape(4, 4)
    v, w = make(x), by_numpy(a)
    np.testing.assert_array_equal(v.numpy(), w)
    v.scale_(10.0)
    w *= 10
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(v.numpy(), w)


@pytest.mark.parametrize("name", BY_NUMPY)
def test_a_write_to_the_root_is_seen_by_the_view(name):
    make, by_numpy = VIEWS[name]
    x, a = tensor(4, 4), np.arange(1, 17, dtype="float32").reshape(4, 4)
    v, w = make(x), by_numpy(a)
    x.add_(bireme.to_tensor(100.0))
    a += 100
    np.testing.assert_array_equal(v.numpy(), w)
    x[2] = -1.0
    a[2] = -1
    np.testing.assert_array_equal(v.numpy(), w)
    np.testing.assert_array_equal((v * 2.0).numpy(), w * 2)


@pytest.mark.parametrize("name", BY_NUMPY)
def test_an_item_written_through_a_view(name):
    make, by_numpy = VIEWS[name]
    x, a = tensor(4, 4), np.arange(1, 17, dtype="float32").reshape(4, 4)
    v, w = make(x), by_numpy(a)
    v[-1] = 7.0
    w[-1] = 7
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.parametrize("name", [n for n in BY_NUMPY if n not in ("detach", "data")])
def test_gradients_through_a_written_view(name):
    make, by_numpy = VIEWS[name]
    x = tensor(4, 4, grad=True)
    h = x * 2.0
    make(h).scale_(10.0)
    h.sum().backward()
    want = np.full((4, 4), 2.0)
    part = by_numpy(want)
    part *= 10
    np.testing.assert_array_equal(x.grad.numpy(), want)


def test_the_gradient_that_paddle_has_wrong():
    x = bireme.to_tensor([1.0, 2.0, 3.0, 4.0], stop_gradient=False)
    h = x * 2.0
    v = h[0:2]
    v.scale_(10.0)
    h.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0, 2.0, 2.0]


def test_a_view_of_a_view_writes_to_the_root():
    x = tensor(4, 4)
    inner = x[1:].T[1:3]
    inner.fill_(0.0) if hasattr(inner, "fill_") else inner.scale_(0.0)
    want = np.arange(1, 17, dtype="float32").reshape(4, 4)
    want[1:].T[1:3] = 0
    np.testing.assert_array_equal(x.numpy(), want)


def test_sibling_views_see_each_other():
    x = tensor(4, 4)
    a, b, c = x[0], x[:, 0], x.flatten()
    a[0] = 50.0
    assert b.numpy()[0] == 50
    b.scale_(2.0)
    assert a.numpy()[0] == 100
    assert c.numpy()[4] == 10


def test_a_stale_view_in_an_operator():
    x = tensor(3)
    v = x[1:]
    x.scale_(3.0)
    assert (v + 1.0).tolist() == [7.0, 10.0]
    assert bireme.concat([v, x]).tolist() == [6.0, 9.0, 3.0, 6.0, 9.0]


def test_copies_do_not_share():
    x = tensor(4, 4)
    copies = [
        x.clone(),
        bireme.assign(x),
        x.astype("float64"),
        x + 0.0,
        x[[0, 1]],
        x[x > 0],
        x.expand([2, 4, 4]),
        bireme.concat([x]),
    ]
    before = [c.numpy() for c in copies]
    x.scale_(0.0)
    for c, b in zip(copies, before, strict=True):
        np.testing.assert_array_equal(c.numpy(), b)
        assert b.max() > 0
    for c in copies[:4]:
        c.scale_(5.0)
    assert x.numpy().max() == 0


def evaluated(layer):
    layer.eval()
    return layer


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: bireme.nn.functional.dropout(x, 0.5, training=False),
        lambda x: evaluated(bireme.nn.Dropout(0.5))(x),
        lambda x: bireme.nn.functional.pixel_shuffle(x, 1),
        lambda x: bireme.nn.functional.pixel_unshuffle(x, 1),
    ],
    ids=["dropout", "Dropout", "pixel_shuffle", "pixel_unshuffle"],
)
def test_what_changes_nothing_gives_a_tensor_of_its_own(make, grad):
    x = bireme.ones([1, 2, 1, 2])
    x.stop_gradient = not grad
    h = make(x)
    assert h is not x and h.stop_gradient is not grad and (not grad or not h.is_leaf)
    if grad:
        h.register_hook(lambda g: g * 10.0)
        (h.sum() + (x * x).sum()).backward()
        assert x.grad.numpy().ravel().tolist() == [12.0] * 4
    h.zero_()
    assert x.numpy().ravel().tolist() == [1.0] * 4


def test_split_copies():
    x = tensor(4)
    a, _ = bireme.split(x, 2)
    x.scale_(0.0)
    assert a.tolist() == [1.0, 2.0]


def test_a_lone_view_frees_its_root():
    x = bireme.ones([256, 256]) * 2.0
    x.numpy()
    v = x[0]
    root = weakref.ref(x._value)
    del x
    v.numpy()
    gc.collect()
    assert root() is None
    v.scale_(3.0)
    assert v.numpy().max() == 6.0


def test_a_root_outlives_its_views():
    x = tensor(4)
    for _ in range(50):
        x[1:].scale_(1.0)
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_reshape_in_place_keeps_sharing():
    x = tensor(4)
    v = x[1:3]
    x.reshape_([2, 2])
    assert x.shape == [2, 2]
    x.scale_(2.0)
    assert v.tolist() == [4.0, 6.0]
    v.scale_(10.0)
    assert x.tolist() == [[2.0, 40.0], [60.0, 8.0]]


def test_squeeze_and_unsqueeze_in_place():
    x = tensor(1, 3)
    assert x.squeeze_(0).shape == [3]
    assert x.unsqueeze_(-1).shape == [3, 1]
    assert x.numpy().ravel().tolist() == [1.0, 2.0, 3.0]


def test_detach_shares_numbers_and_no_history():
    x = tensor(3, grad=True)
    h = x * 2.0
    d = h.detach()
    assert d.stop_gradient
    d.scale_(5.0)
    assert h.tolist() == [10.0, 20.0, 30.0]
    h.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


# ---------------------------------------------------------------- versions


def test_versions_count_in_place_operators():
    x = tensor(3)
    assert x.inplace_version == 0
    x.scale_(2.0)
    x[0] = 1.0
    assert x.inplace_version == 2
    v = x[1:]
    v.scale_(2.0)
    assert x.inplace_version == v.inplace_version == 3


def test_set_value_and_optimizers_do_not_count():
    p = bireme.Parameter([1.0, 2.0])
    p.set_value([3.0, 4.0])
    (p * 2.0).sum().backward()
    rule = bireme.optimizer.SGD(0.1, parameters=[p])
    rule.step()
    assert p.inplace_version == 0


def test_backward_refuses_a_value_changed_since():
    x = tensor(3, grad=True)
    h = x * 2.0
    y = h * h
    h.scale_(3.0)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()


def test_backward_does_not_mind_what_the_rule_does_not_read():
    x = tensor(3, grad=True)
    h = x * 2.0
    y = h + 1.0
    h.scale_(3.0)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_leaf_that_requires_gradients_cannot_be_changed():
    x = tensor(3, grad=True)
    with pytest.raises((ValueError, RuntimeError), match="leaf"):
        x.scale_(2.0)
    with bireme.no_grad():
        x.scale_(2.0)
    assert x.tolist() == [2.0, 4.0, 6.0]


# ---------------------------------------------------------------- reading and writing against NumPy


def random_index(rng, shape):
    """An index of any kind for an array of this shape."""
    kind = rng.integers(0, 10)
    if kind == 9:
        return rng.random(shape) < 0.5
    if kind == 8:
        return rng.random(shape[:1]) < 0.5
    items, picked = [], kind == 7
    for n in shape[: rng.integers(1, len(shape) + 1)]:
        k = rng.integers(0, 5)
        if k == 0:
            items.append(int(rng.integers(-n, n)))
        elif k == 1 and not picked:
            items.append(None)
            items.append(slice(None))
        elif k == 2 and picked:
            items.append(rng.integers(-n, n, 2))
            picked = False  # one index array: where several go is a table of its own
        else:
            start, stop = (None if rng.random() < 0.3 else int(rng.integers(-n - 1, n + 2)) for _ in range(2))
            items.append(slice(start, stop, [None, 1, 2, -1, -2][rng.integers(0, 5)]))
    if rng.random() < 0.2 and len([i for i in items if i is not None]) < len(shape):
        items.append(Ellipsis)
    return tuple(items)


def for_bireme(index):
    if isinstance(index, np.ndarray):
        return bireme.to_tensor(index)
    return tuple(bireme.to_tensor(i) if isinstance(i, np.ndarray) else i for i in index)


def mixed(index):
    """An integer beside an index array is advanced in NumPy and moves axes: it has tests of its own."""
    return (
        isinstance(index, tuple)
        and any(isinstance(i, np.ndarray) for i in index)
        and any(isinstance(i, int) for i in index)
    )


SHAPES = [(5,), (4, 3), (2, 3, 4), (3, 1, 5)]


@pytest.mark.parametrize("seed", range(8))
def test_reading_like_numpy(seed):
    rng, compared = np.random.default_rng(seed), 0
    for _ in range(25):
        shape = SHAPES[rng.integers(0, len(SHAPES))]
        index = random_index(rng, shape)
        if mixed(index):
            continue
        a = rng.standard_normal(shape).astype("float32")
        got = bireme.to_tensor(a)[for_bireme(index)]
        np.testing.assert_array_equal(got.numpy(), a[index], err_msg=f"{shape} {index}")
        compared += 1
    assert compared > 12


@pytest.mark.parametrize("seed", range(8))
def test_writing_like_numpy(seed):
    rng, compared = np.random.default_rng(100 + seed), 0
    for _ in range(25):
        shape = SHAPES[rng.integers(0, len(SHAPES))]
        index = random_index(rng, shape)
        if mixed(index):
            continue
        a = rng.standard_normal(shape).astype("float32")
        part = a[index]
        if rng.random() < 0.5 or isinstance(index, np.ndarray) or part.size == 0:
            value = float(rng.standard_normal())
        else:
            value = rng.standard_normal(part.shape).astype("float32")
            if any(isinstance(i, np.ndarray) for i in index):
                value = value[..., :1] if value.ndim else value
        x = bireme.to_tensor(a)
        view = x[0]
        x[for_bireme(index)] = bireme.to_tensor(value) if isinstance(value, np.ndarray) else value
        if any(isinstance(i, np.ndarray) for i in index) and isinstance(value, np.ndarray):
            continue  # an index that repeats leaves open which element stays
        a[index] = value
        np.testing.assert_array_equal(x.numpy(), a, err_msg=f"{shape} {index} {value}")
        np.testing.assert_array_equal(view.numpy(), a[0], err_msg=f"{shape} {index} {value}")
        compared += 1
    assert compared > 12


@pytest.mark.parametrize("seed", range(6))
def test_gradients_of_reading_and_writing(seed):
    rng, compared = np.random.default_rng(200 + seed), 0
    for _ in range(6):
        shape = SHAPES[rng.integers(0, len(SHAPES))]
        index = random_index(rng, shape)
        if mixed(index):
            continue
        a = rng.standard_normal(shape)
        weights = rng.standard_normal(shape)

        def loss(host, index=index, weights=weights):
            """sum(weights * h) where h is 3 a with a part multiplied by itself."""
            h = 3 * host
            h[index] = h[index] * h[index]
            return (weights * h).sum()

        x = bireme.to_tensor(a, stop_gradient=False)
        h = x * 3.0
        key = for_bireme(index)
        h[key] = h[key] * h[key]
        (h * bireme.to_tensor(weights)).sum().backward()
        want = np.zeros(shape)
        for place in np.ndindex(shape):
            up, down = a.copy(), a.copy()
            up[place] += 1e-6
            down[place] -= 1e-6
            want[place] = (loss(up) - loss(down)) / 2e-6
        np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4, atol=1e-5, err_msg=f"{shape} {index}")
        compared += 1
    assert compared > 2


@pytest.mark.parametrize(
    "index",
    [
        (0, [0, 2]), ([0, 2], 0), ([0, 1], [1, 2]), ([[0, 1], [2, 0]], [1, 0]), (slice(None), [2, 0]), (None, [0, 1]),
        ([0, 1], slice(1, 3)), (Ellipsis, [0, 1]), ([-1, 0], -1),
    ],
    ids=str,
)  # fmt: skip
def test_index_arrays_like_numpy(index):
    a = np.arange(12, dtype="float32").reshape(3, 4)
    found = tuple(np.array(i) if isinstance(i, list) else i for i in index)
    np.testing.assert_array_equal(bireme.to_tensor(a)[index].numpy(), a[found])
    x = bireme.to_tensor(a)
    x[index] = 50.0
    a[found] = 50
    np.testing.assert_array_equal(x.numpy(), a)


class TestViewsOfLeaves:
    """Gradients of a view that is held while its leaf changes go to the leaf."""

    def test_after_set_value(self):
        lin = bireme.nn.Linear(2, 2)
        turned = lin.weight.T
        lin.weight.set_value(np.ones((2, 2), np.float32))
        (bireme.ones([1, 2]) @ turned).sum().backward()
        assert lin.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]

    def test_after_a_step(self):
        w = bireme.Parameter(np.ones((2, 2), np.float32))
        row, opt = w[0], bireme.optimizer.SGD(0.5, parameters=[w])
        w.sum().backward()
        opt.step()
        opt.clear_grad()
        (row * 3).sum().backward()
        assert row.tolist() == [0.5, 0.5] and w.grad.tolist() == [[3.0, 3.0], [0.0, 0.0]]

    def test_an_in_place_operator_on_it_changes_the_leaf_and_only_the_view_has_history(self):
        w = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        row = w[0]
        row.multiply_(bireme.to_tensor([3.0, 5.0]))
        assert w.tolist() == [[3.0, 10.0], [3.0, 4.0]] and w.is_leaf and not row.is_leaf and w.inplace_version == 1
        row.sum().backward()
        assert w.grad.tolist() == [[3.0, 5.0], [0.0, 0.0]]
        w.clear_grad()
        (w * w).sum().backward()
        assert w.grad.tolist() == [[6.0, 20.0], [6.0, 8.0]]

    def test_a_write_into_another_view_leaves_its_history(self):
        w = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        first, second = w[0], w[1]
        first.scale_(2.0)
        part = first[0:1]
        second.scale_(3.0)
        assert w.tolist() == [[2.0, 4.0], [9.0, 12.0]]
        ((first * second).sum() + part.sum()).backward()
        assert w.grad.tolist() == [[20.0, 24.0], [6.0, 12.0]]

    def test_an_in_place_operator_on_it_without_gradients(self):
        w = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        row = w[0]
        with bireme.no_grad():
            row.add_(bireme.ones([2]))
        (w * w).sum().backward()
        assert w.is_leaf and w.grad.tolist() == [[4.0, 6.0], [6.0, 8.0]]


@pytest.mark.parametrize("dtype", ["int16", "int8", "float32", "float16", "bfloat16"])
def test_half_precision_is_viewed_by_its_own_bytes(dtype):
    x = np.array([[1.5, -2.25, 3.0, 0.125]], np.float16)
    seen = bireme.view(bireme.to_tensor(x), dtype)
    assert seen.shape == [1, 8 // seen.itemsize]
    assert seen.numpy().tobytes() == x.tobytes()


def test_under_no_grad_a_tensor_stays_one_that_wants_gradients():
    x = bireme.ones([3, 3])
    x.stop_gradient = False
    with bireme.no_grad():
        x.cumsum_()  # takes another shape
    assert x.shape == [9] and not x.stop_gradient
    y = bireme.ones([2])
    y.set_()
    assert y.inplace_version == 1


@pytest.mark.parametrize("how", ["reshape_", "unsqueeze_", "flatten_", "transpose_"])
def test_a_view_of_a_leaf_that_takes_another_shape_in_place(how):
    numbers = np.arange(16, dtype="float32").reshape(4, 4)
    x = bireme.to_tensor(numbers, stop_gradient=False)
    v = x[2:]
    with bireme.no_grad():
        getattr(x, how)(*{"reshape_": ([8, 2],), "unsqueeze_": (0,), "transpose_": ([1, 0],)}.get(how, ()))
        x.scale_(10.0)
    np.testing.assert_array_equal(v.numpy(), numbers[2:] * 10)
    with bireme.no_grad():
        v.zero_()
    now = np.where(np.arange(4)[:, None] < 2, numbers * 10, 0)
    np.testing.assert_array_equal(x.numpy(), now.T if how == "transpose_" else now.reshape(x.shape))


@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
@pytest.mark.parametrize("how", ["reshape_", "transpose_"])
def test_gradients_of_a_view_of_such_a_leaf_reach_it(how, shape):
    numbers = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    x = bireme.to_tensor(numbers, stop_gradient=False)
    v = x[1:]
    with bireme.no_grad():
        getattr(x, how)([1, 0] if how == "transpose_" else [-1])
        x.scale_(10.0)
    (v * v).sum().backward()
    want = np.where(np.arange(shape[0])[:, None] < 1, 0, numbers * 20)
    np.testing.assert_array_equal(x.grad.numpy(), want.T if how == "transpose_" else want.ravel())


def test_a_root_that_is_a_leaf_only_now_is_read():
    x = bireme.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
    v = x[1:]
    x.reshape_([3, 2])
    x.stop_gradient = False
    with bireme.no_grad():
        v.zero_()
    assert x.numpy().tolist() == [[0, 1], [2, 0], [0, 0]]
