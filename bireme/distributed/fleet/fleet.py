"""Fleet: one object through which a program sets up distributed training."""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed import world
from bireme.distributed.communication.objects import broadcast_object_list
from bireme.distributed.fleet.base.distributed_strategy import DistributedStrategy
from bireme.distributed.fleet.base.expert_topology import EPHybridCommunicateGroup
from bireme.distributed.fleet.base.role_maker import PaddleCloudRoleMaker
from bireme.distributed.fleet.base.topology import CommunicateTopology, HybridCommunicateGroup
from bireme.distributed.fleet.base.util_factory import UtilBase
from bireme.distributed.fleet.layers.mpu.random import model_parallel_random_seed
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.hybrid_parallel_optimizer import HybridParallelOptimizer
from bireme.distributed.fleet.model import distributed_model
from bireme.distributed.fleet.parameter_server import ParameterServerCalls
from bireme.distributed.fleet.scaler import distributed_scaler
from bireme.distributed.parallel import init_parallel_env
from bireme.distributed.ps.lookup import Current
from bireme.distributed.ps.optimizer import ParameterServerOptimizer
from bireme.optimizer.optimizer import Optimizer

__all__ = ["Fleet"]

AXES = {"data": "dp", "pipe": "pp", "sharding": "sharding", "sep": "sep", "context": "cp", "model": "mp"}


