"""Models as Paddle exports them: `.json` and `.pdmodel` with their parameters, and fluid's folders, read into programs."""

from bireme.files.paddle_models.reading import load as load

__all__ = ["load"]
