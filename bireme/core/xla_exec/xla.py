"""The XLA executor: a graph becomes one jax function, compiled ahead of its first call, with dead leaves donated."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import starmap
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import SingleDeviceSharding

from bireme.core.base import host_memory, mesh, shutdown, signals
from bireme.core.base.device import Device, Fork
from bireme.core.graph import executor, images
from bireme.core.graph.graph import Graph, Sig
from bireme.core.xla_exec import (
    compile_cache,
    joined_leaves,
    kernel_choice,
    lowering,
    matmul_backend,
    ordered_sums,
    program_files,
    split_step,
)
from bireme.core.xla_exec.joined_leaves import Joined
from bireme.core.xla_exec.program_names import Names

# Half precision is rounded to where a program says so: the compiler would leave it out, `x - x.astype("bfloat16")`
# would be 0 and on CUDA twice the bytes would move in float32. On CUDA, autotuning Triton's matrix kernels against
# cuBLAS's takes some 7 s for each shape and gains about 1 %, that of other kernels a fifth of the compile and gains
# nothing; `kernel_choice` has the rest.
EXACT = {"xla_allow_excess_precision": False}
OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"xla_backend_optimization_level": 1, **EXACT},
    "cuda": {"xla_gpu_enable_triton_gemm": False, "xla_gpu_experimental_enable_fusion_autotuner": False, **EXACT},
}
# Beside steps on CPU: one thread at a time, since the steps have the other cores; and without the compiler's newer way to
# make kernels of joined operators, which takes it as long again for programs that are a tenth faster.
BESIDE_STEPS = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
LARGE = 64  # calls of a graph
HOST_MEMORY, MOST_ON_HOST = "pinned_host", 1 << 26  # what a device writes into itself, and bytes of results for it
# bytes of an array of zeros that is worth a look at its place in memory, and of all that are sent
ONE_ZERO, MOST_SENT = 1 << 16, 1 << 29
_NO_SUCH_OPTION = re.compile(
    "No such compile option: '([^']+)'|While setting option ([a-z0-9_]+), '[^']*' is not a valid"
)


def x64():
    """64-bit types are on inside this block only, so that other jax code in the process keeps its own setting."""
    return jax.enable_x64(True)


def in_x64(call: Any, *args: Any) -> Any:
    """The same for one call on the way of every step: an interrupt at the door of an `__exit__` would leave them on."""
    before = jax.enable_x64.get_local()
    try:
        jax.enable_x64.set_local(True)
        return call(*args)
    finally:
        jax.enable_x64.set_local(before)


def put(array: Any, device: Device) -> Any:
    """A copy of the array on the device; on those of a mesh, on every one."""
    if isinstance(device, mesh.Devices):
        return shutdown.within(mesh.place, array, device.whole())
    if Fork.child:
        if not device.is_cpu:
            raise Fork.error()
        return np.array(array)
    return shutdown.within(in_x64, functools.partial(jax.device_put, may_alias=False), array, device.jax)


def put_all(arrays: list, device: Device) -> list:
    """Copies of arrays on one device, in one call: each would take as long as two launches."""
    return shutdown.within(in_x64, functools.partial(jax.device_put, may_alias=False), arrays, device.jax)


def wait(device: Device) -> None:
    """Return when the device has done all that it was sent: a tiny transfer queues behind everything else."""
    jax.block_until_ready(put(np.zeros((), np.float32), device))
    for array in jax.live_arrays(device.platform):
        array.block_until_ready()


def wait_for_all() -> None:
    """Return when every array is there."""
    for array in jax.live_arrays():
        array.block_until_ready()


class Use(NamedTuple):
    """How a program will be used, where more is known than that it is called."""

    often: bool = False  # again and again, with arrays that lie where they did
    to_host: bool = False  # by who reads its results on the host of an accelerator: it leaves them there


ONCE = Use()


class Xla:
    """Whole graphs, compiled."""

    name = "xla"

    def prepare(
        self,
        graph: Graph,
        live: tuple[int, ...],
        donate: tuple[int, ...],
        device: Device,
        between: Callable[[], AbstractContextManager] = nullcontext,
        loop: lowering.Loop | None = None,
        joined: Joined = joined_leaves.NONE,
        use: Use = ONCE,
    ) -> Any:
        """A compiled program; `between` is entered while it is lowered. With a loop it runs the graph several times;
        leaves that are joined are one more list of arguments.
        """
        part = "whole" if loop is None else str(loop)
        parts = [part, str(joined), "to host" if use.to_host else ""]
        name = Names(device).graph(graph, live, donate, " ".join(filter(None, parts)))
        fn = lowering.function(graph, live, device.platform)
        fn = joined.before(fn if loop is None else lowering.looped(fn, loop))
        return _made(fn, graph, donate, len(live), device, name, joined.specs() or None, between, joined, use)


def load(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], device: Device) -> Any:
    """What `Xla.prepare` gives, if an earlier process has written it down; else None."""
    if compile_cache.is_empty():  # the first name of a process takes 40 ms
        return None
    name = Names(device).graph(graph, live, donate)
    return program_files.load(name, device, _args(graph, donate), len(live))


def prepare_early(
    graph: Graph,
    live: tuple[int, ...],
    donate: tuple[int, ...],
    device: Device,
    found: split_step.Parts,
    between: Callable[[], AbstractContextManager] = nullcontext,
) -> tuple[split_step.Front, Any]:
    """A graph as two programs, see `split_step`."""
    gives = tuple(dict.fromkeys((*found.early, *found.crossing)))
    reads = sorted({~r for node in found.before for r in node.args if r.__class__ is int and r < 0})
    kept = [i for i in range(len(graph.leaf_sigs)) if i not in set(donate)]
    names = [Names(device).graph(graph, live, donate, part) for part in ("before", "after")]
    turned = images.turned(graph, live)
    first = lowering.part(found.before, [~i for i in reads], graph.places(), gives, device.platform)
    first = lowering.between_programs(first, (), {place for place, i in enumerate(gives) if i in turned})
    args = [spec(graph.leaf_sigs[i]) for i in reads], _vectors(graph)
    use = Use(often=_stops_others(graph))
    before = _program(first, args, len(gives), (), device, names[0], _stops_others(graph), between, use=use)
    leaves = [~i for i in range(len(graph.leaf_sigs))]
    rest = lowering.part(found.after, [*leaves, *found.crossing], graph.places(), found.late, device.platform)
    places = {place for place, i in enumerate(found.crossing, len(leaves)) if i in turned}
    rest = lowering.between_programs(rest, places, ())
    crossing = [spec(graph.value_sigs[i], i in turned) for i in found.crossing]
    after = _made(rest, graph, donate, len(found.late), device, names[1], crossing, between)
    given = [(0, donate.index(i)) if i in donate else (1, kept.index(i)) for i in reads]
    return split_step.Front(before, found, gives, given), after


def _made(
    fn: Any,
    graph: Graph,
    donate: tuple[int, ...],
    results: int,
    device: Device,
    name: str | None,
    more: list | None = None,
    between: Callable[[], AbstractContextManager] = nullcontext,
    joined: Joined = joined_leaves.NONE,
    use: Use = ONCE,
) -> Any:
    """A function of leaves and numbers, and of more, compiled: it takes the leaves that it may write over first, then
    the others but for those that are joined.
    """
    n = len(graph.leaf_sigs)
    kept = [i for i in range(n) if i not in set(donate) and i not in joined]

    def program(donated, others, vectors, values=()):
        leaves: list[Any] = [None] * n
        for i, a in zip(donate, donated):
            leaves[i] = a
        for i, a in zip(kept, others):
            leaves[i] = a
        return fn([*leaves, *values], vectors)

    args = (*_args(graph, donate, joined), *([] if more is None else [more]))
    apart = any(node.bound.rows_apart for node in graph.nodes)
    if _stops_others(graph):  # it takes the place of pieces, whose runs have shown that it comes again
        use = use._replace(often=True)
    return _program(program, args, results, (0,), device, name, _stops_others(graph), between, apart, use)


def _stops_others(graph: Graph) -> bool:
    """Whether to write its program down would stop steps that run meanwhile, which on CPU wait for it anyway."""
    return not graph.device.is_cpu and len(graph.nodes) >= LARGE


def _args(graph: Graph, donate: tuple[int, ...], joined: Joined = joined_leaves.NONE) -> tuple:
    """What the program of a graph takes: the leaves that it may write over, the others, vectors of numbers."""
    given = set(donate)
    specs = [spec(s) for s in graph.leaf_sigs]
    others = [s for i, s in enumerate(specs) if i not in given and i not in joined]
    return [specs[i] for i in donate], others, _vectors(graph)


def _program(
    fn: Any,
    args: tuple,
    results: int,
    donated: tuple[int, ...],
    device: Device,
    name: str | None,
    at_end: bool,
    between: Callable[[], AbstractContextManager],
    apart: bool = False,
    use: Use = ONCE,
) -> Any:
    """A function compiled for arguments of these shapes, or as it was kept on disk."""
    found = program_files.load(name, device, args, results)
    if found is not None:
        return found
    with between():
        made = lower(trace(fn, args, donated, device, use.to_host), device, apart=apart, often=use.often)
    return compiled(*made, device, args, results, name, at_end)


def trace(fn: Any, args: tuple, donated: tuple[int, ...], device: Device, to_host: bool = False) -> Any:
    """A function traced for arguments of these shapes, for `lower`; `to_host`: with its results in memory of the host."""
    places: dict[str, Any] = {}
    if to_host:
        places["out_shardings"] = SingleDeviceSharding(device.jax, memory_kind=HOST_MEMORY)
    with x64(), jax.default_device(device.jax):
        traced = jax.jit(fn, donate_argnums=donated, **places).trace(*args)
        if device.platform in ordered_sums.PLATFORMS and ordered_sums.found_in(traced.jaxpr):
            fn = ordered_sums.in_order(traced.jaxpr, jax.tree.structure(traced.out_info))
            return jax.jit(fn, donate_argnums=donated, **places).trace(*args)
        return traced


def lower(
    traced: Any, device: Device, short: bool = False, apart: bool = False, often: bool = False
) -> tuple[Any, dict]:
    """What was traced, lowered, and the options to compile it with; `short`: a small one; `apart`: its rows must not
    depend on where they stand; `often`: see `Use`.
    """
    with x64(), jax.default_device(device.jax):
        lowered, options = traced.lower(), _options(device, short, traced.jaxpr, apart, often)
        if device.platform == "cuda" and kernel_choice.IN_ORDER.items() <= options.items():
            kernel_choice.settle(lowered, traced.jaxpr)
        return lowered, options


def compiled(
    lowered: Any,
    options: dict[str, Any],
    device: Device,
    args: tuple,
    results: int,
    name: str | None,
    at_end: bool = False,
) -> Any:
    """What was lowered, compiled, and kept on disk; without a name it may be there under that of its text."""
    if name is None:
        name = Names(device).text(lowered, options, args)
        found = program_files.load(name, device, args, results)
        if found is not None:
            return found
    with x64(), jax.default_device(device.jax):
        return program_files.keep(name, _compiled(lowered, options), at_end)


def compiled_for_mesh(traced: Any, device: Device) -> Any:
    """What was traced for the devices of a mesh, compiled. It is not kept on disk: which devices those are is not in it."""
    lowered, options = lower(traced, device)
    with x64(), jax.default_device(device.jax):
        return _compiled(lowered, options)


def spec(sig: Sig, turned: bool = False) -> Any:
    """What jax is told of an array of this Sig; `turned`: of an image that is kept with its channels last."""
    return jax.ShapeDtypeStruct(images.last(sig) if turned else sig.shape, sig.dtype.np)


def _vectors(graph: Graph) -> list:
    return [jax.ShapeDtypeStruct((len(places),), dtype.np) for dtype, places in graph.packs]


def _options(device: Device, short: bool, jaxpr: Any, apart: bool, often: bool) -> dict[str, Any]:
    found = dict(OPTIONS.get(device.platform, {}))
    if device.platform == "cpu":
        found |= matmul_backend.options(jaxpr, apart)
    if device.platform == "cpu" and short:
        found |= BESIDE_STEPS
    if device.platform == "cuda":
        graphs = kernel_choice.SHORT_PROGRAM if short else kernel_choice.WITH_CONVOLUTIONS if often else {}
        found |= kernel_choice.options(jaxpr, not device.several) | graphs
    return found


_unknown: set[tuple[str, Any]] = set()


def _compiled(lowered: Any, options: dict[str, Any]) -> Any:
    """Compile with the options that this version of the compiler has: they make it faster, none is needed."""
    while True:
        tried = {name: value for name, value in options.items() if (name, value) not in _unknown}
        try:
            with host_memory.compiling():
                return lowered.compile(compiler_options=tried)
        except jax.errors.JaxRuntimeError as e:
            found = _NO_SUCH_OPTION.search(str(e))
            name = found[found.lastindex or 0] if found is not None else None
            if name not in tried:
                raise
            _unknown.add((name, tried[name]))  # for every later compile too


def call(seg: Any, program: Any, vectors: list, dead: set[int]) -> None:
    """Call a compiled program with a segment's leaves; the results reach `seg.results` in one bytecode."""
    arrays, device = seg.arrays, seg.device
    host = move_to_device(seg)
    donated = [
        arrays[i] if i in dead or isinstance(arrays[i], np.ndarray) else put(arrays[i], device) for i in program.donate
    ]
    args = (donated, [arrays[i] for i in program.kept], vectors)
    in_x64(_call, seg, program, args, host)


