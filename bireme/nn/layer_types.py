"""Other types and places for what a Layer holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor, read, wrap


class Conversions:
    """The part of Layer that converts its parameters and buffers, those of its sublayers too."""

    sublayers: Callable[..., list]

    def to(self, device: Any = None, dtype: Any = None, blocking: bool | None = None) -> Self:
        """Move all parameters and buffers to a device, a type, or both; integers are converted as well.

        >>> bireme.nn.Linear(1, 1).to(dtype="float64").weight.dtype
        bireme.float64
        """
        return self._to_impl(device, dtype, blocking)

    def _to_impl(self, device: Any = None, dtype: Any = None, blocking: bool | None = None, include_sublayers: bool = True,
                 floating_only: bool = False) -> Self:  # fmt: skip
        """What `to` does; programs that put another `to` in its place build on it."""
        if blocking is not None and not isinstance(blocking, bool):
            raise errors.bad("to(blocking)", "True, False or None", blocking, kind=errors.Unfit)
        place = None if device is None else devices.parse(device, "to(device)")
        kind = None if dtype is None else dtypes.of(dtype, "to(dtype)")
        return self._convert(place, kind, lambda layer: include_sublayers or layer is self, floating_only)

    def astype(self, dtype: Any = None) -> Self:
        """Convert all parameters and buffers."""
        if dtype is None:
            raise errors.bad("astype(dtype)", "a type", dtype)
        return self.to(dtype=dtype)

    def float(self, excluded_layers: Any = None) -> Self:
        """Convert floating parameters and buffers to float32."""
        return self._float("float", dtypes.float32, excluded_layers)

    def float16(self, excluded_layers: Any = None) -> Self:
        """Convert floating parameters and buffers to float16, but not those of `excluded_layers` (classes; `BatchNorm` if not given)."""
        return self._float("float16", dtypes.float16, excluded_layers)

    def bfloat16(self, excluded_layers: Any = None) -> Self:
        """Convert floating parameters and buffers to bfloat16, but not those of `excluded_layers` (classes; `BatchNorm` if not given).

        >>> bireme.nn.Linear(1, 1).bfloat16().weight.dtype
        bireme.bfloat16
        """
        return self._float("bfloat16", dtypes.bfloat16, excluded_layers)

    def _float(self, where: str, dtype: Any, excluded: Any) -> Self:
        kinds = tuple(excluded) if isinstance(excluded, (list, tuple)) else () if excluded is None else (excluded,)
        if not all(isinstance(k, type) and issubclass(k, Conversions) for k in kinds):
            raise errors.bad(f"{where}(excluded_layers)", "a Layer class or a list of them", excluded, kind=TypeError)
        if excluded is None and where != "float":
            return self._convert(None, dtype, lambda layer: not layer._stays_wide, floating_only=True)
        return self._convert(None, dtype, lambda layer: not isinstance(layer, kinds), floating_only=True)

    def _convert(self, place: Any, dtype: Any, wanted: Callable[[Any], bool], floating_only: bool) -> Self:
        for layer in self.sublayers(include_self=True):
            if wanted(layer):
                for held in [*layer._parameters.values(), *layer._buffers.values()]:
                    for t in (held, None if held is None else held.grad):
                        if t is not None and (t.dtype.is_floating or not floating_only):
                            _convert_tensor(t, place, dtype)
                if dtype is not None:
                    layer._dtype = dtype.name
        return self


def _convert_tensor(t: Tensor, place: Any, dtype: Any) -> None:
    """Change type and device of a tensor that others hold: the handle stays, its value is another one."""
    new = wrap(read(t))  # no detach(): the two would share storage from then on
    if dtype is not None and t.dtype is not dtype:
        new = new.astype(dtype)
    if place is not None:
        new = new._to_device(place)
    t._assign_value(new)
