"""A world of one process: what programs written for several do when they run alone.

Where Paddle 3.2.2 answers on one process (ranks, strategies, topologies, names of parameters, placements), the literals
are its answers. Where it raises an error or returns None there (collectives, cross entropy over divided classes, layers
for sequences, a pipeline's step), what is expected follows from the definition for one process.
"""

import multiprocessing
import os
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.core.base import errors
from bireme.core.processes import connection
from bireme.distributed import engines, fleet
from bireme.distributed.communication.group import groups
from bireme.distributed.fleet import meta_parallel
from bireme.distributed.fleet.base import topology
from bireme.distributed.fleet.meta_optimizers import DygraphShardingOptimizer, HybridParallelOptimizer
from bireme.distributed.fleet.utils import hybrid_parallel_util, sequence_parallel_utils, timer_helper


@pytest.fixture(autouse=True)
def fresh_world():
    """No default group, and no groups of fleet."""
    before = dict(groups.by_id), groups.next, topology._HYBRID_PARALLEL_GROUP, dict(vars(fleet.fleet))
    groups.by_id.clear()
    groups.next = 10
    topology._HYBRID_PARALLEL_GROUP = None
    vars(fleet.fleet).clear()
    fleet.fleet.__init__()
    yield
    groups.by_id.clear()
    groups.by_id.update(before[0])
    groups.next, topology._HYBRID_PARALLEL_GROUP = before[1:3]
    vars(fleet.fleet).clear()
    vars(fleet.fleet).update(before[3])


def said(error) -> str:
    return str(error.value).splitlines()[0]


def tensor(*values):
    return bireme.to_tensor(np.array(values, "float32"))


def test_the_world_before_anything_is_initialized():
    assert (dist.get_rank(), dist.get_world_size(), dist.is_initialized(), dist.is_available()) == (0, 1, False, True)
    env = dist.ParallelEnv()
    assert (env.rank, env.local_rank, env.world_size, env.nranks) == (0, 0, 1, 1)
    assert (env.nrings, env.pg_timeout, env.current_endpoint, env.trainer_endpoints) == (1, 1800000, "", [""])
    assert (env.device_id, env.dev_id) == (0, 0)
    with pytest.warns(UserWarning, match="get_group"):
        assert dist.get_group(5) is None


def default_group_calls():
    x = tensor(1, 2)
    return {
        "all_reduce": lambda: dist.all_reduce(x), "all_gather": lambda: dist.all_gather([], x),
        "broadcast": lambda: dist.broadcast(x, 0), "reduce": lambda: dist.reduce(x, 0),
        "scatter": lambda: dist.scatter(x, [x]), "gather": lambda: dist.gather(x, []),
        "alltoall": lambda: dist.alltoall([], [x]), "alltoall_single": lambda: dist.alltoall_single(x, x),
        "reduce_scatter": lambda: dist.reduce_scatter(x, [x]), "send": lambda: dist.send(x, 1),
        "recv": lambda: dist.recv(x, 1), "barrier": dist.barrier, "get_backend": dist.get_backend,
        "all_gather_object": lambda: dist.all_gather_object([], 1),
        "broadcast_object_list": lambda: dist.broadcast_object_list([1], 0),
        "scatter_object_list": lambda: dist.scatter_object_list([], [1]),
        "P2POp": lambda: dist.P2POp(dist.isend, x, 1), "destroy_process_group": dist.destroy_process_group,
    }  # fmt: skip


@pytest.mark.parametrize("name", default_group_calls())
def test_collectives_need_the_default_group(name):
    with pytest.raises(RuntimeError) as error:
        default_group_calls()[name]()
    assert said(error) == (
        f"{name}(group): expected a call of init_parallel_env() before, since the default group is not initialized, "
        "got none"
    )


def test_the_default_group():
    group = dist.init_parallel_env()
    assert repr(group) == "rank: 0, nranks: 1, id: 0, ranks: 0; name: _default_pg"
    assert dist.init_parallel_env() is group
    assert dist.get_group() is group
    assert dist.is_initialized()
    assert dist.parallel.parallel_helper._is_parallel_ctx_initialized()
    assert dist.get_backend() in ("GLOO", "NCCL")
    assert (group.is_member(), group.world_size, group.get_group_rank(0), group.get_group_rank(1)) == (True, 1, 0, -1)
    assert (group.get_global_rank(0), group.get_global_rank(1)) == (0, -1)
    assert (dist.get_rank(group), dist.get_world_size(group)) == (0, 1)
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_more_groups():
    with pytest.raises(AssertionError, match="init_parallel_env"):
        dist.new_group()
    dist.init_parallel_env()
    group = dist.new_group([0])
    assert (group.id, group.name, group.ranks) == (10, "_default_pg10", [0])
    assert dist.new_group().id == 11
    assert dist.get_group(10) is group
    dist.destroy_process_group(group)
    assert dist.is_initialized()
    with pytest.raises(ValueError, match="a group that exists"):
        dist.destroy_process_group(group)
    with pytest.raises(ValueError, match="different ranks of the world of 1"):
        dist.new_group([1])


