"""The search for a plan: descriptions without numbers, prices, files, and what compiled programs say about them."""

import json

import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.distributed import planning
from bireme.distributed.planning import memory, rehearsal, report, search
from bireme.nn import functional as F
from bireme.static import InputSpec

TINY = planning.Size(vocabulary=64, width=32, inner=64, heads=2, shared_heads=2, blocks=2)
EXPERTS = planning.Size(vocabulary=64, width=32, inner=64, heads=2, shared_heads=2, blocks=2, experts=4)
LINK = planning.Link(1e9, 1e-5)
CPU = planning.Hardware(
    "cpu", {"float32": 1e10}, 1e12, 1e9, LINK, LINK, efficiency=1.0, overlap=0.0, reduce_scatter=False, adds_first=False,
    combines=False, flash_attention=False, in_place=False, keeps=True,
)  # fmt: skip


def ids(batch, length):
    return [InputSpec([batch, length], "int64"), InputSpec([batch, length], "int64")]


@pytest.fixture(scope="module")
def tiny():
    return planning.describe(planning.language_model(TINY), ids(4, 8), F.cross_entropy)


@pytest.fixture(scope="module")
def large():
    return planning.describe(planning.language_model("llama-70b"), ids(1, 8192), F.cross_entropy)


def test_a_description_is_recorded_without_numbers(large):
    assert large.parameters == 70_553_706_496 and large.tokens == 8192 and large.blocks == "blocks"
    assert [p.name for p in large.parts] == ["", *[f"blocks.{i}" for i in range(80)], ""]
    block = large.parts[1]
    products = 2 * 8192 * block.divided_parameters
    assert block.divided_flops == products and block.attention_flops == 4 * 64 * 128 * 8192**2
    assert (block.reduced, block.backward_reduced) == (2, 2) and large.sizes[:2] == [8, 64]
    roles = {name.rpartition(".")[2]: role for name, role in large.roles.items()}
    assert roles == {
        **dict.fromkeys(("q", "k", "v", "gate", "up", "head"), "column"), "out": "row", "down": "row",
        "before": "norm", "between": "norm",
    }  # fmt: skip


