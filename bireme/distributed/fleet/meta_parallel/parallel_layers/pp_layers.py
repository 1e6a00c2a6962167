"""Models as lists of layers, which a pipeline divides into stages. One process has one stage with all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.distributed.fleet.base.topology import CommunicateTopology
from bireme.distributed.fleet.recompute.recompute import recompute
from bireme.distributed.world import only_one
from bireme.nn.container import LayerDict
from bireme.nn.layer import Layer

__all__ = ["LayerDesc", "PipelineLayer", "SharedLayerDesc"]


class LayerDesc:
    """A layer that is made later, by the process whose stage it belongs to.

    Args:
        layer_func: Class of the layer.
        *inputs: Arguments of its constructor.
        **kwargs: Keyword arguments of its constructor.

    Raises:
        TypeError: If ``layer_func`` is no subclass of ``Layer``.

    Examples:
        >>> desc = bireme.distributed.fleet.meta_parallel.LayerDesc(bireme.nn.Linear, 4, 3)
        >>> desc, desc.build_layer().weight.shape
        (Linear(4, 3), [4, 3])
    """

    def __init__(self, layer_func: type[Layer], *inputs: Any, **kwargs: Any) -> None:
        self.layer_func, self.inputs, self.kwargs = layer_func, inputs, kwargs
        if not (isinstance(layer_func, type) and issubclass(layer_func, Layer)):
            raise errors.bad(
                f"{type(self).__name__}(layer_func)", "a subclass of Layer", layer_func, kind=errors.ArgumentTypeError
            )

    def build_layer(self) -> Layer:
        """Return a new layer."""
        return self.layer_func(*self.inputs, **self.kwargs)

    def __repr__(self) -> str:
        given = [repr(i) for i in self.inputs] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.layer_func.__name__}({', '.join(given)})"


class SharedLayerDesc(LayerDesc):
    """A layer that stands at several places of the list and has the same parameters at each.

    Args:
        key: Name that is the same at all of these places.
        layer_func: Class of the layer.
        forward_func: Called with the layer and the input at this place, instead of the layer. Default: None.
        shared_weight_attr: Name of the shared parameter, or a list of names. Default: ``'weight'``.
        *inputs: Arguments of the constructor.
        **kwargs: Keyword arguments of the constructor.

    Examples:
        >>> parallel = bireme.distributed.fleet.meta_parallel
        >>> def head(layer, x):
        ...     return bireme.matmul(x, layer.weight, transpose_y=True)
        >>> layers = [
        ...     parallel.SharedLayerDesc("table", bireme.nn.Embedding, None, "weight", 8, 4),
        ...     parallel.SharedLayerDesc("table", bireme.nn.Embedding, head, "weight", 8, 4),
        ... ]
        >>> model = parallel.PipelineLayer(layers, num_stages=1)
        >>> model(bireme.to_tensor([1, 2])).shape, list(model.state_dict())
        ([2, 8], ['shared_layers.table.weight'])
    """

    def __init__(
        self,
        key: str,
        layer_func: type[Layer],
        forward_func: Callable | None = None,
        shared_weight_attr: str | list[str] = "weight",
        *inputs: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(layer_func, *inputs, **kwargs)
        self.layer_name, self.forward_func = key, forward_func
        self.shared_weight_attr = [shared_weight_attr] if isinstance(shared_weight_attr, str) else shared_weight_attr


class PipelineLayer(Layer):
    """A model as a list of layers, which are called one after the other.

    Args:
        layers: Layers, functions, and descriptions of layers. A tuple that one returns is given whole to the next.
        num_stages: Number of stages. Default: None, the pipe axis of ``topology``.
        topology: Topology of the processes. Default: None.
        loss_fn: Function of output and label, for ``PipelineParallel``. Default: None.
        seg_method: How layers are divided into stages. One stage has all. Default: ``'uniform'``.
        recompute_interval: Number of layers whose results are computed again together in the backward pass; 0 keeps
            them. Default: 0.
        recompute_ctx: Options of recomputing. They have no effect. Default: None.
        num_virtual_pipeline_stages: Number of parts that a process has. Default: None, 1.
        use_cudagraph: Not used. Default: False.
        use_dualpipev: Not used. Default: False.

    Raises:
        ValueError: If neither ``num_stages`` nor ``topology`` is given.
        NotImplementedError: If there is more than one stage.

    Examples:
        >>> parallel = bireme.distributed.fleet.meta_parallel
        >>> layers = [parallel.LayerDesc(bireme.nn.Linear, 4, 8), bireme.nn.ReLU(), bireme.nn.Linear(8, 3)]
        >>> model = parallel.PipelineLayer(layers, num_stages=1)
        >>> model(bireme.ones([2, 4])).shape, list(model.state_dict())
        ([2, 3], ['0.weight', '0.bias', '2.weight', '2.bias'])
    """

    def __init__(
        self,
        layers: Sequence[Any],
        num_stages: int | None = None,
        topology: CommunicateTopology | None = None,
        loss_fn: Callable | list[Callable] | None = None,
        seg_method: str = "uniform",
        recompute_interval: int = 0,
        recompute_ctx: dict | None = None,
        num_virtual_pipeline_stages: int | None = None,
        use_cudagraph: bool = False,
        use_dualpipev: bool = False,
    ) -> None:
        if num_stages is None and topology is None:
            raise errors.bad("PipelineLayer()", "num_stages or topology", described="neither")
        stages = topology.get_dim("pipe") if num_stages is None and topology is not None else num_stages
        only_one("PipelineLayer(num_stages)", stages or 0, "stage")
        only_one("PipelineLayer(num_virtual_pipeline_stages)", num_virtual_pipeline_stages or 1, "part of a stage")
        losses = loss_fn if isinstance(loss_fn, list) else [loss_fn]
        if not all(loss is None or callable(loss) for loss in losses):
            raise errors.bad("PipelineLayer(loss_fn)", "a function", loss_fn, kind=errors.ArgumentTypeError)
        super().__init__()
        self._layers_desc, self._num_layers, self._loss_fn = list(layers), len(layers), losses
        self._topo = CommunicateTopology() if topology is None else topology
        self._num_stages, self._stage_id, self._num_virtual_pipeline_stages = 1, 0, 1
        self._recompute_interval, self.recompute_ctx = recompute_interval, recompute_ctx
        self.segment_parts = [0, self._num_layers]
        self.shared_layers = LayerDict()
        self.run_function = [self._built(i, desc) for i, desc in enumerate(self._layers_desc)]

    def _built(self, index: int, desc: Any) -> Callable:
        """What is called at one place of the list."""
        if isinstance(desc, SharedLayerDesc):
            if desc.layer_name not in self.shared_layers:
                self.shared_layers[desc.layer_name] = desc.build_layer()
            layer: Any = self.shared_layers[desc.layer_name]
            return layer if desc.forward_func is None else functools.partial(desc.forward_func, layer)
        if isinstance(desc, (Layer, LayerDesc)):
            layer = desc.build_layer() if isinstance(desc, LayerDesc) else desc
            self.add_sublayer(str(index), layer)
            return layer
        if callable(desc):
            return desc
        raise errors.bad(
            f"PipelineLayer(layers[{index}])", "a layer, a function or a LayerDesc", desc, kind=errors.ArgumentTypeError
        )

    def get_num_virtual_stages(self) -> int:
        """Return the number of parts that a process has."""
        return 1

    def get_model_chunks(self) -> None:
        """Return the parts that a process has, None where it has one."""

    def get_stage_from_index(self, layer_idx: int) -> int:
        """Return the stage that a layer belongs to.

        Args:
            layer_idx: Index of the layer.

        Returns:
            The number of the stage.
        """
        if not 0 <= layer_idx < self._num_layers:
            where = "PipelineLayer.get_stage_from_index(layer_idx)"
            raise errors.bad(where, f"an index in [0, {self._num_layers - 1}]", layer_idx, kind=errors.OutOfRangeError)
        return 0

    def allreduce_shared_weight_gradients(self) -> None:
        """Add up the gradients of shared layers in different stages: one stage has them added up."""

    def forward_function(self, start: int, end: int) -> Callable:
        """Return the function that calls some of the layers.

        Args:
            start: Index of the first.
            end: Index after the last.

        Returns:
            The function.
        """

        def run(*args: Any) -> Any:
            x: Any = args[0] if len(args) == 1 else args
            for function in self.run_function[start:end]:
                x = function(x)
            return x

        return run

    def forward(self, input: Any, chunk_id: int | None = None) -> Any:
        """Call the layers one after the other.

        Args:
            input: Input of the first.
            chunk_id: Number of the part of the stage. Default: None.

        Returns:
            Output of the last.
        """
        if self._recompute_interval == 0:
            return self.forward_function(0, self._num_layers)(input)
        for start in range(0, self._num_layers, self._recompute_interval):
            function = self.forward_function(start, min(start + self._recompute_interval, self._num_layers))
            input = recompute(function, *(input if isinstance(input, tuple) else (input,)))
        return input
