"""Values that are computed once: all who read one see the same bits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def once(x: Any, platform: str) -> Any:
    """The same array, in memory, from where all of its readers take it.

    XLA computes a value anew inside of each kernel that reads it, and a product with a sum behind it is rounded once in
    one kernel, twice in another. The largest of a row would then not be found in the row.
    """
    if x.size < 2 or not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    if platform != "cpu":
        return lax.optimization_barrier(x)
    # XLA drops barriers on CPU before it fuses, and never looks into a loop. This one does not run: a sign has one bit
    first = jnp.real(x.reshape(-1)[0])
    width = 8 * first.dtype.itemsize
    bits = lax.bitcast_convert_type(first, f"uint{width}")
    return lax.while_loop(lambda state: state[0], lambda state: (state[0], -state[1]), ((bits >> (width - 1)) > 1, x))[
        1
    ]


@functools.cache
def holding(platform: str) -> Callable[[Any], Any]:
    """`once` for code that is differentiated: derivatives pass it by."""

    @jax.custom_jvp
    def held(x: Any) -> Any:
        return once(x, platform)

    held.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return held
