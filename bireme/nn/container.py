"""Layers that hold other layers or parameters in order or by name."""

from __future__ import annotations

import numbers
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.parameter import Parameter
from bireme.nn.layer import Layer


class Sequential(Layer):
    """Applies layers one after the other.

    Args:
        *layers: The layers, or pairs (name, layer), or one dict of names and layers. Without names they are numbered.

    Shape:
        - input: what the first layer takes
        - output: what the last layer returns

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.ReLU(), bireme.nn.Flatten(0))
        >>> net(bireme.to_tensor([[-1.0, 2.0]])).tolist()
        [0.0, 2.0]
        >>> bireme.nn.Sequential(("act", bireme.nn.ReLU()))["act"]
        ReLU()
    """

    def __init__(self, *layers: Layer | tuple[str, Layer] | list[Any] | Mapping[str, Layer]):
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            layers = tuple(layers[0].items())
        named = bool(layers) and isinstance(layers[0], (list, tuple))
        for i, given in enumerate(layers):
            if not named:
                with errors.within("Sequential", sublayer=f"layers[{i}]"):
                    self.add_sublayer(str(i), given)
            elif isinstance(given, (list, tuple)) and len(given) == 2 and isinstance(given[0], str):
                with errors.within("Sequential", sublayer=f"layers[{i}]"):
                    self.add_sublayer(*given)
            else:
                hint = "a list of layers is unpacked with a star: Sequential(*layers)"
                raise errors.bad(
                    "Sequential(layers)",
                    "layers, or pairs (name, layer)",
                    given,
                    hint=hint,
                    kind=errors.ArgumentTypeError,
                )

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, slice):
            return type(self)(*list(self._sub_layers.values())[name])
        return self._sub_layers[self._key(name)]

    def __setitem__(self, name: Any, layer: Layer) -> None:
        new = isinstance(name, str) or name == len(self)
        self.add_sublayer(self._free_key() if name == len(self) else name if new else self._key(name), layer)

    def __delitem__(self, name: Any) -> None:
        keys = list(self._sub_layers)[name] if isinstance(name, slice) else [self._key(name)]
        for key in keys:
            del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def _key(self, name: Any) -> str:
        if isinstance(name, str):
            if name not in self._sub_layers:
                raise _no_key("Sequential", name, self._sub_layers)
            return name
        return list(self._sub_layers)[_position("Sequential", name, len(self))]

    def _free_key(self) -> str:
        # after a deletion the numbers have gaps; a new layer must not replace an existing one
        n = len(self)
        while str(n) in self._sub_layers:
            n += 1
        return str(n)

    def append(self, module: Layer) -> Sequential:
        """Add a layer at the end.

        Args:
            module: The layer.

        Returns:
            This container.
        """
        with errors.within("append", sublayer="module"):
            self.add_sublayer(self._free_key(), module)
        return self

    def insert(self, index: int, module: Layer) -> Sequential:
        """Insert a layer before an index; all layers are renumbered.

        Args:
            index: Index in ``[-len, len]``.
            module: The layer.

        Returns:
            This container.
        """
        if not -len(self) <= index <= len(self):
            raise errors.bad(
                "insert(index)", f"an index in [{-len(self)}, {len(self)}]", index, kind=errors.OutOfRangeError
            )
        layers = list(self._sub_layers.values())
        layers.insert(index, module)
        with errors.within("insert", sublayer="module"):
            _renumber(self, layers)
        return self

    def extend(self, sequential: Iterable[Layer]) -> Sequential:
        """Add all layers of another container or list at the end.

        Args:
            sequential: Iterable of layers.

        Returns:
            This container.
        """
        for i, layer in enumerate(sequential):
            with errors.within("extend", module=f"sequential[{i}]"):
                self.append(layer)
        return self

    def forward(self, input: Any) -> Any:
        """Apply the layers in order.

        Args:
            input: Input of the first layer; each layer takes what the one before returned.

        Returns:
            The output of the last layer.
        """
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """List of layers that are registered as sublayers; it has no ``forward`` of its own.

    Indexing, slices, assignment, ``del`` and iteration work as for a list.

    Args:
        sublayers: Iterable of layers. Default: None, an empty list.

    Examples:
        >>> len(bireme.nn.LayerList([bireme.nn.ReLU(), bireme.nn.Tanh()]))
        2
    """

    def __init__(self, sublayers: Iterable[Layer] | None = None):
        super().__init__()
        with errors.within("LayerList", "sublayers"):
            self.extend(sublayers or ())

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._sub_layers.values())[idx])
        if isinstance(idx, str):
            if idx not in self._sub_layers:
                raise _no_key("LayerList", idx, self._sub_layers)
            return self._sub_layers[idx]
        return self._sub_layers[str(_position("LayerList", idx, len(self)))]

    def __setitem__(self, idx: int, sublayer: Layer) -> None:
        self.add_sublayer(str(_position("LayerList", idx, len(self))), sublayer)

    def __delitem__(self, idx: Any) -> None:
        layers = list(self._sub_layers.values())
        del layers[idx if isinstance(idx, slice) else _position("LayerList", idx, len(self))]
        _renumber(self, layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Layer) -> LayerList:
        """Add a layer at the end.

        Args:
            sublayer: The layer.

        Returns:
            This list.
        """
        with errors.within("append", "sublayer"):
            self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        """Insert a layer before an index.

        Args:
            index: Index in ``[-len, len]``.
            sublayer: The layer.
        """
        if not isinstance(index, numbers.Integral) or not -len(self) <= index <= len(self):
            raise errors.bad(
                "insert(index)", f"an index in [{-len(self)}, {len(self)}]", index, kind=errors.OutOfRangeError
            )
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        with errors.within("insert", "sublayer"):
            _renumber(self, layers)

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        """Add all layers of an iterable at the end.

        Args:
            sublayers: Iterable of layers.

        Returns:
            This list.
        """
        for i, layer in enumerate(sublayers):
            with errors.within("extend", sublayer=f"sublayers[{i}]"):
                self.append(layer)
        return self


