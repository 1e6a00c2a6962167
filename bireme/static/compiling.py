"""How programs are compiled, as Paddle's programs ask for it: XLA decides all of that itself."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.program.program import Program
from bireme.static import scopes
from bireme.static.programs import default_main_program


class _Settings(Guarded):
    """Values under known names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no setting {name!r}")
        object.__setattr__(self, name, value)


class BuildStrategy(_Settings):
    """Settings of the compilation of a program. They are kept, and have no effect: XLA fuses operators and reuses memory
    by itself.

    Examples:
        >>> strategy = bireme.static.BuildStrategy()
        >>> strategy.fuse_bn_act_ops = True
        >>> strategy.fuse_bn_act_ops, strategy.enable_inplace
        (True, True)
    """

    class ReduceStrategy(enum.IntEnum):
        """How gradients of several devices are put together.

        Examples:
            >>> bireme.static.BuildStrategy.ReduceStrategy.AllReduce.value
            0
        """

        AllReduce = 0
        Reduce = 1
        _NoReduce = 2

    allow_cuda_graph_capture = False
    async_mode = False
    bkcl_comm_num = 1
    build_cinn_pass = False
    cache_runtime_context = False
    debug_graphviz_path = ""
    enable_addto = False
    enable_auto_fusion = False
    enable_backward_optimizer_op_deps = True
    enable_inplace = True
    fuse_adamw = False
    fuse_all_optimizer_ops = False
    fuse_all_reduce_ops = True
    fuse_bn_act_ops = False
    fuse_bn_add_act_ops = True
    fuse_broadcast_ops = True
    fuse_dot_product_attention = False
    fuse_elewise_add_act_ops = False
    fuse_gemm_epilogue = False
    fuse_relu_depthwise_conv = False
    fuse_resunit = False
    fused_attention = False
    fused_feedforward = False
    hierarchical_allreduce_inter_nranks = 0
    mkldnn_enabled_op_types: Any = frozenset()
    nccl_comm_num = 1
    num_trainers = 1
    onednn_enabled_op_types: Any = frozenset()
    reduce_strategy = ReduceStrategy.AllReduce
    sequential_run = False
    sync_batch_norm = False
    trainer_id = 0
    trainers_endpoints: Any = ()
    use_hierarchical_allreduce = False
    _memory_optimize: bool | None = None

    @property
    def memory_optimize(self) -> bool | None:
        """Whether memory is to be reused; None leaves it open."""
        return self._memory_optimize

    @memory_optimize.setter
    def memory_optimize(self, wanted: bool | None) -> None:
        self._memory_optimize = wanted


class CompiledProgram(Guarded):
    """A program with settings of its compilation, to be run by an ``Executor`` as the program itself is.

    Args:
        program_or_graph: The program.
        build_strategy: Settings, which have no effect. Default: None.

    Examples:
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main):
        ...     x = bireme.static.data("x", [2])
        ...     y = x * 2
        >>> compiled = bireme.static.CompiledProgram(main)
        >>> bireme.static.Executor().run(compiled, feed={"x": [1.0, 2.0]}, fetch_list=[y])[0].tolist()
        [2.0, 4.0]
        >>> bireme.disable_static()
    """

    def __init__(self, program_or_graph: Program, build_strategy: BuildStrategy | None = None):
        program = getattr(program_or_graph, "program", program_or_graph)
        if not isinstance(program, Program):
            where = "CompiledProgram(program_or_graph)"
            raise errors.bad(where, "a Program", program_or_graph, kind=errors.ArgumentTypeError)
        self.program, self._build_strategy = program, build_strategy