@pytest.mark.parametrize("sync_op", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_collectives_of_one(sync_op, new):
    dist.init_parallel_env()
    how = {"group": dist.new_group([0]) if new else None, "sync_op": sync_op}
    x, y, found = tensor(1, 2, 3), tensor(0, 0, 0), []
    tasks = [dist.all_reduce(x, op=op, **how) for op in range(5)]
    tasks += [dist.broadcast(x, 0, **how), dist.reduce(x, 0, **how)]
    assert x.tolist() == [1, 2, 3]
    tasks.append(dist.all_gather(found, x, **how))
    tasks.append(dist.gather(x, found, **how))
    assert [t.tolist() for t in found] == [[1, 2, 3]]
    for call in (
        lambda: dist.scatter(y, [x], src=0, **how),
        lambda: dist.alltoall([y], [x], **how),
        lambda: dist.alltoall_single(y, x, **how),
        lambda: dist.alltoall_single(y, x, in_split_sizes=[3], out_split_sizes=[3], **how),
        lambda: dist.reduce_scatter(y, [x], **how),
        lambda: dist.all_gather([y], x, **how),
        lambda: dist.stream.all_gather(y, x, **how),
        lambda: dist.stream.alltoall(y, x, **how),
        lambda: dist.stream.scatter(y, x, **how),
        lambda: dist.stream.reduce_scatter(y, x, **how),
    ):
        y.set_value(np.zeros(3, "float32"))
        tasks.append(call())
        assert y.tolist() == [1, 2, 3]
    assert all(task.wait() and task.is_completed() for task in tasks)
    assert dist.barrier(how["group"]) is None
    assert dist.wait(x, group=how["group"]) is None


def test_gathered_tensors_are_copies():
    dist.init_parallel_env()
    x = tensor(1, 2)
    x.stop_gradient = False
    found = []
    dist.all_gather(found, x)
    x.set_value(np.array([5, 5], "float32"))
    assert found[0].tolist() == [1, 2]
    assert found[0].stop_gradient


def test_collectives_on_objects():
    dist.init_parallel_env()
    given = {"a": [1]}
    found = [5]
    dist.all_gather_object(found, given)
    assert found == [5, {"a": [1]}]
    assert found[1] is not given and found[1]["a"] is not given["a"]
    objects = [1, given]
    dist.broadcast_object_list(objects, src=0)
    assert objects == [1, {"a": [1]}]
    out = [7]
    dist.scatter_object_list(out, [given], src=0)
    assert out == [{"a": [1]}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: dist.all_reduce([1]), "all_reduce(tensor): expected a Tensor, got [1]"),
        (lambda x: dist.all_reduce(x, op=9), "all_reduce(op): expected ReduceOp.SUM, MAX, MIN, PROD or AVG, got 9"),
        (lambda x: dist.broadcast(x, 1), "broadcast(src): expected a rank of the group, [0], got 1"),
        (lambda x: dist.all_gather((), x), "all_gather(tensor_list): expected a list of tensors, got ()"),
        (lambda x: dist.all_gather([x, x], x), "all_gather(tensor_list): expected no tensor or one per process, 1, got 2"),
        (lambda x: dist.all_gather([tensor(1)], x), "all_gather(tensor_list): expected shape [2], got shape [1]"),
        (
            lambda x: dist.scatter(x.astype("int32"), [x]),
            "scatter(tensor): expected float32, got int32",
        ),
        (lambda x: dist.scatter(x), "scatter(tensor_list): expected a list of one tensor per process, 1, got None"),
        (
            lambda x: dist.alltoall_single(x, x, in_split_sizes=[1]),
            "alltoall_single(in_split_sizes): expected the size of the first axis, [2], got [1]",
        ),
        (lambda x: dist.all_reduce(x, group=3), "all_reduce(group): expected a Group or None, got 3"),
        (
            lambda x: dist.stream.all_reduce(x, sync_op=False, use_calc_stream=True),
            "all_reduce(use_calc_stream): expected False where sync_op is False, got True",
        ),
        (lambda x: dist.broadcast_object_list([], 0),
         "broadcast_object_list(object_list): expected a list of at least one object, got []"),
        (lambda x: dist.batch_isend_irecv([]), "batch_isend_irecv(p2p_op_list): expected at least one P2POp, got []"),
    ],
)  # fmt: skip
def test_arguments_of_collectives(call, message):
    dist.init_parallel_env()
    with pytest.raises((ValueError, RuntimeError)) as error:
        call(tensor(1, 2))
    assert said(error) == message


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda x: dist.send(x, 1), "send(dst)"),
        (lambda x: dist.isend(x, 1), "send(dst)"),
        (lambda x: dist.recv(x, 1), "recv(src)"),
        (lambda x: dist.irecv(x, 1), "recv(src)"),
        (lambda x: dist.stream.send(x, 1), "send(dst)"),
        (lambda x: dist.stream.recv(x, 1), "recv(src)"),
        (lambda x: dist.send_object_list([x], 1), "send_object_list(dst)"),
        (lambda x: dist.recv_object_list([x], 1), "recv_object_list(src)"),
        (lambda x: dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, 1)]), "recv(src)"),
    ],
)
def test_there_is_nobody_to_talk_to(call, where):
    dist.init_parallel_env()
    with pytest.raises(RuntimeError) as error:
        call(tensor(1, 2))
    assert said(error) == f"{where}: expected the rank of another process, of which a group of one has none, got 1"
    with pytest.raises(RuntimeError, match=r"isend or distributed\.irecv"):
        dist.P2POp(dist.send, tensor(1), 1)


