"""to_distributed: a model, its optimizer and its data on all devices, without any plan by the user."""

from __future__ import annotations

from typing import Any

from bireme.core.base import device, errors
from bireme.distributed.auto_parallel.intermediate.chosen import Chosen
from bireme.distributed.auto_parallel.intermediate.parallelize import parallelize
from bireme.distributed.auto_parallel.loader import shard_dataloader
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, set_mesh
from bireme.nn.layer import Layer

__all__ = ["ToDistributedConfig", "to_distributed"]

ROOM = 0.5  # of a device's memory that parameters, gradients and states may take, the rest is for activations


class ToDistributedConfig:
    """Settings for ``to_distributed``.

    Args:
        input_spec: Shapes of the inputs. Default: None.
        sequence_parallel: Kept as an attribute. Default: False.
    """

    def __init__(self, input_spec: Any = None, sequence_parallel: bool = False) -> None:
        self.input_spec, self.sequence_parallel = input_spec, sequence_parallel


def to_distributed(
    model: Layer, optimizer: Any, dataloader: Any, device_num: int, node_num: int = 1, config: Any = None
) -> tuple[Layer, Any, Any]:
    """Put a model, an optimizer and a data loader, written for one device, on all devices.

    Batches are divided among them. Parameters are whole everywhere while they fit with gradients and states into half of
    a device's memory; else states are divided too, then gradients and parameters.

    Args:
        model: The model.
        optimizer: Its optimizer.
        dataloader: The data loader.
        device_num: Number of devices of a machine.
        node_num: Number of machines. Default: 1.
        config: A ``ToDistributedConfig``, or what ``plan`` returned, which is followed then. Default: None.

    Returns:
        The model, the optimizer and a loader whose batches lie on the mesh.

    Raises:
        ValueError: If a count is not positive, or there are not so many devices.

    Examples:
        >>> layer = bireme.nn.Linear(2, 1)
        >>> sgd = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> loader = bireme.io.DataLoader(bireme.io.TensorDataset([bireme.ones([4, 2])]), batch_size=2)
        >>> layer, sgd, loader = bireme.distributed.to_distributed(layer, sgd, loader, device_num=1)
        >>> [layer(x).shape for x, in loader]
        [[2, 1], [2, 1]]
    """
    for name, count in (("device_num", device_num), ("node_num", node_num)):
        errors.check_integer(f"to_distributed({name})", count)
        if count < 1:
            raise errors.bad(f"to_distributed({name})", "a positive integer", count)
    count = device_num * node_num
    if isinstance(config, Chosen):
        mesh = config.process_mesh()
        if mesh.size != count:
            raise errors.bad("to_distributed(config)", f"a plan for {count} devices", described=f"one for {mesh.size}")
        set_mesh(mesh)
        model, optimizer = parallelize(model, optimizer, mesh, config)
        first = mesh.get_mesh_with_dim("pp", 0) if "pp" in mesh.dim_names else mesh
        return model, optimizer, shard_dataloader(dataloader, first, shard_dims="dp")
    mesh = ProcessMesh(list(range(count)), dim_names=["dp"])
    own = sum(p.nbytes for p in model.parameters())
    states = len(getattr(optimizer, "_accumulator_names", ()))
    room = device.current().capacity * ROOM / max(1, device_num if device.current().is_cpu else 1)
    level = 0 if own * (2 + states) <= room else 1 if own * (2 + states / count) <= room else 3
    set_mesh(mesh)
    model, optimizer = parallelize(model, optimizer, mesh, {"dp_config": {"sharding_level": level}})
    return model, optimizer, shard_dataloader(dataloader, mesh, shard_dims="dp")
