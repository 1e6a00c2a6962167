"""Activation functions as layers: one line each, made from the operator and the arguments that the layer keeps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bireme.core import errors
from bireme.core.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import gelu, leaky_relu, log_softmax, relu, sigmoid, silu, softmax, tanh


class Activation(Layer):
    """A layer that applies one operator to its input with arguments fixed when the layer was made."""

    _function: Callable[..., Tensor]
    _defaults: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        given = self._take(args, kwargs)
        self._name = given.pop("name")
        self._arguments = given
        # what the operator does by itself need not be said at each call
        self._said = {k: v for k, v in given.items() if v != self._defaults[k]}

    @classmethod
    def _take(cls, args: tuple, kwargs: dict) -> dict[str, Any]:
        names = [*cls._defaults, "name"]
        given = {**cls._defaults, "name": None, **dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or len(given) > len(names):
            got = next((k for k in kwargs if k not in names), f"{len(args)} arguments")
            raise errors.bad(f"{cls.__name__}()", f"arguments {', '.join(names)}", got, kind=TypeError)
        return given

    def forward(self, x: Tensor) -> Tensor:
        return type(self)._function(x, **self._said)

    def extra_repr(self) -> str:
        shown = [f"{k}={v}" for k, v in self._arguments.items()]
        return ", ".join(shown + ([f"name={self._name}"] if self._name else []))


def _layer(name: str, function: Callable[..., Tensor], **defaults: Any) -> type[Activation]:
    doc = f"`bireme.nn.functional.{function.__name__}` as a layer."
    body = {"_function": staticmethod(function), "_defaults": defaults, "__doc__": doc, "__module__": __name__}
    cls = type(name, (Activation,), body)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [inspect.Parameter(k, keyword, default=v) for k, v in {**defaults, "name": None}.items()]
    cls.__signature__ = inspect.Signature(arguments)
    return cls


ReLU = _layer("ReLU", relu)
GELU = _layer("GELU", gelu, approximate=False)
Sigmoid = _layer("Sigmoid", sigmoid)
Tanh = _layer("Tanh", tanh)
Softmax = _layer("Softmax", softmax, axis=-1)
LogSoftmax = _layer("LogSoftmax", log_softmax, axis=-1)
Silu = _layer("Silu", silu, inplace=False)
LeakyReLU = _layer("LeakyReLU", leaky_relu, negative_slope=0.01)
