"""Padding: graphs whose sizes keep changing run as one of a few programs for larger ones, on accelerators.

From the third graph that differs from two others in sizes alone, such as a training step at another length, leaves are
padded to the next of a few sizes and the true ones travel as numbers; `xla_exec.padded` shows for each call that this
changes nothing, or refuses. What comes out stays padded until somebody reads it: the next step takes it as it is.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from bireme.core.base import flags
from bireme.core.graph import cost
from bireme.core.graph.graph import Graph
from bireme.core.graph.varying import Extent, Integers, Varying, integers
from bireme.core.xla_exec import xla
from bireme.core.xla_exec.padded_graph import Call, PaddedGraph, growing, recorded, remade
from bireme.core.xla_exec.padded_sizes import LARGEST_PLUS, NOT_MADE, SMALLEST, Dims, Disagree, Refused

LEAST_CALLS = 12  # of a graph: fewer are compiled soon enough
SAMPLES = 2  # graphs of one skeleton that have programs of their own, and tell what changes
OWN_PROGRAM = 64  # runs of one graph after which it gets a program of its own
SMALL_SIZE, SMALLEST_SIZE = 128, 16
# Larger sizes, of which there are fewer, where the device computes all of one in a part of the time in which the host
# launches it, and all that is made takes so many bytes: a new size costs a compile, its padding then nothing.
ROOMY_SIZES = (128, 512, 2048)
FREE, MOST_BYTES = 0.6, 1 << 31
# sizes at which a padded graph is looked at once more, for one parameter or two: the smallest for which an operator has the
# same steps, which may ask for even ones; no multiples of four, as padded ones are
THIRDS = ((3, 7), (7, 13), (13, 23), (6, 14), (14, 26), (26, 46), (50, 94), (202, 394))
MOST_KINDS = 256  # skeletons that are remembered
MOST_FAMILIES = 3  # of a skeleton, as where first one size changes and later two do


class PaddedArray:
    """An array on a device of which a part is valid, in the place of that part."""

    __slots__ = ("array", "dims", "values", "shape", "dtype", "__weakref__")

    used = False  # whether there was ever one in this process: before that, nobody looks for them

    def __init__(self, array: Any, dims: Dims, values: tuple[int, ...], shape: tuple[int, ...]):
        self.array, self.dims, self.values, self.shape, self.dtype = array, dims, values, shape, array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.asarray(self.array)
        for axis, dim in enumerate(self.dims):
            if dim is not None:
                sizes = [n for n, _ in dim.factors]
                parts = [slice(0, n if e is None else e.at(self.values)) for n, e in dim.factors]
                around = (*found.shape[:axis], *sizes, *found.shape[axis + 1 :])
                found = found.reshape(around)[(slice(None),) * axis + tuple(parts)]
                found = found.reshape((*around[:axis], -1, *around[axis + len(sizes) :]))
        return np.array(found.reshape(self.shape), dtype or self.dtype)

    def is_deleted(self) -> bool:
        return self.array.is_deleted()

    def block_until_ready(self) -> None:
        self.array.block_until_ready()


def buffer(array: Any) -> Any:
    """What lies on the device, with its padding."""
    return array.array if array.__class__ is PaddedArray else array


def exact(array: Any) -> Any:
    """An array without padding."""
    return np.asarray(array) if array.__class__ is PaddedArray else array


def made_exact(value: Any, array: PaddedArray) -> np.ndarray:
    """An array without padding, which its Value has from now on."""
    found = exact(array)
    if value is not None:
        value.array = found
    return found


class Plan:
    """How a segment of one graph runs padded."""

    __slots__ = ("graph", "values", "runs", "changed")

    def __init__(self, graph: PaddedGraph, values: tuple[int, ...]):
        self.graph, self.values, self.runs = graph, values, 0
        self.changed = [i for i, dims in enumerate(graph.leaves) if any(d is not None for d in dims)]


class _Kind:
    """All graphs of one skeleton."""

    __slots__ = ("samples", "families", "tried")

    def __init__(self) -> None:
        self.samples: list[tuple[Integers, Graph]] = []
        self.families: list[_Family] = []
        self.tried = 0  # how often a family was sought


class _Family:
    """Graphs whose integers follow from the same one or two in the same way."""

    __slots__ = ("samples", "varying", "padded", "reason", "needs", "grown")

    def __init__(self, samples: list[tuple[Integers, Graph]]):
        """Learned from such graphs; raises ValueError where their integers do not follow."""
        self.samples = samples
        self.varying = Varying([s for s, _ in samples])
        if not self.varying.params:
            raise ValueError("graphs of one size")
        self.needs = _needs_by_size(self.varying, samples)  # the device's time and bytes as polynomials of the size
        self.grown: dict[int, tuple[int, int]] = {}  # leaves that a call makes longer, see `growing`
        if len(self.varying.params) == 1:
            self.grown = growing(samples[0][1], samples[-1][1])
        self.padded: dict[tuple[int, ...], PaddedGraph | None] = {}
        self.reason = ""  # why these are never padded


_kinds: OrderedDict[tuple, _Kind] = OrderedDict()
_lock = threading.RLock()


def applies(graph: Graph) -> bool:
    """Whether a graph may run padded: on an accelerator, where a compile is all that could run it otherwise."""
    if graph.device.is_cpu or graph.device.several:
        return False
    return len(graph.nodes) >= LEAST_CALLS and bool(flags.pad_sizes.value)


def clear() -> None:
    """Forget all that was learned."""
    _kinds.clear()


def families() -> list[_Family]:
    """All that was learned."""
    return [family for kind in _kinds.values() for family in kind.families]


def plan(graph: Graph) -> Plan | None:
    """How a graph that is met for the first time runs padded; None where it gets programs of its own."""
    with _lock:  # one thread at a time learns
        return _plan(graph)


def _plan(graph: Graph) -> Plan | None:
    kind = _kinds.setdefault(graph.skeleton, _Kind())
    _kinds.move_to_end(graph.skeleton)
    while len(_kinds) > MOST_KINDS:
        _kinds.popitem(last=False)
    found = integers(graph)
    if len(kind.samples) < SAMPLES:
        kind.samples.append((found, graph))
        return None
    for family in kind.families:
        values = family.varying.values(found)
        if values is not None:
            return _plan_in(family, graph, values)
    # one more size changes than before, as where the first three batches had one length of targets
    if kind.tried == MOST_FAMILIES:
        return None
    kind.tried += 1
    try:
        family = _Family([*kind.samples, (found, graph)])
    except ValueError:
        return None
    values = family.varying.values(found)
    if values is None:
        return None
    kind.families.append(family)
    return _plan_in(family, graph, values)


def _plan_in(family: _Family, graph: Graph, values: tuple[int, ...]) -> Plan | None:
    if family.reason:
        return None
    more = max([n for _, n in family.grown.values()], default=0)
    wanted = tuple([n + more for n in values])  # what grows fits into the padded size
    for sizes in [*_roomy(wanted, family.needs, len(graph.nodes)), *_sizes(wanted, family.varying.constants)]:
        made = _padded(family, graph, values, tuple([n - more for n in sizes]))
        if made is not None:
            return Plan(made, values) if made.fits(graph, values) else None
        if family.reason:
            break
    return None


def _padded(family: _Family, graph: Graph, values: tuple[int, ...], sizes: tuple[int, ...]) -> PaddedGraph | None:
    if sizes in family.padded:
        return family.padded[sizes]
    # the samples first: what was traced of them is known already
    known = [*[(g, family.varying.values(s)) for s, g in family.samples], (graph, values)]
    usable = [(g, v) for g, v in known if v is not None and not _alike(v, sizes)]
    if not usable:
        return None
    other, other_values = usable[0]
    why = ""
    for third, calls in _thirds(usable, family.varying, sizes):
        try:
            made = PaddedGraph(other, family.varying, other_values, sizes, family.grown, calls, third)
            if why:  # perhaps other steps at odd sizes
                made.hold([Extent(i, 1, 0, 2) for i in range(len(sizes))])
            family.padded[sizes] = made
        except Refused as e:
            family.reason = str(e)
        except Disagree as e:  # as it may at sizes below those that it is made for
            why = str(e)
            continue
        except NOT_MADE:
            family.padded[sizes] = None  # as a table of positions that is not long enough
        return family.padded.get(sizes)
    family.reason = why or "sizes that cannot be told apart"
    return None


def _alike(values: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Whether a set of sizes is too much like the padded ones to tell what follows from them, or two of it are alike."""
    changes = [a - b for a, b in zip(sizes, values)]
    if 0 in changes or min(values) < SMALLEST:
        return True
    return len(set(changes)) < len(changes) and max(sizes) - min(sizes) <= LARGEST_PLUS