def _call(seg: Any, program: Any, args: tuple, host: tuple[int, ...]) -> None:
    before = jax.default_device.get_local()
    try:
        jax.default_device.set_local(seg.device.jax)
        if program.front is not None:
            # it takes nothing away: an interrupt before the rest begins loses nothing
            seg.early, args = program.front(args)
        if host in program.warm and program.tier != "xla_pieces":  # which are several calls
            seg.results.extend(starmap(program.call, (args,)))
        else:
            _first_call(seg, program, args)
            program.warm.add(host)
    finally:
        jax.default_device.set_local(before)


def _first_call(seg: Any, program: Any, args: tuple) -> None:
    """A call with kinds of arguments that are new to the program, or of many programs: Python handles it, and an interrupt
    could come between a call and the storing of what it donated, so signals wait. Others are one C function."""
    with signals.held_back():
        seg.results.extend(starmap(program.call, (args,)))
    program.call = getattr(program.call, "_call", None) or program.call  # jax.stages.Compiled's own C function


def call_prepared(call: Any, leaves: list, vectors: list) -> list:
    """Call what `XLA.prepare` made without donation."""
    with x64():
        return call([], [jnp.asarray(a) for a in leaves], vectors)


def repeated(
    graph: Graph,
    live: tuple[int, ...],
    vectors: list,
    donate: tuple[int, ...] = (),
    fixed: Mapping[int, Any] | None = None,
    *,
    between: Callable[[], AbstractContextManager] = nullcontext,
    loop: lowering.Loop | None = None,
    to_host: bool = False,
) -> Callable[[list], list]:
    """A program of a graph to be called with its leaves often, from any thread; it may write over leaves that are
    donated, whose arrays are gone after a call. Leaves that are `fixed` have these arrays in every call. With a loop a
    call runs the graph several times. `to_host`: its results will be read there, and are not given to other programs.
    """
    device = graph.device
    joined = Joined(graph, fixed)
    use = Use(often=True, to_host=to_host and _fit_on_host(graph, live))
    program = XLA.prepare(graph, live, donate, device, between, loop, joined, use)
    if not device.is_cpu:
        vectors = put_all(vectors, device)  # to send them in every call takes longer than to launch a small program
    kept = [i for i in range(len(graph.leaf_sigs)) if i not in set(donate) and i not in joined]
    together = [[put(a, device) for a in joined.join(fixed or {})]] if joined.groups else []
    calls: list[Any] = []  # jax.stages.Compiled's own C function, once a call has made it

    def call(leaves: list) -> list:
        before = jax.default_device.get_local()
        try:
            jax.default_device.set_local(device.jax)
            made = (calls[0] if calls else program)(
                [leaves[i] for i in donate], [leaves[i] for i in kept], vectors, *together
            )
            if not calls:
                calls.append(getattr(program, "_call", None) or program)
            return made
        finally:
            jax.default_device.set_local(before)

    return functools.partial(in_x64, call)


