"""Models as Paddle exports them: `.json` and `.pdmodel` with their parameters, and fluid's folders, read into programs; and
programs written as `.json`.
"""

from bireme.files.paddle_models.reading import load as load
from bireme.files.paddle_models.writing.saving import save as save

__all__ = ["load", "save"]
