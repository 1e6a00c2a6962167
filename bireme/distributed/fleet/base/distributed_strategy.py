"""DistributedStrategy: how training is distributed, as options that are checked when they are set."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors

__all__ = ["DistributedStrategy"]

NCCL: dict[str, Any] = {
    "commName": "", "ll_buffsize": 0, "ll128_buffsize": 0, "simple_buffsize": 0, "buffsize_align": 0, "nchannels": 0,
    "algoStr": "", "protoStr": "",
}  # fmt: skip


class Config:
    """Options of one kind by name; only those that exist can be set, to values of their type."""

    _where: str

    def __init__(self, where: str, defaults: dict[str, Any]):
        self.__dict__["_where"] = where
        self.__dict__.update(
            {k: Config(f"{where}.{k}", v) if isinstance(v, dict) else copy.copy(v) for k, v in defaults.items()}
        )

    def _items(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_where"}

    def __setattr__(self, name: str, value: Any) -> None:
        known = self._items()
        if name not in known:
            raise errors.bad(f"{self._where}[{name!r}]", f"one of {', '.join(known)}", described=f"{name!r}")
        old = known[name]
        if isinstance(old, Config) and isinstance(value, dict):
            old._update(value)
            return
        if not _fits(old, value):
            raise errors.bad(
                f"{self._where}[{name!r}]", f"a value like {_said(old)}", value, kind=errors.ArgumentTypeError
            )
        self.__dict__[name] = list(value) if isinstance(old, list) else type(old)(value) if _plain(old) else value

    def _update(self, values: Any) -> None:
        if not isinstance(values, dict):
            raise errors.bad(self._where, "a dict", values, kind=errors.ArgumentTypeError)
        for name, value in values.items():
            setattr(self, name, value)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Config) and self._items() == other._items()

    __hash__ = None  # type: ignore[assignment]  # equal ones may change

    def __repr__(self) -> str:
        return repr(self._items())


def _plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _fits(old: Any, value: Any) -> bool:
    """Whether a value is of an option's type: numbers that are whole may be floats, and flags 0 or 1."""
    if isinstance(old, Config):
        return isinstance(value, Config)
    if isinstance(old, bool):
        return isinstance(value, (bool, int))
    if isinstance(old, int):
        return isinstance(value, int)
    if isinstance(old, float):
        return isinstance(value, (int, float))
    return isinstance(value, (list, tuple)) if isinstance(old, list) else isinstance(value, str)


def _said(old: Any) -> str:
    return "a dict" if isinstance(old, Config) else repr(old)


