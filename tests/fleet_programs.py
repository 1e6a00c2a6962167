"""What the processes of tests/test_fleet_processes.py run: parts of layers and optimizers, and checkpoints."""

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
    ParallelCrossEntropy,
    RowParallelLinear,
    VocabParallelEmbedding,
)
from bireme.distributed.fleet.utils import context_parallel_utils as context
from bireme.distributed.fleet.utils import sequence_parallel_utils as sequence
from bireme.distributed.utils import moe_utils
from bireme.incubate.distributed.models import moe
from bireme.nn import functional as F
from tools.parallel import models, ways


def interpreted(function, *args):
    """Call a function without compiling, which takes longer than what these compute."""
    with bireme.debug.use_executor("interpreter"):
        function(*args)


def started(**degrees):
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {f"{name}_degree": n for name, n in degrees.items()}
    fleet.init(is_collective=True, strategy=strategy)
    return fleet.get_hybrid_communicate_group()


def mp_rank():
    return fleet.get_hybrid_communicate_group().get_model_parallel_rank()


# ------------------------------------------------------------ what is not seen in losses


def details():
    started(mp=2)
    checks = [tensor_layers, sequence_layers, random_states, merged_gradients, overflow, small_collectives]
    checks += [sent_tokens, experts_of_one, attention_over_parts, own_parameters, data_beside_shards, bad_axes]
    for check in checks:
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


def sent_tokens():
    """Tokens to their experts and back: Paddle's example, gradients, and counts that do not fit."""
    me = dist.get_rank()
    x = bireme.to_tensor([[1.0, 2], [3, 4], [5, 6], [7, 8], [9, 10]], stop_gradient=False)
    count = bireme.to_tensor([[2, 1, 1, 1], [1, 1, 2, 1]][me])
    there = moe_utils.global_scatter(x, count, count)
    assert there.tolist() == [[[1, 2], [3, 4], [1, 2], [5, 6], [3, 4]], [[7, 8], [5, 6], [7, 8], [9, 10], [9, 10]]][me]
    back = moe_utils.global_gather(there, count, count)
    assert back.tolist() == x.tolist()
    (back * back).sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()
    again = moe_utils.global_gather(x, count, count).tolist()
    assert again == [[[1, 2], [3, 4], [7, 8], [1, 2], [7, 8]], [[5, 6], [9, 10], [3, 4], [5, 6], [9, 10]]][me]
    for call in (
        lambda: moe_utils.global_scatter(x[:2], count, count),
        lambda: moe_utils.global_gather(x, count[:3], count),
    ):
        with pytest.raises(ValueError, match=r"global_(scatter|gather)\("):
            call()


def experts_of_one():
    """All tokens go to the experts of one process; the other one, which computes nothing, exchanges gradients too."""
    me, group = dist.get_rank(), dist.get_group()
    layer = moe.MoELayer(4, nn.LayerList([nn.Linear(4, 4)]), {"type": "naive", "top_k": 1}, moe_group=group)
    layer.gate.gate.bias.set_value(np.array([100.0, 0.0], "float32"))
    y = layer(bireme.ones([1, 3, 4]))
    y.sum().backward()
    weight = layer.experts[0].weight
    assert (weight.grad is None) == (me == 1) and weight.expert and weight.no_sync


def bad_axes():
    for degrees, said in (
        ({"ep": 3}, r"expected 2 processes along pipe, moe_sharding and expert, got .*expert 3"),
        ({"ep": 2, "sharding": 2, "cp": 4}, r"expected contexts that divide the sharding axis, got .*context 4"),
        ({"cp": 4}, r"expected degrees with the product 2, the number of processes, got .*cp 4"),
    ):
        with pytest.raises(ValueError, match=said):
            started(**degrees)
    with pytest.raises(ValueError, match="expected a cp_degree above 1, got 1"):
        fleet.get_hybrid_communicate_group().get_context_parallel_group()