class IpuStrategy(Guarded):
    """Settings for Graphcore's IPUs. They are kept, and have no effect: there is no IPU.

    Examples:
        >>> strategy = bireme.static.IpuStrategy()
        >>> strategy.set_graph_config(num_ipus=2)
        >>> strategy.num_ipus
        2
    """

    def __init__(self) -> None:
        self._options: dict[str, Any] = {
            "num_ipus": 1, "is_training": True, "micro_batch_size": 1, "enable_manual_shard": False,
            "enable_pipelining": False, "batches_per_step": 1, "enable_gradient_accumulation": False,
            "accumulation_factor": 1, "enable_fp16": False,
        }  # fmt: skip
        self._patterns: dict[str, bool] = {}
        self._custom_ops: list[dict[str, Any]] = []

    def set_graph_config(
        self, num_ipus: int = 1, is_training: bool = True, micro_batch_size: int = 1, enable_manual_shard: bool = False
    ) -> None:
        """Keep settings of the graph.

        Args:
            num_ipus: Number of IPUs. Default: 1.
            is_training: Whether it trains. Default: True.
            micro_batch_size: Size of a batch. Default: 1.
            enable_manual_shard: Whether ``ipu_shard_guard`` decides. Default: False.

        Examples:
            >>> bireme.static.IpuStrategy().set_graph_config(num_ipus=1)
        """
        if num_ipus == 1 and enable_manual_shard:
            raise errors.bad("set_graph_config(enable_manual_shard)", "more than one IPU", enable_manual_shard)
        self.set_options(
            {
                "num_ipus": num_ipus, "is_training": is_training, "micro_batch_size": micro_batch_size,
                "enable_manual_shard": enable_manual_shard,
            }
        )  # fmt: skip

    def set_pipelining_config(
        self,
        enable_pipelining: bool = False,
        batches_per_step: int = 1,
        enable_gradient_accumulation: bool = False,
        accumulation_factor: int = 1,
    ) -> None:
        """Keep settings of pipelines.

        Args:
            enable_pipelining: Whether there is one. Default: False.
            batches_per_step: Batches of a step. Default: 1.
            enable_gradient_accumulation: Whether gradients are added up. Default: False.
            accumulation_factor: How many. Default: 1.

        Examples:
            >>> bireme.static.IpuStrategy().set_pipelining_config(batches_per_step=2)
        """
        self.set_options(
            {
                "enable_pipelining": enable_pipelining, "batches_per_step": batches_per_step,
                "enable_gradient_accumulation": enable_gradient_accumulation,
                "accumulation_factor": accumulation_factor,
            }
        )  # fmt: skip

    def set_precision_config(self, enable_fp16: bool = False) -> None:
        """Keep whether float16 is used.

        Args:
            enable_fp16: Whether it is. Default: False.

        Examples:
            >>> bireme.static.IpuStrategy().set_precision_config(True)
        """
        self.set_options({"enable_fp16": enable_fp16})

    def set_options(self, options: dict[str, Any]) -> None:
        """Keep settings.

        Args:
            options: Values by name.

        Examples:
            >>> bireme.static.IpuStrategy().set_options({"num_ipus": 1})
        """
        self._options |= options

    def get_option(self, option: str) -> Any:
        """Return a setting.

        Args:
            option: Its name.

        Returns:
            Its value.

        Raises:
            ValueError: If there is none.

        Examples:
            >>> bireme.static.IpuStrategy().get_option("micro_batch_size")
            1
        """
        if option not in self._options:
            raise errors.bad("get_option(option)", "the name of a setting", option)
        return self._options[option]

    def add_custom_op(
        self, paddle_op: str, popart_op: str | None = None, domain: str = "custom.ops", version: int = 1
    ) -> None:
        """Keep the name of an operator of one's own.

        Args:
            paddle_op: Its name.
            popart_op: Its name on the IPU. Default: None, the same.
            domain: Its domain. Default: ``"custom.ops"``.
            version: Its version. Default: 1.

        Examples:
            >>> bireme.static.IpuStrategy().add_custom_op("custom_relu")
        """
        self._custom_ops.append({"paddle_op": paddle_op, "popart_op": popart_op or paddle_op, "domain": domain,
                                 "version": version})  # fmt: skip

    def enable_pattern(self, pattern: str) -> None:
        """Keep that a pattern of the compiler is on.

        Args:
            pattern: Its name.

        Examples:
            >>> bireme.static.IpuStrategy().enable_pattern("ViewSimplifyPattern")
        """
        self._patterns[pattern] = True

    def disable_pattern(self, pattern: str) -> None:
        """Keep that a pattern of the compiler is off.

        Args:
            pattern: Its name.

        Examples:
            >>> bireme.static.IpuStrategy().disable_pattern("ViewSimplifyPattern")
        """
        self._patterns[pattern] = False

    def set_optimizer(self, optimizer: Any) -> None:
        """Keep the settings of an optimizer.

        Args:
            optimizer: The optimizer.

        Examples:
            >>> bireme.static.IpuStrategy().set_optimizer(bireme.optimizer.SGD(0.1, [bireme.ones([1])]))
        """
        self.set_options(self.parse_optimizer(optimizer))

    def parse_optimizer(self, optimizer: Any) -> dict[str, Any]:
        """Return the settings of an optimizer.

        Args:
            optimizer: The optimizer.

        Returns:
            A dict of its learning rate.

        Examples:
            >>> bireme.static.IpuStrategy().parse_optimizer(bireme.optimizer.SGD(0.1, [bireme.ones([1])]))
            {'lr': 0.1}
        """
        return {"lr": optimizer.get_lr()}

    def register_patch(self) -> None:
        """Do nothing: there is no IPU.

        Examples:
            >>> bireme.static.IpuStrategy().register_patch()
        """

    def release_patch(self) -> None:
        """Do nothing: there is no IPU.

        Examples:
            >>> bireme.static.IpuStrategy().release_patch()
        """

    @property
    def num_ipus(self) -> int:
        """Number of IPUs that was set."""
        return self._options["num_ipus"]

    @property
    def is_training(self) -> bool:
        """Whether it was set to train."""
        return self._options["is_training"]

    @property
    def enable_pipelining(self) -> bool:
        """Whether a pipeline was set."""
        return self._options["enable_pipelining"]

    @property
    def enable_fp16(self) -> bool:
        """Whether float16 was set."""
        return self._options["enable_fp16"]


