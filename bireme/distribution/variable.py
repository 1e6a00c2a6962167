"""Random variables: which values they take, and how many axes one of them has."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor
from bireme.distribution import constraint as constraints
from bireme.distribution.constraint import Constraint
from bireme.ops import all, stack, unstack

__all__ = ["Independent", "Positive", "Real", "Stack", "Variable", "positive", "real"]


class Variable(Guarded):
    """A random variable.

    Args:
        is_discrete: Whether its values are discrete. Default: False.
        event_rank: Number of axes of one value. Default: 0.
        constraint: Condition that its values meet. Default: None.

    Examples:
        >>> unit = bireme.distribution.variable.Variable(False, 0, bireme.distribution.constraint.Range(0, 1))
        >>> unit.event_rank, unit.constraint(bireme.to_tensor([0.5, 2.0])).tolist()
        (0, [True, False])
    """

    def __init__(self, is_discrete: bool = False, event_rank: int = 0, constraint: Constraint | None = None):
        self._is_discrete, self._event_rank, self._constraint = is_discrete, event_rank, constraint

    @property
    def is_discrete(self) -> bool:
        """Whether the values are discrete."""
        return self._is_discrete

    @property
    def event_rank(self) -> int:
        """Number of axes of one value."""
        return self._event_rank

    def constraint(self, value: Tensor) -> Tensor:
        """Whether a tensor holds values of this variable.

        Args:
            value: Tensor.

        Returns:
            Tensor of booleans.
        """
        if self._constraint is None:
            raise errors.missing_method(self, "constraint")
        return self._constraint(value)


class Real(Variable):
    """A real variable.

    Args:
        event_rank: Number of axes of one value. Default: 0.

    Examples:
        >>> bireme.distribution.variable.Real(1).event_rank
        1
    """

    def __init__(self, event_rank: int = 0):
        super().__init__(False, event_rank, constraints.real)


class Positive(Variable):
    """A positive variable.

    Args:
        event_rank: Number of axes of one value. Default: 0.

    Examples:
        >>> bireme.distribution.variable.Positive().constraint(bireme.to_tensor([-1.0, 1.0])).tolist()
        [False, True]
    """

    def __init__(self, event_rank: int = 0):
        super().__init__(False, event_rank, constraints.positive)


class Independent(Variable):
    """A variable some of whose last batch axes are taken for axes of one value.

    Args:
        base: Variable.
        reinterpreted_batch_rank: How many axes.

    Examples:
        >>> vector = bireme.distribution.variable.Independent(bireme.distribution.variable.positive, 1)
        >>> vector.event_rank, vector.constraint(bireme.to_tensor([[1.0, 2.0], [1.0, -2.0]])).tolist()
        (1, [True, False])
    """

    def __init__(self, base: Variable, reinterpreted_batch_rank: int):
        self._base, self._reinterpreted_batch_rank = base, reinterpreted_batch_rank
        super().__init__(base.is_discrete, base.event_rank + reinterpreted_batch_rank)

    def constraint(self, value: Tensor) -> Tensor:
        met, n = self._base.constraint(value), self._reinterpreted_batch_rank
        if met.ndim < n:
            raise errors.bad("Independent(value)", f"at least {self.event_rank} axes", value, kind=errors.ShapeError)
        return all(met, list(range(-n, 0))) if n else met


class Stack(Variable):
    """Variables that are stacked along an axis.

    Args:
        vars: Variables.
        axis: Axis along which they are stacked. Default: 0.

    Examples:
        >>> from bireme.distribution import variable
        >>> both = variable.Stack([variable.real, variable.positive])
        >>> both.constraint(bireme.to_tensor([[-1.0, 1.0], [-1.0, 1.0]])).tolist()
        [[True, True], [False, True]]
    """

    def __init__(self, vars: Sequence[Variable], axis: int = 0):
        self._vars, self._axis = vars, axis
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any(v.is_discrete for v in self._vars)

    @property
    def event_rank(self) -> int:
        rank = max(v.event_rank for v in self._vars)
        return rank + (-rank <= self._axis < 0)  # the axis is one of the value's, if it stands among them

    def constraint(self, value: Tensor) -> Tensor:
        if value.shape[self._axis] != len(self._vars):
            expected = f"{len(self._vars)} elements along axis {self._axis}"
            raise errors.bad("Stack(value)", expected, value, kind=errors.ShapeError)
        axis = self._axis % value.ndim
        return stack([v.constraint(part) for v, part in zip(self._vars, unstack(value, axis))], axis)


real = Real()
positive = Positive()
