"""Distillation, by which a student learns what a teacher gives: a teacher's program in a student's, and losses between the two. Operands
of losses are tensors, or names in a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.program import building, running
from bireme.core.program.program import suspended
from bireme.core.program.variable import Symbol, Variable
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional as F
from bireme.static import Program, default_main_program, global_scope, program_guard

__all__ = ["fsp", "l2", "loss", "merge", "soft_label"]


def _value(x: Any, program: Any, where: str) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, str):
        raise errors.bad(where, "a Tensor, or the name of a variable", x, kind=errors.ArgumentTypeError)
    return (program or default_main_program()).global_block().var(x)


def merge(
    teacher_program: Program, student_program: Program, data_name_map: dict[str, str], place: Any, scope: Any = None,
    teacher_scope: Any = None, name_prefix: str = "teacher_", merge_feed: bool = True,
) -> None:  # fmt: skip
    """Put a teacher's program into a student's, which then computes both from the same inputs; losses take the variables by name.

    The teacher is put in as in evaluation, gets no gradients, and keeps the values that its parameters have now. It stays as it is.

    Args:
        teacher_program: The teacher.
        student_program: The student, which is changed.
        data_name_map: For the name of each input of the teacher, the name of the student's that takes its place.
        place: Has no effect: programs run where the process does.
        scope: Scope that the student runs in. Default: None, the global one.
        teacher_scope: Scope that has the teacher's values. Default: None, ``scope``.
        name_prefix: Beginning of the names of the teacher's variables and parameters in the student. Default: ``"teacher_"``.
        merge_feed: Has no effect: programs have no operations that feed. Default: True.

    Raises:
        ValueError: If an input has no counterpart, or a name is there already.

    Examples:
        >>> x = bireme.ones([1, 2]).numpy()
        >>> bireme.enable_static()
        >>> teacher, student = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(teacher):
        ...     big = bireme.static.data("image", [None, 2]) * 3
        >>> with bireme.static.program_guard(student):
        ...     small = bireme.static.data("x", [None, 2]) * 2
        >>> bireme.slim.dist.merge(teacher, student, {"image": "x"}, bireme.CPUPlace())
        >>> with bireme.static.program_guard(student):
        ...     far = bireme.slim.dist.l2("teacher_" + big.name, small.name)
        >>> found = bireme.static.Executor().run(student, {"x": x}, [far])
        >>> bireme.disable_static()
        >>> found[0].item()
        1.0
    """
    for x, where in ((teacher_program, "teacher_program"), (student_program, "student_program")):
        if not isinstance(x, Program):
            raise errors.bad(f"merge({where})", "a Program", x, kind=errors.ArgumentTypeError)
    teacher = teacher_program.clone(for_test=True)
    inputs = [symbol for symbol in teacher.symbols.values() if symbol.is_data]
    for symbol in inputs:
        if data_name_map.get(symbol.name) not in student_program.symbols:
            expected = f"an input of the student for the teacher's {symbol.name}"
            raise errors.bad("merge(data_name_map)", expected, data_name_map.get(symbol.name))
    names = [*teacher.tensors, *[symbol.name for symbol in teacher.symbols.values() if not symbol.is_data]]
    for name in names:
        if student_program.has_var(name_prefix + name):
            raise errors.bad("merge(name_prefix)", "one that makes new names", name_prefix + name)
    source = teacher_scope or scope or global_scope()
    with suspended():
        held = {id(t): _held(source.tensor(t), name_prefix, scope) for t in teacher.tensors.values()}
    env: dict[Symbol, Any] = {symbol: student_program.var(data_name_map[symbol.name]) for symbol in inputs}

    def keep(symbol: Any, made: Any) -> None:
        if isinstance(symbol, Symbol):
            env[symbol] = made
            if isinstance(made, Variable):
                made.name = name_prefix + symbol.name

    with program_guard(student_program), no_grad():
        for operation in teacher.operations:
            made = running.Step(operation).make(env, lambda t: held.get(id(t), t))
            if operation.results is not None:
                building.together(keep, [operation.results, made])


def _held(x: Tensor, prefix: str, scope: Any) -> Tensor:
    """A parameter as the teacher has it in a student's program: with a name of its own, and without a gradient."""
    made = x.detach().clone()
    made.name, made.persistable, made.stop_gradient = prefix + x.name, True, True
    if scope is not None and scope is not global_scope():
        scope.tensor(made).set_value(made)
    return made


