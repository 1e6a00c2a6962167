"""A layer with a quanter in front of it."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer


class ObserveWrapper(Layer):
    """A layer whose first input is quantized, or whose output if `observe_input` is False."""

    def __init__(self, observer: Layer | None, observed: Layer, observe_input: bool = True):
        super().__init__()
        self._observer, self._observed, self._observe_input = observer, observed, observe_input

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._observe_input:
            return self._observed(*[self._seen(x) if i == 0 else x for i, x in enumerate(inputs)], **kwargs)
        return self._seen(self._observed(*inputs, **kwargs))

    def _seen(self, x: Any) -> Any:
        # indices, masks and lists are no numbers that have a scale
        if self._observer is None or not isinstance(x, Tensor) or not x.dtype.is_inexact:
            return x
        return self._observer(x)
