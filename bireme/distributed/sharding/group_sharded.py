"""Training with divided optimizer states, gradients and parameters."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import errors
from bireme.distributed import world
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_optimizer_stage2 import GroupShardedOptimizerStage2
from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_stage2 import GroupShardedStage2
from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_stage3 import GroupShardedStage3
from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_utils import GroupShardedScaler
from bireme.distributed.parallel import sync_params_buffers
from bireme.files.store import save
from bireme.nn.layer import Layer

__all__ = ["group_sharded_parallel", "save_group_sharded_model"]


def group_sharded_parallel(
    model: Layer,
    optimizer: Any,
    level: str,
    scaler: Any = None,
    group: Group | None = None,
    offload: bool = False,
    sync_buffers: bool = False,
    buffer_max_size: int = 2**23,
    segment_size: int = 2**20,
    sync_comm: bool = False,
    dp_group: Group | None = None,
    exclude_layer: list | None = None,
) -> tuple[Layer, Any, Any]:
    """Divide a model's training among the processes of a group.

    Args:
        model: The model.
        optimizer: Its optimizer.
        level: What is divided: ``'os'`` optimizer states, ``'os_g'`` gradients as well, ``'p_g_os'`` parameters as
            well.
        scaler: Gradient scaler. Default: None.
        group: The group. Default: None, the default group.
        offload: Keep states as arrays of the host between steps: each step reads them from there and writes them back, so
            that a device holds them during a step alone. Default: False.
        sync_buffers: Keep buffers equal. Default: False.
        buffer_max_size: Bytes that are exchanged together. Default: 2**23.
        segment_size: Smallest parameter that is divided, in bytes. Default: 2**20.
        sync_comm: Wait for each exchange. Default: False.
        dp_group: Group of the data axis, over which gradients are averaged as well. Default: None.
        exclude_layer: Layers that are not divided. Default: None.

    Returns:
        Model, optimizer and scaler, around those that were given; one process gets its own back.

    Raises:
        ValueError: If ``level`` is none of these.

    Examples:
        >>> model = bireme.nn.Linear(2, 1)
        >>> optimizer = bireme.optimizer.Adam(parameters=model.parameters())
        >>> same, _, scaler = bireme.distributed.sharding.group_sharded_parallel(model, optimizer, "os_g")
        >>> same is model, scaler
        (True, None)
    """
    if level not in ("os", "os_g", "p_g_os"):
        raise errors.bad("group_sharded_parallel(level)", "'os', 'os_g' or 'p_g_os'", level)
    if not isinstance(model, Layer):
        raise errors.bad("group_sharded_parallel(model)", "a Layer", model, kind=errors.ArgumentTypeError)
    if not hasattr(optimizer, "step"):
        where = "group_sharded_parallel(optimizer)"
        raise errors.bad(where, "an optimizer", optimizer, kind=errors.ArgumentTypeError)
    if offload:
        _offload(optimizer)
    if world.size() == 1:
        return model, optimizer, scaler
    among = member("group_sharded_parallel", group)
    scaler = None if scaler is None else GroupShardedScaler(scaler)
    if level == "p_g_os":
        whole = GroupShardedStage3(
            model, optimizer, among, sync_buffers, segment_size=segment_size, offload=offload, sync_comm=sync_comm,
            dp_group=dp_group, exclude_layer=exclude_layer,
        )  # fmt: skip
        return whole, optimizer, scaler
    for one in (among, dp_group):
        if one is not None:
            sync_params_buffers(model, one, one.ranks[0])
    divided = GroupShardedOptimizerStage2(
        model.parameters(), optimizer, among, offload, pretrain_sync_models=False, dp_group=dp_group
    )
    if level == "os_g":
        model = GroupShardedStage2(model, divided, among, dp_group=dp_group)
    return model, divided, scaler


def _offload(optimizer: Any) -> None:
    """Let an optimizer bring its states to the host after each step."""
    inner = optimizer._step

    def step(only: set[int] | None = None, skip: Any = None) -> Any:
        pairs = inner(only, skip)
        optimizer._to_host()
        return pairs

    optimizer._step = step


def save_group_sharded_model(model: Layer, output: str, optimizer: Any = None) -> None:
    """Save a model, and its optimizer, that ``group_sharded_parallel`` returned; all processes call it.

    The first process writes the model; each process writes the states of its part, ``model.pdopt``, or for several
    ``model_R.pdopt``. ``distributed.save_state_dict`` writes files that any number of processes can load.

    Args:
        model: The model; its parameters go to ``model.pdmodel``.
        output: Folder, made where it is missing.
        optimizer: The optimizer; its states go to ``model.pdopt``. Default: None.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> bireme.distributed.sharding.save_group_sharded_model(bireme.nn.Linear(2, 1), folder)
        >>> os.listdir(folder)
        ['model.pdmodel']
    """
    if os.path.isfile(output):
        raise errors.bad("save_group_sharded_model(output)", "a folder", output)
    os.makedirs(output, exist_ok=True)
    state = model.state_dict()  # of divided parameters all processes have a part
    if world.rank() == 0:
        save(state, os.path.join(output, "model.pdmodel"))
    if optimizer is not None:
        name = "model.pdopt" if world.size() == 1 else f"model_{world.rank()}.pdopt"
        save(optimizer.state_dict(), os.path.join(output, name))
