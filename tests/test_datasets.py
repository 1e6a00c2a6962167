"""Datasets of images: small files in the original formats are written and read; damaged and hostile ones are refused."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
import scipy.io
from PIL import Image

import bireme
from bireme.io import DataLoader, archives
from bireme.vision import datasets

VOC = "VOCdevkit/VOC2012/"


def idx(path, magic, shape, data, extra=b""):
    path.write_bytes(gzip.compress(struct.pack(f">{1 + len(shape)}I", magic, *shape) + data + extra))
    return path


def tar(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def text(string):
    """A str of Python 2 in a pickle of protocol 2."""
    return b"U" + bytes([len(string)]) + string


def numbers(labels):
    return b"](" + b"".join(b"K" + bytes([n]) for n in labels) + b"e"


def batch(images, labels, key=b"labels"):
    """What Python 2 wrote: a dict with an array and a list, in protocol 2."""
    n = len(images)
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    kind = (
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    raw = images.tobytes()
    state = b"(K\x01K" + bytes([n]) + b"M\x00\x0c\x86" + kind + b"\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
    return b"\x80\x02}(" + text(b"data") + array + state + text(key) + numbers(labels) + b"u."


def picture(kind, shape=(4, 6, 3)):
    file = io.BytesIO()
    Image.fromarray(np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)).save(file, kind)
    return file.getvalue()


@pytest.fixture
def digits(tmp_path):
    images = np.arange(3 * 784, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28)
    return (
        idx(tmp_path / "images.gz", 2051, images.shape, images.tobytes()),
        idx(tmp_path / "labels.gz", 2049, (3,), bytes([5, 0, 9])),
        images,
    )


@pytest.mark.parametrize("cls", [datasets.MNIST, datasets.FashionMNIST])
def test_digits(digits, cls):
    images, labels, pixels = digits
    found = cls(images, labels, mode="test", backend="cv2", transform=lambda image: image[::-1])
    assert len(found) == 3
    image, label = found[2]
    assert image.dtype == np.float32 and np.array_equal(image, pixels[2, ::-1])
    assert label.dtype == np.int64 and label.tolist() == [9]
    image, _ = cls(images, labels)[1]
    assert image.mode == "L" and np.array_equal(np.asarray(image), pixels[1])
    loaded = [label.tolist() for _, label in DataLoader(found, batch_size=2)]
    assert loaded == [[[5], [0]], [[9]]]


@pytest.mark.parametrize(
    ("shape", "data", "message"),
    [
        ((3, 28, 28), bytes(784), "784 bytes for the shape [3, 28, 28]"),
        ((1, 28, 28), bytes(785), "more bytes for the shape [1, 28, 28]"),
        ((2**32 - 1, 28, 28), bytes(784), "a header that declares the shape [4294967295, 28, 28]"),
        ((1, 0, 28), b"", "a header that declares the shape [1, 0, 28]"),
    ],
)
def test_digits_with_a_wrong_header(tmp_path, digits, shape, data, message):
    path = idx(tmp_path / "wrong.gz", 2051, shape, data)
    with pytest.raises(bireme.errors.FileFormatError) as e:
        datasets.MNIST(path, digits[1])
    assert str(e.value).startswith(f"MNIST(image_path): expected a gzipped IDX file, got {path}: {message}")


@pytest.mark.parametrize(
    "data",
    [b"", b"text", gzip.compress(b"\0\0", mtime=0), gzip.compress(bytes(4000), mtime=0)[:-20]],
    ids=["empty", "text", "short", "cut"],
)
def test_digits_in_damaged_files(tmp_path, digits, data):
    path = tmp_path / "damaged.gz"
    path.write_bytes(data)
    with pytest.raises(bireme.errors.FileFormatError, match=r"^MNIST\(label_path\): expected a gzipped IDX file, got"):
        datasets.MNIST(digits[0], path)


def test_digits_without_labels_for_all(tmp_path, digits):
    labels = idx(tmp_path / "few.gz", 2049, (2,), bytes(2))
    with pytest.raises(
        ValueError, match=r"MNIST\(label_path\): expected a label for each of the 3 images, got 2 labels"
    ):
        datasets.MNIST(digits[0], labels)


@pytest.mark.parametrize(
    ("cls", "argument", "name", "md5"),
    [
        ("MNIST", "image_path", "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("Cifar10", "data_file", "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
        ("Cifar100", "data_file", "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
        ("Flowers", "data_file", "102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
        ("VOC2012", "data_file", "VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd"),
    ],
)
def test_a_missing_file_is_named(tmp_path, monkeypatch, cls, argument, name, md5):
    monkeypatch.setattr(archives, "DATA_HOME", str(tmp_path))
    with pytest.raises(ValueError) as e:
        getattr(datasets, cls)()
    assert str(e.value).startswith(f"{cls}({argument}): expected the file {name}, got {tmp_path}")
    assert f"(md5 {md5}) and pass its path as {argument}" in str(e.value)


def test_files_in_the_cache_are_found(tmp_path, monkeypatch, digits):
    monkeypatch.setattr(archives, "DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "mnist").mkdir(parents=True)
    for path, name in zip(digits, ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"), strict=False):
        path.rename(tmp_path / "home" / "mnist" / name)
    assert len(datasets.MNIST()) == 3


def test_modes_and_backends(digits):
    with pytest.raises(ValueError, match=r"MNIST\(mode\): expected 'train' or 'test', got 'valid'"):
        datasets.MNIST(*digits[:2], mode="valid")
    with pytest.raises(ValueError, match=r"MNIST\(backend\): expected 'pil' or 'cv2', got 'tensor'"):
        datasets.MNIST(*digits[:2], backend="tensor")
    with pytest.raises(ValueError, match=r"VOC2012\(mode\): expected 'train', 'valid' or 'test', got 3"):
        datasets.VOC2012(mode=3)
    with pytest.raises(TypeError, match=r"Cifar10\(data_file\): expected a path, got 3"):
        datasets.Cifar10(3)


def test_cifar(tmp_path):
    rng = np.random.default_rng(0)
    parts = {
        name: rng.integers(0, 256, (2, 3072), dtype=np.uint8) for name in ("data_batch_2", "data_batch_1", "test_batch")
    }
    files = {f"cifar-10-batches-py/{name}": batch(images, [3, 7]) for name, images in parts.items()}
    path = tar(tmp_path / "cifar.tar.gz", {**files, "cifar-10-batches-py/batches.meta": b"not read"})
    found = datasets.Cifar10(path, backend="cv2")
    image, label = found[0]
    assert len(found) == 4 and label.shape == () and label.dtype == np.int64 and label == 3
    assert image.dtype == np.float32
    assert np.array_equal(image, parts["data_batch_1"][0].reshape(3, 32, 32).transpose(1, 2, 0))
    assert datasets.Cifar10(path, mode="test")[1][0].size == (32, 32)
    hundred = tar(
        tmp_path / "hundred.tar.gz", {"cifar-100-python/train": batch(parts["test_batch"], [99, 0], b"fine_labels")}
    )
    assert [int(label) for _, label in datasets.Cifar100(hundred)] == [99, 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02cos\nsystem\nU\x04true\x85R.", "unsupported pickle global 'os.system'"),
        (b"\x80\x02]q\x01.", "a pickle of something else than a dict"),
        (b"\x80\x02}(U\x04data]U\x06labels]u.", "no uint8 array of shape"),
        (batch(np.zeros((2, 3072), np.uint8), [1]), "no list of 2 labels"),
        (batch(np.zeros((2, 3072), np.uint8), [1, 10]), "a label that is no integer in [0, 9]"),
        (batch(np.zeros((2, 3072), np.uint8), [1, 2])[:-40], "it is truncated"),
        (b"", "it is truncated"),
    ],
)
def test_cifar_in_hostile_pickles(tmp_path, data, message):
    path = tar(tmp_path / "hostile.tar.gz", {"cifar-10-batches-py/data_batch_1": data})
    with pytest.raises(bireme.errors.FileFormatError) as e:
        datasets.Cifar10(path)
    assert str(e.value).startswith("Cifar10(data_file): expected batches of CIFAR, got") and message in str(e.value)


def member(name, kind=tarfile.REGTYPE, size=0, link=""):
    found = tarfile.TarInfo(name)
    found.type, found.size, found.linkname = kind, size, link
    return found.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (member("../data_batch_1"), "the name '../data_batch_1', which leads out of it"),
        (member("/etc/data_batch_1"), "the name '/etc/data_batch_1', which leads out of it"),
        (member("data_batch_1", tarfile.SYMTYPE, link="/etc/passwd"), "'data_batch_1', which is neither a file nor a folder"),
        (member("data_batch_1", tarfile.LNKTYPE, link="other"), "'data_batch_1', which is neither a file nor a folder"),
        (member("data_batch_1", size=1 << 40), "'data_batch_1' of 1099511627776 bytes"),
        (member("data_batch_1", tarfile.XHDTYPE, size=1 << 40), "a part of "),
        (member("data_batch_1", size=5000) + bytes(100), "it is "),
        (b"no archive", "it is damaged"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [True, False])
def test_hostile_archives(tmp_path, data, message, packed):
    path = tmp_path / "hostile.tar"
    path.write_bytes(gzip.compress(data, mtime=0) if packed else data)
    with pytest.raises(bireme.errors.FileFormatError) as e:
        datasets.Cifar10(path)
    assert str(e.value).startswith("Cifar10(data_file): expected an archive of plain files, got") and message in str(
        e.value
    )


def flowers(folder, labels=(1, 2, 3), parts=None):
    tar(folder / "flowers.tgz", {f"jpg/image_{i:05d}.jpg": picture("JPEG") for i in (1, 2)})
    scipy.io.savemat(folder / "labels.mat", {"labels": np.array([labels])})
    scipy.io.savemat(folder / "sets.mat", parts or {"tstid": [[2, 1]], "trnid": [[1]], "valid": [[3]]})
    return [folder / name for name in ("flowers.tgz", "labels.mat", "sets.mat")]


def test_flowers(tmp_path):
    files = flowers(tmp_path)
    found = datasets.Flowers(*files)
    image, label = found[0]
    assert len(found) == 2 and image.size == (6, 4) and label.tolist() == [2] and label.dtype == np.int64
    assert len(datasets.Flowers(*files, mode="test")) == 1
    image, _ = datasets.Flowers(*files, backend="cv2")[1]
    assert image.shape == (4, 6, 3) and image.dtype == np.float32
    with pytest.raises(
        bireme.errors.FileFormatError, match=r"Flowers\(data_file\): expected an archive with 'jpg/image_00003.jpg'"
    ):
        datasets.Flowers(*files, mode="valid")[0]


@pytest.mark.parametrize(
    ("labels", "parts", "message"),
    [
        ((1, 2), {"tstid": [[3]]}, "Flowers(setid_file): expected numbers of the 2 images that have labels, got 3"),
        ((1, 2), {"other": [[1]]}, "Flowers(setid_file): expected a MATLAB file with 'tstid', got"),
        ((1, 2), {"tstid": [[0]]}, "Flowers(setid_file): expected positive integers under 'tstid', got"),
        (("a", "b"), {"tstid": [[1]]}, "Flowers(label_file): expected positive integers under 'labels', got"),
    ],
)
def test_flowers_with_wrong_files(tmp_path, labels, parts, message):
    with pytest.raises(bireme.errors.FileFormatError) as e:
        datasets.Flowers(*flowers(tmp_path, labels, parts))
    assert str(e.value).startswith(message)


@pytest.mark.parametrize("data", [b"", b"text", bytes(200)])
def test_flowers_with_damaged_labels(tmp_path, data):
    images, labels, sets = flowers(tmp_path)
    labels.write_bytes(data)
    with pytest.raises(
        bireme.errors.FileFormatError, match=r"Flowers\(label_file\): expected a MATLAB file with 'labels'"
    ):
        datasets.Flowers(images, labels, sets)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_voc(tmp_path, mode):
    files = {
        f"{VOC}ImageSets/Segmentation/{part}.txt": names
        for part, names in (("trainval", b"a\nb\n"), ("train", b"a\n"), ("val", b"b\n"))
    }
    files |= {f"{VOC}JPEGImages/{name}.jpg": picture("JPEG") for name in "ab"}
    files |= {f"{VOC}SegmentationClass/{name}.png": picture("PNG", (4, 6)) for name in "ab"}
    path = tar(tmp_path / "voc.tar", files, mode)
    found = datasets.VOC2012(path, backend="cv2")
    image, label = found[1]
    assert len(found) == 2 and image.shape == (4, 6, 3) and label.tolist() == np.arange(24.0).reshape(4, 6).tolist()
    assert [len(datasets.VOC2012(path, mode=part)) for part in ("valid", "test")] == [1, 1]
    assert datasets.VOC2012(path, mode="valid")[0][1].size == (6, 4)
    assert len(list(DataLoader(found, batch_size=1, num_workers=2))) == 2


def test_voc_with_a_damaged_image(tmp_path):
    files = {
        f"{VOC}ImageSets/Segmentation/trainval.txt": b"a",
        f"{VOC}JPEGImages/a.jpg": b"none",
        f"{VOC}SegmentationClass/a.png": b"",
    }
    with pytest.raises(
        bireme.errors.FileFormatError, match=r"VOC2012\(data_file\): expected an archive of images, got"
    ):
        datasets.VOC2012(tar(tmp_path / "voc.tar", files, "w"))[0]


@pytest.fixture
def folder(tmp_path):
    for name in ("dog/2.png", "dog/deep/1.JPG", "cat/3.png", "cat/none.txt", "top.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture("PNG"))
    return tmp_path


def test_folders(folder):
    found = datasets.DatasetFolder(folder)
    assert found.classes == ["cat", "dog"] and found.class_to_idx == {"cat": 0, "dog": 1} and found.targets == [0, 1, 1]
    image, target = found[1]
    assert image.mode == "RGB" and target == 1
    images = datasets.ImageFolder(folder, transform=np.asarray)
    assert len(images) == 4 and images[0][0].shape == (4, 6, 3)
    assert len(datasets.ImageFolder(folder, is_valid_file=lambda path: path.endswith(".txt"))) == 1
    assert len(datasets.DatasetFolder(folder, extensions=[".JPG"])) == 1


@pytest.mark.parametrize("cls", [datasets.DatasetFolder, datasets.ImageFolder])
def test_folders_with_wrong_arguments(folder, cls):
    name = cls.__name__
    with pytest.raises(FileNotFoundError, match=rf"{name}\(root\): expected a folder, got"):
        cls(folder / "none")
    with pytest.raises(TypeError, match=rf"{name}\(root\): expected a path, got 3"):
        cls(3)
    with pytest.raises(RuntimeError, match=rf"{name}\(root\): expected a folder .*that end in \.gif"):
        cls(folder, extensions=[".gif"])
    with pytest.raises(ValueError, match=rf"{name}\(is_valid_file\): expected None, since extensions are given"):
        cls(folder, extensions=[".png"], is_valid_file=bool)
    with pytest.raises(TypeError, match=rf"{name}\(extensions\): expected a list of endings, got '.png'"):
        cls(folder, extensions=".png")
