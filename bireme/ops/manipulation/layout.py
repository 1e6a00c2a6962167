"""How a tensor lies on the devices of a mesh, as a call of its own: `distributed.reshard` records it."""

from __future__ import annotations

import jax
import numpy as np

from bireme.core.base.mesh import Layout
from bireme.core.declare.op import Attr, Tensor, op

__all__: list[str] = []


@op(internal=True, numpy=lambda x, layout: np.array(x))
def lay_out(x: Tensor, layout: Attr[Layout] = None) -> Tensor:
    """A tensor with a layout on a mesh; use `distributed.reshard`.

    >>> bireme.distributed.reshard(bireme.ones([2]), bireme.distributed.ProcessMesh([0]), []).tolist()
    [1.0, 1.0]
    """
    return x if layout is None else jax.lax.with_sharding_constraint(x, layout.sharding)


@lay_out.infer
def _(x, layout):
    return x


@lay_out.grad
def _(g, layout):
    return g if layout is None else jax.lax.with_sharding_constraint(g, layout.sharding)
