"""Operators by family. Importing this declares them all and gives Tensor its methods."""

import importlib
import pkgutil
from typing import Any

from bireme.core.declare.public import PUBLIC

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)


def __getattr__(name: str) -> Any:
    """Every public function of the operators by its name: `from bireme.ops import add`."""
    if name in PUBLIC:
        return PUBLIC[name]
    raise AttributeError(f"bireme.ops has no operator named {name}")
