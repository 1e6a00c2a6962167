"""Datasets of the files in a folder, with a class for each folder inside it or without classes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.defaults import get_default_dtype
from bireme.io import Dataset
from bireme.vision.image import get_image_backend, pillow

_IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def _load(path: str) -> Any:
    """An image in red, green and blue: of Pillow, or an array with the backend `'cv2'`."""
    with pillow("Image").open(path) as img:
        found = img.convert("RGB")
    return found if get_image_backend() != "cv2" else np.array(found)


def _check_of(name: str, root: Any, extensions: Any, is_valid_file: Any) -> Callable[[str], bool]:
    if not isinstance(root, (str, os.PathLike)):
        raise errors.bad(f"{name}(root)", "a path", root, kind=errors.ArgumentTypeError)
    if not os.path.isdir(root):
        raise errors.bad(f"{name}(root)", "a folder", os.fspath(root), kind=FileNotFoundError)
    if extensions is not None and is_valid_file is not None:
        raise errors.bad(f"{name}(is_valid_file)", "None, since extensions are given", is_valid_file)
    if is_valid_file is not None:
        errors.check_function(f"{name}(is_valid_file)", is_valid_file)
        return is_valid_file
    if extensions is not None and (isinstance(extensions, str) or not all(isinstance(x, str) for x in extensions)):
        raise errors.bad(f"{name}(extensions)", "a list of endings", extensions, kind=errors.ArgumentTypeError)
    endings = _IMAGES if extensions is None else tuple([x.lower() for x in extensions])
    return lambda path: path.lower().endswith(endings)


def _files(folder: str, check: Callable[[str], bool]) -> Iterator[str]:
    for where, _, names in sorted(os.walk(folder, followlinks=True)):
        for name in sorted(names):
            path = os.path.join(where, name)
            if check(path):
                yield path


class DatasetFolder(Dataset):
    """Files in folders, one folder for each class: ``root/class/file``.

    Args:
        root: The folder that holds the folders of the classes.
        loader: Function from a path to a sample. Default: None, one that loads images.
        extensions: Endings of the files to take. Default: None, those of images.
        transform: Function that is applied to each sample. Default: None.
        is_valid_file: Function that says of a path whether to take it, instead of ``extensions``. Default: None.

    Raises:
        RuntimeError: If there is no such folder or file.

    Examples:
        >>> import pathlib, tempfile
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> for name in ("cat/a.txt", "dog/b.txt", "dog/c.txt"):
        ...     root.joinpath(name).parent.mkdir(exist_ok=True)
        ...     _ = root.joinpath(name).write_text(name)
        >>> animals = bireme.vision.datasets.DatasetFolder(
        ...     root, loader=lambda path: pathlib.Path(path).read_text(), extensions=[".txt"])
        >>> animals.classes, animals.targets, animals[2]
        (['cat', 'dog'], [0, 1, 1], ('dog/c.txt', 1))
    """

    def __init__(
        self,
        root: str | os.PathLike,
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
    ):
        check = _check_of("DatasetFolder", root, extensions, is_valid_file)
        self.root, self.transform = os.fspath(root), transform
        if extensions is None and is_valid_file is None:
            extensions = _IMAGES
        self.classes = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples = [
            (path, i) for name, i in self.class_to_idx.items() for path in _files(os.path.join(self.root, name), check)
        ]
        if not self.samples:
            wanted = (
                f"a folder of classes with files that end in {', '.join(extensions or ['what is_valid_file takes'])}"
            )
            raise errors.bad("DatasetFolder(root)", wanted, described=self.root, kind=RuntimeError)
        self.loader = _load if loader is None else loader
        self.extensions, self.targets = extensions, [target for _, target in self.samples]
        self.dtype = get_default_dtype()

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        sample = self.loader(path)
        return (sample if self.transform is None else self.transform(sample)), target

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(Dataset):
    """Files in a folder and the folders in it, without classes; each sample is a list of one.

    Args:
        root: The folder.
        loader: Function from a path to a sample. Default: None, one that loads images.
        extensions: Endings of the files to take. Default: None, those of images.
        transform: Function that is applied to each sample. Default: None.
        is_valid_file: Function that says of a path whether to take it, instead of ``extensions``. Default: None.

    Raises:
        RuntimeError: If there is no such file.

    Examples:
        >>> import numpy as np, pathlib, tempfile
        >>> from PIL import Image
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(root / "black.png")
        >>> images = bireme.vision.datasets.ImageFolder(root)
        >>> len(images), images[0][0].size
        (1, (3, 2))
    """

    def __init__(
        self,
        root: str | os.PathLike,
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
    ):
        check = _check_of("ImageFolder", root, extensions, is_valid_file)
        self.root, self.transform = os.fspath(root), transform
        if extensions is None and is_valid_file is None:
            extensions = _IMAGES
        self.samples = list(_files(self.root, check))
        if not self.samples:
            wanted = f"a folder with files that end in {', '.join(extensions or ['what is_valid_file takes'])}"
            raise errors.bad("ImageFolder(root)", wanted, described=self.root, kind=RuntimeError)
        self.loader, self.extensions = _load if loader is None else loader, extensions

    def __getitem__(self, index: int) -> list[Any]:
        sample = self.loader(self.samples[index])
        return [sample if self.transform is None else self.transform(sample)]

    def __len__(self) -> int:
        return len(self.samples)
