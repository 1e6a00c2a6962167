"""Switches of Config that do nothing here, and those that are refused: methods made from tables."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from bireme.core.base import errors
from bireme.inference.kinds import PrecisionType

# what a method without arguments returns, which is what others have set
DEFAULTS: dict[str, Any] = {
    "ir_optim": True, "memory_pool_init_size_mb": 100, "fraction_of_gpu_memory_for_pool": 0.0,
    "cpu_math_library_num_threads": 1, "glog_info_disabled": False, "specify_input_name": False,
    "use_feed_fetch_ops_enabled": False, "new_ir_enabled": False, "mkldnn_enabled": False, "onednn_enabled": False,
    "openvino_engine_enabled": False, "use_xpu": False, "xpu_device_id": 0,
    "shape_range_info_path": "", "shape_range_info_collected": False, "tensorrt_engine_enabled": False,
    "tensorrt_dla_enabled": False, "tensorrt_dynamic_shape_enabled": False, "tensorrt_inspector_enabled": False,
    "tensorrt_explicit_quantization_enabled": False, "tensorrt_optimization_level": 3,
    "tensorrt_precision_mode": PrecisionType.Float32, "tensorrt_varseqlen_enabled": False,
    "trt_allow_build_at_runtime": False, "tuned_tensorrt_dynamic_shape": False, "xpu_config": None,
}  # fmt: skip
_COMPILED = "graphs are compiled by XLA"
_SHAPES = "programs are compiled for the shapes that come"
_TUNED = "tuned_tensorrt_dynamic_shape", "shape_range_info_path", "trt_allow_build_at_runtime"
# name: parameters, why it has no effect, and what it sets
NO_EFFECT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "disable_glog_info": ("", "nothing is logged", {"glog_info_disabled": True}),
    "enable_memory_optim": ("x=True", "the compiler assigns buffers", {}),
    "enable_new_executor": ("x=True", "there is one executor", {}),
    "enable_new_ir": ("x=True", "models of both kinds become one kind of graph", {"new_ir_enabled": "x"}),
    "switch_use_feed_fetch_ops": ("x=True", "inputs and outputs are given by handles", {"use_feed_fetch_ops_enabled": "x"}),
    "switch_specify_input_names": ("x=True", "inputs always have names", {"specify_input_name": "x"}),
    "switch_ir_debug": ("x=True, passes=[]", "`jit.transforms.transform` returns what each pass changed", {}),
    "enable_mkldnn": ("", _COMPILED, {"mkldnn_enabled": True, "onednn_enabled": True}),
    "disable_mkldnn": ("", _COMPILED, {"mkldnn_enabled": False, "onednn_enabled": False}),
    "enable_onednn": ("", _COMPILED, {"mkldnn_enabled": True, "onednn_enabled": True}),
    "disable_onednn": ("", _COMPILED, {"mkldnn_enabled": False, "onednn_enabled": False}),
    "set_mkldnn_op": ("ops", _COMPILED, {}),
    "set_onednn_op": ("ops", _COMPILED, {}),
    "enable_cinn": ("", _COMPILED, {}),
    "set_optimization_level": ("opt_level=2", "the passes are those of `pass_builder()`", {}),
    "set_optim_cache_dir": ("path", "programs are kept where BIREME_CACHE_DIR says", {}),
    "enable_save_optim_model": ("save_optimized_model=False", "compiled programs are kept in the cache", {}),
    "use_optimized_model": ("x=True", "compiled programs are kept in the cache", {}),
    "enable_ort_optimization": ("", "ONNX Runtime always optimizes its graphs", {}),
    "enable_openvino_engine": ("inference_precision=PrecisionType.Float32", _COMPILED, {"openvino_engine_enabled": True}),
    "collect_shape_range_info": (
        "path", _SHAPES, {"shape_range_info_path": "path", "shape_range_info_collected": True},
    ),
    "enable_tuned_tensorrt_dynamic_shape": (
        "shape_range_info_path='', allow_build_at_runtime=True", _SHAPES,
        dict(zip(_TUNED, (True, "shape_range_info_path", "allow_build_at_runtime"), strict=True)),
    ),
    "set_trt_dynamic_shape_info": (
        "min_input_shape={}, max_input_shape={}, optim_input_shape={}, disable_trt_plugin_fp16=False", _SHAPES,
        {"tensorrt_dynamic_shape_enabled": True},
    ),
    "enable_tensorrt_varseqlen": ("", _SHAPES, {"tensorrt_varseqlen_enabled": True}),
    "enable_tensorrt_memory_optim": ("engine_memory_sharing=True, sharing_identifier=0", "the compiler assigns buffers", {}),
    "enable_tensorrt_inspector": ("inspector_serialize=False", _COMPILED, {"tensorrt_inspector_enabled": True}),
    "set_tensorrt_optimization_level": ("level", _COMPILED, {"tensorrt_optimization_level": "level"}),
    "exp_disable_tensorrt_ops": ("ops", _COMPILED, {}),
    "exp_disable_tensorrt_subgraph": ("outputs", _COMPILED, {}),
    "exp_disable_tensorrt_dynamic_shape_ops": ("x", _COMPILED, {}),
    "exp_specify_tensorrt_subgraph_precision": ("fp32_params, fp16_params, int8_params", _COMPILED, {}),
    "mark_trt_engine_outputs": ("output_tensor_names=[]", _COMPILED, {}),
    "exp_enable_use_cutlass": ("", _COMPILED, {}),
    "exp_sparse_conv_using_buffer": ("kernels, strides", _COMPILED, {}),
    "set_xpu_config": ("config", "there are no XPU devices", {"xpu_config": "config"}),
    "set_xpu_device_id": ("device_id=0", "there are no XPU devices", {"xpu_device_id": "device_id"}),
}  # fmt: skip
# name: parameters, what to do instead
REFUSED: dict[str, tuple[str, str]] = {
    "enable_tensorrt_engine": (
        "workspace_size=1073741824, max_batch_size=1, min_subgraph_size=3, precision_mode=PrecisionType.Float32, "
        "use_static=False, use_calib_mode=True, use_cuda_graph=False",
        "graphs are compiled without TensorRT; enable_use_gpu(100, 0, PrecisionType.Half) runs in half precision",
    ),
    "enable_tensorrt_dla": ("dla_core=0", "there are no such devices"),
    "enable_tensorrt_explicit_quantization": ("", "bireme.quantization makes models of 8-bit integers"),
    "enable_xpu": (
        "l3_size=16777216, l3_locked=False, conv_autotune=False, conv_autotune_file='', transformer_encoder_precision='int16', "
        "transformer_encoder_adaptive_seqlen=False, enable_multi_stream=False",
        "there are no XPU devices; enable_custom_device takes those of a plug-in",
    ),
    "enable_ipu": (
        "ipu_device_num=1, ipu_micro_batch_size=1, ipu_enable_pipelining=False, ipu_batches_per_step=1",
        "there are no IPU devices; enable_custom_device takes those of a plug-in",
    ),
    "set_ipu_config": (
        "ipu_enable_fp16=False, ipu_replica_num=1, ipu_available_memory_proportion=1.0, ipu_enable_half_partial=False, "
        "ipu_enable_model_runtime_executor=False",
        "there are no IPU devices",
    ),
    "set_ipu_custom_info": ("ipu_custom_ops_info=[], ipu_custom_patterns={}", "there are no IPU devices"),
    "load_ipu_config": ("config_path", "there are no IPU devices"),
    "enable_profile": ("", "bireme.profiler.Profiler measures any code, a predictor's too"),
    "exp_enable_mixed_precision_ops": (
        "ops",
        "operators in half precision are those of auto_cast; exp_disable_mixed_precision_ops keeps some in float32",
    ),
    "to_native_config": ("", "there is one kind of Config"),
}  # fmt: skip


def _signature(parameters: str) -> inspect.Signature:
    """The signature of a method, from its parameters as text."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [inspect.Parameter("self", kind)]
    for each in _split(parameters):
        name, _, text = each.partition("=")
        default: Any = inspect.Parameter.empty
        if text:
            default = PrecisionType.Float32 if text == "PrecisionType.Float32" else ast.literal_eval(text)
        found.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(found)