def attention_over_parts():
    """Attention over parts of a sequence is that over the whole, with gradients, also with fewer heads of keys."""
    rng = np.random.default_rng(3)
    q, k, v, g = (rng.standard_normal((2, 8, n, 5)).astype("float32") for n in (4, 2, 2, 4))
    for causal, balanced in ((True, True), (True, False), (False, True)):
        whole = [bireme.to_tensor(a, stop_gradient=False) for a in (q, k, v)]
        wide = [whole[0], *[x.repeat_interleave(2, 2) for x in whole[1:]]]
        want = F.scaled_dot_product_attention(*wide, is_causal=causal)
        (want * bireme.to_tensor(g)).sum().backward()
        for name in ("ring", "alltoall") if not balanced or not causal else ("ring",):
            own = [context.split_sequence(bireme.to_tensor(a), axis=1, balanced=balanced) for a in (q, k, v)]
            for x in own:
                x.stop_gradient = False
            if name == "ring":
                out = context.ring_attention(*own, is_causal=causal, balanced=balanced)
            else:
                out = context.alltoall_attention(
                    *own, is_causal=causal,
                    attention=lambda q, k, v, c=causal: F.scaled_dot_product_attention(
                        q, k.repeat_interleave(2, 2), v.repeat_interleave(2, 2), is_causal=c
                    ),
                )  # fmt: skip
            if causal or name == "ring":  # without a mask, consecutive parts in another order are as good
                found = context.gather_sequence(out, balanced=balanced)
                np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
            part = context.split_sequence(bireme.to_tensor(g), axis=1, balanced=balanced)
            (out * part).sum().backward()
            for x, y in zip(own, whole, strict=True):
                wanted = context.split_sequence(y.grad, axis=1, balanced=balanced).numpy()
                np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"split_sequence\(x\): expected a size along axis 1 that 4 chunks divide"):
        context.split_sequence(bireme.ones([2, 6]))


def own_parameters():
    """Parameters with `no_sync` are neither sent nor averaged."""
    me = dist.get_rank()
    layer = nn.Linear(1, 1)
    layer.weight.no_sync = True
    for p in (layer.weight, layer.bias):
        p.set_value(np.full(p.shape, 1.0 + me, "float32"))
    model = bireme.DataParallel(layer)
    assert (layer.weight.item(), layer.bias.item()) == (1.0 + me, 1.0)
    (model(bireme.full([1, 1], 2.0)) * (1.0 + me)).sum().backward()
    assert (layer.weight.grad.item(), layer.bias.grad.item()) == (2.0 * (1 + me), 1.5)


def data_beside_shards():
    """Groups of divided parameters, here of one process each, average their gradients and begin with one's parameters."""
    me, alone = dist.get_rank(), None
    for ranks in ([0], [1]):
        group = dist.new_group(ranks)
        alone = group if group.is_member() else alone
    for level in ("os", "os_g", "p_g_os"):
        layer = nn.Linear(2, 1, bias_attr=False)
        layer.weight.set_value(np.full([2, 1], 1.0 + me, "float32"))
        sgd = bireme.optimizer.SGD(1.0, parameters=layer.parameters())
        model, sgd, _ = dist.sharding.group_sharded_parallel(
            layer, sgd, level, group=alone, dp_group=dist.get_group(), segment_size=0
        )
        model(bireme.full([1, 2], 1.0 + me)).sum().backward()
        sgd.step()
        assert layer.weight.numpy().ravel().tolist() == [-0.5, -0.5], level


# ------------------------------------------------------------ checkpoints


def saved(folder, steps, level=None, **degrees):
    """Train for some steps, save, and go on; another division goes on from there with the same losses."""
    model, optimizer, index, count = divided(level, **degrees)
    trained(model, optimizer, steps, index, count)
    state = dist.checkpoint.sharded_state(model, optimizer)
    dist.save_state_dict({**state, "steps": steps}, folder, async_save=True)
    trained(model, optimizer, 1, index, count)  # what it changes is not in the file
    dist.save_state_dict({"steps": steps + 1}, folder, unique_id=7)  # waits for the other


def resumed(path, folder, steps, level=None, **degrees):
    model, optimizer, index, count = divided(level, **degrees)
    state = {**dist.checkpoint.sharded_state(model, optimizer), "steps": 0}
    for x in state.values():
        if isinstance(x, dist.ShardedWeight):
            x.local_tensor.set_value(np.full(x.local_tensor.shape, 9.0, "float32"))
    dist.load_state_dict(state, folder, unique_id=0)
    dist.checkpoint.set_sharded_state(state, model, optimizer)
    losses = ways.averaged(trained(model, optimizer, steps, index, count, skip=state["steps"]))
    if dist.get_rank() == 0:
        with open(path, "w") as file:
            json.dump(losses, file)


GPT = models.Case("GPT")


def trained(model, optimizer, steps, index, count, skip=0):
    losses = []
    for x, y in list(GPT.batches(skip + steps))[skip:]:
        losses.append(
            ways.step(
                models.cross_entropy(model(ways.part_of(x, index, count)), ways.part_of(y, index, count)), optimizer
            )
        )
    return losses


def divided(level=None, **degrees):
    hybrid = started(**degrees)
    division = models.Division("tensor" if degrees.get("mp", 1) > 1 else "plain", tied=False)
    model = models.fill(GPT.build(division), division)
    if level is not None:
        optimizer = models.adam(model.parameters())
        model, optimizer, _ = dist.sharding.group_sharded_parallel(model, optimizer, level, segment_size=64)
        return model, optimizer, dist.get_rank(), dist.get_world_size()
    model = fleet.distributed_model(model)
    return model, fleet.distributed_optimizer(models.adam(model.parameters())), *ways.share(hybrid)


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
