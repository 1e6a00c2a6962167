"""Static mode: programs that are built first and run later, for any sizes of their inputs."""

from bireme.core.program import methods
from bireme.core.program.program import Program
from bireme.core.program.variable import Variable
from bireme.static import nn as nn
from bireme.static.executor import Executor
from bireme.static.gradients import append_backward, gradients
from bireme.static.input import InputSpec
from bireme.static.programs import data, default_main_program, default_startup_program, program_guard

__all__ = [
    "Executor",
    "InputSpec",
    "Program",
    "Variable",
    "append_backward",
    "data",
    "default_main_program",
    "default_startup_program",
    "gradients",
    "program_guard",
]

methods.install()
