"""MetaParallelBase: a layer around the model that hybrid parallel training trains."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.nn.layer import Layer

__all__ = ["MetaParallelBase"]


class MetaParallelBase(Layer):
    """A layer around a model.

    Args:
        layers: The model.
        hcg: Groups along each axis.
        strategy: Options of training.
    """

    def __init__(self, layers: Layer, hcg: HybridCommunicateGroup, strategy: Any) -> None:
        if not isinstance(layers, Layer):
            raise errors.bad(f"{type(self).__name__}(layers)", "a Layer", layers, kind=errors.ArgumentTypeError)
        if not isinstance(hcg, HybridCommunicateGroup):
            raise errors.bad(
                f"{type(self).__name__}(hcg)", "a HybridCommunicateGroup", hcg, kind=errors.MissingAttributeError
            )
        super().__init__(f"{layers.full_name()}_meta_parallel_base")
        self._layers, self._hcg, self._strategy = layers, hcg, strategy
        self._prepare_for_model()

    def _prepare_for_model(self) -> None:
        """Let all processes begin with the same parameters where they are not divided."""

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return parameters and persistable buffers by the names that they have in the model.

        Args:
            *args: Arguments of the model's ``state_dict``.
            **kwargs: Its keyword arguments.

        Returns:
            A dict of names and tensors.
        """
        return self._layers.state_dict(*args, **kwargs)

    def set_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Set parameters and buffers from what ``state_dict`` returned, of this or of the model.

        Args:
            *args: Arguments of the model's ``set_state_dict``.
            **kwargs: Its keyword arguments.

        Returns:
            What the model's ``set_state_dict`` returns.
        """
        return self._layers.set_state_dict(*args, **kwargs)

    set_dict = load_dict = set_state_dict

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the model.

        Args:
            *inputs: Inputs of the model.
            **kwargs: Further inputs by name.

        Returns:
            What the model returns.
        """
        return self._layers(*inputs, **kwargs)