CONFIGS: dict[str, dict[str, Any]] = {
    "a_sync_configs": {
        "k_steps": -1, "max_merge_var_num": 1, "send_queue_size": 16, "independent_recv_thread": False,
        "min_send_grad_num_before_recv": 1, "thread_pool_size": 1, "send_wait_times": 1,
        "runtime_split_send_recv": False, "launch_barrier": True, "heter_worker_device_guard": "cpu",
        "lr_decay_steps": 10, "use_ps_gpu": 0, "use_gpu_graph": 0,
    },
    "adaptive_localsgd_configs": {"init_k_steps": 1, "begin_step": 1},
    "amp_configs": {
        "init_loss_scaling": 32768.0, "incr_every_n_steps": 1000, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0,
        "decr_ratio": 0.8, "use_dynamic_loss_scaling": True, "custom_white_list": [], "custom_black_list": [],
        "custom_black_varnames": [], "use_pure_fp16": False, "use_fp16_guard": True, "use_optimizer_fp16": False,
        "use_pure_bf16": False,
    },
    "dgc_configs": {"rampup_begin_step": 0, "rampup_step": 1, "sparsity": []},
    "gradient_merge_configs": {"k_steps": 1, "avg": True},
    "gradient_scale_configs": {"scale_strategy": "avg", "scale_gradient": False},
    "hybrid_configs": {
        "dp_degree": -1, "mp_degree": 1, "pp_degree": 1, "sharding_degree": 1, "sep_degree": 1,
        "mp_configs": {
            "sync_param": True, "sync_grad": False, "sync_moment": False, "sync_mode": "broadcast",
            "mp_async_allreduce": False, "mp_skip_c_identity": False, "mp_fused_linear_param_grad_add": False,
            "need_broadcast_data": True, "recompute_allgather": False, "sp_async_reduce_scatter": False,
            "nccl_config": NCCL,
        },
        "pp_configs": {
            "dp_comm_overlap": False, "delay_scale_loss": False, "enable_timer": False, "sharding_comm_overlap": False,
            "profiling": False, "release_gradients": False, "overlap_p2p_comm": False, "clear_every_step_cache": False,
            "use_batch_p2p_comm": True, "best_unbalanced_scheduler": False, "enable_offload_queue": False,
            "enable_dynamic_shape": False, "use_dualpipev": False, "forward_backward_overlap_scheduler": False,
            "coll_nccl_config": NCCL, "p2p_nccl_config": NCCL, "shared_nccl_config": NCCL, "sync_param": False,
            "sync_moment": False, "sync_mode": "broadcast",
        },
        "sharding_configs": {
            "tensor_fusion": False, "accumulate_steps": 1, "comm_overlap": False, "split_param": False,
            "fuse_optimizer": True, "use_reduce_avg": True, "comm_buffer_size_MB": 256, "release_gradients": False,
            "free_grads_in_comm": False, "enable_fuse_optimizer_states": False, "nccl_config": NCCL,
            "check_nccl_config": NCCL,
        },
        "enable_optimizer_timer": False, "split_norm_comm": False, "ep_degree": 1, "moe_sharding_degree": 1,
        "dp_configs": {"nccl_config": NCCL, "check_nccl_config": NCCL}, "sep_configs": {"nccl_config": NCCL},
        "dp_sep_configs": {"nccl_config": NCCL}, "pp_tp_configs": {"nccl_config": NCCL},
        "ep_configs": {"nccl_config": NCCL, "grad_nccl_config": NCCL},
        "moe_sharding_configs": {"nccl_config": NCCL, "check_nccl_config": NCCL},
        "default_comm_group_configs": {"nccl_config": NCCL}, "cp_degree": 1, "cp_sharding_degree": 1,
        "cp_configs": {"nccl_config": NCCL}, "cp_sharding_configs": {"nccl_config": NCCL},
        "dp_cp_configs": {"nccl_config": NCCL}, "cp_mp_configs": {"nccl_config": NCCL},
    },
    "lamb_configs": {"lamb_weight_decay": 0.01, "exclude_from_weight_decay": []},
    "lars_configs": {
        "lars_coeff": 0.001, "lars_weight_decay": 0.0005, "epsilon": 0.0, "exclude_from_weight_decay": [],
    },
    "localsgd_configs": {"k_steps": 1, "begin_step": 1},
    "pipeline_configs": {
        "micro_batch_size": 1, "accumulate_steps": 1, "schedule_mode": "1F1B", "p2p_cache_shape": True,
        "enable_partial_send_recv": True,
    },
    "qat_configs": {
        "channel_wise_abs_max": True, "weight_bits": 8, "activation_bits": 8, "not_quant_pattern": [], "algo": "",
    },
    "recompute_configs": {
        "checkpoints": [], "enable_offload": False, "checkpoint_shape": [], "enable_tuning": False,
        "refined_ops_patterns": [],
    },
    "sharding_configs": {
        "sharding_segment_strategy": "segment_broadcast_MB", "segment_broadcast_MB": 32.0, "segment_anchors": [],
        "sharding_degree": 8, "mp_degree": 1, "dp_degree": 1, "hybrid_dp": False, "gradient_merge_acc_step": 1,
        "optimize_offload": False, "pp_allreduce_in_optimize": False, "pp_degree": 1, "optimize_cast": False,
        "_dp_as_optimizer_sharding": False, "stage": 1, "enable_tuning": False, "use_calc_stream": False,
    },
    "tensor_parallel_configs": {"tensor_parallel_degree": 1, "tensor_init_seed": -1},
    "trainer_desc_configs": {
        "dump_fields_path": "", "dump_fields": [], "dump_param": [], "stat_var_names": [], "trainer": "",
        "device_worker": "", "local_sparse": [], "remote_sparse": [],
    },
}  # fmt: skip


