"""VOC2012: images with a class for each pixel, from the archive of the challenge."""

from __future__ import annotations

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

_URL = "https://dataset.bj.bcebos.com/voc/VOCtrainval_11-May-2012.tar"
_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
_ROOT = "VOCdevkit/VOC2012/"
_PARTS = {"train": "trainval", "test": "train", "valid": "val"}


class VOC2012(Dataset):
    """Segmentation of PASCAL VOC 2012: images of several sizes, each with an image of labels of its size.

    Args:
        data_file: The archive ``VOCtrainval_11-May-2012.tar``. Default: None, the file in
            ``~/.cache/bireme/dataset/voc2012``.
        mode: ``'train'``, ``'valid'`` or ``'test'``, for the lists trainval, val and train. Default: ``'train'``.
        transform: Function that is applied to each image, not to its labels. Default: None.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.
        backend: ``'pil'`` for images of Pillow, or ``'cv2'`` for arrays of the default dtype. Default: None, that of
            ``bireme.vision.set_image_backend``.

    Examples:
        >>> bireme.vision.datasets.VOC2012("voc.tar")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: VOC2012(data_file): expected the file VOCtrainval_11-May-2012.tar, got voc.tar, which does not exist...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        mode: str = "train",
        transform: Callable | None = None,
        download: bool = True,
        backend: str | None = None,
    ):
        where = "VOC2012(data_file)"
        self.mode = mode_of("VOC2012", mode, ("train", "valid", "test"))
        self.backend = backend_of("VOC2012", backend, get_image_backend)
        self.flag = _PARTS[self.mode]
        self.data_file = located("VOC2012", "data_file", data_file, _URL, _MD5, "voc2012")
        self.transform, self.dtype = transform, get_default_dtype()
        folders = tuple(_ROOT + folder for folder in ("ImageSets/Segmentation/", "JPEGImages/", "SegmentationClass/"))
        self._archive = Archive(where, self.data_file, lambda name: name.startswith(folders))
        listed = f"{folders[0]}{self.flag}.txt"
        try:
            names = self._archive.read(listed).decode("utf-8").split()
        except UnicodeDecodeError:
            described = f"{self.data_file}, {listed}"
            raise errors.bad(where, "a list of names in UTF-8", described=described, kind=FileFormatError) from None
        self.data = [f"{folders[1]}{name}.jpg" for name in names]
        self.labels = [f"{folders[2]}{name}.png" for name in names]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image, label = [
            image_from("VOC2012(data_file)", name, self._archive.read(name), pillow("Image"))
            for name in (self.data[idx], self.labels[idx])
        ]
        if self.backend == "cv2":
            image, label = np.array(image), np.array(label)
        if self.transform is not None:
            image = self.transform(image)
        if self.backend == "cv2":
            return image.astype(self.dtype), label.astype(self.dtype)
        return image, label

    def __len__(self) -> int:
        return len(self.data)
