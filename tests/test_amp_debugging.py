"""Checks for NaN and infinity name the operator and the user's line; operators are counted by type; two runs are
compared.
"""

import csv
import zipfile

import pytest

import bireme
from bireme import nn
from bireme.amp import debugging as d
from bireme.amp.debugging import DebugMode, TensorCheckerConfig
from bireme.core.graph import segment


@pytest.fixture(autouse=True)
def _end():
    yield
    d.disable_tensor_checker()
    TensorCheckerConfig.current_step_id = 0
    assert segment.debug_mode.watchers == []


def bad():
    return bireme.to_tensor([1.0, 0.0, float("nan"), float("inf")])


def test_figures_of_a_tensor(capsys):
    counts, sizes = d.check_numerics(bad(), "op", "x", DebugMode.CHECK_NAN_INF)
    assert counts.tolist() == [1, 1, 1]
    assert counts.dtype == bireme.int64 and sizes.dtype == bireme.float32
    assert (
        "[PRECISION] [ERROR] in [device=cpu, op=op, tensor=x, dtype=fp32], numel=4, num_nan=1, num_inf=1, num_zero=1"
        in capsys.readouterr().out
    )
    with pytest.raises(RuntimeError, match=r"op=op, tensor=x.*num_nan=1(.|\n)*test_amp_debugging.py"):
        d.check_numerics(bad(), "op", "x")
    d.check_numerics(bireme.to_tensor([1.0]), "op", "x")
    assert capsys.readouterr().out == ""
    d.check_numerics(bireme.to_tensor([1e6]), "op", "x", DebugMode.CHECK_ALL_FOR_OVERFLOW)
    assert "[WARNING]" in capsys.readouterr().out
    with pytest.raises(TypeError, match="a floating-point Tensor"):
        d.check_numerics(bireme.to_tensor([1]), "op", "x")


def test_the_checker_names_operator_and_line():
    d.enable_tensor_checker(TensorCheckerConfig(enable=True))
    x = bireme.to_tensor([-1.0])
    with pytest.raises(
        RuntimeError,
        match=r"log: There are NAN or INF \(num_nan=1, num_inf=0\) in .* shape \[1\]\n  at test_amp_debugging.py:\d+",
    ):
        bireme.log(x)
    d.disable_tensor_checker()
    assert bireme.log(x).isnan().all()


def test_the_checker_sees_gradients():
    x = bireme.to_tensor([0.0], stop_gradient=False)
    y = bireme.sqrt(x)
    d.enable_tensor_checker(TensorCheckerConfig(enable=True))
    with pytest.raises(RuntimeError, match=r"sqrt.*: There are NAN or INF"):
        y.backward()


def test_which_operators_are_checked(capsys):
    for lists, names in (
        ({}, ["divide", "log"]),
        ({"checked_op_list": ["elementwise_div"]}, ["divide"]),
        ({"skipped_op_list": ["divide"]}, ["log"]),
    ):
        d.enable_tensor_checker(TensorCheckerConfig(enable=True, debug_mode=DebugMode.CHECK_NAN_INF, **lists))
        x = bireme.to_tensor([0.0]) / bireme.to_tensor([0.0])
        bireme.log(x)
        d.disable_tensor_checker()
        out = capsys.readouterr().out
        assert [n for n in ("divide", "log") if f"op={n}," in out] == names


def test_steps(capsys):
    config = TensorCheckerConfig(enable=True, debug_mode=DebugMode.CHECK_NAN_INF, debug_step=(1, 3))
    told = []
    for _ in range(5):
        d.enable_tensor_checker(config)
        bireme.log(bireme.to_tensor([-1.0]))
        told.append("op=log" in capsys.readouterr().out)
    assert told == [False, True, True, False, False]


def test_bad_configs():
    for given, kind in (({"debug_step": 3}, ValueError), ({"debug_step": [3, 1]}, AssertionError), ({"debug_mode": 3}, AttributeError),
                        ({"checked_op_list": "a"}, ValueError), ({"skipped_op_list": [1]}, TypeError)):  # fmt: skip
        with pytest.raises(kind, match=r"TensorCheckerConfig\("):
            TensorCheckerConfig(enable=True, **given)
    with pytest.raises(TypeError, match="a TensorCheckerConfig"):
        d.enable_tensor_checker(True)


