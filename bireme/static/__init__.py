"""Static mode: programs that are built first and run later, for any sizes of their inputs."""

from bireme.core.program import calls, methods
from bireme.core.program.program import Program
from bireme.core.program.variable import Variable
from bireme.nn.parameter import create_parameter
from bireme.param_attr import WeightNormParamAttr
from bireme.static import amp as amp
from bireme.static import nn as nn
from bireme.static.averages import ExponentialMovingAverage
from bireme.static.compiling import (
    BuildStrategy,
    CompiledProgram,
    IpuCompiledProgram,
    IpuStrategy,
    ipu_shard_guard,
    set_ipu_shard,
)
from bireme.static.executor import Executor
from bireme.static.gradients import append_backward, gradients
from bireme.static.inference_models import (
    deserialize_persistables,
    deserialize_program,
    load_from_file,
    load_inference_model,
    normalize_program,
    save_inference_model,
    save_to_file,
    serialize_persistables,
    serialize_program,
)
from bireme.static.input import InputSpec
from bireme.static.metrics import accuracy, auc, ctr_metric_bundle
from bireme.static.nn.python_calls import py_func
from bireme.static.printing import Print
from bireme.static.programs import data, default_main_program, default_startup_program, program_guard
from bireme.static.saving import load, load_program_state, load_vars, save, set_program_state
from bireme.static.scopes import Scope, global_scope, scope_guard
from bireme.static.variables import cpu_places, create_global_var, cuda_places, device_guard, name_scope, xpu_places

__all__ = [
    "BuildStrategy",
    "CompiledProgram",
    "Executor",
    "ExponentialMovingAverage",
    "InputSpec",
    "IpuCompiledProgram",
    "IpuStrategy",
    "Print",
    "Program",
    "Scope",
    "Variable",
    "WeightNormParamAttr",
    "accuracy",
    "append_backward",
    "auc",
    "cpu_places",
    "create_global_var",
    "create_parameter",
    "ctr_metric_bundle",
    "cuda_places",
    "data",
    "default_main_program",
    "default_startup_program",
    "deserialize_persistables",
    "deserialize_program",
    "device_guard",
    "global_scope",
    "gradients",
    "ipu_shard_guard",
    "load",
    "load_from_file",
    "load_inference_model",
    "load_program_state",
    "load_vars",
    "name_scope",
    "normalize_program",
    "program_guard",
    "py_func",
    "save",
    "save_inference_model",
    "save_to_file",
    "scope_guard",
    "serialize_persistables",
    "serialize_program",
    "set_ipu_shard",
    "set_program_state",
    "xpu_places",
]

methods.install()
calls.install()
