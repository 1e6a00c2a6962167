"""MNIST and Fashion-MNIST, from gzipped files in the IDX format."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.defaults import get_default_dtype
from bireme.io import Dataset
from bireme.io.archives import located, mode_of
from bireme.vision.datasets.images import backend_of
from bireme.vision.image import get_image_backend, pillow

_MOST = 1 << 30  # bytes that a header may declare


def _idx(where: str, path: str, magic: int, axes: int) -> np.ndarray:
    """The bytes of an IDX file, in the shape that its header declares."""
    try:
        with gzip.open(path, "rb") as file:
            header = file.read(4 + 4 * axes)
            if len(header) < 4 + 4 * axes or int.from_bytes(header[:4], "big") != magic:
                raise FileFormatError(f"a file that does not begin with {magic} and {axes} sizes")
            shape = tuple(np.frombuffer(header, ">u4", axes, 4).tolist())
            size = math.prod(shape)
            if size > _MOST or 0 in shape[1:]:
                raise FileFormatError(f"a header that declares the shape {list(shape)}")
            data = file.read(size + 1)
    except (OSError, EOFError, zlib.error, FileFormatError) as e:
        described = f"{path}: {e}"
        raise errors.bad(where, "a gzipped IDX file", described=described, kind=FileFormatError) from None
    if len(data) != size:
        described = f"{path}: {'more' if len(data) > size else len(data)} bytes for the shape {list(shape)}"
        raise errors.bad(where, "a gzipped IDX file", described=described, kind=FileFormatError)
    return np.frombuffer(data, np.uint8).reshape(shape)


class MNIST(Dataset):
    """Handwritten digits: images of 28 x 28 pixels with labels 0 to 9.

    Args:
        image_path: File of the images, gzipped IDX. Default: None, the file in ``~/.cache/bireme/dataset/mnist``.
        label_path: File of the labels, gzipped IDX. Default: None, the file in ``~/.cache/bireme/dataset/mnist``.
        mode: ``'train'`` or ``'test'``: which of the files to look for. Default: ``'train'``.
        transform: Function that is applied to each image. Default: None.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.
        backend: ``'pil'`` for images of Pillow, or ``'cv2'`` for arrays of the default dtype. Default: None, that of
            ``bireme.vision.set_image_backend``.

    Examples:
        >>> import gzip, pathlib, struct, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> images, labels = folder / "images.gz", folder / "labels.gz"
        >>> _ = images.write_bytes(gzip.compress(struct.pack(">4I", 2051, 2, 28, 28) + bytes(2 * 784)))
        >>> _ = labels.write_bytes(gzip.compress(struct.pack(">2I", 2049, 2) + bytes([7, 3])))
        >>> digits = bireme.vision.datasets.MNIST(images, labels)
        >>> image, label = digits[1]
        >>> len(digits), image.size, label.tolist()
        (2, (28, 28), [3])
    """

    NAME = "mnist"
    URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
    TEST_IMAGE_URL = f"{URL_PREFIX}t10k-images-idx3-ubyte.gz"
    TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
    TEST_LABEL_URL = f"{URL_PREFIX}t10k-labels-idx1-ubyte.gz"
    TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
    TRAIN_IMAGE_URL = f"{URL_PREFIX}train-images-idx3-ubyte.gz"
    TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
    TRAIN_LABEL_URL = f"{URL_PREFIX}train-labels-idx1-ubyte.gz"
    TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

    def __init__(
        self,
        image_path: str | os.PathLike | None = None,
        label_path: str | os.PathLike | None = None,
        mode: str = "train",
        transform: Callable | None = None,
        download: bool = True,
        backend: str | None = None,
    ):
        name = type(self).__name__
        self.mode = mode_of(name, mode, ("train", "test"))
        self.backend = backend_of(name, backend, get_image_backend)
        which = self.mode.upper()
        files = [
            located(name, argument, path, getattr(self, f"{which}_{kind}_URL"), getattr(self, f"{which}_{kind}_MD5"), self.NAME)
            for argument, path, kind in (("image_path", image_path, "IMAGE"), ("label_path", label_path, "LABEL"))
        ]  # fmt: skip
        self.image_path, self.label_path = files
        self.transform, self.dtype = transform, get_default_dtype()
        self.images = _idx(f"{name}(image_path)", files[0], 2051, 3)
        self.labels = _idx(f"{name}(label_path)", files[1], 2049, 1)[:, None].astype(np.int64)
        if len(self.images) != len(self.labels):
            wanted = f"a label for each of the {len(self.images)} images"
            raise errors.bad(f"{name}(label_path)", wanted, described=f"{len(self.labels)} labels")

    def __getitem__(self, idx: int) -> tuple[Any, np.ndarray]:
        image: Any = self.images[idx]
        if self.backend == "pil":
            image = pillow("Image").fromarray(image)
        if self.transform is not None:
            image = self.transform(image)
        return (image if self.backend == "pil" else image.astype(self.dtype)), self.labels[idx]

    def __len__(self) -> int:
        return len(self.labels)


class FashionMNIST(MNIST):
    """Pieces of clothing: images of 28 x 28 pixels with labels 0 to 9.

    Args:
        image_path: File of the images, gzipped IDX. Default: None, the file in
            ``~/.cache/bireme/dataset/fashion-mnist``.
        label_path: File of the labels, gzipped IDX. Default: None, the file in
            ``~/.cache/bireme/dataset/fashion-mnist``.
        mode: ``'train'`` or ``'test'``: which of the files to look for. Default: ``'train'``.
        transform: Function that is applied to each image. Default: None.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.
        backend: ``'pil'`` for images of Pillow, or ``'cv2'`` for arrays of the default dtype. Default: None, that of
            ``bireme.vision.set_image_backend``.

    Examples:
        >>> import gzip, pathlib, struct, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> images, labels = folder / "images.gz", folder / "labels.gz"
        >>> _ = images.write_bytes(gzip.compress(struct.pack(">4I", 2051, 1, 28, 28) + bytes([255] * 784)))
        >>> _ = labels.write_bytes(gzip.compress(struct.pack(">2I", 2049, 1) + bytes([9])))
        >>> image, label = bireme.vision.datasets.FashionMNIST(images, labels, backend="cv2")[0]
        >>> image.shape, image.max().item(), label.tolist()
        ((28, 28), 255.0, [9])
    """

    NAME = "fashion-mnist"
    URL_PREFIX = "https://dataset.bj.bcebos.com/fashion_mnist/"
    TEST_IMAGE_URL = f"{URL_PREFIX}t10k-images-idx3-ubyte.gz"
    TEST_IMAGE_MD5 = "bef4ecab320f06d8554ea6380940ec79"
    TEST_LABEL_URL = f"{URL_PREFIX}t10k-labels-idx1-ubyte.gz"
    TEST_LABEL_MD5 = "bb300cfdad3c16e7a12a480ee83cd310"
    TRAIN_IMAGE_URL = f"{URL_PREFIX}train-images-idx3-ubyte.gz"
    TRAIN_IMAGE_MD5 = "8d4fb7e6c68d591d4c3dfef9ec88bf0d"
    TRAIN_LABEL_URL = f"{URL_PREFIX}train-labels-idx1-ubyte.gz"
    TRAIN_LABEL_MD5 = "25c81989df183df01b3e8a0aad5dffbe"
