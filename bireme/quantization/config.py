"""Which layers are quantized, and by which quanters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.nn.common import Linear
from bireme.nn.conv import Conv2D
from bireme.nn.layer import Layer
from bireme.nn.quant.qat import QuantedConv2D, QuantedLinear
from bireme.nn.quant.stub import QuanterStub, Stub
from bireme.quantization.factory import QuanterFactory, check_factory
from bireme.quantization.wrapper import ObserveWrapper

DEFAULT_QAT_LAYER_MAPPINGS: dict[type, type] = {Stub: QuanterStub, Linear: QuantedLinear, Conv2D: QuantedConv2D}


class SingleLayerConfig:
    """Factories for the inputs and the weights of a layer."""

    def __init__(self, activation: QuanterFactory | None, weight: QuanterFactory | None):
        self.activation, self.weight = activation, weight

    def __str__(self) -> str:
        return f"activation: {self.activation}\nweight: {self.weight}"


class QuantConfig:
    """Which quanters the layers of a network get.

    A layer has the configuration of its name if there is one, else of its type, else that of the layer it stands in,
    and last the global one.

    Args:
        activation: Factory of quanters for inputs; None leaves them as they are.
        weight: Factory of quanters for weights; None leaves them as they are.

    Raises:
        TypeError: If something else is given.

    Examples:
        >>> from bireme.quantization import QuantConfig
        >>> from bireme.quantization.observers import AbsmaxObserver
        >>> config = QuantConfig(activation=None, weight=None)
        >>> config.add_type_config(bireme.nn.Linear, activation=AbsmaxObserver(), weight=AbsmaxObserver())
        >>> print(config.details().splitlines()[-1])
        Linear: activation AbsmaxObserver(quant_bits=8), weight AbsmaxObserver(quant_bits=8)
    """

    def __init__(self, activation: QuanterFactory | None, weight: QuanterFactory | None):
        self._global_config = self._made("QuantConfig", activation, weight)
        self._type2config: dict[type, SingleLayerConfig] = {}
        self._name2config: dict[str, SingleLayerConfig] = {}
        self._qat_layer_mapping = dict(DEFAULT_QAT_LAYER_MAPPINGS)
        self._customized_leaves: list[type] = []
        self._layer2config: dict[int, SingleLayerConfig] = {}

    @staticmethod
    def _made(where: str, activation: Any, weight: Any) -> SingleLayerConfig | None:
        check_factory(f"{where}(activation)", activation)
        check_factory(f"{where}(weight)", weight)
        return None if activation is None and weight is None else SingleLayerConfig(activation, weight)

    def add_layer_config(
        self,
        layer: Layer | Sequence[Layer],
        activation: QuanterFactory | None = None,
        weight: QuanterFactory | None = None,
    ) -> None:
        """Configure certain layers, and what stands in them.

        Args:
            layer: Layer, or list of layers.
            activation: Factory of quanters for inputs. Default: None.
            weight: Factory of quanters for weights. Default: None.

        Raises:
            TypeError: If something else than layers is given.

        Examples:
            >>> net = bireme.nn.Sequential(bireme.nn.Linear(2, 2), bireme.nn.Linear(2, 2))
            >>> config = bireme.quantization.QuantConfig(None, None)
            >>> config.add_layer_config(net[0], weight=bireme.quantization.observers.AbsmaxObserver())
        """
        layers: list[Any] = list(layer) if isinstance(layer, (list, tuple)) else [layer]
        for one in layers:
            if not isinstance(one, Layer):
                raise errors.bad("add_layer_config(layer)", "a layer", one, kind=errors.ArgumentTypeError)
        self._add("add_layer_config", self._name2config, [one.full_name() for one in layers], activation, weight)

    def add_name_config(
        self,
        layer_name: str | Sequence[str],
        activation: QuanterFactory | None = None,
        weight: QuanterFactory | None = None,
    ) -> None:
        """Configure layers by their names, and what stands in them.

        Args:
            layer_name: What ``layer.full_name()`` returns, or a list of such names.
            activation: Factory of quanters for inputs. Default: None.
            weight: Factory of quanters for weights. Default: None.

        Raises:
            TypeError: If something else than names is given.

        Examples:
            >>> layer = bireme.nn.Linear(2, 2)
            >>> config = bireme.quantization.QuantConfig(None, None)
            >>> config.add_name_config(layer.full_name(), weight=bireme.quantization.observers.AbsmaxObserver())
        """
        names = list(layer_name) if isinstance(layer_name, (list, tuple)) else [layer_name]
        for one in names:
            if not isinstance(one, str):
                raise errors.bad("add_name_config(layer_name)", "a name", one, kind=errors.ArgumentTypeError)
        self._add("add_name_config", self._name2config, names, activation, weight)

    def add_type_config(
        self,
        layer_type: type[Layer] | Sequence[type[Layer]],
        activation: QuanterFactory | None = None,
        weight: QuanterFactory | None = None,
    ) -> None:
        """Configure all layers of a class, and what stands in them.

        Args:
            layer_type: Class of layers, or list of classes.
            activation: Factory of quanters for inputs. Default: None.
            weight: Factory of quanters for weights. Default: None.

        Raises:
            TypeError: If something else than classes of layers is given.

        Examples:
            >>> config = bireme.quantization.QuantConfig(None, None)
            >>> config.add_type_config(bireme.nn.Linear, weight=bireme.quantization.observers.AbsmaxObserver())
        """
        types = list(layer_type) if isinstance(layer_type, (list, tuple)) else [layer_type]
        for one in types:
            _check_type("add_type_config(layer_type)", one)
        self._add("add_type_config", self._type2config, types, activation, weight)

    def _add(self, where: str, table: dict, keys: list, activation: Any, weight: Any) -> None:
        made = self._made(where, activation, weight)
        if made is not None:
            table |= dict.fromkeys(keys, made)

    def add_qat_layer_mapping(self, source: type[Layer], target: type[Layer]) -> None:
        """Say which class takes the place of a class of layers.

        Args:
            source: Class of layers.
            target: Class that is called with a layer and its configuration, see ``nn.quant.qat.QuantedLinear``.

        Raises:
            TypeError: If something else than classes of layers is given.

        Examples:
            >>> class Mine(bireme.nn.Linear):
            ...     pass
            >>> config = bireme.quantization.QuantConfig(None, None)
            >>> config.add_qat_layer_mapping(Mine, bireme.nn.quant.qat.QuantedLinear)
        """
        _check_type("add_qat_layer_mapping(source)", source)
        _check_type("add_qat_layer_mapping(target)", target)
        self._qat_layer_mapping[source] = target

    def add_customized_leaf(self, layer_type: type[Layer]) -> None:
        """Treat a class of layers as one, whatever stands in it: only its input is quantized.

        Args:
            layer_type: Class of layers.

        Raises:
            TypeError: If it is no class of layers.

        Examples:
            >>> config = bireme.quantization.QuantConfig(None, None)
            >>> config.add_customized_leaf(bireme.nn.Sequential)
            >>> len(config.customized_leaves)
            1
        """
        _check_type("add_customized_leaf(layer_type)", layer_type)
        self._customized_leaves.append(layer_type)

    @property
    def customized_leaves(self) -> list[type]:
        """Classes that were given to ``add_customized_leaf``."""
        return self._customized_leaves

    @property
    def qat_layer_mappings(self) -> dict[type, type]:
        """Classes that take the place of classes of layers."""
        return self._qat_layer_mapping

    @property
    def default_qat_layer_mapping(self) -> dict[type, type]:
        """The same without what was added."""
        return DEFAULT_QAT_LAYER_MAPPINGS

    @property
    def global_config(self) -> SingleLayerConfig | None:
        """Configuration of layers that have no other; None if they are not quantized."""
        return self._global_config

    # ---------------------------------------------------------------- for those who quantize

    def _specify(self, model: Layer) -> None:
        """Find the configuration of every layer of a model."""
        self._layer2config = {}
        self._found(model, self._global_config)

    def _found(self, layer: Layer, inherited: SingleLayerConfig | None) -> None:
        config = self._type2config.get(type(layer), inherited)
        config = self._name2config.get(layer.full_name(), config)
        if config is not None:
            self._layer2config[id(layer)] = config
        for child in layer.children():
            self._found(child, config)

    def _config_of(self, layer: Layer) -> SingleLayerConfig | None:
        return self._layer2config.get(id(layer))

    def _quanted(self, layer: Layer) -> Layer | None:
        """The layer that takes the place of another, if its class has such."""
        config, target = self._config_of(layer), self._qat_layer_mapping.get(type(layer))
        if config is None and isinstance(layer, Stub) and layer._observer is not None:
            config = SingleLayerConfig(None, None)
        return None if config is None or target is None else target(layer, config)

    def _is_leaf(self, layer: Layer) -> bool:
        return type(layer) in self._customized_leaves or not any(True for _ in layer.children())

    def _observed(self, layer: Layer) -> Layer | None:
        """A leaf with a quanter in front, if its inputs are quantized."""
        config = self._config_of(layer)
        if config is None or config.activation is None or not self._is_leaf(layer):
            return None
        return ObserveWrapper(config.activation._instance(layer), layer)

    def details(self) -> str:
        """Return what is configured.

        Returns:
            Text of several lines.

        Examples:
            >>> print(bireme.quantization.QuantConfig(None, None).details())
            Global config:
            None
        """

        def lines(table: dict) -> str:
            return "\n".join(
                f"{getattr(k, '__name__', k)}: activation {c.activation}, weight {c.weight}" for k, c in table.items()
            )

        parts = [f"Global config:\n{self._global_config}"]
        if self._type2config:
            parts.append(f"Layer type config:\n{lines(self._type2config)}")
        if self._name2config:
            parts.append(f"Layer prefix config:\n{lines(self._name2config)}")
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.details()


def _check_type(where: str, given: Any) -> None:
    if not isinstance(given, type) or not issubclass(given, Layer):
        raise errors.bad(where, "a class of layers", given, kind=errors.ArgumentTypeError)