def test_several_processes_need_a_default_group(monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    net = nn.Linear(2, 2)
    assert (dist.get_rank(), dist.get_world_size()) == (1, 2)
    with pytest.raises(RuntimeError, match="the default group is not initialized"):
        bireme.DataParallel(net)
    with pytest.raises(RuntimeError, match="the default group is not initialized"):
        dist.sharding.group_sharded_parallel(net, bireme.optimizer.SGD(0.1, parameters=net.parameters()), "os")


def test_degrees_have_to_fit_the_number_of_processes():
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": 2}
    with pytest.raises(ValueError, match=r"degrees with the product 1, the number of processes, got dp 1, .* mp 2"):
        fleet.init(is_collective=True, strategy=strategy)
    strategy.hybrid_configs = {"mp_degree": 0}
    with pytest.raises(ValueError, match=r"\['mp_degree'\]\): expected a positive number, got 0"):
        fleet.init(is_collective=True, strategy=strategy)
    with pytest.raises(ValueError, match="expected 1 processes in all, got data 1, model 2"):
        fleet.HybridCommunicateGroup(fleet.CommunicateTopology(["data", "model"], [1, 2]))
    with pytest.raises(AttributeError, match=r"a call of fleet.init\(\) with pp_degree 2 before"):
        meta_parallel.PipelineLayer([nn.Linear(2, 2)] * 2, num_stages=2)


def test_data_parallel():
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    model = bireme.DataParallel(net, find_unused_parameters=True)
    assert model._layers is net
    assert model.find_unused_parameters
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    assert list(model.state_dict(structured_name_prefix="p.")) == ["p.0.weight", "p.0.bias"]
    assert [n for n, _ in model.named_parameters()] == ["_layers.0.weight", "_layers.0.bias"]
    assert model.full_name().startswith(f"{net.full_name()}_data_parallel")
    model.eval()
    assert not net.training
    x = bireme.ones([2, 4])
    assert model(x).tolist() == net(x).tolist()
    with model.no_sync():
        assert not model.grad_need_sync
        model(x).sum().backward()
    assert model.grad_need_sync
    loss = model(x).sum()
    assert model.scale_loss(loss) is loss
    loss.backward()
    assert model.apply_collective_grads() is None
    assert net[0].bias.grad.tolist() == [4, 4, 4]
    state = {name: value * 0 for name, value in net.state_dict().items()}
    assert model.set_state_dict(state) is None
    assert net[0].weight.numpy().sum() == 0
    with pytest.raises(AttributeError):
        _ = model.weight


STRATEGY = {
    "a_sync": True, "amp": False, "asp": False, "conv_workspace_size_limit": 512, "find_unused_parameters": False,
    "fuse_all_reduce_ops": True, "fuse_grad_size_in_MB": 32, "fuse_grad_size_in_num": 8, "gradient_merge": False,
    "last_comm_group_size_MB": 1.0, "nccl_comm_num": 1, "split_data": True, "without_graph_optimization": True,
    "pipeline_configs": {"micro_batch_size": 1, "accumulate_steps": 1, "schedule_mode": "1F1B",
                         "p2p_cache_shape": True, "enable_partial_send_recv": True},
    "gradient_merge_configs": {"k_steps": 1, "avg": True},
    "tensor_parallel_configs": {"tensor_parallel_degree": 1, "tensor_init_seed": -1},
    "localsgd_configs": {"k_steps": 1, "begin_step": 1},
}  # fmt: skip


def test_strategies_keep_and_check_what_they_are_given():
    strategy = fleet.DistributedStrategy()
    for name, value in STRATEGY.items():
        assert getattr(strategy, name) == value, name
    degrees = {k: v for k, v in strategy.hybrid_configs.items() if k.endswith("_degree")}
    assert degrees == {
        "dp_degree": -1, "mp_degree": 1, "pp_degree": 1, "sharding_degree": 1, "sep_degree": 1, "ep_degree": 1,
        "moe_sharding_degree": 1, "cp_degree": 1, "cp_sharding_degree": 1,
    }  # fmt: skip
    strategy.pipeline_configs = {"accumulate_steps": 4, "micro_batch_size": 2}
    assert strategy.pipeline_configs["accumulate_steps"] == 4
    assert strategy.pipeline_configs["schedule_mode"] == "1F1B"
    strategy.hybrid_configs = {"dp_degree": 1, "pp_configs": {"delay_scale_loss": True}, "order": ["dp", "mp"]}
    strategy.hybrid_configs["sharding_configs"].split_param = True
    assert strategy.hybrid_configs["pp_configs"].delay_scale_loss
    assert strategy.hybrid_configs["sharding_configs"].split_param
    assert strategy.hybrid_parallel_order == ["dp", "mp"]
    assert not fleet.DistributedStrategy().hybrid_configs["sharding_configs"].split_param
    strategy.amp = True
    assert strategy.amp
    with pytest.warns(UserWarning, match="DistributedStrategy.amp: expected bool, got 1; it stays True"):
        strategy.amp = 1
    with pytest.warns(UserWarning, match="expected int, got 'a'"):
        strategy.fuse_grad_size_in_MB = "a"
    with pytest.raises(AssertionError, match="amp_configs"):
        strategy.amp_configs = {"x": 3.0}
    with pytest.raises(TypeError, match="mp_degree"):
        strategy.hybrid_configs = {"mp_degree": 1.5}
    with pytest.raises(TypeError, match="hybrid_configs: expected a dict, got 3"):
        strategy.hybrid_configs = 3
    with pytest.raises(TypeError, match="nosuch"):
        strategy.nosuch = 3
    assert "accumulate_steps" in repr(strategy)


def test_fleet():
    with pytest.raises(AttributeError, match=r"fleet\.init"):
        fleet.get_hybrid_communicate_group()
    assert not hasattr(fleet.fleet, "_hcg"), "trainers ask so whether fleet was set up"
    with pytest.raises(AttributeError, match=r"fleet\.init"):
        fleet.worker_index()
    assert fleet.init(is_collective=True) is fleet.fleet
    assert dist.is_initialized()
    assert (fleet.worker_index(), fleet.worker_num(), fleet.node_num(), fleet.server_num()) == (0, 1, 1, 0)
    assert (fleet.is_first_worker(), fleet.is_worker(), fleet.is_server(), fleet.is_coordinator()) == (
        True, True, False, False,
    )  # fmt: skip
    assert (fleet.worker_endpoints(), fleet.worker_endpoints(True)) == (["127.0.0.1:6170"], "127.0.0.1:6170")
    assert (fleet.server_endpoints(), fleet.server_index(), fleet.local_rank()) == ([], 0, None)
    assert fleet.barrier_worker() is None
    assert fleet.util.all_reduce([1, 2]).tolist() == [1, 2]
    assert fleet.util.get_file_shard(["a", "b"]) == ["a", "b"]
    model = nn.Linear(2, 2)
    optimizer = bireme.optimizer.SGD(0.1, parameters=model.parameters())
    scaler = bireme.amp.GradScaler()
    assert fleet.distributed_model(model) is model
    assert fleet.distributed_optimizer(optimizer) is optimizer
    assert fleet.distributed_scaler(scaler) is scaler
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"mp_degree": 2}
    with pytest.raises(ValueError, match="degrees with the product 1"):
        fleet.init(is_collective=True, strategy=strategy)


