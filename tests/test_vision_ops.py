"""Detection: what no row says of one operator: many boxes, boxes far away, layers, images from bytes."""

import io

import numpy as np
import pytest
from PIL import Image

import bireme
from bireme.core.graph import executor
from bireme.core.numpy_exec import sparsetools
from bireme.ops.vision import regions_numpy
from bireme.vision import ops


def _greedy(boxes, threshold):
    """Box by box, in float32: the ratio of areas decides."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    gone, kept = np.zeros(len(boxes), bool), []
    for i, box in enumerate(boxes):
        if gone[i]:
            continue
        kept.append(i)
        size = np.maximum(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0)
        shared = size[:, 0] * size[:, 1]
        with np.errstate(all="ignore"):
            gone |= shared / (area[i] + area - shared) > np.float32(threshold)
    return kept


@pytest.mark.parametrize("size", [20, 150, 600])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_many_boxes(size, threshold):
    """More than are settled at a time; some of them equal, some of no area, some inside out."""
    rng = np.random.default_rng(size)
    low = rng.integers(0, 1000, (1500, 2))
    boxes = np.concatenate([low, low + rng.integers(-2, size, (1500, 2))], axis=1).astype(np.float32)
    boxes[700:800] = boxes[:100]
    assert ops.nms(bireme.to_tensor(boxes), threshold).tolist() == _greedy(boxes, threshold)


@pytest.mark.parametrize("spread", [1, 40])
def test_many_boxes_of_many_categories(spread):
    """Small categories are settled together, one that is larger than what is settled at a time alone, one with a NaN
    too.
    """
    rng = np.random.default_rng(spread)
    n = 1200
    low = rng.uniform(0, 300, (n, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 80, (n, 2))], axis=1).astype(np.float32)
    category = np.where(rng.uniform(size=n) < 0.5, 0, rng.integers(1, 1 + spread, n))
    scores = rng.permutation(n).astype(np.float32)
    for broken in (False, True):
        if broken:
            boxes[7] = np.nan
        order = np.argsort(-scores)
        wanted = []
        for c in range(1 + spread):
            own = order[category[order] == c]
            wanted += own[_greedy(boxes[own], 0.4)].tolist()
        arguments = [bireme.to_tensor(t) for t in (scores, category)]
        found = ops.nms(bireme.to_tensor(boxes), 0.4, *arguments, list(range(1 + spread)))
        assert found.tolist() == sorted(wanted, key=lambda i: -scores[i])
        some = ops.nms(bireme.to_tensor(boxes), 0.4, *arguments, [0], 5)
        assert some.tolist() == [i for i in found.tolist() if category[i] == 0][:5]


def _regions():
    """Feature maps with equal values, and regions: small, large, empty, outside, without numbers."""
    rng = np.random.default_rng(3)
    x = np.round(rng.standard_normal((2, 8, 9, 11)), 1).astype(np.float32)
    low = rng.uniform(-4, 10, (40, 2))
    boxes = np.concatenate([low, low + rng.exponential(4, (40, 2))], axis=1)
    boxes[5], boxes[6], boxes[7], boxes[8] = [np.nan] * 4, [1e9] * 4, [-1e9, -1e9, 1e9, 1e9], [3, 3, 3, 3]
    return x, boxes.astype(np.float32), np.array([15, 25], np.int32)


POOLS = {
    "roi_align": lambda *args: ops.roi_align(*args, (3, 2), 0.7),
    "roi_align, two samples": lambda *args: ops.roi_align(*args, 3, 0.7, 2, False),
    "roi_pool": lambda *args: ops.roi_pool(*args, (3, 2), 0.7),
    "psroi_pool": lambda *args: ops.psroi_pool(*args, (2, 2), 0.7),
}


def _pooled(pool, x, *rest):
    t = bireme.to_tensor(x, stop_gradient=False)
    out = pool(t, *map(bireme.to_tensor, rest))
    (out * out).sum().backward()
    return out.numpy(), t.grad.numpy()


@pytest.mark.parametrize("name", POOLS)
def test_regions_in_small_parts(name, monkeypatch):
    """The same numbers however regions are put together, and without SciPy's loops; rows compare them with references."""
    with bireme.debug.use_executor("interpreter"):
        wanted, found = _pooled(POOLS[name], *_regions()), []
        for setting, value in (("ENTRIES", 8), ("ELEMENTS", 16), ("ALIKE", 1), ("SHARED", 1)):
            monkeypatch.setattr(regions_numpy, setting, value)
        found.append(_pooled(POOLS[name], *_regions()))
        monkeypatch.setattr(sparsetools, "loop", lambda name: None)
        found.append(_pooled(POOLS[name], *_regions()))
    for got in found:
        np.testing.assert_allclose(got[0], wanted[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[1], wanted[1], rtol=1e-4, atol=1e-4)


def test_a_number_that_is_none_stays_where_it_is():
    """Pixels without weight are not read: one that is no number is no neighbour's matter."""
    x = np.zeros((1, 1, 6, 6), np.float32)
    x[0, 0, 0, 0] = np.nan
    boxes = bireme.to_tensor(np.array([[2.0, 2.0, 5.0, 5.0], [50.0, 50.0, 60.0, 60.0]], np.float32))
    with bireme.debug.use_executor("interpreter"):
        found = ops.roi_align(bireme.to_tensor(x), boxes, bireme.to_tensor(np.array([2], np.int32)), 2)
        assert not np.isnan(found.numpy()).any()


def test_a_negative_threshold_leaves_one_box():
    boxes = bireme.to_tensor([[0.0, 0.0, 1.0, 1.0], [5.0, 5.0, 6.0, 6.0], [9.0, 9.0, 8.0, 8.0]])
    assert ops.nms(boxes, -1.0).tolist() == [0]


@pytest.mark.parametrize("by", ["interpreter", "xla"])
@pytest.mark.parametrize("pool", [ops.roi_align, ops.roi_pool, ops.psroi_pool])
def test_boxes_far_away(by, pool):
    """Boxes larger than any image, inside out or of no number are pooled in as many steps as there are pixels."""
    x = bireme.ones([1, 4, 5, 6])
    far = [
        [-1e9, -1e9, 1e9, 1e9],
        [4.0, 4.0, 1.0, 1.0],
        [np.nan] * 4,
        [1e30, 1e30, 2e30, 2e30],
        [-np.inf, 0.0, np.inf, 5.0],
    ]
    with executor.use(by):
        out = pool(x, bireme.to_tensor(np.array(far, np.float32)), bireme.to_tensor([5]), 2).numpy()
    assert out.shape[0] == 5
    assert np.isfinite(out[:2]).all() and out[:2].min() >= 0 and out[:2].max() < 1.00001


def test_edges_of_bins_are_the_same_in_each_tier():
    """A region of 7 pixels in 3 bins ends at a pixel; with a reciprocal of 3 it would reach the next one."""
    x = bireme.arange(100.0).reshape([1, 1, 10, 10])
    boxes = bireme.to_tensor([[0.0, 0.0, 6.0, 6.0]])
    found = []
    for by in ("interpreter", "xla"):
        with executor.use(by):
            found.append(ops.roi_pool(x, boxes, bireme.to_tensor([1]), 3).numpy()[0, 0, 2].tolist())
    assert found == [[62.0, 64.0, 66.0]] * 2


def test_layers():
    x, boxes, number = bireme.rand([1, 8, 6, 6]), bireme.to_tensor([[0.0, 0.0, 4.0, 4.0]]), bireme.to_tensor([1])
    for layer, function in (
        (ops.RoIAlign, ops.roi_align),
        (ops.RoIPool, ops.roi_pool),
        (ops.PSRoIPool, ops.psroi_pool),
    ):
        assert np.array_equal(layer(2, 0.5)(x, boxes, number).numpy(), function(x, boxes, number, 2, 0.5).numpy())
        with pytest.raises(ValueError, match=rf"{layer.__name__}\(output_size\): expected positive integers, got 0"):
            layer(0)
    aligned = ops.RoIAlign(2)(x, boxes, number, aligned=False).numpy()
    assert np.array_equal(aligned, ops.roi_align(x, boxes, number, 2, aligned=False).numpy())
    assert repr(ops.RoIPool((2, 3), 0.25)) == "RoIPool(output_size=(2, 3), spatial_scale=0.25)"


def test_deformable_layer():
    layer = ops.DeformConv2D(4, 6, [3, 3], padding=1, groups=2, deformable_groups=2)
    assert layer.weight.shape == [6, 2, 3, 3] and layer.bias.shape == [6]
    x, offset, mask = bireme.rand([2, 4, 5, 5]), bireme.zeros([2, 36, 5, 5]), bireme.ones([2, 18, 5, 5])
    plain = bireme.nn.functional.conv2d(x, layer.weight, layer.bias, padding=1, groups=2)
    assert np.allclose(layer(x, offset, mask).numpy(), plain.numpy(), atol=1e-5)
    layer(x, offset).sum().backward()
    assert layer.weight.grad is not None
    assert ops.DeformConv2D(4, 6, 3, bias_attr=False).bias is None
    with pytest.raises(ValueError, match=r"DeformConv2D\(in_channels\): expected a multiple of groups = 3, got 4"):
        ops.DeformConv2D(4, 6, 3, groups=3)


def test_images_from_bytes(tmp_path):
    path = tmp_path / "image.jpg"
    Image.fromarray(np.full((6, 8, 3), [200, 50, 50], np.uint8)).save(path)
    data = ops.read_file(str(path))
    assert data.dtype is bireme.uint8 and data.shape == [path.stat().st_size]
    assert [ops.decode_jpeg(data, mode).shape for mode in ("unchanged", "gray", "rgb")] == [
        [3, 6, 8],
        [1, 6, 8],
        [3, 6, 8],
    ]
    with Image.open(path) as img:
        assert np.array_equal(ops.decode_jpeg(data).numpy(), np.asarray(img).transpose(2, 0, 1))


def test_no_images_in_bytes(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"read_file\(filename\): expected a file that can be read, got"):
        ops.read_file(tmp_path / "none")
    with pytest.raises(TypeError, match=r"read_file\(filename\): expected a path, got 3"):
        ops.read_file(3)
    png = io.BytesIO()
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(png, "PNG")
    for data in (b"", b"text", png.getvalue()):
        x = bireme.to_tensor(np.frombuffer(data, np.uint8))
        with pytest.raises(
            bireme.errors.FileFormatError, match=r"decode_jpeg\(x\): expected the bytes of a JPEG file, got"
        ):
            ops.decode_jpeg(x)
    with pytest.raises(
        TypeError, match=r"decode_jpeg\(x\): expected uint8 of one dimension, got float32 of shape \[2\]"
    ):
        ops.decode_jpeg(bireme.zeros([2]))
    with pytest.raises(ValueError, match=r"decode_jpeg\(mode\): expected 'unchanged', 'gray' or 'rgb', got 'cmyk'"):
        ops.decode_jpeg(bireme.zeros([2], "uint8"), "cmyk")
