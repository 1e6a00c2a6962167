"""Places between the calls of a graph where tracing and lowering may stop for a while, see `base.turns`."""

from __future__ import annotations

from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import mlir

from bireme.core.base import turns

# It gives what it is given and leaves nothing in the text that is compiled.
_pause = Primitive("bireme_pause")
_pause.def_impl(lambda x: x)
_pause.def_abstract_eval(lambda x: x)


def _lowered(ctx: Any, x: Any) -> list[Any]:
    turns.pause()
    return [x]


mlir.register_lowering(_pause, _lowered, cacheable=False)  # each one is a place of its own


def here(x: Any) -> Any:
    """The same array; tracing may stop here, and so may lowering when it comes to it."""
    turns.pause()
    return _pause.bind(x)
