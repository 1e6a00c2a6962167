"""Vision: models of images."""

from bireme.vision import models, ops
from bireme.vision.models import *  # noqa: F403 - Paddle has every model here as well
from bireme.vision.models import __all__ as _models

__all__ = ["models", "ops", *_models]
