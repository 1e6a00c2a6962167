"""The state of a Layer: its parameters and buffers as a dict of names, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor


class State(Guarded):
    """The part of ``Layer`` that returns and takes state dicts."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _sub_layers: dict[str, Any]
    _state_dict_hooks: dict[int, Any]
    _non_persistable_buffer_names_set: set[str]

    def state_dict(
        self,
        destination: dict | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
        keep_vars: bool = True,
    ) -> dict[str, Tensor]:
        """Return parameters and persistable buffers by structured name.

        The tensors are those of the layer, not copies: later training steps show in them.

        Args:
            destination: Dict to add the tensors to. Default: None, a new ``OrderedDict``.
            include_sublayers: Include those of all sublayers. Default: True.
            structured_name_prefix: Prepended to the names. Default: ``''``.
            use_hook: Call the hooks that ``register_state_dict_hook`` registered. Default: True.
            keep_vars: Return the tensors themselves; ``False`` returns detached copies. Default: True.

        Returns:
            A dict of names and tensors, for ``bireme.save`` and ``set_state_dict``.

        Examples:
            >>> list(bireme.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        return self._state_dict_impl(destination, include_sublayers, structured_name_prefix, False, use_hook, keep_vars)

    def to_static_state_dict(
        self,
        destination: dict | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
        keep_vars: bool = True,
    ) -> dict[str, Tensor]:
        """Return all parameters and buffers by structured name, also those that are not persistable.

        Args:
            destination: Dict to add the tensors to. Default: None, a new ``OrderedDict``.
            include_sublayers: Include those of all sublayers. Default: True.
            structured_name_prefix: Prepended to the names. Default: ``''``.
            use_hook: Call the hooks that ``register_state_dict_hook`` registered. Default: True.
            keep_vars: Return the tensors themselves; ``False`` returns detached copies. Default: True.

        Returns:
            A dict of names and tensors.

        Examples:
            >>> layer = bireme.nn.Layer()
            >>> layer.register_buffer("now", bireme.zeros([1]), persistable=False)
            >>> list(layer.to_static_state_dict()), list(layer.state_dict())
            (['now'], [])
        """
        return self._state_dict_impl(destination, include_sublayers, structured_name_prefix, True, use_hook, keep_vars)

    def _state_dict_impl(
        self,
        destination: dict | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        include_non_persistable_buffer: bool = False,
        use_hook: bool = True,
        keep_vars: bool = True,
    ) -> dict[str, Tensor]:
        """Common part; as in Paddle, a ``state_dict`` that a layer or a sublayer overrides is not called."""
        state = OrderedDict() if destination is None else destination
        hidden = () if include_non_persistable_buffer else self._non_persistable_buffer_names_set
        own = [*self._parameters.items(), *((n, b) for n, b in self._buffers.items() if n not in hidden)]
        for name, held in own:
            if held is not None:
                state[structured_name_prefix + name] = held if keep_vars else held.detach().clone()
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    inside = f"{structured_name_prefix}{name}."
                    layer._state_dict_impl(state, True, inside, include_non_persistable_buffer, use_hook, keep_vars)
        if use_hook:
            for hook in list(self._state_dict_hooks.values()):
                new = hook(state)
                state = state if new is None else new
        return state

    def full(self, aoa_config: Any = None, process_group: Any = None) -> Iterator[tuple[str, Tensor]]:
        """Iterate over names and whole tensors of the state dict, sorted by name.

        On one machine no tensor is sharded, so these are the tensors themselves.

        Args:
            aoa_config: Must be None: there are no shards to put together. Default: None.
            process_group: Must be None. Default: None.

        Yields:
            Pairs (name, tensor).

        Examples:
            >>> [name for name, _ in bireme.nn.Linear(2, 3).full()]
            ['bias', 'weight']
        """
        if aoa_config is not None or process_group is not None:
            raise errors.bad(
                "full(aoa_config, process_group)", "None, since there is one process", aoa_config or process_group
            )
        yield from sorted(self.state_dict().items())

    def set_state_dict(self, state_dict: dict, use_structured_name: bool = True) -> tuple[list[str], list[str]]:
        """Copy values from a state dict into the parameters and buffers of this layer.

        What the state dict lacks, and values of another shape, are skipped with a warning. Nothing is changed if a
        value has another data type.

        Args:
            state_dict: Dict of names and tensors or arrays.
            use_structured_name: Look up structured names such as ``'0.weight'``; ``False`` looks up the tensors' own
                names, such as ``'linear_0.w_0'``. Default: True.

        Returns:
            A tuple of two lists: names that were skipped, and names in the state dict that were not used.

        Examples:
            >>> bireme.nn.Linear(1, 1).set_state_dict({"weight": bireme.ones([1, 1]), "extra": bireme.ones([1])})
            (['bias'], ['extra'])
        """
        where = f"{errors.called(('set_state_dict', 'set_dict', 'load_dict'))}(state_dict)"
        if not isinstance(state_dict, dict):
            raise errors.bad(where, "a dict of name to Tensor", state_dict, kind=errors.MissingAttributeError)
        missing, used, found = [], set(), []
        for name, held in self._state_dict_impl(use_hook=False).items():
            key = name if use_structured_name else held.name
            given = state_dict.get(key)
            if given is None:
                errors.warn(f"{where}: skipped {key}: it is not in the state dict")
                missing.append(key)
                continue
            value = given if isinstance(given, Tensor) else np.asarray(given)
            if isinstance(value, np.ndarray) and value.dtype.kind in "OSUMm":
                raise errors.bad(
                    f"{where}, {key}", "a Tensor or an array of numbers", given, kind=errors.NotATensorError
                )
            if list(value.shape) != held.shape:
                errors.warn(f"{where}: skipped {key}: expected shape {held.shape}, got {list(value.shape)}")
                missing.append(key)
                continue
            kind = dtypes.of(value.dtype)
            if kind is not held.dtype and (kind, held.dtype) != (
                dtypes.uint16,
                dtypes.bfloat16,
            ):  # Paddle's arrays hold the bits of bfloat16
                raise errors.bad(f"{where}, {key}", held.dtype.name, described=kind.name, kind=errors.ArgumentError)
            used.add(key)
            found.append((held, value))
        # nothing is changed before everything has been checked
        for held, value in found:
            held.set_value(value)
        return missing, [k for k in state_dict if k not in used]

    set_dict = set_state_dict
    load_dict = set_state_dict