class ParameterList(Layer):
    """List of parameters that are registered, so that ``parameters()`` finds them.

    Args:
        parameters: Iterable of parameters. Default: None, an empty list.

    Examples:
        >>> layer = bireme.nn.Layer()
        >>> len(bireme.nn.ParameterList([layer.create_parameter([2])]).parameters())
        1
    """

    def __init__(self, parameters: Iterable[Parameter] | None = None):
        super().__init__()
        for i, p in enumerate(parameters or ()):
            with errors.within("ParameterList", parameter=f"parameters[{i}]"):
                self.append(p)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._parameters.values())[idx])
        return self._parameters[str(_position("ParameterList", idx, len(self)))]

    def __setitem__(self, idx: int, param: Parameter) -> None:
        setattr(self, str(_position("ParameterList", idx, len(self))), param)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter | None]:
        return iter(list(self._parameters.values()))

    def append(self, parameter: Parameter) -> ParameterList:
        """Add a parameter at the end.

        Args:
            parameter: The parameter.

        Returns:
            This list.
        """
        with errors.within("append", "parameter"):
            self.add_parameter(str(len(self)), parameter)
        return self


class ParameterDict(Layer):
    """Dict of parameters that are registered, so that ``parameters()`` finds them.

    Args:
        parameters: Dict of names and parameters, or pairs (name, parameter). Default: None, an empty dict.

    Examples:
        >>> layer = bireme.nn.Layer()
        >>> list(bireme.nn.ParameterDict({"w": layer.create_parameter([2])}))
        ['w']
    """

    def __init__(self, parameters: Mapping[str, Parameter] | Iterable[tuple[str, Parameter]] | None = None):
        super().__init__()
        if parameters is not None:
            with errors.within("ParameterDict", "parameters"):
                self.update(parameters)

    def __getitem__(self, key: str) -> Parameter | None:
        if key not in self._parameters:
            raise _no_key("ParameterDict", key, self._parameters)
        return self._parameters[key]

    def __setitem__(self, key: str, param: Parameter) -> None:
        if not isinstance(param, Parameter):
            raise errors.bad(f"ParameterDict[{key!r}]", "a Parameter", param, kind=errors.ArgumentTypeError)
        setattr(self, key, param)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._parameters))

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def update(self, parameters: Mapping[str, Parameter] | Iterable[tuple[str, Parameter]]) -> None:
        """Add parameters; those of the same name are replaced.

        Args:
            parameters: Dict of names and parameters, or pairs (name, parameter).
        """
        if not isinstance(parameters, Iterable):
            raise errors.bad(
                "update(parameters)", "a dict, or pairs (name, parameter)", parameters, kind=errors.ArgumentTypeError
            )
        for pair in parameters.items() if isinstance(parameters, Mapping) else parameters:
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise errors.bad("update(parameters)", "pairs (name, parameter)", pair)
            self[pair[0]] = pair[1]