def test_the_model_given_stays_as_it_is():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    before = model.state_dict()["0.weight"].numpy()
    found = planning.describe(model, bireme.ones([3, 4]))
    assert found.roles == {"0": "column", "2": "row"} and found.blocks == ""
    assert (model(bireme.ones([3, 4])).shape, model[0].weight.numpy().tolist()) == ([3, 2], before.tolist())


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        # one all-reduce of all gradients; in stage 1 each of the parameters is gathered
        ({"dp": 2}, {"all-reduce": (1, 4 * 24_736)}),
        ({"dp": 2, "zero": 1}, {"all-reduce": (1, 4 * 24_736), "all-gather": (21, 4 * 24_736)}),
        # two blocks with two products by rows each, gradients of q, k, v and of gate and up, the head's, the loss
        ({"tp": 2}, {"all-reduce": (11, 4096 * (4 + 10 + 1) + 5 * 4 * 32)}),
        ({"pp": 2}, {"send": (1, 4096)}),
    ],
)
def test_collectives(tiny, degrees, expected):
    choice = planning.Choice(**degrees, micro_batch=4 // degrees.get("dp", 1))
    found = {}
    for c in search.priced(tiny, choice, CPU, memory.Precision()).collectives:
        count, payload = found.get(c.kind, (0, 0))
        found[c.kind] = (count + c.count, payload + c.payload)
    assert found == expected


def test_a_compiled_program_is_what_was_predicted(tiny):
    # all others: python -m benchmarks.plans
    choice = planning.Choice(dp=2, zero=3, micro_batch=2)
    price = search.priced(tiny, choice, CPU, memory.Precision())
    found = planning.rehearse(planning.Plan(choice, tiny), planning.language_model(TINY), ids(4, 8), F.cross_entropy)
    assert found.programs == 1
    for kind in ("all-gather", "all-reduce"):
        some = [c for c in price.collectives if c.kind == kind]
        assert found.collectives[kind] == sum(c.count for c in some)
        assert abs(found.payload[kind] - sum(c.payload for c in some)) <= 4  # the loss
    assert abs(price.memory.total / found.memory - 1) < 0.15


def test_collectives_in_loops_count_as_often_as_they_turn():
    text = """
%inner.1 (p: f32[2]) -> f32[2] {
  %a = f32[8]{0} all-gather(%p), channel_id=1, replica_groups={{0,1}}, dimensions={0}
}
%outer (p: f32[2]) -> f32[2] {
  %w = (s32[], f32[2]{0}) while(%t), condition=%c, body=%inner.1, backend_config={"known_trip_count":{"n":"3"}}
}
ENTRY %main (p: f32[2]) -> f32[2] {
  %w.2 = (s32[], f32[2]{0}) while(%t), condition=%c, body=%outer, backend_config={"known_trip_count":{"n":"2"}}
  %b = f32[4]{0} all-reduce(%p), channel_id=2, replica_groups={{0,1}}, to_apply=%add
}
"""
    assert rehearsal.collectives(text) == [*[("all-gather", 32)] * 6, ("all-reduce", 16)]


def test_stages_have_optimizers_of_their_own():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    config = {"dp_config": {"sharding_level": 0}, "pp_config": {"split_spec": {"0": dist.SplitPoint.END}}}

    class Stages(planning.Plan):
        def parallelize_config(self):
            return config

    chosen = Stages(planning.Choice(pp=2, micro_batch=2), planning.describe(model, bireme.ones([2, 2])))
    found = planning.rehearse(chosen, model, bireme.ones([2, 2]))  # with AdamW
    assert found.collectives == {"send": 2} and found.payload == {"send": 32}


def test_what_the_search_finds(large):
    found = dist.plan(large, devices=256, batch=512, fixed={"tp": 8, "pp": 1})
    assert found.choice.devices == 256 and found.choice.batch == 512
    assert found.memory.total <= 0.92 * 80e9 and found.choice.zero >= 1
    assert 400 < report.rates(found)[1] < 900  # tokens a second of a device; 829 are published
    told = str(found)
    for part in ("tp all-gather", "first reason", "ways looked at", "tokens/s a device"):
        assert part in told
    reasons = [row[3] for row in found.others]
    assert any(r.startswith("memory: ") for r in reasons) and any("x the time" in r for r in reasons)


def test_nothing_fits(large):
    with pytest.raises(ValueError, match=r"nearest miss, dp8 zero3 micro-batch 1 recompute, needs 1\d\d.\d GB") as e:
        dist.plan(large, devices=8, batch=8, fixed={"tp": 1, "pp": 1})
    assert str(e.value).count("\n") <= 1


def test_experts_are_divided(tiny):
    found = planning.describe(planning.language_model(EXPERTS), ids(4, 8), F.cross_entropy)
    assert found.experts == 4 and found.parts[1].expert_parameters == 3 * 4 * 32 * 64
    # two of four experts for each token, there and back
    assert found.parts[1].dispatched_bytes == 2 * 2 * 4 * 8 * 32 * 4
    choices = list(search.choices(found, 4, 4, CPU, {"tp": 1, "pp": 1, "zero": 0}))
    assert {c.ep for c in choices} == {1, 2, 4}
    moved = {c.kind for c in search.priced(found, planning.Choice(dp=4, ep=4), CPU, memory.Precision()).collectives}
    assert "all-to-all" in moved
    with pytest.raises(NotImplementedError, match="ep equal to dp, 4"):
        planning.Choice(dp=4, ep=2).parallelize_config(found)


def test_a_plan_is_saved_and_runs(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    found = dist.plan(model, bireme.ones([6, 4]), devices=1)
    found.save(tmp_path / "plan.json")
    loaded = planning.Plan.load(tmp_path / "plan.json")
    assert loaded == found and str(loaded) == str(found)
    found.to_html(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert page.count("<svg") == 1 and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    sgd = bireme.optimizer.SGD(0.1, parameters=model.parameters())
    loader = bireme.io.DataLoader(bireme.io.TensorDataset([bireme.ones([6, 4])]), batch_size=6)
    model, sgd, loader = dist.to_distributed(model, sgd, loader, device_num=1, config=loaded)
    assert [model(x).shape for (x,) in loader] == [[6, 2]] and model[0].weight.is_dist()
    with pytest.raises(ValueError, match="a plan for 2 devices"):
        dist.to_distributed(model, sgd, loader, device_num=2, config=loaded)
    (tmp_path / "plan.json").write_text(json.dumps({"kind": "bireme plan", "format": 1}))
    with pytest.raises(ValueError, match="the values of a plan"):
        planning.Plan.load(tmp_path / "plan.json")


def test_blocks_that_are_recomputed_train_alike():
    losses = []
    for again in (False, True):
        bireme.seed(0)
        model = planning.LanguageModel(TINY)
        sgd = bireme.optimizer.SGD(0.1, parameters=model.parameters())
        chosen = planning.Plan(planning.Choice(recompute=again), planning.describe(model, ids(2, 8), F.cross_entropy))
        dist.parallelize(model, sgd, config=chosen)
        x = dist.shard_tensor(np.arange(16).reshape(2, 8), chosen.process_mesh(), [])
        loss = F.cross_entropy(model(x), x)
        loss.backward()
        losses.append([loss.item(), model.blocks[0].attention.q.weight.grad.numpy().sum()])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_hardware_files(tmp_path):
    for name in ("A100", "H100", "H200"):
        found = planning.Hardware.load(name)
        (tmp_path / "own.json").write_text(json.dumps(found.to_dict()))
        assert planning.Hardware.load(tmp_path / "own.json") == found and found.rate("bfloat16") > 3e14
    wrong = {**planning.Hardware.load("H100").to_dict(), "memory": -1}
    with pytest.raises(ValueError, match=r"memory: expected a positive number, got -1"):
        planning.Hardware.from_dict(wrong)
    with pytest.raises(ValueError, match="one of A100, H100, H200"):
        planning.Hardware.load("H900")
    # eight devices of a machine send through eight adapters; one alone through its own
    h100 = planning.Hardware.load("H100")
    assert h100.link(8, 1) == h100.node and h100.link(16, 8).bandwidth == h100.network.bandwidth
    assert h100.link(16, 1).bandwidth == 8 * h100.network.bandwidth
