"""The state of a model and its optimizer as parts of logical tensors, by names that do not depend on who has which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.checkpoint.sharded_weight import ShardedWeight, part_of
from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_stage3 import GroupShardedStage3
from bireme.nn.layer import Layer
from bireme.ops import zeros

__all__ = ["set_sharded_state", "sharded_state"]

SCHEDULE = "optimizer.LR_Scheduler"


def sharded_state(model: Layer, optimizer: Any = None) -> dict[str, Any]:
    """Return parameters, buffers and states of an optimizer, for ``save_state_dict`` and ``load_state_dict``.

    Names are those of the model's ``state_dict``, so that a checkpoint can be loaded by another number of processes that
    divide the model in another way.

    Args:
        model: The model, also one that ``fleet.distributed_model`` or ``group_sharded_parallel`` has returned.
        optimizer: Its optimizer; states that it does not have yet are zeros. Default: None.

    Returns:
        Dict of names and parts of tensors.

    Examples:
        >>> layer = bireme.nn.Linear(2, 3)
        >>> optimizer = bireme.optimizer.Momentum(0.1, parameters=layer.parameters())
        >>> sorted(bireme.distributed.checkpoint.sharded_state(layer, optimizer))
        ['model.bias', 'model.weight', 'optimizer.bias.velocity', 'optimizer.weight.velocity']
    """
    inner, cut = _inside(model)
    named = inner.state_dict()
    found: dict[str, Any] = {f"model.{name}": _part(f"model.{name}", x, x, cut) for name, x in named.items()}
    if optimizer is not None:
        states = _worker(optimizer)
        held = states.state_dict()
        for key, filed, p, like in _slots(states, named):
            store = held.get("master_weights", {}) if filed == p.name else held
            x = store.get(filed, like)
            found[key] = _part(key, x, p, cut)
        if "LR_Scheduler" in held:
            found[SCHEDULE] = held["LR_Scheduler"]
    return found


def set_sharded_state(state: dict[str, Any], model: Layer, optimizer: Any = None) -> None:
    """Give an optimizer the states that ``load_state_dict`` has loaded into what ``sharded_state`` returned; the model's
    tensors are set already.

    Args:
        state: What ``sharded_state`` returned.
        model: The model.
        optimizer: Its optimizer. Default: None.

    Examples:
        >>> import tempfile
        >>> layer = bireme.nn.Linear(2, 3)
        >>> optimizer = bireme.optimizer.Adam(parameters=layer.parameters())
        >>> checkpoint = bireme.distributed.checkpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     checkpoint.save_state_dict(checkpoint.sharded_state(layer, optimizer), folder)
        ...     state = checkpoint.sharded_state(layer, optimizer)
        ...     checkpoint.load_state_dict(state, folder)
        ...     checkpoint.set_sharded_state(state, layer, optimizer)
    """
    inner, _ = _inside(model)
    if optimizer is None:
        return
    states = _worker(optimizer)
    filed: dict[str, Any] = {}
    for key, name, p, _ in _slots(states, inner.state_dict()):
        if key not in state:
            where = "set_sharded_state(state)"
            raise errors.bad(where, "what sharded_state() returned", described=f"one without {key}")
        target = filed.setdefault("master_weights", {}) if name == p.name else filed
        x = state[key]
        target[name] = x.local_tensor if isinstance(x, ShardedWeight) else x
    if SCHEDULE in state:
        filed["LR_Scheduler"] = state[SCHEDULE]
    states.set_state_dict(filed)


def _inside(model: Layer) -> tuple[Layer, dict[int, tuple[list[int], int]]]:
    """The model inside of layers around it; of parameters that are divided by their numbers, whole shape and beginning."""
    cut: dict[int, tuple[list[int], int]] = {}
    while True:
        if isinstance(model, GroupShardedStage3):
            cut = model.parts()
        below = model.__dict__.get("_sub_layers", {})
        inner = below.get("_layers") or below.get("_layer")
        if inner is None:
            return model, cut
        model = inner


def _worker(optimizer: Any) -> Any:
    """The optimizer inside of optimizers around it."""
    while not hasattr(type(optimizer), "_accumulator_names"):
        optimizer = optimizer.__dict__.get("_inner_opt") or optimizer.__dict__["_optim"]
    return optimizer


def _slots(optimizer: Any, named: dict[str, Tensor]) -> Iterator[tuple[str, str, Tensor, Tensor]]:
    """Of each state: its logical name, the optimizer's name for it, its parameter, and zeros of its shape."""
    names = {id(x): name for name, x in named.items()}
    masters = optimizer._multi_precision
    for p in optimizer._parameter_list:
        if p.stop_gradient:
            continue
        for state in optimizer._state_names():
            own = state in optimizer._accumulator_names
            shape = list(optimizer._initial(p, state).shape) if own else [1]
            like = zeros(shape, optimizer._state_dtype(p) if own else "float32")
            like = optimizer._placed(p, state, like)
            yield f"optimizer.{names.get(id(p), p.name)}.{state}", optimizer._filed_as(p, state), p, like
        if masters and p.dtype.name in ("float16", "bfloat16"):
            yield f"optimizer.{names.get(id(p), p.name)}.master", p.name, p, p.astype("float32")


def _part(key: str, x: Any, p: Any, cut: dict[int, tuple[list[int], int]]) -> Any:
    """A tensor as the part that a parameter is, if it has its shape; one on a mesh knows its parts itself."""
    if on_mesh.is_there(x):
        return x
    if x.shape != p.shape:
        return ShardedWeight(key, x, x.shape, x.shape, [0] * x.ndim)
    if id(p) in cut:
        shape, start = cut[id(p)]
        return ShardedWeight(key, x, shape, shape, [0] * len(shape), True, slice(start, start + x.size))
    axis = getattr(p, "split_axis", None) if getattr(p, "is_distributed", False) else None
    return part_of(key, x, axis)