def _thirds(
    usable: list[tuple[Graph, tuple[int, ...]]], varying: Varying, sizes: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], list[Call]]]:
    """Sizes that have to say the same as the first, with the calls that there would be: small ones, where whatever is
    cut off at a size or counted in steps differs; then those of another graph, where nothing is made for small ones.
    """
    graph, values = usable[0]
    for small in [n[: len(values)] for n in THIRDS]:
        if all(a < b for a, b in zip(small, sizes)) and small != values:
            try:
                calls = remade(graph, varying, small)
            except NOT_MADE:
                continue
            yield small, calls
    for other, third in usable[1:]:
        if third != values:
            yield third, recorded(other)


def _needs_by_size(varying: Varying, samples: list[tuple[Integers, Graph]]) -> np.ndarray | None:
    """What graphs of three sizes need, as polynomials of the size: sums over their elements, of which none has it more
    than twice. None where more than one size changes.
    """
    if len(varying.params) != 1:
        return None
    sizes = [float(found.numbers[varying.params[0]]) for found, _ in samples]
    if len(set(sizes)) < len(samples):
        return None
    needs = [(cost.beyond_launches(graph), float(graph.nodes[-1].nbytes)) for _, graph in samples]
    return np.linalg.solve(np.vander(sizes), np.array(needs))