def _option(name: str, default: Any, says: str) -> property:
    """A property of one value; one of another type is refused with a warning, as in Paddle."""

    def fget(self: DistributedStrategy) -> Any:
        return self.__dict__.get(f"_{name}", default)

    def fset(self: DistributedStrategy, value: Any) -> None:
        wanted = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
            kind = type(default).__name__
            errors.warn(f"DistributedStrategy.{name}: expected {kind}, got {value!r}; it stays {fget(self)!r}")
            return
        self.__dict__[f"_{name}"] = value

    return property(fget, fset, doc=says)


def _configs(name: str, says: str) -> property:
    """A property of several values by name; setting it changes those that are given."""

    def held(self: DistributedStrategy) -> Config:
        return self.__dict__.setdefault(f"_{name}", Config(name, CONFIGS[name]))

    def fget(self: DistributedStrategy) -> dict[str, Any]:
        return held(self)._items()

    def fset(self: DistributedStrategy, values: dict[str, Any]) -> None:
        if name == "hybrid_configs" and isinstance(values, dict) and "order" in values:
            values = dict(values)
            self.hybrid_parallel_order = values.pop("order")
        held(self)._update(values)

    return property(fget, fset, doc=says)


class DistributedStrategy:
    """Options of distributed training, for ``fleet.init``.

    All of them are stored and checked. ``hybrid_configs`` has the number of processes along each axis, ``pipeline_configs``
    the micro-batches and the schedule of ``PipelineParallel``, and ``gradient_merge_configs`` the steps between updates.

    Examples:
        >>> strategy = bireme.distributed.fleet.DistributedStrategy()
        >>> strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": 1, "pp_degree": 1}
        >>> strategy.hybrid_configs["dp_degree"], strategy.amp
        (1, False)
    """

    def __init__(self) -> None:
        self.__dict__["_order"] = ["dp", "pp", "sharding", "sep", "cp", "mp"]

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            raise errors.bad(
                f"DistributedStrategy.{name}", "one of its options", described=f"{name!r}",
                kind=errors.MissingAttributeError,
            )  # fmt: skip
        super().__setattr__(name, value)

    @property
    def hybrid_parallel_order(self) -> list[str]:
        """Order of the axes along which processes are numbered, the last one first."""
        return self.__dict__["_order"]

    @hybrid_parallel_order.setter
    def hybrid_parallel_order(self, order: Sequence[str]) -> None:
        known = {"dp", "pp", "sharding", "sep", "cp", "mp", "ep", "moe_sharding"}
        if not isinstance(order, (list, tuple)) or not set(order) <= known:
            raise errors.bad("hybrid_configs['order']", f"a list of {', '.join(sorted(known))}", order)
        self.__dict__["_order"] = list(order)

    a_sync = _option("a_sync", True, "Whether workers of a parameter server do not wait for each other.")
    a_sync_configs = _configs("a_sync_configs", "Options of ``a_sync``.")
    adam_d2sum = _option("adam_d2sum", False, "Whether the sparse table uses another form of Adam.")
    adaptive_localsgd = _option("adaptive_localsgd", False, "Whether local steps between exchanges are adapted.")
    adaptive_localsgd_configs = _configs("adaptive_localsgd_configs", "Options of ``adaptive_localsgd``.")
    amp = _option("amp", False, "Whether static programs compute in mixed precision.")
    amp_configs = _configs("amp_configs", "Options of ``amp``.")
    asp = _option("asp", False, "Whether weights are pruned in a regular pattern.")
    auto = _option("auto", False, "Whether options are chosen automatically.")
    auto_search = _option("auto_search", False, "Whether a plan of parallel training is searched for.")
    conv_workspace_size_limit = _option("conv_workspace_size_limit", 512, "Megabytes of workspace for a convolution.")
    cudnn_batchnorm_spatial_persistent = _option(
        "cudnn_batchnorm_spatial_persistent", False, "Whether cuDNN uses its persistent batch normalization."
    )
    cudnn_exhaustive_search = _option("cudnn_exhaustive_search", False, "Whether cuDNN tries all algorithms.")
    dgc = _option("dgc", False, "Whether only the largest gradients are exchanged.")
    dgc_configs = _configs("dgc_configs", "Options of ``dgc``.")
    elastic = _option("elastic", False, "Whether processes may come and go.")
    find_unused_parameters = _option(
        "find_unused_parameters", False, "Whether parameters are expected that the loss does not depend on."
    )
    fp16_allreduce = _option("fp16_allreduce", False, "Whether gradients are exchanged in float16.")
    fuse_all_reduce_ops = _option("fuse_all_reduce_ops", True, "Whether gradients are exchanged together.")
    fuse_grad_merge = _option("fuse_grad_merge", False, "Whether accumulated gradients share one buffer.")
    fuse_grad_size_in_MB = _option("fuse_grad_size_in_MB", 32, "Megabytes of gradients that are exchanged together.")
    fuse_grad_size_in_num = _option("fuse_grad_size_in_num", 8, "Number of gradients that are exchanged together.")
    gradient_merge = _option("gradient_merge", False, "Whether gradients of several steps are added up.")
    gradient_merge_configs = _configs("gradient_merge_configs", "Options of ``gradient_merge``.")
    gradient_scale_configs = _configs("gradient_scale_configs", "How gradients of several processes are scaled.")
    heter_ccl_mode = _option("heter_ccl_mode", False, "Whether devices of several kinds work together.")
    hierarchical_allreduce_inter_nranks = _option(
        "hierarchical_allreduce_inter_nranks", 1, "Number of processes in a group of ``use_hierarchical_allreduce``."
    )
    hybrid_configs = _configs("hybrid_configs", "How many parts there are along each axis, and options of each.")
    is_fl_ps_mode = _option("is_fl_ps_mode", False, "Whether parameter servers train federated.")
    is_with_coordinator = _option("is_with_coordinator", False, "Whether federated training has a coordinator.")
    lamb = _option("lamb", False, "Whether the optimizer becomes Lamb in static programs.")
    lamb_configs = _configs("lamb_configs", "Options of ``lamb``.")
    lars = _option("lars", False, "Whether the optimizer becomes LARS in static programs.")
    lars_configs = _configs("lars_configs", "Options of ``lars``.")
    last_comm_group_size_MB = _option("last_comm_group_size_MB", 1.0, "Megabytes of the last gradients together.")
    localsgd = _option("localsgd", False, "Whether processes exchange parameters only every few steps.")
    localsgd_configs = _configs("localsgd_configs", "Options of ``localsgd``.")
    nccl_comm_num = _option("nccl_comm_num", 1, "Number of communicators of NCCL.")
    pipeline = _option("pipeline", False, "Whether layers are divided into stages.")
    pipeline_configs = _configs("pipeline_configs", "Size and number of micro-batches, and options of ``pipeline``.")
    qat = _option("qat", False, "Whether training is aware of quantization.")
    qat_configs = _configs("qat_configs", "Options of ``qat``.")
    recompute = _option("recompute", False, "Whether activations are computed again in the backward pass.")
    recompute_configs = _configs("recompute_configs", "Options of ``recompute``.")
    semi_auto = _option("semi_auto", False, "Whether a plan is completed from annotations.")
    sharding = _option("sharding", False, "Whether optimizer states are divided.")
    sharding_configs = _configs("sharding_configs", "Options of ``sharding``.")
    split_data = _option("split_data", True, "Whether a batch is divided among the processes.")
    sync_batch_norm = _option("sync_batch_norm", False, "Whether batch normalization sees all processes' samples.")
    sync_nccl_allreduce = _option("sync_nccl_allreduce", True, "Whether the exchange of gradients is waited for.")
    tensor_parallel = _option("tensor_parallel", False, "Whether weights are divided.")
    tensor_parallel_configs = _configs("tensor_parallel_configs", "Options of ``tensor_parallel``.")
    trainer_desc_configs = _configs("trainer_desc_configs", "Options of trainers that read datasets.")
    use_hierarchical_allreduce = _option(
        "use_hierarchical_allreduce", False, "Whether gradients are exchanged in groups first."
    )
    without_graph_optimization = _option(
        "without_graph_optimization", True, "Whether static programs run without passes over the graph."
    )

    def __repr__(self) -> str:
        names = sorted(n for n, v in vars(DistributedStrategy).items() if isinstance(v, property))
        return "DistributedStrategy(\n" + "".join(f"    {n}={getattr(self, n)!r},\n" for n in names) + ")"