class Fleet(ParameterServerCalls):
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
        self.user_defined_optimizer: Any = None
        self._util = UtilBase()
        super().__init__()

    def init(
        self,
        role_maker: PaddleCloudRoleMaker | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
        log_level: int | str = "INFO",
    ) -> Fleet:
        """Set up training: the default group, and the groups along each axis of ``strategy.hybrid_configs``; or, if
        ``is_collective`` is False and there are parameter servers, the part that this process plays.

        Args:
            role_maker: What is known about this process. Default: None, what the environment says.
            is_collective: Whether processes train together without parameter servers. Default: False.
            strategy: Options of training. Default: None, those of a new ``DistributedStrategy``.
            log_level: Level of fleet's logger. Default: ``'INFO'``.

        Returns:
            The object itself.

        Raises:
            ValueError: If the product of all degrees is not the number of processes. Where experts are divided,
                ``ep_degree`` times ``moe_sharding_degree`` is the number of processes of a stage, as is the product of
                the others but ``cp_degree``, which divides ``sharding_degree``.
        """
        if role_maker is not None and not isinstance(role_maker, PaddleCloudRoleMaker):
            raise errors.bad("fleet.init(role_maker)", "a role maker", role_maker, kind=errors.ArgumentTypeError)
        if strategy is not None and not isinstance(strategy, DistributedStrategy):
            raise errors.bad("fleet.init(strategy)", "a DistributedStrategy", strategy, kind=errors.ArgumentTypeError)
        strategy = DistributedStrategy() if strategy is None else strategy
        options = strategy.hybrid_configs
        self._role_maker = PaddleCloudRoleMaker(is_collective) if role_maker is None else role_maker
        self._util._set_role_maker(self._role_maker)
        self._user_defined_strategy = strategy
        self._is_collective = is_collective
        if self._with_servers():
            return self
        init_parallel_env()
        order = [name for short in strategy.hybrid_parallel_order for name, s in AXES.items() if s == short]
        self._hcg = _groups(order, options)
        self._topology = self._hcg.topology()
        if self._hcg.get_model_parallel_world_size() > 1:
            seed = strategy.tensor_parallel_configs["tensor_init_seed"]
            model_parallel_random_seed(self._common_seed() if seed == -1 else seed)
        return self

    def _common_seed(self) -> int:
        """A seed that the first process has drawn: what is not divided has the same random numbers everywhere."""
        drawn = [int(np.random.randint(1, 10000))]  # noqa: NPY002 - whoever seeds NumPy's generator decides
        broadcast_object_list(drawn, 0)
        return drawn[0]

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
        return int(os.environ.get("PADDLE_LOCAL_RANK", world.rank())) if world.size() > 1 else None

    def local_device_ids(self) -> list[int] | None:
        """Return the devices of this machine; None for a process that was not launched with others."""
        self._role()
        return list(range(int(os.environ.get("PADDLE_LOCAL_SIZE", 1)))) if world.size() > 1 else None

    def world_device_ids(self) -> list[list[int]] | None:
        """Return the devices of all machines; None for a process that was not launched with others."""
        if self.local_device_ids() is None:
            return None
        counts = Counter(address.rpartition(":")[0] for address in self._role()._get_trainer_endpoints())
        return [list(range(count)) for count in counts.values()]

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

    def distributed_optimizer(self, optimizer: Optimizer, strategy: DistributedStrategy | None = None) -> Any:
        """Return an optimizer that updates parameters with the gradients of all workers.

        Args:
            optimizer: The optimizer.
            strategy: Options of training, instead of those of ``init``. Default: None.

        Returns:
            The optimizer itself for one worker, which has all gradients, unless ``strategy.gradient_merge`` asks for
            more; with parameter servers a ``ParameterServerOptimizer``, else a ``HybridParallelOptimizer`` around it.
        """
        self._role()
        if strategy is not None:
            self._user_defined_strategy = strategy
        self.user_defined_optimizer = optimizer
        if self._with_servers():
            self.user_defined_optimizer = ParameterServerOptimizer(optimizer)
            return self.user_defined_optimizer
        options = self._user_defined_strategy
        if world.size() == 1 and not (options is not None and options.gradient_merge):
            return optimizer
        self.user_defined_optimizer = HybridParallelOptimizer(optimizer, self._hcg, options)
        return self.user_defined_optimizer

    def distributed_model(self, model: Any) -> Any:
        """Return a model that is trained by all workers.

        Args:
            model: The layer; a ``PipelineLayer`` where ``pp_degree`` is above 1.

        Returns:
            A layer around it, whose parameters are those of all workers; for one worker, or with parameter servers, the
            layer itself.
        """
        self._role()
        if self._with_servers():
            return model
        return distributed_model(model, self.get_hybrid_communicate_group(), self._user_defined_strategy)

    def distributed_scaler(self, scaler: Any) -> Any:
        """Return a gradient scaler that sees overflow in all workers.

        Args:
            scaler: The scaler.

        Returns:
            The scaler itself; among several workers it leaves a step out when one of them has an overflow.
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


def _groups(order: list[str], options: Any) -> HybridCommunicateGroup:
    """The groups along each axis; experts lie over the axes of all other layers."""
    if options["ep_degree"] <= 1:
        return HybridCommunicateGroup(CommunicateTopology(order, _sizes(order, options)), options)
    axes = [name for name in order if name != "context"]
    sizes = {**dict(zip(axes, _sizes(axes, options))), "context": max(options["cp_degree"], 1)}
    stage = world.size() // sizes.get("pipe", 1)
    experts, copies = options["ep_degree"], options["moe_sharding_degree"]
    sizes.update(expert=experts, moe_sharding=stage // experts if copies <= 1 else copies)
    return EPHybridCommunicateGroup(list(sizes), list(sizes.values()), options)


def _sizes(order: list[str], options: Any) -> list[int]:
    """How many processes there are along each axis; the data axis has what is left unless it is given."""
    degrees = {name: options[f"{AXES[name]}_degree"] for name in order}
    for name, degree in degrees.items():
        if degree < 1 and not (name == "data" and degree == -1):
            where = f"fleet.init(strategy.hybrid_configs['{AXES[name]}_degree'])"
            raise errors.bad(where, "a positive number", degree)
    others = math.prod(degree for name, degree in degrees.items() if name != "data")
    if "data" in degrees and degrees["data"] == -1:
        degrees["data"] = max(world.size() // others, 1)
    if math.prod(degrees.values()) != world.size():
        told = ", ".join(f"{AXES[name]} {degree}" for name, degree in degrees.items())
        expected = f"degrees with the product {world.size()}, the number of processes"
        raise errors.bad("fleet.init(strategy.hybrid_configs)", expected, described=told)
    return list(degrees.values())


fleet = Current.fleet = Fleet()
