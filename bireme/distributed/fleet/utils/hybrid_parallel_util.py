"""Exchange of gradients and parameters along the axes of hybrid parallel training."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.processes.collectives import Call, described
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.parallel import sync_params_buffers
from bireme.distributed.reducer import exchange_gradients
from bireme.nn.layer import Layer
from bireme.ops import to_tensor

__all__ = [
    "broadcast_dp_parameters", "broadcast_input_data", "broadcast_moe_sharding_parameters", "broadcast_mp_parameters",
    "broadcast_parameters", "broadcast_sep_parameters", "broadcast_sharding_parameters", "fused_allreduce_gradients",
    "fused_allreduce_gradients_with_group", "obtain_optimizer_parameters_list", "unwrap_optimizer",
]  # fmt: skip


def _check_groups(where: str, hcg: Any) -> None:
    if hcg is not None and not isinstance(hcg, HybridCommunicateGroup):
        raise errors.bad(f"{where}(hcg)", "a HybridCommunicateGroup or None", hcg, kind=errors.MissingAttributeError)


def fused_allreduce_gradients(parameter_list: list, hcg: HybridCommunicateGroup | None) -> None:
    """Replace gradients by their mean over the processes of the data and the context axis, and their sum along ``sep``.

    Args:
        parameter_list: Parameters whose gradients are exchanged.
        hcg: Groups along each axis; None means all processes.

    Examples:
        >>> layer = bireme.nn.Linear(2, 1)
        >>> layer(bireme.ones([1, 2])).sum().backward()
        >>> from bireme.distributed.fleet.utils.hybrid_parallel_util import fused_allreduce_gradients
        >>> fused_allreduce_gradients(layer.parameters(), None)
        >>> layer.bias.grad.tolist()
        [1.0]
    """
    _check_groups("fused_allreduce_gradients", hcg)
    if hcg is None:
        if world.size() > 1:
            fused_allreduce_gradients_with_group(parameter_list, None)
        return
    # along the sequence, the `sep` axis, each process has a part of the loss
    scale = hcg.get_sep_parallel_world_size() / hcg._gradient_group.nranks
    fused_allreduce_gradients_with_group(parameter_list, hcg._gradient_group, scale=scale)


def fused_allreduce_gradients_with_group(
    parameter_list: list, group: Group | None, bucket_size: int = 128 * 1024 * 1024, scale: float | None = None
) -> None:
    """Replace gradients by their sum over the processes of a group, multiplied by ``scale``.

    A gradient that a process does not have counts as zeros there.

    Args:
        parameter_list: Parameters whose gradients are exchanged.
        group: The group; None is the default group.
        bucket_size: Bytes of gradients that are exchanged together. Default: 128 MiB.
        scale: Factor. Default: None, one over the number of processes.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> layer = bireme.nn.Linear(2, 1)
        >>> layer(bireme.ones([1, 2])).sum().backward()
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.fused_allreduce_gradients_with_group(layer.parameters(), group, scale=2.0)
        >>> layer.bias.grad.tolist()
        [2.0]
    """
    among = member("fused_allreduce_gradients_with_group", group)
    scale = 1.0 / among.nranks if scale is None else scale
    trained = [p for p in parameter_list if not p.stop_gradient]
    if among.nranks > 1:
        exchange_gradients(trained, among, bucket_size, scale)
    elif scale != 1:
        for parameter in trained:
            if parameter.grad is not None:
                parameter.grad.set_value(parameter.grad * scale)


def broadcast_input_data(hcg: HybridCommunicateGroup, *inputs: Any, **kwargs: Any) -> tuple[tuple, dict]:
    """Give all processes of the model axis the first one's inputs.

    Args:
        hcg: Groups along each axis.
        *inputs: Inputs of the model.
        **kwargs: Further inputs by name.

    Returns:
        The inputs and the further ones.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.broadcast_input_data(fleet.get_hybrid_communicate_group(), 1, mask=None)
        ((1,), {'mask': None})
    """
    _check_groups("broadcast_input_data", hcg)
    group = hcg.get_model_parallel_group()
    if group.nranks == 1:
        return inputs, kwargs
    return tuple([_first(x, group) for x in inputs]), {name: _first(x, group) for name, x in kwargs.items()}


def _first(x: Any, group: Group) -> Any:
    """What the first process of a group has, for tensors and lists of them."""
    if isinstance(x, Tensor):
        call = Call("the exchange of inputs", described(x))
        found = group.channel.broadcast(call, call.read(x), 0)
        return x if group.rank == 0 else to_tensor(found, stop_gradient=x.stop_gradient)
    if type(x) in (list, tuple):
        return type(x)([_first(part, group) for part in x])
    if type(x) is dict:
        return {name: _first(part, group) for name, part in x.items()}
    return x


def _broadcast(where: str, model: Any, hcg: Any, axis: str) -> None:
    if not isinstance(model, Layer):
        raise errors.bad(f"{where}(model)", "a Layer", model, kind=errors.ArgumentTypeError)
    _check_groups(where, hcg)
    if getattr(hcg, f"get_{axis}_parallel_world_size")() > 1:
        group = getattr(hcg, f"get_{axis}_parallel_group")()
        sync_params_buffers(
            model,
            group,
            group.ranks[0],
            is_model_parallel=axis in ("model", "moe_sharding"),
            is_moe_sharding_parallel=axis == "moe_sharding",
        )


def broadcast_mp_parameters(model: Layer, hcg: HybridCommunicateGroup, fuse_params: bool = True) -> None:
    """Give all processes of the model axis the first one's parameters that are not divided.

    Args:
        model: The model.
        hcg: Groups along each axis.
        fuse_params: Send them together. Default: True.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.broadcast_mp_parameters(bireme.nn.Linear(2, 1), fleet.get_hybrid_communicate_group())
    """
    _broadcast("broadcast_mp_parameters", model, hcg, "model")


def broadcast_dp_parameters(model: Layer, hcg: HybridCommunicateGroup, fuse_params: bool = True) -> None:
    """Give all processes of the data axis the first one's parameters.

    Args:
        model: The model.
        hcg: Groups along each axis.
        fuse_params: Send them together. Default: True.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.broadcast_dp_parameters(bireme.nn.Linear(2, 1), fleet.get_hybrid_communicate_group())
    """
    _broadcast("broadcast_dp_parameters", model, hcg, "data")


def broadcast_sharding_parameters(model: Layer, hcg: HybridCommunicateGroup, fuse_params: bool = True) -> None:
    """Give all processes of the sharding axis the first one's parameters.

    Args:
        model: The model.
        hcg: Groups along each axis.
        fuse_params: Send them together. Default: True.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.broadcast_sharding_parameters(bireme.nn.Linear(2, 1), hcg)
    """
    _broadcast("broadcast_sharding_parameters", model, hcg, "sharding")


def broadcast_sep_parameters(model: Layer, hcg: HybridCommunicateGroup, fuse_params: bool = True) -> None:
    """Give all processes of the sep axis the first one's parameters.

    Args:
        model: The model.
        hcg: Groups along each axis.
        fuse_params: Send them together. Default: True.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.broadcast_sep_parameters(bireme.nn.Linear(2, 1), fleet.get_hybrid_communicate_group())
    """
    _broadcast("broadcast_sep_parameters", model, hcg, "sep")


def broadcast_moe_sharding_parameters(model: Layer, hcg: HybridCommunicateGroup, fuse_params: bool = True) -> None:
    """Give all processes that have the same experts the first one's.

    Args:
        model: The model.
        hcg: Groups along each axis.
        fuse_params: Send them together. Default: True.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.broadcast_moe_sharding_parameters(bireme.nn.Linear(2, 1), hcg)
    """
    _broadcast("broadcast_moe_sharding_parameters", model, hcg, "moe_sharding")


def broadcast_parameters(model: Layer, hcg: HybridCommunicateGroup) -> None:
    """Give all processes the same parameters where they are not divided, along every axis but the pipeline.

    Args:
        model: The model.
        hcg: Groups along each axis.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.utils import hybrid_parallel_util
        >>> hybrid_parallel_util.broadcast_parameters(bireme.nn.Linear(2, 1), fleet.get_hybrid_communicate_group())
    """
    for axis in ("model", "sep", "context", "sharding", "data", "moe_sharding"):
        _broadcast("broadcast_parameters", model, hcg, axis)


def obtain_optimizer_parameters_list(optimizer: Any) -> list:
    """Return the parameters of an optimizer, those of its groups one after the other.

    Args:
        optimizer: The optimizer.

    Returns:
        The parameters.

    Examples:
        >>> from bireme.distributed.fleet.utils.hybrid_parallel_util import obtain_optimizer_parameters_list
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> [p.shape for p in obtain_optimizer_parameters_list(optimizer)]
        [[2, 1], [1]]
    """
    groups = getattr(optimizer, "_param_groups", None)
    if groups and isinstance(groups[0], dict):
        return [p for group in groups for p in group["params"]]
    return list(optimizer._parameter_list)


def unwrap_optimizer(optimizer: Any, optimizer_instances: Any = ()) -> Any:
    """Return what is inside optimizers around optimizers.

    Args:
        optimizer: The outermost.
        optimizer_instances: Classes to look inside of. Default: ``()``.

    Returns:
        The first one that is of none of these classes.

    Examples:
        >>> from bireme.distributed.fleet.utils.hybrid_parallel_util import unwrap_optimizer
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=bireme.nn.Linear(2, 1).parameters())
        >>> unwrap_optimizer(optimizer) is optimizer
        True
    """
    while optimizer_instances and isinstance(optimizer, optimizer_instances):
        optimizer = optimizer._inner_opt
    return optimizer