class LayerDict(Layer):
    """Dict of layers that are registered as sublayers; it has no ``forward`` of its own.

    Args:
        sublayers: Dict of names and layers, another ``LayerDict``, or pairs (name, layer). Default: None, an empty
            dict.

    Examples:
        >>> bireme.nn.LayerDict({"act": bireme.nn.ReLU()})["act"]
        ReLU()
    """

    def __init__(self, sublayers: Mapping[str, Layer] | LayerDict | Iterable[tuple[str, Layer]] | None = None):
        super().__init__()
        if sublayers is not None:
            with errors.within("LayerDict", "sublayers"):
                self.update(sublayers)

    def __getitem__(self, key: str) -> Layer | None:
        if key not in self._sub_layers:
            raise _no_key("LayerDict", key, self._sub_layers)
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        """Remove all layers."""
        self._sub_layers.clear()

    def pop(self, key: str) -> Layer | None:
        """Remove a layer and return it.

        Args:
            key: Name of the layer.

        Returns:
            The layer.
        """
        return self._sub_layers.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._sub_layers.keys()

    def values(self) -> ValuesView[Layer | None]:
        """The layers."""
        return self._sub_layers.values()

    def items(self) -> ItemsView[str, Layer | None]:
        """Pairs of names and layers."""
        return self._sub_layers.items()

    def update(self, sublayers: Mapping[str, Layer] | LayerDict | Iterable[tuple[str, Layer]]) -> None:
        """Add layers; those of the same name are replaced.

        Args:
            sublayers: Dict of names and layers, another ``LayerDict``, or pairs (name, layer).
        """
        if not isinstance(sublayers, Iterable):
            raise errors.bad(
                "update(sublayers)", "a dict or pairs (name, layer)", sublayers, kind=errors.ArgumentTypeError
            )
        pairs = sublayers.items() if isinstance(sublayers, (Mapping, LayerDict)) else sublayers
        for pair in pairs:
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise errors.bad("update(sublayers)", "pairs (name, layer)", pair, kind=errors.ArgumentTypeError)
            with errors.within("update", sublayer=f"sublayers[{pair[0]!r}]"):
                self.add_sublayer(*pair)


def _no_key(where: str, key: Any, known: Iterable[str]) -> Exception:
    names = ", ".join(f"'{name}'" for name in known)
    return errors.bad(
        f"{where}[key]", f"one of {names}" if names else "no key, since it is empty", key, kind=errors.MissingKeyError
    )


def _position(where: str, index: Any, n: int) -> int:
    """An index in [0, n) from one that may count from the end."""
    if not isinstance(index, numbers.Integral):
        raise errors.bad(f"{where}[index]", "an integer or a slice", index, kind=errors.ArgumentTypeError)
    if not -n <= index < n:
        raise errors.bad(
            f"{where}[index]",
            f"an index in [{-n}, {n - 1}]" if n else "no index, since it is empty",
            index,
            kind=errors.OutOfRangeError,
        )
    return int(index) % n


def _renumber(owner: Layer, layers: list) -> None:
    owner._sub_layers.clear()
    for i, layer in enumerate(layers):
        owner.add_sublayer(str(i), layer)
