"""Flags: one declaration each, with type, default and a sentence; `set_flags`, `get_flags` and environment variables."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guarded


@dataclass
class Flag:
    """A flag and its current value."""

    name: str
    type: type
    default: Any
    doc: str
    value: Any = None


_ALL: dict[str, Flag] = {}
_FIXED: dict[str, Flag] = {}  # switches of Paddle's that have one position here
_UNREAD: dict[str, Flag] = {}  # switches of Paddle's allocators, kernels and executors, which are not there


def declare(name: str, kind: type, default: Any, doc: str) -> Flag:
    """Declare a flag; the environment variable FLAGS_name sets its initial value."""
    flag = _ALL[name] = Flag(name, kind, default, doc, default)
    text = os.environ.get(f"FLAGS_{name}")
    if text is not None:
        flag.value = _parse(flag, text, f"FLAGS_{name} of the environment")
    return flag


def fixed(name: str, value: Any, doc: str) -> None:
    """Declare a flag of Paddle's that has one value here: it can be read, and set to that value only."""
    _FIXED[name] = Flag(name, type(value), value, doc, value)


def unread(why: str, **defaults: Any) -> None:
    """Declare flags of Paddle's allocators, kernels and executors, which can be set and have no effect here."""
    for name, value in defaults.items():
        _UNREAD[name] = Flag(name, type(value), value, why, value)


def _parse(flag: Flag, value: Any, where: str | None = None) -> Any:
    where = where or f"set_flags(FLAGS_{flag.name})"
    if flag.type is bool:
        if isinstance(value, str):
            if value.lower() in ("1", "true", "on", "yes"):
                return True
            if value.lower() in ("0", "false", "off", "no"):
                return False
            raise errors.bad(where, "true or false", value)
        if value in (0, 1):
            return bool(value)
        raise errors.bad(where, "true or false", value)
    try:
        return flag.type(value)
    except (TypeError, ValueError):
        raise errors.bad(where, f"a value of type {flag.type.__name__}", value) from None


deterministic = declare(
    "deterministic", bool, False, "compile always and match liveness exactly: a resumed run equals an unbroken one"
)
op_at_once = declare("op_at_once", bool, False, "run every operator when it is called, for debugging")
check_nan_inf = declare(
    "check_nan_inf", bool, False, "stop at the first operator that produces NaN or infinity, naming it and the line"
)
check_nan_inf_level = declare(
    "check_nan_inf_level", int, 0, "what check_nan_inf does: 0 stops, 1 and more write a line and go on"
)
interpret = declare(
    "interpret", bool, True, "let segments that are met for the first time on CPU run without a compile"
)
compile_beside = declare(
    "compile_beside",
    bool,
    True,
    "let threads compile what takes long on CPU while it is interpreted; False: the second run waits for it",
)
pad_sizes = declare(
    "pad_sizes",
    bool,
    True,
    "let graphs whose sizes keep changing run on an accelerator as programs for a few larger sizes, where that changes nothing",
)
tell_compiles = declare(
    "tell_compiles", float, 4.0, "seconds after which a compile that still goes on says so on standard error; 0: never"
)
compile_cache = declare("compile_cache", bool, True, "keep compiled programs on disk, private to the user")
keep_pages = declare(
    "keep_pages",
    bool,
    True,
    "let malloc keep freed pages, so that large programs do not fault them in again (Linux, process-wide)",
)
freeze_imports = declare(
    "freeze_imports",
    bool,
    True,
    "keep what was imported before out of Python's garbage collections, which are then shorter",
)
full_traceback = declare("full_traceback", bool, False, "show the engine's own frames in errors about arguments")
compile_cache_bytes = declare("compile_cache_bytes", int, 2 << 30, "bound of the compile cache on disk")
max_pending_nodes = declare("max_pending_nodes", int, 3000, "operators that may be pending before they run")
max_pending_bytes = declare("max_pending_bytes", int, 4 << 30, "bytes of results that may be pending before they run")
programs_per_skeleton = declare(
    "programs_per_skeleton", int, 16, "compiled programs kept for the same operators from the same lines"
)

