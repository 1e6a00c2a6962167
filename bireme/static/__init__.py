"""Static mode: programs that are built first and run later, for any sizes of their inputs."""

from bireme.core.program import calls, methods
from bireme.core.program.program import Program
from bireme.core.program.variable import Variable
from bireme.nn.parameter import create_parameter
from bireme.static import nn as nn
from bireme.static.executor import Executor
from bireme.static.gradients import append_backward, gradients
from bireme.static.input import InputSpec
from bireme.static.programs import data, default_main_program, default_startup_program, program_guard
from bireme.static.scopes import Scope, global_scope, scope_guard
from bireme.static.variables import cpu_places, create_global_var, cuda_places, device_guard, name_scope

__all__ = [
    "Executor",
    "InputSpec",
    "Program",
    "Scope",
    "Variable",
    "append_backward",
    "cpu_places",
    "create_global_var",
    "create_parameter",
    "cuda_places",
    "data",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "global_scope",
    "gradients",
    "name_scope",
    "program_guard",
    "scope_guard",
]

methods.install()
calls.install()
