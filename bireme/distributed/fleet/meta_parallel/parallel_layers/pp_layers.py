"""Models as lists of layers, which a pipeline divides into stages; a process makes the layers of its stage alone."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.distributed.communication.group import Group, groups
from bireme.distributed.fleet.base import topology as topologies
from bireme.distributed.fleet.base.topology import CommunicateTopology, HybridCommunicateGroup
from bireme.distributed.fleet.meta_parallel.schedules import round_robin, there_and_back
from bireme.distributed.fleet.recompute.recompute import recompute
from bireme.distributed.reducer import MEGABYTE, broadcast_all, exchange_gradients
from bireme.nn.container import LayerDict
from bireme.nn.layer import Layer

__all__ = ["LayerDesc", "LocalSharedLayerDesc", "PipelineLayer", "SharedLayerDesc"]


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


class LocalSharedLayerDesc(SharedLayerDesc):
    """A layer that stands at several places of one stage and has the same parameters at each; stages have their own.

    Args:
        key: Name that is the same at all of these places.
        layer_func: Class of the layer.
        forward_func: Called with the layer and the input at this place, instead of the layer. Default: None.
        shared_weight_attr: Name of the shared parameter, or a list of names. Default: ``'weight'``.
        *inputs: Arguments of the constructor.
        **kwargs: Keyword arguments of the constructor.

    Examples:
        >>> parallel = bireme.distributed.fleet.meta_parallel
        >>> layers = [parallel.LocalSharedLayerDesc("square", bireme.nn.Linear, None, "weight", 4, 4) for _ in range(2)]
        >>> len(parallel.PipelineLayer(layers, num_stages=1).parameters())
        2
    """


def bounds(layers: Sequence[Any], parts: int, method: Any) -> list[int]:
    """Where each part of a list of layers begins, and where the last one ends."""
    count = len(layers)
    if isinstance(method, (list, tuple)):
        found = list(method)
        if len(found) != parts + 1 or found[0] != 0 or found[-1] != count or found != sorted(found):
            raise errors.bad("PipelineLayer(seg_method)", f"{parts + 1} rising indices from 0 to {count}", found)
        return found
    if count < parts:
        raise errors.bad("PipelineLayer(layers)", f"at least one layer for each of {parts} parts", described=str(count))
    if method == "uniform":
        size, more = divmod(count, parts)
        sizes = [size + (i >= parts - more) for i in range(parts)]
        return [0, *itertools.accumulate(sizes)]
    if not isinstance(method, str) or not method.startswith("layer:"):
        raise errors.bad("PipelineLayer(seg_method)", "'uniform', 'layer:Name' or a list of indices", method)
    name = re.compile(method.removeprefix("layer:"), re.IGNORECASE)
    chosen = [i for i, desc in enumerate(layers) if name.search(_class_name(desc))]
    if not chosen or len(chosen) % parts:
        expected = f"a number of such layers that {parts} parts divide"
        raise errors.bad(f"PipelineLayer(seg_method={method!r})", expected, described=str(len(chosen)))
    size = len(chosen) // parts
    return [0, *[chosen[i * size] for i in range(1, parts)], count]


def _class_name(desc: Any) -> str:
    if isinstance(desc, LayerDesc):
        return desc.layer_func.__name__
    return type(desc).__name__ if isinstance(desc, Layer) else getattr(desc, "__name__", "")


class PipelineLayer(Layer):
    """A model as a list of layers, which are called one after the other.

    Args:
        layers: Layers, functions, and descriptions of layers. A tuple that one returns is given whole to the next.
        num_stages: Number of stages. Default: None, the pipe axis of ``topology``.
        topology: Topology of the processes. Default: None.
        loss_fn: Function of output and label, for ``PipelineParallel``. Default: None.
        seg_method: How layers are divided into stages: ``'uniform'``; ``'layer:Name'``, as many layers whose class has
            that name in each; or the indices where stages begin, and the number of layers. Default: ``'uniform'``.
        recompute_interval: Number of layers whose results are computed again together in the backward pass; 0 keeps
            them. Default: 0.
        recompute_ctx: Options of recomputing. They have no effect. Default: None.
        num_virtual_pipeline_stages: Number of parts that a process has. Default: None, 1.
        use_cudagraph: Not used. Default: False.
        use_dualpipev: Give each process two parts, from both ends of the model. Default: False.

    Raises:
        ValueError: If neither ``num_stages`` nor ``topology`` is given, or there are fewer layers than parts.
        AttributeError: If there are several stages and ``fleet.init`` was not called with as many.

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
        losses = loss_fn if isinstance(loss_fn, list) else [loss_fn]
        if not all(loss is None or callable(loss) for loss in losses):
            raise errors.bad("PipelineLayer(loss_fn)", "a function", loss_fn, kind=errors.ArgumentTypeError)
        super().__init__()
        self._layers_desc, self._num_layers, self._loss_fn = list(layers), len(layers), losses
        self._num_stages, self._hcg = stages or 1, self._hybrid(stages)
        self._topo = self._hcg.topology() if self._hcg is not None else topology or CommunicateTopology()
        self._stage_id = 0 if self._hcg is None else self._hcg.get_stage_id()
        self._num_virtual_pipeline_stages = 2 if use_dualpipev else num_virtual_pipeline_stages or 1
        self._recompute_interval, self.recompute_ctx = recompute_interval, recompute_ctx
        chunks = self._num_virtual_pipeline_stages if self._num_stages > 1 else 1
        self.places = there_and_back(self._num_stages) if use_dualpipev else round_robin(self._num_stages, chunks)
        if self._num_stages == 1:
            self.places, self.segment_parts = [0], [0, self._num_layers]
        else:
            self.segment_parts = bounds(self._layers_desc, len(self.places), seg_method)
        self.shared_layers = LayerDict()
        self.run_function: list[Callable] = [
            self._built(i, desc) if self.get_stage_from_index(i) == self._stage_id else _elsewhere
            for i, desc in enumerate(self._layers_desc)
        ]
        self._shared: dict[str, tuple[Group, list[Any]]] = {}
        if self._num_stages > 1:
            self._share()

    def _hybrid(self, stages: int | None) -> HybridCommunicateGroup | None:
        """The groups of the pipeline, which several stages need."""
        if stages == 1:
            return None
        hybrid = topologies._HYBRID_PARALLEL_GROUP
        errors.check_integer("PipelineLayer(num_stages)", stages)
        if hybrid is None or hybrid.get_pipe_parallel_world_size() != stages:
            got = "none" if hybrid is None else f"pp_degree {hybrid.get_pipe_parallel_world_size()}"
            raise errors.bad(
                "PipelineLayer(num_stages)", f"a call of fleet.init() with pp_degree {stages} before", described=got,
                kind=errors.MissingAttributeError,
            )  # fmt: skip
        return hybrid

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

    def _share(self) -> None:
        """Let stages that have the same layer begin with the same parameters, those of the first of them."""
        assert self._hcg is not None, "several stages have groups"
        found: dict[str, tuple[list[str], set[int]]] = {}
        for i, desc in enumerate(self._layers_desc):
            if isinstance(desc, SharedLayerDesc) and not isinstance(desc, LocalSharedLayerDesc):
                found.setdefault(desc.layer_name, (desc.shared_weight_attr, set()))[1].add(self.get_stage_from_index(i))
        for name, (attributes, stages) in found.items():
            if len(stages) == 1:
                continue
            made = [groups.add([ranks[s] for s in sorted(stages)]) for ranks in self._topo.get_comm_list("pipe")]
            if self._stage_id in stages:
                group = next(g for g in made if g.is_member())
                weights = [getattr(self.shared_layers[name], attribute) for attribute in attributes]
                for weight in weights:
                    weight.is_firstly_shared = group.rank == 0
                broadcast_all(weights, group, 0, "the exchange of shared parameters")
                self._shared[name] = group, weights

    def get_num_virtual_stages(self) -> int:
        """Return the number of parts that a process has."""
        return self._num_virtual_pipeline_stages

    def get_model_chunks(self) -> list[Callable] | None:
        """Return the parts that this process has, None where it has one."""
        if self._num_virtual_pipeline_stages == 1:
            return None
        return [functools.partial(self.forward, chunk_id=i) for i in range(len(self.own_parts()))]

    def own_parts(self) -> list[int]:
        """Return the indices, among all parts, of those that this process has."""
        return [part for part, place in enumerate(self.places) if place == self._stage_id]

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
        return self.places[bisect.bisect_right(self.segment_parts, layer_idx) - 1]

    def allreduce_shared_weight_gradients(self) -> None:
        """Add up the gradients of layers that several stages have."""
        for group, weights in self._shared.values():
            exchange_gradients(weights, group, 128 * MEGABYTE, 1.0)

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
        """Call the layers of this process' stage one after the other.

        Args:
            input: Input of the first.
            chunk_id: Number of the part of the stage. Default: None, the first.

        Returns:
            Output of the last.
        """
        part = self.own_parts()[chunk_id or 0]
        first, last = self.segment_parts[part], self.segment_parts[part + 1]
        if self._recompute_interval == 0:
            return self.forward_function(first, last)(input)
        for start in range(first, last, self._recompute_interval):
            function = self.forward_function(start, min(start + self._recompute_interval, last))
            input = recompute(function, *(input if isinstance(input, tuple) else (input,)))
        return input


def _elsewhere(x: Any) -> Any:
    """What stands for a layer of another process' stage."""
    raise errors.failure("PipelineLayer: expected a layer of this process' stage, got one of another")
