"""Fleet: one object through which a program sets up distributed training."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed.fleet.base.distributed_strategy import DistributedStrategy
from bireme.distributed.fleet.base.role_maker import PaddleCloudRoleMaker
from bireme.distributed.fleet.base.topology import CommunicateTopology, HybridCommunicateGroup
from bireme.distributed.fleet.base.util_factory import UtilBase
from bireme.distributed.fleet.model import distributed_model
from bireme.distributed.fleet.scaler import distributed_scaler
from bireme.distributed.parallel import init_parallel_env
from bireme.distributed.world import only_one
from bireme.optimizer.optimizer import Optimizer

__all__ = ["Fleet"]

AXES = {"data": "dp", "pipe": "pp", "sharding": "sharding", "sep": "sep", "context": "cp", "model": "mp"}


class Fleet:
    """What ``bireme.distributed.fleet`` offers as functions: they are the methods of one object, ``fleet.fleet``.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> fleet.worker_num(), fleet.is_first_worker()
        (1, True)
    """

    _hcg: HybridCommunicateGroup  # not there before `init`: trainers ask for the attribute

    def __init__(self) -> None:
        self._role_maker: PaddleCloudRoleMaker | None = None
        self._user_defined_strategy: DistributedStrategy | None = None
        self.user_defined_optimizer: Optimizer | None = None
        self._util = UtilBase()

    def init(
        self,
        role_maker: PaddleCloudRoleMaker | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
        log_level: int | str = "INFO",
    ) -> Fleet:
        """Set up training: the default group, and the groups along each axis of ``strategy.hybrid_configs``.

        Args:
            role_maker: What is known about this process. Default: None, what the environment says.
            is_collective: Whether processes train together without parameter servers. Default: False.
            strategy: Options of training. Default: None, those of a new ``DistributedStrategy``.
            log_level: Level of fleet's logger. Default: ``'INFO'``.

        Returns:
            The object itself.

        Raises:
            NotImplementedError: If there is more than one process, or a degree is above 1.
        """
        if role_maker is not None and not isinstance(role_maker, PaddleCloudRoleMaker):
            raise errors.bad("fleet.init(role_maker)", "a role maker", role_maker, kind=errors.ArgumentTypeError)
        if strategy is not None and not isinstance(strategy, DistributedStrategy):
            raise errors.bad("fleet.init(strategy)", "a DistributedStrategy", strategy, kind=errors.ArgumentTypeError)
        strategy = DistributedStrategy() if strategy is None else strategy
        options = strategy.hybrid_configs
        for name in (*AXES.values(), "ep", "moe_sharding", "cp_sharding"):
            if options[f"{name}_degree"] != -1:
                only_one(f"fleet.init(strategy.hybrid_configs['{name}_degree'])", options[f"{name}_degree"], "part")
        self._role_maker = PaddleCloudRoleMaker(is_collective) if role_maker is None else role_maker
        init_parallel_env()
        self._user_defined_strategy = strategy
        self._is_collective = is_collective
        order = [name for short in strategy.hybrid_parallel_order for name, s in AXES.items() if s == short]
        self._topology = CommunicateTopology(order, [1] * len(order))
        self._hcg = HybridCommunicateGroup(self._topology, options)
        return self

    def _role(self) -> PaddleCloudRoleMaker:
        if self._role_maker is None:
            raise errors.bad(
                "fleet", "a call of fleet.init() before", described="none", kind=errors.MissingAttributeError
            )
        return self._role_maker

    def is_first_worker(self) -> bool:
        """Return whether this process is the first worker."""
        return self._role()._is_first_worker()

    def worker_index(self) -> int:
        """Return the rank of this worker."""
        return self._role()._worker_index()

    def worker_num(self) -> int:
        """Return the number of workers."""
        return self._role()._worker_num()

    def node_num(self) -> int:
        """Return the number of machines."""
        return self._role()._node_num()

    def local_rank(self) -> int | None:
        """Return the rank of this process on its machine; None for a process that was not launched with others."""
        self._role()
        return None

    def local_device_ids(self) -> list[int] | None:
        """Return the devices of this machine; None for a process that was not launched with others."""
        self._role()
        return None

    def world_device_ids(self) -> list[list[int]] | None:
        """Return the devices of all machines; None for a process that was not launched with others."""
        self._role()
        return None

    def is_worker(self) -> bool:
        """Return whether this process is a worker."""
        return self._role()._is_worker()

    def is_server(self) -> bool:
        """Return whether this process is a parameter server."""
        return self._role()._is_server()

    def is_coordinator(self) -> bool:
        """Return whether this process coordinates federated training."""
        self._role()
        return False

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """Return the addresses of all workers.

        Args:
            to_string: Return them as one string, with commas. Default: False.

        Returns:
            The addresses.
        """
        found = self._role()._get_trainer_endpoints()
        return ",".join(found) if to_string else found

    def server_num(self) -> int:
        """Return the number of parameter servers."""
        return self._role()._server_num()

    def server_index(self) -> int:
        """Return the index of this parameter server, 0 for a worker."""
        return self._role()._server_index()

    def server_endpoints(self, to_string: bool = False) -> list[str] | str:
        """Return the addresses of all parameter servers.

        Args:
            to_string: Return them as one string, with commas. Default: False.

        Returns:
            The addresses.
        """
        found = self._role()._get_pserver_endpoints()
        return ",".join(found) if to_string else found

    def barrier_worker(self) -> None:
        """Wait until all workers have reached this call: one worker does not wait."""
        self._role()._barrier("worker")

    def all_reduce(self, input: Any, mode: str = "sum") -> np.ndarray:
        """Return the reduction of all workers' arrays.

        Args:
            input: An array or a list of numbers.
            mode: ``'sum'``, ``'min'`` or ``'max'``. Default: ``'sum'``.

        Returns:
            The array.
        """
        return self._util.all_reduce(input, mode, "worker")

    @property
    def util(self) -> UtilBase:
        """Small collectives on Python values."""
        return self._util

    def get_hybrid_communicate_group(self) -> HybridCommunicateGroup:
        """Return the groups along each axis, which ``init`` made."""
        if not hasattr(self, "_hcg"):
            raise errors.bad(
                "get_hybrid_communicate_group()", "a call of fleet.init(is_collective=True) before", described="none",
                kind=errors.MissingAttributeError,
            )  # fmt: skip
        return self._hcg

    def get_hybrid_parallel_topology(self) -> CommunicateTopology:
        """Return the topology, which ``init`` made."""
        return self.get_hybrid_communicate_group().topology()

    def distributed_optimizer(self, optimizer: Optimizer, strategy: DistributedStrategy | None = None) -> Optimizer:
        """Return an optimizer that updates parameters with the gradients of all workers.

        Args:
            optimizer: The optimizer.
            strategy: Options of training, instead of those of ``init``. Default: None.

        Returns:
            The optimizer itself: one worker has all gradients.
        """
        self._role()
        if strategy is not None:
            self._user_defined_strategy = strategy
        self.user_defined_optimizer = optimizer
        return optimizer

    def distributed_model(self, model: Any) -> Any:
        """Return a model that is trained by all workers.

        Args:
            model: The layer.

        Returns:
            The layer itself: one worker has all data.
        """
        self._role()
        return distributed_model(model)

    def distributed_scaler(self, scaler: Any) -> Any:
        """Return a gradient scaler that sees overflow in all workers.

        Args:
            scaler: The scaler.

        Returns:
            The scaler itself: one worker has all gradients.
        """
        return distributed_scaler(scaler)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> Any:
        """Compute gradients and update parameters, with the optimizer that ``distributed_optimizer`` was given.

        Args:
            loss: The loss.
            startup_program: Program that initializes the parameters of a static program. Default: None.
            parameter_list: Parameters to update. Default: None, those of the optimizer.
            no_grad_set: Tensors without gradients. Default: None.

        Returns:
            What the optimizer's ``minimize`` returns.
        """
        if self.user_defined_optimizer is None:
            raise errors.bad("fleet.minimize()", "a call of distributed_optimizer() before", described="none")
        return self.user_defined_optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)


fleet = Fleet()