def l2(teacher_var_name: Tensor | str, student_var_name: Tensor | str, program: Any = None) -> Tensor:
    """Mean of the squared differences of two values.

    Args:
        teacher_var_name: What the teacher gives; no gradient goes there.
        student_var_name: What the student gives.
        program: Program that has the names. Default: None, the main program.

    Returns:
        Tensor without dimensions.

    Examples:
        >>> bireme.slim.dist.l2(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
        2.0
    """
    teacher = _value(teacher_var_name, program, "l2(teacher_var_name)").detach()
    return (_value(student_var_name, program, "l2(student_var_name)") - teacher).square().mean()


def soft_label(
    teacher_var_name: Tensor | str, student_var_name: Tensor | str, program: Any = None, teacher_temperature: float = 1.0,
    student_temperature: float = 1.0,
) -> Tensor:  # fmt: skip
    """Cross entropy between the classes of a teacher and those of a student, both made softer by temperatures.

    Args:
        teacher_var_name: Scores of the teacher; no gradient goes there.
        student_var_name: Scores of the student.
        program: Program that has the names. Default: None, the main program.
        teacher_temperature: What the teacher's scores are divided by. Default: 1.0.
        student_temperature: What the student's scores are divided by. Default: 1.0.

    Returns:
        Tensor without dimensions.

    Examples:
        >>> scores = bireme.to_tensor([[0.0, 0.0]])
        >>> round(bireme.slim.dist.soft_label(scores, scores).item(), 4)
        0.6931
    """
    teacher = _value(teacher_var_name, program, "soft_label(teacher_var_name)").detach()
    student = _value(student_var_name, program, "soft_label(student_var_name)")
    target = F.softmax(teacher / teacher_temperature)
    return -(target * F.log_softmax(student / student_temperature)).sum(-1).mean()


def fsp(
    teacher_var1_name: Tensor | str, teacher_var2_name: Tensor | str, student_var1_name: Tensor | str,
    student_var2_name: Tensor | str, program: Any = None,
) -> Tensor:  # fmt: skip
    """How far apart a teacher's and a student's flows of solution are: products of the pictures of two layers, of equal sizes.

    Args:
        teacher_var1_name: Pictures of the teacher's first layer, of shape [N, C1, H, W]; no gradient goes there.
        teacher_var2_name: Pictures of its second layer, of shape [N, C2, H, W]; no gradient goes there.
        student_var1_name: Pictures of the student's first layer.
        student_var2_name: Pictures of its second layer.
        program: Program that has the names. Default: None, the main program.

    Returns:
        Tensor without dimensions.

    Examples:
        >>> x, y = bireme.ones([1, 2, 4, 4]), bireme.ones([1, 3, 4, 4])
        >>> bireme.slim.dist.fsp(x, y, x, y * 2).item()
        1.0
    """
    teacher = _flow(*[_value(x, program, "fsp(teacher)").detach() for x in (teacher_var1_name, teacher_var2_name)])
    student = _flow(*[_value(x, program, "fsp(student)") for x in (student_var1_name, student_var2_name)])
    return (student - teacher).square().mean()


def _flow(x: Tensor, y: Tensor) -> Tensor:
    """Products of all pairs of channels, as means over the pixels."""
    if x.ndim != 4 or y.ndim != 4 or x.shape[2:] != y.shape[2:]:
        raise errors.bad("fsp(x)", "pictures [N, C, H, W] of equal sizes", [x.shape, y.shape], kind=errors.ShapeError)
    flat = [v.flatten(2) for v in (x, y)]
    return flat[0].matmul(flat[1].transpose([0, 2, 1])) / flat[0].shape[2]


def loss(loss_func: Callable, program: Any = None, **kwargs: Any) -> Tensor:
    """A loss of your own of variables that are named.

    Args:
        loss_func: Function of the keyword arguments that gives a tensor.
        program: Program that has the names. Default: None, the main program.
        **kwargs: Tensors, names of variables, and other arguments of the function.

    Returns:
        What the function gives.

    Examples:
        >>> far = bireme.slim.dist.loss(lambda a, b: (a - b).abs().mean(), a=bireme.ones([2]), b=bireme.zeros([2]))
        >>> far.item()
        1.0
    """
    known = {key: _value(x, program, f"loss({key})") if isinstance(x, str) else x for key, x in kwargs.items()}
    return loss_func(**known)
