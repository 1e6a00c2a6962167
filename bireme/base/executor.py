"""Names that code written for Paddle takes from `paddle.base.executor`."""

from typing import Any

from bireme.static import Executor, Program, global_scope, scope_guard

__all__ = ["Executor", "Program", "as_numpy", "global_scope", "scope_guard"]


def as_numpy(tensor: Any, copy: bool = False) -> Any:
    """Return values as arrays.

    Args:
        tensor: A tensor, or a list of them.
        copy: Has no effect: the arrays are copies.

    Returns:
        An array, or a list of them.

    Examples:
        >>> bireme.base.executor.as_numpy(bireme.to_tensor([1, 2])).tolist()
        [1, 2]
    """
    if isinstance(tensor, (list, tuple)):
        return [as_numpy(t, copy) for t in tensor]
    return tensor.numpy() if hasattr(tensor, "numpy") else tensor.__array__()