def _split(parameters: str) -> list[str]:
    return [each.strip() for each in parameters.split(",") if each.strip()]


def _args(parameters: str, text: str) -> str:
    names = [each.partition("=")[0] for each in _split(parameters)]
    return "".join(["\n\nArgs:", *[f"\n    {name}: {text}" for name in names]]) if names else ""


def _without_effect(name: str, parameters: str, why: str, sets: dict[str, Any]) -> Any:
    sign = _signature(parameters)

    def method(self: Any, *args: Any, **kwargs: Any) -> None:
        given = _bound(name, sign, self, args, kwargs)
        for key, value in sets.items():
            self._settings[key] = given[value] if isinstance(value, str) else value

    kept = f" Kept for ``{next(iter(sets))}()``." if sets else ""
    method.__doc__ = f"Has no effect: {why}.{kept}{_args(parameters, 'Has no effect.')}"
    return _named(method, name, sign)


def _refused(name: str, parameters: str, instead: str) -> Any:
    sign = _signature(parameters)

    def method(self: Any, *args: Any, **kwargs: Any) -> None:
        _bound(name, sign, self, args, kwargs)
        raise errors.failure(f"Config.{name} is not supported: {instead}", kind=NotImplementedError)

    method.__doc__ = (
        f"Is refused: {instead}.{_args(parameters, 'Has no effect.')}\n\nRaises:\n    NotImplementedError: Always."
    )
    return _named(method, name, sign)


def _getter(name: str) -> Any:
    def method(self: Any) -> Any:
        return self._settings[name]

    method.__doc__ = (
        f"Return what was set, {DEFAULTS[name]!r} without that.\n\nReturns:\n    A {type(DEFAULTS[name]).__name__}."
    )
    return _named(method, name, _signature(""))


def _named(method: Any, name: str, sign: inspect.Signature) -> Any:
    method.__name__, method.__qualname__, method.__signature__ = name, f"Config.{name}", sign
    return method


def _bound(name: str, sign: inspect.Signature, self: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        found = sign.bind(self, *args, **kwargs)
    except TypeError as e:
        raise errors.bad(f"Config.{name}", "its arguments", described=str(e), kind=errors.ArgumentTypeError) from None
    found.apply_defaults()
    return found.arguments


def install(cls: type) -> None:
    """Give a class the methods of the tables."""
    for name, (parameters, why, sets) in NO_EFFECT.items():
        setattr(cls, name, _without_effect(name, parameters, why, sets))
    for name, (parameters, instead) in REFUSED.items():
        setattr(cls, name, _refused(name, parameters, instead))
    for name in DEFAULTS.keys() - vars(cls).keys():
        setattr(cls, name, _getter(name))
