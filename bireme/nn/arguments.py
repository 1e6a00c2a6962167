"""Arguments that layers take: their types, as annotations name them, and what is checked of many."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from bireme.core.base import errors
from bireme.core.base.device import DeviceLike as DeviceLike
from bireme.core.base.dtype import DTypeLike as DTypeLike
from bireme.nn.initializer import Initializer
from bireme.param_attr import ParamAttr
from bireme.regularizer import WeightDecayRegularizer

Attr = ParamAttr | Initializer | WeightDecayRegularizer | str | bool | None  # of a parameter; False: there is none
Sizes = int | Sequence[int]  # one for all spatial axes, or one for each
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]  # of convolution and pooling


def must_be_positive(layer: str, **sizes: Any) -> None:
    """Refuse sizes that are no positive integers, in the name of the layer and of its argument."""
    for name, n in sizes.items():
        if isinstance(n, bool) or not isinstance(n, Integral):
            raise errors.bad(f"{layer}({name})", "a positive integer", n, kind=errors.ArgumentTypeError)
        if n < 1:
            raise errors.bad(f"{layer}({name})", "a positive integer", n, kind=errors.ArgumentError)