def _fit_on_host(graph: Graph, live: tuple[int, ...]) -> bool:
    """Whether results may be left in memory of the host that a device writes into: there is less of it."""
    device, size = graph.device, sum([graph.value_sigs[i].nbytes for i in live])
    if device.is_cpu or size > MOST_ON_HOST:
        return False
    return any(memory.kind == HOST_MEMORY for memory in device.jax.addressable_memories())


def move_to_device(seg: Any) -> tuple[int, ...]:
    """Host arrays that will be read again are moved to the device once, not at every call; returns those that stay."""
    arrays, device = seg.arrays, seg.device
    moved: list[int] = []
    stay: list[int] = []
    for i, a in enumerate(arrays):
        if isinstance(a, np.ndarray):
            used_once = device.is_cpu and (a.nbytes <= 1 << 12 or seg.leaves[i]() is None)
            (stay if used_once else moved).append(i)
    if not moved:  # as in most steps: sending nothing takes as long as a launch
        return tuple(stay)
    for i, array in zip(moved, _moved([arrays[i] for i in moved], device)):
        arrays[i] = array
        v = seg.leaves[i]()
        if v is not None:
            v.array = array
    return tuple(stay)


def _moved(arrays: list, device: Device) -> list:
    """Arrays of the host on a device, in as few calls as may be: of a first step there are hundreds."""
    if device.is_cpu or device.several or Fork.child or len(arrays) == 1:
        return [put(a, device) for a in arrays]
    zeros = [i for i, a in enumerate(arrays) if a.nbytes > ONE_ZERO and not any(a.strides) and not a[(0,) * a.ndim]]
    made = dict(zip(zeros, _zeros_there([arrays[i] for i in zeros], device))) if zeros else {}
    others = [i for i in range(len(arrays)) if i not in made]
    made.update(zip(others, put_all([arrays[i] for i in others], device)))
    return [made[i] for i in range(len(arrays))]


