"""A graph as one program for all devices of a mesh: XLA divides the work by the layouts of the leaves, and adds the
collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from bireme.core.base.mesh import Devices, Layout, layout_of
from bireme.core.graph.graph import Graph, Sig
from bireme.core.xla_exec import lowering, xla

Placed = tuple[Layout, tuple[int, ...]]  # how an array lies, and its shape, which may be padded


def placed(array: Any, devices: Devices) -> Placed:
    """How the array of a leaf lies; one of the host is about to be put on every device."""
    if isinstance(array, np.ndarray):
        return devices.whole(), array.shape
    return layout_of(array, devices), tuple(array.shape)


def prepare(
    graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], given: Sequence[Placed], wanted: dict[int, Layout]
) -> Any:
    """A compiled program as `xla.call` takes it; `wanted` are the layouts of results, XLA chooses all others."""
    made = _prepared(graph, live, donate, given, wanted)
    strange = [i for i, s in zip(live, made.output_shardings) if not isinstance(s, NamedSharding)]
    if not strange:
        return made
    # XLA may divide by a part of an axis, which no placement can say: those are made whole
    return _prepared(graph, live, donate, given, wanted | {i: graph.device.whole() for i in strange})


def _prepared(
    graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], given: Sequence[Placed], wanted: dict[int, Layout]
) -> Any:
    device: Devices = graph.device
    fn = lowering.function(graph, live, device.platform, divided=True)
    n, taken = len(graph.leaf_sigs), set(donate)
    kept = [i for i in range(n) if i not in taken]

    def program(donated, others, vectors):
        leaves: list[Any] = [None] * n
        for i, a in (*zip(donate, donated), *zip(kept, others)):
            leaves[i] = _entered(a, graph.leaf_sigs[i], given[i][0])
        return [_left(a, wanted.get(i)) for i, a in zip(live, fn(leaves, vectors))]

    specs = [
        jax.ShapeDtypeStruct(shape, sig.dtype.np, sharding=layout.sharding)
        for sig, (layout, shape) in zip(graph.leaf_sigs, given)
    ]
    whole = device.whole().sharding
    vectors = [jax.ShapeDtypeStruct((len(places),), dtype.np, sharding=whole) for dtype, places in graph.packs]
    out = [wanted[i].sharding if i in wanted else None for i in live]
    with xla.x64(), jax.default_device(device.jax):
        made = jax.jit(program, donate_argnums=(0,), out_shardings=out)
        traced = made.trace([specs[i] for i in donate], [specs[i] for i in kept], vectors)
    return xla.compiled_for_mesh(traced, device)


def _entered(a: Any, sig: Sig, layout: Layout) -> Any:
    """A leaf as the program computes with it: without padding, divided as it was."""
    if tuple(a.shape) == sig.shape:
        return a
    return jax.lax.with_sharding_constraint(a[tuple([slice(n) for n in sig.shape])], layout.sharding)


def _left(a: Any, layout: Layout | None) -> Any:
    """A result as it leaves the program: in parts of equal size."""
    full = a.shape if layout is None else layout.padded(a.shape)
    return a if full == a.shape else jnp.pad(a, [(0, n - m) for n, m in zip(full, a.shape)])
