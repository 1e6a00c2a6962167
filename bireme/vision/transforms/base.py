"""What transforms of images have in common: which parts of a sample they apply to, and one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors

KEYS = ("image", "coords", "boxes", "mask")


def probability(where: str, prob: Any) -> float:
    """What was given as one, checked."""
    errors.check_number(where, prob)
    if not 0 <= prob <= 1:
        raise errors.bad(where, "a probability in [0, 1]", prob)
    return prob


class BaseTransform:
    """Base class of the transforms: a subclass has ``_apply_image``, and the like for other parts of a sample.

    A call with a tuple transforms each element by its key: ``_apply_image``, ``_apply_coords``, ``_apply_boxes`` or
    ``_apply_mask``; elements beyond the keys stay. ``_get_params`` is called first with the tuple, and what it returns
    is ``params`` then, so that all elements are transformed alike.

    Args:
        keys: What the elements of a sample are: ``'image'``, ``'coords'``, ``'boxes'`` or ``'mask'``.
            Default: None, ``('image',)``.

    Examples:
        >>> class Double(bireme.vision.transforms.BaseTransform):
        ...     def _apply_image(self, image):
        ...         return 2 * image
        >>> Double()((3, "label"))
        (6, 'label')
    """

    def __init__(self, keys: Sequence[str] | None = None):
        if isinstance(keys, str) or any(key not in KEYS for key in keys or ()):
            expected = f"a sequence of {', '.join(map(repr, KEYS))}"
            raise errors.bad(f"{type(self).__name__}(keys)", expected, keys, kind=NotImplementedError)
        self.keys: Sequence[str] = ("image",) if keys is None else keys
        self.params: Any = None

    def _get_params(self, inputs: tuple) -> Any:
        return None

    def __call__(self, inputs: Any) -> Any:
        sample = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(sample)
        known = list(zip(sample, self.keys, strict=False))
        out = [self._get_apply(key)(part) for part, key in known]
        return (*out, *sample[len(known) :]) if isinstance(inputs, tuple) else out[0]

    def _get_apply(self, key: str) -> Callable[[Any], Any]:
        return getattr(self, f"_apply_{key}")

    def _apply_image(self, image: Any) -> Any:
        raise errors.missing_method(self, "_apply_image")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise errors.missing_method(self, "_apply_boxes")

    def _apply_mask(self, mask: Any) -> Any:
        raise errors.missing_method(self, "_apply_mask")

    def _apply_coords(self, coords: Any) -> Any:
        raise errors.missing_method(self, "_apply_coords")


class Compose:
    """Apply transforms one after the other.

    Args:
        transforms: Functions or transforms.

    Examples:
        >>> import numpy as np
        >>> T = bireme.vision.transforms
        >>> T.Compose([T.Resize(2), T.ToTensor()])(np.zeros((4, 6, 3), np.uint8)).shape
        [3, 2, 3]
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            data = transform(data)
        return data

    def __repr__(self) -> str:
        return "\n    ".join(["Compose(", *map(str, self.transforms)]) + "\n)"
