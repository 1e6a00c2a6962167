"""Types of the arguments that layers take, as their annotations name them."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.core.base.device import DeviceLike as DeviceLike
from bireme.core.base.dtype import DTypeLike as DTypeLike
from bireme.nn.initializer import Initializer
from bireme.param_attr import ParamAttr
from bireme.regularizer import WeightDecayRegularizer

Attr = ParamAttr | Initializer | WeightDecayRegularizer | str | bool | None  # of a parameter; False: there is none
Sizes = int | Sequence[int]  # one for all spatial axes, or one for each
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]  # of convolution and pooling
