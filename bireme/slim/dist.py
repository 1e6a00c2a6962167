"""Losses of distillation, by which a student learns what a teacher gives. Operands are tensors, or names in a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional as F
from bireme.static import default_main_program

__all__ = ["fsp", "l2", "loss", "soft_label"]


def _value(x: Any, program: Any, where: str) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, str):
        raise errors.bad(where, "a Tensor, or the name of a variable", x, kind=errors.ArgumentTypeError)
    return (program or default_main_program()).global_block().var(x)


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
