"""Conversion of a layer's parameters and buffers to other data types and devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor, read, wrap
from bireme.nn.arguments import DeviceLike, DTypeLike


class Conversions(Guarded):
    """The part of ``Layer`` that converts parameters and buffers, those of sublayers too."""

    sublayers: Callable[..., list]

    def to(
        self, device: DeviceLike | None = None, dtype: DTypeLike | None = None, blocking: bool | None = None
    ) -> Self:
        """Move all parameters and buffers to a device, convert them to a data type, or both.

        Args:
            device: The device, such as ``'cpu'`` or ``'gpu:0'``. Default: None, they stay where they are.
            dtype: The data type, of integer tensors as well. Default: None, they keep theirs.
            blocking: Accepted for compatibility; True, False or None, with the same result. Default: None.

        Returns:
            This layer.

        Examples:
            >>> bireme.nn.Linear(1, 1).to(dtype="float64").weight.dtype
            bireme.float64
        """
        return self._to_impl(device, dtype, blocking)

    def _to_impl(
        self,
        device: Any = None,
        dtype: Any = None,
        blocking: bool | None = None,
        include_sublayers: bool = True,
        floating_only: bool = False,
    ) -> Self:
        """What ``to`` does; programs that override ``to`` build on it."""
        if blocking is not None and not isinstance(blocking, bool):
            raise errors.bad("to(blocking)", "True, False or None", blocking, kind=errors.ArgumentError)
        place = None if device is None else devices.parse(device, "to(device)")
        kind = None if dtype is None else dtypes.of(dtype, "to(dtype)")
        return self._convert(place, kind, lambda layer: include_sublayers or layer is self, floating_only)

    def astype(self, dtype: DTypeLike | None = None) -> Self:
        """Convert all parameters and buffers to a data type.

        Args:
            dtype: The data type; it must be given.

        Returns:
            This layer.

        Examples:
            >>> bireme.nn.Linear(1, 1).astype("float64").weight.dtype
            bireme.float64
        """
        if dtype is None:
            raise errors.bad("astype(dtype)", "a dtype", dtype)
        return self.to(dtype=dtype)

    def float(self, excluded_layers: type | Sequence[type] | None = None) -> Self:
        """Convert floating parameters and buffers to float32.

        Args:
            excluded_layers: Class of layers, or a list of them, that keep their data type. Default: None, no class.

        Returns:
            This layer.
        """
        return self._float("float", dtypes.float32, excluded_layers)

    def float16(self, excluded_layers: type | Sequence[type] | None = None) -> Self:
        """Convert floating parameters and buffers to float16.

        Args:
            excluded_layers: Class of layers, or a list of them, that keep their data type. Default: None,
                ``BatchNorm``.

        Returns:
            This layer.
        """
        return self._float("float16", dtypes.float16, excluded_layers)

    def bfloat16(self, excluded_layers: type | Sequence[type] | None = None) -> Self:
        """Convert floating parameters and buffers to bfloat16.

        Args:
            excluded_layers: Class of layers, or a list of them, that keep their data type. Default: None,
                ``BatchNorm``.

        Returns:
            This layer.

        Examples:
            >>> bireme.nn.Linear(1, 1).bfloat16().weight.dtype
            bireme.bfloat16
        """
        return self._float("bfloat16", dtypes.bfloat16, excluded_layers)

    def _float(self, where: str, dtype: Any, excluded: Any) -> Self:
        kinds = tuple(excluded) if isinstance(excluded, (list, tuple)) else () if excluded is None else (excluded,)
        if not all(isinstance(k, type) and issubclass(k, Conversions) for k in kinds):
            raise errors.bad(
                f"{where}(excluded_layers)", "a Layer class or a list of them", excluded, kind=errors.ArgumentTypeError
            )
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
    """Change data type and device of a tensor that others hold: the handle stays, its value is replaced."""
    new = wrap(read(t))  # no detach(): the two would share storage from then on
    if dtype is not None and t.dtype is not dtype:
        new = new.astype(dtype)
    if place is not None:
        new = new._to_device(place)
    t._assign_value(new)
