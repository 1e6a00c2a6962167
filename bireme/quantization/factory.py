"""Factories: classes with the arguments that they will be called with, once for each layer."""

from __future__ import annotations

import abc
import inspect
import sys
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.nn.layer import Layer


class ClassWithArguments(abc.ABC):
    """Arguments that are kept for a class."""

    def __init__(self, *args: Any, **kwargs: Any):
        self._args, self._kwargs = args, kwargs

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        return self._args

    @property
    def kwargs(self) -> dict[str, Any]:
        """Arguments by keyword."""
        return self._kwargs

    @abc.abstractmethod
    def _get_class(self) -> type:
        """The class that is called."""

    def __repr__(self) -> str:
        given = [str(x) for x in self._args] + [f"{k}={v}" for k, v in self._kwargs.items()]
        return f"{type(self).__name__}({', '.join(given)})"


class QuanterFactory(ClassWithArguments):
    """Factory of quanters or observers."""

    def _instance(self, layer: Layer | None) -> Any:
        """A quanter for a layer."""
        return self._get_class()(layer, *self._args, **self._kwargs)


ObserverFactory = QuanterFactory


def check_factory(where: str, given: Any) -> None:
    if given is not None and not isinstance(given, QuanterFactory):
        hint = "a class that BaseQuanter is derived from becomes a factory by the decorator quanter"
        raise errors.bad(where, "a factory of quanters, or None", given, hint=hint, kind=errors.ArgumentTypeError)


def quanter(class_name: str) -> Callable[[type], type]:
    """Decorator for a class of quanters: make a factory of it, as configurations take them.

    The factory gets the given name, in the module that the class is defined in. What it is called with reaches the
    quanter after the layer.

    Args:
        class_name: Name of the factory.

    Returns:
        Decorator that returns the class itself.

    Raises:
        TypeError: If it is no class of quanters.

    Examples:
        >>> @bireme.quantization.quanter("Identity8")
        ... class Identity8Layer(bireme.quantization.observers.AbsmaxObserverLayer):
        ...     pass
        >>> Identity8(quant_bits=8)
        Identity8(quant_bits=8)
    """
    if not isinstance(class_name, str) or not class_name.isidentifier():
        raise errors.bad("quanter(class_name)", "a name", class_name, kind=errors.ArgumentTypeError)
    caller = errors.user_frame()
    names = caller.f_globals if caller is not None else None

    def decorate(target: type) -> type:
        if not inspect.isclass(target) or not issubclass(target, Layer) or not hasattr(target, "scales"):
            raise errors.bad("quanter()", "a class derived from BaseQuanter", target, kind=errors.ArgumentTypeError)
        factory = type(class_name, (QuanterFactory,), {"_get_class": lambda self: target, "__doc__": target.__doc__})
        factory.__module__ = target.__module__
        where = names if names is not None else vars(sys.modules[target.__module__])
        where[class_name] = factory
        return target

    return decorate


guard_functions(globals())