fixed("use_stride_kernel", True, "slices, reshapes and transposes share storage with their source")
fixed("set_to_1d", False, "a result without axes stays so")
fixed("enable_pir_api", False, "programs are Bireme's own graphs, not Paddle's PIR")
fixed("prim_all", False, "operators are not taken apart: XLA fuses them whole")

unread(
    "memory is XLA's business",
    allocator_strategy="auto_growth",
    eager_delete_tensor_gb=0.0,
    fast_eager_deletion_mode=True,
    memory_fraction_of_eager_deletion=1.0,
    fraction_of_gpu_memory_to_use=0.92,
    fraction_of_cpu_memory_to_use=1.0,
    initial_gpu_memory_in_mb=0,
    initial_cpu_memory_in_mb=500,
    reallocate_gpu_memory_in_mb=0,
    gpu_memory_limit_mb=0,
    use_system_allocator=False,
    use_pinned_memory=True,
    init_allocated_mem=False,
    use_shm_cache=False,
    auto_growth_chunk_size_in_mb=0,
    alloc_fill_value=-1,
    fraction_of_cuda_pinned_memory_to_use=0.5,
    free_idle_chunk=False,
    free_when_no_cache_hit=False,
    gpu_allocator_retry_time=10000,
    log_memory_stats=False,
    pinned_memory_as_cpu_backend=False,
    sync_after_alloc=False,
    use_auto_growth_v2=False,
    use_auto_growth_pinned_allocator=False,
    use_cuda_malloc_async_allocator=False,
    use_cuda_managed_memory=False,
    use_stream_safe_cuda_allocator=True,
    use_virtual_memory_auto_growth=False,
)
unread(
    "XLA chooses its kernels, and the same ones every time",
    cudnn_deterministic=False,
    cudnn_exhaustive_search=False,
    cudnn_batchnorm_spatial_persistent=False,
    conv_workspace_size_limit=512,
    embedding_deterministic=0,
    cpu_deterministic=False,
    enable_cublas_tensor_op_math=False,
    gemm_use_half_precision_compute_type=False,
    use_autotune=False,
    use_mkldnn=False,
    search_cache_max_number=1000000,
    einsum_opt=False,
    enable_api_kernel_fallback=True,
    use_onednn=False,
    tracer_onednn_ops_on="",
    tracer_onednn_ops_off="",
    use_stride_compute_kernel=False,
    enable_blaslt_global_search=False,
    blha_use_fp32_qk_sum=False,
    multi_block_attention_min_partition_size=1024,
    fused_multi_transformer_op_use_mbfmha=False,
    manually_trans_conv_filter=False,
    enable_auto_layout_pass=True,
    enable_fuse_parallel_matmul_pass=True,
)
unread(
    "derivatives of any order need no operators taken apart",
    prim_forward=False,
    prim_backward=False,
    prim_enable_dynamic=False,
    prim_skip_dynamic=True,
    prim_check_ops=False,
    prim_forward_blacklist="",
)
unread("gradients are always added in one order", sort_sum_gradient=False, max_inplace_grad_add=0)
unread(
    "how Paddle's engine runs, looks and speaks",
    benchmark=False,
    call_stack_level=1,
    low_precision_op_list=0,
    dygraph_debug=0,
    host_trace_level=1,
    paddle_num_threads=1,
    inner_op_parallelism=0,
    tensor_operants_mode="eager",
    new_executor_serial_run=False,
    new_executor_use_inplace=False,
    new_executor_sequential_run=False,
    new_executor_static_build=False,
    new_executor_use_cuda_graph=False,
    new_executor_use_local_scope=True,
    enable_pir_in_executor=True,
    enable_pir_in_executor_trace_run=False,
    enable_pir_with_pt_in_dy2st=True,
    enable_cse_in_dy2st=True,
    pir_apply_inplace_pass=True,
    print_ir=False,
    print_kernel_run_info=False,
    share_tensor_for_grad_tensor_holder=False,
    enable_auto_parallel_align_mode=False,
    enable_async_trace=False,
    async_trace_count=5,
    eager_communication_connection=False,
    dataloader_use_file_descriptor=False,
    use_default_stream=False,
    check_cuda_error=False,
    force_sync_ops="",
    accuracy_check_atol_fp32=1e-6,
    accuracy_check_rtol_fp32=1e-6,
    accuracy_check_atol_fp16=1e-3,
    accuracy_check_rtol_fp16=1e-3,
    accuracy_check_atol_bf16=1e-3,
    accuracy_check_rtol_bf16=1e-3,
)


