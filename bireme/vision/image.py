"""Images from files, and which library an image comes from when nothing is said."""

from __future__ import annotations

import sys
from os import PathLike
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.extras import extra

BACKENDS = ("pil", "cv2", "tensor")


class _State:
    backend = "pil"


_state = _State()


def pillow(name: str) -> Any:
    """A module of Pillow, which is installed only where images of it are used."""
    return extra(f"PIL.{name}", "vision", "for images", "Pillow")


def is_pillow(img: Any) -> bool:
    """Whether `img` is an image of Pillow; there is none before Pillow is imported."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(img, module.Image)


def _known(where: str, backend: str) -> str:
    if backend not in BACKENDS:
        raise errors.bad(where, "'pil', 'cv2' or 'tensor'", backend)
    return backend


def set_image_backend(backend: str) -> None:
    """Choose what ``image_load`` and the datasets of images return.

    Args:
        backend: ``'pil'`` for images of Pillow, ``'cv2'`` for arrays as OpenCV has them, or ``'tensor'``.

    Examples:
        >>> bireme.vision.set_image_backend("cv2")
        >>> bireme.vision.get_image_backend()
        'cv2'
        >>> bireme.vision.set_image_backend("pil")
    """
    _state.backend = _known("set_image_backend(backend)", backend)


def get_image_backend() -> str:
    """Return what ``image_load`` and the datasets of images return: ``'pil'``, ``'cv2'`` or ``'tensor'``.

    Returns:
        Name of the backend; ``'pil'`` until ``set_image_backend`` is called.

    Examples:
        >>> bireme.vision.get_image_backend()
        'pil'
    """
    return _state.backend


def image_load(path: str | PathLike, backend: str | None = None) -> Any:
    """Read an image from a file. Pillow decodes it, with every backend.

    Args:
        path: File of the image.
        backend: ``'pil'`` for an image of Pillow, or ``'cv2'`` for a ``uint8`` array ``[H, W, 3]`` of blue, green and
            red, turned as its Exif orientation says, as OpenCV reads it. Default: None, that of ``set_image_backend``.

    Returns:
        An image of Pillow or an array.

    Examples:
        >>> import numpy as np, pathlib, tempfile
        >>> from PIL import Image
        >>> path = pathlib.Path(tempfile.mkdtemp(), "red.png")
        >>> Image.fromarray(np.full((2, 3, 3), [255, 0, 0], np.uint8)).save(path)
        >>> bireme.vision.image_load(path).size
        (3, 2)
        >>> bireme.vision.image_load(path, backend="cv2")[0, 0].tolist()
        [0, 0, 255]
    """
    backend = _known("image_load(backend)", _state.backend if backend is None else backend)
    if backend == "tensor":
        raise errors.bad("image_load(backend)", "'pil' or 'cv2', since no file is read into a tensor", backend)
    img = pillow("Image").open(path)
    if backend == "pil":
        return img
    return np.ascontiguousarray(np.asarray(pillow("ImageOps").exif_transpose(img).convert("RGB"))[:, :, ::-1])


guard_functions(globals())
