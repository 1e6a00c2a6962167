"""Shapes, joining and storage where no row of the table can say it: functions of any number of tensors, layouts, what
is shared.
"""

import numpy as np
import pytest

import bireme


def tensor(*shape, grad=False):
    n = int(np.prod(shape))
    return bireme.to_tensor(np.arange(1, n + 1, dtype="float32").reshape(shape), stop_gradient=not grad)


VIEWS = {
    "diagonal": (lambda x: x.diagonal(1), lambda a: np.lib.stride_tricks.as_strided(a[0, 1:], (3,), (20,))),
    "unfold": (lambda x: x.unfold(1, 2, 2), lambda a: np.lib.stride_tricks.as_strided(a, (4, 2, 2), (16, 8, 4))),
    "as_strided": (lambda x: x.as_strided([2, 3], [5, 1], 8), lambda a: np.lib.stride_tricks.as_strided(a[0, 2:], (2, 3), (20, 4))),
    "slice": (lambda x: bireme.slice(x, [0, 1], [1, 0], [4, 2]), lambda a: a[1:4, :2]),
    "strided_slice": (lambda x: bireme.strided_slice(x, [0], [3], [0], [-2]), lambda a: a[3:0:-2]),
    "narrow": (lambda x: bireme.narrow(x, 1, 1, 2), lambda a: a[:, 1:3]),
    "moveaxis": (lambda x: bireme.moveaxis(x, 0, 1), lambda a: a.T),
    "swapaxes": (lambda x: x.swapaxes(0, 1), lambda a: a.T),
    "permute": (lambda x: x.permute(1, 0), lambda a: a.T),
    "matrix_transpose": (bireme.matrix_transpose, lambda a: a.T),
    "unflatten": (lambda x: x.unflatten(0, [2, 2]), lambda a: a.reshape(2, 2, 4)),
    "ravel": (bireme.ravel, lambda a: a.reshape(-1)),
    "view": (lambda x: x.view(2, 8), lambda a: a.reshape(2, 8)),
    "view_as": (lambda x: x.view_as(bireme.zeros([16])), lambda a: a.reshape(-1)),
    "atleast_3d": (bireme.atleast_3d, lambda a: a.reshape(4, 4, 1)),
    "rows of columns": (lambda x: x[:, 1:3].reshape([2, 2, 2]), lambda a: np.lib.stride_tricks.as_strided(a[:, 1:], (2, 2, 2), (32, 16, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_storage(name):
    make, by_numpy = VIEWS[name]
    x, a = tensor(4, 4), np.arange(1, 17, dtype="float32").reshape(4, 4)
    v, w = make(x), by_numpy(a)
    np.testing.assert_array_equal(v.numpy(), w)
    v.scale_(10.0)
    w *= 10
    np.testing.assert_array_equal(x.numpy(), a)
    x[0] = -1.0
    a[0] = -1
    np.testing.assert_array_equal(v.numpy(), w)


@pytest.mark.parametrize("name", VIEWS)
def test_views_say_where_their_elements_lie(name):
    make, by_numpy = VIEWS[name]
    x, a = tensor(4, 4), np.arange(1, 17, dtype="float32").reshape(4, 4)
    v, w = make(x), by_numpy(a)
    assert v.strides == v.get_strides() == [n // 4 for n in w.strides]
    assert v.offset == w.__array_interface__["data"][0] - a.__array_interface__["data"][0]
    assert v.is_contiguous() is bool(w.flags.c_contiguous)
    assert v.contiguous().is_contiguous() and (v.contiguous() is v) is v.is_contiguous()


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_through_a_view(name):
    make, by_numpy = VIEWS[name]
    x, a = tensor(4, 4, grad=True), np.zeros((4, 4), "float32")
    make(x).sum().backward()
    by_numpy(a)[...] = 1
    np.testing.assert_array_equal(x.grad.numpy(), a)


def test_what_does_not_lie_in_a_row_is_copied_by_reshape():
    x = tensor(2, 3)
    y = x.T.reshape([6])
    y[0] = 100.0
    assert x[0, 0].item() == 1 and y.tolist() == [100, 4, 2, 5, 3, 6]
    assert x.T.reshape([3, 1, 2]).strides == [1, 6, 3]  # an axis of extent 1 needs no copy
    with pytest.raises(
        ValueError, match=r"view\(x\): expected strides that are compatible with shape \[6\], got strides \[1, 3\]"
    ):
        x.T.view([6])
    leaf = tensor(2, 3, grad=True)
    z = leaf.T.reshape([6])
    z[0] = 5.0  # its own storage, so a leaf does not mind
    z.sum().backward()
    assert leaf.grad.tolist() == [[0, 1, 1], [1, 1, 1]]


def test_overlapping_windows_written_in_part():
    x = bireme.zeros([5])
    x.unfold(0, 3, 1)[1] = 7.0
    assert x.tolist() == [0, 7, 7, 7, 0]
    y = tensor(3, grad=True)
    z = y * 1.0
    z.as_strided([2, 2], [1, 1])[0] = 5.0
    z.sum().backward()
    assert z.tolist() == [5, 5, 3] and y.grad.tolist() == [0, 0, 1]


def test_bytes_as_another_type():
    x = bireme.to_tensor([1.0, -2.0])
    bits = x.view("int32")
    assert bits.tolist() == np.array([1.0, -2.0], "float32").view("int32").tolist()
    bits[0] = 0
    assert x.tolist() == [0.0, -2.0]
    assert bireme.to_tensor([1 + 2j]).view("float32").tolist() == [1.0, 2.0]
    assert x.view(bireme.uint8).shape == [8] and x.view(bireme.uint8).view("float32").tolist() == x.tolist()
    with pytest.raises(ValueError, match=r"view\(x\): expected a last dimension of stride 1"):
        bireme.zeros([2, 4]).T.view("float64")


def test_resize():
    x = tensor(4)
    assert x.resize_([2, 3], fill_zero=True) is x and x.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert x.resize_([2]).tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"resize_\(shape\): expected non-negative sizes, got \[-1\]"):
        x.resize_([-1])
    with pytest.raises(ValueError, match=r"resize_\(x\): expected a non-leaf Tensor"):
        tensor(4, grad=True).resize_([2])


def test_set():
    x, y = tensor(4), tensor(2, 3)
    assert x.set_(y) is x and x.shape == [2, 3]
    x[0, 0] = 50.0
    assert y[0, 0].item() == 50
    assert tensor(1).set_(y, [2], [2], 4).tolist() == [2, 4]
    assert tensor(1).set_(y.T).tolist() == y.T.tolist()
    assert tensor(1).set_().shape == [0]
    with pytest.raises(TypeError, match=r"set_\(source\): expected float32, got int64"):
        x.set_(bireme.to_tensor([1]))
    with pytest.raises(ValueError, match=r"set_\(shape\): expected indices in \[0, 5\] of the storage"):
        x.set_(tensor(6), [7])


def test_at_least_so_many_axes():
    x, y, z = tensor(2), bireme.to_tensor(5.0), tensor(2, 3)
    assert [t.shape for t in bireme.atleast_1d(x, y, z)] == [[2], [1], [2, 3]]
    assert [t.shape for t in bireme.atleast_2d(x, y, z)] == [[1, 2], [1, 1], [2, 3]]
    assert [t.shape for t in bireme.atleast_3d(x, y, z)] == [[1, 2, 1], [1, 1, 1], [2, 3, 1]]
    assert bireme.atleast_1d(x) is x and bireme.atleast_1d([y, 3])[1].tolist() == [3]
    assert (
        bireme.atleast_2d([1, 2]).tolist() == [[1, 2]] and bireme.atleast_1d() == [] and x.atleast_2d().shape == [1, 2]
    )
    with pytest.raises(TypeError, match="expected numbers"):
        bireme.atleast_1d("a")


def test_meshgrid_takes_tensors_or_a_list():
    x, y = tensor(2), tensor(3)
    for made in (
        bireme.meshgrid(x, y),
        bireme.meshgrid([x, y]),
        bireme.meshgrid((x, y), name="n"),
        bireme.meshgrid(x, y, indexing="ij"),
    ):
        for t, a in zip(made, np.meshgrid(x.numpy(), y.numpy(), indexing="ij"), strict=True):
            np.testing.assert_array_equal(t.numpy(), a)
    with pytest.raises(TypeError, match=r"meshgrid\(\): expected vectors, and indexing='ij'"):
        bireme.meshgrid(x, y, indexing="xy")


@pytest.mark.parametrize("shapes", [([2, 1], [3]), ([2, 1], [3], [1, 1, 1]), ([0], [1]), ([2],), ((4, 1), [1, 5], ())])
def test_broadcast_shapes_like_numpy(shapes):
    assert bireme.broadcast_shapes(*shapes) == list(np.broadcast_shapes(*map(tuple, shapes)))
    if len(shapes) == 2:
        assert bireme.broadcast_shape(*shapes) == list(np.broadcast_shapes(*map(tuple, shapes)))


def test_broadcast_shapes_with_unknown_extents():
    assert (
        bireme.broadcast_shape([-1, 1], [3]) == [-1, 3]
        and bireme.broadcast_shape([-1], [3]) == [3]
        and bireme.broadcast_shapes() == []
    )
    with pytest.raises(ValueError, match=r"expected shapes that broadcast together, got shapes \[2\] and \[3\]"):
        bireme.broadcast_shape([2], [3])


def test_check_shape():
    bireme.check_shape([2, bireme.to_tensor(3)], "zeros")
    bireme.check_shape(bireme.to_tensor([2, 3]), "zeros")
    for wrong in (3, "a", [2.5], bireme.to_tensor([1.0]), [bireme.to_tensor(1.0)]):
        with pytest.raises(TypeError, match=r"zeros\(shape\): expected"):
            bireme.check_shape(wrong, "zeros")


def test_extents_may_be_tensors():
    x, n = tensor(2, 3), bireme.to_tensor(3)
    assert (
        x.reshape([n, -1]).shape == [3, 2]
        and x.reshape(bireme.to_tensor([3, 2])).shape == [3, 2]
        and x.reshape([n, 2.0]).shape == [3, 2]
    )
    assert bireme.tile(tensor(2), [n]).shape == [6] and bireme.expand(tensor(1), [n]).shape == [3]
    assert bireme.squeeze(tensor(1, 2), n * 0).shape == [2]
    assert bireme.unsqueeze(tensor(2), [n * 0, 1]).shape == [1, 1, 2] and bireme.broadcast_to(
        tensor(3), [2, n]
    ).shape == [2, 3]


def test_tolist_and_shape():
    assert bireme.tolist(tensor(2)) == [1.0, 2.0] and bireme.shape(tensor(2, 3)).tolist() == [2, 3]
    with pytest.raises(TypeError, match=r"tolist\(x\): expected a Tensor, got"):
        bireme.tolist([1])