def _roomy(values: tuple[int, ...], needs: np.ndarray | None, calls: int) -> list[tuple[int, ...]]:
    """Sizes of which there are few, where the padding is free."""
    size = next((n for n in ROOMY_SIZES if n >= max(values)), None)
    if needs is None or size is None:
        return []
    found: list[tuple[int, ...]] = []
    for n in (size, size // 2):
        time, held = np.vander([float(n)], 3)[0] @ needs
        if n > _step(values[0]) and time <= FREE * cost.LAUNCH * calls and held <= MOST_BYTES:
            found.append((n,))
    return found


def _sizes(values: tuple[int, ...], constants: Iterable[int]) -> list[tuple[int, ...]]:
    """Sizes to pad to, the preferred first; then those that another number of the graph allows, as the length of a table."""
    found = tuple([_step(n) for n in values])
    if len(values) > 1:
        return [found]
    limits = sorted({n for n in constants if values[0] <= n < found[0]}, reverse=True)
    return [found, *[(n,) for n in limits[:4]]]


def _step(n: int) -> int:
    """The next of a few sizes: powers of two, and half-way between those that are large."""
    size = max(1 << (n - 1).bit_length(), SMALLEST_SIZE)
    return size * 3 // 4 if size > SMALL_SIZE and n <= size * 3 // 4 else size


def rewrite(seg: Any, plan: Plan) -> None:
    """Let a segment stand at the padded graph, with padded leaves."""
    graph = plan.graph
    arrays, leaves = list(seg.arrays), list(seg.leaves)
    sigs = graph.leaf_sigs
    resized = []
    if PaddedArray.used:
        for i in set(range(len(arrays))).difference(plan.changed):  # of a size that does not change here
            if arrays[i].__class__ is PaddedArray:
                arrays[i] = made_exact(leaves[i](), arrays[i])
    for i in plan.changed:
        array, shape = arrays[i], sigs[i].shape
        if array.__class__ is PaddedArray:
            if all(d is None or len(d.factors) == 1 for d in array.dims):
                if tuple(array.array.shape) == shape:
                    arrays[i] = array.array  # its Value is its owner, and may want it again
                    continue
                resized.append((i, array.array, shape))
                leaves[i] = _nothing
                continue
        padded = np.zeros(shape, sigs[i].dtype.np)
        padded[tuple([slice(0, n) for n in np.shape(array)])] = np.asarray(array)
        arrays[i], leaves[i] = padded, _nothing
    if resized:
        fn = _resize(tuple([shape for _, _, shape in resized]))
        for (i, _, _), array in zip(resized, fn([array for _, array, _ in resized])):
            arrays[i] = array
    numbers = [seg.numbers[place] if place >= 0 else plan.values[~place] for place in graph.numbers]
    before = seg.state, seg.arrays, seg.leaves, seg.numbers
    # all or nothing: no call in between, at which an interrupt could come
    seg.original = before
    seg.arrays, seg.leaves, seg.numbers = arrays, leaves, numbers
    seg.state, seg.plan = graph.last, plan


def restore(seg: Any) -> None:
    """Take a segment back to its own graph."""
    seg.state, seg.arrays, seg.leaves, seg.numbers = seg.original
    seg.original = seg.plan = None


def result(seg: Any, index: int, array: Any, shape: tuple[int, ...]) -> Any:
    """What a value of a padded segment gets."""
    dims = seg.plan.graph.dims[index]
    if all(d is None for d in dims):
        return array
    PaddedArray.used = True
    return PaddedArray(array, dims, seg.plan.values, shape)


def _nothing() -> None:
    """In the place of a weak reference: nobody else has this array."""


@functools.lru_cache(maxsize=64)
def _resize(shapes: tuple[tuple[int, ...], ...]) -> Callable[[list], list]:
    """A program that brings padded arrays to other sizes."""

    def to(array: Any, shape: tuple[int, ...]) -> Any:
        array = array[tuple([slice(0, n) for n in shape])]
        return jax.numpy.pad(array, [(0, n - m) for n, m in zip(shape, array.shape)])

    fn = jax.jit(lambda arrays: [to(a, shape) for a, shape in zip(arrays, shapes)])
    return lambda arrays: xla.in_x64(fn, arrays)
