"""Placements: tensors on meshes of devices and of processes, and training that does not change by them."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import mesh_programs as programs
import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme.core.base import mesh as meshes

HERE = Path(__file__).resolve().parent
EIGHT = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    "JAX_PLATFORMS": "cpu",
    "PYTHONPATH": str(HERE.parent),
}


def run_on_eight(*command):
    """Run a program in a process that has eight devices."""
    done = subprocess.run(
        [sys.executable, *map(str, command)], env={**os.environ, **EIGHT}, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def start():
    """Run a function of `mesh_programs` in several processes."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bireme", "pytest"])
    return lambda function, *args, count=2: dist.spawn(function, args, nprocs=count, start_method="forkserver")


def test_placements_on_eight_devices(tmp_path):
    path = tmp_path / "losses.json"
    run_on_eight(HERE / "mesh_programs.py", "some_on_eight", path)
    for name, found in json.loads(path.read_text()).items():
        assert len(found["one"]) == 4, name
        np.testing.assert_allclose(found["mesh"], found["one"], rtol=0, atol=1e-5, err_msg=name)
        # one program for all steps. Its all-reduces: means and variances of the batch forward and backward, the
        # product that is divided by rows, the loss, and the gradients
        assert found.get("counts", [1, {"all-reduce": 8}]) == [1, {"all-reduce": 8}]


@pytest.mark.full
def test_all_pairs_of_placements_and_plans():
    run_on_eight(HERE / "mesh_programs.py", "all_on_eight")


@pytest.mark.full
def test_divided_optimizers_train_as_one_device(tmp_path):
    path = tmp_path / "losses.json"
    run_on_eight(HERE / "mesh_programs.py", "divided", path)
    found = json.loads(path.read_text())
    for stage in ("1", "2", "3"):
        np.testing.assert_allclose(found[stage], found["one"], rtol=0, atol=1e-5)


def test_a_gpt_needs_five_lines():
    text = Path(programs.EXAMPLE).read_text().split("if args.mesh:\n")[1].split("\n\n")[0]
    assert len(text.splitlines()) <= 5


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.full)])
def test_processes_share_a_mesh(start, tmp_path, count):
    path = tmp_path / "losses.json"
    start(programs.shared, str(path), count, count=count)
    found = json.loads(path.read_text())
    one = programs.losses(4, net=programs.Mlp)[0]
    for how in ("mesh", "read"):  # what one process reads alone changes nothing
        np.testing.assert_allclose(found[how], one, rtol=0, atol=1e-5)


def test_processes_that_call_different_functions_are_told(start):
    start(programs.different_calls)


def test_what_one_process_computes_alone_changes_nothing(start):
    start(programs.lone_calls)


def test_layouts():
    devices = dist.ProcessMesh([0], dim_names=["x"])._devices("test")
    assert meshes.Layout(devices, (("0",), ())) is meshes.Layout(devices, (("0",),))
    assert not meshes.Layout(devices, (meshes.OPEN,)).settled
    assert devices is dist.ProcessMesh([0], dim_names=["y"])._devices("test")


def test_calls_of_this_process_alone_are_no_part_of_a_mesh():
    mesh = dist.ProcessMesh([0], dim_names=["x"])
    x = dist.shard_tensor([1.0, 2.0], mesh, [dist.Shard(0)])
    y = x * 2
    depth = y._value.segment.state.depth
    alone = bireme.ones([2]) + 1
    assert (alone.is_dist(), y._value.segment.state.depth, alone.tolist()) == (False, depth, [2, 2])
    assert y._value.array is None and (y + alone).tolist() == [4, 6]
    assert "placements=[Shard(dim=0)]" in repr(x)


def test_strategies():
    strategy = dist.Strategy({"sharding": {"enable": True, "stage": 2}, "seed": 3})
    assert (strategy.sharding.enable, strategy.sharding.degree, strategy.seed) == (True, 8, 3)
    assert strategy.get("amp").level == "o1" and strategy.to_dict()["pipeline"]["schedule_mode"] == "1F1B"
    with pytest.raises(ValueError, match="groups among sharding"):
        dist.Strategy({"sharing": {}})
    attr = dist.DistAttr(dist.ProcessMesh([[0, 1], [2, 3]], ["x", "y"]), ["y", None])
    assert (attr.dims_mapping, attr.multi_dims_mapping, attr.sharding_specs) == ([1, -1], [[1], []], ["y", None])
    assert attr.verify([2, 2]) and not attr.verify([2]) and attr.is_annotated("process_mesh")
    with pytest.raises(ValueError, match="different names among x, y"):
        dist.DistAttr(attr.process_mesh, ["x", "x"])