class IpuCompiledProgram(Guarded):
    """A program with settings for IPUs, of which there are none: it runs as any program.

    Args:
        program: The program. Default: None, the default main program.
        scope: Scope. Default: None, the present one.
        ipu_strategy: Settings, which have no effect. Default: None.

    Examples:
        >>> bireme.static.IpuCompiledProgram(bireme.static.Program()).compile([], []).num_ops()
        0
    """

    def __init__(self, program: Program | None = None, scope: Any = None, ipu_strategy: IpuStrategy | None = None):
        self.program = default_main_program() if program is None else program
        if not isinstance(self.program, Program):
            raise errors.bad("IpuCompiledProgram(program)", "a Program", program, kind=errors.ArgumentTypeError)
        self._scope, self._strategy = scope or scopes.global_scope(), ipu_strategy

    def compile(self, feed_list: Sequence[str], fetch_list: Sequence[Any]) -> Program:
        """Return the program.

        Args:
            feed_list: Has no effect.
            fetch_list: Has no effect.

        Returns:
            The program.

        Examples:
            >>> program = bireme.static.Program()
            >>> bireme.static.IpuCompiledProgram(program).compile([], []) is program
            True
        """
        return self.program


@contextmanager
def ipu_shard_guard(index: int = -1, stage: int = -1) -> Iterator[None]:
    """Context manager for the IPU of what is built inside; it has no effect: there is no IPU.

    Args:
        index: Number of the IPU. Default: -1.
        stage: Number of the stage of a pipeline. Default: -1.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.static.ipu_shard_guard(index=0):
        ...     pass
    """
    yield


def set_ipu_shard(call_func: Callable[..., Any], index: int = -1, stage: int = -1) -> Callable[..., Any]:
    """Return a function or layer as it is: there is no IPU to place it on.

    Args:
        call_func: The function or layer.
        index: Number of the IPU. Default: -1.
        stage: Number of the stage of a pipeline. Default: -1.

    Returns:
        ``call_func``.

    Examples:
        >>> bireme.static.set_ipu_shard(bireme.nn.ReLU(), 0)(bireme.to_tensor([-1.0])).tolist()
        [0.0]
    """
    return call_func


guard_functions(globals())
