"""Gradients in programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building
from bireme.core.program.gradients import parameters, pull, reached
from bireme.core.program.variable import Variable
from bireme.core.tensor.tensor import Tensor


def append_backward(
    loss: Tensor,
    parameter_list: Sequence[Any] | None = None,
    no_grad_set: Any = None,
    callbacks: Any = None,
    checkpoints: Any = None,
    distop_context: Any = None,
) -> list[tuple[Tensor, Tensor]]:
    """Add the gradients of a loss with respect to parameters to the program.

    Args:
        loss: Variable of one element.
        parameter_list: Parameters, or their names. Default: None, all trainable ones that the loss depends on.
        no_grad_set: Parameters, or their names, that get none. Default: None.
        callbacks: Has no effect.
        checkpoints: Has no effect.
        distop_context: Has no effect.

    Returns:
        A list of pairs of a parameter and the variable of its gradient, named after it with ``@GRAD``.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        ...     loss = bireme.nn.Linear(2, 1)(x).mean()
        ...     len(bireme.static.append_backward(loss))
        2
        >>> bireme.disable_static()
    """
    builder = _builder("append_backward", "call loss.backward() on tensors")
    wanted = parameters(builder, "append_backward", loss, parameter_list, no_grad_set)
    return list(zip(wanted, pull(builder, [loss], wanted, [None]), strict=True))


def gradients(
    targets: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    target_gradients: Tensor | Sequence[Tensor | None] | None = None,
    no_grad_set: Any = None,
) -> list[Tensor | None]:
    """Add the gradients of variables with respect to others to the program.

    Args:
        targets: Variables that are differentiated; their gradients are added up.
        inputs: Variables or parameters that they are differentiated with respect to.
        target_gradients: Gradients that come from outside, as many as targets. Default: None, ones.
        no_grad_set: Has no effect.

    Returns:
        A list with the variable of the gradient of each input, None where the targets do not depend on it.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [2])
        ...     x.stop_gradient = False
        ...     (g,) = bireme.static.gradients([x * x], [x])
        ...     bireme.static.Executor().run(feed={"x": [1.0, 3.0]}, fetch_list=[g])
        [array([2., 6.], dtype=float32)]
        >>> bireme.disable_static()
    """
    outs: list[Any] = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    ins: list[Any] = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    builder = _builder("gradients", "use bireme.grad on tensors")
    seeds = target_gradients if isinstance(target_gradients, (list, tuple)) else [target_gradients] * len(outs)
    known = {id(x) for x in reached(builder.program, outs)}
    depends = [id(x.symbol if isinstance(x, Variable) else x) in known for x in ins]
    found = iter(pull(builder, outs, [x for x, does in zip(ins, depends, strict=True) if does], list(seeds)))
    return [next(found) if does else None for does in depends]


def _builder(name: str, hint: str) -> building.Builder:
    found = building.current()
    if found is None:
        raise errors.failure(f"{name}() adds to a program, in static mode", hint=hint)
    return found


guard_functions(globals())