def test_a_checked_layer():
    class Inverse(nn.Layer):
        @d.check_layer_numerics
        def forward(self, x):
            return 1 / x

    assert Inverse()(bireme.to_tensor([4.0])).tolist() == [0.25]
    with pytest.raises(RuntimeError, match=r"Inverse: \w+: There are NAN or INF(.|\n)*test_amp_debugging.py"):
        Inverse()(bireme.to_tensor([0.0]))
    with pytest.raises(RuntimeError, match="a positional input"):
        Inverse()()
    with pytest.raises(RuntimeError, match="a Tensor as first input"):
        Inverse()(3)


def test_operators_by_type(capsys):
    x = bireme.ones([2, 2])
    with d.collect_operator_stats():
        y = bireme.matmul(x, x) + 1
        y.astype("float16").exp()
        bireme.to_tensor([1, 2]) + 1
    lines = capsys.readouterr().out.splitlines()
    rows = {w[0].strip(): [int(n) for n in w[1:]] for w in (line.split("|") for line in lines) if w[0].startswith("  ")}
    assert rows["matmul"] == [0, 0, 1, 0]
    assert rows["exp"] == [1, 0, 0, 0]
    assert rows["add"] == [0, 0, 1, 1]
    assert len(lines[0]) == len(lines[1]) == 122
    assert f"op count: {len(rows)}" in lines[-2]
    counts = bireme.base.core.get_low_precision_op_list()
    assert (counts["matmul_v2"], counts["elementwise_add"], counts["exp"]) == ("0,0,1,0", "0,0,1,1", "1,0,0,0")


def test_the_bias_of_a_convolution_counts_as_an_addition():
    x = bireme.ones([1, 1, 3, 3])
    for bias, expected in ((None, "0,0,1,0"), (False, None)):
        convolution = bireme.nn.Conv2D(1, 1, 2, bias_attr=bias)
        with d.collect_operator_stats():
            convolution(x)
        counts = bireme.base.core.get_low_precision_op_list()
        assert (counts["conv2d"], counts.get("elementwise_add")) == ("0,0,1,0", expected)


def test_a_checker_keeps_the_seed_and_counts_to_its_last_step():
    bireme.seed(102)
    config = TensorCheckerConfig(enable=True, debug_step=(0, 2))
    assert (config.seed, config.initial_seed) == (102, 102)
    assert [config.update_and_check_step_id() for _ in range(4)] == [True, True, False, False]
    assert TensorCheckerConfig.current_step_id == 2
    TensorCheckerConfig.current_step_id = 0
    bireme.seed(1 << 40)
    config = TensorCheckerConfig(enable=True)
    assert (config.seed, config.initial_seed) == (123, 1 << 40)


def test_a_scaler_that_is_off_begins_at_one():
    scaler = bireme.amp.GradScaler(enable=False, init_loss_scaling=8.0)
    assert scaler.get_init_loss_scaling() == scaler._init_loss_scaling == 1.0


@pytest.mark.parametrize("name", ["out.csv", "out.xlsx"])
def test_two_runs(tmp_path, name):
    for run, kind in enumerate(("float32", "float16")):
        d.enable_tensor_checker(
            TensorCheckerConfig(enable=True, debug_mode=DebugMode.CHECK_ALL, output_dir=str(tmp_path / str(run)))
        )
        x = bireme.to_tensor([300.0], dtype=kind)
        bireme.sqrt(x), x * x
        d.disable_tensor_checker()
    path = tmp_path / name
    d.compare_accuracy(str(tmp_path / "0"), str(tmp_path / "1"), str(path))
    if name.endswith("xlsx"):
        with zipfile.ZipFile(path) as archive:
            assert b"NaN or infinity in the second run alone" in archive.read("xl/worksheets/sheet1.xml")
        return
    rows = {row[0]: row for row in csv.reader(path.read_text().splitlines())}
    assert rows["multiply"][-1] == "NaN or infinity in the second run alone"
    assert rows["sqrt"][-1] == ""
    assert (rows["sqrt"][2], rows["sqrt"][10]) == ("fp32", "fp16")
    with pytest.raises(FileNotFoundError):
        d.compare_accuracy(str(tmp_path / "none"), str(tmp_path / "1"), str(path))
