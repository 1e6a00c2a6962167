"""`bireme.tensor`: called, it makes a tensor from data; asked for a name, it gives the tensor function of that name."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from bireme import ops
from bireme.core.op import Tensor
from bireme.ops import attribute, to_tensor


class _Callable(ModuleType):
    """The module's own class: a module that can be called."""

    def __call__(self, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
        """A tensor from numbers, lists, an array or another tensor; the data is copied.

        >>> bireme.tensor([1.0, 2.0], requires_grad=True).stop_gradient
        False
        """
        # pinned memory is a matter of the copy to a device, which XLA stages itself
        return to_tensor(data, dtype, device, stop_gradient=not requires_grad)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(attribute if hasattr(attribute, name) else ops, name)


sys.modules[__name__].__class__ = _Callable
