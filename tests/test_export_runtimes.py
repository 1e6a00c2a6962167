"""Models for other runtimes: ONNX Runtime's format, modules of IREE where it is installed, and Paddle Lite's command."""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.command import main
from bireme.export import opt, to_iree
from bireme.static import InputSpec

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model in a folder, an input and what it gives."""
    folder = tmp_path_factory.mktemp("models")
    bireme.seed(0)
    net = nn.Sequential(nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    net.eval()
    bireme.jit.save(net, str(folder / "net"), [InputSpec([None, 1, 8, 8], "float32", "x")])
    x = np.random.default_rng(0).standard_normal((2, 1, 8, 8)).astype("float32")
    return folder, x, net(bireme.to_tensor(x)).numpy()


def test_onnx_runtimes_format(saved, capsys):
    folder, x, y = saved
    assert main(["export", str(folder / "net"), "--to", "ort", "-o", str(folder / "net.ort")]) == 0
    session = runtime.InferenceSession(str(folder / "net.ort"), providers=["CPUExecutionProvider"])
    assert (
        np.allclose(session.run(None, {"x": x})[0], y, atol=1e-5) and (folder / "net.ort").read_bytes()[4:8] == b"ORTM"
    )
    assert main(["export", str(folder / "net"), "--to", "ort", "-o", str(folder / "net.onnx")]) == 1
    assert "a path that ends in .ort" in capsys.readouterr().err


def test_modules_of_iree(saved, capsys):
    folder, x, y = saved
    given = ["export", str(folder / "net"), "--to", "iree", "-o", str(folder / "net.vmfb")]
    assert main(given) == 1 and "IREE needs every size" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"to_iree\(target\): expected one of cpu, vulkan, android, riscv"):
        to_iree(str(folder / "net"), folder / "net.vmfb", target="abacus")
    pytest.importorskip("iree.compiler", reason="iree-base-compiler is not installed")
    for target in ("android", "riscv", "vulkan", "cpu"):
        assert main([*given, "--shape", "x=2,1,8,8", "--target", target]) == 0
    made = pytest.importorskip("iree.runtime", reason="iree-base-runtime is not installed")
    module = made.load_vm_flatbuffer_file(str(folder / "net.vmfb"), driver="local-task")
    assert np.allclose(module.bireme(x).to_host(), y, atol=1e-5)


def test_paddle_lites_command(saved, capsys):
    folder, x, y = saved
    given = ["--model_file", str(folder / "net.json"), "--optimize_out", str(folder / "lite")]
    assert opt.main([*given, "--valid_targets", "npu,arm", "--shape", "x=2,1,8,8", "--quant_model", "true"]) == 0
    assert "int lite_run(const float *x" in (folder / "lite.c").read_text() and (folder / "lite.weights").exists()
    assert opt.main([*given, "--optimize_out_type", "protobuf", "--record_tailoring_info", "true"]) == 0
    session = runtime.InferenceSession(str(folder / "lite.ort"), providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": x})[0], y, atol=1e-5)
    capsys.readouterr()
    for options, told in (
        (["--valid_targets", "npu"], "npu needs its maker's libraries"),
        (["--valid_targets", "abacus"], "--valid_targets: expected arm, x86, host or opencl, got 'abacus'"),
        (["--quant_model", "true", "--quant_type", "QUANT_INT16"], "integers of 16 bits are not written"),
        (["--param_file", "elsewhere"], "--param_file: expected the file beside --model_file"),
        (["--shape", "x"], "--shape: expected NAME=1,3,224,224"),
        ([], "C needs every size"),
    ):
        assert opt.main([*given, *options]) == 1 and told in capsys.readouterr().err
    assert opt.main(given[2:]) == 1
