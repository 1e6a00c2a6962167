"""The optimizer of a worker of parameter servers: gradients go to the servers, values come back."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.program import building, gradients
from bireme.core.program.program import Operation
from bireme.core.program.variable import Symbol
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.ps import lookup
from bireme.optimizer.optimizer import Optimizer

__all__ = ["ParameterServerOptimizer"]


class ParameterServerOptimizer:
    """What ``fleet.distributed_optimizer`` returns with parameter servers: an optimizer whose updates the servers make,
    or, between exchanges, the worker on copies of its own.

    Args:
        optimizer: The optimizer: ``SGD``, ``Adagrad`` or ``Adam``.
    """

    def __init__(self, optimizer: Optimizer):
        self.user_defined_optimizer = optimizer

    def __getattr__(self, name: str) -> Any:
        if name == "user_defined_optimizer":
            raise AttributeError(name)
        return getattr(self.user_defined_optimizer, name)

    @no_grad()
    def step(self) -> None:
        """Update all parameters, and the rows that were looked up since the last step."""
        worker = lookup.worker("step()")
        params = self.user_defined_optimizer._parameter_list
        pairs = [(p, p.grad) for p in params if not p.stop_gradient and p.grad is not None]
        worker.step(pairs, worker.take_kept())

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Drop the gradients of parameters and rows.

        Args:
            set_to_zero: Leave zeros instead of no gradients. Default: True.
        """
        self.user_defined_optimizer.clear_grad(set_to_zero)
        if lookup.Current.worker is not None:
            lookup.Current.worker.forget()

    clear_gradients = clear_grad

    def minimize(
        self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> tuple[list, list]:
        """Update parameters and rows: in static mode gradients and update are added to the program, else the gradients
        are those that ``loss.backward()`` has left.

        Args:
            loss: The loss.
            startup_program: Has no effect: parameters have initial values there anyway. Default: None.
            parameters: Parameters to update. Default: None, all.
            no_grad_set: Parameters without gradients. Default: None.

        Returns:
            An empty list, and the pairs of parameters and gradients.
        """
        builder = building.current()
        if builder is None:
            self.step()
            return [], []
        inner = self.user_defined_optimizer
        params = gradients.parameters(
            builder, "minimize", loss, parameters or inner._parameter_list or None, no_grad_set
        )
        calls = _lookups(builder, loss)
        rows = [builder.program._var(operation.results) for operation in calls]
        found = gradients.pull(builder, [loss], [*params, *rows], [None])
        numbers = [operation.kwargs["call"] for operation in calls]
        inner._take_in(params)

        def push(params: list[Tensor], grads: list[Tensor]) -> None:
            with no_grad():
                worker = lookup.worker("run()")
                own = [g if g is None or g._edge is None else g.detach() for g in grads]
                pairs = [(p, g) for p, g in zip(params, own) if g is not None]
                kept = [(lookup.FOUND[n], g) for n, g in zip(numbers, own[len(params) :], strict=True) if g is not None]
                worker.step(pairs, kept)

        push.optimizer = inner  # type: ignore[attr-defined]  # its state is saved with the program
        gradients.update(builder, push, "push", params, found)
        return [], list(zip(params, found))


def _lookups(builder: Any, loss: Tensor) -> list[Operation]:
    """The look-ups in sparse tables that a loss depends on."""
    depends = {id(x) for x in gradients.reached(builder.program, [loss])}
    found = [o for o in builder.program.operations if o.call is lookup.sparse_lookup and o.kwargs["call"] is not None]
    for operation in found:
        if not isinstance(operation.results, Symbol):
            raise errors.failure("minimize(): a look-up in a sparse table has no result")
    return [o for o in found if id(o.results) in depends]
