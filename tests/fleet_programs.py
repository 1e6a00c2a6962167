"""What the processes of tests/test_fleet_processes.py run: one small GPT, divided in every way."""

import json
import resource

import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.distributed import fleet
from bireme.distributed.fleet.meta_parallel import (
    ColumnParallelLinear,
    LayerDesc,
    ParallelCrossEntropy,
    PipelineLayer,
    RowParallelLinear,
    SharedLayerDesc,
    VocabParallelEmbedding,
)
from bireme.distributed.fleet.utils import sequence_parallel_utils as sequence
from bireme.nn import functional as F

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH, BLOCKS = 16, 8, 2, 6, 8, 2
FULL = {}  # whole weights by the place of a parameter in the model, the same in all processes


def weight(name, shape):
    """The whole weight of a name: random numbers that depend on it alone."""
    rng = np.random.default_rng(sum(map(ord, name)) * 7919 + len(name))
    return (rng.standard_normal(shape) * (0.3 if len(shape) > 1 else 0.05) + (name.endswith("norm.weight"))).astype(
        "float32"
    )


class Attention(nn.Layer):
    def __init__(self, column, row):
        super().__init__()
        self.qkv, self.out = column(WIDTH, 3 * WIDTH), row(WIDTH, WIDTH)

    def forward(self, x):
        """Input and output are [batch, length, width]; heads lie side by side, each with its q, k and v."""
        y = self.qkv(x)
        heads = y.shape[-1] * HEADS // (3 * WIDTH)
        q, k, v = y.reshape([y.shape[0], y.shape[1], heads, 3 * WIDTH // HEADS]).transpose([0, 2, 1, 3]).chunk(3, -1)
        scores = F.softmax(bireme.matmul(q, k, transpose_y=True) / 2.0, -1)
        return self.out(bireme.matmul(scores, v).transpose([0, 2, 1, 3]).reshape([*y.shape[:2], -1]))


class Block(nn.Layer):
    def __init__(self, kind):
        super().__init__()
        column, row = LINEAR[kind]
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(column, row)
        self.up, self.down = column(WIDTH, 4 * WIDTH), row(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.first_norm(x))
        return x + self.down(F.gelu(self.up(self.second_norm(x))))


LINEAR = {
    "plain": (nn.Linear, nn.Linear),
    "tensor": (
        lambda a, b: ColumnParallelLinear(a, b, has_bias=True, gather_output=False),
        lambda a, b: RowParallelLinear(a, b, input_is_parallel=True),
    ),
}


class Table(nn.Layer):
    """The embedding, which is the head too."""

    def __init__(self, kind):
        super().__init__()
        table = VocabParallelEmbedding if kind == "tensor" else nn.Embedding
        self.table = table(VOCABULARY, WIDTH)

    @property
    def weight(self):
        return self.table.weight

    def forward(self, x):
        return self.table(x)


def head(layer, x):
    return bireme.matmul(x, layer.weight, transpose_y=True)


class GPT(nn.Layer):
    def __init__(self, kind="plain", tied=True, recomputed=False):
        super().__init__()
        self.table = Table(kind)
        self.blocks = nn.LayerList([Block(kind) for _ in range(BLOCKS)])
        self.kind, self.recomputed = kind, recomputed
        self.head = None if tied else nn.Linear(WIDTH, VOCABULARY, bias_attr=False)

    def forward(self, x):
        x = self.table(x)
        for block in self.blocks:
            x = fleet.utils.recompute(block, x) if self.recomputed else block(x)
        if self.head is not None:
            return self.head(x)
        if self.kind == "tensor":
            x = dist.collective._c_identity(x, group=fleet.get_hybrid_communicate_group().get_model_parallel_group())
        return head(self.table, x)


def fill(model, names=None):
    """Give each parameter the part of its whole weight that it is."""
    for name, p in model.named_parameters():
        place = name if names is None else names(name)
        parts, axis = (1, 0) if not getattr(p, "is_distributed", False) else (mp_size(), p.split_axis)
        shape = [n * parts if i == axis else n for i, n in enumerate(p.shape)]
        whole = weight(place, shape)
        p.set_value(np.split(whole, parts, axis)[mp_rank() if parts > 1 else 0])


def mp_size():
    return fleet.get_hybrid_communicate_group().get_model_parallel_world_size()


def mp_rank():
    return fleet.get_hybrid_communicate_group().get_model_parallel_rank()


def batches(steps):
    rng = np.random.default_rng(1)
    for _ in range(steps):
        yield rng.integers(0, VOCABULARY, (BATCH, LENGTH)), rng.integers(0, VOCABULARY, (BATCH, LENGTH))


def cross_entropy(logits, labels):
    return F.cross_entropy(logits.reshape([-1, VOCABULARY]), labels.reshape([-1]))


def adam(parameters, clip=0.5):
    return bireme.optimizer.AdamW(
        0.01, parameters=parameters, weight_decay=0.1, grad_clip=nn.ClipGradByGlobalNorm(clip)
    )


def started(**degrees):
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {f"{name}_degree": n for name, n in degrees.items()}
    fleet.init(is_collective=True, strategy=strategy)
    return strategy


def single(steps=10, tied=True):
    """The losses of one process."""
    model = GPT(tied=tied)
    fill(model)
    optimizer, losses = adam(model.parameters()), []
    for x, y in batches(steps):
        loss = cross_entropy(model(bireme.to_tensor(x)), bireme.to_tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    return losses, {name: p.numpy() for name, p in model.named_parameters()}


def part_of(array, index, count):
    return bireme.to_tensor(np.split(array, count)[index])


def by_itself(loss):
    """What one process alone does: the first reads its loss, the last catches errors. No collective may change by it."""
    if dist.get_rank() == 0:
        assert f"{loss.item():.3f}"
    if dist.get_rank() == dist.get_world_size() - 1:
        with pytest.raises(IndexError):  # that the program finds, when it runs
            bireme.index_select(bireme.ones([3]) * loss.detach(), bireme.to_tensor([5]) + 0).numpy()


def trained(model, optimizer, steps, index, count, loss_of=cross_entropy, skip=0):
    """The mean losses of data parallel steps."""
    losses = []
    for x, y in list(batches(skip + steps))[skip:]:
        loss = loss_of(model(part_of(x, index, count)), part_of(y, index, count))
        by_itself(loss)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.detach())
    return losses


def averaged(losses, group):
    together = bireme.stack(losses)
    dist.all_reduce(together, op=dist.ReduceOp.AVG, group=group)
    return together.tolist()


def parallel_loss(logits, labels):
    return ParallelCrossEntropy()(logits, labels).mean()


def hybrid(path, steps, **degrees):
    """Data, tensor and sharding axes in any mix."""
    started(**degrees)
    hcg = fleet.get_hybrid_communicate_group()
    tensor = degrees.get("mp", 1) > 1
    model = GPT("tensor" if tensor else "plain", recomputed=degrees.get("dp", 1) > 1)
    fill(model)
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(adam(model.parameters()))
    count = hcg.get_data_parallel_world_size() * hcg.get_sharding_parallel_world_size()
    index = hcg.get_data_parallel_rank() * hcg.get_sharding_parallel_world_size() + hcg.get_sharding_parallel_rank()
    losses = trained(model, optimizer, steps, index, count, parallel_loss if tensor else cross_entropy)
    told(path, averaged(losses, None))


def told(path, losses):
    if dist.get_rank() == 0:
        with open(path, "w") as file:
            json.dump(losses, file)


def sharded(path, steps, level):
    """ZeRO: states, gradients and parameters divided."""
    dist.init_parallel_env()
    model = GPT(tied=level != "p_g_os")  # a divided table cannot be used outside of its layer
    fill(model)
    optimizer = adam(model.parameters())
    model, optimizer, _ = dist.sharding.group_sharded_parallel(model, optimizer, level, segment_size=64)
    losses = trained(model, optimizer, steps, dist.get_rank(), dist.get_world_size())
    states = sum(s.size for s in optimizer.state_dict().values() if isinstance(s, bireme.Tensor) and s.size > 1)
    whole = 2 * sum(int(np.prod(t.shape)) for t in model.state_dict().values())
    assert states < whole * 0.7, (states, whole)
    if level == "p_g_os":
        held = sum(p.size for p in model.parameters())
        assert held < whole / 2 * 0.7, (held, whole)
    told(path, averaged(losses, None))


def descriptions(kind="plain"):
    return [
        SharedLayerDesc("table", Table, None, "weight", kind),
        *[LayerDesc(Block, kind) for _ in range(BLOCKS)],
        SharedLayerDesc("table", Table, head if kind == "plain" else tensor_head, "weight", kind),
    ]


def tensor_head(layer, x):
    group = fleet.get_hybrid_communicate_group().get_model_parallel_group()
    return head(layer, dist.collective._c_identity(x, group=group))


def pipe_name(name):
    """The name in `GPT` of a parameter of a pipeline."""
    if name.startswith("shared_layers."):
        return name.replace("shared_layers.table", "table")
    index, rest = name.split(".", 1)
    return f"blocks.{int(index) - 1}.{rest}"


def pipeline(path, steps, micro, chunks=1, kind="1F1B", **degrees):
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {f"{name}_degree": n for name, n in degrees.items()}
    count = degrees.get("dp", 1)
    strategy.pipeline_configs = {
        "accumulate_steps": micro, "micro_batch_size": BATCH // micro // count, "schedule_mode": kind,
    }  # fmt: skip
    fleet.init(is_collective=True, strategy=strategy)
    hcg = fleet.get_hybrid_communicate_group()
    tensor = degrees.get("mp", 1) > 1
    layers = PipelineLayer(
        descriptions("tensor" if tensor else "plain"), topology=hcg.topology(), loss_fn=parallel_loss if tensor else cross_entropy,
        num_virtual_pipeline_stages=chunks, use_dualpipev=kind == "V",
        seg_method="uniform" if chunks > 1 or kind == "V" else [0, 2, BLOCKS + 2], recompute_interval=1 if kind == "FThenB" else 0,
    )  # fmt: skip
    fill(layers, pipe_name)
    model = fleet.distributed_model(layers)
    optimizer = fleet.distributed_optimizer(adam(model.parameters()))
    losses = []
    for x, y in batches(steps):
        data = [part_of(a, hcg.get_data_parallel_rank(), count) for a in (x, y)]
        loss = model.train_batch(data, optimizer)
        by_itself(loss)
        losses.append(loss)
    told(path, averaged(losses, None))
    last = [part_of(a, hcg.get_data_parallel_rank(), count) for a in (x, y)]
    assert np.isfinite(model.eval_batch(last, compute_loss=True).item())


def one_after_the_other(folder, steps, programs):
    with bireme.debug.use_executor("interpreter"):  # compiling takes longer than these steps
        for i, program in enumerate(programs):
            program(f"{folder}/{i}", steps)
            dist.barrier()


# ------------------------------------------------------------ what is not seen in losses


def details():
    started(mp=2)
    for check in (tensor_layers, sequence_layers, random_states, merged_gradients, overflow, small_collectives):
        check()


def tensor_layers():
    """Parts of layers against the whole layer, with gradients."""
    me, rng = mp_rank(), np.random.default_rng(0)
    table, ids = rng.standard_normal((8, 4)).astype("float32"), rng.integers(0, 8, (3, 5))
    layer = VocabParallelEmbedding(8, 4)
    assert layer.weight.shape == [4, 4] and layer.weight.is_distributed and layer.vocab_start_index == 4 * me
    layer.weight.set_value(np.split(table, 2)[me])
    np.testing.assert_array_equal(layer(bireme.to_tensor(ids)).numpy(), table[ids])
    logits, labels = rng.standard_normal((5, 8)).astype("float32") * 50, np.array([0, 7, 3, -100, 4])
    part = bireme.to_tensor(np.split(logits, 2, 1)[me], stop_gradient=False)
    whole = bireme.to_tensor(logits, stop_gradient=False)
    loss = ParallelCrossEntropy()(part, bireme.to_tensor(labels))
    expected = F.cross_entropy(whole, bireme.to_tensor(labels), reduction="none", ignore_index=-100)
    np.testing.assert_allclose(loss.numpy().ravel(), expected.numpy().ravel(), rtol=1e-5, atol=1e-6)
    loss.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(part.grad.numpy(), np.split(whole.grad.numpy(), 2, 1)[me], rtol=1e-5, atol=1e-6)
    x = bireme.to_tensor(rng.standard_normal((2, 4)).astype("float32"), stop_gradient=False)
    weight = rng.standard_normal((4, 6)).astype("float32")
    for layer, axis in ((ColumnParallelLinear(4, 6, has_bias=True), 1), (RowParallelLinear(4, 6), 0)):
        layer.weight.set_value(np.split(weight, 2, axis)[me])
        layer.bias.set_value(np.zeros(layer.bias.shape, "float32"))
        y = layer(x)
        np.testing.assert_allclose(y.numpy(), x.numpy() @ weight, rtol=1e-5, atol=1e-5)
        x.clear_gradient()
        (y * y).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * (x.numpy() @ weight) @ weight.T, rtol=1e-4, atol=1e-4)
    for make, said in (
        (
            lambda: ColumnParallelLinear(4, 5),
            r"ColumnParallelLinear\(out_features\): expected a number that 2 processes",
        ),
        (lambda: VocabParallelEmbedding(7, 2), r"VocabParallelEmbedding\(num_embeddings\)"),
    ):
        with pytest.raises(ValueError, match=said):
            make()


def sequence_layers():
    """Two layers on parts of a sequence are the same two on the whole of it."""
    me, rng = mp_rank(), np.random.default_rng(2)
    first, second = (rng.standard_normal(s).astype("float32") for s in ((4, 6), (6, 4)))
    x = rng.standard_normal((8, 3, 4)).astype("float32")
    column = sequence.ColumnSequenceParallelLinear(4, 6, gather_output=False)
    row = sequence.RowSequenceParallelLinear(6, 4, input_is_parallel=True)
    column.weight.set_value(np.split(first, 2, 1)[me])
    row.weight.set_value(np.split(second, 2, 0)[me])
    assert sequence.is_sequence_parallel_parameter(row.bias)
    net = nn.Sequential(column, row)
    sequence.register_sequence_parallel_allreduce_hooks(net, 1, False)
    whole = bireme.to_tensor(x, stop_gradient=False)
    y = sequence.GatherOp.apply(net(sequence.ScatterOp.apply(whole)))
    np.testing.assert_allclose(y.numpy(), x @ first @ second, rtol=1e-4, atol=1e-4)
    y.sum().backward()
    np.testing.assert_allclose(whole.grad.numpy(), np.ones_like(x) @ second.T @ first.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(row.bias.grad.numpy(), np.full(4, 24.0))
    np.testing.assert_allclose(row.weight.grad.numpy()[:, 0], np.split((x @ first).sum((0, 1)), 2)[me], rtol=1e-4)


def random_states():
    """What is divided has random numbers of its own in each process, all else the same."""
    fleet.meta_parallel.model_parallel_random_seed(5)
    shared = bireme.rand([4])
    with fleet.meta_parallel.get_rng_state_tracker().rng_state():
        own = bireme.rand([4])
    found = []
    dist.all_gather_object(found, (shared.tolist(), own.tolist()))
    assert found[0][0] == found[1][0] and found[0][1] != found[1][1]


def merged_gradients():
    """Every second step updates, with the mean of the gradients."""
    strategy = fleet.DistributedStrategy()
    strategy.gradient_merge = True
    strategy.gradient_merge_configs = {"k_steps": 2, "avg": True}
    w = bireme.create_parameter([1], "float32", default_initializer=nn.initializer.Constant(1.0))
    inner = bireme.optimizer.SGD(1.0, parameters=[w])
    optimizer = fleet.meta_optimizers.HybridParallelOptimizer(inner, fleet.get_hybrid_communicate_group(), strategy)
    for factor, after in ((2.0, 1.0), (4.0, -2.0)):
        (w * factor).backward()
        optimizer.step()
        optimizer.clear_grad()
        assert w.item() == after
    assert w.grad.item() == 0


def overflow():
    """A gradient that overflows in one process leaves the step out in all."""
    me = dist.get_rank()
    w = bireme.create_parameter([1], "float32", default_initializer=nn.initializer.Constant(1.0))
    scaler = fleet.distributed_scaler(bireme.amp.GradScaler(init_loss_scaling=4.0))
    optimizer = bireme.optimizer.SGD(1.0, parameters=[w])
    for factor, after in ((float("inf") if me else 1.0, 1.0), (1.0, 0.0)):
        scaler.scale(w * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
        assert w.item() == after, (w.item(), after)


def small_collectives():
    me = dist.get_rank()
    assert (fleet.worker_num(), fleet.worker_index(), fleet.is_first_worker()) == (2, me, me == 0)
    assert fleet.util.all_reduce([1 + me, 2], "max").tolist() == [2, 2]
    assert fleet.util.all_gather({"rank": me}) == [{"rank": 0}, {"rank": 1}]
    assert fleet.util.get_file_shard(["a", "b", "c"]) == (["c"] if me else ["a", "b"])
    fleet.barrier_worker()


# ------------------------------------------------------------ checkpoints


def saved(folder, steps, level=None, **degrees):
    """Train for some steps, save, and go on; another division goes on from there with the same losses."""
    model, optimizer, index, count, loss_of = divided(level, **degrees)
    trained(model, optimizer, steps, index, count, loss_of)
    state = dist.checkpoint.sharded_state(model, optimizer)
    dist.save_state_dict({**state, "steps": steps}, folder, async_save=True)
    trained(model, optimizer, 1, index, count, loss_of)  # what it changes is not in the file
    dist.save_state_dict({"steps": steps + 1}, folder, unique_id=7)  # waits for the other


def resumed(path, folder, steps, level=None, **degrees):
    model, optimizer, index, count, loss_of = divided(level, **degrees)
    state = {**dist.checkpoint.sharded_state(model, optimizer), "steps": 0}
    for x in state.values():
        if isinstance(x, dist.ShardedWeight):
            x.local_tensor.set_value(np.full(x.local_tensor.shape, 9.0, "float32"))
    dist.load_state_dict(state, folder, unique_id=0)
    dist.checkpoint.set_sharded_state(state, model, optimizer)
    losses = trained(model, optimizer, steps, index, count, loss_of, skip=state["steps"])
    told(path, averaged(losses, None) if dist.get_world_size() > 1 else [loss.item() for loss in losses])


def divided(level=None, **degrees):
    started(**degrees)
    hcg = fleet.get_hybrid_communicate_group()
    tensor = degrees.get("mp", 1) > 1
    model = GPT("tensor" if tensor else "plain", tied=False)
    fill(model)
    if level is not None:
        optimizer = adam(model.parameters())
        model, optimizer, _ = dist.sharding.group_sharded_parallel(model, optimizer, level, segment_size=64)
        return model, optimizer, dist.get_rank(), dist.get_world_size(), cross_entropy
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(adam(model.parameters()))
    count = hcg.get_data_parallel_world_size() * hcg.get_sharding_parallel_world_size()
    index = hcg.get_data_parallel_rank() * hcg.get_sharding_parallel_world_size() + hcg.get_sharding_parallel_rank()
    return model, optimizer, index, count, cross_entropy


def one_save_fails(folder):
    """A process that cannot write is an error in all of them, and what was saved before is there."""
    dist.init_parallel_env()
    me = dist.get_rank()
    part = dist.ShardedWeight("w", bireme.full([50_000], float(me)), [50_000], [100_000], [50_000 * me])
    dist.save_state_dict({"w": part}, folder)
    if me == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    part.local_tensor.set_value(np.full(50_000, 5.0, "float32"))
    expected = (OSError, RuntimeError)
    with pytest.raises(expected, match=r"save_state_dict\(.*File too large"):
        dist.save_state_dict({"w": part}, folder)
    whole = dist.load_merged_state_dict(folder)["w"]
    assert whole.numpy()[[0, -1]].tolist() == [0, 1]
