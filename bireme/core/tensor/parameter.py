"""Parameter: a tensor that a Layer trains."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.printing import describe
from bireme.core.tensor.tensor import Tensor, read, value_of


class Parameter(Tensor):
    """A trainable tensor; a layer registers it when it is assigned to an attribute.

    Args:
        value: The values: a tensor, an array, or nested lists of numbers. The values of a tensor are shared, not
            copied, until one of both changes.
        name: Name of the parameter. Default: None, a generated name.
        trainable: Let optimizers change it. Default: True.
        dtype: Data type. Default: None, that of ``value``.

    Examples:
        >>> bireme.Parameter([1.0]).stop_gradient
        False
    """

    __slots__ = ()

    optimize_attr: Any = None
    regularizer: Any = None
    need_clip = True
    is_distributed = False
    do_model_average: Any = None

    def __init__(self, value: Any, name: str | None = None, trainable: bool = True, dtype: Any = None):
        # a tensor's value is shared, not copied: values never change
        source = read(value) if isinstance(value, Tensor) and dtype is None else value_of(value, dtype, None)
        super().__init__(source, stop_gradient=not trainable)
        self.persistable = True
        self.optimize_attr = {"learning_rate": 1.0}
        if name is not None:
            self._name = name

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it."""
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, wanted: bool) -> None:
        if not isinstance(wanted, bool):
            raise errors.bad("trainable", "True or False", wanted)
        self.stop_gradient = not wanted

    def set_init_func(self, obj: Any) -> None:
        """Set the function that ``initialize`` calls.

        Args:
            obj: Function of the parameter, which fills it.

        Examples:
            >>> w = bireme.Parameter([1.0])
            >>> w.set_init_func(lambda p: p.set_value([2.0])); w.initialize(); w.tolist()
            [2.0]
        """
        self._init_func = obj

    def initialize(self) -> None:
        """Draw the initial values of a parameter that was created inside ``LazyGuard``.

        Examples:
            >>> with bireme.LazyGuard():
            ...     layer = bireme.nn.Linear(1, 2)
            >>> layer.bias.initialize(); layer.bias.tolist()
            [0.0, 0.0]
        """
        fill = self.__dict__.pop("_init_func", None)
        if fill is None:
            raise errors.bad(
                "initialize()",
                "a parameter created inside LazyGuard that is not initialized yet",
                described="an initialized parameter",
                kind=errors.ArgumentError,
            )
        fill(self)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + describe(self, "Tensor")

    __str__ = __repr__
