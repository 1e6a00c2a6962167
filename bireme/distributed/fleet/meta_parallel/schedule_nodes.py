"""Parts of a model whose forward and backward passes are called one by one, for schedules of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.backward import backward
from bireme.core.tensor.tensor import Tensor

__all__ = ["ScheduleChunk", "ScheduleNode"]


class ScheduleNode:
    """A function whose backward pass is called by itself: its inputs are leaves, so it ends there.

    Args:
        fwd_func: The function, of a tensor or a tuple of tensors, and of labels where ``labels`` is set.
        name: Name of the node. Default: ``''``.

    Examples:
        >>> node = bireme.distributed.fleet.meta_parallel.ScheduleNode(lambda x: x * x)
        >>> x = bireme.to_tensor([3.0], stop_gradient=False)
        >>> node.forward(x).item(), node.backward(bireme.to_tensor([1.0])).item()
        (9.0, 6.0)
    """

    def __init__(self, fwd_func: Callable, name: str = "") -> None:
        errors.check_function("ScheduleNode(fwd_func)", fwd_func)
        self.fwd_func, self.name = fwd_func, name
        self._forget()

    def _forget(self) -> None:
        self.inputs: Any = None
        self.outputs: Any = None
        self.labels: Any = None
        self.scale_loss_factor: float | None = None

    def forward(self, inputs: Any = ()) -> Any:
        """Call the function on the values of tensors.

        Args:
            inputs: A tensor, or a tuple or list of tensors. Default: ``()``.

        Returns:
            What the function returns; divided by ``scale_loss_factor`` where that is set.
        """
        self.inputs = _leaves(inputs)
        given = (self.inputs,) if self.labels is None else (self.inputs, self.labels)
        outputs = self.fwd_func(*given)
        self.outputs = outputs if self.scale_loss_factor is None else outputs / self.scale_loss_factor
        return self.outputs

    def backward(self, output_grad: Any = None, scaler: Any = None) -> Any:
        """Compute the gradients of parameters and inputs.

        Args:
            output_grad: Gradients of what ``forward`` returned. Default: None, that is a loss.
            scaler: Gradient scaler of the loss. Default: None.

        Returns:
            The gradient of the input, or a tuple of those of several.
        """
        outputs = list(self.outputs) if isinstance(self.outputs, (list, tuple)) else [self.outputs]
        if output_grad is None:
            backward(outputs if scaler is None else [scaler.scale(y) for y in outputs])
        else:
            grads = list(output_grad) if isinstance(output_grad, (list, tuple)) else [output_grad]
            if len(grads) != len(outputs):
                expected = f"a gradient for each of {len(outputs)} results"
                raise errors.bad("ScheduleNode.backward(output_grad)", expected, described=str(len(grads)))
            backward(outputs, grads)
        inputs = self.inputs if isinstance(self.inputs, (list, tuple)) else (self.inputs,)
        found = tuple([None if x is None else x.grad for x in inputs])
        self._forget()
        return found[0] if len(found) == 1 else found


class ScheduleChunk:
    """Nodes one after the other.

    Args:
        nodes: The nodes, or chunks of them.

    Examples:
        >>> parallel = bireme.distributed.fleet.meta_parallel
        >>> chunk = parallel.ScheduleChunk([parallel.ScheduleNode(lambda x: x * x) for _ in range(2)])
        >>> x = bireme.to_tensor([2.0], stop_gradient=False)
        >>> chunk.forward(x).item(), chunk.backward(bireme.to_tensor([1.0])).item()
        (16.0, 32.0)
    """

    def __init__(self, nodes: Sequence[ScheduleNode | ScheduleChunk]) -> None:
        for node in nodes:
            if not isinstance(node, (ScheduleNode, ScheduleChunk)):
                raise errors.bad("ScheduleChunk(nodes)", "nodes and chunks", node, kind=errors.ArgumentTypeError)
        self.nodes = list(nodes)

    def forward(self, inputs: Any) -> Any:
        """Call the nodes one after the other.

        Args:
            inputs: Inputs of the first.

        Returns:
            What the last one returns.
        """
        for node in self.nodes:
            inputs = node.forward(inputs)
        return inputs

    def backward(self, output_grad: Any) -> Any:
        """Compute gradients from the last node to the first.

        Args:
            output_grad: Gradients of what ``forward`` returned.

        Returns:
            Those of the inputs.
        """
        for node in reversed(self.nodes):
            output_grad = node.backward(output_grad)
        return output_grad


def _leaves(x: Any) -> Any:
    if isinstance(x, Tensor):
        new = x.detach()
        new.stop_gradient = x.stop_gradient
        return new
    return type(x)([_leaves(part) for part in x]) if type(x) in (list, tuple) else x