def test_the_hybrid_group_of_one():
    fleet.init(is_collective=True)
    hcg = fleet.get_hybrid_communicate_group()
    assert topology._HYBRID_PARALLEL_GROUP is hcg
    for axis in ("data_parallel", "model_parallel", "sharding_parallel"):
        assert getattr(hcg, f"get_{axis}_rank")() == 0
        assert getattr(hcg, f"get_{axis}_world_size")() == 1
        assert getattr(hcg, f"get_{axis}_group_src_rank")() == 0
        assert getattr(hcg, f"get_{axis}_group")().ranks == [0]
    assert (hcg.get_stage_id(), hcg.get_pipe_parallel_world_size(), hcg.get_rank_from_stage(0)) == (0, 1, 0)
    assert (hcg.is_first_stage, hcg.is_last_stage, hcg.get_parallel_mode(), hcg.get_global_rank()) == (
        True,
        True,
        None,
        0,
    )
    assert (hcg.get_sep_parallel_rank(), hcg.get_sep_parallel_world_size()) == (0, 1)
    assert hcg.get_moe_sharding_parallel_world_size() == 0
    assert hcg.get_check_parallel_group().nranks == 1
    with pytest.raises(AssertionError):
        hcg.get_sep_parallel_group()
    assert hcg.topology().get_hybrid_group_names() == ["data", "pipe", "sharding", "sep", "context", "model"]
    assert hcg.topology().world_size() == 1


def test_topologies_of_many():
    t = fleet.CommunicateTopology(["data", "pipe", "model"], [2, 2, 2])
    assert t.world_size() == 8
    assert t.get_rank(data=1, pipe=0, model=1) == 5
    assert tuple(t.get_coord(5)) == (1, 0, 1)
    assert t.get_axis_list("data", 0) == [0, 1, 2, 3]
    assert (t.get_dim("data"), t.get_dim_size("data")) == (2, 2)
    assert t.get_comm_list("model") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert t.get_fused_ranks(["data", "pipe"]) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert t.get_rank_from_stage(0, pipe=1) == 2
    with pytest.raises(AssertionError):
        t.get_rank(data=1)
    with pytest.raises(ValueError, match="axis_name"):
        t.get_dim("x")


