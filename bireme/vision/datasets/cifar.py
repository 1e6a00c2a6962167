"""CIFAR-10 and CIFAR-100, from their archives of pickled arrays, which are read without running what they name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.defaults import get_default_dtype
from bireme.files.allowed_globals import Array
from bireme.files.source import Source
from bireme.files.unpickler import Unpickler
from bireme.io import Dataset
from bireme.io.archives import Archive, located, mode_of
from bireme.vision.datasets.images import backend_of
from bireme.vision.image import get_image_backend, pillow

_PIXELS = 3 * 32 * 32


def _batch(data: bytes, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Images `[n, 3072]` and labels `[n]` of one file."""
    found = Unpickler(Source(io.BytesIO(data), len(data))).run()
    if not isinstance(found, dict):
        raise FileFormatError("a pickle of something else than a dict")
    named = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in found.items()}
    images, labels = named.get("data"), named.get("labels", named.get("fine_labels"))
    pixels = images.value() if isinstance(images, Array) else None
    if pixels is None or pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise FileFormatError(f"no uint8 array of shape [n, {_PIXELS}] under 'data'")
    if not isinstance(labels, list) or len(labels) != len(pixels):
        raise FileFormatError(f"no list of {len(pixels)} labels under 'labels' or 'fine_labels'")
    if any(type(label) is not int or not 0 <= label < classes for label in labels):
        raise FileFormatError(f"a label that is no integer in [0, {classes - 1}]")
    return pixels, np.array(labels, np.int64)


class Cifar10(Dataset):
    """CIFAR-10: color images of 32 x 32 pixels in ten classes.

    Args:
        data_file: The archive ``cifar-10-python.tar.gz``. Default: None, the file in
            ``~/.cache/bireme/dataset/cifar``.
        mode: ``'train'`` or ``'test'``. Default: ``'train'``.
        transform: Function that is applied to each image. Default: None.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.
        backend: ``'pil'`` for images of Pillow, or ``'cv2'`` for arrays ``[32, 32, 3]`` of the default dtype. Default:
            None, that of ``bireme.vision.set_image_backend``.

    Examples:
        >>> bireme.vision.datasets.Cifar10("cifar-10-python.tar.gz")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: Cifar10(data_file): expected the file cifar-10-python.tar.gz, got cifar-10-python.tar.gz, which does...
    """

    _URL = "https://dataset.bj.bcebos.com/cifar/cifar-10-python.tar.gz"
    _MD5 = "c58f30108f718f92721af3b95e74349a"
    _CLASSES = 10
    _PARTS = {"train": "data_batch", "test": "test_batch"}

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        mode: str = "train",
        transform: Callable | None = None,
        download: bool = True,
        backend: str | None = None,
    ):
        name = type(self).__name__
        where = f"{name}(data_file)"
        self.mode = mode_of(name, mode, ("train", "test"))
        self.backend = backend_of(name, backend, get_image_backend)
        self.data_file = located(name, "data_file", data_file, self._URL, self._MD5, "cifar")
        self.transform, self.dtype, self.flag = transform, get_default_dtype(), self._PARTS[self.mode]

        def wanted(path: str) -> bool:
            return self.flag in path.rpartition("/")[2]

        archive = Archive(where, self.data_file, wanted)
        parts = []
        for path in sorted(filter(wanted, archive.names())):
            try:
                parts.append(_batch(archive.read(path), self._CLASSES))
            except FileFormatError as e:
                described = f"{self.data_file}, {path}: {errors.as_told(e)}"
                raise errors.bad(where, "batches of CIFAR", described=described, kind=FileFormatError) from None
        if not parts:
            described = f"{self.data_file}, which has no {self.flag!r}"
            raise errors.bad(where, "batches of CIFAR", described=described, kind=FileFormatError)
        pixels = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
        self._images = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        self._labels = np.concatenate([labels for _, labels in parts])

    def __getitem__(self, idx: int) -> tuple[Any, np.ndarray]:
        image: Any = self._images[idx]
        if self.backend == "pil":
            image = pillow("Image").fromarray(image)
        if self.transform is not None:
            image = self.transform(image)
        return (image if self.backend == "pil" else image.astype(self.dtype)), np.array(self._labels[idx])

    def __len__(self) -> int:
        return len(self._labels)


class Cifar100(Cifar10):
    """CIFAR-100: color images of 32 x 32 pixels in a hundred classes.

    Args:
        data_file: The archive ``cifar-100-python.tar.gz``. Default: None, the file in
            ``~/.cache/bireme/dataset/cifar``.
        mode: ``'train'`` or ``'test'``. Default: ``'train'``.
        transform: Function that is applied to each image. Default: None.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.
        backend: ``'pil'`` for images of Pillow, or ``'cv2'`` for arrays ``[32, 32, 3]`` of the default dtype. Default:
            None, that of ``bireme.vision.set_image_backend``.

    Examples:
        >>> bireme.vision.datasets.Cifar100("cifar-100-python.tar.gz")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: Cifar100(data_file): expected the file cifar-100-python.tar.gz, got cifar-100-python.tar.gz, which do...
    """

    _URL = "https://dataset.bj.bcebos.com/cifar/cifar-100-python.tar.gz"
    _MD5 = "eb9058c3a382ffc7106e4002c42a8d85"
    _CLASSES = 100
    _PARTS = {"train": "train", "test": "test"}
