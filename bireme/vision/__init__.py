"""Vision: models of images, transforms of images, operators of detection, and datasets."""

from bireme.vision import datasets, models, ops, transforms
from bireme.vision.image import get_image_backend, image_load, set_image_backend
from bireme.vision.models import *  # noqa: F403 - Paddle has every model here as well
from bireme.vision.models import __all__ as _models
from bireme.vision.transforms import *  # noqa: F403 - and every transform
from bireme.vision.transforms import __all__ as _transforms

__all__ = [
    "datasets",
    "get_image_backend",
    "image_load",
    "models",
    "ops",
    "set_image_backend",
    "transforms",
    *_models,
    *_transforms,
]