def test_tensor_parallel_layers_are_plain_ones():
    with pytest.raises(AttributeError, match=r"fleet\.init"):
        meta_parallel.ColumnParallelLinear(4, 6)
    group = dist.new_group([0])
    assert meta_parallel.ColumnParallelLinear(4, 6, mp_group=group).model_parallel_group is group
    fleet.init(is_collective=True)
    column = meta_parallel.ColumnParallelLinear(4, 6, has_bias=True)
    row = meta_parallel.RowParallelLinear(6, 4)
    table = meta_parallel.VocabParallelEmbedding(8, 4)
    assert [n for n, _ in meta_parallel.ColumnParallelLinear(4, 6).named_parameters()] == ["weight"]
    assert [(n, p.shape) for n, p in row.named_parameters()] == [("weight", [6, 4]), ("bias", [4])]
    assert (column.world_size, column.is_mp, column.output_size_per_partition) == (1, False, 6)
    assert (table.num_embeddings, table.vocab_start_index) == (8, 0)
    x = bireme.randn([2, 4])
    hidden = x.numpy() @ column.weight.numpy() + column.bias.numpy()
    np.testing.assert_allclose(column(x).numpy(), hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(row(column(x)).numpy(), hidden @ row.weight.numpy(), rtol=1e-5, atol=1e-6)
    assert table(bireme.to_tensor([1, 2])).tolist() == table.weight.numpy()[[1, 2]].tolist()


def test_parallel_cross_entropy():
    fleet.init(is_collective=True)
    logits = bireme.to_tensor(np.arange(12, dtype="float32").reshape(3, 4) / 7)
    label = bireme.to_tensor([0, 3, 1])
    # Paddle returns None here on one process; these are the losses of several
    wanted = nn.functional.cross_entropy(logits, label, reduction="none").numpy()[:, None]
    np.testing.assert_allclose(meta_parallel.ParallelCrossEntropy()(logits, label).numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(
        meta_parallel.ParallelCrossEntropy()(logits, label.unsqueeze(-1)).numpy(), wanted, rtol=1e-6
    )
    assert meta_parallel.ParallelCrossEntropy(ignore_index=3)(logits, label)[1].item() == 0


def test_collectives_that_gradients_pass_through():
    fleet.init(is_collective=True)
    from bireme.distributed.fleet.layers.mpu import mp_ops

    group = fleet.get_hybrid_communicate_group().get_model_parallel_group()
    x = tensor(1, 2)
    x.stop_gradient = False
    for name in ("_c_identity", "_c_concat", "_c_split", "_mp_allreduce"):
        assert getattr(mp_ops, name) is getattr(dist.collective, name)
        getattr(mp_ops, name)(x, group=group).sum().backward()
    assert x.grad.tolist() == [4, 4]
    table = bireme.to_tensor(np.arange(6, dtype="float32").reshape(3, 2))
    assert mp_ops._c_lookup_table(table, bireme.to_tensor([4, 5, 9]), start_index=4).tolist() == [
        [0, 1],
        [2, 3],
        [0, 0],
    ]


def test_random_states_by_name():
    tracker = meta_parallel.RNGStatesTracker()
    tracker.add("a", 5)
    bireme.seed(1)
    plain = bireme.rand([2]).tolist()
    bireme.seed(1)
    with tracker.rng_state("a"):
        first = bireme.rand([2]).tolist()
    with tracker.rng_state("a"):
        second = bireme.rand([2]).tolist()
    assert bireme.rand([2]).tolist() == plain
    other = meta_parallel.RNGStatesTracker()
    other.add("a", 5)
    with other.rng_state("a"):
        assert bireme.rand([2]).tolist() == first != second
    saved = tracker.get_states_tracker()
    with tracker.rng_state("a"):
        third = bireme.rand([2]).tolist()
    tracker.set_states_tracker(saved)
    with tracker.rng_state("a"):
        assert bireme.rand([2]).tolist() == third
    for bad in (lambda: tracker.add("a", 6), lambda: tracker.add("b", 5)):
        with pytest.raises(ValueError, match="no other state"):
            bad()
    with pytest.raises(ValueError, match="rng_state"), tracker.rng_state("b"):
        pass
    meta_parallel.model_parallel_random_seed(7)
    assert meta_parallel.get_rng_state_tracker().seeds_ == {8}


def squared(output, label):
    return ((output - label) ** 2).mean()


def test_a_pipeline_of_one_stage_is_a_list_of_layers():
    with pytest.raises(ValueError, match="num_stages or topology"):
        meta_parallel.PipelineLayer([nn.Linear(2, 2)])
    with pytest.raises(TypeError, match="subclass of Layer"):
        meta_parallel.LayerDesc(lambda x: x)
    desc = meta_parallel.LayerDesc(nn.Linear, 4, 8, bias_attr=False)
    assert repr(desc) == "Linear(4, 8, bias_attr=False)"
    layers = [desc, nn.ReLU(), lambda x: x * 2, meta_parallel.LayerDesc(nn.Linear, 8, 3)]
    model = meta_parallel.PipelineLayer(layers, num_stages=1, loss_fn=squared)
    assert list(model.state_dict()) == ["0.weight", "3.weight", "3.bias"]
    x = bireme.randn([2, 4])
    first, last = model.run_function[0], model.run_function[3]
    np.testing.assert_allclose(model(x).numpy(), last(nn.functional.relu(first(x)) * 2).numpy(), rtol=1e-5)
    assert (model.segment_parts, model.get_num_virtual_stages(), model.get_stage_from_index(3)) == ([0, 4], 1, 0)

    again = meta_parallel.PipelineLayer(model.run_function, num_stages=1, recompute_interval=2)
    model(x).sum().backward()
    wanted = first.weight.grad.numpy()
    first.clear_gradients()
    again(x).sum().backward()
    np.testing.assert_allclose(first.weight.grad.numpy(), wanted, rtol=1e-5)


def test_micro_batches_accumulate_to_the_gradient_of_the_batch():
    strategy = fleet.DistributedStrategy()
    strategy.pipeline_configs = {"accumulate_steps": 2, "micro_batch_size": 2}
    fleet.init(is_collective=True, strategy=strategy)
    hcg = fleet.get_hybrid_communicate_group()
    layer = meta_parallel.PipelineLayer([nn.Linear(4, 3)], num_stages=1, loss_fn=squared)
    layer.set_state_dict(
        {"0.weight": bireme.arange(12, dtype="float32").reshape([4, 3]) / 10, "0.bias": tensor(0, 0, 0)}
    )
    model = meta_parallel.PipelineParallel(layer, hcg, strategy)
    inner = bireme.optimizer.SGD(0.1, parameters=model.parameters())
    optimizer = HybridParallelOptimizer(inner, hcg, strategy)
    x, y = bireme.arange(16, dtype="float32").reshape([4, 4]) / 16, bireme.ones([4, 3])
    # the outputs are those of Paddle's eval_batch
    outputs = model.eval_batch([x, y])
    np.testing.assert_allclose(outputs[0].numpy(), [[0.2625, 0.3, 0.3375], [0.7125, 0.85, 0.9875]], rtol=1e-5)
    whole = squared(layer(x), y)
    whole.backward()
    wanted = [p.numpy() - 0.1 * p.grad.numpy() for p in layer.parameters()]
    layer.clear_gradients()
    schedule = bireme.optimizer.lr.StepDecay(0.1, 1)
    loss = model.train_batch([x, y], optimizer, lr_scheduler=schedule)
    np.testing.assert_allclose(loss.item(), whole.item(), rtol=1e-6)
    for parameter, value in zip(layer.parameters(), wanted, strict=True):
        np.testing.assert_allclose(parameter.numpy(), value, rtol=1e-5)
    assert schedule.last_epoch == 1
    assert model.eval_batch([x, y], compute_loss=True).item() < loss.item()
    assert model.train_batch(iter([(x[:2], y[:2]), (x[2:], y[2:])]), optimizer).shape == []
    assert model.train_batch([[x[:2], x[2:]], [y[:2], y[2:]]], optimizer, return_micro_batch_loss=True).shape == [2]
    scaler = bireme.amp.GradScaler(init_loss_scaling=8.0)
    assert model.train_batch([x, y], inner, scaler=scaler).shape == []
    with pytest.raises(AssertionError, match="2 micro-batches of 2 samples"):
        model.train_batch([x[:3], y[:3]], optimizer)


def test_layers_around_models():
    fleet.init(is_collective=True)
    hcg = fleet.get_hybrid_communicate_group()
    net = nn.Linear(4, 3)
    for kind in (meta_parallel.TensorParallel, meta_parallel.ShardingParallel, meta_parallel.SegmentParallel):
        model = kind(net, hcg, strategy=None)
        assert [n for n, _ in model.named_parameters()] == ["_layers.weight", "_layers.bias"]
        assert model(bireme.ones([2, 4])).tolist() == net(bireme.ones([2, 4])).tolist()
    optimizer = DygraphShardingOptimizer(bireme.optimizer.Adam(parameters=net.parameters()), hcg)
    net(bireme.ones([2, 4])).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    assert len(optimizer.state_dict()) > 0
    assert hybrid_parallel_util.unwrap_optimizer(optimizer, DygraphShardingOptimizer) is optimizer._inner_opt
    assert optimizer.filter_parameters(net.parameters(), hcg) == net.parameters()


def test_sequence_parallel_exchanges_are_the_identity():
    fleet.init(is_collective=True)
    x = bireme.ones([2, 4])
    for name in ("ScatterOp", "GatherOp", "AllGatherOp", "ReduceScatterOp"):
        assert getattr(sequence_parallel_utils, name).apply(x).shape == [2, 4]
    with pytest.raises(AssertionError, match="gather_output"):
        sequence_parallel_utils.ColumnSequenceParallelLinear(4, 6)
    with pytest.raises(AssertionError, match="input_is_parallel"):
        sequence_parallel_utils.RowSequenceParallelLinear(4, 6)
    weight = nn.Linear(2, 2).weight
    sequence_parallel_utils.mark_as_sequence_parallel_parameter(weight)
    assert weight.sequence_parallel


def test_timers():
    timers = timer_helper.Timers()
    timers("a").start()
    with pytest.raises(AssertionError, match="does not run"):
        timers("a").start()
    timers("a").stop()
    assert timers("a").elapsed() > 0
    assert timers("a").elapsed() == 0


@pytest.mark.parametrize("offload", [False, True])
def test_states_are_kept_on_the_host_between_steps(offload):
    layer = bireme.nn.Linear(2, 1, bias_attr=False)
    layer.weight.set_value(np.ones((2, 1), "float32"))
    adam = bireme.optimizer.Adam(0.5, parameters=layer.parameters())
    layer, adam, _ = dist.sharding.group_sharded_parallel(layer, adam, "os_g", offload=offload)
    with bireme.debug.use_executor("xla"):
        for _ in range(2):
            layer(bireme.ones([1, 2])).sum().backward()
            adam.step()
            adam.clear_grad()
            held = [t for slot in adam._slots.values() for t in slot.state.values()]
            assert held and all(isinstance(t._value.array, np.ndarray) for t in held) is offload
        np.testing.assert_allclose(layer.weight.numpy(), np.zeros((2, 1)), atol=1e-4)


def test_sharded_training(tmp_path):
    model = nn.Linear(2, 2)
    optimizer = bireme.optimizer.Adam(parameters=model.parameters())
    assert dist.sharding.group_sharded_parallel(model, optimizer, "p_g_os") == (model, optimizer, None)
    with pytest.raises(AssertionError, match="level"):
        dist.sharding.group_sharded_parallel(model, optimizer, "os_p")
    dist.sharding.save_group_sharded_model(model, str(tmp_path / "out"), optimizer)
    assert sorted(os.listdir(tmp_path / "out")) == ["model.pdmodel", "model.pdopt"]
    assert list(bireme.load(str(tmp_path / "out" / "model.pdmodel"))) == ["weight", "bias"]


def test_split_stands_in_programs():
    with pytest.raises(ValueError, match="static mode"):
        dist.split(bireme.ones([2, 4]), (4, 3), "linear")


def test_placements():
    assert (
        repr([dist.Shard(0), dist.Replicate(), dist.Partial()])
        == "[Shard(dim=0), Replicate(), Partial(reduce_type=SUM)]"
    )
    assert repr(dist.Partial(dist.ReduceType.kRedAvg)) == "Partial(reduce_type=AVG)"
    assert dist.Shard(1) == dist.Shard(1) != dist.Shard(0)
    assert hash(dist.Shard(1)) == hash(dist.Shard(1))
    assert dist.Partial() == dist.Partial() != dist.Replicate()
    assert (dist.Shard(0).is_shard(), dist.Shard(0).is_shard(1), dist.Replicate().is_replicated()) == (
        True,
        False,
        True,
    )
    assert [int(kind) for kind in dist.ReduceType] == [0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(TypeError, match="dim"):
        dist.Shard("a")


def test_meshes_of_one_process():
    mesh = dist.ProcessMesh([0], dim_names=["x"])
    assert (mesh.shape, mesh.ndim, mesh.process_ids, mesh.dim_names, mesh.size) == ([1], 1, [0], ["x"], 1)
    assert repr(mesh) == "shape [1], process_ids [0], dim_names ['x']"
    assert mesh == dist.ProcessMesh([0], dim_names=["y"])
    assert hash(mesh) == hash(dist.ProcessMesh([0]))
    assert (mesh.get_dim_size("x"), mesh.get_rank_by_dim_and_process_id("x", 0), mesh.contains(0)) == (1, 0, True)
    two = dist.ProcessMesh([[0]])
    assert two.dim_names == ["d0", "d1"]
    assert two.get_mesh_with_dim("d1").dim_names == ["d1", "d0"]
    assert two.get_mesh_with_dim("d1", 0).dim_names == ["d0"]
    assert (two.get_submesh_with_dim("d1").dim_names, two[0].dim_names) == (["d1"], ["d1"])
    for bad in (lambda: dist.ProcessMesh([0], dim_names=["x", "y"]), dist.ProcessMesh, lambda: dist.ProcessMesh([-1]),
                lambda: mesh.get_dim_size("z")):  # fmt: skip
        with pytest.raises(AssertionError):
            bad()
    two = dist.ProcessMesh([[0, 1], [2, 3]], ["x", "y"])
    assert (two[1].process_ids, two[:, 1].process_ids, two.dim_size("y")) == ([2, 3], [1, 3], 2)
    assert two.unique_id == dist.ProcessMesh([[0, 1], [2, 3]]).unique_id != mesh.unique_id
    with two, mesh:
        assert dist.get_mesh() is mesh
    for bad in (lambda: dist.ProcessMesh([0, 0]), lambda: dist.shard_tensor([1.0], dist.ProcessMesh([0, 99]), [])):
        with pytest.raises(ValueError, match="ranks"):
            bad()


def test_tensors_on_a_mesh():
    mesh = dist.ProcessMesh([0], dim_names=["x"])
    plain = bireme.ones([2, 2])
    assert (plain.is_dist(), plain.placements, plain.process_mesh) == (False, None, None)
    x = dist.shard_tensor(plain, mesh, [dist.Shard(0)], stop_gradient=False)
    assert (x.is_dist(), x.placements, x.process_mesh, x is plain) == (True, [dist.Shard(0)], mesh, False)
    assert (x.stop_gradient, plain.stop_gradient, x._local_value().tolist()) == (False, True, [[1, 1], [1, 1]])
    y = dist.reshard(x * 2, mesh, [dist.Replicate()])
    assert y.placements == [dist.Replicate()]
    y.sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]
    assert not dist.unshard_dtensor(x).is_dist()
    assert dist.shard_tensor(plain, dist.ProcessMesh([[0]]), [dist.Shard(0)]).placements == [
        dist.Shard(0),
        dist.Replicate(),
    ]
    assert dist.shard_tensor([1, 2], mesh, [], dtype="float64").dtype == bireme.float64
    for placements in ([dist.Shard(5)], [dist.Shard(0), dist.Shard(0)], [0], None):
        with pytest.raises(ValueError, match="placements"):
            dist.shard_tensor(plain, mesh, placements)


def test_layers_on_a_mesh():
    mesh = dist.ProcessMesh([0], dim_names=["x"])

    def place(name, layer, mesh):
        if hasattr(layer, "weight"):
            layer.weight = dist.shard_tensor(layer.weight, mesh, [dist.Shard(1)])

    layer = nn.Linear(2, 2)
    assert dist.shard_layer(layer, mesh, place) is layer
    assert (layer.weight.placements, layer.bias.placements) == ([dist.Shard(1)], [dist.Replicate()])
    assert list(layer.state_dict()) == ["weight", "bias"]
    doubled = dist.shard_layer(nn.Linear(2, 2), mesh, None, lambda i, m: (i[0] * 2,), lambda o, m: o * 0)
    assert doubled(bireme.ones([1, 2])).tolist() == [[0, 0]]
    optimizer = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
    assert dist.shard_optimizer(optimizer, dist.ShardingStage1("x", mesh), gradient_accumulation_steps=2) is optimizer
    for step in range(2):
        layer(dist.shard_tensor(bireme.ones([1, 2]), mesh, [dist.Replicate()])).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        np.testing.assert_allclose(layer.bias.numpy(), [-0.1 * (step + 1)] * 2, rtol=1e-6)
    data = bireme.io.DataLoader(bireme.io.TensorDataset([bireme.ones([4, 2]), bireme.zeros([4, 1])]), batch_size=2)
    loader = dist.shard_dataloader(data, meshes=[mesh], shard_dims="x")
    assert len(loader) == 2
    assert [[t.placements for t in batch] for batch in loader] == [[[dist.Shard(0)]] * 2] * 2


SCRIPT = """
import os, sys
import bireme.distributed as dist

def work(path):
    with open(path, "w") as file:
        file.write(os.environ["PADDLE_TRAINERS_NUM"] + str(dist.get_rank()))
    raise ValueError("from inside")

if __name__ == "__main__":
    names = ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_LOCAL_RANK", "PADDLE_NNODES", "PADDLE_LOG_DIR")
    print(sys.argv[1:], [os.environ.get(name) for name in names])
    if "spawn" in sys.argv:
        try:
            dist.spawn(work, args=(sys.argv[-1],), nprocs=1)
        except RuntimeError as e:
            print(open(sys.argv[-1]).read(), "ValueError: from inside" in str(e))
"""


def run(*arguments):
    command = [sys.executable, "-m", "bireme.distributed.launch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("launch") / "script.py"
    path.write_text(SCRIPT)
    return path


def test_launch_and_spawn(script):
    out = script.with_name("out.txt")
    done = run("--nproc_per_node", "1", "--log_dir=logs", str(script), "spawn", str(out))
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"['spawn', '{out}'] ['0', '1', '0', '1', '")
    assert lines[1:] == ["10 True"]


def test_joining_what_was_spawned():
    class Process:
        def __init__(self, exitcode):
            self.exitcode, self.pid, (self.sentinel, self.other) = exitcode, None, os.pipe()
            if exitcode is not None:
                os.close(self.other)  # as the end of a process does

    def join(exitcode):
        return sys.modules["bireme.distributed.spawn"].MultiprocessContext([Process(exitcode)], [None]).join(0.01)

    assert (join(0), join(None)) == (True, False)


def test_a_port_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RuntimeError, match=rf"expected an address that is free, got {address}, where another"):
            connection.serve(address, 2)


def test_one_that_fails_while_it_is_looked_at_is_told():
    class Process:
        """It has ended when its exit code is asked for the second time."""

        def __init__(self):
            self.codes, self.pid, (self.sentinel, _) = [None, None, 1], None, os.pipe()

        @property
        def exitcode(self):
            return self.codes.pop(0) if len(self.codes) > 1 else 1

        def join(self, timeout=None):
            pass

    queue = multiprocessing.get_context("spawn").SimpleQueue()
    queue.put("ValueError: from inside")
    context = sys.modules["bireme.distributed.spawn"].MultiprocessContext([Process()], [queue])
    with pytest.raises(RuntimeError, match="from inside"):
        context.join()


def test_a_program_for_paddle_is_launched(script):
    program = script.with_name("program.py")
    program.write_text("import paddle, sys\nprint(sys.argv[1:], paddle.distributed.init_parallel_env().nranks)\n")
    command = [sys.executable, "-m", "bireme.compat", "-m", "paddle.distributed.launch", str(program), "a"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (done.stdout, done.stderr) == ("['a'] 1\n", "")


def test_the_launcher_checks_its_command_line(script):
    from bireme.distributed.launch import main

    def code(*arguments):
        with pytest.raises(SystemExit) as error:
            main.parse(arguments)
        return error.value.code

    assert main.parse([str(script), "--nproc_per_node", "2"]) == ({}, [str(script), "--nproc_per_node", "2"])
    assert main.parse(["--gpus", "0", "--rank=0", "-m", "x"]) == ({"devices": "0", "rank": "0"}, ["-m", "x"])
    assert [code(), code("nosuch.py"), code("--nosuch", "1"), code("--rank"), code("--nnodes", "a", "x")] == [2] * 5
    assert code("--run_mode", "nosuch", str(script)) == 2


@pytest.mark.parametrize(("given", "found"), [
    ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "3",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "a"}, ("4", "3", "3", "127.0.0.1:31907")),
    ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PADDLE_MASTER": "n1:7000"}, ("4", "3", "1", "n1:7000")),
    ({"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "a",
      "SLURM_STEP_NODELIST": "gpu[03-05,9]-x,other"}, ("2", "1", "0", "gpu03-x:31907")),
    ({"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "80"}, ("2", "1", "0", "n1:80")),
    ({"PADDLE_TRAINERS_NUM": "1", "WORLD_SIZE": "2", "RANK": "1"}, ("1", None, None, None)),
    ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, (None, None, None, None)),  # a batch script, and not a step of it
])  # fmt: skip
def test_the_place_of_a_process_as_other_engines_tell_it(given, found):
    engines.adopt(given)
    names = ("PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", "PADDLE_LOCAL_RANK", "PADDLE_MASTER")
    assert tuple(given.get(name) for name in names) == found


def test_batches_do_not_depend_on_the_number_of_processes():
    found = {}
    for count in (1, 2, 4):
        parts = [dist.elastic.GlobalBatchSampler(range(19), 4, count, rank, shuffle=True) for rank in range(count)]
        for epoch in range(2):
            found[count, epoch] = [[i for part in batch for i in part] for batch in zip(*parts, strict=True)]
            assert len(parts[0]) == 4
    assert found[1, 0] != found[1, 1]
    assert all(found[count, epoch] == found[1, epoch] for count, epoch in found)
    with pytest.raises(ValueError, match="a positive multiple of the number of processes, 3, got 4"):
        dist.elastic.GlobalBatchSampler(range(19), 4, 3, 0)


@pytest.mark.parametrize("wrong", [
    lambda: dist.all_reduce("a"),
    lambda: dist.stream.all_reduce("a"),
    lambda: dist.broadcast(bireme.ones([1]), 7),
    lambda: dist.communication.all_gather([], 3),
    lambda: dist.new_group([5]),
    lambda: fleet.Fleet().distributed_model(3),
    lambda: fleet.init_server(),
    lambda: fleet.DistributedStrategy(colour=1),
    lambda: dist.sharding.group_sharded_parallel(3, 4, "os"),
    lambda: dist.load_state_dict({}, "nowhere"),
    lambda: dist.elastic.GlobalBatchSampler(range(4), 3, 2, 0),
    lambda: dist.ProcessMesh("a"),
    lambda: dist.shard_tensor(bireme.ones([2]), 3, []),
    lambda: dist.rpc.rpc_sync("nobody", len),
])  # fmt: skip
def test_errors_end_at_the_line_of_the_user(wrong):
    with pytest.raises((ValueError, TypeError, RuntimeError, LookupError, AttributeError, OSError)) as found:
        wrong()
    files = {entry.path.name for entry in found.traceback}
    assert files == {os.path.basename(__file__)}, found.getrepr()


def test_the_word_of_a_library_for_an_error_is_not_shown():
    """What jax says of a broken connection is the cause of an error that says more; a cause from a user's line stays."""

    def raised(source):
        scope = {}
        exec(compile("def fail():\n    raise ValueError('reset by peer')", source, "exec"), scope)
        error = errors.failure("all_reduce(): rank 1 is gone")
        try:
            try:
                scope["fail"]()
            except ValueError as e:
                e.__traceback__ = e.__traceback__.tb_next
                raise error from e
        except RuntimeError:
            errors.leave(error)
        return error.__cause__

    assert raised(os.path.join(os.sep, "site-packages", "jax", "_src", "stages.py")) is None
    assert raised("train.py") is not None


def test_calls_between_processes_leave_no_thread_behind():
    def left():
        threads = [t for t in threading.enumerate() if t.name == "bireme-rpc"]
        for t in threads:
            t.join(5)
        return [t for t in threads if t.is_alive()]

    for _ in range(3):
        dist.rpc.init_rpc("alone", rank=0, world_size=1)
        try:
            assert dist.rpc.rpc_sync("alone", int, args=("7",)) == 7
        finally:
            dist.rpc.shutdown()
        assert not left()
