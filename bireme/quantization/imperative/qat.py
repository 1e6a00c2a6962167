"""Training with quantization, in the older interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.jit.saving import save
from bireme.nn.common import Linear
from bireme.nn.conv import Conv2D
from bireme.nn.layer import Layer
from bireme.quantization.config import QuantConfig
from bireme.quantization.factory import QuanterFactory
from bireme.quantization.quanters import FakeQuanterChannelWiseAbsMax, FakeQuanterWithAbsMaxObserver
from bireme.quantization.quantize import QAT

_LAYERS = {"Conv2D": Conv2D, "Linear": Linear}
# Paddle names these too; networks that have none of them are quantized all the same
_OTHERS = ("Conv2DTranspose", "ColumnParallelLinear", "RowParallelLinear")
_WEIGHTS: dict[str, Callable[[int], QuanterFactory]] = {
    "abs_max": lambda bits: FakeQuanterWithAbsMaxObserver(0.0, bits),
    "channel_wise_abs_max": lambda bits: FakeQuanterChannelWiseAbsMax(bits),
}


class ImperativeQuantAware:
    """Training with quantization of ``Linear`` and ``Conv2D``, in the older interface; ``QAT`` is the newer one.

    Args:
        quantizable_layer_type: Names or classes of layers, ``'Conv2D'`` and ``'Linear'``. The other names in the
            default are accepted, and such layers stay as they are.
        weight_quantize_type: ``'abs_max'`` or ``'channel_wise_abs_max'``. Default: ``'abs_max'``.
        activation_quantize_type: ``'moving_average_abs_max'``. Default: that.
        weight_bits: Width of the integers of weights. Default: 8.
        activation_bits: Width of the integers of inputs. Default: 8.
        moving_rate: Weight of what was seen before. Default: 0.9.
        fuse_conv_bn: Must be False. Default: False.
        weight_preprocess_layer: Must be None. Default: None.
        act_preprocess_layer: Must be None. Default: None.
        weight_quantize_layer: Class of quanters for weights, in place of ``weight_quantize_type``. Default: None.
        act_quantize_layer: Class of quanters for inputs. Default: None.
        onnx_format: Has no effect. Default: False.

    Raises:
        ValueError: If a type is not known.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 2))
        >>> _ = bireme.quantization.ImperativeQuantAware().quantize(net)
        >>> type(net[0]).__name__
        'QuantedLinear'
    """

    def __init__(
        self,
        quantizable_layer_type: Sequence[Any] = [
            "Conv2D", "Linear", "Conv2DTranspose", "ColumnParallelLinear", "RowParallelLinear",
        ],  # Paddle's signature
        weight_quantize_type: str = "abs_max",
        activation_quantize_type: str = "moving_average_abs_max",
        weight_bits: int = 8,
        activation_bits: int = 8,
        moving_rate: float = 0.9,
        fuse_conv_bn: bool = False,
        weight_preprocess_layer: Any = None,
        act_preprocess_layer: Any = None,
        weight_quantize_layer: Any = None,
        act_quantize_layer: Any = None,
        onnx_format: bool = False,
    ):  # fmt: skip
        name = "ImperativeQuantAware"
        if weight_quantize_type not in _WEIGHTS:
            raise errors.bad(f"{name}(weight_quantize_type)", f"one of {', '.join(_WEIGHTS)}", weight_quantize_type)
        if activation_quantize_type != "moving_average_abs_max":
            raise errors.bad(f"{name}(activation_quantize_type)", "'moving_average_abs_max'", activation_quantize_type)
        for which, given in (
            ("fuse_conv_bn", fuse_conv_bn),
            ("weight_preprocess_layer", weight_preprocess_layer),
            ("act_preprocess_layer", act_preprocess_layer),
        ):
            if given:
                raise errors.bad(f"{name}({which})", "False or None", given)
        weight = _WEIGHTS[weight_quantize_type](weight_bits)
        activation: QuanterFactory = FakeQuanterWithAbsMaxObserver(moving_rate, activation_bits)
        config = QuantConfig(None, None)
        config.add_type_config(
            [kind for kind in map(_kind, quantizable_layer_type) if kind is not None],
            activation=activation if act_quantize_layer is None else _Own(act_quantize_layer),
            weight=weight if weight_quantize_layer is None else _Own(weight_quantize_layer),
        )
        self._qat = QAT(config)

    def quantize(self, model: Layer) -> Layer:
        """Put quanters into a model, which is changed itself.

        Args:
            model: Model; it is put into training.

        Returns:
            The model.

        Examples:
            >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 2))
            >>> bireme.quantization.ImperativeQuantAware().quantize(net) is net
            True
        """
        if not isinstance(model, Layer):
            raise errors.bad("quantize(model)", "a layer", model, kind=errors.ArgumentTypeError)
        model.train()
        return self._qat.quantize(model, inplace=True)

    def save_quantized_model(self, layer: Layer, path: str, input_spec: Any = None, **config: Any) -> None:
        """Convert a model to integers and save it, see ``jit.save``.

        Args:
            layer: What ``quantize`` returned, after training.
            path: Path without an ending.
            input_spec: List of ``InputSpec`` of its inputs. Default: None.
            **config: What else ``jit.save`` takes.

        Examples:
            >>> import tempfile
            >>> qat = bireme.quantization.ImperativeQuantAware()
            >>> net = qat.quantize(bireme.nn.Sequential(bireme.nn.Linear(4, 2)))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     qat.save_quantized_model(net, folder + "/net", [bireme.static.InputSpec([None, 4])])
            ...     bireme.jit.load(folder + "/net")(bireme.ones([3, 4])).shape
            [3, 2]
        """
        save(self._qat.convert(layer), path, input_spec, **config)


class _Own(QuanterFactory):
    """A user's class of quanters."""

    def __init__(self, kind: Any):
        if not isinstance(kind, type) or not issubclass(kind, Layer):
            raise errors.bad(
                "ImperativeQuantAware(weight_quantize_layer)",
                "a class of quanters",
                kind,
                kind=errors.ArgumentTypeError,
            )
        super().__init__()
        self._kind = kind

    def _get_class(self) -> type:
        return self._kind


def _kind(given: Any) -> type | None:
    if given in _OTHERS:
        return None
    if isinstance(given, str) and given in _LAYERS:
        return _LAYERS[given]
    if given in _LAYERS.values():
        return given
    known = ", ".join(map(repr, _LAYERS))
    raise errors.bad("ImperativeQuantAware(quantizable_layer_type)", f"names among {known}", given)
