"""Checkpoints saved by one division of tensors and loaded by another: every pair has to be equal to the last bit.

    python -m tools.checkpoint_pairs                     # all pairs of all divisions
    python -m tools.checkpoint_pairs --pairs 30          # so many of them, evenly chosen
    python -m tools.checkpoint_pairs --only flat         # those with a division whose name has this in it

Divisions are placements on meshes of one process with eight devices and of several processes, blocks and ranges of flattened
numbers as tensor parallel layers and ZeRO have them, stages of a pipeline, and models of `fleet` with their optimizers.
Most sizes do not divide evenly.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.core.tensor import on_mesh
from bireme.distributed import ProcessMesh, Replicate, Shard, checkpoint, fleet
from bireme.distributed.fleet.meta_parallel import ColumnParallelLinear, LayerDesc, PipelineLayer, RowParallelLinear

EIGHT = "--xla_force_host_platform_device_count=8"
SHAPES = {
    "matrix": ((7, 5), "float32"), "half": ((13,), "bfloat16"), "cube": ((4, 3, 6), "float64"), "scalar": ((), "float32"),
    "indices": ((9, 2), "int64"), "empty": ((0, 3), "float32"), "mask": ((6, 4), "bool"),
}  # fmt: skip
State = dict[str, Any]


def numbers(seed: int = 0) -> dict[str, np.ndarray]:
    """The whole tensors: random bits, so that NaNs are among them."""
    rng, found = np.random.default_rng(seed), {}
    for name, (shape, dtype) in SHAPES.items():
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        raw = rng.integers(0, 256, (*shape, kind.itemsize), np.uint8)
        found[name] = (raw[..., 0] > 127) if dtype == "bool" else raw.view(kind).reshape(shape)
    return found


# ------------------------------------------------------------ tensors in parts


def whole(values: dict[str, np.ndarray]) -> State:
    return {name: bireme.to_tensor(x) for name, x in values.items()}


def on_a_mesh(shape: tuple[int, ...], axes: tuple[int | None, ...], values: dict[str, np.ndarray]) -> State:
    """Divided along an axis of the tensor for each axis of the mesh, where the tensor has it."""
    mesh = ProcessMesh(np.arange(np.prod(shape)).reshape(shape), dim_names=["x", "y"][: len(shape)])
    found = {}
    for name, x in values.items():
        placed = [Replicate() if axis is None or axis >= x.ndim else Shard(axis) for axis in axes]
        found[name] = dist.shard_tensor(bireme.to_tensor(x), mesh, placed)
    return found


def cuts(n: int, count: int) -> list[int]:
    """Uneven parts: later ones are larger, some may be empty."""
    return [n * i * i // (count * count) for i in range(count + 1)]


def blocks(axis: int, values: dict[str, np.ndarray]) -> State:
    """Each process has a block along an axis, or all of what has no such axis."""
    rank, count, found = dist.get_rank(), dist.get_world_size(), {}
    for name, x in values.items():
        offset, part = [0] * x.ndim, x
        if axis < x.ndim:
            start, stop = cuts(x.shape[axis], count)[rank : rank + 2]
            offset[axis], part = start, np.take(x, range(start, stop), axis)
        found[name] = dist.ShardedWeight(name, bireme.to_tensor(part), part.shape, x.shape, offset)
    return found


def flat(values: dict[str, np.ndarray]) -> State:
    """Each process has a range of the flattened numbers, padded at the end as ZeRO pads them."""
    rank, count, found = dist.get_rank(), dist.get_world_size(), {}
    for name, x in values.items():
        start, stop = cuts(x.size, count)[rank : rank + 2]
        part = np.concatenate([x.reshape(-1)[start:stop], np.zeros(2, x.dtype)])
        span = slice(start, stop)
        found[name] = dist.ShardedWeight(name, bireme.to_tensor(part), x.shape, x.shape, [0] * x.ndim, True, span)
    return found


def stages(values: dict[str, np.ndarray]) -> State:
    """Each process has some of the tensors whole."""
    mine = list(values)[dist.get_rank() :: dist.get_world_size()]
    return whole({name: values[name] for name in mine})


def blocks_and_ranges(values: dict[str, np.ndarray]) -> State:
    """Two blocks along the last axis, each divided by its flattened numbers among half of the processes."""
    rank, half, found = dist.get_rank(), dist.get_world_size() // 2, {}
    for name, x in values.items():
        offset, part = [0] * x.ndim, x
        if x.ndim:
            start, stop = cuts(x.shape[-1], 2)[rank // half :][:2]
            offset[-1], part = start, x[..., start:stop]
        span = slice(*cuts(part.size, half)[rank % half :][:2])
        own = bireme.to_tensor(part.reshape(-1)[span])
        found[name] = dist.ShardedWeight(name, own, part.shape, x.shape, offset, True, span)
    return found


DIVISIONS: dict[str, tuple[int, Callable[[dict[str, np.ndarray]], State]]] = {
    "whole": (1, whole),
    "8 by rows": (1, functools.partial(on_a_mesh, (8,), (0,))),
    "2x4 both axes": (1, functools.partial(on_a_mesh, (2, 4), (0, 1))),
    "4x2 columns": (1, functools.partial(on_a_mesh, (4, 2), (1, None))),
    "2x2 rows twice": (1, functools.partial(on_a_mesh, (2, 2), (0, 0))),
    "2 blocks of rows": (2, functools.partial(blocks, 0)),
    "2 blocks of columns": (2, functools.partial(blocks, 1)),
    "2 flat": (2, flat),
    "2 stages": (2, stages),
    "2 processes, a mesh": (2, functools.partial(on_a_mesh, (2,), (1,))),
    "3 blocks of rows": (3, functools.partial(blocks, 0)),
    "3 flat": (3, flat),
    "4 processes, a mesh": (4, functools.partial(on_a_mesh, (2, 2), (0, 1))),
    "4 blocks and ranges": (4, blocks_and_ranges),
}


def local(x: Any) -> np.ndarray:
    if isinstance(x, dist.ShardedWeight):
        flat_span = x.flattened_range
        found = x.local_tensor.numpy()
        return found if flat_span is None else found[: flat_span.stop - flat_span.start]
    return on_mesh.part(x) if on_mesh.is_there(x) else x.numpy()


def save_all(folder: str, names: list[str]) -> None:
    """Save by each of some divisions; what all processes of this number do."""
    dist.init_parallel_env()
    for name in names:
        checkpoint.save_state_dict(DIVISIONS[name][1](numbers()), os.path.join(folder, name))


def load_all(folder: str, pairs: list[tuple[str, str]]) -> None:
    """Load what was saved by the first of each pair by the second, and compare the bits."""
    dist.init_parallel_env()
    for before, after in pairs:
        make = DIVISIONS[after][1]
        state, right = make(numbers(1)), make(numbers())
        checkpoint.load_state_dict(state, os.path.join(folder, before))
        for name, x in state.items():
            got, expected = local(x), local(right[name])
            assert got.dtype == expected.dtype and got.shape == expected.shape, (before, after, name)
            assert got.tobytes() == expected.tobytes(), (before, after, name)


# ------------------------------------------------------------ models of fleet


class Net(nn.Layer):
    """Two linear layers, in two parts each where the model axis has two processes."""

    def __init__(self, parallel: bool):
        super().__init__()
        self.up = ColumnParallelLinear(6, 10, has_bias=True, gather_output=False) if parallel else nn.Linear(6, 10)
        self.down = RowParallelLinear(10, 5, input_is_parallel=True) if parallel else nn.Linear(10, 5)
        self.norm = nn.LayerNorm(5)

    def forward(self, x: Any) -> Any:
        return self.norm(self.down(nn.functional.relu(self.up(x))))


def fleet_model(level: str | None = None, pipeline: bool = False, **degrees: int) -> tuple[Any, Any]:
    """A model and its optimizer, divided by fleet, after two steps."""
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {f"{name}_degree": n for name, n in degrees.items()}
    strategy.pipeline_configs = {"micro_batch_size": 2, "accumulate_steps": 2}
    fleet.init(is_collective=True, strategy=strategy)
    bireme.seed(5)
    x, y = bireme.rand([4, 6]), bireme.rand([4, 5])
    model: Any
    if pipeline:
        layers = [LayerDesc(nn.Linear, 6, 10), nn.ReLU(), LayerDesc(nn.Linear, 10, 7), LayerDesc(nn.Linear, 7, 5)]
        model = PipelineLayer(layers, num_stages=degrees.get("pp", 1), loss_fn=nn.MSELoss())
        model = fleet.meta_parallel.PipelineParallel(model, fleet.get_hybrid_communicate_group(), strategy)
    else:
        model = Net(degrees.get("mp", 1) > 1)
    optimizer: Any = bireme.optimizer.AdamW(0.01, parameters=model.parameters())
    if level is not None:
        model, optimizer, _ = dist.sharding.group_sharded_parallel(model, optimizer, level, segment_size=1)
    else:
        model = model if pipeline else fleet.distributed_model(model)
        optimizer = fleet.distributed_optimizer(optimizer)
    for _ in range(2):
        if pipeline:
            model.train_batch([x, y], optimizer)
        else:
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
    return model, optimizer


MODELS: dict[str, tuple[int, str, dict[str, Any]]] = {  # number of processes, family, how
    "one process": (1, "net", {}),
    "tensor": (2, "net", {"mp": 2}),
    "states": (2, "net", {"sharding": 2}),
    "ZeRO 3": (2, "net", {"level": "p_g_os"}),
    "tensor and states": (4, "net", {"mp": 2, "sharding": 2}),
    "layers": (1, "pipe", {"pipeline": True}),
    "pipeline": (2, "pipe", {"pipeline": True, "pp": 2}),
    "data and pipeline": (4, "pipe", {"pipeline": True, "pp": 2, "dp": 2}),
}


def save_models(folder: str, names: list[str]) -> None:
    for name in names:
        state = checkpoint.sharded_state(*fleet_model(**MODELS[name][2]))
        checkpoint.save_state_dict(state, os.path.join(folder, name))


def load_models(folder: str, pairs: list[tuple[str, str]]) -> None:
    """Load and save again: what is there afterwards is what was there before."""
    for before, after in pairs:
        model, optimizer = fleet_model(**MODELS[after][2])
        state = checkpoint.sharded_state(model, optimizer)
        checkpoint.load_state_dict(state, os.path.join(folder, before))
        checkpoint.set_sharded_state(state, model, optimizer)
        again = os.path.join(folder, f"{before} to {after}")
        checkpoint.save_state_dict(checkpoint.sharded_state(model, optimizer), again)
        if dist.get_rank() == 0:
            first, second = (checkpoint.load_merged_state_dict(path) for path in (os.path.join(folder, before), again))
            assert first.keys() == second.keys(), (before, after, first.keys() ^ second.keys())
            for name, x in first.items():
                same = x.numpy().tobytes() == second[name].numpy().tobytes() if isinstance(x, bireme.Tensor) else True
                assert same, (before, after, name)


# ------------------------------------------------------------ all of them


def all_pairs() -> list[tuple[str, str]]:
    """All pairs of divisions of tensors, and of models of one family."""
    tensors = [(a, b) for a in DIVISIONS for b in DIVISIONS]
    return tensors + [(a, b) for a in MODELS for b in MODELS if MODELS[a][1] == MODELS[b][1]]


def chosen(count: int, counts: Iterable[int] = (1, 2, 3, 4)) -> list[tuple[str, str]]:
    """So many pairs among those of these numbers of processes, evenly chosen."""
    allowed = {name for name, (n, *_) in [*DIVISIONS.items(), *MODELS.items()] if n in set(counts)}
    found = [pair for pair in all_pairs() if allowed.issuperset(pair)]
    return [found[i * len(found) // count] for i in range(min(count, len(found)))]


def run(folder: str, pairs: list[tuple[str, str]]) -> None:
    """Save and load in as many processes as each division has; raise an error if bits differ."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bireme"])
    for table, save, load in ((DIVISIONS, save_all, load_all), (MODELS, save_models, load_models)):
        own = [pair for pair in pairs if pair[0] in table]
        numbers_of = {name: row[0] for name, row in table.items()}
        saves, loads = ({numbers_of[pair[place]] for pair in own} for place in (0, 1))
        least = min(saves & loads, default=0)  # these save when all others have, and load at once
        turns = [(n, True, n == least) for n in sorted(saves, key=lambda n: n == least)]
        for count, saving, loading in [*turns, *[(n, False, True) for n in sorted(loads - {least})]]:
            first = list(dict.fromkeys(pair[0] for pair in own if numbers_of[pair[0]] == count)) if saving else []
            second = [pair for pair in own if numbers_of[pair[1]] == count] if loading else []
            dist.spawn(_turn, (save, load, folder, first, second), nprocs=count, start_method="forkserver")


def _turn(save: Callable, load: Callable, folder: str, first: list[str], second: list[tuple[str, str]]) -> None:
    """What all processes of one number do."""
    if os.environ["PADDLE_TRAINERS_NUM"] == "1":
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {EIGHT}"  # no backend is there yet
    save(folder, first)
    load(folder, second)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, metavar="N", help="how many pairs (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="divisions whose name has this in it (default: all)")
    given = parser.parse_args()
    pairs = [pair for pair in all_pairs() if given.only in pair[0] or given.only in pair[1]]
    if given.pairs is not None:
        pairs = [pairs[i * len(pairs) // given.pairs] for i in range(min(given.pairs, len(pairs)))]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run(folder, pairs)
    shown = Table("saved by", "loaded by")
    for before in dict.fromkeys(before for before, _ in pairs):
        shown.add_row(before, ", ".join(after for name, after in pairs if name == before))
    Console().print(shown, f"{len(pairs)} pairs, all equal to the last bit, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
