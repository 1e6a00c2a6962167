"""Flowers: the 102 categories of Oxford, from an archive of images and two MATLAB files."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.defaults import get_default_dtype
from bireme.io import Dataset
from bireme.io.archives import Archive, located, mode_of
from bireme.vision.datasets.images import backend_of, image_from
from bireme.vision.image import get_image_backend, pillow

_URL = "http://paddlemodels.bj.bcebos.com/flowers/"
_PARTS = {"train": "tstid", "test": "trnid", "valid": "valid"}  # the larger part is for training
_MOST_BYTES, _MOST_NUMBERS = 1 << 20, 1 << 22


def _matlab(where: str, path: str, name: str) -> np.ndarray:
    """Positive integers under a name of a MATLAB file."""
    scipy_io = importlib.import_module("scipy.io")
    damaged = (OSError, ValueError, TypeError, KeyError, NotImplementedError, OverflowError, MemoryError)
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise FileFormatError(f"more than {_MOST_BYTES} bytes")
        shapes = {known: shape for known, shape, _ in scipy_io.whosmat(path)}
        if name not in shapes or int(np.prod(shapes[name], dtype=object)) > _MOST_NUMBERS:
            raise FileFormatError(f"no array of numbers under {name!r}")
        found = np.asarray(scipy_io.loadmat(path, variable_names=[name])[name])
    except (*damaged, scipy_io.matlab.MatReadError) as e:
        described = f"{path}: {errors.as_told(e)}"
        raise errors.bad(where, f"a MATLAB file with {name!r}", described=described, kind=FileFormatError) from None
    if found.dtype.kind not in "iu" or not found.size or found.min() < 1:
        described = f"{path}: {found.dtype} of shape {list(found.shape)}"
        raise errors.bad(where, f"positive integers under {name!r}", described=described, kind=FileFormatError)
    return found.reshape(-1).astype(np.int64)


class Flowers(Dataset):
    """Oxford's 102 categories of flowers: images of several sizes with labels 1 to 102.

    Args:
        data_file: The archive ``102flowers.tgz``. Default: None, the file in ``~/.cache/bireme/dataset/flowers``.
        label_file: The file ``imagelabels.mat``. Default: None, the file in the same folder.
        setid_file: The file ``setid.mat``, which says which image belongs to which part. Default: None, the file in the
            same folder.
        mode: ``'train'``, ``'valid'`` or ``'test'``. Default: ``'train'``.
        transform: Function that is applied to each image. Default: None.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.
        backend: ``'pil'`` for images of Pillow, or ``'cv2'`` for arrays ``[H, W, 3]`` of the default dtype. Default:
            None, that of ``bireme.vision.set_image_backend``.

    Examples:
        >>> bireme.vision.datasets.Flowers("102flowers.tgz")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: Flowers(data_file): expected the file 102flowers.tgz, got 102flowers.tgz, which does not exist...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        label_file: str | os.PathLike | None = None,
        setid_file: str | os.PathLike | None = None,
        mode: str = "train",
        transform: Callable | None = None,
        download: bool = True,
        backend: str | None = None,
    ):
        self.mode = mode_of("Flowers", mode, ("train", "valid", "test"))
        self.backend = backend_of("Flowers", backend, get_image_backend)
        self.transform, self.dtype, self.flag = transform, get_default_dtype(), _PARTS[self.mode]
        files = [
            located("Flowers", argument, path, _URL + name, md5, "flowers")
            for argument, path, name, md5 in (
                ("data_file", data_file, "102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
                ("label_file", label_file, "imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
                ("setid_file", setid_file, "setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
            )
        ]
        self.labels = _matlab("Flowers(label_file)", files[1], "labels")
        self.indexes = _matlab("Flowers(setid_file)", files[2], self.flag)
        if self.indexes.max() > len(self.labels):
            wanted = f"numbers of the {len(self.labels)} images that have labels"
            raise errors.bad("Flowers(setid_file)", wanted, int(self.indexes.max()), kind=FileFormatError)
        needed = {self._name(i) for i in self.indexes.tolist()}
        self._archive = Archive("Flowers(data_file)", files[0], needed.__contains__)

    @staticmethod
    def _name(index: int) -> str:
        return f"jpg/image_{index:05d}.jpg"

    def __getitem__(self, idx: int) -> tuple[Any, np.ndarray]:
        index = int(self.indexes[idx])
        name = self._name(index)
        image = image_from("Flowers(data_file)", name, self._archive.read(name), pillow("Image"))
        if self.backend == "cv2":
            image = np.array(image)
        if self.transform is not None:
            image = self.transform(image)
        label = self.labels[index - 1 : index].copy()
        return (image if self.backend == "pil" else image.astype(self.dtype)), label

    def __len__(self) -> int:
        return len(self.indexes)