def _zeros_there(zeros: list, device: Device) -> list:
    """Arrays that are one zero in every place, see `Zero`, on the device: an optimizer's state is three times as large as
    the model. They are sent from one block of the host's memory, whose pages are so fetched once: 453 MB in 13 ms where
    arrays of their own take 200. Where they are many gigabytes the device makes them, by one program that is compiled here,
    since the compiler's threads have the first step to do.
    """
    if sum([a.nbytes for a in zeros]) > MOST_SENT:
        kinds = [(a.shape, a.dtype) for a in zeros]
        with x64(), jax.default_device(device.jax):
            return jax.jit(lambda: [lax.full(shape, 0, dtype) for shape, dtype in kinds])()
    block = np.zeros(max([a.nbytes for a in zeros]), np.uint8)
    return put_all([block[: a.nbytes].view(a.dtype).reshape(a.shape) for a in zeros], device)


class PerOp:
    """One small program per operator: for shapes that change too often to compile whole graphs."""

    name = "xla_per_op"

    def prepare(self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], device: Device) -> Any:
        places, steps = graph.places(), list(zip(*graph.needed(live)))

        def call(donated, leaves, vectors):
            env: dict[int, Any] = {}
            for node, unread in steps:
                args = [
                    (env[r] if r >= 0 else leaves[~r])
                    if r.__class__ is int
                    else vectors[places[r.place][0]][places[r.place][1]]
                    for r in node.args
                ]
                out = node.bound.jitted(device.platform, _each)(*args)
                for i, o in enumerate(out if node.bound.many else [out]):
                    env[node.first + i] = o
                for r in unread:
                    del env[r]
            return [env[i] for i in live]

        return call


def _each(fn: Callable, platform: str) -> Callable:
    """An operator's form for a platform, as its program has it."""
    return ordered_sums.ordered(fn) if platform in ordered_sums.PLATFORMS else fn


XLA, PER_OP = Xla(), PerOp()
executor.register(XLA)
executor.register(PER_OP)