@guarded
def set_flags(flags: dict[str, Any]) -> None:
    """Set flags of the process.

    The environment variable of the same name sets the initial value of a flag. Flags of Paddle that have no meaning
    here are accepted and have no effect; an unknown name is an error.

    Args:
        flags: Dict of names to values, for example ``{"FLAGS_check_nan_inf": True}``.

    Raises:
        ValueError: If a name is unknown or a value does not fit; then no flag is changed.

    Examples:
        >>> bireme.set_flags({"FLAGS_check_nan_inf": True})
        >>> bireme.get_flags("FLAGS_check_nan_inf")
        {'FLAGS_check_nan_inf': True}
        >>> bireme.set_flags({"FLAGS_check_nan_inf": False})
    """
    if not isinstance(flags, dict):
        raise errors.bad("set_flags(flags)", "a dict of names and values", flags, kind=errors.ArgumentTypeError)
    parsed = [(f := _find(name, "set_flags"), _parse(f, value)) for name, value in flags.items()]
    for flag, value in parsed:
        if flag.name in _FIXED and value != flag.value:
            raise errors.bad(f"set_flags(FLAGS_{flag.name})", f"{flag.value}: {flag.doc}", value)
    for flag, value in parsed:
        flag.value = value
    for listener in _LISTENERS:
        listener()


@guarded
def get_flags(flags: str | list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Return the values of flags.

    Args:
        flags: A name or a list of names, such as ``"FLAGS_check_nan_inf"``.

    Returns:
        A dict of names to values.

    Examples:
        >>> bireme.get_flags(["FLAGS_interpret", "FLAGS_deterministic"])
        {'FLAGS_interpret': True, 'FLAGS_deterministic': False}
    """
    if not isinstance(flags, (str, list, tuple)):
        raise errors.bad("get_flags(flags)", "a name or a list of names", flags, kind=errors.ArgumentTypeError)
    names = [flags] if isinstance(flags, str) else list(flags)
    return {name: _find(name, "get_flags").value for name in names}


def _find(name: Any, caller: str) -> Flag:
    short = name.removeprefix("FLAGS_") if isinstance(name, str) else ""
    flag = _ALL.get(short) or _FIXED.get(short) or _UNREAD.get(short)
    if flag is None:
        near = difflib.get_close_matches(short, _ALL, len(_ALL), 0.0)  # all of them, the most similar first
        raise errors.bad(f"{caller}(flags)", f"one of {', '.join('FLAGS_' + n for n in near or _ALL)}", name)
    return flag


def declared() -> list[Flag]:
    """The flags that change something here, in the order of their declarations."""
    return list(_ALL.values())


def known() -> list[str]:
    """Return the full names of all flags."""
    return [f"FLAGS_{name}" for name in (*_ALL, *_FIXED, *_UNREAD)]


# called after every change; the recorder keeps the debugging flags in one attribute that the hot path reads
_LISTENERS: list = []


def on_change(listener) -> None:
    _LISTENERS.append(listener)
    listener()


def _tell_errors() -> None:
    errors.full_traceback[0] = full_traceback.value


on_change(_tell_errors)
