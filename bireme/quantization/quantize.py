"""QAT and PTQ: quanters into a network, and the network to integers."""

from __future__ import annotations

import copy
from typing import Any

from bireme.core.base import errors
from bireme.nn.layer import Layer
from bireme.nn.quant.format import ConvertibleQuantedLayer, LinearQuanterDequanter
from bireme.nn.quant.stub import QuanterStub
from bireme.quantization.config import QuantConfig
from bireme.quantization.wrapper import ObserveWrapper


class Quantization:
    """What training with quantization and quantization after training have in common."""

    _training: bool

    def __init__(self, config: QuantConfig):
        if not isinstance(config, QuantConfig):
            raise errors.bad(
                f"{type(self).__name__}(config)", "a QuantConfig", config, kind=errors.MissingAttributeError
            )
        # what is added to a configuration later does not change what was made with it
        self._config = copy.copy(config)
        for name in ("_type2config", "_name2config", "_qat_layer_mapping", "_customized_leaves"):
            setattr(self._config, name, copy.copy(getattr(config, name)))

    def _quantized(self, model: Layer, inplace: bool) -> Layer:
        if not isinstance(model, Layer):
            raise errors.bad("quantize(model)", "a layer", model, kind=errors.ArgumentTypeError)
        if model.training != self._training:
            name, mode = type(self).__name__, "training" if self._training else "evaluation"
            hint = f"call model.{'train' if self._training else 'eval'}() first"
            raise errors.bad("quantize(model)", f"a model in {mode} for {name}", described="the other", hint=hint)
        made = model if inplace else copy.deepcopy(model)
        self._config._specify(made)
        return self._replaced(made)

    def _replaced(self, layer: Layer) -> Layer:
        found = self._config._quanted(layer) or self._config._observed(layer)
        if found is not None:
            if not layer.training:
                found.eval()
            return found
        if not self._config._is_leaf(layer):
            for name, child in list(layer.named_children()):
                new = self._replaced(child)
                if new is not child:
                    layer._sub_layers[name] = new
        return layer

    def convert(self, model: Layer, inplace: bool = False, remain_weight: bool = False) -> Layer:
        """Convert a quantized model to integers: weights are stored as such, and products are made of them.

        A layer whose weight and input both have 8 bits multiplies int8 by int8. In one that has only a quantized
        weight, or integers of 4 bits, which are stored two in a byte, the weight is turned into numbers when it is
        used.

        Args:
            model: What ``quantize`` returned, after training or after it was run on data.
            inplace: Change the model itself. Default: False.
            remain_weight: Keep the weights in floating point, and only simulate the integers. Default: False.

        Returns:
            The converted model, in evaluation. ``jit.save`` saves it.

        Raises:
            TypeError: If ``model`` is no layer.

        Examples:
            >>> from bireme.quantization import PTQ, QuantConfig
            >>> from bireme.quantization.observers import AbsmaxObserver
            >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 2))
            >>> net.eval()
            Sequential(
              (0): Linear(in_features=4, out_features=2, dtype=float32)
            )
            >>> ptq = PTQ(QuantConfig(activation=AbsmaxObserver(), weight=AbsmaxObserver()))
            >>> quantized = ptq.quantize(net)
            >>> quantized(bireme.ones([3, 4])).shape
            [3, 2]
            >>> ptq.convert(quantized)[0].weight.dtype.name
            'int8'
        """
        if not isinstance(model, Layer):
            raise errors.bad("convert(model)", "a layer", model, kind=errors.ArgumentTypeError)
        made = model if inplace else copy.deepcopy(model)
        made.eval()
        for layer in made.sublayers(include_self=True):
            if isinstance(layer, ConvertibleQuantedLayer):
                if not layer.converted:
                    layer._to_integers(remain_weight=remain_weight)
            elif isinstance(layer, (ObserveWrapper, QuanterStub)):
                layer._observer = _converted(layer._observer)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config.details()})"


def _converted(observer: Any) -> Layer | None:
    if observer is None or isinstance(observer, LinearQuanterDequanter):
        return observer
    return None if observer.scales() is None else LinearQuanterDequanter.from_quanter(observer)


class QAT(Quantization):
    """Training of a network whose layers compute as if weights and inputs were quantized already.

    The gradient passes through the rounding as if it were not there.

    Args:
        config: Which layers get which quanters.

    Raises:
        TypeError: If ``config`` is no ``QuantConfig``.

    Examples:
        >>> from bireme.quantization import QAT, QuantConfig
        >>> from bireme.quantization.quanters import FakeQuanterWithAbsMaxObserver
        >>> quanter = FakeQuanterWithAbsMaxObserver(moving_rate=0.9)
        >>> qat = QAT(QuantConfig(activation=quanter, weight=quanter))
        >>> net = qat.quantize(bireme.nn.Sequential(bireme.nn.Linear(4, 2)))
        >>> type(net[0]).__name__
        'QuantedLinear'
    """

    _training = True

    def quantize(self, model: Layer, inplace: bool = False) -> Layer:
        """Put quanters into a model.

        Args:
            model: Model in training, ``model.train()``.
            inplace: Change the model itself. Default: False.

        Returns:
            The model with quanters, to be trained.

        Raises:
            ValueError: If the model is in evaluation.

        Examples:
            >>> from bireme.quantization import QAT, QuantConfig
            >>> from bireme.quantization.quanters import FakeQuanterWithAbsMaxObserver
            >>> qat = QAT(QuantConfig(activation=None, weight=FakeQuanterWithAbsMaxObserver()))
            >>> qat.quantize(bireme.nn.Linear(4, 2))(bireme.ones([1, 4])).shape
            [1, 2]
        """
        return self._quantized(model, inplace)


class PTQ(Quantization):
    """Quantization of a network that was trained: observers see some batches, and scales follow from them.

    Args:
        config: Which layers get which observers.

    Raises:
        TypeError: If ``config`` is no ``QuantConfig``.

    Examples:
        >>> from bireme.quantization import PTQ, QuantConfig
        >>> from bireme.quantization.observers import AbsmaxObserver
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 2))
        >>> _ = net.eval()
        >>> ptq = PTQ(QuantConfig(activation=AbsmaxObserver(), weight=AbsmaxObserver()))
        >>> quantized = ptq.quantize(net)
        >>> y = quantized(bireme.ones([1, 4]))
        >>> type(ptq.convert(quantized)[0]).__name__
        'QuantedLinear'
    """

    _training = False

    def quantize(self, model: Layer, inplace: bool = False) -> Layer:
        """Put observers into a model.

        Args:
            model: Model in evaluation, ``model.eval()``.
            inplace: Change the model itself. Default: False.

        Returns:
            The model with observers, to be run on some batches.

        Raises:
            ValueError: If the model is in training.

        Examples:
            >>> from bireme.quantization import PTQ, QuantConfig
            >>> from bireme.quantization.observers import AbsmaxObserver
            >>> net = bireme.nn.Linear(4, 2)
            >>> _ = net.eval()
            >>> type(PTQ(QuantConfig(None, AbsmaxObserver())).quantize(net)).__name__
            'QuantedLinear'
        """
        return self._quantized(model, inplace)
