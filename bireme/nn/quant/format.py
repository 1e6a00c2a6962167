"""Layers that turn numbers into integers and back, and what is common to layers that can be converted to integers."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import dequantize_linear, pack_int4, quantize_linear, to_tensor, unpack_int4

__all__ = ["ConvertibleQuantedLayer", "LinearDequanter", "LinearQuanter", "LinearQuanterDequanter"]

_TINY = np.float32(1e-30)  # the step of what was always zero


def lasting(t: Tensor) -> Tensor:
    """A tensor that a saved graph keeps as state, by name, and not as a constant of its own."""
    t.persistable = True
    return t


def _numbers(where: str, given: Any) -> np.ndarray:
    """Scales or zero points on the host."""
    try:
        return np.asarray(given.numpy() if isinstance(given, Tensor) else given, np.float32)
    except (TypeError, ValueError):
        raise errors.bad(where, "a Tensor or numbers", given, kind=errors.ArgumentTypeError) from None


class _Linear(Layer):
    """Steps and zero points of integers; `scales` are the largest magnitudes, as observers report them."""

    def __init__(
        self,
        scales: Any,
        zero_point: Any = None,
        quant_axis: int | None = None,
        bit_length: int = 8,
        group_size: int = 128,
    ):
        super().__init__()
        where = type(self).__name__
        if isinstance(bit_length, bool) or not isinstance(bit_length, int) or not 2 <= bit_length <= 16:
            raise errors.bad(f"{where}(bit_length)", "an integer in [2, 16]", bit_length)
        most = _numbers(f"{where}(scales)", scales)
        if not most.size or not np.isfinite(most).all() or (most < 0).any():
            wrong = most[~np.isfinite(most) | (most < 0)]
            raise errors.bad(f"{where}(scales)", "finite non-negative numbers", float(wrong[0]) if most.size else [])
        self._bits, self._axis = bit_length, 0 if most.ndim == 2 else -1 if quant_axis is None else quant_axis
        self._block = group_size if most.ndim == 2 else 0
        step = np.maximum(most / np.float32(2 ** (bit_length - 1) - 1), _TINY)
        self.register_buffer("_step", lasting(to_tensor(step)))
        zero = np.zeros(1) if zero_point is None else zero_point
        zero = _numbers(f"{where}(zero_point)", zero)
        self.register_buffer("_zero_point", lasting(to_tensor(zero)) if zero.any() else None)

    @classmethod
    def from_quanter(cls, quanter: Any) -> Any:
        """Return the layer with what a quanter or an observer has found.

        Args:
            quanter: A ``BaseQuanter`` that has scales.

        Returns:
            The layer.
        """
        return cls(
            quanter.scales(),
            quanter.zero_points(),
            quanter.quant_axis(),
            quanter.bit_length(),
            getattr(quanter, "group_size", 128),
        )

    def extra_repr(self) -> str:
        return f"bit_length={self._bits}"


class LinearQuanter(_Linear):
    """Layer that turns numbers into integers, see ``quantize_linear``.

    Args:
        scales: Largest magnitudes that the integers stand for: one, a vector with one for each index of ``quant_axis``,
            or a matrix with one for each group of rows and each column.
        zero_point: Integers that mean zero, in the shape of ``scales``. Default: None, 0.
        quant_axis: Axis of a vector of scales. Default: None, the last one.
        bit_length: Width of the integers. Default: 8.
        group_size: Number of rows in a group, if ``scales`` is a matrix. Default: 128.

    Shape:
        - input: any; output: the same, int8, or int16 with more than 8 bits.

    Examples:
        >>> quanter = bireme.nn.quant.format.LinearQuanter(bireme.to_tensor(1.27))
        >>> quanter(bireme.to_tensor([0.5, -3.0])).tolist()
        [50, -128]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the integers of ``input``.

        Args:
            input: Tensor of a floating-point dtype.

        Returns:
            Tensor of integers.
        """
        kind = "int8" if self._bits <= 8 else "int16"
        axis = self._axis if self._step.ndim else 0
        return quantize_linear(input, self._step, self._zero_point, axis, self._block, kind, self._bits)


class LinearDequanter(_Linear):
    """Layer that turns integers into numbers, see ``dequantize_linear``.

    Args:
        scales: Largest magnitudes that the integers stand for: one, a vector with one for each index of ``quant_axis``,
            or a matrix with one for each group of rows and each column.
        zero_point: Integers that mean zero, in the shape of ``scales``. Default: None, 0.
        quant_axis: Axis of a vector of scales. Default: None, the last one.
        bit_length: Width of the integers. Default: 8.
        group_size: Number of rows in a group, if ``scales`` is a matrix. Default: 128.

    Shape:
        - input: any; output: the same, float32.

    Examples:
        >>> dequanter = bireme.nn.quant.format.LinearDequanter(bireme.to_tensor(127.0))
        >>> dequanter(bireme.to_tensor([50, -128], dtype="int8")).tolist()
        [50.0, -128.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the numbers of integers.

        Args:
            input: Tensor of integers.

        Returns:
            float32 tensor.
        """
        axis = self._axis if self._step.ndim else 0
        return dequantize_linear(input, self._step, self._zero_point, axis, self._block)


class LinearQuanterDequanter(Layer):
    """Layer that rounds numbers to what integers stand for: a quanter and a dequanter in sequence.

    Args:
        quanter: ``LinearQuanter``; None if the input has integers already.
        dequanter: ``LinearDequanter``.

    Examples:
        >>> f = bireme.nn.quant.format
        >>> scale = bireme.to_tensor(127.0)
        >>> f.LinearQuanterDequanter(f.LinearQuanter(scale), f.LinearDequanter(scale))(bireme.to_tensor([1.4])).tolist()
        [1.0]
    """

    def __init__(self, quanter: LinearQuanter | None, dequanter: LinearDequanter):
        super().__init__()
        self._quanter, self._dequanter = quanter, dequanter
        self._packed: int | None = None  # axis along which two integers stand in a byte

    def forward(self, input: Tensor) -> Tensor:
        """Round ``input``.

        Args:
            input: Tensor of a floating-point dtype, or of integers if there is no quanter.

        Returns:
            Tensor of the shape of ``input``.
        """
        if self._quanter is not None:
            made = self._dequanter(self._quanter(input))
            return made if made.dtype == input.dtype else made.astype(input.dtype)
        return self._dequanter(input if self._packed is None else unpack_int4(input, self._packed))

    @staticmethod
    def from_quanter(quanter: Any) -> LinearQuanterDequanter:
        """Return the layer with what a quanter or an observer has found.

        Args:
            quanter: A ``BaseQuanter`` that has scales.

        Returns:
            The layer.
        """
        return LinearQuanterDequanter(LinearQuanter.from_quanter(quanter), LinearDequanter.from_quanter(quanter))


class ConvertibleQuantedLayer(Layer, abc.ABC):
    """Layer whose weights and inputs are quantized, and which can be converted to real integers.

    Classes derived from it say which weights and inputs these are.

    Examples:
        >>> issubclass(bireme.nn.quant.qat.QuantedLinear, bireme.nn.quant.format.ConvertibleQuantedLayer)
        True
    """

    def __init__(self) -> None:
        super().__init__()
        self.converted = False

    @abc.abstractmethod
    def weights_to_quanters(self) -> list[tuple[str, str]]:
        """Return the names of weights, each with the name of the sublayer that quantizes it.

        Returns:
            List of pairs of names of attributes.
        """

    @abc.abstractmethod
    def activation_quanters(self) -> list[str]:
        """Return the names of sublayers that quantize inputs.

        Returns:
            List of names of attributes.
        """

    def _to_integers(self, remain_weight: bool = False) -> None:
        """Turn quanters into layers of integers, and unless `remain_weight` the weights into integers."""
        for name in self.activation_quanters():
            quanter = getattr(self, name)
            if quanter is None:
                continue
            if self._saw_nothing(quanter):
                setattr(self, name, None)
            else:
                setattr(self, name, LinearQuanterDequanter.from_quanter(quanter))
        for weight, name in self.weights_to_quanters():
            quanter = getattr(self, name)
            if quanter is None:
                continue
            if quanter.scales() is None:
                quanter(getattr(self, weight))
            self._check_finite(quanter, "weight")
            made = LinearQuanterDequanter.from_quanter(quanter)
            setattr(self, name, made)
            if not remain_weight:
                self._store(weight, made)
        self.converted = True

    def _saw_nothing(self, quanter: Any) -> bool:
        """Whether a quanter of inputs has no scale to go by: it saw no data, or zeros alone."""
        scales = quanter.scales()
        if scales is not None:
            self._check_finite(quanter, "input")
            if scales.numpy().any():
                return False
        errors.warn(
            f"convert(model): {self.full_name()} saw {'no data' if scales is None else 'only zeros'}, so its input stays as it is\n"
            "  hint: run the model on some batches between quantize and convert"
        )
        return True

    def _check_finite(self, quanter: Any, which: str) -> None:
        scales = quanter.scales()
        if scales is not None and not np.isfinite(scales.numpy()).all():
            raise errors.failure(
                f"convert(model): expected finite magnitudes in the {which} of {self.full_name()}, got "
                f"{float(scales.numpy()[~np.isfinite(scales.numpy())].ravel()[0])}",
                kind=errors.ArgumentError,
            )

    def _store(self, name: str, made: LinearQuanterDequanter) -> None:
        """Keep a weight as integers: a buffer instead of the parameter."""
        weight = getattr(self, name)
        quanter = made._quanter
        assert quanter is not None
        whole = quanter(weight.detach())
        axis = self._packing_axis(name)
        if quanter._bits == 4 and whole.shape[axis] % 2 == 0:
            whole, made._packed = pack_int4(whole, axis), axis
        made._quanter = None
        delattr(self, name)
        # read now: the float weight need not be kept until the first call
        self.register_buffer(name, lasting(to_tensor(whole.numpy())))

    def _packing_axis(self, name: str) -> int:
        return 0


@dataclass(frozen=True)
class Joint:
    """What sums of products of integers mean: the step of one, and what the zero point of the input adds to each."""

    step: Tensor
    zero_point: int
    offset: Tensor | None


def joint(activation: Any, weight: Any, integers: Tensor, channel_axes: tuple[int, ...]) -> Joint | None:
    """What sums mean, if integers may be multiplied as they are: both have 8 bits, zero means zero in the weight, and
    there is one scale for the input, and one, or one for each output channel, for the weight.
    """
    for quanter in (activation, weight):
        one = getattr(quanter, "_dequanter", None)
        if one is None or one._bits != 8 or one._block:
            return None
    read, held = activation._dequanter, weight._dequanter
    inputs, steps, zero = read._step, held._step, read._zero_point
    if inputs.size > 1 or held._zero_point is not None or (steps.size > 1 and held._axis not in channel_axes):
        return None
    step = inputs.reshape([]) * steps.reshape([-1] if steps.size > 1 else [])
    if zero is None:
        return Joint(step, 0, None)
    point, whole = int(zero.numpy().item()), integers.numpy()
    axis = channel_axes[0] % whole.ndim
    sums = whole.sum(tuple(i for i in range(whole.ndim) if i != axis), dtype=np.int32)
    return Joint(step, point, to_tensor(point * sums))
