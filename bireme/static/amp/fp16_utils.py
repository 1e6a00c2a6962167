"""Half precision in programs: which of its operations take it, and the casts of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.declare import precision
from bireme.core.program import building
from bireme.core.program.program import Operation, Program
from bireme.core.tensor.parameter import Parameter
from bireme.static import scopes
from bireme.static.amp.fp16_lists import AutoMixedPrecisionLists

# layers whose parameters stay in float32: those with statistics, as Paddle keeps them
KEPT = frozenset(("batch_norm", "layer_norm", "sync_batch_norm", "instance_norm", "group_norm"))


@contextmanager
def fp16_guard() -> Iterator[None]:
    """Context manager for the part of a program that computes in half precision, if ``decorate`` is told to look at it.

    Returns:
        A context manager.

    Examples:
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main):
        ...     x = bireme.static.data("x", [2, 2])
        ...     with bireme.static.amp.fp16_guard():
        ...         y = bireme.matmul(x, x)
        >>> _ = bireme.static.amp.cast_model_to_fp16(main)
        >>> bireme.static.Executor().run(main, feed={"x": [[1.0, 0.0], [0.0, 1.0]]}, fetch_list=[y])[0].dtype.name
        'float16'
        >>> bireme.disable_static()
    """
    builder = building.current()
    if builder is None:
        yield
        return
    operations = builder.program.operations
    start = len(operations)
    try:
        yield
    finally:
        builder.program.guarded.update(id(o) for o in operations[start:])


def set_precision(
    program: Program, lists: AutoMixedPrecisionLists, level: str, guarded: bool, promote: bool = True
) -> list[Operation]:
    """Let the operations of a program compute as lists say; those that do."""
    policy = lists.policy(level, promote)
    wide = set(lists.black_varnames or ())

    def settle(operation: Operation) -> None:
        names = {x.name for x in operation.reads} | {x.name for x in operation.makes}
        operation.policy = policy
        if wide & names:
            own = frozenset([getattr(getattr(operation.call, "op", None), "name", operation.type)])
            operation.policy = precision.policy(policy.dtype, "O1", frozenset(), own)
        blocks = getattr(operation.call, "labelled", None)
        for _, block in blocks() if blocks is not None else ():
            for inner in block.operations:
                settle(inner)

    changed = [
        o for o in program.operations
        if o.role == "forward" and o.policy is None and (not guarded or id(o) in program.guarded)
    ]  # fmt: skip
    for operation in changed:
        settle(operation)
    building.resample(program)
    return changed


def cast_model_to_fp16(
    program: Program,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_fp16_guard: bool = True,
    dest_type: Any = dtypes.float16,
    level: str = "O2",
    use_promote: bool = False,
) -> set[str]:
    """Let a program compute in half precision.

    Args:
        program: The program, which is changed.
        amp_lists: Lists of operators. Default: None, the usual ones.
        use_fp16_guard: Change only what was built inside ``fp16_guard``. Default: True.
        dest_type: The type, float16 or bfloat16. Default: float16.
        level: ``"O1"``, ``"O2"`` or ``"OD"``. Default: ``"O2"``.
        use_promote: Let operators compute in float32 where an operand has it. Default: False.

    Returns:
        A set of the names of parameters that can be kept in half precision.

    Examples:
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 3, weight_attr="w_half", bias_attr=False)
        >>> bireme.static.amp.cast_model_to_fp16(main, use_fp16_guard=False)
        {'w_half'}
        >>> bireme.disable_static()
    """
    if not isinstance(program, Program):
        raise errors.bad("cast_model_to_fp16(program)", "a Program", program, kind=errors.ArgumentTypeError)
    if level not in ("O1", "O2", "OD"):
        raise errors.bad("cast_model_to_fp16(level)", "'O1', 'O2' or 'OD'", level)
    kind = dtypes.of(dest_type, "cast_model_to_fp16(dest_type)")
    lists = AutoMixedPrecisionLists(dtype=kind.name) if amp_lists is None else amp_lists
    changed = set_precision(program, lists, level, use_fp16_guard, use_promote)
    return {
        t.name
        for o in changed
        if not any(o.type.startswith(name) for name in KEPT)
        for t in o.reads
        if isinstance(t, Parameter) and t.dtype is dtypes.float32
    }


def cast_parameters_to_fp16(
    place: Any,
    program: Program,
    scope: Any = None,
    to_fp16_var_names: Iterable[str] | None = None,
    dest_type: Any = dtypes.float16,
    rewrite_master_weight: bool = False,
    master_weights: Any = {},  # noqa: B006  # Paddle's signature; it is only read
) -> None:
    """Cast parameters of a program to half precision.

    Args:
        place: Has no effect.
        program: The program.
        scope: Scope whose parameters are cast. Default: None, the present one.
        to_fp16_var_names: Their names, as ``cast_model_to_fp16`` returns them. Default: None, all.
        dest_type: The type, float16 or bfloat16. Default: float16.
        rewrite_master_weight: Has no effect: copies in float32 are made from the parameters at the first step.
        master_weights: Has no effect.

    Examples:
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 3, weight_attr="w_cast", bias_attr=False)
        >>> _ = bireme.static.Executor().run(startup)
        >>> bireme.static.amp.cast_parameters_to_fp16(bireme.CPUPlace(), main)
        >>> main.get_parameter_value_by_name("w_cast").dtype.name
        'float16'
        >>> bireme.disable_static()
    """
    where = scopes.global_scope() if scope is None else scope
    kind = dtypes.of(dest_type, "cast_parameters_to_fp16(dest_type)")
    names = None if to_fp16_var_names is None else set(to_fp16_var_names)
    with building.suspended():
        for t in program.all_parameters():
            held = where.tensor(t)
            if (names is None or t.name in names) and held.dtype.is_floating:
                held._assign_value(held.detach().astype(kind))
    building.resample(program)


guard_functions(globals())
