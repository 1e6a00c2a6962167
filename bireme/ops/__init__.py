"""Operators by family. Importing this declares them all and gives Tensor its methods."""

import importlib
import pkgutil
from typing import Any

from bireme.core.declare.public import INTERNAL, PUBLIC

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    if not _module.name.endswith("_kernels"):  # these declare no operator, and take their compiler's time to import
        importlib.import_module(_module.name)


def __getattr__(name: str) -> Any:
    """Every public function of the operators by its name: `from bireme.ops import add`."""
    found = PUBLIC.get(name) or INTERNAL.get(name)
    if found is not None:
        return found
    raise AttributeError(f"bireme.ops has no operator named {name}")
