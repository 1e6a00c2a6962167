"""bfloat16 in programs, by the names that Paddle has for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base.boundary import guard_functions
from bireme.core.program.program import Program
from bireme.optimizer import Optimizer
from bireme.static.amp.decorator import OptimizerWithMixedPrecision, decorate
from bireme.static.amp.fp16_lists import AutoMixedPrecisionLists, overlap
from bireme.static.amp.fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16, fp16_guard, set_precision

__all__ = [
    "AutoMixedPrecisionListsBF16",
    "bf16_guard",
    "cast_model_to_bf16",
    "cast_parameters_to_bf16",
    "convert_float_to_uint16",
    "decorate_bf16",
    "rewrite_program_bf16",
]

bf16_guard = fp16_guard


class AutoMixedPrecisionListsBF16(AutoMixedPrecisionLists):
    """Lists of operators that compute in bfloat16, or in float32.

    Args:
        custom_bf16_list: Names of operators that are added to the first. Default: None.
        custom_fp32_list: Names of operators that are added to the second. Default: None.
        custom_fp32_varnames: Names of variables: operators that read one compute in float32. Default: None.

    Raises:
        ValueError: If an operator is in both lists.

    Examples:
        >>> lists = bireme.static.amp.bf16.AutoMixedPrecisionListsBF16(custom_fp32_list=["matmul"])
        >>> "matmul" in lists.bf16_list, "matmul" in lists.fp32_list
        (False, True)
    """

    def __init__(
        self,
        custom_bf16_list: Iterable[str] | None = None,
        custom_fp32_list: Iterable[str] | None = None,
        custom_fp32_varnames: Iterable[str] | None = None,
    ):
        overlap(
            "AutoMixedPrecisionListsBF16(custom_bf16_list)", set(custom_bf16_list or ()), set(custom_fp32_list or ())
        )
        super().__init__(custom_bf16_list, custom_fp32_list, custom_fp32_varnames, "bfloat16")
        self.bf16_list, self.fp32_list, self.fp32_varnames = self.white_list, self.black_list, self.black_varnames
        self.bf16_initializer_list = {"fill_constant", "uniform_random"}


def rewrite_program_bf16(main_prog: Program, amp_lists: AutoMixedPrecisionListsBF16 | None = None) -> None:
    """Let a program compute in bfloat16 where it pays.

    Args:
        main_prog: The program, which is changed.
        amp_lists: Lists of operators. Default: None, the usual ones.

    Examples:
        >>> bireme.static.amp.bf16.rewrite_program_bf16(bireme.static.Program())
    """
    set_precision(main_prog, amp_lists or AutoMixedPrecisionListsBF16(), "O1", False)


def cast_model_to_bf16(
    program: Program, startup_prog: Any = None, amp_lists: Any = None, use_bf16_guard: bool = True
) -> set[str]:
    """Let a program compute in bfloat16.

    Args:
        program: The program, which is changed.
        startup_prog: Has no effect.
        amp_lists: Lists of operators. Default: None, the usual ones.
        use_bf16_guard: Change only what was built inside ``bf16_guard``. Default: True.

    Returns:
        A set of the names of parameters that can be kept in bfloat16.

    Examples:
        >>> bireme.static.amp.bf16.cast_model_to_bf16(bireme.static.Program())
        set()
    """
    lists = amp_lists or AutoMixedPrecisionListsBF16()
    return cast_model_to_fp16(program, lists, use_bf16_guard, dtypes.bfloat16)


def cast_parameters_to_bf16(
    place: Any, program: Program, scope: Any = None, to_bf16_var_names: Iterable[str] | None = None
) -> None:
    """Cast parameters of a program to bfloat16.

    Args:
        place: Has no effect.
        program: The program.
        scope: Scope whose parameters are cast. Default: None, the present one.
        to_bf16_var_names: Their names. Default: None, all.

    Examples:
        >>> bireme.static.amp.bf16.cast_parameters_to_bf16(bireme.CPUPlace(), bireme.static.Program())
    """
    cast_parameters_to_fp16(place, program, scope, to_bf16_var_names, dtypes.bfloat16)


def convert_float_to_uint16(in_list: Any) -> np.ndarray:
    """Return the bits of numbers as bfloat16.

    Args:
        in_list: The numbers.

    Returns:
        Array of uint16.

    Examples:
        >>> bireme.static.amp.bf16.convert_float_to_uint16([1.0, 2.0]).tolist()
        [16256, 16384]
    """
    return np.asarray(in_list, np.float32).astype(dtypes.bfloat16.np).view(np.uint16)


def decorate_bf16(
    optimizer: Optimizer, amp_lists: Any = None, use_pure_bf16: bool = False, use_bf16_guard: bool | None = None
) -> OptimizerWithMixedPrecision:
    """Let an optimizer train programs in bfloat16.

    Args:
        optimizer: The optimizer.
        amp_lists: Lists of operators. Default: None, the usual ones.
        use_pure_bf16: Compute in bfloat16 nearly everywhere, parameters included. Default: False.
        use_bf16_guard: Only what was built inside ``bf16_guard`` computes in bfloat16. Default: None, everything.

    Returns:
        An optimizer whose ``minimize`` changes the program.

    Examples:
        >>> bireme.enable_static()
        >>> bireme.static.amp.bf16.decorate_bf16(bireme.optimizer.SGD(0.1)).get_loss_scaling().item()
        1.0
        >>> bireme.disable_static()
    """
    lists = amp_lists or AutoMixedPrecisionListsBF16()
    level = "O2" if use_pure_bf16 else "O1"
    return decorate(optimizer, lists, level, "bfloat16", use_amp_guard=bool(use_bf16_guard))


guard_functions(globals())
