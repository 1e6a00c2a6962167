"""Every way to train in parallel, as functions that all processes of a job run: each returns the losses of the whole batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

import bireme
from bireme import distributed as dist
from bireme.distributed import fleet
from bireme.distributed.fleet import meta_parallel as parallel
from bireme.distributed.fleet.utils import sequence_parallel_utils as sequence
from tools.parallel.models import BATCH, PLAIN, Case, Division, adam, fill


def started(merge: int = 1, pipeline: dict | None = None, **degrees: int) -> Any:
    """The groups along each axis."""
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {f"{name}_degree": n for name, n in degrees.items()}
    if pipeline is not None:
        strategy.pipeline_configs = pipeline
    if merge > 1:
        strategy.gradient_merge = True
        strategy.gradient_merge_configs = {"k_steps": merge, "avg": True}
    fleet.init(is_collective=True, strategy=strategy)
    return fleet.get_hybrid_communicate_group()


def division_of(name: str, hybrid: Any, how: dict) -> Division:
    """How the layers of a model are divided by these groups."""
    given = dict(how)
    if hybrid.get_model_parallel_world_size() > 1:
        given.setdefault("linear", "tensor")
    if hybrid.get_context_parallel_world_size() > 1:
        given.setdefault("attention", "ring")
        given["parts"] = hybrid.get_context_parallel_group()
    if hybrid.get_sep_parallel_world_size() > 1:
        given.setdefault("attention", "alltoall")
        given["parts"] = hybrid.get_sep_parallel_group()
    if name == "MoE" and hasattr(hybrid, "get_expert_parallel_group"):
        given["experts"] = hybrid.get_expert_parallel_group()
    elif name == "MoE" and given.pop("over_data", False):
        given["experts"] = hybrid.get_data_parallel_group()
    return Division(**given)


def share(hybrid: Any) -> tuple[int, int]:
    """Which part of a batch this process has, of how many: along data and sharding, but not along a sequence."""
    sharding, rank = hybrid.get_sharding_parallel_world_size(), hybrid.get_sharding_parallel_rank()
    if hasattr(hybrid, "get_expert_parallel_group"):
        sharding, rank = hybrid.get_sharding_parallel_world_size(True), hybrid.get_sharding_parallel_rank(True)
    return hybrid.get_data_parallel_rank() * sharding + rank, hybrid.get_data_parallel_world_size() * sharding


def part_of(array: np.ndarray, index: int, count: int) -> bireme.Tensor:
    return bireme.to_tensor(np.split(array, count)[index])


def averaged(losses: list[bireme.Tensor]) -> list[float]:
    """The mean losses of all processes: those with the same data have the same, the others equal parts."""
    together = bireme.stack(losses)
    dist.all_reduce(together, op=dist.ReduceOp.AVG)
    return together.tolist()


def by_itself(loss: bireme.Tensor) -> None:
    """What one process does alone, which must not matter: the first reads its loss, the last catches an error of a run."""
    if dist.get_rank() == 0:
        loss.item()
    if dist.get_rank() == dist.get_world_size() - 1 > 0:
        with contextlib.suppress(IndexError):
            bireme.index_select(bireme.ones([3]) * loss.detach(), bireme.to_tensor([5]) + 0).numpy()


def step(loss: bireme.Tensor, optimizer: Any) -> bireme.Tensor:
    """One update."""
    by_itself(loss)
    loss.backward()
    by_itself(loss)
    optimizer.step()
    optimizer.clear_grad()
    return loss.detach()


def hybrid(name: str, steps: int, merge: int = 1, how: dict | None = None, **degrees: int) -> list[float]:
    """Any mix of axes but pipelines."""
    groups = started(merge, **degrees)
    case, division = Case(name), division_of(name, groups, how or {})
    model = fill(case.build(division), division)
    if division.linear == "sequence":
        sequence.register_sequence_parallel_allreduce_hooks(model, 1, False)
    model = fleet.distributed_model(model)
    optimizer, loss_of = fleet.distributed_optimizer(adam(model.parameters())), case.loss(division)
    index, count = share(groups)
    # along `sep` gradients are added up: each process has a part of the loss
    scale = 1 / groups.get_sep_parallel_world_size()
    losses = []
    for x, y in case.batches(steps):
        x, y = part_of(x, index, count), part_of(y, index, count)
        found = []
        for a, b in zip(x.chunk(merge), y.chunk(merge)):
            a, b = (a, b) if name == "ResNet" else (division.part(a), division.part(b))
            found.append(step(loss_of(model(a), b) * scale, optimizer) / scale)
        losses.append(bireme.stack(found).mean())
    return averaged(losses)


def sharded(
    name: str, steps: int, level: str, data: int = 1, offload: bool = False, how: dict | None = None
) -> list[float]:
    """ZeRO by `group_sharded_parallel`: states, gradients and parameters divided; `data` groups that do so side by side.
    With `offload` states lie on the host.
    """
    hybrid = started(dp=data, sharding=dist.get_world_size() // data)
    group, beside = hybrid.get_sharding_parallel_group(), hybrid.get_data_parallel_group()
    given = dict(how or {})
    if name == "MoE" and given.pop("divided", False):
        given["experts"] = group
    # a divided table cannot be used outside of its layer
    case, division = Case(name), Division(tied=level != "p_g_os", **given)
    model = fill(case.build(division), division)
    optimizer = adam(model.parameters())
    model, optimizer, _ = dist.sharding.group_sharded_parallel(
        model, optimizer, level, group=group, segment_size=64, dp_group=beside if data > 1 else None, offload=offload
    )
    index, count = share(hybrid)
    loss_of, losses = case.loss(division), []
    for x, y in case.batches(steps):
        losses.append(step(loss_of(model(part_of(x, index, count)), part_of(y, index, count)), optimizer))
    # experts are divided already, and each process keeps the states of its own
    whole = sum(int(np.prod(t.shape)) for t in model.state_dict().values())
    states = sum(s.size for s in optimizer.state_dict().values() if isinstance(s, bireme.Tensor) and s.size > 1)
    assert division.experts is not None or states < 2 * whole * 0.8, (
        f"{states} numbers of states of {whole} parameters are not divided"
    )
    held = sum(p.size for p in model.parameters())
    assert division.experts is not None or level != "p_g_os" or held < whole * 0.8, (
        f"{held} of {whole} numbers are not divided"
    )
    return averaged(losses)


def pipeline(
    name: str, steps: int, micro: int = 4, chunks: int = 1, kind: str = "1F1B", how: dict | None = None, **degrees: int
) -> list[float]:
    """Stages, by each schedule, and mixes with other axes."""
    count = degrees.get("dp", 1) * degrees.get("sharding", 1)
    options = {"accumulate_steps": micro, "micro_batch_size": BATCH // micro // count, "schedule_mode": kind}
    groups = started(pipeline=options, **degrees)
    case, division = Case(name), division_of(name, groups, how or {})
    layers = parallel.PipelineLayer(
        case.layers(division), topology=groups.topology(), loss_fn=case.loss(division), seg_method="uniform",
        num_virtual_pipeline_stages=chunks, use_dualpipev=kind == "V", recompute_interval=1 if kind == "FThenB" else 0,
    )  # fmt: skip
    model = fleet.distributed_model(fill(layers, division, case.place))
    optimizer, losses = fleet.distributed_optimizer(adam(model.parameters())), []
    index, count = share(groups)
    for x, y in case.batches(steps):
        loss = model.train_batch([part_of(x, index, count), part_of(y, index, count)], optimizer)
        by_itself(loss)
        losses.append(loss)
    last = [part_of(a, index, count) for a in (x, y)]
    assert np.isfinite(model.eval_batch(last, compute_loss=True).item())
    return averaged(losses)


PLANS: dict[str, Callable[[], dict]] = {
    "GPT": lambda: {
        r".*\.(qkv|up)": dist.ColWiseParallel(),
        r".*\.(out|down)": dist.RowWiseParallel(),
    },
    "ResNet": lambda: {r"blocks\.3\.up": dist.ColWiseParallel(), r"blocks\.3\.down": dist.RowWiseParallel()},
    "MoE": lambda: {r".*\.qkv": dist.ColWiseParallel(), r".*\.out": dist.RowWiseParallel()},
}


class Attend(bireme.nn.Layer):
    """Attention as a layer, which a plan of the sequence can name."""

    def forward(self, q: bireme.Tensor, k: bireme.Tensor, v: bireme.Tensor) -> bireme.Tensor:
        return PLAIN.attend(q, k, v)


def mesh(
    name: str, steps: int, shape: tuple[int, int], stage: int = 0, sep: str = "", how: dict | None = None,
    static: bool = False,
) -> list[float]:  # fmt: skip
    """Placements on a mesh of devices, or of processes: `shape` along data and model, or data and sequence."""
    if dist.get_world_size() > 1:
        dist.init_parallel_env()
    names = ["dp", "sep" if sep else "mp"]
    grid = dist.ProcessMesh(np.arange(np.prod(shape)).reshape(shape), dim_names=names)
    case, division = Case(name), Division(**(how or {}))
    model = fill(case.build(division))
    config: dict[str, Any] = {"dp_config": {"sharding_level": stage}}
    plan: dict = {} if sep else PLANS[name]()
    if sep:
        for i, block in enumerate(model.blocks):
            block.attention.attend = Attend()
            block.attention.division = _Layered(block.attention.attend)
            plan[f"blocks.{i}.attention.attend"] = dist.ContextParallel(sep)
    if shape[1] > 1:
        config["mp_config"] = {"parallelize_plan": plan}
    optimizer = adam(model.parameters())
    model, optimizer = dist.parallelize(model, optimizer, grid, config)
    loss_of, losses = case.loss(division), []
    trained = dist.to_static(model, None, loss_of, optimizer) if static else None
    for x, y in case.batches(steps):
        x, y = (dist.shard_tensor(a, grid, [dist.Shard(0), dist.Replicate()]) for a in (x, y))
        losses.append(step(loss_of(model(x), y), optimizer) if trained is None else trained(x, y))
    return [loss.item() for loss in losses]


class _Layered(Division):
    """Attention by a layer."""

    def __init__(self, attend: bireme.nn.Layer):
        super().__init__()
        self.attend = attend  # type: ignore[method-assign]  # the layer in place of the function
