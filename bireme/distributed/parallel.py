"""Data parallel training: this process' place in the world, and the layer that trains one model in all processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from bireme.core.base import device, errors
from bireme.core.tensor.grad_mode import is_grad_enabled
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import parallel_helper as parallel_helper
from bireme.distributed import world
from bireme.distributed.communication.group import Group, check_rank, member, start
from bireme.distributed.reducer import Reducer, broadcast_all, is_expert
from bireme.distributed.world import ParallelMode
from bireme.nn.layer import Layer

__all__ = ["DataParallel", "ParallelEnv", "ParallelMode", "get_rank", "get_world_size", "init_parallel_env"]


class ParallelEnv:
    """What the environment says about this process and the others.

    Examples:
        >>> env = bireme.distributed.ParallelEnv()
        >>> env.rank, env.world_size
        (0, 1)
    """

    @property
    def rank(self) -> int:
        """Rank of this process, from ``PADDLE_TRAINER_ID``."""
        return world.rank()

    @property
    def local_rank(self) -> int:
        """The same as ``rank``."""
        return self.rank

    @property
    def world_size(self) -> int:
        """Number of processes, from ``PADDLE_TRAINERS_NUM``."""
        return world.size()

    @property
    def nranks(self) -> int:
        """The same as ``world_size``."""
        return self.world_size

    @property
    def device_id(self) -> int:
        """Index of the device that this process uses, from ``FLAGS_selected_gpus``, else 0."""
        return int(os.environ.get("FLAGS_selected_gpus", "0").split(",")[0])  # noqa: SIM112 - Paddle's name

    @property
    def dev_id(self) -> int:
        """The same as ``device_id``."""
        return self.device_id

    @property
    def device_type(self) -> str:
        """Kind of device that this process uses, ``''`` for the CPU."""
        kind = device.get_device().partition(":")[0]
        return "" if kind == "cpu" else kind

    @property
    def current_endpoint(self) -> str:
        """Address of this process, from ``PADDLE_CURRENT_ENDPOINT``."""
        return os.environ.get("PADDLE_CURRENT_ENDPOINT", "")

    @property
    def trainer_endpoints(self) -> list[str]:
        """Addresses of all processes, from ``PADDLE_TRAINER_ENDPOINTS``."""
        return os.environ.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")

    @property
    def nrings(self) -> int:
        """Number of rings of NCCL, from ``FLAGS_nccl_nrings``."""
        return int(os.environ.get("FLAGS_nccl_nrings", "1"))  # noqa: SIM112 - Paddle's name

    @property
    def pg_timeout(self) -> int:
        """How long a collective may take, in milliseconds, from ``PADDLE_PG_TIMEOUT``."""
        return int(os.environ.get("PADDLE_PG_TIMEOUT", "1800000"))


def init_parallel_env(nccl_config: Any = None) -> Group:
    """Connect with the processes that were started together, and make the default group of all of them.

    Paddle does nothing here where there is only one process, and its collectives then raise an error. Here a single
    process has a default group too, so the same program runs on it.

    Args:
        nccl_config: Options of NCCL. They have no effect. Default: None.

    Returns:
        The default group.

    Raises:
        ValueError: If the environment does not say where the processes meet.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> group.nranks, bireme.distributed.is_initialized()
        (1, True)
    """
    return start()


def get_rank(group: Group | None = None) -> int:
    """Return the rank of this process.

    Args:
        group: Return the rank in this group. Default: None, the rank in the world.

    Returns:
        The rank; -1 if the process is no member of the group.

    Examples:
        >>> bireme.distributed.get_rank()
        0
    """
    return world.rank() if group is None else member("get_rank", group).rank


def get_world_size(group: Group | None = None) -> int:
    """Return the number of processes.

    Args:
        group: Return the number of this group's members. Default: None, of all processes.

    Returns:
        The number; -1 if this process is no member of the group.

    Examples:
        >>> bireme.distributed.get_world_size()
        1
    """
    return world.size() if group is None else member("get_world_size", group).world_size


def sync_params_buffers(
    model: Layer,
    comm_group: Group | None = None,
    src_rank: int = 0,
    is_model_parallel: bool = False,
    fuse_params: bool = True,
    is_moe_sharding_parallel: bool = False,
) -> None:
    """Give all processes of a group the parameters and buffers of one of them.

    Args:
        model: The layer.
        comm_group: The group. Default: None, the default group.
        src_rank: Rank of the source. Default: 0.
        is_model_parallel: Leave out parameters that differ between processes. Default: False.
        fuse_params: Send them together. They always are. Default: True.
        is_moe_sharding_parallel: Send those of experts too, which the processes of this group have in common. Other
            parameters with ``no_sync`` are always left out. Default: False.
    """
    _check_layer("sync_params_buffers(model)", model)
    group = member("sync_params_buffers", comm_group)
    check_rank("sync_params_buffers(src_rank)", src_rank, group)
    if group.nranks == 1:
        return
    parameters = [
        p for p in model.parameters()
        if not (is_model_parallel and getattr(p, "is_distributed", False))
        and (not getattr(p, "no_sync", False) or (is_moe_sharding_parallel and is_expert(p)))
    ]  # fmt: skip
    what = "the exchange of parameters and buffers"
    broadcast_all([*parameters, *model.buffers()], group, group.ranks.index(src_rank), what)


def _check_layer(where: str, layer: Any) -> None:
    if not isinstance(layer, Layer):
        raise errors.bad(where, "a Layer", layer, kind=errors.ArgumentTypeError)


class DataParallel(Layer):
    """A layer that every process trains on its own data, with the mean of all processes' gradients.

    All processes begin with the parameters and buffers of the first one. After each backward pass that reaches a
    parameter, its gradient is the mean of all processes'; one that a process did not reach counts as zeros there.
    Parameters with a true attribute ``no_sync`` are each process' own. Those of experts, which compute for all processes,
    have the gradient of all losses already, and only the mean of it is taken.
    One process has all gradients itself, so this adds nothing but a name: ``state_dict`` has the inner names.

    Args:
        layers: The layer to train.
        strategy: Not used. Default: None.
        comm_buffer_size: Megabytes of gradients that are exchanged at once. Default: 25.
        last_comm_buffer_size: The same for those of the last parameters, which come first. Default: 1.
        find_unused_parameters: Expect parameters that the loss does not depend on. They always are. Default: False.
        group: The group to exchange gradients with. Default: None, the default group.

    Raises:
        RuntimeError: If there are several processes and no default group, or they have different parameters.

    Examples:
        >>> model = bireme.DataParallel(bireme.nn.Linear(2, 3))
        >>> model(bireme.ones([4, 2])).shape, list(model.state_dict())
        ([4, 3], ['weight', 'bias'])
    """

    def __init__(
        self,
        layers: Layer,
        strategy: Any = None,
        comm_buffer_size: int = 25,
        last_comm_buffer_size: float = 1,
        find_unused_parameters: bool = False,
        group: Group | None = None,
    ) -> None:
        _check_layer("DataParallel(layers)", layers)
        if group is not None or world.size() > 1:
            group = member("DataParallel", group)
        super().__init__(layers.full_name() + "_data_parallel")
        self._layers = layers
        self.find_unused_parameters = find_unused_parameters
        self.grad_need_sync = True
        self.group = group
        self.comm_buffer_size, self.last_comm_buffer_size = comm_buffer_size, last_comm_buffer_size
        self._reducer: Reducer | None = None
        if group is not None and group.nranks > 1 and group.is_member():
            sync_params_buffers(layers, group, group.ranks[0])
            self.init_reducer()

    def init_reducer(self) -> None:
        """Prepare the exchange of gradients; one process has none to exchange."""
        if self.group is None or self.group.nranks == 1 or self._reducer is not None:
            return
        trained = {id(p): p for p in self._layers.parameters() if not p.stop_gradient}
        sizes = [self.last_comm_buffer_size, self.comm_buffer_size]
        self._reducer = Reducer(list(trained.values()), self.group, sizes)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave out the exchange of gradients inside a ``with`` block, to accumulate them over several batches.

        Examples:
            >>> model = bireme.DataParallel(bireme.nn.Linear(2, 1))
            >>> with model.no_sync():
            ...     model(bireme.ones([1, 2])).sum().backward()
            >>> model.parameters()[0].grad.tolist()
            [[1.0], [1.0]]
        """
        before, self.grad_need_sync = self.grad_need_sync, False
        try:
            yield
        finally:
            self.grad_need_sync = before

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the layer.

        Args:
            *inputs: Inputs of the layer.
            **kwargs: Further inputs by name.

        Returns:
            What the layer returns.
        """
        if self._reducer is not None and is_grad_enabled():
            self._reducer.expected = self.grad_need_sync
        return self._layers(*inputs, **kwargs)

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return the loss as it is: gradients are averaged where they are exchanged.

        Args:
            loss: The loss.

        Returns:
            The same tensor.
        """
        return loss

    def apply_collective_grads(self) -> None:
        """Nothing to call by hand: gradients are exchanged in the backward pass."""

    def state_dict(  # type: ignore[override]  # Paddle's, without the last two
        self, destination: dict | None = None, include_sublayers: bool = True, structured_name_prefix: str = ""
    ) -> dict[str, Tensor]:
        """Return parameters and persistable buffers by the names that they have in the layer.

        Args:
            destination: Dict to add the tensors to. Default: None, a new one.
            include_sublayers: Include those of all sublayers. Default: True.
            structured_name_prefix: Prepended to the names. Default: ``''``.

        Returns:
            A dict of names and tensors.
        """
        return self._layers.state_dict(destination, include_sublayers, structured_name_prefix)

    def set_state_dict(self, state_dict: dict, use_structured_name: bool = True) -> None:  # type: ignore[override]  # as Paddle's
        """Set parameters and buffers from what ``state_dict`` returned, of this or of the inner layer.

        Args:
            state_dict: Dict of names and tensors.
            use_structured_name: Names are those of ``state_dict``; otherwise those of the tensors. Default: True.
        """
        self._layers.set_state_dict(state_dict, use_structured_name)

    set_dict = set_state_dict  # type: ignore[assignment]  # as above
    load_dict = set_state_dict  # type: ignore[assignment]  # as above
