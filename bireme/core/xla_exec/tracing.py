"""What the compiler is given of calls, as a list of jax's primitives: for those who write it in another language."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core
import numpy as np

from bireme.core.xla_exec import lowering


def traced(graph: Any, live: tuple[int, ...], leaves: list[Any], vectors: list[Any]) -> Any:
    """A graph as a closed jaxpr of its leaves, by the bodies of operators, which are for any platform; a leaf is an
    array, or a Sig where it is not known.
    """
    function = lowering.function(graph, live, "any")
    with jax.enable_x64(True):
        structs = [jax.ShapeDtypeStruct(a.shape, a.dtype.np if hasattr(a.dtype, "np") else a.dtype) for a in leaves]
        return jax.make_jaxpr(lambda arrays: function(arrays, vectors))(structs)


def folded(equation: Any, constants: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a primitive on constants."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        made = equation.primitive.bind(*constants, **equation.params)
        return [np.asarray(a) for a in (made if equation.primitive.multiple_results else [made])]


def is_literal(atom: Any) -> bool:
    """Whether an operand is a constant that is written where it is used."""
    return isinstance(atom, jax.extend.core.Literal)
